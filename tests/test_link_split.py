"""`gz.LinkSplit`: edges that are held out of the graph, and those that stay in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphzero as gz
from graphzero.ingest.build import build_dataset

NODES, EDGES, TIMES = 300, 6000, 50
RATES, RATED = ("user", "rates", "movie"), ("movie", "rev_rates", "user")


def _edges() -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    return rng.integers(0, NODES, (2, EDGES)), rng.integers(0, TIMES, EDGES)


def _pairs(edges: Any) -> set[tuple[int, ...]]:
    return set(map(tuple, np.sort(edges, axis=0).T.tolist()))


def _build(path: Path, by: str, **options: Any) -> gz.Dataset:
    edges, times = _edges()
    of_edges = {"edge_index": edges, "number": np.arange(EDGES)}
    if by == "time":
        of_edges["edge_time"] = times
    split = gz.LinkSplit(val=0.1, test=0.2, by=by, seed=1)
    return gz.build(path, of_edges, num_nodes=NODES, edge_splits=split, **options)


@pytest.mark.parametrize("by", ["random", "time"])
@pytest.mark.parametrize("options", [{}, {"directed": False}, {"coalesce": "first"}])
def test_the_graph_has_the_training_edges_only(
    tmp_path: Path, by: str, options: dict[str, Any]
) -> None:
    edges, times = _edges()
    with _build(tmp_path, by, **options) as ds:
        splits = ds.edge_splits
        positions = {part: splits[part].copy() for part in splits}
        assert list(positions) == ["train", "val", "test"]
        sizes = np.array([len(part) for part in positions.values()]) / EDGES
        np.testing.assert_allclose(sizes, [0.7, 0.1, 0.2], atol=0.03)
        parts = {part: splits.edge_index(part) for part in splits}
        for part, found in parts.items():
            np.testing.assert_array_equal(found, edges[:, positions[part]])
        assert _pairs(ds.edge_index.numpy()) == _pairs(parts["train"])
        one, other = parts["train"]
        mirrored = 0 if ds.graph.is_directed else np.count_nonzero(one != other)
        assert ds.num_edges == len(one) + mirrored
        if not options:
            stored = ds.edge_attributes["number"].gather(np.arange(ds.num_edges))
            assert sorted(stored.tolist()) == sorted(positions["train"].tolist())
            assert sum(map(len, positions.values())) == EDGES
        if by == "random":
            pairs = [_pairs(found) for found in parts.values()]
            assert len(set.union(*pairs)) == sum(map(len, pairs))
        else:
            first, middle, last = (splits.time(part) for part in splits)
            assert first.max() < middle.min()
            assert middle.max() < last.min()
            np.testing.assert_array_equal(last, times[positions["test"]])


def test_parts_are_the_seeds_of_a_loader(tmp_path: Path) -> None:
    with _build(tmp_path, "time") as ds:
        splits = ds.edge_splits
        loader = gz.LinkNeighborLoader(
            ds, [5], edge_label_index="val", edge_label_time=splits.time("val"), batch_size=64
        )
        seeds = [batch.n_id[batch.edge_label_index].numpy() for batch in loader]
        np.testing.assert_array_equal(np.hstack(seeds), splits.edge_index("val"))


@pytest.mark.parametrize("by", ["random", "time"])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_reverse_edge_type_is_split_alike(tmp_path: Path, by: str, reverse: bool) -> None:
    edges, times = _edges()
    order = np.random.default_rng(0).permutation(EDGES)
    first = edges[::-1] if reverse else edges
    lists = {
        RATES: {"edge_index": first, "edge_time": times},
        RATED: {"edge_index": edges[::-1][:, order], "edge_time": times[order]},
    }
    nodes = {name: {"num_nodes": NODES} for name in ("user", "movie")}
    split = {RATES: gz.LinkSplit(test=0.1, by=by)}
    options: Any = {"reverse": {RATES: reverse}, "edge_splits": split}
    with gz.build(tmp_path, nodes=nodes, edges=lists, **options) as ds:
        one, other = ds[RATES].splits, ds[RATED].splits
        assert list(one) == list(other) == ["train", "test"]
        for part in one:
            found = sorted(map(tuple, one.edge_index(part).T.tolist()))
            assert found == sorted(map(tuple, other.edge_index(part)[::-1].T.tolist()))


def test_a_split_is_the_same_in_little_memory(tmp_path: Path) -> None:
    edges, times = _edges()
    split = gz.LinkSplit(val=0.1, test=0.1, by="time")
    for name, memory in (("much", "1GB"), ("little", 40_000)):
        of_edges = {"edge_index": edges, "edge_time": times}
        build_dataset(tmp_path / name, of_edges, edge_splits=split, memory_limit=memory)
    files = [path.name for path in (tmp_path / "much").glob("*.g?")]
    assert {"graph.gl", "edge_split_val.gd"} < set(files)
    for name in files:
        assert (tmp_path / "much" / name).read_bytes() == (tmp_path / "little" / name).read_bytes()


def test_a_new_order_keeps_the_parts(tmp_path: Path) -> None:
    with _build(tmp_path, "random", order="input") as ds:
        before = {part: ds.edge_splits.edge_index(part) for part in ds.edge_splits}
    with gz.reorder(tmp_path, "hot") as ds:
        for part, edges in before.items():
            np.testing.assert_array_equal(ds.edge_splits.edge_index(part), edges)


def test_a_reverse_edge_type_without_times_is_refused(tmp_path: Path) -> None:
    edges, times = _edges()
    lists = {RATES: {"edge_index": edges, "edge_time": times}, RATED: {"edge_index": edges[::-1]}}
    split = {RATES: gz.LinkSplit(test=0.1, by="time")}
    nodes = {name: {"num_nodes": NODES} for name in ("user", "movie")}
    with pytest.raises(ValueError, match=r"rev_rates.*needs a time of each edge"):
        gz.build(tmp_path / "data", nodes=nodes, edges=lists, edge_splits=split)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        ({"val": 0.1}, r"gz\.LinkSplit holds out fractions"),
        ({"val": gz.LinkSplit(val=0.1)}, "not a LinkSplit of an edge type"),
        (gz.LinkSplit(val=0.1, by="time"), "needs a time of each edge"),
        (gz.LinkSplit(val=1e-9), "leaves none of 6,000 edges in 'val'"),
    ],
)
def test_refusals(tmp_path: Path, split: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gz.build(tmp_path / "data", _edges()[0], edge_splits=split)
    assert not (tmp_path / "data" / "dataset.json").exists()


@pytest.mark.parametrize(
    "split", [{}, {"val": 0.5, "test": 0.5}, {"val": 3}, {"test": 0.1, "by": "x"}]
)
def test_arguments(split: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"val|by must be"):
        gz.LinkSplit(**split)


def test_splits_of_positions_have_no_edges(tmp_path: Path) -> None:
    with gz.build(tmp_path, _edges()[0], edge_splits={"val": [1, 2]}) as ds:
        with pytest.raises(ValueError, match="has no source of its edges"):
            ds.edge_splits.edge_index("val")
        with pytest.raises(KeyError, match="no split 'test'"):
            ds.edge_splits.time("test")
