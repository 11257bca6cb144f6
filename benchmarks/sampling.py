"""Walks, one hop, multi-hop and the loader in memory, side by side with other libraries.

Peers are graphzero 0.2.0, and torch-cluster, torch-sparse and PyG's NeighborLoader, each in a
virtual environment of its own; compiling the extensions of torch takes long, once. Every result is
checked against the edge list: a fast but wrong answer does not count.
"""

from __future__ import annotations

import argparse
import filecmp
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import machine, timing
from benchmarks.inputs import (
    Inputs,
    IntArray,
    build_once,
    feature_rows,
    labels_of,
    prepare,
    write_graph02,
)
from benchmarks.peers import GRAPHZERO02, PYG, PeerError, Worker, start_own, start_peer

Arrays = Mapping[str, npt.NDArray[Any]]

OURS = "graphzero"
SHORTEST_RUN = 0.2
CHECKED_EDGES = 20_000
SMALL_BATCHES, MOST_SMALL, FANOUTS_OF_SMALL = (1, 8, 32, 128), 500, [10, 5]
WALK_LENGTH, CONTEXT, WALKS_PER_NODE = 20, 10, 10  # of PyG's example of node2vec

FEWER = "from fewer starts, because it is slow"
OPERATOR = (
    "the operator itself, parallel over the starts, on a CSR made beforehand: its Python wrapper "
    "sorts all edges in each call"
)
ACCEPTS = "its rejection accepts every proposal where q is least of p, q and 1: uniform walks"
WHOLE = "whole walks, whose windows the loss forms after it has looked up their nodes"
ON_CLUSTER = "its own windows and negatives, over walks of torch-cluster's operator"
SERIAL = "neighbor_sample runs on one thread: it has no parallel code"
ON_SPARSE = "samples by torch-sparse's neighbor_sample on one thread, gathers on all"


class WrongResult(RuntimeError):
    """A result that cannot come from the graph."""


def _require(holds: bool | np.bool_, what: str) -> None:
    if not holds:
        raise WrongResult(what)


def _require_edges(inputs: Inputs, source: IntArray, target: IntArray) -> None:
    """Checks an evenly spaced selection of edges."""
    at = np.linspace(0, source.size - 1, min(source.size, CHECKED_EDGES)).astype(np.int64)
    _require(inputs.has_edges(source[at], target[at]), "an edge that the graph does not have")


def check_walks(inputs: Inputs, seeds: IntArray, arrays: Arrays, length: int) -> int:
    """Number of steps taken in `walks`, (n, length + 1) int64; dead ends take none."""
    walks = arrays["walks"]
    _require(walks.shape == (seeds.size, length + 1), f"walks of the wrong shape {walks.shape}")
    _require((walks[:, 0] == seeds).all(), "a walk that does not begin at its start")
    before, after = walks[:, :-1], walks[:, 1:]
    going = np.logical_and.accumulate(inputs.degrees[before] > 0, axis=1)
    stays = (after == -1) | (after == before)
    _require((going | stays).all(), "a step out of a dead end")
    _require_edges(inputs, before[going], after[going])
    return int(going.sum())


def check_windows(inputs: Inputs, seeds: IntArray, arrays: Arrays, walks: int, pairs: int) -> int:
    """Number of positive pairs; `pos_rw` is the last batch, whole walks or windows of ten nodes."""
    rows = arrays["pos_rw"]
    windows = WALK_LENGTH - rows.shape[1] + 1
    _require(arrays["rows"] == seeds.size * walks * windows, "a wrong number of windows")
    before, after = rows[:, :-1].reshape(-1), rows[:, 1:].reshape(-1)
    going = inputs.degrees[before] > 0
    _require((going | (after == before)).all(), "a step out of a dead end")
    _require_edges(inputs, before[going], after[going])
    return int(seeds.size) * walks * pairs


def check_one_hop(inputs: Inputs, seeds: IntArray, arrays: Arrays, fanout: int) -> int:
    """Number of edges from `target`, the seeds repeated, to `source`, their neighbours."""
    source, target = arrays["source"], arrays["target"]
    expected = np.minimum(inputs.degrees[seeds], fanout)
    _require(np.array_equal(target, np.repeat(seeds, expected)), "a wrong number of neighbours")
    _require_edges(inputs, target, source)
    return int(source.size)


