"""Draws the figures of docs/benchmarks.md from the results of the out-of-core benchmark.

``python -m benchmarks.figures RESULTS.json docs/img`` after ``python -m benchmarks.out_of_core
--json RESULTS.json``; needs matplotlib. The same results give the same bytes. Figures without data
are omitted, with a note.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.disk_contestants import BASELINE, RAM, baselines
from benchmarks.disk_results import PAGE_BYTES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "Missing", "draw", "main"]

# Okabe and Ito's palette for colour-blind readers; the markers carry the same information.
ORDERS = {"input": ("#d55e00", "o"), "hot": ("#0072b2", "s"), "presample": ("#009e73", "^")}
ANONYMOUS, FILE, GREY = "#e69f00", "#56b4e9", "#666666"
STYLE: Any = {
    "svg.hashsalt": "graphzero",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
}
WIDTH, ROW, CAPTION_COLUMNS = 9.0, 0.24, 150
FIO_GOAL, MISSING_GOAL, SPEED_GOAL = 0.9, 1.2, 0.95


class Missing(ValueError):
    """The results lack the data of a figure."""


@dataclass(frozen=True)
class Point:
    """One mark of a figure: the middle of some values, and their range."""

    label: str
    order: str
    values: tuple[float, ...]
    hollow: bool = False

    @property
    def middle(self) -> float:
        """Their median."""
        return statistics.median(self.values)


def caption_of(found: dict[str, Any]) -> str:
    """Machine, disk, limit and sizes in a line or two."""
    machine, disk, memory = found["machine"], found["disk"], found["memory"]
    graph, settings = found["graph"], found["settings"]
    text = (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.1f} GiB, "
        f"{machine['kernel']}, {disk['file_system']}; limit {memory['limit'] / 2**20:,.0f} MiB "
        f"by {memory['group'] or 'none'}, beyond the process's own memory; "
        f"{graph['num_nodes']:,} nodes, {graph['num_edges']:,} edges, "
        f"{memory['features_bytes'] / 2**20:,.0f} MiB of features; {settings['batch_size']} "
        f"seeds, fanouts {settings['fanouts']}, {settings['threads']} threads; "
        f"graphzero {found['versions']['graphzero']}"
    )
    return textwrap.fill(text, CAPTION_COLUMNS)


def _labels(points: Iterable[Point]) -> list[str]:
    return list(dict.fromkeys(point.label for point in points))


def _marked(found: dict[str, Any], name: str) -> str:
    """A contestant's name, with a star if its figures were scaled up."""
    notes = (why for label, why in found["notes"].items() if label.partition(",")[0] == name)
    return f"{name} *" if any(why.startswith("scaled up") for why in notes) else name


def _canvas(title: str, rows: int, *, panels: int = 1) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, 1.7 + ROW * max(rows, 4)), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
    return figure, list(figure.subplots(1, panels, sharex=True, squeeze=False)[0])


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)


def _plot(axes: Axes, points: Sequence[Point]) -> None:
    """A row for each contestant; the orders of one lie a little apart."""
    names = _labels(points)
    _name_rows(axes, names)
    seen: set[str] = set()
    for point in points:
        color, marker = ORDERS[point.order]
        at = names.index(point.label) + 0.2 * (list(ORDERS).index(point.order) - 1)
        low, high = (point.middle - min(point.values), max(point.values) - point.middle)
        name = f"{point.order} order"
        axes.errorbar(
            [point.middle],
            [at],
            xerr=[[low], [high]],
            fmt=marker,
            color=color,
            markersize=5,
            markerfacecolor="white" if point.hollow else color,
            elinewidth=1,
            label=None if name in seen or point.hollow else name,
        )
        if not point.hollow:
            seen.add(name)


def _line(axes: Axes, at: float, label: str, style: str = "--") -> None:
    axes.axvline(at, color=GREY, linewidth=1, linestyle=style, label=label)


def _finish(figure: Figure, found: dict[str, Any], axes: Axes, more: str = "") -> Figure:
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper")
    figure.supxlabel(
        f"{caption_of(found)}{more}", x=0.01, ha="left", fontsize=7, color=GREY, linespacing=1.4
    )
    return figure


