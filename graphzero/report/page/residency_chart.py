"""Chart 2: which parts of each file are in memory, at the end of the recording."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from graphzero.report.page import style
from graphzero.report.page.html import because, plain, shortened
from graphzero.report.page.style import COLORS, FAINT, INK, Chart, Format
from graphzero.report.recording import FileReading, Recording
from graphzero.units import format_bytes

__all__ = ["common_folder", "parts_of", "residency_chart"]

TITLE = "Which parts of each file are in memory"
MOST_FILES = 24
LEVELS = 8
SHADES = LinearSegmentedColormap.from_list("residency", ["#cfe3f1", COLORS["blue"], "#00304d"])
EMPTY = "#f2f2f2"


def common_folder(files: Sequence[FileReading]) -> str:
    """The folder below which all files are, "" for none."""
    folders = [os.path.dirname(file.path) for file in files]
    try:
        return os.path.commonpath(folders) if folders else ""
    except ValueError:  # absolute and relative paths
        return ""


def parts_of(residency: Sequence[float], count: int) -> list[float]:
    """The shares of `count` equal parts of a file, from those of more parts; else unchanged."""
    given = len(residency)
    if given <= count:
        return list(residency)
    parts = []
    for i in range(count):
        begin, end = i * given / count, (i + 1) * given / count
        total = 0.0
        for j in range(int(begin), min(given, math.ceil(end))):
            total += residency[j] * (min(end, j + 1) - max(begin, j))
        parts.append(total / (end - begin))
    return parts


def residency_chart(recording: Recording) -> Chart:
    """A strip for each file, from its beginning to its end, darker where more is in memory."""
    files = sorted((file for file in recording.files if file.size), key=lambda file: -file.size)
    if not files:
        reason = because(recording, "files", otherwise="no file of a dataset was seen")
        return Chart("residency", TITLE, missing=reason)
    reasons = {file.path: _reason(recording, file) for file in files}
    if not any(file.residency for file in files):
        return Chart("residency", TITLE, missing=next(iter(reasons.values())))
    shown, left_out = files[:MOST_FILES], files[MOST_FILES:]
    folder = common_folder(files)
    caption = (
        "At the end of the recording. Each strip is one file, from its first byte (left) to its "
        "last; the strips have the same length, whatever the size. Darker: more of that part is "
        "in the page cache."
    )
    if folder:
        caption += f" Files are below {plain(folder)}."
    if left_out:
        size = format_bytes(sum(file.size for file in left_out))
        caption += f" {len(left_out)} smaller files ({size}) are in the table of files only."
    return Chart("residency", TITLE, caption, partial(_draw, shown, folder, reasons))


def _reason(recording: Recording, file: FileReading) -> str:
    return because(recording, file.path, os.path.basename(file.path), "residency", "page_cache")


def _draw(
    files: Sequence[FileReading], folder: str, reasons: dict[str, str], form: Format
) -> Figure:
    wide = bool(form.label_room)
    row = 22.0 if wide else 34.0
    key, margin = 30.0, 4.0
    figure = style.new_figure(form, key + margin + row * len(files))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    height = key + margin + row * len(files)
    axes.set_axis_off()
    axes.set_xlim(0, form.width)
    axes.set_ylim(0, height)
    left, right = (150.0, form.width - 158) if wide else (0.5, form.width - 0.5)
    for n, file in enumerate(files):
        middle = height - margin - row * n - (row / 2 if wide else 24)
        _strip(axes, file, n, (left, right, middle - 6, middle + 6), reasons[file.path], form)
        name = shortened(os.path.relpath(file.path, folder) if folder else file.path)
        size = _size(file)
        if wide:
            places = ((left - 8, middle, "right"), (right + 8, middle, "left"))
        else:
            places = ((left, middle + 13, "left"), (right, middle + 13, "right"))
        for (x, y, side), text in zip(places, (name, size), strict=True):
            axes.text(x, y, text, ha=side, va="center", color=INK).set_parse_math(False)
    _key(axes, left, right)
    return figure


def _size(file: FileReading) -> str:
    size = format_bytes(file.size)
    if file.page_cache is None:
        return f"{size}, in memory: unknown"
    return f"{size}, {file.page_cache / file.size:.0%} in memory"


def _strip(
    axes: Axes,
    file: FileReading,
    n: int,
    box: tuple[float, float, float, float],
    reason: str,
    form: Format,
) -> None:
    left, right, bottom, top = box
    if file.residency is None or not file.residency:
        frame = Rectangle((left, bottom), right - left, top - bottom)
        frame.set(facecolor="white", edgecolor=FAINT, linestyle=":", linewidth=0.7)
        axes.add_patch(frame).set_gid(f"unknown-{n}")
        words = axes.text(left + 5, (bottom + top) / 2, shortened(reason, 52), va="center")
        words.set(color=FAINT, parse_math=False, fontsize=7.5)
        return
    back = Rectangle((left, bottom), right - left, top - bottom, facecolor=EMPTY, linewidth=0)
    axes.add_patch(back).set_gid(f"strip-{n}")
    parts = parts_of(file.residency, form.most - 44)
    step = (right - left) / len(parts)
    levels = [math.ceil(LEVELS * min(max(share, 0.0), 1.0) - 1e-9) for share in parts]
    boxes, colors, begin = [], [], 0
    for end in range(1, len(levels) + 1):
        if end < len(levels) and levels[end] == levels[begin]:
            continue
        if levels[begin] > 0:
            a, b = left + begin * step, left + end * step
            boxes.append([(a, bottom), (b, bottom), (b, top), (a, top)])
            colors.append(SHADES(levels[begin] / LEVELS))
        begin = end
    if boxes:
        marks = PolyCollection(boxes, facecolors=colors, linewidths=0, antialiaseds=False)
        axes.add_collection(marks, autolim=False)
        marks.set_gid(f"parts-{n}")


def _key(axes: Axes, left: float, right: float) -> None:
    """What the shades mean."""
    width, bottom = 12.0, 6.0
    axes.text(left, bottom + 4, "0%", va="center", color=FAINT, fontsize=8)
    begin = left + 20
    for level in range(LEVELS + 1):
        color = SHADES(level / LEVELS) if level else EMPTY
        axes.add_patch(Rectangle((begin + width * level, bottom), width, 8, color=color, lw=0))
    end = begin + width * (LEVELS + 1)
    axes.text(end + 4, bottom + 4, "100% in memory", va="center", color=FAINT, fontsize=8)
