"""What must be drawn how often: a case for each kind of drawing, with exact probabilities.

Kinds of sampling are cases of graphs with two edge types, each of which must have its own draws.

Outcomes are joint ones, such as which pair, or which path: the single numbers of a generator that
repeats itself can be uniform, their combinations cannot.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import files
import numpy as np
import numpy.typing as npt
import reference
from sources import Library, Twin
from typed_graphs import Edges, TypedGraph

import graphzero as gz

Ids = npt.NDArray[np.int64]
Shares = Mapping[tuple[int, ...], float]  # the probability of each outcome


@dataclass(frozen=True)
class Input:
    """The graph that a case draws from."""

    edges: Sequence[Sequence[int]]
    num_nodes: int
    weights: Sequence[float] | None = None

    def sources(self, folder: Any) -> tuple[Library, Twin]:
        """The library and its twin."""
        options = {} if self.weights is None else {"weights": np.asarray(self.weights)}
        naive = files.write_dataset(folder, self.edges, self.num_nodes, order="hot", **options)
        return Library(gz.open(folder)), Twin(naive)


@dataclass(frozen=True)
class Case:
    """One kind of drawing.

    Attributes
    ----------
    graph
        An `Input`, or another object whose `sources` it draws from.
    draw : function of (source, size)
        Draws `size` outcomes, one a row.
    size, few : int
        Outcomes to draw from the library; and from the twin, which is slow.
    """

    name: str
    graph: Any
    draw: Callable[[Any, int], Ids]
    shares: Shares
    size: int = 20_000
    few: int = 1000

    def outcomes(self, source: Any, size: int) -> list[tuple[int, ...]]:
        return [tuple(row) for row in self.draw(source, size).tolist()]


# ---- probabilities


def evenly(outcomes: Iterable[Sequence[int]]) -> Shares:
    every = [tuple(outcome) for outcome in outcomes]
    return dict.fromkeys(every, 1 / len(every))


def both(first: Shares, second: Shares) -> Shares:
    """Of independent outcomes, one after the other."""
    return {
        (*a, *b): share * other
        for (a, share), (b, other) in itertools.product(first.items(), second.items())
    }


def in_proportion(weights: Sequence[float]) -> Shares:
    return {(i,): weight / sum(weights) for i, weight in enumerate(weights)}


def successively(weights: Sequence[float], count: int) -> Shares:
    """Of `count` entries in the order of their draws, each by weight out of those left."""
    shares = {}
    for drawn in itertools.permutations(range(len(weights)), count):
        share, left = 1.0, list(weights)
        for i in drawn:
            share *= left[i] / math.fsum(left) if left[i] else 0.0
            left[i] = 0.0
        shares[drawn] = share
    return shares


def successive_classes(weights: Sequence[float], classes: Sequence[int]) -> Shares:
    """Of the classes of the first two entries."""
    w = np.asarray(weights, dtype=float)
    pairs = np.outer(w / w.sum() / (w.sum() - w), w)
    np.fill_diagonal(pairs, 0.0)
    shares = np.zeros((max(classes) + 1,) * 2)
    np.add.at(shares, np.ix_(classes, classes), pairs)
    return dict(np.ndenumerate(shares))


def membership(degree: int, fanout: int, count: int) -> Shares:
    """Of which of `count` given entries are in a uniform subset."""
    return {
        given: math.comb(degree - count, fanout - sum(given)) / math.comb(degree, fanout)
        for given in itertools.product((0, 1), repeat=count)
    }


# ---- neighbours

SOURCES = 20  # nodes that have the same lists


def as_set(drawn: Ids) -> Ids:
    return np.sort(drawn, axis=1)


def holding(*entries: int) -> Callable[[Ids], Ids]:
    return lambda drawn: np.stack([(drawn == i).any(axis=1) for i in entries], axis=1).astype(int)


def first_classes(classes: Sequence[int]) -> Callable[[Ids], Ids]:
    return lambda drawn: np.asarray(classes)[drawn[:, :2]]


# ---- walks

# parallel edges, a self-loop, a dead end (4); nothing leads to 0 but restarts
WALK_EDGES = [(0, 1), (0, 2), (1, 2), (1, 3), (1, 3), (1, 4), (2, 1), (2, 2), (2, 3), (3, 1)]
WALK_EDGES += [(3, 2), (3, 4)]
WALK_WEIGHTS = [2.0, 1.0, 3.0, 0.5, 0.5, 1.0, 4.0, 1.0, 2.0, 1.0, 0.0, 0.5]


@dataclass(frozen=True)
class Walk:
    """The options of walks from node 0."""

    p: float = 1.0
    q: float = 1.0
    weighted: bool = False
    restart: float = 0.0

    def step(self, graph: Input, previous: int | None, node: int) -> Mapping[Any, float]:
        """Share of each (node that was left, next node); no node was left after a restart."""
        masses: dict[Any, float] = defaultdict(float)
        for i, (source, target) in enumerate(graph.edges):
            if source != node:
                continue
            bias = 1.0
            if previous is not None and target == previous:
                bias = 1 / self.p
            elif previous is not None and (previous, target) not in graph.edges:
                bias = 1 / self.q
            masses[node, target] += bias * (graph.weights[i] if self.weighted else 1.0)
        total = sum(masses.values())
        if total == 0:
            return {((None, 0) if self.restart else (node, -1)): 1.0}
        moves = {move: (1 - self.restart) * mass / total for move, mass in masses.items()}
        return {**moves, (None, 0): self.restart}

    def shares(self, graph: Input, length: int, last: int) -> Shares:
        """Of the last nodes of a walk."""
        states: Mapping[Any, float] = {(None, (0,)): 1.0}
        for _ in range(length):
            following: dict[Any, float] = defaultdict(float)
            for (previous, path), share in states.items():
                for (left, node), chance in self.step(graph, previous, path[-1]).items():
                    following[left, (*path, node)[-last:]] += share * chance
            states = following
        shares: dict[tuple[int, ...], float] = defaultdict(float)
        for (_, path), share in states.items():
            shares[path] += share
        return shares


def of_walks(
    name: str, length: int, last: int | None = None, *, few: int = 1000, **options: Any
) -> Case:
    """Outcomes are the last nodes; all of them if not said otherwise."""
    last = last or length + 1
    graph = Input(WALK_EDGES, 5, WALK_WEIGHTS)

    def draw(source: Any, size: int) -> Ids:
        return source.walk([0] * size, length, **options)[:, -last:]

    return Case(name, graph, draw, Walk(**options).shares(graph, length, last), few=few)


WALKS = [
    of_walks("uniform walk", 3),
    of_walks("weighted walk", 3, weighted=True),
    of_walks("node2vec walk", 3, p=0.5, q=4.0),
    of_walks("weighted node2vec walk", 3, p=0.25, q=2.0, weighted=True),
    # nothing returns to 0, and all else is refused: the second step is drawn the exact way
    of_walks("node2vec walk, all refused", 2, p=1e-3, q=0.5, few=300),
    of_walks("weighted node2vec walk, all refused", 2, p=1e-3, q=2.0, weighted=True, few=300),
    of_walks("walk with restarts", 4, restart=0.3),
    of_walks("weighted walk with restarts", 4, restart=0.3, weighted=True),
    of_walks("node2vec walk with restarts", 4, p=0.5, q=3.0, restart=0.3),
    of_walks("long walk with restarts", 20, 2, restart=0.2, weighted=True),
]


# ---- negatives


def non_edges(graph: Input) -> list[tuple[int, int]]:
    edges = set(map(tuple, graph.edges))
    return [pair for pair in itertools.permutations(range(graph.num_nodes), 2) if pair not in edges]


def binary(name: str, graph: Input) -> Case:
    return Case(name, graph, lambda source, size: source.pairs(size), evenly(non_edges(graph)))


def triplet(name: str, graph: Input, edges: Sequence[Sequence[int]]) -> Case:
    """Outcomes are the negatives of two seed edges, which are no edges of the graph."""

    def draw(source: Any, size: int) -> Ids:
        return source.destinations(edges, size).T

    one, other = (
        evenly([v] for u, v in non_edges(graph) if u == source and v != positive)
        for source, positive in zip(*edges, strict=True)
    )
    return Case(name, graph, draw, both(one, other))


def complete_but(num_nodes: int, missing: Sequence[tuple[int, int]]) -> Input:
    pairs = itertools.permutations(range(num_nodes), 2)
    return Input([pair for pair in pairs if pair not in missing], num_nodes)


SPARSE = Input(np.unique(files.random_edges(8, 30, seed=3), axis=0).tolist(), 8)
# so few pairs are left that some are drawn after all tries have failed
CROWDED = complete_but(24, [(3, 4), (3, 9), (10, 2), (11, 12), (23, 0)])
CROWDED_NODES = complete_but(
    90, [*((0, v) for v in (3, 4, 5, 50, 80, 81)), *((1, v) for v in (7, 9, 60))]
)

NEGATIVES = [
    binary("binary negatives", SPARSE),
    binary("binary negatives, crowded", CROWDED),
    triplet("triplet negatives", Input(SPARSE.edges, 12), [[2, 5], [9, 10]]),
    triplet("triplet negatives, crowded", CROWDED_NODES, [[0, 1], [81, 60]]),
]


# ---- order of the seeds


def shuffle() -> Case:
    def draw(source: Any, size: int) -> Ids:
        return np.array([source.order(4, epoch=epoch) for epoch in range(size)])

    graph = Input([(0, 1)], 2)
    return Case("shuffle", graph, draw, evenly(itertools.permutations(range(4))))


# ---- two edge types

R, S, BACK = ("a", "r", "b"), ("a", "s", "b"), ("b", "back", "a")
# (seeds, fanouts, options) -> (node, neighbour) of each edge type, in the order of the draws
Draw = Callable[..., dict[Any, Ids]]


@dataclass(frozen=True)
class TypedInput:
    """The typed graph that a case draws from; its edges go out."""

    edges: Mapping[Any, Edges]

    def sources(self, folder: Any) -> tuple[Draw, Draw]:
        ends = {t: each.ends.max(axis=0) + 1 for t, each in self.edges.items()}
        num_nodes = dict.fromkeys("ab", 0)
        for (source, _, target), counts in ends.items():
            for name, count in zip((source, target), counts.tolist(), strict=True):
                num_nodes[name] = max(num_nodes[name], count)
        graph = TypedGraph(num_nodes, dict(self.edges))
        lists = graph.write(folder)

        def users(n_id: Any, edge_index: Any) -> dict[Any, Ids]:
            return {
                (a, r, b): np.stack([n_id[a][ends[1]], n_id[b][ends[0]]])
                for (a, r, b), ends in edge_index.items()
            }

        def library(seeds, fanouts, *, times=None, batch=0, seed=0, **options):
            sampler = gz.NeighborSampler(lists, fanouts, seed=seed, num_threads=1, **options)
            got = sampler.sample(seeds, seed_time=times, batch=batch)
            return users(got.n_id, got.edge_index)

        def twin(seeds, fanouts, **options):
            got = reference.sample_types(graph, seeds, fanouts, **options)
            return users(got["n_id"], got["edge_index"])

        return library, twin


def edges_out(ends: Any, **columns: Any) -> Edges:
    return Edges(np.array(list(ends)), incoming=False, **columns)


def out_lists(degree: int, **columns: Any) -> Edges:
    """Each of the sources has all of so many neighbours; the columns are those of one list."""
    ends = itertools.product(range(SOURCES), range(degree))
    return edges_out(ends, **{k: [*v] * SOURCES for k, v in columns.items()})


def beside(
    name: str, lists: Sequence[Edges], fanouts: Sequence[int], *shares: Shares, **how: Any
) -> Case:
    """What one node draws from each of its lists: without `ordered` types, sorted.

    `outcomes` has functions of the positions in a list, (n, fanout), in the order of the draws.
    """
    outcomes = {R: as_set, S: as_set, **dict.fromkeys(how.pop("ordered", ()), np.asarray)}
    outcomes |= how.pop("outcomes", {})
    sizes = {name: how.pop(name) for name in ("size", "few") if name in how}
    by_type = {t: [fanout] for t, fanout in zip((R, S), fanouts, strict=False)}

    def draw(source: Draw, size: int) -> Ids:
        rows = []
        for batch in range(size // SOURCES):
            got = source({"a": range(SOURCES)}, by_type, batch=batch, **how)
            drawn = [outcomes[t](ends[1].reshape(SOURCES, -1)) for t, ends in got.items()]
            rows.append(np.hstack(drawn))
        return np.concatenate(rows)

    graph = TypedInput(dict(zip((R, S), lists, strict=False)))
    return Case(name, graph, draw, functools.reduce(both, shares), **sizes)


def pairs_of(count: int) -> Shares:
    return evenly(itertools.combinations(range(count), 2))


def there_and_back() -> Case:
    """Two of 0's three neighbours in b; then, of the other edge type, two of three in a of each."""

    def draw(source: Draw, size: int) -> Ids:
        rows = []
        for batch in range(size):
            got = source({"a": [0]}, {R: [2, 0], BACK: [0, 2]}, batch=batch)
            parts = got[R][1], got[BACK][1][:2], got[BACK][1][2:]
            rows.append(np.concatenate([np.sort(part) for part in parts]))
        return np.array(rows)

    far = evenly(itertools.combinations((1, 2, 3), 2))
    edges = {
        R: edges_out((0, b) for b in range(3)),
        BACK: edges_out(itertools.product(range(3), (1, 2, 3))),
    }
    return Case("there and back", TypedInput(edges), draw, both(pairs_of(3), both(far, far)), 5000)


