"""Two source trees of graphzero side by side: is anything slower than in another commit?

``python -m benchmarks.compare OLD NEW`` runs workloads on two source folders, each with its built
extension (``python setup.py build_ext --inplace``). Every workload has one process per tree; they
take turns, and the result is the median ratio of the times, NEW to OLD, with a 95 % bootstrap
interval over the pairs. ``--prefetch`` compares two strategies in place of, or beside, two trees:
``--workloads loader --prefetch none auto`` says what "auto" costs where everything is in memory.

Workloads under a memory limit need the right to make a memory cgroup. Their limit comes on top of
the anonymous memory that the larger of the two processes needs by itself. Only the public interface
that graphzero has had since commit 2b73849 is used.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import machine, timing
from benchmarks.inputs import Inputs, prepare, row_batches, write_csv
from benchmarks.peers import PeerError, Worker, start_own
from graphzero.report.limited_memory import NoMemoryGroup, limited_group

GOAL = 1.03
LEAST_PAIRS = 5
WARM_UP = 3  # pairs that are not counted under a limit, until caches are steady
FANOUTS = [15, 10, 5]
IN_MEMORY = ("sampling", "one_hop", "walks", "node2vec", "loader", "workers")
NAMES = (*IN_MEMORY, "rows", "training", "csv", "npy")


@dataclass(frozen=True)
class Workload:
    """What both trees do in turns.

    Attributes
    ----------
    request : dict
        The operation of `sessions.Own` and its arguments, but for the number of the run.
    dataset : str
        Which dataset it opens: "graph", "rows", or "" for builds.
    limited : bool
        Whether it runs under the memory limit, from a cold cache.
    """

    request: dict[str, Any]
    dataset: str = "graph"
    limited: bool = False


def workloads(options: argparse.Namespace) -> dict[str, Workload]:
    """All of them, by name."""
    walk = {"op": "walk", "length": 10, "p": 1.0, "q": 1.0, "seeds": "starts"}
    load = {"op": "load", "fanouts": FANOUTS, "seeds": "batches"}
    rows = {"op": "rows", "how": "loader", "count": 2}
    return {
        "sampling": Workload({**load, "rows": False}),
        "one_hop": Workload({"op": "one_hop", "fanout": 10, "seeds": "starts"}),
        "walks": Workload(walk),
        "node2vec": Workload({**walk, "q": 0.5}),
        "loader": Workload(load),
        "workers": Workload({**load, "workers": 2}),
        "rows": Workload(rows, "rows", limited=True),
        "training": Workload({**load, "train": {"hidden": options.hidden}}, limited=True),
        "csv": Workload({"op": "convert", "edges": "edges.csv"}, ""),
        "npy": Workload({"op": "convert", "edges": "edges.npy"}, ""),
    }


def write_seeds(inputs: Inputs, options: argparse.Namespace) -> dict[str, str]:
    """Files of the starts of walks, and of the batches of an epoch."""
    train, size = np.load(inputs.path("train.npy")), options.batches * options.batch_size
    starts = np.random.default_rng(0).integers(0, inputs.num_nodes, 2 * inputs.num_nodes)
    batches = np.resize(train, size).reshape(options.batches, -1)
    arrays = {"starts": starts, "batches": batches}
    paths = {name: inputs.path(f"{name}.npy") for name in arrays}
    for name, array in arrays.items():
        np.save(paths[name], array)
    return {name: str(path) for name, path in paths.items()}


class Tree:
    """A source folder, its processes and the datasets that it has built."""

    def __init__(self, path: str, name: str, inputs: Inputs, options: argparse.Namespace) -> None:
        self.path = Path(path).resolve()
        self.name, self.inputs, self.options = name, inputs, options
        digest = blake2b(str(self.path).encode(), digest_size=4).hexdigest()
        self.folder = inputs.path(f"tree-{digest}")
        shutil.rmtree(self.folder, ignore_errors=True)  # the tree may have changed
        self.folder.mkdir()

    def start(self, prefix: Sequence[str] = ()) -> Worker:
        """A process, whose graphzero must be that of the folder."""
        how: dict[str, Any] = {"threads": self.options.threads, "prefix": prefix}
        worker = start_own(folder=self.folder, tree=self.path, name=self.name, **how)
        found = Path(worker.call("about")["file"]).resolve()
        if self.path not in found.parents:
            worker.close()
            raise PeerError(f"{self.path} has no built graphzero: {found} was imported")
        return worker

    def row_batches(self) -> dict[str, Path]:
        """Inputs of the workload "rows"."""
        count = 2 * (self.options.pairs + WARM_UP) + 4
        size = self.options.batch_size
        return row_batches(self.inputs, "hot", FANOUTS, batch_size=size, count=count)

    def dataset(self, name: str) -> Path:
        """The folder of a dataset; the first call builds it."""
        out, inputs = self.folder / name, self.inputs
        if not out.exists():
            how: dict[str, Any] = {"num_nodes": inputs.num_nodes, "neighbors": "out"}
            if name == "graph":
                names = ("edges", "features", "labels")
                how |= {key: str(inputs.path(f"{key}.npy")) for key in names}
            else:
                paths = self.row_batches()
                how |= {key: str(paths[key]) for key in ("edges", "features")} | {"order": "input"}
            with self.start() as worker:
                worker.call("convert", out=str(out), **how)
        return out


def request_of(work: Workload, tree: Tree, strategy: str | None) -> dict[str, Any]:
    """The request of one run, with files in place of their names."""
    request = dict(work.request)
    if strategy is not None and request["op"] in ("load", "rows"):
        request["prefetch"] = {"strategy": strategy}
    if request["op"] == "convert":
        edges = tree.inputs.path(request["edges"])
        if not edges.exists():
            write_csv(edges, np.load(tree.inputs.path("edges.npy"), mmap_mode="r"))
        machine.read_through([edges])
        return request | {"edges": str(edges), "out": str(tree.folder / "out")}
    if work.dataset == "rows":
        paths = tree.row_batches()
        return request | {name: str(paths[name]) for name in ("seeds", "nodes")}
    return request | {"seeds": write_seeds(tree.inputs, tree.options)[request["seeds"]]}


def run_once(worker: Worker, tree: Tree, request: dict[str, Any], number: int) -> float:
    """Seconds of one run."""
    if request["op"] != "convert":
        return float(worker.call(**request, number=number)["seconds"])
    shutil.rmtree(request["out"], ignore_errors=True)
    try:
        return float(worker.call(**request)["seconds"])
    finally:
        shutil.rmtree(request["out"], ignore_errors=True)


def own_memory(work: Workload, trees: Sequence[Tree], requests: Sequence[dict[str, Any]]) -> int:
    """The most anonymous memory that a process needs without a limit and without prefetching."""
    peaks = []
    for tree, request in zip(trees, requests, strict=True):
        with tree.start() as worker:
            worker.call(
                "open", dataset=str(tree.dataset(work.dataset)), threads=tree.options.threads
            )
            plain = {**request, "prefetch": {"strategy": "none", "lookahead": 0}}
            peaks += [worker.call(**plain, number=number)["anonymous"] for number in (0, 1)]
    return int(max(peaks))


def run_workload(
    work: Workload, trees: Sequence[Tree], options: argparse.Namespace
) -> dict[str, list[float]]:
    """Seconds of all counted pairs; each pair begins with the other tree."""
    strategies = options.prefetch or (None, None)
    requests = [request_of(work, *pair) for pair in zip(trees, strategies, strict=True)]
    with ExitStack() as stack:
        limit = options.limit + own_memory(work, trees, requests) if work.limited else 0
        workers = []
        for tree in trees:
            prefix: Sequence[str] = ()
            files = list(tree.dataset(work.dataset).rglob("*.g?")) if work.dataset else []
            if work.limited:
                machine.drop_cached(files)
                prefix = stack.enter_context(limited_group(limit)).prefix
            else:
                machine.read_through(files)
            workers.append(stack.enter_context(tree.start(prefix)))
            if files:
                folder = str(tree.dataset(work.dataset))
                workers[-1].call("open", dataset=folder, threads=options.threads)
        seconds: list[list[float]] = [[], []]
        skipped = WARM_UP if work.limited else 1
        for number in range(skipped + options.pairs):
            for which in (0, 1) if number % 2 else (1, 0):
                took = run_once(workers[which], trees[which], requests[which], number)
                if number >= skipped:
                    seconds[which].append(took)
    return {"old": seconds[0], "new": seconds[1]}


def result_of(seconds: dict[str, list[float]]) -> dict[str, Any]:
    """The median of the paired ratios, and its interval."""
    ratios = [new / old for old, new in zip(seconds["old"], seconds["new"], strict=True)]
    low, high = timing.bootstrap(ratios)
    return {**seconds, "ratio": median(ratios), "interval": [low, high], "goal": GOAL}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All chosen workloads."""
    inputs = prepare(
        options.data, num_nodes=1 << options.scale, num_edges=options.edges, dim=options.dim
    )
    names = ("old", "new")
    trees = [
        Tree(path, name, inputs, options) for path, name in zip(options.trees, names, strict=True)
    ]
    results: dict[str, Any] = {}
    try:
        with machine.OtherProcesses() as others:
            for name, work in workloads(options).items():
                if name in options.workloads:
                    print(f"{name} ...", file=sys.stderr)
                    try:
                        results[name] = result_of(run_workload(work, trees, options))
                    except (PeerError, NoMemoryGroup) as error:
                        results[name] = {"error": str(error)}
    finally:
        for tree in trees:
            shutil.rmtree(tree.folder, ignore_errors=True)
    about = machine.conditions(
        "compare", options.data, settings=timing.settings(options), results=results
    )
    return {**about, "versions": machine.versions(["numpy", "torch"]), "others_share": others.share}


