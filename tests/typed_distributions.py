"""What typed sampling must draw how often: joint outcomes of edge types, trees and batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import typed_reference
from distributions import SOURCES, Shares, both, evenly, in_proportion, successively
from typed_graphs import Edges, TypedGraph

from graphzero.sampling.sampler import NeighborSampler

R, S, BACK = ("a", "r", "b"), ("a", "s", "b"), ("b", "back", "a")
# (kind of sampler) -> the neighbours of each edge type, in the order of the draws
Draw = Callable[..., dict[Any, np.ndarray]]


def library(graph: TypedGraph, folder: Path) -> Draw:
    """Draws of graphzero itself."""
    lists = graph.write(folder)

    def draw(seeds, fanouts, *, times=None, epoch=0, batch=0, seed=0, **options):
        sampler = NeighborSampler(lists, fanouts, seed=seed, num_threads=1, **options)
        got = sampler.sample(seeds, seed_time=times, epoch=epoch, batch=batch)
        return {t: got.n_id[graph.ends(t)[1]][ids[0]] for t, ids in got.edge_index.items()}

    return draw


def twin(graph: TypedGraph) -> Draw:
    """Draws of the naive sampler."""

    def draw(seeds, fanouts, **options):
        got = typed_reference.sample(graph, seeds, fanouts, **options)
        return {t: got["n_id"][graph.ends(t)[1]][ids[0]] for t, ids in got["edge_index"].items()}

    return draw


@dataclass(frozen=True)
class TypedCase:
    """One kind of drawing; `draw` makes `size` outcomes, one a row, out of a source."""

    name: str
    graph: TypedGraph
    draw: Callable[[Draw, int], np.ndarray]
    shares: Shares
    size: int = 20_000
    few: int = 1000

    def outcomes(self, source: Draw, size: int) -> list[tuple[int, ...]]:
        return [tuple(row) for row in self.draw(source, size).tolist()]


def out_lists(degree: int, **columns: Any) -> Edges:
    """Each of the sources has all of so many neighbours; the columns are those of one list."""
    ends = np.array([[node, i] for node in range(SOURCES) for i in range(degree)])
    return Edges(ends, incoming=False, **{k: [*v] * SOURCES for k, v in columns.items()})


def beside(
    name: str, edges: Mapping[Any, Edges], fanouts: Mapping[Any, list[int]], *shares: Shares, **how
) -> TypedCase:
    """What one node draws from each of its lists. `ordered` names the types whose order counts."""
    ordered = how.pop("ordered", ())
    times = {"a": how.pop("times")} if "times" in how else None
    num_nodes = {"a": SOURCES, "b": max(int(each.ends[:, 1].max()) for each in edges.values()) + 1}
    of_all: Shares = {(): 1.0}
    for each in shares:
        of_all = both(of_all, each)

    def draw(source: Draw, size: int) -> np.ndarray:
        rows = []
        for batch in range(size // SOURCES):
            got = source({"a": range(SOURCES)}, fanouts, times=times, batch=batch, **how)
            lists = [ids.reshape(SOURCES, -1) for ids in got.values()]
            pairs = zip(edges, lists, strict=True)
            drawn = [ids if t in ordered else np.sort(ids, axis=1) for t, ids in pairs]
            rows.append(np.concatenate(drawn, axis=1))
        return np.concatenate(rows)

    return TypedCase(name, TypedGraph(num_nodes, dict(edges)), draw, of_all)


def pairs_of(count: int) -> Shares:
    return evenly(itertools.combinations(range(count), 2))


def there_and_back() -> TypedCase:
    """Two of 0's three neighbours in b; then, of the other edge type, two of three in a of each."""
    edges = {
        R: Edges(np.array([[0, 0], [0, 1], [0, 2]]), incoming=False),
        BACK: Edges(np.array([[b, a] for b in range(3) for a in (1, 2, 3)]), incoming=False),
    }

    def draw(source: Draw, size: int) -> np.ndarray:
        rows = []
        for batch in range(size):
            got = source({"a": [0]}, {R: [2, 0], BACK: [0, 2]}, batch=batch)
            parts = got[R], got[BACK][:2], got[BACK][2:]
            rows.append(np.concatenate([np.sort(part) for part in parts]))
        return np.array(rows)

    far = evenly(itertools.combinations((1, 2, 3), 2))
    shares = both(pairs_of(3), both(far, far))
    return TypedCase("there and back", TypedGraph({"a": 4, "b": 3}, edges), draw, shares, 5000)


