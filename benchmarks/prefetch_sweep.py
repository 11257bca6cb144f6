"""Prefetch settings x datasets x memory limits, to one tidy table with confidence intervals.

Run ``python -m benchmarks.prefetch_sweep`` from the repository's root, with graphzero installed. A
limit needs a place where a memory cgroup can be made: root, a delegated group, or systemd-run.
Every trial runs in a process of its own and begins with no page of the dataset in memory. Repeats
are interleaved: each round has every setting once, in random order with a fixed seed. The table is
written after each trial, and ``--resume`` goes on where an earlier sweep has ended.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from hashlib import blake2b
from pathlib import Path

from benchmarks.machine import describe_machine, versions
from benchmarks.options import require_not_negative, require_positive
from benchmarks.sweep_table import (
    BATCHES,
    SETTINGS,
    Cell,
    Journal,
    Row,
    batch_rows,
    key_of,
    read_rows,
    setting_of,
    summary,
    write_rows,
)
from graphzero.commands.options import as_fanouts, as_prefetch
from graphzero.commands.signals import ended_by_signals
from graphzero.graph.opening import open_dataset
from graphzero.io.prefetch import Prefetch
from graphzero.report.tuning.alone import measuring_alone
from graphzero.report.tuning.grid import describe
from graphzero.report.tuning.trial import TrialResult, Trials, Workload
from graphzero.report.tuning.trial_process import mini_batches
from graphzero.store.machine import this_machine
from graphzero.store.manifest import read_manifest
from graphzero.store.outputs import Output, check_outputs
from graphzero.store.tuning_file import files_digest
from graphzero.units import format_bytes, parse_size

PACKAGES = ("graphzero", "torch", "numpy")
SUFFIXES = (".csv", ".parquet")
COLD = 0.01  # most of the files in memory when a trial begins: another process may use them


def as_limit(text: str) -> int | None:
    """``"640MB"`` in bytes; None for "none"."""
    if text == "none":
        return None
    try:
        return parse_size(text, "--limits")
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def as_table(text: str) -> Path:
    """The path of a table."""
    path = Path(text)
    if path.suffix not in SUFFIXES:
        raise argparse.ArgumentTypeError(f"{text!r} must end with {' or '.join(SUFFIXES)}")
    return path


def read_grid(path: Path) -> list[Prefetch]:
    """The settings of a JSON file.

    It has a list of objects with fields of `Prefetch`, or one object whose lists are combined:
    ``{"strategy": ["uring", "willneed"], "lookahead": [1, 2]}`` is four settings.

    Raises
    ------
    ValueError
        If it is neither, or a setting is wrong; the message names it.
    """
    try:
        found = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    if isinstance(found, dict):
        lists = [value if isinstance(value, list) else [value] for value in found.values()]
        found = [dict(zip(found, values, strict=True)) for values in itertools.product(*lists)]
    names = {field.name for field in fields(Prefetch)}
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError(f"{path} has neither a list of settings nor an object of lists")
    settings = []
    for one in found:
        if unknown := sorted(set(one) - names):
            raise ValueError(f"{path}: {unknown} are not among {sorted(names)}")
        try:
            settings.append(Prefetch(**one))
        except ValueError as error:
            raise ValueError(f"{path}: {one}: {error}") from None
    return settings


def workload_of(options: argparse.Namespace, folder: str) -> Workload:
    """What the trials on a dataset iterate over."""
    return Workload(
        folder,
        options.fanouts,
        options.batch_size,
        options.split,
        options.node_type,
        num_threads=options.threads,
        step_ms=options.step_ms,
        seed=options.seed,
    )


def about_dataset(work: Workload) -> Row:
    """What the rows say of a dataset; None for what a typed graph has none of.

    Raises
    ------
    ValueError
        If the workload is not one of this dataset.
    """
    with open_dataset(work.folder) as ds:
        try:
            if len(mini_batches(ds, asdict(work), Prefetch())) == 0:
                raise ValueError("it has no nodes: choose another")
        except (TypeError, ValueError) as error:
            raise ValueError(f"{work.folder}, --split {work.split}: {error}") from None
        digest = blake2b(files_digest(ds.mappings).encode(), digest_size=8).hexdigest()
        shared = {"files": digest, "order": read_manifest(work.folder).order}
        if not hasattr(ds, "attributes") or not isinstance(ds.num_nodes, int):
            return {**shared, "nodes": None, "edges": None, "row_bytes": None}
        row_bytes = sum(store.row_bytes for store in ds.attributes.values())
        return {
            **shared,
            "nodes": ds.num_nodes,
            "edges": ds.num_edges,
            # rows of edges are read as well: a number of rows says nothing then
            "row_bytes": None if ds.edge_attributes else row_bytes,
        }


def cells_of(options: argparse.Namespace) -> list[Cell]:
    """Everything that is to be measured, each thing once."""
    found = {}
    work = {
        "fanouts": " ".join(map(str, options.fanouts)),
        "batch_size": options.batch_size,
        "split": options.split,
        "node_type": options.node_type,
        "sampling_threads": options.threads,
        "step_ms": options.step_ms,
        "seed": options.seed,
        "batches": options.batches,
        "warm_up": options.warm_up,
    }
    for folder in options.datasets:
        machine = this_machine(folder)
        about = {
            "dataset": str(folder.resolve()),
            **about_dataset(workload_of(options, str(folder))),
            **work,
            "cpu": machine.cpu,
            "cores": machine.cores,
            "machine_memory": machine.memory,
            "disk": machine.disk,
            "file_system": machine.file_system,
        }
        for limit, setting in itertools.product(options.limits, options.settings):
            cell = Cell(setting, {**about, "limit_bytes": limit})
            found[cell.key] = cell
    return list(found.values())


@dataclass
class Sweep:
    """A sweep, and how far it has come.

    Attributes
    ----------
    options : argparse.Namespace
    cells : list of Cell
    journal : Journal
    kept, kept_batches : list of dict
        Rows of the two tables that earlier sweeps have left.
    rows : list of dict
        Of the first table, as it was last written.
    """

    options: argparse.Namespace
    cells: list[Cell]
    journal: Journal
    kept: list[Row]
    kept_batches: list[Row]

    def __post_init__(self) -> None:
        self.rows: list[Row] = []
        self._trials: dict[tuple[str, int | None], Trials] = {}
        self._stack = ExitStack()
        self._kernel = describe_machine()["kernel"]
        found = versions(PACKAGES)
        self._versions = ", ".join(f"{name} {version}" for name, version in found.items())

    def __enter__(self) -> Sweep:
        with self._stack as locks:
            for folder in dict.fromkeys(cell.about["dataset"] for cell in self.cells):
                locks.enter_context(measuring_alone(folder))
            self._stack = locks.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def rounds(self) -> Iterable[tuple[int, Cell]]:
        """Trials that are to be made, in order; a cell that needs none is left out."""
        done = {key_of(row) for row in self.kept if row["repeats"] >= self.options.repeats}
        if not self.options.retry_failed:
            done |= {key_of(row) for row in self.kept if row["failure"]}
        for repeat in range(self.options.repeats):
            cells = list(self.cells)  # the order does not depend on what is left out
            random.Random(f"{self.options.order_seed}/{repeat}").shuffle(cells)
            for cell in cells:
                if cell.key not in done and not self.journal.is_done(cell.key, repeat + 1):
                    yield repeat, cell

    def run(self) -> None:
        """Makes the trials; the files have each one as soon as it has ended."""
        if self.options.retry_failed:
            self.journal.forget_failures()
        self.write()
        for repeat, cell in self.rounds():
            trials = self._trials_of(cell)
            result = trials.run(
                cell.setting,
                batches=self.options.batches,
                warm_up=self.options.warm_up,
                seconds=self.options.seconds,
            )
            self.journal.add(cell.key, self._trial(trials, result))
            self.write()
            print(self._line(repeat, cell, result), flush=True)

    def _trials_of(self, cell: Cell) -> Trials:
        where = cell.about["dataset"], cell.about["limit_bytes"]
        if where not in self._trials:
            work = workload_of(self.options, where[0])
            trials = Trials(work, memory_limit=where[1])
            self._stack.callback(trials.close)
            if trials.no_group is not None:
                print(f"{trials.no_group}: the page cache has no limit", file=sys.stderr)
            self._trials[where] = trials
        return self._trials[where]

    def _trial(self, trials: Trials, result: TrialResult) -> Row:
        figures = {key: value for key, value in asdict(result).items() if key != "setting"}
        by = None
        if trials.memory_limit is not None:
            by = trials.group if trials.no_group is None else "Prefetch.memory_limit"
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        about = {"kernel": self._kernel, "versions": self._versions, "date": now}
        return {**figures, "limit_by": by, **about}

    def _line(self, repeat: int, cell: Cell, result: TrialResult) -> str:
        limit = cell.about["limit_bytes"]
        where = [Path(cell.about["dataset"]).name, format_bytes(limit) if limit else "no limit"]
        seconds = result.seconds
        found = f"{sum(seconds) / len(seconds):.4f} s a batch" if seconds else result.reason
        if result.in_memory is not None and result.in_memory > COLD:
            found += f" (not cold: {result.in_memory:.0%} of the files stayed in memory)"
        return f"round {repeat + 1}, {', '.join(where)}, {describe(cell.setting)}: {found}"

    def write(self) -> None:
        """Writes both tables."""
        found = [(cell, self.journal.trials.get(cell.key, [])) for cell in self.cells]
        measured = [(cell, trials) for cell, trials in found if trials]
        rows = [summary(cell, trials) for cell, trials in measured]
        own = {key_of(row) for row in rows}
        self.rows = [row for row in self.kept if key_of(row) not in own] + rows
        write_rows(self.options.out, self.rows, SETTINGS)
        if self.options.long is not None:
            each = [row for cell, trials in measured for row in batch_rows(cell, trials)]
            own = {setting_of(cell.row) for cell, _ in measured}
            others = [row for row in self.kept_batches if setting_of(row) not in own]
            write_rows(self.options.long, others + each, BATCHES)


def make_parser() -> argparse.ArgumentParser:
    """The options."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.prefetch_sweep", description=__doc__
    )
    add = parser.add_argument
    add("--datasets", type=Path, nargs="+", required=True, metavar="DIR")
    add("--limits", type=as_limit, nargs="+", default=[None], metavar="SIZE", help="none: no limit")
    add("--prefetch", type=as_prefetch, nargs="+", default=[], help="such as uring:lookahead=2")
    add("--grid", type=Path, help="JSON file with more settings")
    add("--repeats", type=int, default=5)
    add("--batches", type=int, default=20, help="measured in each repeat")
    add("--warm-up", type=int, default=6, help="mini-batches before these, at least")
    add("--seconds", type=float, default=60.0, help="the most that one repeat measures")
    add("--fanouts", type=as_fanouts, default=[15, 10, 5])
    add("--batch-size", type=int, default=1024)
    add("--split", default="train", help="whose nodes are the seeds; all: all nodes")
    add("--node-type", help="of a typed graph: type of the seeds; default: the one with the split")
    add("--threads", type=int, help="that sample")
    add("--step-ms", type=float, default=0.0, help="sleep a mini-batch, in place of a model")
    add("--seed", type=int, default=0, help="of the mini-batches")
    add("--order-seed", type=int, default=0, help="of the order of the trials")
    add("--out", type=as_table, required=True, help="the table: .csv or .parquet")
    add("--long", type=as_table, help="a table with a row for each mini-batch")
    add("--resume", action="store_true", help="keep the rows of --out, and measure what they lack")
    add("--retry-failed", action="store_true", help="with --resume: also what failed, once more")
    return parser


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line; exits with a message where something is wrong."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    require_positive(parser, options, ["repeats", "batches", "batch_size"])
    require_not_negative(parser, options, ["warm_up", "seconds", "step_ms"])
    try:
        options.settings = [
            *options.prefetch,
            *([] if not options.grid else read_grid(options.grid)),
        ]
    except (OSError, ValueError) as error:
        parser.error(f"--grid: {error}")
    if not options.settings:
        parser.error("no setting: give --prefetch or --grid")
    journal = journal_of(options.out)
    outputs = [Output("--out", options.out), Output("the trials of --out", journal)]
    outputs += [] if options.long is None else [Output("--long", options.long)]
    try:
        check_outputs(outputs)
    except OSError as error:
        parser.error(f"{error.filename}: {error.strerror}")
    except ValueError as error:
        parser.error(str(error))
    if options.retry_failed and not options.resume:
        parser.error("--retry-failed goes on with a table: give --resume, too")
    if not options.resume and (options.out.exists() or journal.exists()):
        parser.error(f"{options.out} or {journal} exists: --resume goes on with it")
    return options


