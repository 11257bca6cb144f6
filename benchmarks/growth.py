"""Cost against size: per edge of a build, per step of a walk, per mini-batch, on growing graphs.

One R-MAT graph after another, with twelve edges a node, and each measurement in a process of its
own: the build; `gz.open`; walks; sampling, loading and training with [15, 10, 5] neighbours. The
last four

- in memory: all files are in the page cache;
- huge: the topology is in huge pages besides;
- at a third: in a memory cgroup of the anonymous memory that the same work takes without a limit,
  plus a third of the bytes of the files that are read; from a cold cache, by loaders, which read
  ahead. The figure is that of the second half; pages read are given as a share of fio's random
  reads of 4 KiB at depth 128.

Peers walk and sample the lists that graphzero has built, in its order, all in memory and in turns.
The files of a size are removed before the next.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil

import graphzero as gz
from benchmarks import machine, timing
from benchmarks.disk_probe import BLOCK_BYTES, NoFio, disk_rate
from benchmarks.inputs import label_chunks, row_chunks, write_graph02, write_rmat
from benchmarks.peers import GRAPHZERO02, PYG, PeerError, Worker, start_own, start_peer
from benchmarks.sessions import NO_HUGE, steps_of
from graphzero.report.limited_memory import NoMemoryGroup, memory_group

EDGES_A_NODE = 12
MEMORY, HUGE, THIRD = "memory", "huge", "third"
STATES = {MEMORY: "in memory", HUGE: "in huge pages", THIRD: "at a third"}
WALKS, WALKS2, SAMPLING, LOADER, TRAINING = "walks", "node2vec", "sampling", "loader", "training"
NAMES = (WALKS, WALKS2, SAMPLING, LOADER, TRAINING)
PEERS = {"graphzero 0.2.0": GRAPHZERO02, "torch-cluster": PYG, "torch-sparse": PYG}
SLOW = "from a fortieth of the starts, because it is slow"
MOST_RESIDENT = 0.8  # of the machine's memory: topology and rows
DISK_AN_EDGE, DISK_LEFT = 22, 8e9  # bytes: edge list, sorted pieces and the file
FEWEST_RESIDENT = 0.99
OWN_SECONDS = 20.0  # in which a process shows what it needs by itself
SETTLED = 0.5  # of the batches or rounds under the limit are counted


@dataclass
class Graph:
    """One size: its folder, its figures, and why some are missing."""

    edges: int
    folder: Path
    columns: int
    found: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def nodes(self) -> int:
        """Twelve edges each."""
        return max(self.edges // EDGES_A_NODE, 2)

    @property
    def dtype(self) -> str:
        """The widest in which topology and rows fit into memory together."""
        most = MOST_RESIDENT * psutil.virtual_memory().total - 4 * self.edges - 12 * self.nodes
        fits = (n for n in ("f4", "f2") if int(n[1]) * self.columns * self.nodes <= most)
        return np.dtype(next(fits, "i1")).name

    @property
    def dataset(self) -> Path:
        """Its folder."""
        return self.folder / "dataset"

    def files(self, rows: bool) -> list[Path]:
        """What is read, with or without the rows."""
        return sorted(self.dataset.glob("*.g[ld]" if rows else "*.gl"))

    def note(self, what: str) -> None:
        """For the end, and for now."""
        self.notes.append(f"{self.edges:,} edges: {what}")
        print(self.notes[-1], file=sys.stderr)


def build(graph: Graph, options: argparse.Namespace) -> None:
    """Writes edges, builds, and adds rows and labels; the figures are of the build of edges."""
    path = graph.folder / "edges.npy"
    write_rmat(path, graph.nodes, graph.edges, threads=options.threads)
    request: dict[str, Any] = {"num_nodes": graph.nodes, "memory_limit": options.build_memory}
    request |= {"edges": str(path), "out": str(graph.dataset), "neighbors": "out"}
    answers: list[dict[str, Any]] = []
    while (
        len(answers) < options.runs and sum(a["seconds"] for a in answers) < options.build_seconds
    ):
        shutil.rmtree(graph.dataset, ignore_errors=True)
        with start_own(folder=graph.folder, threads=options.threads) as worker:
            answers.append(worker.call("convert", **request))
    if not options.keep:
        path.unlink()
    rows, limit = row_chunks(graph.nodes, graph.columns, graph.dtype), options.build_memory
    topology = sum(path.stat().st_size for path in graph.files(rows=False))
    gz.set_attribute(graph.dataset, "x", rows, memory_limit=limit).close()
    gz.set_attribute(graph.dataset, "y", label_chunks(graph.nodes), memory_limit=limit).close()
    graph.found |= {
        "build": [answer["seconds"] for answer in answers],
        "build_peak": max(answer["peak_anonymous"] for answer in answers),
        "topology_bytes": topology,
    }


def write_seeds(graph: Graph, options: argparse.Namespace) -> None:
    """Nodes with neighbours, shuffled, in ids of the user and of the files.

    A row for each batch or round of walks: `few` in memory, `many` under the limit.
    """
    rng = np.random.default_rng(0)
    with gz.open(graph.dataset) as ds:
        nodes = rng.permutation(np.flatnonzero(np.diff(ds.graph.indptr)))
        shapes = {
            "few": (options.memory_batches, options.batch_size),
            "train": (options.train_batches, options.batch_size),
            "many": (options.batches, options.batch_size),
            "starts": (5, options.starts),
            "rounds": (options.rounds, options.starts // 10),
        }
        for name, shape in shapes.items():
            stored = np.resize(nodes, shape)
            np.save(
                graph.folder / f"{name}.npy", ds.graph.to_user(stored.reshape(-1)).reshape(shape)
            )
            np.save(graph.folder / f"{name}_stored.npy", stored)


def request_of(name: str, state: str, graph: Graph, options: argparse.Namespace) -> dict[str, Any]:
    """The operation of `sessions.Own` that a measurement repeats."""
    limited = {"most_seconds": options.most_seconds} if state == THIRD else {}
    if name in (WALKS, WALKS2):
        seeds = graph.folder / ("rounds.npy" if limited else "starts.npy")
        how = {"length": options.length, "p": 1.0, "q": 1.0 if name == WALKS else 0.5}
        return {"op": "walks", "seeds": str(seeds), "ahead": bool(limited), **how, **limited}
    train = {"train": {"hidden": options.hidden}} if name == TRAINING else {}
    few = "train.npy" if train else "few.npy"
    seeds = graph.folder / ("many.npy" if limited else few)
    how = {"fanouts": options.fanouts, "rows": name != SAMPLING, **train}
    return {"op": "load", "seeds": str(seeds), **how, **limited}


@contextmanager
def opened(
    graph: Graph, options: argparse.Namespace, prefix: Sequence[str] = (), huge: bool = False
) -> Iterator[tuple[Worker, dict[str, Any]]]:
    """A process that has opened the dataset, and what it says of that."""
    how: dict[str, Any] = {"threads": options.threads, "most_seconds": 2 * options.most_seconds}
    with start_own(folder=graph.folder, prefix=prefix, **how) as worker:
        about = {"dataset": str(graph.dataset), "threads": options.threads, "huge": huge}
        yield worker, worker.call("open", **about)


def work_of(answer: Mapping[str, Any]) -> float:
    """Steps, or batches."""
    return float(answer["work"] if "work" in answer else len(answer["laps"]))


def in_memory(
    name: str, graph: Graph, options: argparse.Namespace, huge: bool = False
) -> dict[str, Any]:
    """Seconds of a step or batch in each run, after one that is not counted."""
    files = graph.files(name in (LOADER, TRAINING))
    machine.read_through(files)
    request = request_of(name, MEMORY, graph, options)
    with opened(graph, options, huge=huge) as (worker, about):
        answers = [worker.call(**request, number=run) for run in range(options.runs + 1)][1:]
    resident = machine.resident_share(files)
    if resident is not None and resident < FEWEST_RESIDENT and not huge:
        graph.note(f"{name} in memory: only {resident:.0%} of the pages stayed there")
    found: dict[str, Any] = {"cost": [each["seconds"] / work_of(each) for each in answers]}
    found |= {"resident": resident, "open_seconds": about["seconds"]}
    if "edges" in answers[0]:
        found["edges"] = sum(a["edges"] for a in answers) / sum(map(work_of, answers))
    return found


def at_a_third(name: str, graph: Graph, options: argparse.Namespace) -> dict[str, Any]:
    """The same in limited memory, once through more batches or rounds."""
    files = graph.files(name in (LOADER, TRAINING))
    request = request_of(name, THIRD, graph, options)
    few = request_of(name, MEMORY, graph, options)["seeds"] if request["op"] == "load" else ""
    with opened(graph, options) as (worker, _):
        shorter = {"most_seconds": OWN_SECONDS, **({"seeds": few} if few else {})}
        own = worker.call(**{**request, **shorter})["anonymous"]
    limit = own + max(sum(path.stat().st_size for path in files) // 3, options.least_room)
    time.sleep(1.0)  # pages that are being read cannot be dropped
    machine.drop_cached(files)
    with memory_group(limit) as group:
        try:
            with opened(graph, options, group.prefix) as (worker, _):
                answer = worker.call(**request)
        except PeerError as error:
            if group.kills():
                raise PeerError(f"killed in {limit >> 20:,} MiB ({error})") from None
            raise
    laps = answer["laps"]
    late = laps[int(len(laps) * SETTLED) :]
    each = work_of(answer) / len(laps)
    pages = answer["read_bytes"] / BLOCK_BYTES / sum(laps)
    found = {"cost": [sum(late) / len(late) / each], "whole": sum(laps) / len(laps) / each}
    found |= {"work": work_of(answer), "limit": limit, "own": own, "pages_a_second": pages}
    return found | {name: answer[name] for name in ("read_bytes", "major_faults", "anonymous")}


def measure_states(graph: Graph, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every work in every state; what cannot be measured is noted."""
    how: dict[str, Callable[[str], dict[str, Any]]] = {
        MEMORY: lambda name: in_memory(name, graph, options),
        HUGE: lambda name: in_memory(name, graph, options, huge=True),
        THIRD: lambda name: at_a_third(name, graph, options),
    }
    for name in options.only:
        for state in options.states:
            if state == HUGE and any(NO_HUGE in note for note in graph.notes):
                continue
            print(f"{graph.edges:,} edges: {name} {STATES[state]} ...", file=sys.stderr)
            try:
                yield {"work_name": name, "state": state, **how[state](name)}
            except (PeerError, NoMemoryGroup) as error:
                graph.note(f"{name} {STATES[state]}: {error}")


