"""Reading rows and training on data larger than memory, under a limit that the kernel enforces.

It must be able to make a memory cgroup: as root, in a delegated group, or with systemd-run. Every
contestant runs in a process of its own with limited memory, page cache included, from a cold cache;
the limit comes on top of the anonymous memory that the process needs by itself. If fio is
installed, it says what the disk can do. ``--nodes 111e6 --edges 1.6e9`` has the size of
ogbn-papers100M, and ``--nodes 11e6 --edges 160e6 --limit 1.6e9`` a tenth of it.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import machine, timing
from benchmarks.disk_probe import NoFio, disk_rate
from benchmarks.inputs import Inputs, build_once, prepare, row_batches
from benchmarks.peers import PeerError, Worker, start_own
from graphzero.report.limited_memory import NoMemoryGroup, limited_group

ORDERS = ("input", "hot")
STRATEGIES = ("none", "willneed", "pread", "uring", "auto")
BASELINE, RAM, PACKED = "memmap", "ram", "packed"
NAMES = (*(BASELINE, RAM, PACKED, *STRATEGIES), *(f"{name}+resident" for name in STRATEGIES[1:]))
PAGE_BYTES = 4096
MOST_CACHED = 0.01


@dataclass(frozen=True)
class Contestant:
    """One way of reading rows or of training.

    Attributes
    ----------
    name, order : str
    request : dict
        An operation of `sessions.Own`, and its arguments.
    dataset : pathlib.Path
    limited : bool
        Whether its memory is limited and its cache cold; else its files are read beforehand.
    step : str
        What is done with a batch.
    """

    name: str
    order: str
    request: dict[str, Any]
    dataset: Path
    limited: bool = True
    step: str = ""

    @property
    def label(self) -> str:
        """For notes."""
        return ", ".join(filter(None, [self.name, self.order, self.step]))


def prefetch_of(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Fields of `gz.Prefetch` of a contestant."""
    strategy, plus, _ = name.partition("+")
    return {"strategy": strategy} | ({"resident": options.resident} if plus else {})


def rows_contestants(inputs: Inputs, options: argparse.Namespace) -> Iterator[Contestant]:
    """Every way of reading rows, in every order that it can have."""
    import graphzero as gz

    for order in options.orders:
        total = options.warm_up + options.runs * options.batches + 4
        size = options.batch_size
        paths = row_batches(inputs, order, options.fanouts, batch_size=size, count=total)
        folder = paths["nodes"].with_name("dataset")
        if not (folder / "dataset.json").exists():
            how: dict[str, Any] = {"num_nodes": inputs.num_nodes, "order": order}
            gz.build(folder, paths["edges"], paths["features"], **how).close()
        request = {"op": "rows", **{name: str(paths[name]) for name in ("seeds", "nodes")}}
        for name in NAMES:
            if name in (RAM, PACKED) or (name == BASELINE and order != "input"):
                continue
            if name == BASELINE:
                yield Contestant(name, order, {**request, "how": name}, folder)
            else:
                how = {"how": "loader", "prefetch": prefetch_of(name, options)}
                yield Contestant(name, order, {**request, **how}, folder)


def training_contestants(inputs: Inputs, options: argparse.Namespace) -> Iterator[Contestant]:
    """Every strategy, from a pack, and everything in memory; with a model, then with sleeps."""
    seeds, batches = inputs.path("batches.npy"), options.epoch_batches
    train = np.resize(np.load(inputs.path("train.npy")), batches * options.batch_size)
    np.save(seeds, train.reshape(batches, -1))
    for order in options.orders:
        folder = build_once(
            inputs, f"dataset-{order}", order=order, memory_limit=options.build_memory
        )
        request = {"op": "load", "fanouts": options.fanouts, "seeds": str(seeds)}
        request["train"] = {"hidden": options.hidden}
        for name in (RAM, PACKED, *STRATEGIES):
            strategy = {RAM: "none", PACKED: "auto"}.get(name, name)
            how = {"prefetch": prefetch_of(strategy, options)}
            one = Contestant(
                name, order, {**request, **how}, folder, limited=name != RAM, step="GraphSAGE"
            )
            yield one
            for sleep in options.sleeps if name in (RAM, "auto") else ():
                changed = {**one.request, "train": {"sleep_ms": sleep}}
                yield replace(one, request=changed, step=f"sleep of {sleep} ms")