def _rows(found: dict[str, Any]) -> list[dict[str, Any]]:
    if not found["rows"]:
        raise Missing("no rows were read")
    rows: list[dict[str, Any]] = found["rows"]
    return rows


def _star(found: dict[str, Any], points: Iterable[Point]) -> str:
    if any(point.label.endswith(" *") for point in points):
        return "\n* read a part of each batch; scaled up to the whole batch by rows"
    return ""


def seconds(found: dict[str, Any]) -> Figure:
    """Seconds for the rows of a batch, by strategy and order."""
    rows = _rows(found)
    points = [
        Point(_marked(found, one["contestant"]), one["order"], tuple(one["seconds"]))
        for one in rows
    ]
    figure, (axes,) = _canvas(
        "Seconds for the rows of a mini-batch (median, lowest to highest)", len(_labels(points))
    )
    _plot(axes, points)
    axes.set_xscale("log")
    axes.set_xlabel("seconds a batch, logarithmic")
    base = [one["median"] for one in rows if one["contestant"] == BASELINE]
    if base:
        _line(axes, base[0], f"{BASELINE}, the baseline")
    return _finish(figure, found, axes, _star(found, points))


def pages_of_fio(found: dict[str, Any]) -> Figure:
    """Pages read per second, as a share of fio's rate."""
    rate = found["disk_rate"]
    if not rate:
        raise Missing("fio has not told the disk's rate")
    points = [
        Point(
            _marked(found, one["contestant"]),
            one["order"],
            tuple(one["read_bytes"] / PAGE_BYTES / run / rate for run in one["seconds"]),
        )
        for one in _rows(found)
    ]
    figure, (axes,) = _canvas(
        "Pages read from the device a second, as a share of fio's random reads",
        len(_labels(points)),
    )
    _plot(axes, points)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"share of fio's {rate:,.0f} random 4 KiB reads a second (O_DIRECT, depth 128)")
    _line(axes, FIO_GOAL, f"goal, {FIO_GOAL}")
    _line(axes, 1.0, "fio", "-")
    return _finish(figure, found, axes, _star(found, points))


def read_per_missing(found: dict[str, Any]) -> Figure:
    """Pages read from the device per missing page."""
    points = [
        Point(
            one["contestant"],
            one["order"],
            (one["read_bytes"] / PAGE_BYTES / one["pages_missed"],),
        )
        for one in _rows(found)
        if one["pages_missed"]
    ]
    if not points:
        raise Missing("no contestant has counted the pages that it missed")
    figure, (axes,) = _canvas(
        "Pages read from the device for each page that a batch missed", len(_labels(points))
    )
    _plot(axes, points)
    _line(axes, 1.0, "nothing read twice", "-")
    _line(axes, MISSING_GOAL, f"goal, at most {MISSING_GOAL}")
    axes.set_xlim(left=0)
    axes.set_xlabel("pages of 4 KiB read / pages missing (gaps that were read along included)")
    return _finish(figure, found, axes)


