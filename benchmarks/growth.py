"""Cost against size: per edge of a build, per step of a walk, per mini-batch, on growing graphs.

One R-MAT graph after another, with twelve edges a node, and each measurement in a process of its
own: the build; `gz.open`; walks; sampling, loading and training with [15, 10, 5] neighbours. The
last four

- in memory: all files are in the page cache;
- huge: the topology is in huge pages besides;
- at a third: in a memory cgroup of the anonymous memory that the same work takes without a limit,
  plus a third of the bytes of the files that are read; from a cold cache; batches come from
  loaders, which read ahead. The figure is that of the second half; pages read are given as a share
  of fio's random reads of 4 KiB at depth 128.

Peers walk and sample the lists that graphzero has built, in its order, all in memory and in turns.
The files of a size are removed before the next.
"""

from __future__ import annotations

import argparse
import math
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

import graphzero as gz
from benchmarks import machine, timing
from benchmarks.disk_probe import BLOCK_BYTES, NoFio, disk_rate
from benchmarks.inputs import label_chunks, row_chunks, write_graph02, write_rmat
from benchmarks.peers import (
    GRAPHZERO02,
    PYG,
    PeerError,
    Worker,
    limited,
    opened,
    start_own,
    start_peer,
)
from benchmarks.sessions import steps_of
from graphzero.report.limited_memory import NoMemoryGroup, limited_group

EDGES_A_NODE, COLUMNS = 12, 32
PEERS = ("graphzero", GRAPHZERO02, PYG)
UNITS = ("ns a step", "ns an edge", "ms a batch")
MEMORY, HUGE, THIRD = "memory", "huge", "third"
STATES = {MEMORY: "in memory", HUGE: "in huge pages", THIRD: "at a third"}
WALKS, WALKS2, SAMPLING, LOADER, TRAINING = "walks", "node2vec", "sampling", "loader", "training"
NAMES = (WALKS, WALKS2, SAMPLING, LOADER, TRAINING)
Q = dict(zip(NAMES, (1.0, 0.5, 0.0, 0.0, 0.0), strict=True))  # of walks; p is 1
FANOUTS, HIDDEN, FEW_BATCHES, PEER_BATCHES = [15, 10, 5], 64, 20, 10  # of a run in memory
CALLS, STARTS, LENGTH = 5, 200_000, 10  # of walks
MOST_RESIDENT, FEWEST_RESIDENT = 0.8, 0.99  # topology and rows, of the machine's memory; pages
DISK_AN_EDGE, DISK_LEFT = 30, 8e9  # bytes: edge list, both ends, sorted pieces and lists
BUILD_MEMORY, OFTEN_BUILT, OWN_SECONDS, PEER_SECONDS = "2GB", 32_000_000, 20.0, 120.0


