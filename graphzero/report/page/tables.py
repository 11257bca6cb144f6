"""The tables at the end of the page: all that a reader needs to judge the figures."""

from __future__ import annotations

import os
import statistics
from itertools import pairwise

from graphzero.report.page.epoch_chart import LOOP, PREPARATION, epochs_or_whole
from graphzero.report.page.html import (
    because,
    command_line,
    disk_rate_unknown,
    escaped,
    known_limit,
    started,
    table,
)
from graphzero.report.page.residency_chart import common_folder
from graphzero.report.recording import ENDED, Recording
from graphzero.report.summary import Summary
from graphzero.report.text import bytes_text, seconds_text
from graphzero.units import format_bytes

__all__ = ["tables"]

MOST_PROCESSES = 20
PROCESS_FIGURES = {
    "rss": "peak RSS",
    "anonymous": "peak anonymous",
    "read_bytes": "read",
    "cpu_seconds": "processor time",
    "major_faults": "major faults",
}


def tables(recording: Recording, summary: Summary) -> str:
    """All tables, as HTML."""
    sections = [
        ("Run", table((), _run(recording, summary))),
        ("Memory", _memory(recording, summary)),
        ("Machine and storage", table((), _machine(recording))),
        ("Files of the dataset", _files(recording)),
        ("Epochs", _epochs(recording)),
        ("Processes", _processes(recording)),
        ("Options", _named(recording.options, "unknown (no iteration over a dataset was seen)")),
        ("Versions", _named(recording.environment.versions, "unknown (not recorded)")),
        ("Unknown figures, and why", _named(recording.unknown, "None.")),
    ]
    return "\n".join(
        f"<section><h3>{escaped(heading)}</h3>\n{content}</section>"
        for heading, content in sections
    )


def _bytes(count: int | None, recording: Recording, *names: str) -> str:
    return because(recording, *names) if count is None else format_bytes(count)


def _named(values: dict[str, str], nothing: str) -> str:
    return table((), values.items()) if values else f"<p>{escaped(nothing)}</p>"


def _run(recording: Recording, summary: Summary) -> list[tuple[str, str]]:
    seconds = [reading.seconds for reading in recording.readings]
    steps = [b - a for a, b in pairwise(seconds)]
    if steps:
        interval = f"{statistics.median(steps):.3g} s (median of {len(steps):,})"
    else:
        interval = "unknown (fewer than two readings)"
    cost = f"{recording.own_cpu_seconds:.3g} s of processor time"
    if recording.seconds > 0:
        cost += f", {recording.own_cpu_seconds / recording.seconds:.2%} of a core"
    if summary.batches.batches:
        rows = format_bytes(summary.batches.row_bytes)
    else:
        rows = because(recording, "batches", otherwise="no mini-batches were seen")
    return [
        ("command", command_line(recording)),
        ("started", started(recording)),
        ("recorded", seconds_text(recording.seconds)),
        ("readings", f"{len(recording.readings):,}"),
        ("between readings", interval),
        ("cost of the recording", cost),
        ("processes", f"{summary.processes} seen at most"),
        ("processors used, on average", _cores(recording, summary)),
        ("read by the processes", _bytes(summary.read_bytes, recording, "read_bytes")),
        ("read from the device", _bytes(summary.device_bytes, recording, "device_bytes")),
        ("rows in mini-batches", rows),
        ("least memory available", _bytes(summary.available, recording, "available", "system")),
    ]


def _cores(recording: Recording, summary: Summary) -> str:
    if summary.cores is None:
        return because(recording, "cores", "cpu_seconds")
    return f"{summary.cores:.2f}"


def _memory(recording: Recording, summary: Summary) -> str:
    """How each kind of memory went."""
    kinds = (
        ("anonymous, sum over processes", summary.anonymous, "anonymous"),
        ("mapped files, sum over processes", summary.file, "file"),
        ("shared, sum over processes", summary.shared, "shared"),
        ("resident (RSS), sum over processes", summary.rss, "rss"),
        ("resident, each page once (PSS)", summary.pss, "pss"),
        ("page cache of the dataset's files", summary.page_cache, "page_cache"),
        ("charged to the memory group", summary.group_usage, "group"),
    )
    rows: list[tuple[str, ...]] = []
    for label, course, name in kinds:
        if course is None:
            rows.append((label, because(recording, name), "", ""))
        else:
            peak = summary.group_peak if name == "group" else None
            sizes = (course.most if peak is None else peak, course.mean, course.last)
            rows.append((label, *(bytes_text(size) for size in sizes)))
    return table(("", _at_most(summary), "on average", "at the end"), rows, numbers=(1, 2, 3))


