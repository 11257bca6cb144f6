"""`Summary`: the figures of a `Recording` that say where memory and time went."""

from __future__ import annotations

import json
import os
import signal
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from typing import Any

from graphzero.loader.stats import BatchTotals
from graphzero.report.recording import (
    COUNTERS,
    ENDED,
    FORMAT,
    VERSION,
    FileReading,
    Reading,
    Recording,
)
from graphzero.report.verdict import Verdict, Workforce, find_verdict
from graphzero.store.atomic import write_atomically
from graphzero.units import format_bytes

UNKNOWN = "unknown"
_LEFT, _WIDTH = 12, 100
_WHILE_SMALL = (
    "the processes became so large that counting their shared pages would have taken too long: a "
    "longer run affords it"
)
_PEAK_BEFORE = (
    "the group had used more before the recording, or the kernel does not keep it: the readings "
    "have the most that they saw"
)
_Figure = Callable[[Reading], int | float | None]


@dataclass(frozen=True)
class Course:
    """How a figure went, in bytes.

    Attributes
    ----------
    most : int
        At a reading; there may have been more between two of them.
    mean : float
        Over time.
    last : int
        At the last reading that has it.
    looks : int
        At how many readings it was known. Proportional memory is expensive to find out: of large
        processes it is read seldom.
    """

    most: int
    mean: float
    last: int
    looks: int


@dataclass(frozen=True)
class Summary:
    """What a run took. ``print`` shows it; every figure that is unknown is None.

    Attributes
    ----------
    seconds : float
    processes : int
        The most that there were at a time.
    anonymous, file, shared, rss : Course or None
        Parts of the resident set size, and the whole, summed over processes: a page that several
        of them have mapped counts for each.
    pss, pss_file : Course or None
        The same with each page counted once.
    page_cache : Course or None
        Bytes of the dataset's files in the page cache, each page once, whoever has read it.
    dataset : int or None
        Size of these files. None if no file is known.
    files : tuple of FileReading
        Without their maps.
    available : int or None
        The least memory that the machine had available.
    group_limit : int or None
        Of the memory group; None without a limit as well.
    group_usage : Course or None
        At the readings: there may have been more between two of them.
    group_peak : int or None
        The most that the group has used during the run, as the kernel keeps it. None if it had used
        more before.
    refaults, kills : int or None
        Of the whole memory group: pages of any files that were read again after they had been
        dropped; processes that the kernel killed.
    major_faults : int or None
        Page faults that waited for the disk.
    read_bytes : int or None
        That the processes have read from storage.
    device_bytes : int or None
        That were read from the disk that has the dataset, by anyone.
    read_amplification : float or None
        `device_bytes` for each byte of rows in the mini-batches. Less than 1 if rows were in the
        page cache already.
    own_read_amplification : float or None
        `read_bytes` for each byte of rows: what is left where others read from the disk as well.
    cores : float or None
        Processors used, on average.
    batches : BatchTotals
    batches_per_second : float or None
        From the first to the last mini-batch, as closely as the readings tell.
    epochs : dict of int to BatchTotals
    verdict : Verdict
        What the run was bound by.
    own_cpu : float or None
        Share of one processor that the monitor took.
    unknown : dict of str to str
        Figures that are unknown, and why.
    exit_code : int or None
        Of the command that was run.
    """

    seconds: float
    processes: int
    anonymous: Course | None
    file: Course | None
    shared: Course | None
    rss: Course | None
    pss: Course | None
    pss_file: Course | None
    page_cache: Course | None
    dataset: int | None
    files: tuple[FileReading, ...]
    available: int | None
    group_limit: int | None
    group_usage: Course | None
    group_peak: int | None
    refaults: int | None
    kills: int | None
    major_faults: int | None
    read_bytes: int | None
    device_bytes: int | None
    read_amplification: float | None
    own_read_amplification: float | None
    cores: float | None
    batches: BatchTotals
    batches_per_second: float | None
    epochs: dict[int, BatchTotals]
    verdict: Verdict
    own_cpu: float | None
    unknown: dict[str, str] = field(default_factory=dict)
    exit_code: int | None = None

    def __str__(self) -> str:
        """A table of about twenty lines."""
        return _aligned(summary_rows(self))