def start_all(
    stack: ExitStack, graph: Graph, options: argparse.Namespace
) -> dict[str, tuple[Worker, str]]:
    """Our process and those of peers that can open the lists; and which ids each has."""
    running = {"graphzero": (stack.enter_context(opened(graph, options))[0], "")}
    lists = graph.folder / "graph02.gl"
    if shutil.disk_usage(graph.folder).free < 8 * (graph.edges + graph.nodes) + DISK_LEFT:
        graph.note("peers: the disk has no room for their lists of 8 bytes an edge")
        return running
    with gz.open(graph.dataset) as ds:
        write_graph02(lists, np.diff(ds.graph.indptr), ds.graph.indices)
    machine.read_through([lists])
    sessions: dict[str, Worker] = {}
    for name, session in PEERS.items():
        if session not in options.peers:
            continue
        try:
            if session not in sessions:
                # Where memory is short, the kernel ends this process and no other.
                prefix: Sequence[str] = ()
                with suppress(NoMemoryGroup):
                    most = int(psutil.virtual_memory().available * 0.9)
                    prefix = stack.enter_context(memory_group(most)).prefix
                how: dict[str, Any] = {"folder": graph.folder, "threads": options.threads}
                how |= {"prefix": prefix, "most_seconds": options.peer_seconds}
                sessions[session] = stack.enter_context(
                    start_peer(session, options.peer_dir, **how)
                )
                sessions[session].call("open_lists", graph=str(lists))
            running[name] = (sessions[session], "_stored")
        except PeerError as error:
            graph.note(f"{name}: {error}")
    return running


