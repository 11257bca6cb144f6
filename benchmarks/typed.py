"""Time per sampled edge of a typed graph, against the same graph without types.

Run ``python -m benchmarks.typed`` from the repository's root, with graphzero installed. The nodes
of an R-MAT graph are dealt at random to 1, 2 and 4 types, which makes 1, 4 and 16 edge types. All
contestants run in turns on one thread, on the same seeds. What counts is the processor time of the
thread, because everything is in memory, and other programs may use the processors. A node of T
types has T lists, so two choices of fanouts are compared: those of the whole graph divided by T
(rounded up), which draw about as many edges in all; and those of the whole graph for every edge
type. ``--pyg`` adds PyG's ``NeighborLoader`` on torch-sparse, where both are installed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.options import QUICK_EDGES, QUICK_SCALE, count
from benchmarks.report import markdown
from benchmarks.timing import Run, Spread, interleave, lasting, spread
from benchmarks.typed_inputs import Cut, Source, whole

GOAL = 1.3
WHOLE = "without types"
SHORTEST_RUN = 0.3
BATCHES = 32  # with seeds of their own; draws differ in every batch


Sampler = Callable[[int], int]  # makes the batch of this number, and returns its edges


def timed(sample: Sampler) -> Callable[[int], Run]:
    """A contestant, by edges a second of processor time."""

    def run(number: int) -> Run:
        started = time.thread_time()
        edges = sample(number)
        seconds = time.thread_time() - started
        return Run(edges, seconds, seconds)

    return lasting(run, SHORTEST_RUN)


def divided(fanouts: Sequence[int], parts: int) -> list[int]:
    """Fanouts of each of so many lists of a node, rounded up."""
    return [-(-fanout // parts) for fanout in fanouts]


def seeds_of(source: Source, nodes: np.ndarray, number: int, batch_size: int) -> np.ndarray:
    """The seeds of one batch, distinct nodes that have out-neighbours."""
    rng = np.random.default_rng([source.seed, number])
    return rng.choice(nodes, min(batch_size, nodes.size), replace=False)


def contestants(source: Source, options: argparse.Namespace) -> dict[str, Sampler]:
    """By name: the whole graph, and every cut with both choices of fanouts."""
    from graphzero.sampling.sampler import NeighborSampler
    from graphzero.sampling.typed_sampler import TypedNeighborSampler

    graph = whole(source)
    nodes = np.flatnonzero(np.diff(graph.indptr.astype(np.int64)))
    fanouts = options.fanouts
    some = [seeds_of(source, nodes, number, options.batch_size) for number in range(BATCHES)]

    def of_whole(hops: Sequence[int]) -> Sampler:
        sampler = NeighborSampler(graph, hops, num_threads=1)

        def sample(number: int) -> int:
            return sampler.sample(some[number % BATCHES], batch=number).edge_index.shape[1]

        return sample

    def of_cut(cut: Cut, hops: Sequence[int]) -> Sampler:
        sampler = TypedNeighborSampler(cut.lists(), hops, num_threads=1)
        of_types = [cut.seeds(seeds) for seeds in some]

        def sample(number: int) -> int:
            found = sampler.sample(of_types[number % BATCHES], batch=number)
            return sum(edges.shape[1] for edges in found.edge_index.values())

        return sample

    found = {f"{WHOLE}, {list(fanouts)}": of_whole(fanouts)}
    for num_types in options.types:
        cut = Cut(source, num_types)
        for hops in (divided(fanouts, num_types), list(fanouts)):
            found.setdefault(f"{num_types**2} edge types, {hops}", of_cut(cut, hops))
    most = max(options.types)
    hops = [fanout * most for fanout in fanouts]
    found.setdefault(f"{WHOLE}, {hops}", of_whole(hops))
    return found


def pyg_contestants(source: Source, options: argparse.Namespace) -> dict[str, Sampler] | str:
    """PyG's loader, and graphzero on the seeds of the same node type; or why there are none."""
    try:
        import torch
        import torch_sparse  # noqa: F401
        from torch_geometric.data import HeteroData
        from torch_geometric.loader import NeighborLoader
    except ImportError as error:
        return f"without PyG: {error}"
    from graphzero.sampling.typed_sampler import TypedNeighborSampler

    cut = Cut(source, max(options.types))
    hops = divided(options.fanouts, cut.num_types)
    first = cut.node_types[0]
    data = HeteroData()
    for name, num_nodes in cut.num_nodes.items():
        data[name].num_nodes = num_nodes
    for (a, relation, b), ends in cut.edge_lists():
        # PyG samples the edges that arrive at a node: it gets the transposed graph
        data[b, relation, a].edge_index = torch.from_numpy(np.ascontiguousarray(ends[::-1]))
    sampler = TypedNeighborSampler(cut.lists(), hops, num_threads=1)
    loader = NeighborLoader(
        data, dict.fromkeys(data.edge_types, hops), input_nodes=(first, None), batch_size=1
    )

    def seeds(number: int) -> np.ndarray:
        rng = np.random.default_rng([source.seed, number])
        return rng.choice(cut.num_nodes[first], options.batch_size, replace=False)

    def of_pyg(number: int) -> int:
        batch = loader(torch.from_numpy(seeds(number)))
        return sum(batch[t].edge_index.shape[1] for t in batch.edge_types)

    def ours(number: int) -> int:
        found = sampler.sample({first: seeds(number)}, batch=number)
        return sum(edges.shape[1] for edges in found.edge_index.values())

    return {
        f"graphzero, seeds of {first}, {hops}": ours,
        "PyG NeighborLoader": of_pyg,
    }


