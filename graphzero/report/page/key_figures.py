"""The figures that stand at the top of the page."""

from __future__ import annotations

from dataclasses import dataclass

from graphzero.report.page.html import because
from graphzero.report.page.series import memory_parts
from graphzero.report.recording import Recording
from graphzero.report.summary import Summary
from graphzero.units import format_bytes

__all__ = ["KeyFigure", "key_figures"]


@dataclass(frozen=True)
class KeyFigure:
    """One figure: its name, its value as text, and a note on what it is."""

    name: str
    value: str
    note: str = ""


def key_figures(recording: Recording, summary: Summary) -> list[KeyFigure]:
    """The figures, each of them or why it is unknown."""
    figures = [
        KeyFigure("peak anonymous memory", *_anonymous(recording, summary)),
        KeyFigure("peak page cache", *_page_cache(recording, summary)),
        KeyFigure("read amplification", *_amplification(recording, summary)),
        KeyFigure("mini-batches a second", *_pace(recording, summary)),
        KeyFigure("stall", *_stall(recording, summary)),
        KeyFigure(
            "major faults",
            _count(summary.major_faults, recording, "major_faults"),
            "page faults that waited for the disk",
        ),
        KeyFigure(
            "refaults",
            _count(summary.refaults, recording, "refaults", "group"),
            "pages read again, because memory was short",
        ),
    ]
    if summary.kills:
        figures.append(KeyFigure("killed", f"{summary.kills:,}", "processes, by the kernel"))
    return figures


def _count(count: int | None, recording: Recording, *names: str) -> str:
    return _of_counter(recording, *names) if count is None else f"{count:,}"


def _of_counter(recording: Recording, *names: str) -> str:
    few = "a difference needs two readings" if len(recording.readings) < 2 else ""
    return because(recording, *names, otherwise=few)


def _anonymous(recording: Recording, summary: Summary) -> tuple[str, str]:
    parts = memory_parts(recording)
    if parts is not None and parts.shares and "anonymous" in parts.parts:
        most = int(max(parts.parts["anonymous"]))
        note = "of all processes, each page once, at the readings; no file backs it"
        return format_bytes(most), note
    if summary.anonymous is None:
        return because(recording, "anonymous"), "no file backs it"
    whose = "of all processes, summed" if summary.processes > 1 else "of the process"
    return format_bytes(summary.anonymous.most), f"{whose}, at the readings; no file backs it"


def _page_cache(recording: Recording, summary: Summary) -> tuple[str, str]:
    note = "of the dataset's files"
    if summary.dataset is None:
        return because(recording, "files", otherwise="no file of a dataset was seen"), note
    if summary.page_cache is not None:
        return format_bytes(summary.page_cache.most), f"{note}, {format_bytes(summary.dataset)}"
    return because(recording, "page_cache", otherwise="not known of every file"), note


def _amplification(recording: Recording, summary: Summary) -> tuple[str, str]:
    note = "bytes from the device for each byte of rows"
    if summary.own_read_amplification is not None:
        note += f"; {summary.own_read_amplification:.2g} of them for these processes"
    if summary.read_amplification is not None:
        if 0 < summary.read_amplification < 0.01:
            return "< 0.01", note
        return f"{summary.read_amplification:.3g}\N{MULTIPLICATION SIGN}", note
    if summary.device_bytes is not None:
        return "unknown (no mini-batch had rows)", note
    return _of_counter(recording, "device_bytes"), note


def _pace(recording: Recording, summary: Summary) -> tuple[str, str]:
    if summary.batches_per_second is None:
        return because(recording, "batches", otherwise="no mini-batches were seen"), ""
    return f"{summary.batches_per_second:.3g}", f"{summary.batches.batches:,} in all"


def _stall(recording: Recording, summary: Summary) -> tuple[str, str]:
    note = "of the loop's time, waiting for mini-batches"
    if summary.verdict.stalled is None:
        return because(recording, "stall", otherwise="the training loop was not observed"), note
    least = "at least " if summary.batches.unsplit else ""
    return f"{least}{summary.verdict.stalled:.0%}", note