def table(found: dict[str, Any]) -> str:
    """A row per workload."""
    rows = [["workload", "old, s", "new, s", "new / old", "95 % interval", f"goal {GOAL}"]]
    for name, one in found["results"].items():
        if "error" in one:
            rows.append([name, one["error"], "-", "-", "-", "-"])
            continue
        low, high = one["interval"]
        verdict = "met" if one["ratio"] <= GOAL else "missed"
        cells = [timing.span(one["old"]), timing.span(one["new"]), f"{one['ratio']:.3f}"]
        rows.append([name, *cells, f"{low:.3f} to {high:.3f}", verdict])
    return timing.markdown(rows)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = timing.parser_of("benchmarks.compare", __doc__, scale=20, edges=16e6, runs=1)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("trees", nargs=2, metavar="TREE", help="source folders, the older first")
    add("--pairs", type=int, default=7, help=f"of runs, at least {LEAST_PAIRS}")
    add("--batch-size", type=int, default=1024)
    add("--batches", type=int, default=40, help="of a run")
    add("--hidden", type=int, default=64, help="of the model that is trained")
    add("--limit", type=timing.count, help="bytes; default: 5/16 of those of the rows")
    add("--prefetch", nargs=2, metavar="STRATEGY", help="of the old and of the new tree")
    add("--workloads", type=timing.list_of(NAMES), default=list(NAMES), help=",".join(NAMES))
    options = parser.parse_args(arguments)
    if options.quick:
        options.scale, options.edges, options.dim = timing.QUICK_SCALE, timing.QUICK_EDGES, 32
        options.batch_size, options.batches, options.pairs = 64, 5, LEAST_PAIRS
        options.limit = options.limit or 64 << 20
    timing.require_positive(parser, options, ["batch_size", "batches", "edges", "dim"])
    if options.pairs < LEAST_PAIRS:
        parser.error(f"--pairs must be at least {LEAST_PAIRS}")
    if options.limit is None:
        options.limit = (1 << options.scale) * options.dim * 4 * 5 // 16
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints; 1 if a workload has become slower or has failed."""
    options = parse(arguments)
    options.data.mkdir(parents=True, exist_ok=True)
    found = measure(options)
    old, new = (
        f"{path}{f' ({options.prefetch[i]})' if options.prefetch else ''}"
        for i, path in enumerate(options.trees)
    )
    lines = [
        f"old: {old}; new: {new}",
        f"R-MAT, {1 << options.scale:,} nodes, {options.edges:,} edges, {options.dim} float32 "
        f"columns; {options.threads} threads, batches of {options.batch_size} seeds, fanouts "
        f"{FANOUTS}, {options.batches} batches a run; limit {options.limit >> 20:,} MiB beyond the "
        f"process's own memory; {options.pairs} pairs in turns",
    ]
    print(machine.heading(found, lines), table(found), sep="\n\n")
    timing.write_json(options, found)
    return int(any(one.get("ratio", np.inf) > GOAL for one in found["results"].values()))


if __name__ == "__main__":
    sys.exit(main())