def against_peers(graph: Graph, options: argparse.Namespace) -> list[timing.Comparison]:
    """Walks and sampling in memory, in turns."""
    machine.read_through(graph.files(rows=False))
    results = []
    with ExitStack() as stack:
        running = start_all(stack, graph, options)

        def contestant(name: str, work: str) -> Callable[[int], timing.Run]:
            worker, ids = running[name]
            ours, sampled = not ids, work == SAMPLING
            source, out = graph.folder / f"{'few' if sampled else 'starts'}{ids}.npy", "out.npz"
            request: dict[str, Any] = {"op": "walk", "length": options.length, "p": 1.0}
            request["q"] = 1.0 if work == WALKS else 0.5
            if sampled:
                request = {"op": "load" if ours else "multi_hop", "fanouts": options.fanouts}
                request |= {"rows": False} if ours else {}

            def run(number: int) -> timing.Run:
                all_seeds, given = np.load(source, mmap_mode="r"), graph.folder / "given.npy"
                rows = np.arange(number * 10, number * 10 + 10) if sampled else number
                seeds = np.take(all_seeds, rows, axis=0, mode="wrap")
                if worker.name == GRAPHZERO02 and work == WALKS2:
                    seeds = seeds[: max(1, len(seeds) // 40)]
                np.save(given, seeds)
                try:
                    to = str(graph.folder / out)
                    answer = worker.call(**request, seeds=str(given), out=to)
                except PeerError as error:
                    raise timing.Dropped(str(error)) from error
                with np.load(graph.folder / out) as arrays:
                    done = len(seeds) if sampled else steps_of(arrays["walks"]) / 1e6
                return timing.Run(done, answer["seconds"], answer["processor_seconds"])

            return run

        for work in (WALKS, WALKS2, SAMPLING):
            left_out = "torch-sparse" if work != SAMPLING else "torch-cluster"
            names = [name for name in running if name != left_out]
            if work == SAMPLING:
                names = [name for name in names if name != "graphzero 0.2.0"]
            if len(names) > 1:
                unit = "batches/s" if work == SAMPLING else "M steps/s"
                each = {name: contestant(name, work) for name in names}
                notes = {"graphzero 0.2.0": [SLOW]} if work == WALKS2 else {}
                title = f"{work}, {graph.edges:,} edges"
                results.append(timing.compare(title, unit, each, options.runs, notes=notes))
    return results


def measure_size(graph: Graph, options: argparse.Namespace) -> dict[str, Any]:
    """All figures of one size."""
    graph.folder.mkdir(parents=True, exist_ok=True)
    try:
        print(f"{graph.edges:,} edges: build ...", file=sys.stderr)
        build(graph, options)
        write_seeds(graph, options)
        with start_own(folder=graph.folder, threads=1) as worker:
            graph.found["open"] = worker.call("opening", dataset=str(graph.dataset), runs=7)
        largest = max(graph.files(rows=True), key=lambda path: path.stat().st_size)
        graph.found["disk_rate"] = None
        try:
            graph.found["disk_rate"] = disk_rate(largest, seconds=options.fio_seconds)
        except NoFio as error:
            graph.note(f"fio: {error}")
        graph.found["states"] = list(measure_states(graph, options))
        peers = against_peers(graph, options) if options.peers else []
        graph.found["peers"] = peers
    finally:
        if not options.keep:
            shutil.rmtree(graph.folder)
    about = {"edges": graph.edges, "nodes": graph.nodes, "dtype": graph.dtype}
    return {**about, "columns": graph.columns, **graph.found, "notes": graph.notes}


def _span(values: Sequence[float], factor: float) -> str:
    scaled = [value * factor for value in values]
    return timing.span(scaled) if len(scaled) > 1 else f"{scaled[0]:.3g}"


def lines_of(one: Mapping[str, Any]) -> dict[str, str]:
    """The cells of one size, by what the line says."""
    opening, rate = one["open"], one["disk_rate"]
    cells = {
        "nodes": f"{one['nodes']:,}",
        "rows": f"{one['columns']} {one['dtype']}",
        "build, ns an edge": _span(one["build"], 1e9 / one["edges"]),
        "build, peak of anonymous memory, MB": f"{one['build_peak'] / 1e6:,.0f}",
        "bytes of .gl an edge": f"{one['topology_bytes'] / one['edges']:.2f}",
        "gz.open, µs": _span(opening["each"], 1e6),
        "its private memory, kB": f"{opening['private'] / 1e3:.0f}",
        "disk, random reads of 4 KiB a second": "unknown" if rate is None else f"{rate:,.0f}",
    }
    for found in one["states"]:
        name, state = found["work_name"], found["state"]
        unit, factor = ("ns a step", 1e9) if name in (WALKS, WALKS2) else ("ms a batch", 1e3)
        cells[f"{name} {STATES[state]}, {unit}"] = _span(found["cost"], factor)
        if "edges" in found and name == SAMPLING:
            cells[f"{name} {STATES[state]}, ns an edge"] = _span(
                found["cost"], 1e9 / found["edges"]
            )
        if state == THIRD and rate:
            cells[f"{name} {STATES[state]}, of the disk's reads"] = (
                f"{found['pages_a_second'] / rate:.2f}"
            )
    return cells


def tables(sizes: Sequence[Mapping[str, Any]]) -> str:
    """A column for each size; then the peers."""
    columns = [lines_of(one) for one in sizes]
    first = {line: None for column in columns for line in column}
    rows = [["", *(f"{one['edges']:,} edges" for one in sizes)]]
    rows += [[line, *(column.get(line, "-") for column in columns)] for line in first]
    shown = [timing.markdown(rows)]
    results = [result for one in sizes for result in one["peers"]]
    if results:
        names = ["graphzero", *PEERS]
        shown += [timing.rate_table(results, names), timing.ratio_table(results, names)]
    return "\n\n".join([*shown, *(note for one in sizes for note in one["notes"])])


def draw(sizes: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Costs against edges, both axes logarithmic: a colour for each work, a dash for each state."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4), layout="constrained")
    axes = dict(zip(("ns a step", "ns an edge", "ms a batch"), figure.subplots(1, 3), strict=True))
    lines: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    for one in sizes:
        point = one["edges"], median(one["build"]) / one["edges"] * 1e9
        lines.setdefault(("ns an edge", "build", MEMORY), []).append(point)
        for found in one["states"]:
            name, cost = found["work_name"], median(found["cost"])
            unit, factor = ("ns a step", 1e9) if name in (WALKS, WALKS2) else ("ms a batch", 1e3)
            key = unit, name, found["state"]
            lines.setdefault(key, []).append((one["edges"], cost * factor))
            if name == SAMPLING and "edges" in found:
                point = one["edges"], cost * 1e9 / found["edges"]
                lines.setdefault(("ns an edge", name, found["state"]), []).append(point)
    for (unit, name, state), points in lines.items():
        style = dict(zip(STATES, ("-", "--", ":"), strict=True))[state]
        colour = f"C{('build', *NAMES).index(name)}"
        label = name if name == "build" else f"{name} {STATES[state]}"
        axes[unit].loglog(*zip(*points, strict=True), style, color=colour, marker="o", label=label)
    for unit, each in axes.items():
        each.set(xlabel="edges", ylabel=unit)
        each.legend(fontsize="x-small")
    figure.savefig(path)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = timing.parser_of("benchmarks.growth", __doc__, scale=None)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--sizes", default="4e6,32e6,256e6,1.6e9", help="edges; default: 4e6,32e6,256e6,1.6e9")
    add("--columns", type=int, default=32, help="of the rows: float32, or narrower to fit memory")
    add(
        "--only",
        type=timing.list_of(list(NAMES), "work"),
        default=list(NAMES),
        help=",".join(NAMES),
    )
    add("--states", type=timing.list_of(list(STATES), "state"), default=list(STATES))
    add("--starts", type=int, default=200_000, help="of walks; a tenth in each round at a third")
    add("--length", type=int, default=10, help="steps of a walk")
    add("--rounds", type=int, default=50, help="of walks at a third: 10^7 steps by default")
    add("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    add("--batch-size", type=int, default=1024)
    add("--batches", type=int, default=1000, help="at a third")
    add("--memory-batches", type=int, default=50, help="of a run in memory")
    add("--train-batches", type=int, default=15, help="of a run of training in memory")
    add("--most-seconds", type=float, default=1800.0, help="of one measurement at a third")
    add("--least-room", type=timing.count, default=0, help="bytes at a third, where it is less")
    add("--hidden", type=int, default=64)
    add("--fio-seconds", type=float, default=4.0, help="of each of three runs")
    add("--build-memory", default="2GB", help="memory limit of graphzero.build")
    add("--build-seconds", type=float, default=30.0, help="no further build after so many")
    peers = [GRAPHZERO02, PYG]
    add("--peers", type=timing.list_of(peers, "peer"), default=peers, help="none: ,")
    add("--peer-dir", type=Path, default=timing.PEERS, help="folder for peers")
    add("--peer-seconds", type=float, default=120.0, help="a peer's slower run ends it")
    add("--picture", type=Path, help="draw the costs there, such as growth.svg")
    add("--keep", action="store_true", help="leave the edge lists and datasets in --data")
    options = parser.parse_args(arguments)
    if options.quick:
        options.sizes, options.starts, options.rounds, options.batch_size = "24e3", 500, 4, 32
        options.batches, options.memory_batches, options.train_batches = 6, 3, 2
        options.runs, options.fio_seconds, options.hidden = min(options.runs, 2), 0.2, 16
        options.least_room = 64 << 20
    options.sizes = [timing.count(text) for text in options.sizes.split(",")]
    timing.require_positive(parser, options, ["runs", "threads", "batches", "rounds"])
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, prints, draws, and writes the JSON file, anew after each size."""
    options = parse(arguments)
    options.data.mkdir(parents=True, exist_ok=True)
    sizes: list[dict[str, Any]] = []
    found = machine.conditions("growth", options.data, settings=timing.settings(options))
    with machine.OtherProcesses() as others:
        for edges in options.sizes:
            if shutil.disk_usage(options.data).free < DISK_AN_EDGE * edges + DISK_LEFT:
                print(f"{edges:,} edges: the disk has no room for them", file=sys.stderr)
                continue
            graph = Graph(edges, options.data / f"growth-{edges}", options.columns)
            sizes.append(measure_size(graph, options))
            plain = [{**one, "peers": [each.plain() for each in one["peers"]]} for one in sizes]
            timing.write_json(options, {**found, "sizes": plain})
    found["others_share"] = others.share
    lines = [
        f"R-MAT, {EDGES_A_NODE} edges a node, out-neighbours, order 'hot'; {options.threads} "
        f"threads; batches of {options.batch_size} seeds, fanouts {options.fanouts}; GraphSAGE of "
        f"{options.hidden}; builds in {options.build_memory}",
        f"in memory: medians (lowest to highest) of {options.runs} runs, files read beforehand; "
        f"at a third: from a cold cache, up to {options.batches} batches or {options.rounds} "
        f"rounds of {options.starts // 10:,} walks of {options.length} steps, the second half",
    ]
    print(machine.heading(found, lines), tables(sizes), sep="\n\n")
    plain = [{**one, "peers": [each.plain() for each in one["peers"]]} for one in sizes]
    timing.write_json(options, {**found, "sizes": plain})
    if options.picture is not None:
        draw(sizes, options.picture)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leave no group and no process behind
    sys.exit(main())
