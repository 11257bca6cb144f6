"""Walks, one hop, multi-hop and the loader, side by side with peers.

Run ``python -m benchmarks.sampling`` from the repository's root, with graphzero installed. Peers
are graphzero 0.2.0, and torch-cluster, torch-sparse and PyG's NeighborLoader. Each is installed
into its own virtual environment; compiling the extensions of torch takes long, once. ``--quick``
makes a small graph.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.contestants import known_peers, our_run, peer_run, start_peer
from benchmarks.inputs import Inputs, open_warm, prepare
from benchmarks.machine import (
    describe_disk,
    describe_machine,
    others_share,
    read_usage,
    resident_share,
    versions,
)
from benchmarks.options import (
    QUICK_EDGES,
    QUICK_SCALE,
    add_graph,
    list_of,
    require_positive,
    require_scale,
)
from benchmarks.peers import PeerError, Worker
from benchmarks.report import (
    machine_lines,
    rate_table,
    ratio_table,
    to_json,
    versions_line,
    warm_cache_line,
)
from benchmarks.timing import Comparison, Run, compare, lasting
from benchmarks.workload import Workload

OURS = "graphzero"
SHORTEST_RUN = 0.2


def start_peers(
    stack: ExitStack, options: argparse.Namespace, inputs: Inputs, scratch: Path
) -> tuple[dict[str, Worker], dict[str, dict[str, Any]]]:
    """Starts the chosen peers; reports and skips those that are unavailable.

    Returns
    -------
    dict of str to Worker
    dict of str to dict
        For each chosen peer, the versions of its packages, and why it is unavailable or None.
    """
    known = known_peers()
    workers: dict[str, Worker] = {}
    about: dict[str, dict[str, Any]] = {}
    for name in options.peers:
        starting = start_peer(known[name], inputs, options.peer_dir, scratch, options.threads)
        try:
            workers[name], parts = stack.enter_context(starting)
            about[name] = {"versions": parts, "missing": None}
        except PeerError as error:
            about[name] = {"versions": {}, "missing": str(error)}
            print(f"without {name}: {error}", file=sys.stderr)
    return workers, about


def run_workload(
    work: Workload, workers: Mapping[str, Worker], scratch: Path, options: argparse.Namespace
) -> Comparison:
    """Times graphzero and every rival whose peer runs; other chosen rivals keep their goals."""
    rivals = {name: rival for name, rival in work.rivals.items() if rival.peer in options.peers}
    contestants: dict[str, Callable[[int], Run]] = {OURS: our_run(work)}
    for name, rival in rivals.items():
        if rival.peer in workers:
            contestants[name] = peer_run(work, rival, workers[rival.peer], scratch)
    return compare(
        work.name,
        work.unit,
        {name: lasting(run, SHORTEST_RUN) for name, run in contestants.items()},
        options.runs,
        goals={name: rival.goal for name, rival in rivals.items() if rival.goal is not None},
        notes={name: rival.notes if name in contestants else () for name, rival in rivals.items()},
    )


def measure(options: argparse.Namespace) -> tuple[list[Comparison], dict[str, Any]]:
    """Runs every workload.

    Returns
    -------
    list of Comparison
    dict
        What was measured on what, as plain values.
    """
    from benchmarks.workloads import Sizes, workloads

    sizes, comparisons = Sizes(), []
    inputs = prepare(options.data, scale=options.scale, num_edges=options.edges, dim=options.dim)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.data)))
        dataset = stack.enter_context(open_warm(inputs, "labelled", "input"))
        workers, peers = start_peers(stack, options, inputs, scratch)
        before = read_usage()
        for work in workloads(dataset, inputs, options.threads, sizes):
            print(f"{work.name} ...", file=sys.stderr)
            comparisons.append(run_workload(work, workers, scratch, options))
        after = read_usage()
        about = describe(options, inputs, asdict(sizes), dataset.paths)
        others = others_share(before, after, os.cpu_count() or 1)
        about |= {"others_processor_share": others, "peers": peers}
    return comparisons, about


def describe(
    options: argparse.Namespace, inputs: Inputs, sizes: dict[str, Any], paths: Sequence[str]
) -> dict[str, Any]:
    """Disk, cache, settings and versions, as plain values."""
    import graphzero as gz

    graph = {
        "kind": "R-MAT, directed",
        "num_nodes": inputs.num_nodes,
        "num_edges": inputs.num_edges,
        "dim": inputs.dim,
        "seed": inputs.seed,
    }
    return {
        "benchmark": "sampling",
        "machine": describe_machine(),
        "disk": describe_disk(options.data),
        "cache": {"state": "warm", "resident_share": resident_share(paths)},
        "settings": {
            "runs": options.runs,
            "shortest_run_seconds": SHORTEST_RUN,
            "threads": options.threads,
            "workers": 0,
            "order": "input",
            "graph": graph,
            **sizes,
        },
        "versions": {OURS: gz.__version__, **versions(["numpy", "torch"])},
    }


def heading(about: dict[str, Any]) -> str:
    """What was measured on what, in a few lines."""
    settings = about["settings"]
    graph = settings["graph"]
    lines = [
        *machine_lines(about),
        warm_cache_line(about),
        f"{graph['kind']}, {graph['num_nodes']:,} nodes, {graph['num_edges']:,} edges, "
        f"{graph['dim']} float32 columns, order {settings['order']}",
        f"{settings['threads']} threads, {settings['workers']} workers, batches of "
        f"{settings['batch_size']} seeds, fanouts {list(settings['fanouts'])}, walks of "
        f"{settings['length']} steps from {settings['starts']:,} starts",
        versions_line(about["versions"]),
    ]
    for name, peer in about["peers"].items():
        if peer["missing"] is None:
            lines.append(f"{name}: {versions_line(peer['versions'])}")
        else:
            lines.append(f"without {name}: {peer['missing']}")
    lines.append(
        f"median (lowest to highest) of {settings['runs']} runs, taken in turns, "
        "followed by the number of busy processors"
    )
    return "\n".join(lines)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampling", description=__doc__)
    add_graph(parser)
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each contestant")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", type=Path, default=here / ".data", help="folder for the graph")
    parser.add_argument("--peer-dir", type=Path, default=here / ".peer", help="folder for peers")
    peers = list(known_peers())
    parser.add_argument(
        "--peers", type=list_of(peers, "peer"), default=peers, help="such as graphzero02,pyg"
    )
    parser.add_argument("--json", type=Path, help="write the results there as well")
    parser.add_argument("--quick", action="store_true", help="2^16 nodes, 1 M edges: a smoke test")
    options = parser.parse_args(arguments)
    require_positive(parser, options, ["runs", "threads"])
    if options.quick:
        options.scale, options.edges = QUICK_SCALE, QUICK_EDGES
    require_scale(parser, options)
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    options = parse(arguments)
    os.makedirs(options.data, exist_ok=True)
    comparisons, about = measure(options)
    print(heading(about), end="\n\n")
    names = list(dict.fromkeys([OURS, *(name for result in comparisons for name in result.notes)]))
    print(rate_table(comparisons, names), end="\n\n")
    print(ratio_table(comparisons, names))
    if options.json is not None:
        results = {**about, "results": [to_json(comparison) for comparison in comparisons]}
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
