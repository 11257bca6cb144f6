"""`gz.open`: the files of a dataset, opened together."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import files
import numpy as np
import pytest

import graphzero as gz
from graphzero import _core


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


def test_a_dataset_is_made_of_files_of_others(dataset):
    with gz.open(dataset[0]) as ds:
        own = {"year": ds.labels, "more": ds.features}
        made = gz.Dataset(ds.graph, attributes=own, edge_splits=ds.edge_splits)
        (batch,) = gz.NeighborLoader(made, [2], np.arange(5), batch_size=5)
        np.testing.assert_array_equal(batch.year, ds.labels.gather(batch.n_id))
        np.testing.assert_array_equal(batch.more, ds.features.gather(batch.n_id))
        assert (made.features, made.edge_splits) == (None, ds.edge_splits)
        with pytest.raises(ValueError, match="rows of amount, and the graph"):
            gz.Dataset(ds.graph, edge_attributes={"amount": ds.labels})


NO_DATASET = "not a graphzero dataset"
OTHER_GRAPH = "not the one that dataset.json describes"
# What is done to the folder, or to the content of its manifest, and what `open` then says.
DAMAGES = {
    "no folder": (shutil.rmtree, FileNotFoundError, "build one"),
    "no manifest": (lambda f: (f / "dataset.json").unlink(), FileNotFoundError, "no dataset.json"),
    "not json": (lambda f: (f / "dataset.json").write_text("{"), gz.FormatError, NO_DATASET),
    "newer": ({"version": 3}, gz.FormatError, "version 3"),
    "key missing": ({"num_nodes": None}, gz.FormatError, "num_nodes"),
    "no direction": ({"neighbors": "up"}, gz.FormatError, "neighbors is 'up'"),
    "direction without its file": ({"neighbors": "both"}, gz.FormatError, "contradict"),
    "lists of the other direction": ({"neighbors": "in"}, gz.FormatError, OTHER_GRAPH),
    "path outside": ({"graph": {"name": "../graph.gl"}}, gz.FormatError, "is no name of a .gl"),
    "file missing": (lambda f: (f / "features.gd").unlink(), FileNotFoundError, "features.gd"),
    "file truncated": (
        lambda f: os.truncate(f / "labels.gd", 5000),
        gz.FormatError,
        "labels.gd is truncated",
    ),
    "rows of another graph": (
        lambda f: files.write_rows(f / "features.gd", np.zeros((7, 2))),
        ValueError,
        "features.gd has 7 rows of x, and the graph 500 nodes",
    ),
    "another graph": (
        lambda f: files.write_graph(f / "graph.gl", [[0, 1]], 500),
        gz.FormatError,
        OTHER_GRAPH,
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_datasets_are_refused_by_name(dataset, name):
    folder, (change, error, part) = dataset[0], DAMAGES[name]
    if callable(change):
        change(folder)
    else:  # of the manifest; None takes an entry away
        content = json.loads((folder / "dataset.json").read_text())
        for key, value in change.items():
            new = {**content[key], **value} if isinstance(value, dict) else value
            content = {k: v for k, v in {**content, key: new}.items() if v is not None or k != key}
        (folder / "dataset.json").write_text(json.dumps(content))
    with pytest.raises(error, match=part):
        gz.open(folder)
    assert _core.open_mappings() == 0


def test_what_needs_no_torch_does_not_import_it(dataset):
    code = (
        "import sys, graphzero as gz, graphzero.pyg\n"
        "assert 'from_data' in graphzero.pyg.__all__\n"
        "ds = gz.open(sys.argv[1])\n"
        "gz.NeighborSampler(ds.graph, [2]).sample([1])\n"
        "ds.features.gather([1])\n"
        "assert 'x' in ds and 'train_mask' in dir(ds) and ds.num_features\n"
        "large = {'torch', 'pyarrow', 'torch_geometric', 'lightning', 'psutil', 'matplotlib'}\n"
        "loaded = large & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    command = [sys.executable, "-c", code, str(dataset[0])]
    subprocess.run(command, timeout=120, check=True, cwd=dataset[0])
