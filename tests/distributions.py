"""What must be drawn how often: a case for each kind of drawing, with exact probabilities.

Outcomes are joint ones, such as which pair, or which path: the single numbers of a generator that
repeats itself can be uniform, their combinations cannot.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import files
import numpy as np
from sources import Ids, Library, Source, Twin

import graphzero as gz

Shares = Mapping[tuple[int, ...], float]  # the probability of each outcome


@dataclass(frozen=True)
class Input:
    """The graph that a case draws from."""

    edges: Sequence[Sequence[int]]
    num_nodes: int
    weights: Sequence[float] | None = None
    times: Sequence[int] | None = None

    def write(self, folder: Any) -> tuple[Library, Twin]:
        columns = {"weights": self.weights, "times": self.times}
        options = {name: np.asarray(c) for name, c in columns.items() if c is not None}
        naive = files.write_dataset(folder, self.edges, self.num_nodes, order="hot", **options)
        return Library(gz.open(folder)), Twin(naive)


@dataclass(frozen=True)
class Case:
    """One kind of drawing.

    Attributes
    ----------
    draw : function of (source, size)
        Draws `size` outcomes, one a row.
    size, few : int
        Outcomes to draw from the library; and from the twin, which is slow.
    """

    name: str
    graph: Input
    draw: Callable[[Source, int], Ids]
    shares: Shares
    size: int = 20_000
    few: int = 1000

    def outcomes(self, source: Source, size: int) -> list[tuple[int, ...]]:
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


# ---- neighbours of nodes that all have the same list

SOURCES = 20


def of_a_list(
    name: str,
    degree: int,
    fanout: int,
    shares: Shares,
    outcome: Callable[[Ids], Ids] = np.asarray,
    *,
    weights: Sequence[float] | None = None,
    size: int = 20_000,
    few: int = 1000,
    **options: Any,
) -> Case:
    """`outcome` takes the positions in the list, (n, fanout), in the order of the draws."""

    def draw(source: Source, size: int) -> Ids:
        hops = [
            source.hop(range(SOURCES), fanout, seed=seed, **options)
            for seed in range(size // SOURCES)
        ]
        return outcome(np.concatenate(hops).reshape(-1, fanout) - SOURCES)

    edges = [[node, SOURCES + i] for node in range(SOURCES) for i in range(degree)]
    if weights is not None:
        options["weighted"] = True
    graph = Input(edges, SOURCES + degree, None if weights is None else [*weights] * SOURCES)
    return Case(name, graph, draw, shares, size, few)


def as_set(drawn: Ids) -> Ids:
    return np.sort(drawn, axis=1)


def holding(*entries: int) -> Callable[[Ids], Ids]:
    return lambda drawn: np.stack([(drawn == i).any(axis=1) for i in entries], axis=1).astype(int)


def first_classes(classes: Sequence[int]) -> Callable[[Ids], Ids]:
    return lambda drawn: np.asarray(classes)[drawn[:, :2]]


FIVE = [1.0, 2.0, 0.0, 3.0, 4.0]
HEAVY = [3.0, 2.0, 1.0, 2.0**40, 4.0]  # beside it so little is left that keys are drawn
LONG = [40.0, 30.0, 20.0, 10.0] + [0.25] * 296
LONG_CLASSES = [0, 1, 2, 3] + [4] * 296

NEIGHBORS = [
    of_a_list("uniform", 6, 3, evenly(itertools.combinations(range(6), 3)), as_set),
    of_a_list(
        "uniform, long list", 200, 100, membership(200, 100, 4), holding(0, 99, 101, 199), few=400
    ),
    of_a_list(
        "uniform, by selection", 400, 257, membership(400, 257, 4), holding(0, 1, 201, 399), few=200
    ),
    of_a_list(
        "uniform, replaced", 5, 3, evenly(itertools.product(range(5), repeat=3)), replace=True
    ),
    of_a_list(
        "weighted, replaced",
        5,
        2,
        both(in_proportion(FIVE), in_proportion(FIVE)),
        weights=FIVE,
        replace=True,
    ),
    of_a_list("weighted", 5, 3, successively(FIVE, 3), weights=FIVE),
    of_a_list("weighted, little left", 5, 3, successively(HEAVY, 3), weights=HEAVY),
    of_a_list(
        "weighted, by keys",
        300,
        257,
        successive_classes(LONG, LONG_CLASSES),
        first_classes(LONG_CLASSES),
        weights=LONG,
        size=4000,
        few=200,
    ),
]


# ---- neighbours of neighbours


def two_hops() -> Case:
    """Two of 0's three neighbours, and two of the three neighbours of both of these."""

    def draw(source: Source, size: int) -> Ids:
        drawn = np.stack(source.hops([0], [2, 2], batches=size))
        return np.concatenate([as_set(drawn[:, i : i + 2]) for i in (0, 2, 4)], axis=1)

    edges = [(0, 1), (0, 2), (0, 3), *itertools.product((1, 2, 3), (4, 5, 6))]
    near, far = (evenly(itertools.combinations(nodes, 2)) for nodes in ((1, 2, 3), (4, 5, 6)))
    return Case("two hops", Input(edges, 7), draw, both(near, both(far, far)), size=5000)


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

    def draw(source: Source, size: int) -> Ids:
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

    def draw(source: Source, size: int) -> Ids:
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
    def draw(source: Source, size: int) -> Ids:
        return np.array([source.order(4, epoch=epoch) for epoch in range(size)])

    graph = Input([(0, 1)], 2)
    return Case("shuffle", graph, draw, evenly(itertools.permutations(range(4))))


CASES = [*NEIGHBORS, two_hops(), *WALKS, *NEGATIVES, shuffle()]