def check_subgraph(
    inputs: Inputs, seeds: IntArray, arrays: Arrays, fanouts: list[int], with_rows: bool
) -> int:
    """Number of batches in `seeds`, (batches, batch_size); the arrays are those of the last."""
    n_id, (source, target) = arrays["n_id"], arrays["edge_index"]
    batch = seeds[-1]
    _require(np.array_equal(n_id[: batch.size], batch), "seeds that are not the first nodes")
    _require(np.unique(n_id).size == n_id.size, "a node with two numbers")
    sampled = np.bincount(target, minlength=n_id.size)
    expected = np.minimum(inputs.degrees[batch], fanouts[0])
    _require((sampled[: batch.size] == expected).all(), "a wrong number of neighbours")
    _require_edges(inputs, n_id[target], n_id[source])
    if with_rows:
        rows = feature_rows(n_id, inputs.dim)
        _require(np.array_equal(arrays["x"], rows), "a row that is not its node's")
        _require(np.array_equal(arrays["y"], labels_of(n_id)), "a label that is not its node's")
    return len(seeds)


@dataclass(frozen=True)
class Contestant:
    """How a process runs a workload: its request, and the goal for our ratio to it."""

    session: str
    request: dict[str, Any]
    goal: float | None = None
    seeds: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Workload:
    """One row of the table.

    Attributes
    ----------
    name, unit : str
    scale : float
        Steps, edges or batches per unit of work.
    seeds : callable
        Run number to seeds.
    check : callable
        Seeds and arrays to the work done; raises WrongResult.
    contestants : mapping of str to Contestant
        By the name that the table shows; graphzero is the first.
    """

    name: str
    unit: str
    scale: float
    seeds: Callable[[int], IntArray]
    check: Callable[[IntArray, Arrays], int]
    contestants: Mapping[str, Contestant]


