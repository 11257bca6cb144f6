"""Side-by-side timing: contestants take turns, medians are compared; tables and options."""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / ".data"
PEERS = Path(__file__).parent / ".peer"
QUICK_SCALE, QUICK_EDGES = 16, 1_000_000  # of a smoke test
MOST_REPETITIONS = 100


class Dropped(Exception):
    """A contestant cannot continue; the others do, and the message becomes a note."""


@dataclass(frozen=True)
class Run:
    """One timed run: work done, wall time, and processor time of all threads."""

    work: float
    seconds: float
    processor_seconds: float

    @property
    def rate(self) -> float:
        """Work a second."""
        return self.work / self.seconds

    def __add__(self, other: Run) -> Run:
        return Run(*map(sum, zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Spread:
    """Median, lowest and highest rate of several runs, and the median of busy processors."""

    median: float
    low: float
    high: float
    runs: int
    cores: float


def spread(runs: Sequence[Run]) -> Spread:
    """Summary of runs."""
    rates = [run.rate for run in runs]
    cores = statistics.median(run.processor_seconds / run.seconds for run in runs)
    return Spread(statistics.median(rates), min(rates), max(rates), len(rates), cores)


@dataclass(frozen=True)
class Comparison:
    """Rates of one workload by contestant.

    Attributes
    ----------
    workload, unit : str
    first : str
        The contestant that the others are compared with.
    rates : mapping of str to Spread
    goals : mapping of str to float
        The required ratio of the first contestant's rate to this one's.
    notes : mapping of str to sequence of str
        By contestant.
    """

    workload: str
    unit: str
    first: str
    rates: Mapping[str, Spread]
    goals: Mapping[str, float] = field(default_factory=dict)
    notes: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def ratio(self, other: str) -> float | None:
        """Ratio of the first contestant's median rate to another's; None without a rate."""
        if self.first not in self.rates or other not in self.rates:
            return None
        return self.rates[self.first].median / self.rates[other].median

    def met(self, other: str) -> bool | None:
        """Whether the goal for this ratio is met; None without a goal or a rate."""
        ratio = self.ratio(other)
        return None if ratio is None or other not in self.goals else ratio >= self.goals[other]

    def plain(self) -> dict[str, Any]:
        """Plain values, with ratios and whether goals are met."""
        ratios = {name: self.ratio(name) for name in self.rates if name != self.first}
        met = {name: self.met(name) for name in self.goals}
        return asdict(self) | {"ratios": ratios, "met": met}


def interleave(
    contestants: Mapping[str, Callable[[int], Run]], runs: int
) -> tuple[dict[str, list[Run]], dict[str, str]]:
    """Lets contestants take turns, so that a slow moment of the machine affects all of them.

    Each is called with the number of the run; run 0 warms caches and is not counted. Every turn
    begins with another contestant. Returns the runs of those that were not dropped, and why the
    others were.
    """
    done: dict[str, list[Run]] = {name: [] for name in contestants}
    reasons: dict[str, str] = {}
    for number in range(runs + 1):
        names = list(done)
        first = number % max(1, len(names))
        for name in names[first:] + names[:first]:
            try:
                result = contestants[name](number)
            except Dropped as error:
                del done[name]
                reasons[name] = str(error)
                continue
            if number > 0:
                done[name].append(result)
    return done, reasons


def lasting(run: Callable[[int], Run], seconds: float) -> Callable[[int], Run]:
    """A contestant that repeats a short run for some seconds, each time with another number."""

    def repeated(number: int) -> Run:
        total = Run(0.0, 0.0, 0.0)
        for i in range(MOST_REPETITIONS):
            total += run(number * MOST_REPETITIONS + i)
            if total.seconds >= seconds:
                break
        return total

    return repeated


def compare(
    workload: str,
    unit: str,
    contestants: Mapping[str, Callable[[int], Run]],
    runs: int,
    *,
    goals: Mapping[str, float] | None = None,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> Comparison:
    """Times the contestants in turns and summarises their rates relative to the first."""
    timed, reasons = interleave(contestants, runs)
    rates = {name: spread(results) for name, results in timed.items()}
    all_notes = {name: list(of_one) for name, of_one in (notes or {}).items()}
    for name, reason in reasons.items():
        all_notes.setdefault(name, []).append(reason)
    return Comparison(workload, unit, next(iter(contestants)), rates, goals or {}, all_notes)


def bootstrap(ratios: Sequence[float], draws: int = 2000) -> tuple[float, float]:
    """The 95 % interval of the median of paired ratios, by resampling the pairs."""
    rng = random.Random(0)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws) - 1]


def rate_table(comparisons: Sequence[Comparison], names: Sequence[str]) -> str:
    """A row per workload, a column per contestant, and numbered notes below.

    A cell has the median (lowest to highest) and the number of busy processors.
    """
    rows = [["workload", "unit", *names]]
    numbers: dict[str, int] = {}
    for result in comparisons:
        cells = []
        for name in names:
            notes = result.notes.get(name, ())
            marks = [f" [{numbers.setdefault(note, len(numbers) + 1)}]" for note in notes]
            cells.append(_rate_cell(result.rates.get(name)) + "".join(marks))
        rows.append([result.workload, result.unit, *cells])
    return "\n".join([markdown(rows), *(f"[{i}] {note}" for note, i in numbers.items())])


def _rate_cell(rate: Spread | None) -> str:
    if rate is None:
        return "-"
    return f"{rate.median:.3g} ({rate.low:.3g} to {rate.high:.3g}) on {rate.cores:.1f}"


def ratio_table(comparisons: Sequence[Comparison], names: Sequence[str]) -> str:
    """A row per workload and contestant that has a rate or a goal: ratio, goal, and whether met."""
    rows = [["workload", "compared with", "ratio", "goal", ""]]
    for result in comparisons:
        for name in names:
            ratio, goal = result.ratio(name), result.goals.get(name)
            if name == result.first or (ratio is None and goal is None):
                continue
            rows.append(
                [
                    result.workload,
                    name,
                    "not measured" if ratio is None else f"{ratio:.1f}x",
                    "-" if goal is None else f"{goal:g}x",
                    {True: "met", False: "missed", None: "-"}[result.met(name)],
                ]
            )
    return markdown(rows)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table of aligned cells; the first row is the heading."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def span(values: Sequence[float]) -> str:
    """Median (lowest to highest)."""
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def count(text: str) -> int:
    """A whole number, also in the form 32e6."""
    return int(float(text))


def list_of(allowed: Sequence[str], kind: str = "") -> Callable[[str], list[str]]:
    """A parser of names with commas between them; `kind` names them in the error message."""

    def parse_names(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        unknown = [name for name in names if name not in allowed]
        if unknown:
            what = " ".join(filter(None, [kind, ", ".join(unknown)]))
            raise argparse.ArgumentTypeError(f"there is no {what}, only {', '.join(allowed)}")
        return names

    return parse_names


def parser_of(
    module: str,
    description: str | None,
    *,
    scale: int | None = 21,
    edges: float = 32e6,
    runs: int = 5,
) -> argparse.ArgumentParser:
    """The options that benchmarks share; without a graph if `scale` is None."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    add = parser.add_argument
    if scale is not None:
        add("--scale", type=int, default=scale, help="the graph has 2^SCALE nodes")
        add("--edges", type=count, default=int(edges), help="such as 32e6")
        add("--dim", type=int, default=128, help="float32 columns of the rows")
    add("--runs", type=int, default=runs, help="counted runs of each contestant")
    add("--threads", type=int, default=len(os.sched_getaffinity(0)))
    add("--data", type=Path, default=DATA, help="folder for the data")
    add("--json", type=Path, help="write the results there as well")
    add("--quick", action="store_true", help="a smoke test: its figures mean nothing")
    return parser


def require_positive(
    parser: argparse.ArgumentParser, options: argparse.Namespace, names: Sequence[str]
) -> None:
    """Exits with a message where one of these options is below 1."""
    for name in names:
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be positive")


def settings(options: argparse.Namespace) -> dict[str, Any]:
    """The options as plain values, without the user's paths."""
    return {name: value for name, value in vars(options).items() if not isinstance(value, Path)}


def write_json(options: argparse.Namespace, found: Mapping[str, Any]) -> None:
    """Writes the results where ``--json`` says."""
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1, default=asdict) + "\n")
