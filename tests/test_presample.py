"""Visit counts: what they count, and the order by them."""

from __future__ import annotations

import json
from dataclasses import replace

import files
import numpy as np
import pytest
from cli_program import run
from files import read_file
from typed_inputs import CITES, WRITES, check_files

import graphzero as gz
from graphzero import _core
from graphzero.ingest import build_dataset, reorder_dataset
from graphzero.sampling.sampler import NeighborSampler
from graphzero.store.manifest import Presampling, read_manifest


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
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        gz.Presample(**options)


def test_the_counts_of_a_graph_without_types_are_noted(tmp_path):
    gz.build(tmp_path, files.random_edges(400, 4000), order="presample").close()
    assert read_manifest(tmp_path).presampling == Presampling(64, 1024, (15, 10, 5), 400, 0)
    assert read_manifest(tmp_path).order == "presample"
    path = tmp_path / "dataset.json"
    content = json.loads(path.read_text())
    del content["visits"], content["presampling"]  # as earlier versions have written it
    path.write_text(json.dumps(content))
    gz.open(tmp_path).close()


PAPERS, AUTHORS = 300, 90
BY = ("paper", "by", "author")
SAMPLING = gz.Presample(fanouts=(3, 2), batch_size=8, min_batches=9, seed=5)


def arguments(seed=0, **more):
    """Papers and authors, whose hubs are not near the seeds."""
    rng = np.random.default_rng(seed)
    hubs = (PAPERS * rng.random((2, 900)) ** 2).astype(int)
    writes = np.stack([rng.integers(0, AUTHORS, 800), rng.integers(0, PAPERS, 800)])
    papers = {"x": rng.random((PAPERS, 5), np.float32), "year": rng.integers(1990, 2020, PAPERS)}
    of_writes = {"edge_attr": rng.random((800, 2)), "weight": hubs[0, :800]}
    return {
        "nodes": {"paper": papers, "author": {"num_nodes": AUTHORS}},
        "edges": {
            WRITES: {"edge_index": writes, **of_writes},
            BY: writes[::-1].copy(),
            CITES: hubs,
        },
        "splits": {"train": {"paper": rng.permutation(PAPERS)[:40] // 4 + 200}},
        "edge_splits": {"val": {WRITES: [5, 3]}},
        "time_attrs": "year",
        **more,
    }


def visits_of(folder, ds, name):
    """Counts by the user's ids."""
    counts = read_file(folder / f"{name}.visits.gd")[1]["rows"]
    found = np.empty(len(counts), int)
    found[ds[name].to_user(np.arange(len(counts)))] = counts
    return found


def listed(given, name):
    """How often each node of a type is a neighbour."""
    found = [c["edge_index"] if isinstance(c, dict) else c for c in given["edges"].values()]
    ends = [e[0] for kind, e in zip(given["edges"], found, strict=True) if kind[0] == name]
    return np.bincount(np.concatenate(ends), minlength={"paper": PAPERS, "author": AUTHORS}[name])


def naive_visits(ds, presample, seeds):
    """Counts of a plain loop, in the user's ids."""
    counts = {name: np.zeros(ds[name].num_nodes, int) for name in ds.node_types}
    sampler = NeighborSampler(ds, presample.fanouts, seed=presample.seed)
    size, first = presample.batch_size, 0
    for name, number in presample.num_batches({n: len(s) for n, s in seeds.items()}).items():
        ids = seeds[name]
        per_epoch = max(1, len(ids) // size)
        for i in range(number):
            epoch, batch = divmod(i, per_epoch)
            order = _core.permutation(len(ids), _core.key("shuffle", presample.seed, epoch, 0))
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
        {"train": {"paper": np.arange(250, 290), "author": np.array([7, 7, 60, 3])}},
        {"train": {"author": np.array([], int), "paper": np.array([1])}, "val": {"author": [1]}},
    ],
)
@pytest.mark.parametrize("earlier", ["hot", "presample"])
def test_reordering_counts_what_a_plain_loop_counts(tmp_path, splits, earlier):
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
def test_a_build_in_this_order_is_that_of_a_reordered_hot_one(tmp_path, limit):
    given = arguments(memory_limit=limit)
    build_dataset(tmp_path / "hot", **given)
    reorder_dataset(tmp_path / "hot", "presample", presample=SAMPLING, memory_limit=limit)
    for name, seed in (("a", 5), ("b", 6)):
        presample = replace(SAMPLING, seed=seed)
        build_dataset(tmp_path / name, **given, order="presample", presample=presample)
    check_files(tmp_path / "a", "in")
    assert files.contents(tmp_path / "a") == files.contents(tmp_path / "hot")
    assert files.contents(tmp_path / "a") != files.contents(tmp_path / "b")


def test_fanouts_by_edge_type(tmp_path):
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
    gz.build(tmp_path / "untyped", [[0, 1]]).close()
    with pytest.raises(ValueError, match="by edge type is for typed graphs"):
        gz.reorder(tmp_path / "untyped", "presample", presample=gz.Presample(fanouts=fanouts))


def test_mini_batches_are_divided_among_the_types():
    presample = gz.Presample(fanouts=(2,), batch_size=10, epochs=2, min_batches=8, max_batches=100)
    assert presample.num_batches({"a": 300, "b": 100, "c": 0}) == {"a": 60, "b": 20}
    assert presample.num_batches({"a": 10, "b": 30}) == {"a": 2, "b": 6}  # 8 at least
    assert presample.num_batches({"a": 9000, "b": 1000, "c": 5}) == {"a": 90, "b": 10, "c": 1}


def test_of_very_many_seeds_evenly_spread_ones_are_taken(tmp_path):
    kind = ("a", "r", "b")
    nodes = {"a": {"num_nodes": 600}, "b": {"num_nodes": 300}}
    presample = gz.Presample(fanouts=(2,), batch_size=5, max_batches=30, min_batches=1)
    edges = {kind: np.empty((2, 0), int)}  # only seeds are visited
    with gz.build(tmp_path, nodes=nodes, edges=edges, order="presample", presample=presample) as ds:
        for name, count in (("a", 600), ("b", 300)):
            found = np.flatnonzero(visits_of(tmp_path, ds, name))
            np.testing.assert_array_equal(found, np.arange(0, count, 6))
