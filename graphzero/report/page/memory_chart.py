"""Chart 1: the memory of the processes against the page cache of the dataset's files, over time."""

from __future__ import annotations

from functools import partial
from typing import Literal

from matplotlib.figure import Figure

from graphzero.report.page import style
from graphzero.report.page.html import because, known_limit
from graphzero.report.page.series import (
    MemoryParts,
    Series,
    late,
    memory_parts,
    of_readings,
    thinned,
)
from graphzero.report.page.style import COLORS, INK, Chart, Format, Label, Values
from graphzero.report.recording import Reading, Recording
from graphzero.units import format_bytes

__all__ = ["memory_chart", "page_cache_over_time"]

TITLE = "Memory over time"
AREAS = {
    "anonymous": (COLORS["orange"], "anonymous"),
    "shared": (COLORS["purple"], "shared"),
    "file": (COLORS["sky"], "mapped files"),
    "resident": (COLORS["orange"], "resident"),
}
CACHE, USAGE, LIMIT = "page cache", "memory group", "limit of the group"
# A limit that is many times what was used would press everything else to the ground.
HIGHEST_LIMIT = 3.0
SLIGHT = 0.005  # an area of less than this share of the height cannot be seen


def _cached(reading: Reading) -> float | None:
    return None if not reading.page_cache else float(sum(reading.page_cache.values()))


def page_cache_over_time(recording: Recording) -> Series:
    """Bytes of the dataset's files in the page cache."""
    return of_readings(recording, _cached)


def _usage(reading: Reading) -> float | None:
    return None if reading.group is None else reading.group.usage


def memory_chart(recording: Recording) -> Chart:
    """RSS in its parts, stacked; lines for the page cache and for the memory group."""
    parts, cache = memory_parts(recording), page_cache_over_time(recording)
    usage, limit = of_readings(recording, _usage), known_limit(recording)
    if not recording.readings:
        return Chart("memory", TITLE, missing="unknown (there is no reading)")
    if parts is None and not cache.values and not usage.values:
        return Chart("memory", TITLE, missing=because(recording, "anonymous", "rss", "page_cache"))
    if len(recording.readings) < 2 or recording.seconds <= 0:
        return Chart("memory", TITLE, missing=_at_one_moment(_values(parts, cache, usage)))
    most = max(parts.most if parts else 0.0, cache.most, usage.most)
    drawn_limit = limit if limit and limit <= HIGHEST_LIMIT * most else None
    return Chart(
        "memory",
        TITLE,
        _caption(recording, parts, cache, usage, limit, drawn_limit),
        partial(_draw, recording.seconds, parts, cache, usage, drawn_limit),
        values=_values(parts, cache, usage),
    )


def _caption(
    recording: Recording,
    parts: MemoryParts | None,
    cache: Series,
    usage: Series,
    limit: int | None,
    drawn_limit: int | None,
) -> str:
    sentences = [_words_for_areas(recording, parts)]
    if cache.values:
        sentences.append(
            "Blue line: bytes of the dataset's files in the page cache, each page once, whether a "
            "process has mapped it or not."
        )
        seen = {path for reading in recording.readings for path in reading.page_cache or ()}
        missing = [file.path for file in recording.files if file.path not in seen]
        if missing:
            reason = because(recording, *missing, "page_cache")
            sentences.append(f"It lacks {len(missing)} of {len(recording.files)} files: {reason}.")
    else:
        sentences.append(f"Page cache: {because(recording, 'page_cache')}.")
    if usage.values:
        sentences.append("Black line: all memory that is charged to the memory group.")
    if limit and not drawn_limit:
        sentences.append(f"The limit of the memory group, {format_bytes(limit)}, is far above.")
    elif not limit and usage.values:
        sentences.append("The memory group has no limit.")
    elif not limit:
        sentences.append(f"Memory group: {because(recording, 'group', 'limit')}.")
    return " ".join(sentences)