def table(rates: dict[str, Spread], edges: dict[str, int]) -> str:
    """Nanoseconds for an edge of each contestant, and the ratio to the whole graph's."""
    base = next(iter(rates.values())).median
    rows = [["contestant", "edges a batch", "ns/edge", "of the whole graph's"]]
    for name, of_one in rates.items():
        ns = [1e9 / rate for rate in (of_one.median, of_one.high, of_one.low)]
        rows.append(
            [
                name,
                f"{edges[name]:,.0f}",
                f"{ns[0]:.1f} ({ns[1]:.1f} to {ns[2]:.1f})",
                f"{base / of_one.median:.2f}",
            ]
        )
    return markdown(rows)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.typed", description=__doc__)
    add = parser.add_argument
    add("--scale", type=int, default=21, help="the graph has 2^SCALE nodes")
    add("--edges", type=count, default=32_000_000, help="such as 32e6")
    add("--types", type=int, nargs="+", default=[1, 2, 4], help="numbers of node types")
    add("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    add("--batch-size", type=int, default=1024)
    add("--runs", type=int, default=7, help="counted runs of each contestant")
    add("--data", type=Path, default=Path(tempfile.gettempdir()), help="where to make the graph")
    add("--pyg", action="store_true", help="compare with PyG's NeighborLoader as well")
    add("--json", type=Path, help="file for all numbers")
    add("--quick", action="store_true", help="2^16 nodes, 1 M edges: a smoke test")
    options = parser.parse_args(arguments)
    if options.quick:
        options.scale, options.edges = QUICK_SCALE, QUICK_EDGES
    return options


def measure(samplers: dict[str, Sampler], runs: int) -> tuple[dict[str, Spread], dict[str, int]]:
    """(rates, edges of the first batch) of each contestant, by name."""
    edges = {name: sample(0) for name, sample in samplers.items()}
    done, _ = interleave({name: timed(sample) for name, sample in samplers.items()}, runs)
    return {name: spread(results) for name, results in done.items()}, edges


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    options = parse(arguments)
    folder = options.data / f"typed-{options.scale}-{options.edges}"
    source = Source(folder, options.scale, options.edges)
    rates, edges = measure(contestants(source, options), options.runs)
    print(
        f"R-MAT, {source.num_nodes:,} nodes, {source.num_edges:,} edges, {options.batch_size} seeds"
    )
    print(f"medians (lowest to highest) of {options.runs} runs, goal {GOAL} of {WHOLE}\n")
    print(table(rates, edges))
    if options.pyg:
        others = pyg_contestants(source, options)
        if isinstance(others, str):
            print(others, file=sys.stderr)
        else:
            of_pyg, of_edges = measure(others, options.runs)
            print("\n" + table(of_pyg, of_edges))
            rates |= of_pyg
    if options.json is not None:
        options.json.write_text(
            json.dumps({name: vars(of_one) for name, of_one in rates.items()}, indent=2) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