def trees() -> Case:
    """Two draws of two edge types for two trees of one seed."""

    def draw(source: Draw, size: int) -> Ids:
        options = {"disjoint": True, "replace": True}
        drawn = [source({"a": [0, 0]}, {R: [2], S: [2]}, batch=b, **options) for b in range(size)]
        return np.array([np.concatenate([ends[1] for ends in got.values()]) for got in drawn])

    graph = TypedInput({t: edges_out([(0, 0), (0, 1)]) for t in (R, S)})
    return Case("trees", graph, draw, evenly(itertools.product(range(2), repeat=8)), 5000, 2000)


def labor() -> Case:
    """Which of 0 and 1 are taken by node 0 at 2 of 4, and by node 1 at 2 of 6, which also has 4."""

    def draw(source: Draw, size: int) -> Ids:
        rows = []
        for batch in range(size):
            got = source({"a": [0, 1]}, {R: [2], S: [2]}, batch=batch, labor=True)
            taken, other = (set(zip(*got[t].tolist(), strict=True)) for t in (R, S))
            pairs = [pair in taken for pair in [(0, 0), (1, 0), (0, 1), (1, 1), (1, 4)]]
            rows.append([*pairs, (0, 0) in other])
        return np.array(rows, dtype=np.int64)

    lists = [*((0, v) for v in range(4)), *((1, v) for v in (0, 1, 4, 5, 6, 7))]
    # one number for both: below a third both take it, below a half only node 0
    shared = {(1, 1): 1 / 3, (1, 0): 1 / 6, (0, 1): 0.0, (0, 0): 1 / 2}
    alone = both({(1,): 1 / 3, (0,): 2 / 3}, evenly([(0,), (1,)]))
    graph = TypedInput({R: edges_out(lists), S: edges_out(lists)})
    return Case("LABOR", graph, draw, both(shared, both(shared, alone)), 4000)