def summarize(recording: Recording) -> Summary:
    """The figures of a recording."""
    readings, seconds = recording.readings, recording.seconds
    batches = readings[-1].batches if readings else BatchTotals()
    unknown = dict(recording.unknown)
    courses: dict[str, Any] = {name: course(readings, figure) for name, figure in _COURSES.items()}
    growths = {name: _growth(readings, figure) for name, figure in _GROWTHS.items()}
    if _count_seen(readings) < 2:  # what processes have counted could not be seen to grow
        growths |= {name: growths[name] or None for name in COUNTERS}
    cpu = growths.pop("cpu_seconds")
    counts: dict[str, Any] = {
        name: None if each is None else int(each) for name, each in growths.items()
    }
    if courses["pss"] is not None and _is_of_small_processes(readings):
        courses |= {"pss": None, "pss_file": None}
        unknown.setdefault("pss", _WHILE_SMALL)
    peak = _group_peak(readings)
    if courses["group_usage"] is not None and peak is None:
        unknown.setdefault("group_peak", _PEAK_BEFORE)
    faults, device, own = (counts[n] for n in ("major_faults", "device_bytes", "read_bytes"))
    dataset = sum(file.size for file in recording.files) if recording.files else None
    return Summary(
        seconds=seconds,
        processes=max(map(_num_processes, readings), default=0),
        **courses,
        **counts,
        page_cache=_page_cache(readings, recording.files),
        dataset=dataset,
        files=tuple(replace(file, residency=None) for file in recording.files),
        available=_least(reading.available for reading in readings),
        group_limit=_least(map(_of_group("limit"), readings)),
        group_peak=peak,
        read_amplification=_ratio(device, batches.row_bytes),
        own_read_amplification=_ratio(own, batches.row_bytes),
        cores=_ratio(cpu, seconds),
        batches=batches,
        batches_per_second=_batch_rate(readings),
        epochs=dict(recording.epochs),
        verdict=find_verdict(
            *(batches, _workforce(recording), dataset, _least(map(_room, readings))),
            major_faults=faults,
            recorded=seconds,
        ),
        own_cpu=_ratio(recording.own_cpu_seconds, seconds),
        unknown=unknown,
        exit_code=recording.exit_code,
    )


def course(readings: Iterable[Reading], figure: _Figure) -> Course | None:
    """How a figure went, over the readings that have it; None if none has.

    The mean is over time: where readings are far apart, those at both ends of the time between
    them count for longer.
    """
    points = [(r.seconds, value) for r in readings if (value := figure(r)) is not None]
    if not points:
        return None
    span = points[-1][0] - points[0][0]
    pairs = pairwise(points)
    area = sum((end - begin) * (first + last) / 2 for (begin, first), (end, last) in pairs)
    values = [value for _, value in points]
    mean = area / span if span > 0 else sum(values) / len(values)
    return Course(int(max(values)), float(mean), int(values[-1]), len(values))


def over_processes(name: str) -> _Figure:
    """The sum of a field over the processes; None if that of one is unknown.

    Those that have ended count for counters only: at the end there may be no others.
    """

    def total(reading: Reading) -> int | float | None:
        counted = [each for each in reading.processes if each.pid != ENDED or name in COUNTERS]
        values = [getattr(process, name) for process in counted]
        return sum(values) if values and None not in values else None

    return total


def _of_group(name: str) -> Callable[[Reading], int | None]:
    return lambda reading: None if reading.group is None else getattr(reading.group, name)


# Figures of a summary: those that go up and down, and counters, of which it has the growth.
_COURSES: dict[str, _Figure] = {
    **{name: over_processes(name) for name in ("anonymous", "file", "shared", "rss")},
    **{name: over_processes(name) for name in ("pss", "pss_file")},
    "group_usage": _of_group("usage"),
}
_GROWTHS: dict[str, _Figure] = {
    **{name: over_processes(name) for name in COUNTERS},
    **{name: _of_group(name) for name in ("refaults", "kills")},
    "device_bytes": lambda reading: reading.device_bytes,
}


def _growth(readings: Sequence[Reading], figure: _Figure) -> int | float | None:
    values = [value for reading in readings if (value := figure(reading)) is not None]
    return values[-1] - values[0] if len(values) > 1 else None


def _num_processes(reading: Reading) -> int:
    return sum(process.pid != ENDED for process in reading.processes)


def _count_seen(readings: Sequence[Reading]) -> int:
    """At how many readings there were processes."""
    return sum(_num_processes(reading) > 0 for reading in readings)


def _is_of_small_processes(readings: Sequence[Reading]) -> bool:
    """Whether proportional memory was read only when the processes were not half as large."""
    rss, pss = over_processes("rss"), over_processes("pss")
    sizes = [(rss(reading) or 0, pss(reading) is not None) for reading in readings]
    largest = max((size for size, looked in sizes if looked), default=0)
    return largest < max(size for size, _ in sizes) / 2


def _group_peak(readings: Sequence[Reading]) -> int | None:
    """The most that the group has used, if that was during the recording."""
    peaks = [peak for peak in map(_of_group("peak"), readings) if peak is not None]
    if not peaks or peaks != sorted(peaks):  # somebody has set it back
        return None
    usages = (usage or 0 for usage in map(_of_group("usage"), readings))
    return peaks[-1] if peaks[-1] > peaks[0] or peaks[-1] == max(usages) else None