def journal_of(out: Path) -> Path:
    """The file that has the trials of a table."""
    return out.with_name(f"{out.name}.trials.jsonl")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures, and writes the tables."""
    options = parse(arguments)
    try:
        kept = read_rows(options.out, SETTINGS)
        batches = read_rows(options.long, BATCHES) if options.long is not None else []
        sweep = Sweep(options, cells_of(options), Journal(journal_of(options.out)), kept, batches)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    try:
        with ended_by_signals(), sweep:
            sweep.run()
    except BlockingIOError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            f"interrupted: {options.out} has what was measured; --resume goes on", file=sys.stderr
        )
        return 130
    return conclude(sweep)


def conclude(sweep: Sweep) -> int:
    """Says how a sweep has ended; the exit status, which is 0 where any setting has figures."""
    out, own = sweep.options.out, {cell.key for cell in sweep.cells}
    rows = [row for row in sweep.rows if key_of(row) in own]
    failures = [row["failure"] for row in rows if row["failure"]]
    if not any(row["repeats"] for row in rows):
        reason = f"the first: {failures[0]}; {out} has all reasons"
        print(f"error: every setting failed; {reason}", file=sys.stderr)
        return 1
    said = f"; {len(failures)} of them failed: the column failure says why" if failures else ""
    print(f"{len(rows)} settings in {out}{said}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