def dependent(dependency: int) -> Case:
    """Two draws of both edge types in two batches that follow each other: kept, or drawn anew."""
    pair = list(itertools.product(range(2), repeat=2))
    same = {
        (*a, *b): (1 - 1 / dependency) * (a == b) / 4 + 1 / dependency / 16
        for a, b in itertools.product(pair, repeat=2)
    }

    def draw(source: Draw, size: int) -> Ids:
        rows = []
        for seed in range(size // SOURCES):
            options = {"seed": seed, "batch_dependency": dependency, "replace": True}
            batches = [
                source({"a": range(SOURCES)}, {R: [2], S: [2]}, batch=batch, **options)
                for batch in (seed % 7, seed % 7 + 1)
            ]
            rows.append(np.hstack([got[t][1].reshape(-1, 2) for t in (R, S) for got in batches]))
        return np.concatenate(rows)

    graph = TypedInput({R: out_lists(2), S: out_lists(2)})
    return Case(f"dependent, {dependency}", graph, draw, both(same, same), few=3000)


FIVE = [1.0, 2.0, 0.0, 3.0, 4.0]
HEAVY = [3.0, 2.0, 1.0, 2.0**40, 4.0]  # beside it so little is left that keys are drawn
LONG = [40.0, 30.0, 20.0, 10.0] + [0.25] * 296
LONG_CLASSES = [0, 1, 2, 3] + [4] * 296

NEIGHBORS = [
    beside(
        "long list",
        [out_lists(200)],
        [100],
        membership(200, 100, 4),
        outcomes={R: holding(0, 99, 101, 199)},
        few=400,
    ),
    beside(
        "by selection",
        [out_lists(400)],
        [257],
        membership(400, 257, 4),
        outcomes={R: holding(0, 1, 201, 399)},
        few=200,
    ),
    beside(
        "by weight, little left",
        [out_lists(5, weights=HEAVY)],
        [3],
        successively(HEAVY, 3),
        weighted=True,
        ordered=(R,),
    ),
    beside(
        "by weight, by keys",
        [out_lists(300, weights=LONG)],
        [257],
        successive_classes(LONG, LONG_CLASSES),
        outcomes={R: first_classes(LONG_CLASSES)},
        weighted=True,
        size=4000,
        few=200,
    ),
]
TIMED = [out_lists(7, times=[5, 1, 9, 5, 2, 7, 3]), out_lists(4)]
TIMES = {"a": [5] * SOURCES}

# Where a node draws from lists of two types, each must have draws of its own.
OF_TWO = [
    beside("two lists", [out_lists(5), out_lists(5)], [2, 2], pairs_of(5), pairs_of(5)),
    beside(
        "by weight beside uniform",
        [out_lists(5, weights=FIVE), out_lists(4)],
        [2, 2],
        successively(FIVE, 2),
        pairs_of(4),
        weighted=True,
        ordered=(R,),
    ),
    beside(
        "by weight beside uniform, replaced",
        [out_lists(5), out_lists(5, weights=FIVE)],
        [1, 2],
        evenly((i,) for i in range(5)),
        both(in_proportion(FIVE), in_proportion(FIVE)),
        weighted=True,
        replace=True,
        ordered=(R, S),
    ),
    beside(
        "until a time beside uniform",
        TIMED,
        [2, 2],
        evenly(itertools.combinations((0, 1, 3, 4, 6), 2)),
        pairs_of(4),
        times=TIMES,
    ),
    trees(),
    labor(),
    dependent(2),
    dependent(5),
]
LAST = beside(
    "last until a time beside uniform",
    TIMED,
    [2, 2],
    {(3, 0): 1.0},  # the most recent of equal times is the later one in the list
    pairs_of(4),
    times=TIMES,
    temporal_strategy="last",
    ordered=(R,),
)

CASES = [*NEIGHBORS, *WALKS, *NEGATIVES, shuffle(), *OF_TWO, there_and_back(), LAST]