def _trained_models(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Without those that slept instead; results of older runs have none."""
    return [one for one in found["training"] if one.get("step", "GraphSAGE") == "GraphSAGE"]


def training(found: dict[str, Any]) -> Figure:
    """Seconds of the first and the later epochs against everything in RAM."""
    points, in_memory = [], []
    for one in _trained_models(found):
        first, *later = (epoch["seconds"] for epoch in one["epochs"])
        if one["contestant"] == RAM:
            in_memory.append(statistics.median(later))
        else:
            points.append(Point(one["contestant"], one["order"], (first,), hollow=True))
        points.append(Point(one["contestant"], one["order"], tuple(later)))
    if not points:
        raise Missing("nothing was trained")
    settings = found["settings"]
    figure, (axes,) = _canvas(
        f"Seconds of a training epoch of {settings['epoch_batches']} batches",
        len(_labels(points)),
    )
    _plot(axes, points)
    axes.set_xlim(left=0)
    axes.set_xlabel("seconds; filled: later epochs, hollow: the first one, from a cold cache")
    if in_memory:
        _line(axes, min(in_memory), "everything in RAM", "-")
        _line(axes, min(in_memory) / SPEED_GOAL, f"{SPEED_GOAL} of its speed")
    return _finish(figure, found, axes, f"; GraphSAGE, hidden {settings['hidden']}")


def _kind(contestant: str) -> str:
    """The kind of process by which its own anonymous memory was measured."""
    operations = {one.name: one.operation for one in baselines()}
    return operations.get(contestant, "pipeline")


def memory(found: dict[str, Any]) -> Figure:
    """Anonymous memory and page cache of each run, compared with its group's limit."""
    own, limit = found["memory"]["own_anonymous"], found["memory"]["limit"]
    panels = {
        title: [(one, limit + own[kind(one["contestant"])]) for one in runs if one["charged"]]
        for title, runs, kind in (
            ("rows", found["rows"], _kind),
            ("training", _trained_models(found), lambda _: "training"),
        )
    }
    panels = {title: runs for title, runs in panels.items() if runs}
    if not panels:
        raise Missing("the groups have not told what was charged")
    figure, all_axes = _canvas(
        "Memory that a run is charged for, at its end, and its limit",
        max(map(len, panels.values())),
        panels=len(panels),
    )
    for axes, (title, runs) in zip(all_axes, panels.items(), strict=True):
        _name_rows(axes, [f"{one['contestant']}, {one['order']}" for one, _ in runs])
        axes.set_title(title, loc="left")
        axes.set_xlabel("MiB")
        at = range(len(runs))
        anonymous, file = (
            [one["charged"][name] / 2**20 for one, _ in runs] for name in ("anonymous", "file")
        )
        axes.barh(at, anonymous, 0.7, color=ANONYMOUS, label="anonymous")
        axes.barh(at, file, 0.7, left=anonymous, color=FILE, label="page cache")
        peaks = [one["peak_anonymous"] / 2**20 for one, _ in runs]
        limits = [most / 2**20 for _, most in runs]
        axes.plot(peaks, at, "D", color="black", markersize=3.5, label="peak of anonymous")
        axes.plot(limits, at, "|", color="black", markersize=9, label="the group's limit")
    return _finish(figure, found, all_axes[0])


FIGURES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "rows-seconds": seconds,
    "rows-pages-of-fio": pages_of_fio,
    "rows-read-per-missing": read_per_missing,
    "training": training,
    "memory": memory,
}


def draw(found: dict[str, Any], folder: Path) -> tuple[list[Path], dict[str, str]]:
    """Writes an SVG for each figure.

    Parameters
    ----------
    found : dict
        What `benchmarks.out_of_core` writes as JSON.
    folder : pathlib.Path

    Returns
    -------
    list of pathlib.Path
        Of the figures that were drawn.
    dict of str to str
        Why others were omitted.
    """
    import matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    written, missing = [], {}
    with matplotlib.rc_context(STYLE):
        for name, figure_of in FIGURES.items():
            try:
                figure = figure_of(found)
            except Missing as error:
                missing[name] = str(error)
                continue
            written.append(folder / f"{name}.svg")
            # No date and no version, so that the bytes depend only on the results.
            figure.savefig(written[-1], metadata={"Date": None, "Creator": None})
    return written, missing


def main(arguments: Sequence[str] | None = None) -> int:
    """Draws the figures and prints their paths."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.figures", description=__doc__)
    parser.add_argument("results", type=Path, help="JSON of benchmarks.out_of_core")
    parser.add_argument("folder", type=Path, help="for the figures")
    options = parser.parse_args(arguments)
    found = json.loads(options.results.read_text())
    if found.get("benchmark") != "out_of_core":
        parser.error(f"{options.results} is not of benchmarks.out_of_core")
    try:
        written, missing = draw(found, options.folder)
    except ModuleNotFoundError as error:
        print(f"stopped: {error.name} is not installed", file=sys.stderr)
        return 1
    for path in written:
        print(path)
    for name, why in missing.items():
        print(f"without {name}: {why}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