@dataclass
class Graph:
    """One size: its folder, and why some figures are missing."""

    edges: int
    folder: Path
    notes: list[str] = field(default_factory=list)

    @property
    def nodes(self) -> int:
        """Twelve edges each."""
        return max(self.edges // EDGES_A_NODE, 2)

    @property
    def dtype(self) -> str:
        """The widest in which topology and rows fit into memory together."""
        most = MOST_RESIDENT * psutil.virtual_memory().total - 4 * self.edges - 12 * self.nodes
        fits = (n for n in ("f4", "f2") if int(n[1]) * COLUMNS * self.nodes <= most)
        return np.dtype(next(fits, "i1")).name

    @property
    def dataset(self) -> Path:
        """Its folder."""
        return self.folder / "dataset"

    def files(self, name: str) -> list[Path]:
        """What a work reads."""
        return sorted(self.dataset.glob("*.g[ld]" if name in (LOADER, TRAINING) else "*.gl"))

    def note(self, what: str) -> None:
        """For the end, and for now."""
        self.notes.append(f"{self.edges:,} edges: {what}")
        print(self.notes[-1], file=sys.stderr)


def build(graph: Graph, options: argparse.Namespace) -> dict[str, Any]:
    """Writes edges, builds, and adds rows and labels; the figures are of the build of edges."""
    path = graph.folder / "edges.npy"
    write_rmat(path, graph.nodes, graph.edges, threads=options.threads)
    request = {"edges": str(path), "out": str(graph.dataset), "neighbors": "out"}
    answers = []
    for _ in range(options.runs if graph.edges <= OFTEN_BUILT else 1):
        shutil.rmtree(graph.dataset, ignore_errors=True)
        with start_own(folder=graph.folder, threads=options.threads) as worker:
            how = {"num_nodes": graph.nodes, "memory_limit": BUILD_MEMORY}
            answers.append(worker.call("convert", **request, **how))
    if not options.keep:
        path.unlink()
    rows = row_chunks(graph.nodes, COLUMNS, graph.dtype)
    gz.set_attribute(graph.dataset, "x", rows, memory_limit=BUILD_MEMORY).close()
    gz.set_attribute(
        graph.dataset, "y", label_chunks(graph.nodes), memory_limit=BUILD_MEMORY
    ).close()
    return {
        "shape": f"{graph.nodes:,}, {COLUMNS} {graph.dtype}",
        "build": [answer["seconds"] for answer in answers],
        "build_peak": max(answer["peak_anonymous"] for answer in answers),
        "topology_bytes": sum(path.stat().st_size for path in graph.files(WALKS)),
    }


def write_seeds(graph: Graph, options: argparse.Namespace) -> None:
    """Nodes with neighbours, shuffled, in ids of the user and of the files.

    A row for each batch or call of walks; batches are "few" in memory, "many" under the limit.
    """
    shapes = {
        "few": (FEW_BATCHES, options.batch_size),
        "many": (options.batches, options.batch_size),
        "starts": (CALLS, STARTS),
    }
    with gz.open(graph.dataset) as ds:
        nodes = np.random.default_rng(0).permutation(np.flatnonzero(np.diff(ds.graph.indptr)))
        for name, shape in shapes.items():
            stored = np.resize(nodes, shape)
            user = ds.graph.to_user(stored.reshape(-1)).reshape(shape)
            for ids, seeds in (("", user), ("_stored", stored)):
                np.save(graph.folder / f"{name}{ids}.npy", seeds)


def request_of(name: str, state: str, graph: Graph, options: argparse.Namespace) -> dict[str, Any]:
    """The operation of `sessions.Own` that a measurement repeats."""
    limited = {"most_seconds": options.most_seconds} if state == THIRD else {}
    if Q[name]:
        how = {"length": LENGTH, "p": 1.0, "q": Q[name], **limited}
        return {"op": "walks", "seeds": str(graph.folder / "starts.npy"), **how}
    seeds = str(graph.folder / ("many.npy" if limited else "few.npy"))
    train = {"train": {"hidden": HIDDEN}} if name == TRAINING else {}
    how = {"fanouts": FANOUTS, "rows": name != SAMPLING, **train, **limited}
    return {"op": "load", "seeds": seeds, **how}


def in_memory(name: str, state: str, graph: Graph, options: argparse.Namespace) -> dict[str, Any]:
    """Seconds of a step or batch in each run, after one that is not counted."""
    files, request = graph.files(name), request_of(name, MEMORY, graph, options)
    machine.read_through(files)
    with opened(graph.dataset, options, huge=state == HUGE) as worker:
        answers = [worker.call(**request, number=run) for run in range(options.runs + 1)][1:]
    work = [each.get("work", len(each["laps"])) for each in answers]  # steps, or batches
    resident = machine.resident_share(files) or 0.0
    if resident < FEWEST_RESIDENT and state == MEMORY:
        graph.note(f"{name} in memory: only {resident:.0%} of the pages stayed there")
    edges = sum(each.get("edges", 0) for each in answers) / sum(work)
    costs = [each["seconds"] / done for each, done in zip(answers, work, strict=True)]
    return {"cost": costs, "edges": edges}


def at_a_third(name: str, graph: Graph, options: argparse.Namespace) -> dict[str, Any]:
    """The same in limited memory, once through more batches or rounds."""
    request, shorter = request_of(name, THIRD, graph, options), {"most_seconds": OWN_SECONDS}
    third = sum(path.stat().st_size for path in graph.files(name)) // 3
    (answer,), limit = limited(
        graph.dataset, options, [request], third + options.more_room, shorter
    )
    laps = answer.pop("laps")
    late, each = laps[len(laps) // 2 :], answer.get("work", len(laps)) / len(laps)
    costs = {"cost": [sum(late) / len(late) / each], "whole": sum(laps) / len(laps) / each}
    pages = answer["read_bytes"] / BLOCK_BYTES / sum(laps)
    return {
        **answer,
        **costs,
        "laps": len(laps),
        "limit": limit,
        "third": third,
        "pages_rate": pages,
    }


def measure_states(graph: Graph, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every work in every state; what cannot be measured is noted."""
    for name in options.only:
        for state in options.states:
            try:
                measure = at_a_third if state == THIRD else partial(in_memory, state=state)
                found = measure(name=name, graph=graph, options=options)
                print(f"{graph.edges:,} edges: {name} {STATES[state]}: {found}", file=sys.stderr)
                yield {"name": name, "state": state, **found}
            except (PeerError, NoMemoryGroup) as error:
                graph.note(f"{name} {STATES[state]}: {error}")


def peer_run(graph: Graph, work: str, worker: Worker, number: int) -> timing.Run:
    """One run of any contestant; peers have the ids of the files."""
    ours, given, out = worker.name == PEERS[0], graph.folder / "given.npy", graph.folder / "out.npz"
    name = ("few" if work == SAMPLING else "starts") + ("" if ours else "_stored")
    rows = number * PEER_BATCHES + np.arange(PEER_BATCHES) if work == SAMPLING else number
    seeds = np.take(np.load(graph.folder / f"{name}.npy"), rows, axis=0, mode="wrap")
    np.save(given, seeds)
    request: dict[str, Any] = {"op": "walk", "length": LENGTH, "p": 1.0, "q": Q[work]}
    if work == SAMPLING:
        request = {"op": "load", "rows": False} if ours else {"op": "multi_hop"}
        request["fanouts"] = FANOUTS
    try:
        answer = worker.call(**request, seeds=str(given), out=str(out))
    except PeerError as error:
        raise timing.Dropped(str(error)) from error
    with np.load(out) as arrays:
        done = len(seeds) if work == SAMPLING else steps_of(arrays["walks"]) / 1e6
    return timing.Run(done, answer["seconds"], answer["processor_seconds"])


def against_peers(graph: Graph, options: argparse.Namespace) -> list[timing.Comparison]:
    """Walks and sampling in memory, in turns."""
    results, lists = [], graph.folder / "graph02.gl"
    with ExitStack() as stack:
        workers = {PEERS[0]: stack.enter_context(opened(graph.dataset, options))}
        with gz.open(graph.dataset) as ds:
            write_graph02(lists, np.diff(ds.graph.indptr), ds.graph.indices)
        machine.read_through([*graph.files(WALKS), lists])
        how: dict[str, Any] = {"folder": graph.folder, "threads": options.threads}
        for name in options.peers:
            with suppress(NoMemoryGroup):  # where memory is short, this process ends, no other
                group = limited_group(int(psutil.virtual_memory().available * 0.9))
                how["prefix"] = stack.enter_context(group).prefix
            try:
                worker = start_peer(name, options.peer_dir, **how, most_seconds=PEER_SECONDS)
                stack.enter_context(worker).call("open_lists", graph=str(lists))
                workers[name] = worker
            except PeerError as error:
                graph.note(f"{name}: {error}")
        units = {WALKS: "M steps/s", WALKS2: "M steps/s", SAMPLING: "batches/s"}
        for work, unit in units.items():
            runs = {name: partial(peer_run, graph, work, each) for name, each in workers.items()}
            if work == SAMPLING:
                runs.pop(GRAPHZERO02, None)  # which cannot do this
            results.append(timing.compare(f"{work}, {graph.edges:.3g}", unit, runs, options.runs))
    return results


def measure_size(graph: Graph, options: argparse.Namespace) -> dict[str, Any]:
    """All figures of one size."""
    found: dict[str, Any] = {"edges": graph.edges, "disk_rate": None, "notes": graph.notes}
    graph.folder.mkdir(parents=True, exist_ok=True)
    try:
        found |= build(graph, options)
        write_seeds(graph, options)
        with start_own(folder=graph.folder, threads=1) as worker:
            found["open"] = worker.call("opening", dataset=str(graph.dataset), runs=7)
        largest = max(graph.files(LOADER), key=lambda path: path.stat().st_size)
        try:
            found["disk_rate"] = disk_rate(largest, seconds=0.2 if options.quick else 4.0)
        except NoFio as error:
            graph.note(f"fio: {error}")
        found["states"] = list(measure_states(graph, options))
        peers = against_peers(graph, options) if options.peers else []
    finally:
        if not options.keep:
            shutil.rmtree(graph.folder)
    return {**found, "peers": peers}


def costs_of(one: Mapping[str, Any]) -> dict[tuple[str, str, str], list[float]]:
    """Costs of one size by work, state and unit."""
    costs = {("build", MEMORY, "ns an edge"): [each / one["edges"] * 1e9 for each in one["build"]]}
    for found in one["states"]:
        name, state, cost = found["name"], found["state"], found["cost"]
        unit, factor = ("ns a step", 1e9) if Q[name] else ("ms a batch", 1e3)
        costs[name, state, unit] = [each * factor for each in cost]
        if name == SAMPLING and state != THIRD:
            costs[name, state, "ns an edge"] = [each * 1e9 / found["edges"] for each in cost]
    return costs


def lines_of(one: Mapping[str, Any]) -> dict[str, str]:
    """The cells of one size."""
    rate = one["disk_rate"] or math.nan
    cells = {
        "nodes, rows": one["shape"],
        "build, peak of anonymous memory, MB": f"{one['build_peak'] / 1e6:,.0f}",
        "bytes of .gl an edge": f"{one['topology_bytes'] / one['edges']:.2f}",
        "gz.open, µs": timing.span([each * 1e6 for each in one["open"]["each"]]),
        "its private memory, kB": f"{one['open']['private'] / 1e3:.0f}",
        "disk, random reads of 4 KiB a second": f"{rate:,.0f}",
    }
    for (name, state, unit), costs in costs_of(one).items():
        where = "" if name == "build" else f" {STATES[state]}"
        cells[f"{name}{where}, {unit}"] = timing.span(costs) if costs[1:] else f"{costs[0]:.3g}"
    for found in one["states"]:
        if "pages_rate" in found:
            share = f"{found['pages_rate'] / rate:.2f}"
            cells[f"{found['name']} at a third, of the disk's reads"] = share
    return cells


def tables(sizes: Sequence[Mapping[str, Any]]) -> str:
    """A column for each size; then the peers."""
    columns = [lines_of(one) for one in sizes]
    rows = [["", *(f"{one['edges']:,} edges" for one in sizes)]]
    lines = dict.fromkeys(line for column in columns for line in column)
    rows += [[line, *(column.get(line, "-") for column in columns)] for line in lines]
    shown = [timing.markdown(rows)]
    results = [result for one in sizes for result in one["peers"]]
    if results:
        shown += [table(results, PEERS) for table in (timing.rate_table, timing.ratio_table)]
    return "\n\n".join([*shown, *(note for one in sizes for note in one["notes"])])


def draw(sizes: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Costs against edges, both axes logarithmic: a colour for each work, a dash for each state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 5), layout="constrained")
    axes = dict(zip(UNITS, figure.subplots(1, 3), strict=True))
    costs = {one["edges"]: costs_of(one) for one in sizes}
    for name, state, unit in dict.fromkeys(key for each in costs.values() for key in each):
        there = {n: each.get((name, state, unit), []) for n, each in costs.items()}
        style = f"oC{('build', *NAMES).index(name)}" + {MEMORY: "-", HUGE: "--", THIRD: ":"}[state]
        points = [median(each) if each else math.nan for each in there.values()]
        axes[unit].loglog(list(there), points, style, label=f"{name} {STATES[state]}")
    for unit, each in axes.items():
        each.set(xlabel="edges", ylabel=unit)
        each.legend(fontsize="x-small", loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
    figure.savefig(path)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = timing.parser_of("benchmarks.growth", __doc__, scale=None)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add, peers = parser.add_argument, list(PEERS[1:])
    works, states = timing.list_of(NAMES, "work"), timing.list_of((*STATES,), "state")
    add("--sizes", default="4e6,32e6,256e6,1.6e9", help="edges; default: %(default)s")
    add("--only", type=works, default=list(NAMES), help=",".join(NAMES))
    add("--states", type=states, default=list(STATES), help=",".join(STATES))
    add("--batch-size", type=int, default=1024)
    add("--batches", type=int, default=1000, help="at a third")
    add("--most-seconds", type=float, default=1800.0, help="of one measurement at a third")
    add("--more-room", type=timing.count, default=0, help="bytes at a third beyond the third")
    add("--peers", type=timing.list_of(peers, "peer"), default=peers, help="none: ,")
    add("--peer-dir", type=Path, default=timing.PEERS, help="folder for peers")
    add("--picture", type=Path, help="draw the costs there, such as growth.svg")
    add("--keep", action="store_true", help="leave the edge lists and datasets in --data")
    options = parser.parse_args(arguments)
    if options.quick:
        options.more_room = 64 << 20
        options.sizes, options.batches, options.batch_size, options.runs = "24e3", 40, 32, 2
    options.sizes = [timing.count(text) for text in options.sizes.split(",")]
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints, draws, and writes the JSON file, anew after each size."""
    options = parse(arguments)
    options.data.mkdir(parents=True, exist_ok=True)
    found = machine.conditions("growth", options.data, settings=timing.settings(options))
    sizes: list[dict[str, Any]] = []
    with machine.OtherProcesses() as others:
        for edges in options.sizes:
            if shutil.disk_usage(options.data).free < DISK_AN_EDGE * edges + DISK_LEFT:
                print(f"{edges:,} edges: the disk has no room for them", file=sys.stderr)
                continue
            graph = Graph(edges, options.data / f"growth-{edges}")
            sizes.append(measure_size(graph, options))
            timing.write_json(options, {**found, "sizes": sizes})
    found["others_share"] = others.share
    lines = [
        f"{options.threads} threads, batches of {options.batch_size} seeds, fanouts {FANOUTS}, "
        f"GraphSAGE of {HIDDEN}, {STARTS:,} walks of {LENGTH} steps, builds in "
        f"{BUILD_MEMORY}; medians (lowest to highest) of {options.runs} runs; at a third: "
        f"the second half of {options.batches} batches or of {options.most_seconds:g} seconds",
    ]
    print(machine.heading(found, lines), tables(sizes), sep="\n\n")
    timing.write_json(options, {**found, "sizes": sizes})
    if options.picture:
        draw(sizes, options.picture)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leave no group and no process behind
    sys.exit(main())