def workloads(inputs: Inputs, options: argparse.Namespace) -> list[Workload]:
    """All workloads over one graph."""
    fanouts = list(options.fanouts)

    def nodes(number: int) -> IntArray:
        return inputs.seeds(1, number, options.starts)

    def batches(number: int, size: int = options.batch_size) -> IntArray:
        count = max(1, min(options.batches * options.batch_size // size, MOST_SMALL))
        return inputs.seeds(2, number, count * size).reshape(count, -1)

    def walks(name: str, q: float, old: dict[str, Any], cluster: dict[str, Any]) -> Workload:
        request = {"op": "walk", "length": options.length, "p": 1.0, "q": q}
        check = partial(check_walks, inputs, length=options.length)
        contestants = {
            OURS: Contestant(OURS, request),
            "graphzero 0.2.0": Contestant(GRAPHZERO02, request, **old),
            "torch-cluster": Contestant(PYG, request, **cluster),
        }
        return Workload(name, "M steps/s", 1e6, nodes, check, contestants)

    def subgraphs(name: str, rows: bool, rival: str, op: str, goal: float, note: str) -> Workload:
        request = {"op": "load", "fanouts": fanouts}
        check = partial(check_subgraph, inputs, fanouts=fanouts, with_rows=rows)
        contestants = {
            OURS: Contestant(OURS, {**request, "rows": rows}),
            rival: Contestant(PYG, {**request, "op": op}, goal, notes=(note,)),
        }
        return Workload(name, "batches/s", 1.0, batches, check, contestants)

    def windows(q: float) -> Workload:
        request = {"op": "windows", "batch_size": 128, "walk_length": WALK_LENGTH, "p": 1.0, "q": q}
        request |= {"walks_per_node": WALKS_PER_NODE, "context_size": CONTEXT}
        pairs = (WALK_LENGTH - CONTEXT + 1) * (CONTEXT - 1)
        check = partial(check_windows, inputs, walks=WALKS_PER_NODE, pairs=pairs)
        contestants = {
            OURS: Contestant(OURS, {**request, "context_size": WALK_LENGTH}, notes=(WHOLE,)),
            "graphzero, windows": Contestant(OURS, request),
            "PyG Node2Vec": Contestant(PYG, request, 5, notes=(ON_CLUSTER,)),
        }
        name = f"node2vec pairs, p=1, q={q:g}"
        return Workload(
            name, "M pairs/s", 1e6, lambda number: nodes(number)[:20_000], check, contestants
        )

    def loader_of(size: int) -> Workload:
        """Small mini-batches, where what is done for each batch counts."""
        request = {"op": "load", "fanouts": FANOUTS_OF_SMALL}
        check = partial(check_subgraph, inputs, fanouts=FANOUTS_OF_SMALL, with_rows=True)
        contestants = {
            OURS: Contestant(OURS, {**request, "rows": True}),
            "PyG NeighborLoader": Contestant(PYG, request, 1, notes=(ON_SPARSE,)),
        }
        name = f"loader {FANOUTS_OF_SMALL}, {size} seeds"
        return Workload(name, "batches/s", 1.0, partial(batches, size=size), check, contestants)

    one_hop = {"op": "one_hop", "fanout": options.fanout}
    hops = {OURS: Contestant(OURS, one_hop), "graphzero 0.2.0": Contestant(GRAPHZERO02, one_hop, 8)}
    check = partial(check_one_hop, inputs, fanout=options.fanout)
    fewer = {"seeds": max(1, options.starts // 40), "notes": (FEWER,)}
    as_loader = f"loader {fanouts}, {inputs.dim} float32"
    return [
        walks("uniform walks", 1.0, {"goal": 15}, {"goal": 5, "notes": (OPERATOR,)}),
        walks("node2vec walks, p=1, q=0.5", 0.5, fewer, {"goal": 40, "notes": (OPERATOR, ACCEPTS)}),
        windows(1.0),
        windows(0.5),
        Workload(f"one hop, K={options.fanout}", "M edges/s", 1e6, nodes, check, hops),
        subgraphs(f"multi-hop {fanouts}", False, "torch-sparse", "multi_hop", 40, SERIAL),
        subgraphs(as_loader, True, "PyG NeighborLoader", "load", 18, ON_SPARSE),
        *map(loader_of, SMALL_BATCHES),
    ]


def check_layout(worker: Worker, folder: Path) -> None:
    """Compares our writer of 0.2's files with 0.2's own converter, byte by byte.

    Raises
    ------
    PeerError
        If the bytes differ.
    """
    edges = np.array([[0, 1], [0, 3], [2, 0], [2, 1], [2, 3], [4, 2], [6, 0]])
    text, converted, own = folder / "edges.csv", folder / "02.gl", folder / "own.gl"
    np.savetxt(text, edges, "%d", ",", header="src,dst", comments="")
    worker.call("convert", edges=str(text), out=str(converted))
    write_graph02(own, np.bincount(edges[:, 0], minlength=7), edges[:, 1])
    if not filecmp.cmp(own, converted, shallow=False):
        raise PeerError(f"{worker.name} writes another file layout than this benchmark")


def start_sessions(
    stack: ExitStack, options: argparse.Namespace, inputs: Inputs, dataset: Path, folder: Path
) -> tuple[dict[str, Worker], dict[str, Any]]:
    """All processes with their files open; and versions of each, or why it is unavailable."""
    path = {name: str(inputs.path(f"{name}.npy")) for name in ("edges", "features", "labels")}
    degrees, graph02 = folder / "degrees.npy", inputs.path("graph02.gl")
    files: dict[str, dict[str, Any]] = {
        OURS: {"dataset": str(dataset), "threads": options.threads},
        GRAPHZERO02: {"graph": str(graph02), "degrees": str(degrees)},
        PYG: {**path, "num_nodes": inputs.num_nodes},
    }
    workers: dict[str, Worker] = {}
    about: dict[str, Any] = {}
    for name in (OURS, *options.peers):
        how: dict[str, Any] = {"folder": folder, "threads": options.threads}
        try:
            start = start_own if name == OURS else partial(start_peer, name, options.peer_dir)
            worker = stack.enter_context(start(**how))
            if name == GRAPHZERO02:
                check_layout(worker, folder)
                np.save(degrees, inputs.degrees)
                if not graph02.exists():
                    write_graph02(graph02, inputs.degrees, inputs.keys % inputs.num_nodes)
            opened = worker.call("open", **files[name])
            if opened["num_edges"] != inputs.num_edges:
                raise PeerError(f"{name} sees {opened['num_edges']} edges")
            workers[name], about[name] = worker, opened["versions"]
        except PeerError as error:
            if name == OURS:
                raise
            about[name] = str(error)
            print(f"without {name}: {error}", file=sys.stderr)
    return workers, about


def run_of(
    work: Workload, one: Contestant, worker: Worker, folder: Path
) -> Callable[[int], timing.Run]:
    """One run, timed in the contestant's process and checked here."""

    def run(number: int) -> timing.Run:
        seeds = work.seeds(number)[: one.seeds]
        given, out = folder / "seeds.npy", folder / "out.npz"
        np.save(given, seeds)
        try:
            answer = worker.call(**one.request, seeds=str(given), out=str(out))
            with np.load(out) as arrays:
                done = work.check(seeds, dict(arrays)) / work.scale
        except (PeerError, WrongResult) as error:
            if worker.name == OURS:
                raise
            raise timing.Dropped(f"{worker.name} in '{one.request['op']}': {error}") from error
        return timing.Run(done, answer["seconds"], answer["processor_seconds"])

    return run


def run_workload(
    work: Workload, workers: Mapping[str, Worker], folder: Path, options: argparse.Namespace
) -> timing.Comparison:
    """Times every contestant whose process runs; other chosen ones keep their goals."""
    chosen = {
        name: one for name, one in work.contestants.items() if one.session in (OURS, *options.peers)
    }
    running = {name: one for name, one in chosen.items() if one.session in workers}
    return timing.compare(
        work.name,
        work.unit,
        {
            name: timing.lasting(run_of(work, one, workers[one.session], folder), SHORTEST_RUN)
            for name, one in running.items()
        },
        options.runs,
        goals={name: one.goal for name, one in chosen.items() if one.goal is not None},
        notes={name: one.notes if name in running else () for name, one in chosen.items()},
    )


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Runs every workload; results and what they were measured on."""
    inputs = prepare(
        options.data, num_nodes=1 << options.scale, num_edges=options.edges, dim=options.dim
    )
    # Walks need the targets of edges; the contestants sample the same lists.
    dataset = build_once(inputs, "out-lists", neighbors="out", order="input")
    files = [path for path in dataset.iterdir() if path.suffix in (".gl", ".gd")]
    machine.read_through(files)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=options.data)))
        workers, sessions = start_sessions(stack, options, inputs, dataset, scratch)
        results = []
        with machine.OtherProcesses() as others:
            for work in workloads(inputs, options):
                print(f"{work.name} ...", file=sys.stderr)
                results.append(run_workload(work, workers, scratch, options))
    return machine.conditions(
        "sampling",
        options.data,
        others_share=others.share,
        resident_share=machine.resident_share(files),
        settings=timing.settings(options),
        sessions=sessions,
        results=results,
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = timing.parser_of("benchmarks.sampling", __doc__)
    add = parser.add_argument
    add("--starts", type=int, default=200_000, help="of walks and of one hop")
    add("--length", type=int, default=10, help="steps of a walk")
    add("--fanout", type=int, default=10, help="of one hop")
    add("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    add("--batch-size", type=int, default=1024)
    add("--batches", type=int, default=10, help="of a run")
    add("--peer-dir", type=Path, default=timing.PEERS, help="folder for peers")
    names = [GRAPHZERO02, PYG]
    add("--peers", type=timing.list_of(names, "peer"), default=names, help="such as pyg; none: ,")
    options = parser.parse_args(arguments)
    if options.quick:
        options.scale, options.edges = timing.QUICK_SCALE, timing.QUICK_EDGES
    timing.require_positive(parser, options, ["runs", "threads", "edges", "batch_size", "batches"])
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    options = parse(arguments)
    options.data.mkdir(parents=True, exist_ok=True)
    found = measure(options)
    results = found["results"]
    names = list(dict.fromkeys([OURS, *(name for result in results for name in result.notes)]))
    lines = [
        f"cache warm, resident share {found['resident_share']}",
        f"R-MAT, {1 << options.scale:,} nodes, {options.edges:,} edges, {options.dim} float32 "
        f"columns; {options.threads} threads, batches of {options.batch_size} seeds",
        *(f"{name}: {about}" for name, about in found["sessions"].items()),
        f"median (lowest to highest) of {options.runs} runs in turns, on busy processors",
    ]
    print(machine.heading(found, lines), end="\n\n")
    print(timing.rate_table(results, names), end="\n\n")
    print(timing.ratio_table(results, names))
    timing.write_json(options, {**found, "results": [result.plain() for result in results]})
    return 0


if __name__ == "__main__":
    sys.exit(main())