def _words_for_areas(recording: Recording, parts: MemoryParts | None) -> str:
    if parts is None:
        return f"Memory of the processes: {because(recording, 'anonymous', 'rss')}."
    whose = "the process" if parts.alone else "all processes"
    if "resident" in parts.parts:
        words = f"Area: resident memory of {whose}; its parts are unknown."
    else:
        words = f"Areas: resident memory of {whose}, stacked."
    if parts.alone:
        return words
    if parts.shares:
        words += " A page that several processes have counts once"
        taken, count = len(parts.seconds), len(recording.readings)
        return (
            f"{words}, as {taken:,} of {count:,} readings tell." if taken < count else f"{words}."
        )
    return f"{words} A page that several processes have counts for each of them."


def _values(parts: MemoryParts | None, cache: Series, usage: Series) -> Values:
    """What a reader can ask for at each moment."""
    columns: dict[str, dict[float, float]] = {}
    if parts is not None:
        for name, sizes in parts.parts.items():
            columns[AREAS[name][1]] = dict(zip(parts.seconds, sizes, strict=True))
    for label, series in ((CACHE, cache), (USAGE, usage)):
        if series.values:
            columns[label] = dict(zip(series.seconds, series.values, strict=True))
    moments = sorted({seconds for column in columns.values() for seconds in column})
    weights = [sum(column.get(at, 0.0) for column in columns.values()) for at in moments]
    chosen = [moments[i] for i in thinned(weights, style.WIDE.most)]
    unit = style.byte_unit(max(max(column.values()) for column in columns.values()))
    values: dict[str, list[float | None]] = {
        label: [round(column[at] / unit.size, 3) if at in column else None for at in chosen]
        for label, column in columns.items()
    }
    return Values(chosen, values, unit.name)


def _at_one_moment(values: Values) -> str:
    known = [
        f"{label} {column[-1]:g} {values.unit}"
        for label, column in values.columns.items()
        if column[-1] is not None
    ]
    return f"unknown (too short for a timeline). At its end: {', '.join(known)}."


def _draw(
    seconds: float,
    parts: MemoryParts | None,
    cache: Series,
    usage: Series,
    limit: int | None,
    form: Format,
) -> Figure:
    labels = []
    lines: list[tuple[str, Series, str, Literal["-"], float]] = [
        (CACHE, cache, COLORS["blue"], "-", 2.0),
        (USAGE, usage, INK, "-", 1.0),
    ]
    count = sum(bool(s.values) for _, s, *_ in lines) + (len(parts.parts) if parts else 0)
    top = style.room_above(count + bool(limit), form)
    figure = style.new_figure(form, 190 + top)
    axes = style.new_axes(figure, 38, form.label_room or 10, 34, top)
    most = max(parts.most if parts else 0.0, cache.most, usage.most, limit or 0.0)
    if parts is not None:
        names = [name for name in AREAS if name in parts.parts]
        totals = [sum(row) for row in zip(*parts.parts.values(), strict=True)]
        chosen = thinned(totals, form.most)
        below = [0.0] * len(chosen)
        times = [parts.seconds[i] for i in chosen]
        for name in names:
            above = [b + parts.parts[name][i] for b, i in zip(below, chosen, strict=True)]
            color, label = AREAS[name]
            axes.fill_between(times, below, above, color=color, lw=0, gid=f"series-{name}")
            if max(parts.parts[name]) > SLIGHT * most:
                middle = [(b + a) / 2 for b, a in zip(below, above, strict=True)]
                labels.append(Label(label, color, late(middle)))
            below = above
    for label, series, color, line, width in lines:
        if series.values:
            chosen = thinned(series.values, form.most)
            axes.plot(
                [series.seconds[i] for i in chosen],
                [series.values[i] for i in chosen],
                color=color,
                linestyle=line,
                linewidth=width,
                gid=f"series-{label.replace(' ', '-')}",
            )
            labels.append(Label(label, color, late(series.values), line))
    if limit:
        axes.axhline(limit, color=COLORS["vermilion"], ls="--", lw=1.2, gid="series-limit")
        labels.append(Label(LIMIT, COLORS["vermilion"], limit, "--"))
    style.show_time(axes, seconds)
    style.show_values(axes, most, style.byte_unit(most), "")
    style.label_areas(axes, labels, form)
    return figure
