"""`gz.open`: the files of a dataset, opened together."""

from __future__ import annotations

import json
import mmap
import os
import pickle
import shutil
import subprocess
import sys

import files
import numpy as np
import pytest

import graphzero as gz
from graphzero import _core
from graphzero.store.manifest import finish_renames, read_manifest


def test_a_dataset_has_what_was_put_in(dataset, order):
    folder, features, labels = dataset
    ds = gz.open(folder)
    assert (ds.num_nodes, ds.num_edges, ds.num_classes) == (500, 6000, 4)
    np.testing.assert_array_equal(np.asarray(ds.features), features)
    np.testing.assert_array_equal(ds.labels[np.arange(500)], labels)
    assert sorted(ds.splits) == ["train", "val"]
    assert ds.splits["val"].tolist() == list(range(10))
    with pytest.raises(KeyError, match="no split 'test'"):
        ds.splits["test"]
    assert len(ds.paths) == 5
    assert "num_nodes=500" in repr(ds)
    ds.close()
    assert _core.open_mappings() == 0


def test_close_refuses_while_a_view_lives(dataset):
    ds = gz.open(dataset[0])
    view = ds.splits["train"]
    with pytest.raises(BufferError, match="split_train"):
        ds.close()
    assert len(view) == 203


def test_datasets_are_pickled_by_path(dataset):
    folder, features, _ = dataset
    ds = pickle.loads(pickle.dumps(gz.open(folder)))
    np.testing.assert_array_equal(ds.features[3], features[3])
    assert ds.splits["val"].tolist() == list(range(10))


def test_opening_reads_headers_only(dataset):
    folder, _, _ = dataset
    path = folder / "features.gd"
    files.drop_from_cache(path)
    ds = gz.open(folder)
    pages = ds.features._mapping.size // mmap.PAGESIZE
    assert ds.features._mapping.resident_pages() <= max(2, pages)
    assert ds.features.shape == (500, 7)


def test_staged_files_of_a_committed_build_are_used(dataset):
    """As a build leaves them that is killed between its manifest and its renames."""
    folder, features, _ = dataset
    entry = read_manifest(folder).nodes[""].attributes["x"]
    os.rename(folder / entry.name, folder / entry.staged)
    (folder / entry.name).write_bytes(b"what the earlier build left")
    np.testing.assert_array_equal(np.asarray(gz.open(folder).features), features)
    finish_renames(folder, read_manifest(folder))
    assert not (folder / entry.staged).exists()
    np.testing.assert_array_equal(np.asarray(gz.open(folder).features), features)


def damage(folder, name):
    manifest = folder / "dataset.json"
    content = json.loads(manifest.read_text())
    if name == "no folder":
        shutil.rmtree(folder)
        return FileNotFoundError, "build one"
    if name == "no manifest":
        manifest.unlink()
        return FileNotFoundError, "no dataset.json"
    if name == "not json":
        manifest.write_text("{")
        return gz.FormatError, "not a graphzero dataset"
    if name == "json list":
        manifest.write_text("[1]")
        return gz.FormatError, "not a graphzero dataset"
    if name == "newer":
        manifest.write_text(json.dumps({**content, "version": 3}))
        return gz.FormatError, "version 3"
    if name == "key missing":
        del content["num_nodes"]
        manifest.write_text(json.dumps(content))
        return gz.FormatError, "num_nodes"
    if name == "direction missing":
        del content["neighbors"]
        manifest.write_text(json.dumps(content))
        return gz.FormatError, "neighbors"
    if name == "no direction":
        manifest.write_text(json.dumps({**content, "neighbors": "up"}))
        return gz.FormatError, "neighbors is 'up'"
    if name == "direction without its file":
        manifest.write_text(json.dumps({**content, "neighbors": "both"}))
        return gz.FormatError, "contradict"
    if name == "lists of the other direction":
        manifest.write_text(json.dumps({**content, "neighbors": "in"}))
        return gz.FormatError, "not the one that dataset.json describes"
    if name == "path outside":
        content["graph"]["name"] = "../graph.gl"
        manifest.write_text(json.dumps(content))
        return gz.FormatError, "outside the folder"
    if name == "file missing":
        (folder / "features.gd").unlink()
        return FileNotFoundError, "features.gd"
    if name == "file truncated":
        os.truncate(folder / "labels.gd", 5000)
        return gz.FormatError, "labels.gd is truncated"
    if name == "rows of another graph":
        files.write_rows(folder / "features.gd", np.zeros((7, 2)))
        return ValueError, "features.gd has 7 rows, and dataset.json says 500"
    files.write_graph(folder / "graph.gl", [[0, 1]], 500)
    return gz.FormatError, "not the one that dataset.json describes"


@pytest.mark.parametrize(
    "name",
    [
        "no folder",
        "no manifest",
        "not json",
        "json list",
        "newer",
        "key missing",
        "direction missing",
        "no direction",
        "direction without its file",
        "lists of the other direction",
        "path outside",
        "file missing",
        "file truncated",
        "rows of another graph",
        "another graph",
    ],
)
def test_damaged_datasets_are_refused_by_name(dataset, name):
    error, part = damage(dataset[0], name)
    with pytest.raises(error, match=part):
        gz.open(dataset[0])
    assert _core.open_mappings() == 0


def test_what_needs_no_torch_does_not_import_it(dataset):
    code = (
        "import sys, graphzero as gz\n"
        "ds = gz.open(sys.argv[1])\n"
        "gz.NeighborSampler(ds.graph, [2]).sample([1])\n"
        "ds.features.gather([1])\n"
        "large = {'torch', 'pyarrow', 'torch_geometric', 'matplotlib', 'rich'}\n"
        "loaded = large & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(dataset[0])],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=dataset[0],
    )
    assert done.returncode == 0, done.stderr