def _room(reading: Reading) -> int | None:
    """Memory that files could have, what the page cache has of them included."""
    group, available = reading.group, reading.available
    if available is None or group is None or group.limit is None:
        return available
    if group.usage is None or group.file is None:
        return None
    return min(available, group.limit - group.usage + group.file)


def _ratio(count: float | None, of: float) -> float | None:
    return None if count is None or of <= 0 else count / of


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _page_cache(readings: Sequence[Reading], files: Sequence[FileReading]) -> Course | None:
    """Of all files; None where that of one is unknown."""
    names = {file.path for file in files}
    if not names:
        return None

    def cached(reading: Reading) -> int | None:
        looked = reading.page_cache
        if looked is None or not names <= looked.keys():
            return None
        return sum(looked[name] for name in names)

    return course(readings, cached)


def _batch_rate(readings: Sequence[Reading]) -> float | None:
    if not readings:
        return None
    first, last = readings[0].batches.batches, readings[-1].batches.batches
    if last == first:
        return None
    begin = max(r.seconds for r in readings if r.batches.batches == first)
    end = min(r.seconds for r in readings if r.batches.batches == last)
    return (last - first) / (end - begin) if end > begin else None


def _workforce(recording: Recording) -> Workforce:
    """As the options of the iterations say; of several iterations, the most."""
    texts = (recording.options.get(name, "") for name in ("num_workers", "num_threads"))
    counts = ([int(each) for each in text.split(" | ") if each.isdecimal()] for text in texts)
    return Workforce(*(max(each, default=None) for each in counts))


def to_json(recording: Recording) -> str:
    """A recording, and the figures of its summary, as JSON.

    The keys are the names of the fields of `Recording` and `Summary`. Bytes and counts are
    integers, times are seconds; what is unknown is null.
    """
    content = {
        "format": FORMAT,
        "version": VERSION,
        "summary": asdict(summarize(recording)),
        "recording": asdict(recording),
    }
    return json.dumps(content, allow_nan=False)


def write_recording(path: str | os.PathLike[str], recording: Recording) -> None:
    """Writes `to_json` to a file, in one step; `read_recording` reads it."""
    write_atomically(path, to_json(recording).encode())


_Row = tuple[str, str]
# What the text does not have, known or not: the page and the JSON file do.
_NOT_SHOWN = {
    *("disk", "disk_rate", "file_system", "group_peak"),
}


def summary_rows(summary: Summary) -> Iterator[_Row]:
    """The lines of the text: a name on the left, and what is to say."""
    count = f"{summary.processes} process{'' if summary.processes == 1 else 'es'}"
    yield "run", f"{seconds_text(summary.seconds)}, {count} at most"
    if summary.exit_code is not None and summary.exit_code > 128:
        yield "killed", _killed_text(summary.exit_code - 128, summary.kills)
    yield "verdict", summary.verdict.sentence
    if summary.verdict.knob:
        yield "to do", summary.verdict.knob
    yield from _batch_rows(summary)
    yield from _memory_rows(summary)
    yield (
        "reads",
        f"{_bytes(summary.device_bytes)} read from the device, {_bytes(summary.read_bytes)} by "
        f"these processes, {_count(summary.major_faults)} major page faults",
    )
    if summary.batches.row_bytes:
        device, own = map(_rate, (summary.read_amplification, summary.own_read_amplification))
        yield (
            "",
            f"{_bytes(summary.batches.row_bytes)} of rows in mini-batches; bytes read for each of "
            f"them: {device} from the device, {own} by these processes (rows in the page cache "
            f"are not read)",
        )
    cores = UNKNOWN if summary.cores is None else f"{summary.cores:.2f} used on average"
    own_cpu = UNKNOWN if summary.own_cpu is None else f"{summary.own_cpu:.2%} of one"
    yield "processors", f"{cores}; the monitor took {own_cpu}"
    reasons: dict[str, list[str]] = {}
    for name, reason in summary.unknown.items():
        if name not in _NOT_SHOWN:
            reasons.setdefault(reason, []).append(name)
    for i, (reason, names) in enumerate(reasons.items()):
        yield UNKNOWN if i == 0 else "", f"{', '.join(names)}: {reason}"


def _killed_text(number: int, kills: int | None) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if name == "SIGKILL":
        name += ": its memory group was full" if kills else ", as when memory runs out"
    return f"by {name}; the figures are those until then"


