"""Processor time per sampled edge of a typed graph, against the same graph without types.

The nodes of an R-MAT graph are dealt at random to 1, 2 and 4 types, which makes 1, 4 and 16 edge
types. A node of T types has T lists, so the fanouts are divided by T (rounded up), or those of the
whole graph for every edge type. One thread, everything in memory; what counts is the thread's
processor time, because other programs may use the processors.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import timing
from benchmarks.inputs import Cut, IntArray, edge_chunk
from benchmarks.machine import OtherProcesses, conditions, heading

if TYPE_CHECKING:
    import graphzero as gz

GOAL = 1.25
SHORTEST_RUN = 0.3
BATCHES = 32  # batches of a typed graph with seeds of their own; draws differ in every batch


def divided(fanouts: Sequence[int], parts: int) -> list[int]:
    """Fanouts of each of so many lists of a node, rounded up."""
    return [-(-fanout // parts) for fanout in fanouts]


def batches_of(
    ds: gz.Dataset, seeds: Any, fanouts: Sequence[int], options: argparse.Namespace
) -> Callable[[int], timing.Run]:
    """A contestant that samples batches, by edges a second of the thread's processor time."""
    import graphzero as gz

    def run(number: int) -> timing.Run:
        batches = gz.NeighborDataset(
            ds,
            seeds,
            fanouts,
            batch_size=options.batch_size,
            seed=number,
            num_threads=1,
            gather=(),
            prefetch=gz.Prefetch("none", lookahead=0),  # everything in this thread
        )
        edges, started = 0, time.thread_time()
        for sampled in batches:
            found = sampled.subgraph.edge_index
            lists = found.values() if isinstance(found, dict) else [found]
            edges += sum(one.shape[1] for one in lists)
        seconds = time.thread_time() - started
        return timing.Run(edges, seconds, seconds)

    return timing.lasting(run, SHORTEST_RUN)


def measure_types(
    edges: IntArray, folder: Path, options: argparse.Namespace
) -> dict[str, timing.Spread]:
    """Edges a second of the whole graph, and of every cut with both choices of fanouts.

    The seeds are nodes of the first type of each cut, and as many of the whole graph.
    """
    import graphzero as gz

    contestants: dict[str, Callable[[int], timing.Run]] = {}
    size, fanouts = BATCHES * options.batch_size, list(options.fanouts)
    with ExitStack() as stack:
        whole = gz.build(folder / "whole", edges, num_nodes=1 << options.scale, order="input")
        ds = stack.enter_context(whole)
        seeds = np.random.default_rng(1).permutation(ds.num_nodes)[:size]
        contestants[f"without types, {fanouts}"] = batches_of(ds, seeds, fanouts, options)
        for num_types in options.types:
            cut = Cut(edges, 1 << options.scale, num_types)
            typed = stack.enter_context(cut.build(folder / str(num_types), order="input"))
            mine = ("n0", np.random.default_rng(1).permutation(cut.num_nodes["n0"])[:size])
            for hops in (divided(fanouts, num_types), fanouts):
                name = f"{num_types**2} edge types, {hops}"
                contestants.setdefault(name, batches_of(typed, mine, hops, options))
        done, _ = timing.interleave(contestants, options.runs)
    return {name: timing.spread(runs) for name, runs in done.items()}


def types_table(rates: dict[str, timing.Spread]) -> str:
    """Nanoseconds for an edge of each contestant, and the ratio to the whole graph's."""
    base = next(iter(rates.values())).median
    rows = [["contestant", "ns/edge", f"of the graph without types (goal {GOAL})"]]
    for name, rate in rates.items():
        ns = [1e9 / one for one in (rate.median, rate.high, rate.low)]
        cell = f"{ns[0]:.1f} ({ns[1]:.1f} to {ns[2]:.1f})"
        rows.append([name, cell, f"{base / rate.median:.2f}"])
    return timing.markdown(rows)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Rates, and what they were measured on."""
    rng = np.random.default_rng(0)
    edges = rng.permutation(1 << options.scale)[edge_chunk(rng, options.scale, options.edges)]
    with tempfile.TemporaryDirectory(dir=options.data) as folder, OtherProcesses() as others:
        rates = measure_types(edges, Path(folder), options)
    about = conditions("typed", options.data, settings=timing.settings(options))
    return {**about, "others_share": others.share, "rates": rates}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    parser = timing.parser_of("benchmarks.typed", __doc__, runs=7)
    add = parser.add_argument
    add("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    add("--batch-size", type=int, default=1024)
    add("--types", type=int, nargs="+", default=[1, 2, 4], help="numbers of node types")
    options = parser.parse_args(arguments)
    if options.quick:
        options.scale, options.edges, options.batch_size = (
            timing.QUICK_SCALE,
            timing.QUICK_EDGES,
            32,
        )
    timing.require_positive(parser, options, ["runs", "batch_size", "edges"])
    options.data.mkdir(parents=True, exist_ok=True)
    found = measure(options)
    line = (
        f"R-MAT, {1 << options.scale:,} nodes, {options.edges:,} edges, {options.batch_size} "
        f"seeds; medians (lowest to highest) of {options.runs} runs"
    )
    print(heading(found, [line]), types_table(found["rates"]), sep="\n\n")
    timing.write_json(options, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
