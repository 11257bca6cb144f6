"""The cases of `distributions` that only whole batches have: LABOR, times, trees, dependence."""

from __future__ import annotations

import itertools

import numpy as np
from distributions import Case, Input, Shares, both, evenly
from sources import Ids, Source

SOURCES = 20  # nodes with the same list draw side by side


def of_each(edges: Ids, fanout: int) -> Ids:
    """The neighbours of each frontier node, one a row, in the order of their draws."""
    return edges[:, 2].reshape(-1, fanout)


def labor() -> Case:
    """Which of 2 and 3 are taken by node 0 at 2 of 4, and by node 1 at 2 of 6, which also has 6."""

    def draw(source: Source, size: int) -> Ids:
        rows = []
        for batch in range(size):
            taken = {(u, v) for u, _, v in source.edges([0, 1], 2, batch=batch, labor=True)}
            rows.append([pair in taken for pair in [(0, 2), (1, 2), (0, 3), (1, 3), (1, 6)]])
        return np.array(rows, dtype=np.int64)

    edges = [*((0, v) for v in (2, 3, 4, 5)), *((1, v) for v in (2, 3, 6, 7, 8, 9))]
    # one number for both: below a third both take it, below a half only node 0
    shared = {(1, 1): 1 / 3, (1, 0): 1 / 6, (0, 1): 0.0, (0, 0): 1 / 2}
    alone = {(1,): 1 / 3, (0,): 2 / 3}
    return Case("LABOR", Input(edges, 10), draw, both(shared, both(shared, alone)), 4000)


def until(name: str, strictly: bool, replace: bool) -> Case:
    """Two edges out of those of a list that are up to a time."""
    times = [5, 1, 9, 5, 2, 7, 3]
    allowed = [i for i, time in enumerate(times) if (time < 5 if strictly else time <= 5)]

    def draw(source: Source, size: int) -> Ids:
        options = {"strictly_before": strictly, "replace": replace, "times": [5] * SOURCES}
        rows = [
            of_each(source.edges(range(SOURCES), 2, batch=batch, **options), 2) - SOURCES
            for batch in range(size // SOURCES)
        ]
        drawn = np.concatenate(rows)
        return drawn if replace else np.sort(drawn, axis=1)

    edges = [[node, SOURCES + i] for node in range(SOURCES) for i in range(len(times))]
    outcomes = (
        itertools.product(allowed, repeat=2) if replace else itertools.combinations(allowed, 2)
    )
    graph = Input(edges, SOURCES + len(times), times=times * SOURCES)
    return Case(name, graph, draw, evenly(outcomes))


def disjoint() -> Case:
    """Two neighbours each for two trees of one seed."""

    def draw(source: Source, size: int) -> Ids:
        options = {"disjoint": True, "replace": True}
        batches = [source.edges([0, 0], 2, batch=batch, **options) for batch in range(size)]
        return np.array([batch[:, 2] for batch in batches])

    shares = evenly(itertools.product((1, 2, 3), repeat=4))
    return Case("disjoint", Input([(0, 1), (0, 2), (0, 3)], 4), draw, shares, 4000)


def dependent(dependency: int) -> Case:
    """A neighbour for two nodes in two batches that follow each other: kept, or drawn anew."""
    changes = 1 / dependency
    of_one: Shares = {
        (a, b): changes / 9 + (1 - changes) / 3 * (a == b)
        for a, b in itertools.product(range(3), repeat=2)
    }

    def draw(source: Source, size: int) -> Ids:
        rows = []
        for seed in range(2 * size // SOURCES):
            options = {"seed": seed, "batch_dependency": dependency}
            drawn = [
                source.edges(range(SOURCES), 1, batch=batch, **options)[:, 2] - SOURCES
                for batch in (seed % 7, seed % 7 + 1)
            ]
            rows.append(np.stack(drawn, axis=1).reshape(-1, 4))
        return np.concatenate(rows)

    edges = [[node, SOURCES + i] for node in range(SOURCES) for i in range(3)]
    graph = Input(edges, SOURCES + 3)
    return Case(f"dependent, {dependency}", graph, draw, both(of_one, of_one))


KINDS = [
    labor(),
    until("until", False, False),
    until("before", True, False),
    until("until, replaced", False, True),
    disjoint(),
    dependent(2),
    dependent(5),
]