def _at_most(summary: Summary) -> str:
    """The kernel keeps only the group's peak."""
    looks = "at most, at the readings"
    return looks if summary.group_peak is None else f"{looks} (group: of the whole run)"


def _machine(recording: Recording) -> list[tuple[str, str]]:
    environment = recording.environment

    def text(value: object, *names: str) -> str:
        return because(recording, *names) if value is None or value == "" else str(value)

    rotational = {True: "rotating", False: "solid state", None: None}[environment.rotational]
    if environment.disk_rate is None:
        rate = disk_rate_unknown(recording)
    else:
        rate = f"{format_bytes(int(environment.disk_rate))}/s"
    limit = known_limit(recording)
    groups = [r.group for r in recording.readings if r.group is not None]
    if limit is not None:
        bound = f"{format_bytes(limit)} (control groups, version {groups[-1].version})"
    elif groups:
        bound = f"none (control groups, version {groups[-1].version})"
    else:
        bound = because(recording, "group")
    return [
        ("processor", text(environment.cpu, "cpu")),
        ("cores the process may use", text(environment.cores, "cores")),
        ("memory", _bytes(environment.memory, recording, "memory")),
        ("limit of the memory group", bound),
        ("system", text(environment.system, "system")),
        ("disk", text(environment.disk, "disk")),
        ("kind of disk", text(rotational, "rotational")),
        ("random reads, measured", rate),
        ("file system", text(environment.file_system, "file_system")),
        ("mount options", text(environment.mount_options, "mount_options")),
        ("kernel's read-ahead", _bytes(environment.readahead_bytes, recording, "readahead_bytes")),
    ]


def _files(recording: Recording) -> str:
    files = sorted(recording.files, key=lambda file: -file.size)
    if not files:
        reason = because(recording, "files", otherwise="no file of a dataset was seen")
        return f"<p>{escaped(reason)}</p>"
    folder = common_folder(files)
    rows = [
        (
            os.path.relpath(file.path, folder) if folder else file.path,
            format_bytes(file.size),
            _bytes(file.page_cache, recording, file.path, "page_cache"),
            _bytes(file.most_cached, recording, file.path, "page_cache"),
        )
        for file in files
    ]
    if len(files) > 1:
        rows.append(("all", format_bytes(sum(file.size for file in files)), "", ""))
    head = ("file", "size", "in memory at the end", "at most")
    where = f"<p>Below <code>{escaped(folder)}</code>.</p>\n" if folder else ""
    return where + table(head, rows, numbers=(1, 2, 3))


def _epochs(recording: Recording) -> str:
    epochs = epochs_or_whole(recording)
    if not epochs:
        reason = because(recording, "batches", "epochs", otherwise="no mini-batches were seen")
        return f"<p>{escaped(reason)}</p>"
    parts = {**PREPARATION, **LOOP}
    head = ("epoch", "mini-batches", *(f"{label} (s)" for label, _ in parts.values()), "rows")
    rows = [
        (
            epoch,
            f"{totals.batches:,}",
            *(f"{getattr(totals, name):.4g}" for name in parts),
            format_bytes(totals.row_bytes),
        )
        for epoch, totals in epochs.items()
    ]
    return table(head, rows, numbers=range(1, len(head)))


def _processes(recording: Recording) -> str:
    names: dict[int, str] = {}
    most: dict[int, dict[str, float]] = {}
    for process in (p for reading in recording.readings for p in reading.processes):
        if process.pid == ENDED:
            continue
        names[process.pid] = process.name
        known = most.setdefault(process.pid, {})
        for figure in PROCESS_FIGURES:
            value = getattr(process, figure)
            if value is not None:
                known[figure] = max(value, known.get(figure, 0))
    if not names:
        return f"<p>{escaped(because(recording, 'processes', otherwise='there is no reading'))}</p>"

    def cell(pid: int, figure: str) -> str:
        value = most[pid].get(figure)
        if value is None:
            return because(recording, figure)
        if figure == "cpu_seconds":
            return f"{value:.4g} s"
        return f"{value:,}" if figure == "major_faults" else format_bytes(int(value))

    shown = sorted(sorted(names, key=lambda pid: -most[pid].get("rss", 0))[:MOST_PROCESSES])
    rows = [(f"{names[pid]} ({pid})", *(cell(pid, f) for f in PROCESS_FIGURES)) for pid in shown]
    note = "Counters are those of the process since its own start."
    if len(names) > len(shown):
        note += f" The {len(shown)} largest of {len(names)} processes."
    head = ("process", *PROCESS_FIGURES.values())
    return f"<p>{note}</p>\n" + table(head, rows, numbers=range(1, len(head)))
