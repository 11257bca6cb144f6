"""Visit counts, of graphs with and without types: what they count, and the order by them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import files
import numpy as np
import pytest
from cli_program import run
from typed_inputs import CITES, WRITES, check_files

import graphzero as gz
from graphzero.ingest import build_dataset, reorder_dataset
from graphzero.sampling.sampler import NeighborSampler
from graphzero.store.atomic import is_staging_name
from graphzero.store.format import read_file
from graphzero.store.manifest import EDGES, Presampling, read_manifest


def untyped_visits(path: Path) -> np.ndarray[Any, Any]:
    """Counts by the user's ids."""
    with gz.FeatureStore(path / "visits.gd") as store:
        return store.gather(np.arange(store.num_nodes))


def test_counts_are_those_of_a_plain_loop(tmp_path: Path) -> None:
    seeds = np.array([5, 9, 5, 200, 31])
    presample = gz.Presample(fanouts=(4, 3), batch_size=2, epochs=3, min_batches=1, seed=7)
    files.write_dataset(tmp_path, files.random_edges(300, 3000), 300, order="hot")
    counts = np.zeros(300, np.uint32)
    done = []
    found = presample.count_visits(
        {EDGES: tmp_path / "graph.gl"}, None, {"": seeds}, {"": counts}, done.append
    )
    assert found == Presampling(6, 2, (4, 3), 5, 7)
    assert done == [1] * 6
    expected = np.zeros(300, int)
    with gz.Graph(tmp_path / "graph.gl") as graph:
        for epoch in range(3):
            sampler = gz.NeighborSampler(graph, [4, 3], seed=7)
            order = gz._core.permutation(5, gz._core.key("shuffle", 7, epoch, 0))
            for batch in range(2):  # the fifth seed would make a short one
                chosen = seeds[order[2 * batch : 2 * batch + 2]]
                nodes = sampler.sample(chosen, epoch=epoch, batch=batch).stored_id
                expected[np.unique(nodes)] += 1
    np.testing.assert_array_equal(counts, expected)


def test_often_visited_nodes_come_first(tmp_path: Path) -> None:
    edges = files.random_edges(400, 4000)
    ds = gz.build(
        tmp_path, edges, splits={"train": np.arange(300, 340)}, order="presample",
        presample=gz.Presample(fanouts=(3,), batch_size=8, min_batches=9),
    )  # fmt: skip
    ds.close()
    visits = untyped_visits(tmp_path).astype(int)
    listed = np.bincount(edges[:, 0], minlength=400)  # as a neighbour
    expected = sorted(range(400), key=lambda node: (-visits[node], -listed[node], node))
    _, arrays = read_file(tmp_path / "graph.gl")
    np.testing.assert_array_equal(arrays["node_ids"], expected)
    _, stored = read_file(tmp_path / "visits.gd")
    np.testing.assert_array_equal(stored["rows"], np.sort(visits)[::-1])
    assert stored["rows"].dtype == np.uint32
    assert visits.max() <= 10
    assert not [name for name in os.listdir(tmp_path) if is_staging_name(name)]
    assert (visits[300:340] >= 2).all(), "each epoch visits each seed"
    # Nodes that no seed reaches in one hop are not visited, however many their neighbours.
    reached = {*range(300, 340), *edges[(edges[:, 1] >= 300) & (edges[:, 1] < 340), 0].tolist()}
    assert set(np.flatnonzero(visits).tolist()) <= reached


def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    edges = files.random_edges(400, 4000)

    def built(name: str, **options: Any) -> list[bytes]:
        path = tmp_path / name
        presample = gz.Presample(fanouts=(3, 3), batch_size=16, **options)
        gz.build(path, edges, order="presample", presample=presample).close()
        return [(path / file).read_bytes() for file in ("graph.gl", "visits.gd")]

    assert built("a") == built("b")
    assert built("a", seed=1) != built("b")


def test_defaults_are_used_and_noted(tmp_path: Path) -> None:
    gz.build(tmp_path, files.random_edges(400, 4000), order="presample").close()
    assert read_manifest(tmp_path).presampling == Presampling(64, 1024, (15, 10, 5), 400, 0)
    assert read_manifest(tmp_path).order == "presample"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fanouts": (3, -2)}, "fanout must be a positive integer"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"epochs": -1}, "epochs must be at least 1"),
        ({"min_batches": True}, "min_batches must be at least 1"),
        ({"max_batches": 1.5}, "max_batches must be an integer"),
        ({"seed": "x"}, "seed must be an integer"),
    ],
)
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gz.Presample(**options)


@pytest.mark.parametrize("change", [{"batches": 0}, {"fanouts": 3}, {"seed": None}])
def test_a_damaged_note_of_the_counts(tmp_path: Path, change: dict[str, Any]) -> None:
    gz.build(tmp_path, [[0, 1]], order="presample").close()
    content = json.loads((tmp_path / "dataset.json").read_text())
    content["presampling"] |= change
    (tmp_path / "dataset.json").write_text(json.dumps(content))
    with pytest.raises(gz.FormatError, match="is corrupt"):
        gz.open(tmp_path)


def test_a_manifest_without_visits_is_read(tmp_path: Path) -> None:
    gz.build(tmp_path, [[0, 1]]).close()
    content = json.loads((tmp_path / "dataset.json").read_text())
    del content["visits"], content["presampling"]
    (tmp_path / "dataset.json").write_text(json.dumps(content))
    gz.open(tmp_path).close()


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
            for name, values in given["nodes"]["paper"].items():
                np.testing.assert_array_equal(ds["paper"][name], values)
            found, cites = ds[CITES].edge_index.numpy(), given["edges"][CITES]
            np.testing.assert_array_equal(found[:, np.lexsort(found)], cites[:, np.lexsort(cites)])
            np.testing.assert_array_equal(
                ds[WRITES].edge_index, given["edges"][WRITES]["edge_index"]
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
