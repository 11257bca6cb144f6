"""Results as Markdown tables and as plain values for JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.timing import Comparison, Spread

__all__ = [
    "machine_lines",
    "markdown",
    "rate_table",
    "ratio_table",
    "to_json",
    "versions_line",
    "warm_cache_line",
]


def machine_lines(found: Mapping[str, Any]) -> list[str]:
    """Two lines: the machine, and how much of it other processes took."""
    machine = found["machine"]
    return [
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.1f} GiB, "
        f"{machine['kernel']}, Python {machine['python']}",
        f"other processes took {found['others_processor_share']:.0%} of the processors' time",
    ]


def warm_cache_line(found: Mapping[str, Any]) -> str:
    """Where the data are, and how much of them the page cache holds."""
    disk, resident = found["disk"], found["cache"]["resident_share"]
    share = "unknown" if resident is None else f"{resident:.1%}"
    return f"data on {disk['file_system']} ({disk['device']}), cache warm, resident share {share}"


def versions_line(versions: Mapping[str, str | None]) -> str:
    """Packages and their versions."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def rate_table(comparisons: Sequence[Comparison], names: Sequence[str]) -> str:
    """A row per workload, a column per contestant, and numbered notes below.

    A cell has the median (lowest to highest) and the number of busy processors.

    Parameters
    ----------
    comparisons : sequence of Comparison
    names : sequence of str
        The contestants, in the order of their columns.
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


def _rate_cell(rate: Spread | None) -> str:
    if rate is None:
        return "-"
    return f"{rate.median:.3g} ({rate.low:.3g} to {rate.high:.3g}) on {rate.cores:.1f}"


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table of aligned cells; the first row is the heading."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return "| " + " | ".join(padded) + " |"


def to_json(comparison: Comparison) -> dict[str, Any]:
    """A comparison as plain values."""
    others = [name for name in comparison.rates if name != comparison.first]
    return {
        "workload": comparison.workload,
        "unit": comparison.unit,
        "rates": {
            name: {
                "median": rate.median,
                "min": rate.low,
                "max": rate.high,
                "runs": rate.runs,
                "cores": rate.cores,
            }
            for name, rate in comparison.rates.items()
        },
        "ratios": {name: comparison.ratio(name) for name in others},
        "goals": dict(comparison.goals),
        "met": {name: comparison.met(name) for name in comparison.goals},
        "notes": {name: list(notes) for name, notes in comparison.notes.items()},
    }