def trees() -> TypedCase:
    """Two draws of two edge types for two trees of one seed."""
    edges = {t: Edges(np.array([[0, 0], [0, 1]]), incoming=False) for t in (R, S)}

    def draw(source: Draw, size: int) -> np.ndarray:
        options = {"disjoint": True, "replace": True}
        drawn = [source({"a": [0, 0]}, {R: [2], S: [2]}, batch=b, **options) for b in range(size)]
        return np.array([np.concatenate(list(got.values())) for got in drawn])

    shares = evenly(itertools.product(range(2), repeat=8))
    return TypedCase("trees", TypedGraph({"a": 1, "b": 2}, edges), draw, shares, 5000, 2000)


def labor() -> TypedCase:
    """Whether 0 and 1 are taken at 1 of 2, by both nodes, and anew for the other type."""
    edges = {t: Edges(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), incoming=False) for t in (R, S)}

    def draw(source: Draw, size: int) -> np.ndarray:
        rows = []
        for batch in range(size):
            got = source({"a": [0, 1]}, {R: [1], S: [1]}, batch=batch, labor=True)
            taken = [np.bincount(got[t], minlength=2) for t in (R, S)]
            rows.append(np.concatenate(taken) // 2)
        return np.array(rows)

    shares = evenly(itertools.product((0, 1), repeat=4))
    return TypedCase("LABOR", TypedGraph({"a": 2, "b": 2}, edges), draw, shares, 4000)


def dependent() -> TypedCase:
    """Two draws of both edge types in two batches that follow each other: kept, or drawn anew."""
    pair = evenly(itertools.product(range(2), repeat=2))
    same = {(*a, *b): (a == b) / 8 + 1 / 32 for a, b in itertools.product(pair, repeat=2)}
    edges = {R: out_lists(2), S: out_lists(2)}

    def draw(source: Draw, size: int) -> np.ndarray:
        rows = []
        for seed in range(size // SOURCES):
            options = {"seed": seed, "batch_dependency": 2, "replace": True}
            batches = [
                source({"a": range(SOURCES)}, {R: [2], S: [2]}, batch=batch, **options)
                for batch in (seed % 5, seed % 5 + 1)
            ]
            drawn = [got[t].reshape(SOURCES, 2) for t in (R, S) for got in batches]
            rows.append(np.concatenate(drawn, axis=1))
        return np.concatenate(rows)

    graph = TypedGraph({"a": SOURCES, "b": 2}, edges)
    return TypedCase("dependent", graph, draw, both(same, same), few=3000)


FIVE = [1.0, 2.0, 0.0, 3.0, 4.0]
TIMES = [5, 1, 9, 5, 2, 7, 3]
UNTIL = [i for i, time in enumerate(TIMES) if time <= 5]

CASES = [
    beside(
        "two edge types of the same lists",
        {R: out_lists(5), S: out_lists(5)},
        {R: [2], S: [2]},
        pairs_of(5),
        pairs_of(5),
    ),
    beside(
        "fanouts by edge type, replaced",
        {R: out_lists(4), S: out_lists(3)},
        {R: [1], S: [3]},
        evenly((i,) for i in range(4)),
        evenly(itertools.product(range(3), repeat=3)),
        replace=True,
        ordered=(R, S),
    ),
    beside(
        "by weight beside uniform",
        {R: out_lists(5, weights=FIVE), S: out_lists(4)},
        {R: [2], S: [2]},
        successively(FIVE, 2),
        pairs_of(4),
        weighted=True,
        ordered=(R,),
    ),
    beside(
        "by weight beside uniform, replaced",
        {R: out_lists(5), S: out_lists(5, weights=FIVE)},
        {R: [1], S: [2]},
        evenly((i,) for i in range(5)),
        both(in_proportion(FIVE), in_proportion(FIVE)),
        weighted=True,
        replace=True,
        ordered=(R, S),
    ),
    beside(
        "until a time beside uniform",
        {R: out_lists(7, times=TIMES), S: out_lists(4)},
        {R: [2], S: [2]},
        evenly(itertools.combinations(UNTIL, 2)),
        pairs_of(4),
        times=[5] * SOURCES,
    ),
    beside(
        "last until a time beside uniform",
        {R: out_lists(7, times=TIMES), S: out_lists(4)},
        {R: [2], S: [2]},
        {(3, 0): 1.0},  # the most recent of equal times is the later one in the list
        pairs_of(4),
        times=[5] * SOURCES,
        temporal_strategy="last",
        ordered=(R,),
    ),
    there_and_back(),
    trees(),
    labor(),
    dependent(),
]
