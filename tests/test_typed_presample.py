"""Presample order of typed graphs: counts of visits by node type, and their order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_program import run
from typed_inputs import CITES, WRITES, check_files

import graphzero as gz
from graphzero.ingest import build_dataset, reorder_dataset
from graphzero.sampling.sampler import NeighborSampler
from graphzero.store.format import read_file
from graphzero.store.manifest import Presampling, read_manifest

PAPERS, AUTHORS = 300, 90
BY = ("paper", "by", "author")
SAMPLING = gz.Presample(fanouts=(3, 2), batch_size=8, min_batches=9, seed=5)


def arguments(seed: int = 0, **more: Any) -> dict[str, Any]:
    """Papers and authors, whose hubs are not near the seeds."""
    rng = np.random.default_rng(seed)
    hubs = (PAPERS * rng.random((2, 900)) ** 2).astype(int)
    writes = np.stack([rng.integers(0, AUTHORS, 800), rng.integers(0, PAPERS, 800)])
    return {
        "nodes": {
            "paper": {
                "x": rng.random((PAPERS, 5), np.float32),
                "y": rng.integers(0, 3, PAPERS),
                "year": rng.integers(1990, 2020, PAPERS),
            },
            "author": {"num_nodes": AUTHORS},
        },
        "edges": {
            WRITES: {
                "edge_index": writes,
                "edge_attr": rng.random((800, 2)),
                "weight": hubs[0, :800],
            },
            BY: writes[::-1].copy(),
            CITES: hubs,
        },
        "splits": {"train": {"paper": rng.permutation(PAPERS)[:40] // 4 + 200}},
        "edge_splits": {"val": {WRITES: [5, 3]}},
        "time_attrs": "year",
        **more,
    }  # fmt: skip


def visits_of(folder: Path, ds: Any, name: str) -> np.ndarray[Any, Any]:
    """Counts by the user's ids."""
    counts = read_file(folder / f"{name}.visits.gd")[1]["rows"]
    found = np.empty(len(counts), int)
    found[ds[name].to_user(np.arange(len(counts)))] = counts
    return found


def listed(given: dict[str, Any], name: str) -> np.ndarray[Any, Any]:
    """How often each node of a type is a neighbour."""
    counts = np.zeros({"paper": PAPERS, "author": AUTHORS}[name], int)
    for kind, content in given["edges"].items():
        if kind[0] == name:
            ends = content["edge_index"] if isinstance(content, dict) else content
            np.add.at(counts, ends[0], 1)
    return counts


