"""The figures that stand at the top of the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphzero.report.page.html import because
from graphzero.report.page.memory_chart import page_cache_over_time
from graphzero.report.page.series import memory_parts
from graphzero.report.recording import BatchTotals, ProcessReading, Recording
from graphzero.units import format_bytes

__all__ = ["KeyFigure", "key_figures", "whole_run"]


@dataclass(frozen=True)
class KeyFigure:
    """One figure: its name, its value as text, and a note on what it is."""

    name: str
    value: str
    note: str = ""


def whole_run(recording: Recording) -> BatchTotals:
    """Sums over all mini-batches of the recording."""
    return recording.readings[-1].batches if recording.readings else BatchTotals()


def _growth(recording: Recording, counter: Callable[[ProcessReading], int | None]) -> int | None:
    """How much a counter of processes grew, summed over processes; None where none tells it."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for n, reading in enumerate(recording.readings):
        for process in reading.processes:
            value = counter(process)
            if value is not None:
                first.setdefault(process.pid, value if n == 0 else 0)
                last[process.pid] = max(value, last.get(process.pid, 0))
    return sum(last[pid] - first[pid] for pid in last) if last else None


def _refaults(recording: Recording) -> int | None:
    found = [r.group.refaults for r in recording.readings if r.group is not None]
    known = [count for count in found if count is not None]
    return known[-1] - known[0] if known else None


def key_figures(recording: Recording) -> list[KeyFigure]:
    """The figures, each of them or why it is unknown."""
    parts, cache = memory_parts(recording), page_cache_over_time(recording)
    figures = [
        KeyFigure(
            "peak anonymous memory",
            format_bytes(int(max(parts.parts["anonymous"])))
            if parts and "anonymous" in parts.parts
            else because(recording, "anonymous", "pss"),
            "of all processes; no file backs it",
        ),
        KeyFigure(
            "peak page cache",
            format_bytes(int(cache.most)) if cache.values else because(recording, "page_cache"),
            "of the dataset's files",
        ),
        _amplification(recording),
        *_of_batches(recording),
    ]
    counts = (
        ("major faults", _growth(recording, lambda p: p.major_faults), "major_faults"),
        ("refaults", _refaults(recording), "refaults"),
    )
    notes = {"major faults": "faults that waited for the disk", "refaults": "pages read again"}
    for name, count, key in counts:
        value = f"{count:,}" if count is not None else because(recording, key, "group")
        figures.append(KeyFigure(name, value, notes[name]))
    return figures


def _amplification(recording: Recording) -> KeyFigure:
    used = whole_run(recording).row_bytes
    found = [r.device_bytes for r in recording.readings if r.device_bytes is not None]
    note = "bytes from the device for each byte of rows"
    if len(found) < 2:
        return KeyFigure("read amplification", because(recording, "device_bytes"), note)
    if not used:
        return KeyFigure("read amplification", "unknown (no rows were used)", note)
    return KeyFigure("read amplification", f"{(found[-1] - found[0]) / used:.2f}×", note)


def _of_batches(recording: Recording) -> list[KeyFigure]:
    whole = whole_run(recording)
    count = whole.steps or whole.batches
    if count and recording.seconds > 0:
        pace = f"{count / recording.seconds:.3g}"
    else:
        pace = because(recording, "batches", otherwise="no mini-batches were seen")
    loop = whole.stall + whole.training
    if loop > 0:
        stall = f"{whole.stall / loop:.0%}"
    else:
        stall = because(recording, "stall", otherwise="no training loop was seen")
    return [
        KeyFigure("mini-batches a second", pace, f"{count:,} in all" if count else ""),
        KeyFigure("stall", stall, "of the loop's time, waiting for mini-batches"),
    ]
