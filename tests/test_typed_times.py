"""Batches of a typed graph by time with all neighbours, beside a naive twin."""

from __future__ import annotations

import numpy as np
import pytest

import graphzero as gz

pytest.importorskip("torch")

PAPERS, AUTHORS = 50, 30
WRITES, WRITTEN, CITES = (
    ("author", "writes", "paper"),
    ("paper", "written_by", "author"),
    ("paper", "cites", "paper"),
)

# The C code that these loaders reach is sanitized by the tests of their open form.
pytestmark = pytest.mark.no_asan


def reached(edges, seed, time, times_of):
    """Naive tree of a paper with all neighbours: edges (kind, position) of two hops."""
    tree, front = set(), {("paper", seed)}
    seen = set(front)
    for _ in range(2):
        found = set()
        for kind, given in edges.items():
            sources, targets = given["edge_index"]
            for at, (source, target) in enumerate(zip(sources, targets, strict=True)):
                if (kind[2], target) in front and times_of(kind, at) <= time:
                    tree.add((kind, at))
                    found.add((kind[0], int(source)))
        front = found - seen
        seen |= found
    return tree


@pytest.mark.parametrize("level", ["edge", "node"])
def test_times_beside_a_naive_twin(tmp_path, level):
    """PyG samples by time with pyg-lib only, which no package registry has."""
    rng = np.random.default_rng(1)
    writes = np.stack([rng.integers(0, AUTHORS, 120), rng.integers(0, PAPERS, 120)])
    ends = {WRITES: writes, WRITTEN: writes[::-1].copy(), CITES: rng.integers(0, PAPERS, (2, 150))}
    edges = {kind: {"edge_index": each} for kind, each in ends.items()}
    years = rng.integers(0, 20, PAPERS)
    nodes = {"paper": {"year": years}, "author": {"num_nodes": AUTHORS}}
    stamps = {kind: np.arange(120) % 20 for kind in (WRITES, WRITTEN)}
    if level == "edge":
        for kind, each in stamps.items():
            edges[kind]["stamp"] = each
    name = "stamp" if level == "edge" else "year"

    def time_of(kind, at):
        if level == "edge":
            return stamps[kind][at] if kind in stamps else -1
        return years[ends[kind][0][at]] if kind[0] == "paper" else -1

    seeds = np.array([4, 9, 30, 9])
    own = years[seeds]
    times = {} if level == "node" else {"input_time": own}
    with gz.build(
        tmp_path / "d", nodes=nodes, edges=edges, time_attrs=name, edge_ids=True, order="hot"
    ) as ds:
        loader = gz.NeighborLoader(
            ds, [-1, -1], ("paper", seeds), time_attr=name, batch_size=2, **times
        )
        found = {}
        for number, batch in enumerate(loader):
            assert batch["paper"].seed_time.tolist() == own[2 * number :][:2].tolist()
            for kind in edges:
                trees = batch[kind[2]].batch[batch[kind].edge_index[1]] + 2 * number
                for tree, at in zip(trees.tolist(), batch[kind].e_id.tolist(), strict=True):
                    found.setdefault(tree, set()).add((kind, at))
    for tree, (seed, time) in enumerate(zip(seeds.tolist(), own.tolist(), strict=True)):
        assert found.get(tree, set()) == reached(edges, seed, time, time_of)
    assert any(found.values())