def naive_visits(ds: Any, presample: gz.Presample, seeds: dict[str, Any]) -> dict[str, Any]:
    """Counts of a plain loop, in the user's ids."""
    counts = {name: np.zeros(ds[name].num_nodes, int) for name in ds.node_types}
    sampler = NeighborSampler(ds, presample.fanouts, seed=presample.seed)
    size, first = presample.batch_size, 0
    for name, number in presample.num_batches({n: len(s) for n, s in seeds.items()}).items():
        ids = seeds[name]
        per_epoch = max(1, len(ids) // size)
        for i in range(number):
            epoch, batch = divmod(i, per_epoch)
            order = gz._core.permutation(
                len(ids), gz._core.key("shuffle", presample.seed, epoch, 0)
            )
            chosen = ids[order[size * batch : size * (batch + 1)]]
            found = sampler.sample({name: chosen}, epoch=epoch, batch=first + batch)
            for kind, nodes in found.n_id.items():
                counts[kind][np.unique(nodes)] += 1
        first += per_epoch
    return counts


@pytest.mark.parametrize(
    "splits",
    [
        None,
        {"train": {"paper": np.arange(250, 290)}},
        {"train": {"paper": np.arange(250, 290), "author": np.array([7, 7, 60, 3])}},
        {"train": {"author": np.array([], int), "paper": np.array([1])}, "val": {"author": [1]}},
    ],
)
@pytest.mark.parametrize("earlier", ["hot", "input", "presample"])
def test_reordering_counts_what_a_plain_loop_counts(
    tmp_path: Path, splits: Any, earlier: Any
) -> None:
    given = arguments(splits=splits, order=earlier)
    gz.build(tmp_path, **given).close()
    every = {"paper": np.arange(PAPERS), "author": np.arange(AUTHORS)}
    seeds = every
    if splits is not None:
        seeds = {n: np.asarray(ids) for n, ids in splits["train"].items() if len(ids)}
    with gz.open(tmp_path) as ds:  # counts are those of the files that are sampled
        expected = naive_visits(ds, SAMPLING, seeds)
    with gz.reorder(tmp_path, "presample", presample=SAMPLING) as ds:
        for name, counts in expected.items():
            np.testing.assert_array_equal(visits_of(tmp_path, ds, name), counts)
            users = ds[name].to_user(np.arange(len(counts)))
            keys = [np.arange(len(counts)), -listed(given, name), -counts]
            np.testing.assert_array_equal(users, np.lexsort(keys))
    check_files(tmp_path, "in")
    total = sum(SAMPLING.num_batches({n: len(ids) for n, ids in seeds.items()}).values())
    manifest = read_manifest(tmp_path)
    num_seeds = sum(map(len, seeds.values()))
    assert manifest.presampling == Presampling(total, 8, (3, 2), num_seeds, 5)
    assert manifest.order == "presample"
    assert run("verify", tmp_path, "--quiet") == 0


@pytest.mark.parametrize("limit", ["1MiB", "2GB"])
def test_a_build_in_this_order_is_that_of_a_reordered_hot_one(tmp_path: Path, limit: str) -> None:
    given = arguments(memory_limit=limit)
    build_dataset(tmp_path / "hot", **given)
    reorder_dataset(tmp_path / "hot", "presample", presample=SAMPLING, memory_limit=limit)
    build_dataset(tmp_path / "a", **given, order="presample", presample=SAMPLING)
    check_files(tmp_path / "a", "in")
    for path in (tmp_path / "a").glob("*.g[ld]"):
        assert path.read_bytes() == (tmp_path / "hot" / path.name).read_bytes(), path.name
    gz.build(tmp_path / "b", **arguments(), order="presample").close()
    assert read_manifest(tmp_path / "b").presampling == Presampling(64, 1024, (15, 10, 5), 40, 0)


def test_reordering_keeps_the_counts_and_the_content(tmp_path: Path) -> None:
    given = arguments()
    with gz.build(tmp_path, **given, order="presample", presample=SAMPLING) as ds:
        before = {name: visits_of(tmp_path, ds, name) for name in ds.node_types}
    for order in ("input", "hot", "presample"):
        manifest = read_manifest(tmp_path)
        with gz.reorder(tmp_path, order, presample=SAMPLING if order[0] == "p" else None) as ds:
            if order != "presample":
                for name, counts in before.items():
                    np.testing.assert_array_equal(visits_of(tmp_path, ds, name), counts)
            assert read_manifest(tmp_path).presampling == manifest.presampling
            everyone = np.arange(PAPERS)
            for name, values in given["nodes"]["paper"].items():
                np.testing.assert_array_equal(ds["paper"][name].gather(everyone), values)
            found, cites = ds[CITES].edge_index(), given["edges"][CITES]
            np.testing.assert_array_equal(found[:, np.lexsort(found)], cites[:, np.lexsort(cites)])
            np.testing.assert_array_equal(
                ds[WRITES].edge_index(), given["edges"][WRITES]["edge_index"]
            )
            assert ds[WRITES].splits["val"].tolist() == [5, 3]
        check_files(tmp_path, "in")
    gz.build(tmp_path, **given).close()
    assert not list(tmp_path.glob("*.visits.gd"))
    assert read_manifest(tmp_path).presampling is None


def test_fanouts_by_edge_type(tmp_path: Path) -> None:
    fanouts = {CITES: [4, 0], "default": [0, 2]}
    presample = gz.Presample(fanouts=fanouts, batch_size=8, min_batches=9, seed=5)
    given = arguments()
    gz.build(tmp_path, **given).close()
    with gz.open(tmp_path) as ds:
        expected = naive_visits(ds, presample, {"paper": given["splits"]["train"]["paper"]})
    with gz.reorder(tmp_path, "presample", presample=presample) as ds:
        np.testing.assert_array_equal(visits_of(tmp_path, ds, "paper"), expected["paper"])
    counted = read_manifest(tmp_path).presampling
    assert counted is not None
    assert counted.fanouts == {
        "author__writes__paper": (0, 2), "paper__by__author": (0, 2), "paper__cites__paper": (4, 0)
    }  # fmt: skip
    with pytest.raises(ValueError, match="fanouts name 'cites'"):
        gz.reorder(tmp_path, "presample", presample=gz.Presample(fanouts={"cites": [1]}))
    with pytest.raises(ValueError, match="fanouts lack the edge types"):
        gz.build(tmp_path, **given, order="presample", presample=gz.Presample(fanouts={CITES: [1]}))
    untyped = {"order": "presample", "presample": presample}
    with pytest.raises(ValueError, match="by edge type is for typed graphs"):
        gz.build(tmp_path / "untyped", [[0, 1]], **untyped)
    gz.build(tmp_path / "untyped", [[0, 1]]).close()
    with pytest.raises(ValueError, match="by edge type is for typed graphs"):
        gz.reorder(tmp_path / "untyped", **untyped)


def test_mini_batches_are_divided_among_the_types() -> None:
    presample = gz.Presample(fanouts=(2,), batch_size=10, epochs=2, min_batches=8, max_batches=100)
    assert presample.num_batches({"a": 300, "b": 100, "c": 0}) == {"a": 60, "b": 20}
    assert presample.num_batches({"a": 10, "b": 30}) == {"a": 2, "b": 6}  # 8 at least
    assert presample.num_batches({"a": 9000, "b": 1000, "c": 5}) == {"a": 90, "b": 10, "c": 1}


def test_of_very_many_seeds_evenly_spread_ones_are_taken(tmp_path: Path) -> None:
    kind = ("a", "r", "b")
    nodes = {"a": {"num_nodes": 600}, "b": {"num_nodes": 300}}
    presample = gz.Presample(fanouts=(2,), batch_size=5, max_batches=30, min_batches=1)
    edges = {kind: np.empty((2, 0), int)}  # only seeds are visited
    with gz.build(tmp_path, nodes=nodes, edges=edges, order="presample", presample=presample) as ds:
        for name, count in (("a", 600), ("b", 300)):
            found = np.flatnonzero(visits_of(tmp_path, ds, name))
            chosen = len(found)
            assert chosen == count // 6
            np.testing.assert_array_equal(found, np.arange(chosen) * count // chosen)


def test_the_training_split_must_have_nodes(tmp_path: Path) -> None:
    given = arguments(splits={"train": {"paper": np.array([], int)}})
    with pytest.raises(ValueError, match="the training split has no nodes"):
        gz.build(tmp_path, **given, order="presample")
    assert not list(tmp_path.glob("*.g[ld]"))
