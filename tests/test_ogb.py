"""OGB's datasets: built from their folders and from plain arrays, byte for byte."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import ogb_folders as ogb
import pytest
import torch
from files import contents

import graphzero as gz
from graphzero.ingest.ogb import find_ogb

# Python only: the C code below it is sanitized by other tests of the build.
pytestmark = pytest.mark.no_asan


def plain(folder: Path, edges: Any, **more: Any) -> dict[str, bytes]:
    """The files of a build from arrays."""
    gz.build(folder, edges, **more).close()
    return contents(folder)


def imported(folder: Path, out: Path, **options: Any) -> dict[str, bytes]:
    gz.from_ogb(folder, out, **options).close()
    return contents(out)


def write_arxiv(folder: Path) -> ogb.Arrays:
    graph = ogb.random_graph()
    ogb.write_graph(folder, graph, "node_feat", "node_year")
    ogb.write_node_splits(folder, "time", ogb.random_splits())
    return graph


# Imports of all kinds of datasets are recorded: tests/recorded_sources.py.


def test_classes_are_whole_numbers(tmp_path: Path) -> None:
    graph, folder = ogb.random_graph(), tmp_path / "ogbn_papers100M"
    graph["label"] = np.full((ogb.NODES, 1), 1.5, np.float32)
    ogb.write_binary_graph(folder, graph, "node_feat", "node_year")
    ogb.write_node_splits(folder, "time", ogb.random_splits())
    with pytest.raises(ValueError, match=r"node_label, row 0: 1.5 is not a class"):
        gz.from_ogb(folder, tmp_path / "data")
    assert not (tmp_path / "data" / "dataset.json").exists()
    # Of others, they are not known to be classes: they stay floats.
    with gz.from_ogb(folder.rename(tmp_path / "ogbn_mine"), tmp_path / "data") as ds:
        np.testing.assert_array_equal(ds.labels[np.arange(ogb.NODES)], graph["label"][:, 0])


def test_split_type_and_direction_are_chosen(tmp_path: Path) -> None:
    folder = tmp_path / "ogbn_products_pyg"  # of an older release
    write_arxiv(folder)
    other = {name: ids[:2] for name, ids in ogb.random_splits().items()}
    ogb.write_node_splits(folder, "mine", other)
    with gz.from_ogb(folder, tmp_path / "data", split_type="mine") as ds:
        assert ds.splits["val"].tolist() == other["valid"].tolist()
        assert not ds.graph.is_directed
    with gz.from_ogb(folder, tmp_path / "data", split_type="mine", drop_self_loops=True) as ds:
        assert not any(v in ds.graph.neighbors(v) for v in range(ogb.NODES))
    folder = folder.rename(tmp_path / "my_graph")
    with pytest.raises(ValueError, match=r"directed=False if .*add_inverse_edge.* name="):
        find_ogb(folder)
    with pytest.raises(ValueError, match=r"split has mine, time: choose .* split_type="):
        find_ogb(folder, directed=True)
    assert find_ogb(folder, name="ogbn-arxiv")["directed"]
    assert not find_ogb(folder, name="ogbn-arxiv", directed=False)["directed"]
    with pytest.raises(ValueError, match="name='arxiv' must be"):
        find_ogb(folder, name="arxiv")
    (folder / "RELEASE_v1.txt").write_text("# Release note for ogbn-products\n\n### v1: 2020\n")
    assert not find_ogb(folder, split_type="time")["directed"]


def test_missing_and_damaged_files_are_named(tmp_path: Path) -> None:
    folder, out = tmp_path / "ogbn_arxiv", tmp_path / "data"
    message = r"NodePropPredDataset\('ogbn-arxiv'\)"
    for missing in ("raw/edge.csv.gz", "raw/node-label.csv.gz", "split/time/valid.csv.gz"):
        write_arxiv(folder)
        (folder / missing).unlink()
        with pytest.raises(FileNotFoundError, match=message) as error:
            gz.from_ogb(folder, out)
        assert error.value.filename == str(folder / missing)
    write_arxiv(folder)
    with pytest.raises(TypeError, match="features= is not an option here"):
        gz.from_ogb(folder, out, features="x.npy")
    ogb.write_text(folder / "raw" / "num-node-list.csv.gz", [10, 20])
    with pytest.raises(ValueError, match="not a complete file of one number, of one graph"):
        gz.from_ogb(folder, out)
    (folder / "raw" / "num-node-list.csv.gz").write_bytes(gzip.compress(b"30\n")[:-6])
    with pytest.raises(ValueError, match=r"num-node-list.csv.gz is not a complete file"):
        gz.from_ogb(folder, out)
    assert not out.exists()


def test_splits_that_are_not_node_ids(tmp_path: Path) -> None:
    folder = tmp_path / "ogbl_vessel"
    graph, splits = ogb.random_graph(), ogb.link_splits()
    ogb.write_binary_graph(folder, graph, "node_feat", label=False)
    (folder / "split" / "spatial").mkdir(parents=True)
    torch.save(splits, folder / "split" / "spatial" / "split_dict.pt")
    with pytest.warns(UserWarning, match="not imported"):
        found = imported(folder, tmp_path / "data")
    assert found == plain(tmp_path / "plain", graph["edge_index"], features=graph["node_feat"])
    folder = folder.rename(tmp_path / "ogbn_mine")
    np.savez_compressed(folder / "raw" / "node-label.npz", node_label=graph["label"])
    for wrong, message in (
        (splits, "split 'train' has dtype object"),
        ({"train": np.arange(3)}, "split_dict.pt is not a complete split into train, valid and"),
    ):
        torch.save(wrong, folder / "split" / "spatial" / "split_dict.pt")
        with pytest.raises(ValueError, match=message):
            gz.from_ogb(folder, tmp_path / "data")