def _batch_rows(summary: Summary) -> Iterator[_Row]:
    """How mini-batches were prepared, and what the training loop did."""
    totals = summary.batches
    if totals.batches:
        nodes, edges = totals.nodes / totals.batches, totals.edges / totals.batches
        yield (
            "batches",
            f"{totals.batches:,} prepared, {_rate(summary.batches_per_second)} a second, each of "
            f"{nodes:,.0f} nodes and {edges:,.0f} edges on average",
        )
        work = totals.sampling + totals.disk + totals.gathering
        yield (
            "work",
            f"sampling {_with_share(totals.sampling, work)}, waiting for the disk "
            f"{_with_share(totals.disk, work)}, gathering {_with_share(totals.gathering, work)}, "
            f"over all threads; ready batches waited {seconds_text(totals.ready)}",
        )
    if totals.steps == 0:
        yield "loop", "how long it waited is unknown: it was not observed"
        return
    looped = totals.stall + totals.training
    maybe = ", or their DataLoader did" if totals.unsplit else ""
    yield (
        "loop",
        f"waited {_with_share(totals.stall, looped)} for {totals.steps:,} mini-batches, worked on "
        f"them {_with_share(totals.training, looped)}{maybe}",
    )
    if len(summary.epochs) > 1:
        texts = [
            f"{epoch}: {seconds_text(each.stall + each.training)}, "
            f"{_share(each.stall, each.stall + each.training)} of it waiting"
            for epoch, each in summary.epochs.items()
        ]
        yield "epochs", "; ".join(texts if len(texts) <= 4 else [*texts[:2], "...", *texts[-2:]])


def _memory_rows(summary: Summary) -> Iterator[_Row]:
    anonymous, file, shared = summary.anonymous, summary.file, summary.shared
    if anonymous is not None and file is not None and shared is not None:
        yield (
            "memory",
            f"at most {_bytes(anonymous.most)} anonymous, {_bytes(file.most)} of mapped files, "
            f"{_bytes(shared.most)} shared, in {anonymous.looks:,} readings",
        )
    elif summary.rss is not None:
        yield "memory", f"at most {_bytes(summary.rss.most)} resident; its parts are unknown"
    else:
        yield "memory", UNKNOWN
    if summary.pss is not None:
        mapped = None if summary.pss_file is None else summary.pss_file.most
        yield (
            "",
            f"each page once (PSS): {_bytes(summary.pss.most)} at most, {_bytes(mapped)} of mapped "
            f"files, in {summary.pss.looks:,} readings",
        )
    yield "page cache", _page_cache_text(summary)
    if summary.group_usage is not None:
        limit = summary.group_limit
        of = "; it has no limit" if limit is None else f" of {_bytes(limit)}"
        yield (
            "group",
            f"at most {_bytes(summary.group_peak or summary.group_usage.most)}{of}; "
            f"{_count(summary.refaults)} refaults{_whose(summary)}, {_count(summary.kills)} "
            "processes killed",
        )
    yield "machine", f"{_bytes(summary.available)} of memory available at the least"


def _whose(summary: Summary) -> str:
    """Of which files refaults were, as far as the page cache tells: the kernel does not say."""
    if not summary.refaults:
        return ""
    cached = summary.page_cache
    if cached is None or cached.last < cached.most:
        return " in the whole group (of the dataset's files or of others)"
    return " in the whole group (probably not of the dataset, most cached at the end)"


def _page_cache_text(summary: Summary) -> str:
    if summary.dataset is None:
        return f"unknown: {summary.unknown.get('files', 'no file of a dataset was seen')}"
    cached, whole = summary.page_cache, f"the dataset's {_bytes(summary.dataset)}"
    if cached is not None:
        return f"{_bytes(cached.most)} at most, {_bytes(cached.last)} at the end of {whole}"
    known = [file.page_cache for file in summary.files if file.page_cache is not None]
    if not known:
        return f"unknown, of {whole}"
    return f"unknown for some files; {_bytes(sum(known))} of the others, of {whole}"


def _aligned(rows: Iterable[_Row]) -> str:
    """Names on the left, texts on the right; long texts go on below their beginning."""
    lines: list[str] = []
    for name, text in rows:
        # paths may have characters that change the terminal
        printable = "".join(each if each.isprintable() else "?" for each in text)
        lines += textwrap.wrap(
            printable,
            _WIDTH,
            initial_indent=f"{name:{_LEFT}}",
            subsequent_indent=" " * _LEFT,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def seconds_text(seconds: float) -> str:
    """Seconds, as precisely as they are of interest."""
    if seconds >= 120:
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
    if seconds >= 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.2f} s" if seconds >= 1 or seconds == 0 else f"{seconds * 1000:.3g} ms"


def _bytes(count: float | None) -> str:
    return UNKNOWN if count is None else format_bytes(round(count))


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def _rate(rate: float | None) -> str:
    return UNKNOWN if rate is None else f"{rate:.3g}" if rate < 100 else f"{rate:,.0f}"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole > 0 else UNKNOWN


def _with_share(seconds: float, whole: float) -> str:
    return f"{seconds_text(seconds)} ({_share(seconds, whole)})"
