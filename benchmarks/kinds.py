"""The time of each kind of sampling, and the number of distinct nodes whose features it needs.

Run ``python -m benchmarks.kinds`` from the repository's root, with graphzero installed: on an R-MAT
graph, or with ``--dataset`` on a folder that ``graphzero build`` has made. One thread; the kinds
take turns. LABOR reduces the number of distinct nodes; dependent batches share nodes with the batch
before. Both save reads from disk.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.inputs import open_warm, prepare

if TYPE_CHECKING:
    import graphzero as gz

KINDS: dict[str, dict[str, Any]] = {
    "uniform": {},
    "with replacement": {"replace": True},
    "by weight": {"weighted": True},
    "LABOR-0": {"labor": True},
    "dependent, 16": {"batch_dependency": 16},
    "LABOR-0, dependent, 16": {"labor": True, "batch_dependency": 16},
    "disjoint": {"disjoint": True},
    "until a time": {"times": True},
    "last until a time": {"times": True, "temporal_strategy": "last"},
    "induced": {"subgraph_type": "induced"},
}


@dataclass
class Tally:
    """What the batches of one kind were like."""

    milliseconds: list[float] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    edges: list[int] = field(default_factory=list)
    shared: list[float] = field(default_factory=list)
    last: Any = None

    def add(self, seconds: float, batch: gz.Subgraph) -> None:
        """Counts one batch."""
        distinct = np.unique(batch.n_id)
        self.milliseconds.append(1e3 * seconds)
        self.nodes.append(distinct.size)
        self.edges.append(batch.edge_index.shape[1])
        if self.last is not None:
            self.shared.append(float(np.isin(distinct, self.last).mean()))
        self.last = distinct


def samplers_of(
    ds: gz.Dataset, fanouts: Sequence[int]
) -> Iterator[tuple[str, gz.NeighborSampler, bool]]:
    """(kind, sampler, whether seeds have times) of all kinds that this graph supports."""
    import graphzero as gz

    for kind, options in KINDS.items():
        timed = options.get("times", False)
        if (timed and ds.graph.times is None) or (
            options.get("weighted") and ds.graph.weights is None
        ):
            continue
        how = {name: value for name, value in options.items() if name != "times"}
        yield kind, gz.NeighborSampler(ds.graph, fanouts, num_threads=1, **how), timed


def measure(ds: gz.Dataset, options: argparse.Namespace) -> dict[str, Tally]:
    """Samples the first batches of an epoch with every kind in turn."""
    degree = ds.graph.degree(np.arange(ds.num_nodes))
    seeds = np.random.default_rng(0).permutation(np.flatnonzero(degree))
    samplers = list(samplers_of(ds, options.fanouts))
    tallies = {kind: Tally() for kind, _, _ in samplers}
    latest = None if ds.graph.times is None else int(np.median(ds.graph.times))
    for number in range(options.batches):
        begin = number * options.batch_size % max(1, seeds.size - options.batch_size)
        mine = seeds[begin : begin + options.batch_size]
        for kind, sampler, timed in samplers:
            times = np.full(mine.size, latest) if timed else None
            started = time.perf_counter()
            batch = sampler.sample(mine, seed_time=times, batch=number)
            tallies[kind].add(time.perf_counter() - started, batch)
    return tallies


def table(tallies: dict[str, Tally]) -> str:
    """Medians, in Markdown."""
    uniform = statistics.median(tallies["uniform"].nodes)
    rows = [
        "| kind | ms a batch | edges | distinct nodes | of uniform | shared with the last |",
        "|---|---|---|---|---|---|",
    ]
    for kind, tally in tallies.items():
        nodes = statistics.median(tally.nodes)
        rows.append(
            f"| {kind} | {statistics.median(tally.milliseconds):.1f} "
            f"| {statistics.median(tally.edges):,.0f} | {nodes:,.0f} | {nodes / uniform:.2f} "
            f"| {statistics.median(tally.shared or [0]):.2f} |"
        )
    return "\n".join(rows)


def main() -> None:
    """Prints the table, and with ``--json`` writes all numbers."""
    import graphzero as gz

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dataset", help="folder of a built dataset; default: an R-MAT graph")
    parser.add_argument("--data", default=tempfile.gettempdir(), help="where to make the graph")
    parser.add_argument("--scale", type=int, default=21)
    parser.add_argument("--edges", type=int, default=32_000_000)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=9)
    parser.add_argument("--json", help="file for all numbers")
    options = parser.parse_args()
    if options.dataset is not None:
        ds = gz.open(options.dataset)
    else:
        inputs = prepare(options.data, scale=options.scale, num_edges=options.edges, dim=8)
        ds = open_warm(inputs, "labelled", "input")
    with ds:
        tallies = measure(ds, options)
        print(f"{ds.num_nodes:,} nodes, {ds.num_edges:,} edges, fanouts {options.fanouts}")
        print(table(tallies))
    if options.json:
        numbers = {kind: {**asdict(t), "last": None} for kind, t in tallies.items()}
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(numbers, file)


if __name__ == "__main__":
    main()
