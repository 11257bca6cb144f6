"""`summarize`: the figures of a recording. Pure functions of its readings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from graphzero.report.recording import (
    ENDED,
    BatchTotals,
    FileReading,
    Reading,
    Recording,
)
from graphzero.report.summary import Course, Summary
from graphzero.report.verdict import Workforce, find_verdict

__all__ = ["course", "summarize"]

_COUNTERS = ("major_faults", "read_bytes", "cpu_seconds")
_WHILE_SMALL = (
    "the processes became so large that counting their shared pages would have taken too long: a "
    "longer run affords it"
)
_PEAK_BEFORE = (
    "the group had used more before the recording, or the kernel does not keep it: the readings "
    "tell the most that they saw"
)
_NOT_LAST = "at the last reading, to count the pages of the processes would have taken too long"
_Figure = Callable[[Reading], int | float | None]


def summarize(recording: Recording) -> Summary:
    """The figures of a recording."""
    readings = recording.readings
    faults = _whole(_counted(readings, "major_faults"))
    device = _growth(readings, lambda reading: reading.device_bytes)
    own_reads = _counted(readings, "read_bytes")
    cpu = _counted(readings, "cpu_seconds")
    batches = readings[-1].batches if readings else BatchTotals()
    seconds = recording.seconds
    unknown = dict(recording.unknown)
    pss = course(readings, _over_processes("pss"))
    if pss is not None and _is_of_small_processes(readings):
        pss = None
        unknown.setdefault("pss", _WHILE_SMALL)
    pss_file = None if pss is None else course(readings, _over_processes("pss_file"))
    if pss is not None and not _has_pss_last(readings):
        pss = replace(pss, last=None)
        pss_file = None if pss_file is None else replace(pss_file, last=None)
        unknown.setdefault("pss.last", _NOT_LAST)
    usage = course(readings, lambda reading: _of_group(reading, "usage"))
    peak = _group_peak(readings)
    if usage is not None and peak is None:
        unknown.setdefault("group_peak", _PEAK_BEFORE)
    return Summary(
        seconds=seconds,
        processes=max((_count(reading) for reading in readings), default=0),
        anonymous=course(readings, _over_processes("anonymous")),
        file=course(readings, _over_processes("file")),
        shared=course(readings, _over_processes("shared")),
        rss=course(readings, _over_processes("rss")),
        pss=pss,
        pss_file=pss_file,
        page_cache=_page_cache(readings, recording.files),
        dataset=sum(file.size for file in recording.files) if recording.files else None,
        files=tuple(replace(file, residency=None) for file in recording.files),
        available=_least(reading.system.available for reading in readings),
        group_limit=_least(_of_group(reading, "limit") for reading in readings),
        group_usage=usage,
        group_peak=peak,
        refaults=_whole(_growth(readings, lambda reading: _of_group(reading, "refaults"))),
        kills=_whole(_growth(readings, lambda reading: _of_group(reading, "kills"))),
        major_faults=faults,
        read_bytes=_whole(own_reads),
        device_bytes=_whole(device),
        read_amplification=_ratio(device, batches.row_bytes),
        own_read_amplification=_ratio(own_reads, batches.row_bytes),
        cores=None if cpu is None or seconds <= 0 else cpu / seconds,
        batches=batches,
        batches_per_second=_batch_rate(readings),
        epochs=dict(recording.epochs),
        verdict=find_verdict(batches, _workforce(recording), major_faults=faults, recorded=seconds),
        own_cpu=recording.own_cpu_seconds / seconds if seconds > 0 else None,
        unknown=unknown,
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


def _count(reading: Reading) -> int:
    return sum(process.pid != ENDED for process in reading.processes)


def _over_processes(name: str) -> _Figure:
    """The sum of a field over the processes; None if that of one is unknown.

    Those that have ended count for counters only: at the end there may be no others.
    """

    def total(reading: Reading) -> int | float | None:
        counted = [each for each in reading.processes if each.pid != ENDED or name in _COUNTERS]
        values = [getattr(process, name) for process in counted]
        return sum(values) if values and None not in values else None

    return total


def _is_of_small_processes(readings: Sequence[Reading]) -> bool:
    """Whether proportional memory was read only when the processes were not half as large."""
    rss, pss = _over_processes("rss"), _over_processes("pss")
    sizes = [(rss(reading) or 0, pss(reading) is not None) for reading in readings]
    largest = max((size for size, looked in sizes if looked), default=0)
    return largest < max(size for size, _ in sizes) / 2


def _has_pss_last(readings: Sequence[Reading]) -> bool:
    """Whether proportional memory was read when there were processes for the last time."""
    last = next((reading for reading in reversed(readings) if _count(reading)), None)
    return last is not None and _over_processes("pss")(last) is not None


def _of_group(reading: Reading, name: str) -> int | None:
    value: int | None = None if reading.group is None else getattr(reading.group, name)
    return value


def _group_peak(readings: Sequence[Reading]) -> int | None:
    """The most that the group has used, if that was during the recording."""
    peaks = [peak for reading in readings if (peak := _of_group(reading, "peak")) is not None]
    if not peaks or peaks != sorted(peaks):  # somebody has set it back
        return None
    usages = (_of_group(reading, "usage") or 0 for reading in readings)
    return peaks[-1] if peaks[-1] > peaks[0] or peaks[-1] == max(usages) else None


def _growth(readings: Sequence[Reading], figure: _Figure) -> int | float | None:
    """By how much a counter has grown."""
    values = [value for reading in readings if (value := figure(reading)) is not None]
    return values[-1] - values[0] if len(values) > 1 else None


def _counted(readings: Sequence[Reading], name: str) -> int | float | None:
    """What the processes have counted; None if it could not be seen to grow."""
    grown = _growth(readings, _over_processes(name))
    was_seen_twice = sum(_count(reading) > 0 for reading in readings) > 1
    return grown if grown or was_seen_twice else None


def _whole(value: int | float | None) -> int | None:
    return None if value is None else int(value)


def _ratio(num_bytes: float | None, of: int) -> float | None:
    return None if num_bytes is None or of == 0 else num_bytes / of


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
    options = recording.options
    workers, threads = _most(options.get("num_workers")), _most(options.get("num_threads"))
    return Workforce(workers, threads)


def _most(texts: str | None) -> int | None:
    counts = [int(text) for text in (texts or "").split(" | ") if text.isdecimal()]
    return max(counts, default=None)
