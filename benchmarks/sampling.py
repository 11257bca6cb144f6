"""Walks, one hop, multi-hop and the loader, side by side with graphzero 0.2.0.

Run ``python -m benchmarks.sampling`` from the repository's root, with graphzero installed. The
peer is installed into a virtual environment of its own. ``--quick`` makes a small graph.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import files02
from benchmarks.checks import WrongResult
from benchmarks.inputs import Inputs, feature_rows, prepare
from benchmarks.machine import (
    describe_disk,
    describe_machine,
    others_share,
    read_usage,
    resident_share,
    versions,
)
from benchmarks.peers import Peer, PeerError, Worker, install
from benchmarks.timing import Comparison, Dropped, Run, compare, lasting, table, to_json

if TYPE_CHECKING:
    import graphzero as gz
    from benchmarks.workloads import Workload

OURS = "graphzero"
SHORTEST_RUN = 0.2
GRAPHZERO02 = Peer(
    name="graphzero 0.2.0",
    # It requires torch but does not import it.
    installs=(("--no-deps", "graphzero==0.2.0"), ("numpy",)),
    script="peer_graphzero02.py",
)


def check_layout(worker: Worker, folder: Path) -> None:
    """Holds our writer of the peer's files against the peer's own converter, byte by byte.

    Raises
    ------
    PeerError
        If the bytes differ.
    """
    paths = {name: str(folder / name) for name in ("edges", "graph", "rows", "features")}
    edges = np.array([[0, 1], [0, 3], [2, 0], [2, 1], [2, 3], [4, 2], [6, 0]])
    rows = feature_rows(np.arange(7), 5)
    np.savetxt(paths["edges"], edges, "%d", ",", header="src,dst", comments="")
    cells = np.column_stack([np.arange(7), rows])
    np.savetxt(paths["rows"], cells, ["%d", *["%.9g"] * 5], ",")
    worker.call("convert", **paths)
    degrees = np.bincount(edges[:, 0], minlength=7)
    files02.write_graph(folder / "own.gl", degrees, edges[:, 1])
    files02.write_features(folder / "own.gd", rows)
    for own, converted in (("own.gl", "graph"), ("own.gd", "features")):
        if not filecmp.cmp(folder / own, paths[converted], shallow=False):
            raise PeerError(f"{worker.name} writes another file layout than this benchmark")


def start_peer(
    peer: Peer, inputs: Inputs, peer_dir: Path, scratch: Path, threads: int
) -> tuple[Worker, str]:
    """Installs and starts a peer, and opens its files.

    Returns
    -------
    Worker
    str
        The peer's version.

    Raises
    ------
    PeerError
    """
    worker = Worker(peer, install(peer, peer_dir), log=scratch / "peer.log", threads=threads)
    try:
        check_layout(worker, scratch)
        opened = worker.call(
            "open",
            graph=str(inputs.path("graph02.gl")),
            features=str(inputs.path("features02.gd")),
            degrees=str(inputs.path("degrees.npy")),
        )
        if opened["num_edges"] != inputs.num_edges:
            raise PeerError(f"{peer.name} sees {opened['num_edges']} edges")
    except BaseException:
        worker.close()
        raise
    return worker, str(opened["version"])


def our_run(work: Workload) -> Callable[[int], Run]:
    """A contestant: one run of ours, checked."""

    def run(number: int) -> Run:
        seeds = work.seeds(number)
        seconds, arrays = work.ours(seeds, number)
        return Run(work.check(seeds, arrays) / work.scale, seconds)

    return run


def peer_run(work: Workload, worker: Worker, scratch: Path) -> Callable[[int], Run]:
    """A contestant: one run of a peer, timed in its process and checked here."""

    def run(number: int) -> Run:
        seeds = work.seeds(number)[: work.peer_seeds]
        given, out = scratch / "seeds.npy", scratch / "out.npz"
        np.save(given, seeds)
        try:
            answer = worker.call(**work.request, seeds=str(given), out=str(out))
            with np.load(out) as arrays:
                return Run(work.check(seeds, dict(arrays)) / work.scale, answer["seconds"])
        except (PeerError, WrongResult) as error:
            raise Dropped(f"{worker.name}: {error}") from error

    return run


def open_dataset(inputs: Inputs) -> gz.Dataset:
    """The dataset that graphzero builds from the inputs, built once; every page is touched."""
    import graphzero as gz

    folder = inputs.path("dataset")
    if not (folder / "dataset.json").exists():
        gz.build(
            folder,
            edges=inputs.path("edges.npy"),
            features=inputs.path("features.npy"),
            directed=True,
            order="input",
        )
    dataset = gz.open(folder)
    dataset.graph.sample_neighbors(np.arange(dataset.num_nodes), 10)
    assert dataset.features is not None
    dataset.features.get_tensor().max()
    return dataset


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
    peers: dict[str, dict[str, Any]] = {}
    workers: list[Worker] = []
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.data)))
        dataset = stack.enter_context(open_dataset(inputs))
        try:
            worker, version = start_peer(
                GRAPHZERO02, inputs, options.peer_dir, scratch, options.threads
            )
            workers.append(stack.enter_context(worker))
            peers[GRAPHZERO02.name] = {"version": version, "missing": None}
        except PeerError as error:
            peers[GRAPHZERO02.name] = {"version": None, "missing": str(error)}
            print(f"without {GRAPHZERO02.name}: {error}", file=sys.stderr)
        before = read_usage()
        for work in workloads(dataset, inputs, options.threads, sizes):
            print(f"{work.name} ...", file=sys.stderr)
            contestants = {OURS: our_run(work)}
            contestants |= {worker.name: peer_run(work, worker, scratch) for worker in workers}
            lasting_ones = {name: lasting(run, SHORTEST_RUN) for name, run in contestants.items()}
            comparisons.append(
                compare(work.name, work.unit, lasting_ones, options.runs, work.notes)
            )
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
    machine, disk, settings = about["machine"], about["disk"], about["settings"]
    graph, resident = settings["graph"], about["cache"]["resident_share"]
    share = "unknown" if resident is None else f"{resident:.0%}"
    lines = [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.1f} GiB, "
        f"{machine['kernel']}, Python {machine['python']}",
        f"other processes took {about['others_processor_share']:.0%} of the processors' time",
        f"data on {disk['file_system']} ({disk['device']}), cache warm, resident share {share}",
        f"{graph['kind']}, {graph['num_nodes']:,} nodes, {graph['num_edges']:,} edges, "
        f"{graph['dim']} float32 columns, order {settings['order']}",
        f"{settings['threads']} threads, {settings['workers']} workers, batches of "
        f"{settings['batch_size']} seeds, fanouts {list(settings['fanouts'])}, walks of "
        f"{settings['length']} steps from {settings['starts']:,} starts",
        ", ".join(f"{name} {version}" for name, version in about["versions"].items()),
        f"median (lowest to highest) of {settings['runs']} runs, taken in turns",
    ]
    for name, peer in about["peers"].items():
        if peer["missing"] is not None:
            lines.append(f"without {name}: {peer['missing']}")
    return "\n".join(lines)


def _count(text: str) -> int:
    return int(float(text))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    here = Path(__file__).parent
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sampling", description=__doc__)
    parser.add_argument("--scale", type=int, default=21, help="the graph has 2^SCALE nodes")
    parser.add_argument("--edges", type=_count, default=32_000_000, help="such as 32e6")
    parser.add_argument("--dim", type=int, default=128, help="float32 columns of the rows")
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each contestant")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", type=Path, default=here / ".data", help="folder for the graph")
    parser.add_argument("--peer-dir", type=Path, default=here / ".peer", help="folder for peers")
    parser.add_argument("--json", type=Path, help="write the results there as well")
    parser.add_argument("--quick", action="store_true", help="2^16 nodes, 1 M edges: a smoke test")
    options = parser.parse_args(arguments)
    if options.runs < 1 or options.threads < 1:
        parser.error("--runs and --threads must be positive")
    if options.quick:
        options.scale, options.edges = 16, 1_000_000
    if not 16 <= options.scale <= 31:
        parser.error("--scale must be 16 to 31")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    options = parse(arguments)
    os.makedirs(options.data, exist_ok=True)
    comparisons, about = measure(options)
    print(heading(about), end="\n\n")
    print(table(comparisons, [OURS, *about["peers"]]))
    if options.json is not None:
        results = {**about, "results": [to_json(comparison) for comparison in comparisons]}
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    # -m puts the current folder first, whose uncompiled graphzero/ would hide the installed one.
    sys.path.append(sys.path.pop(0))
    sys.exit(main())