class Runner:
    """Runs contestants one after another."""

    def __init__(self, inputs: Inputs, options: argparse.Namespace, scratch: Path) -> None:
        self.inputs, self.options, self.scratch = inputs, options, scratch
        self.own: dict[str, int] = {}  # anonymous memory by kind of process
        self.notes: dict[str, str] = {}

    def run(self, one: Contestant, batches: Sequence[int]) -> list[dict[str, Any]]:
        """The answers of runs with so many batches each; none on failure, which is noted."""
        try:
            if not one.limited:
                machine.read_through(self._files(one))
                return self._answers(one, batches)
            kind = f"{one.request['op']} {one.request.get('how', '')} {one.step}"
            if kind not in self.own:
                plain = {**one.request, "prefetch": {"strategy": "none", "lookahead": 0}}
                alone = self._answers(replace(one, request=plain), [*batches[:1]] * 2)
                self.own[kind] = max(answer["anonymous"] for answer in alone)
            self._drop(one)
            with limited_group(self.options.limit + self.own[kind]) as group:
                try:
                    return self._answers(one, batches, group.prefix)
                except PeerError as error:
                    if group.kills():
                        raise PeerError(f"killed: it needs more than the limit ({error})") from None
                    raise
        except PeerError as error:
            self._note(one, str(error))
            return []

    def pack(self, one: Contestant, epochs: int) -> Contestant:
        """The same from a pack of all its batches, which is made without the limit."""
        path = self.scratch / "pack.gd"
        path.unlink(missing_ok=True)
        request = {name: one.request[name] for name in ("fanouts", "seeds")}
        with self._start(one) as worker:
            answer = worker.call("pack", **request, out=str(path), epochs=epochs)
        self._note(one, f"packed in {answer['seconds']:.1f} s, {answer['bytes'] >> 20:,} MiB")
        return replace(one, request={**one.request, "pack": str(path)})

    def _start(self, one: Contestant, prefix: Sequence[str] = ()) -> Worker:
        worker = start_own(folder=self.scratch, threads=self.options.threads, prefix=prefix)
        try:
            worker.call("open", dataset=str(one.dataset), threads=self.options.threads)
        except PeerError:
            worker.close()
            raise
        return worker

    def _answers(
        self, one: Contestant, batches: Sequence[int], prefix: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = []
        with self._start(one, prefix) as worker:
            for number, count_of_run in enumerate(batches):
                more: dict[str, Any] = (
                    {"count": count_of_run} if one.request["op"] == "rows" else {}
                )
                answers.append(worker.call(**one.request, **more, number=number))
                if sum(answer["seconds"] for answer in answers) > self.options.most_seconds:
                    break
        return answers

    def _files(self, one: Contestant) -> list[Path]:
        folders = [one.dataset, Path(self.inputs.folder)]
        return [path for folder in folders for path in folder.iterdir() if path.is_file()]

    def _drop(self, one: Contestant) -> None:
        time.sleep(1.0)  # pages that are being read cannot be dropped
        machine.drop_cached(self._files(one))
        cached = machine.resident_share(self._files(one)) or 0.0
        if cached > MOST_CACHED:
            self._note(one, f"{cached:.0%} of the files' pages stayed in the cache at the start")

    def _note(self, one: Contestant, what: str) -> None:
        self.notes[one.label] = what
        print(f"{one.label}: {what}", file=sys.stderr)


def run_rows(runner: Runner) -> list[dict[str, Any]]:
    """Seconds, bytes and major faults of a batch, by contestant."""
    options, results = runner.options, []
    for one in rows_contestants(runner.inputs, options):
        if options.only and one.name not in options.only:
            continue
        print(f"rows: {one.label} ...", file=sys.stderr)
        answers = runner.run(one, [options.warm_up, *[options.batches] * options.runs])[1:]
        if answers:
            results.append(
                {
                    "contestant": one.name,
                    "order": one.order,
                    "seconds": [answer["seconds"] / options.batches for answer in answers],
                    "rows": median(answer["rows"] / options.batches for answer in answers),
                    **_costs(answers, options.batches),
                }
            )
    return results


def run_training(runner: Runner) -> list[dict[str, Any]]:
    """Seconds of the first and of later epochs, by contestant."""
    options, results = runner.options, []
    epochs, batches = options.epochs, options.epoch_batches
    for one in training_contestants(runner.inputs, options):
        if options.only and one.name not in options.only:
            continue
        print(f"training: {one.label} ...", file=sys.stderr)
        trained = runner.pack(one, epochs) if one.name == PACKED else one
        answers = runner.run(trained, [batches] * epochs)
        if len(answers) > 1:
            later = answers[1:]
            results.append(
                {
                    "contestant": one.name,
                    "order": one.order,
                    "step": one.step,
                    "first": answers[0]["seconds"],
                    "seconds": [answer["seconds"] for answer in later],
                    "waited": median(answer["waited"] for answer in later),
                    **_costs(later, batches),
                }
            )
    return results


def _costs(answers: Sequence[dict[str, Any]], batches: int) -> dict[str, float]:
    """Of a batch, medians; and the most anonymous memory."""
    return {
        "read_bytes": median(answer["read_bytes"] / batches for answer in answers),
        "major_faults": median(answer["major_faults"] / batches for answer in answers),
        "anonymous": max(answer["anonymous"] for answer in answers),
    }


def rows_table(results: Sequence[dict[str, Any]], rate: float | None) -> str:
    """A row per contestant and order; `rate` is the disk's in pages a second."""
    base = next((median(one["seconds"]) for one in results if one["contestant"] == BASELINE), None)
    heads = ["rows are read by", "order", "s/batch", f"against {BASELINE}", "rows/s"]
    heads += ["MiB read/batch", "major faults/batch", "pages/s of fio's"]
    table = [heads]
    for one in results:
        seconds = median(one["seconds"])
        pages = one["read_bytes"] / PAGE_BYTES / seconds
        table.append(
            [
                one["contestant"],
                one["order"],
                timing.span(one["seconds"]),
                "-" if base is None else f"{base / seconds:.1f}x",
                f"{one['rows'] / seconds:,.0f}",
                f"{one['read_bytes'] / 2**20:,.1f}",
                f"{one['major_faults']:,.0f}",
                "-" if rate is None else f"{pages / rate:.2f}",
            ]
        )
    return timing.markdown(table)


def training_table(results: Sequence[dict[str, Any]]) -> str:
    """A row per contestant and order; speeds are relative to the fastest with everything in RAM."""
    fastest: dict[str, float] = {}
    for one in results:
        if one["contestant"] == RAM:
            seconds = median(one["seconds"])
            fastest[one["step"]] = min(seconds, fastest.get(one["step"], seconds))
    heads = ["contestant", "order", "step", "first epoch, s", "later epochs, s", "speed of RAM's"]
    heads += ["waited, s/epoch", "MiB read/batch", "major faults/batch", "anonymous MiB"]
    table = [heads]
    for one in results:
        ram = fastest.get(one["step"])
        table.append(
            [
                one["contestant"],
                one["order"],
                one["step"],
                f"{one['first']:.3g}",
                timing.span(one["seconds"]),
                "-" if ram is None else f"{ram / median(one['seconds']):.3f}",
                f"{one['waited']:.3g}",
                f"{one['read_bytes'] / 2**20:,.1f}",
                f"{one['major_faults']:,.0f}",
                f"{one['anonymous'] / 2**20:,.0f}",
            ]
        )
    return timing.markdown(table)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Runs everything; results and what they were measured on."""
    inputs = prepare(
        options.data, num_nodes=options.nodes, num_edges=options.edges, dim=options.dim
    )
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(dir=options.data))
        others = stack.enter_context(machine.OtherProcesses())
        runner = Runner(inputs, options, Path(scratch))
        rate = None
        try:
            rate = disk_rate(inputs.path("features.npy"), seconds=options.fio_seconds)
        except NoFio as error:
            runner.notes["fio"] = str(error)
        rows = run_rows(runner) if "rows" in options.parts else []
        training = run_training(runner) if "train" in options.parts else []
    return machine.conditions(
        "out_of_core",
        options.data,
        settings=timing.settings(options),
        features_bytes=inputs.features_bytes,
        own_anonymous=runner.own,
        disk_rate=rate,
        others_share=others.share,
        rows=rows,
        training=training,
        notes=runner.notes,
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = timing.parser_of("benchmarks.out_of_core", __doc__, scale=None)
    add = parser.add_argument
    add("--nodes", type=timing.count, default=1 << 22, help="such as 11e6")
    add("--edges", type=timing.count, default=64_000_000, help="such as 64e6")
    add("--dim", type=int, default=128, help="float32 columns of the rows")
    add("--limit", type=timing.count, help="bytes; default: 5/16 of those of the rows")
    add("--orders", type=timing.list_of(ORDERS), default=list(ORDERS), help=",".join(ORDERS))
    add("--only", type=timing.list_of(NAMES), default=[], help=",".join(NAMES))
    add(
        "--parts",
        type=timing.list_of(("rows", "train")),
        default=["rows", "train"],
        help="rows,train",
    )
    add("--resident", type=float, default=0.2, help="share of the rows in the resident prefix")
    add("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    add("--batch-size", type=int, default=1024)
    add("--batches", type=int, default=16, help="batches of a run")
    add("--warm-up", type=int, default=24, help="batches before the first run, not counted")
    add("--most-seconds", type=float, default=120.0, help="a slower contestant makes fewer runs")
    add("--epochs", type=int, default=4, help="of training; the first one starts with a cold cache")
    add("--epoch-batches", type=int, default=20, help="batches of an epoch")
    add("--hidden", type=int, default=256)
    sleeps = "train with these sleeps too, in ms a batch, in place of a model"
    add("--sleeps", type=timing.count, nargs="*", default=[20, 50], help=sleeps)
    add("--fio-seconds", type=float, default=4.0, help="of each of three runs")
    add("--build-memory", default="2GB", help="memory limit of graphzero.build")
    options = parser.parse_args(arguments)
    if options.quick:
        options.nodes, options.edges, options.dim = 1 << 16, 1_000_000, 64
        options.batch_size, options.fanouts, options.hidden = 32, [5, 5], 16
        options.epochs, options.epoch_batches, options.fio_seconds = 3, 5, 0.5
        options.only = options.only or [BASELINE, RAM, PACKED, "uring+resident", "auto"]
        options.limit, options.sleeps = options.limit or 64 << 20, [5]
    names = ["nodes", "edges", "dim", "runs", "batches", "warm_up", "epoch_batches", "threads"]
    timing.require_positive(parser, options, names)
    if options.epochs < 2:
        parser.error("--epochs must be at least 2: the first one is reported by itself")
    if options.limit is None:
        options.limit = options.nodes * options.dim * 4 * 5 // 16  # 640 MiB of 2 GiB
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    options = parse(arguments)
    options.data.mkdir(parents=True, exist_ok=True)
    try:
        with limited_group(1 << 30):
            pass
    except NoMemoryGroup as error:
        print(f"stopped: this benchmark needs a memory limit; {error}", file=sys.stderr)
        return 1
    found = measure(options)
    own = ", ".join(f"{kind} {size >> 20:,}" for kind, size in found["own_anonymous"].items())
    rate = found["disk_rate"]
    lines = [
        f"R-MAT, {options.nodes:,} nodes, {options.edges:,} edges, {options.dim} float32 columns "
        f"({found['features_bytes'] >> 20:,} MiB)",
        f"limit {options.limit >> 20:,} MiB beyond the process's own memory (MiB: {own})",
        f"{options.threads} threads, batches of {options.batch_size} seeds, fanouts "
        f"{options.fanouts}; rows: {options.runs} runs of {options.batches} batches after "
        f"{options.warm_up}; training: {options.epochs} epochs of {options.epoch_batches} batches",
        "fio: " + ("unknown" if rate is None else f"{rate:,.0f} random reads of 4 KiB a second"),
        *(f"{name}: {why}" for name, why in found["notes"].items()),
    ]
    print(machine.heading(found, lines))
    if found["rows"]:
        print("", rows_table(found["rows"], rate), sep="\n")
    if found["training"]:
        print("", training_table(found["training"]), sep="\n")
    timing.write_json(options, found)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leave no group and no process behind
    sys.exit(main())
