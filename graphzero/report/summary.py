"""`Summary`: the figures of a `Recording` that say where memory and time went."""

from __future__ import annotations

import json
import os
import signal
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TypeVar

from graphzero.io.plan import AS_REQUESTED
from graphzero.loader.stats import BatchTotals
from graphzero.report.recording import FORMAT, VERSION, FileReading, Reading, Recording
from graphzero.report.verdict import KILLED, LESS_MEMORY, Verdict, find_verdict, seconds_text
from graphzero.store.atomic import write_atomically
from graphzero.units import format_bytes, html_table, printable

UNKNOWN = "unknown"
_LEFT, _WIDTH = 12, 100
# Other programs matter where they have at least this share of processors that are all in use.
_OTHERS, _IN_USE = 0.2, 0.85
_SHORT_OF_MEMORY = 200_000_000  # bytes: with less room than that, a run that was killed lacked it
_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True)
class Summary:
    """What a run took. ``print`` shows it; every figure that is unknown is None.

    Attributes
    ----------
    seconds : float
    processes : int
        The most that there were at a time.
    anonymous, file, shared, rss : int or None
        The most at a reading of parts of the resident set size, and of the whole, summed over
        processes: a page that several of them have mapped counts for each.
    pss : int or None
        The same with each page counted once.
    page_cache : int or None
        The most bytes of the dataset's files in the page cache, each page once, whoever has read
        it.
    dataset : int or None
        Size of these files. None if no file is known.
    files : tuple of FileReading
        At the end, without their maps.
    available : int or None
        The least memory that the machine had available.
    group_limit : int or None
        Of the memory group; None without a limit as well.
    group_usage : int or None
        At the readings: there may have been more between two of them.
    kills : int or None
        Processes that the kernel killed for lack of memory, in the group of the run.
    major_faults : int or None
        Page faults that waited for the disk.
    read_bytes : int or None
        That the processes have read from storage.
    device_bytes : int or None
        That were read from the disk that has the dataset, by anyone.
    cores : float or None
        Processors used, on average.
    batches : BatchTotals
    batches_per_second : float or None
        While the loops that were observed ran.
    epochs : dict of int to BatchTotals
    verdict : Verdict
        What the run was bound by.
    exit_code : int or None
        Of the command that was run.
    """

    seconds: float
    processes: int
    anonymous: int | None
    file: int | None
    shared: int | None
    rss: int | None
    pss: int | None
    page_cache: int | None
    dataset: int | None
    files: tuple[FileReading, ...]
    available: int | None
    group_limit: int | None
    group_usage: int | None
    kills: int | None
    major_faults: int | None
    read_bytes: int | None
    device_bytes: int | None
    cores: float | None
    batches: BatchTotals
    batches_per_second: float | None
    epochs: dict[int, BatchTotals]
    verdict: Verdict
    exit_code: int | None = None

    def __str__(self) -> str:
        """A table of about twenty lines."""
        return _aligned(summary_rows(self))

    def _repr_html_(self) -> str:
        """The same as a table, for notebooks."""
        return html_table(summary_rows(self))


def summarize(recording: Recording) -> Summary:
    """The figures of a recording."""
    readings, seconds, options = recording.readings, recording.seconds, recording.options
    batches = readings[-1].batches if readings else BatchTotals()
    dataset = sum(file.size for file in recording.files) if recording.files else None
    major_faults = _growth(readings, over_processes("major_faults"))
    kills = _growth(readings, of_group("kills"))
    cores = _ratio(_growth(readings, over_processes("cpu_seconds")), seconds)
    verdict = find_verdict(
        batches,
        workers=_most_of(recording, "num_workers"),
        threads=_most_of(recording, "num_threads"),
        dataset=dataset,
        room=_least(map(_room, readings)),
        major_faults=major_faults,
        recorded=seconds,
        others=_others(recording, cores),
        is_passive=options.get("OMP_WAIT_POLICY", "").lower() == "passive",
        is_tuned=AS_REQUESTED in options.get("io", ""),
        is_hot=options.get("order") in ("hot", "presample"),
        gpu=_mean(reading.gpu for reading in readings),
    )
    if _lacked_memory(recording, kills):
        verdict = replace(verdict, bound="memory", sentence=KILLED, knob=LESS_MEMORY)
    return Summary(
        seconds=seconds,
        processes=max((len(reading.processes) for reading in readings), default=0),
        anonymous=_most(map(over_processes("anonymous"), readings)),
        file=_most(map(over_processes("file"), readings)),
        shared=_most(map(over_processes("shared"), readings)),
        rss=_most(map(over_processes("rss"), readings)),
        pss=_most(map(over_processes("pss"), readings)),
        page_cache=_most(map(page_cache, readings)),
        dataset=dataset,
        files=tuple(replace(file, residency=None) for file in recording.files),
        available=_least(reading.available for reading in readings),
        group_limit=_least(map(of_group("limit"), readings)),
        group_usage=_most(map(of_group("usage"), readings)),
        kills=kills,
        major_faults=major_faults,
        read_bytes=_growth(readings, over_processes("read_bytes")),
        device_bytes=_growth(readings, lambda reading: reading.device_bytes),
        cores=cores,
        batches=batches,
        batches_per_second=_ratio(batches.steps or None, batches.stall + batches.training),
        epochs=dict(recording.epochs),
        verdict=verdict,
        exit_code=recording.exit_code,
    )


def over_processes(name: str) -> Callable[[Reading], int | None]:
    """The sum of a field over the processes; None if that of one is unknown, or there is none."""

    def total(reading: Reading) -> int | None:
        values = [getattr(process, name) for process in reading.processes]
        return sum(values) if values and None not in values else None

    return total


def of_group(name: str) -> Callable[[Reading], int | None]:
    """A field of the memory group; None without one."""
    return lambda reading: None if reading.group is None else getattr(reading.group, name)


def page_cache(reading: Reading) -> int | None:
    """Bytes of all files in the page cache."""
    return sum(reading.page_cache.values()) if reading.page_cache else None


def counted(
    readings: Iterable[Reading], counter: Callable[[Reading], _Number | None]
) -> tuple[list[float], list[_Number]]:
    """Moments at which a counter is known, and its values, which never fall.

    What a process has counted is missing from when it ends until its parent has waited for it.
    """
    moments: list[float] = []
    counts: list[_Number] = []
    for reading in readings:
        if (count := counter(reading)) is not None:
            moments.append(reading.seconds)
            counts.append(max(count, counts[-1]) if counts else count)
    return moments, counts


def _growth(
    readings: Sequence[Reading], counter: Callable[[Reading], _Number | None]
) -> _Number | None:
    _, values = counted(readings, counter)
    return values[-1] - values[0] if len(values) > 1 else None


def _room(reading: Reading) -> int | None:
    """Memory that files could have, what the page cache has of them included."""
    group, available = reading.group, reading.available
    if group is None or group.limit is None:
        return available
    if group.usage is None or group.file is None:
        return None
    return min(available, group.limit - group.usage + group.file)


def _lacked_memory(recording: Recording, kills: int | None) -> bool:
    """Whether the kernel has ended a run, or a worker of it, because memory was short."""
    if kills and recording.exit_code != 0:
        return True
    rooms = [room for room in map(_room, recording.readings[-2:]) if room is not None]
    is_short = any(room < _SHORT_OF_MEMORY for room in rooms)
    return is_short and recording.exit_code == 128 + signal.SIGKILL


def _others(recording: Recording, cores: float | None) -> float | None:
    """Processors that other programs used, if they were many of those that all were in use."""
    count = recording.environment.get("cores")
    busy = _ratio(_growth(recording.readings, lambda r: r.busy_seconds), recording.seconds)
    if not isinstance(count, int) or busy is None or cores is None or busy < _IN_USE * count:
        return None
    return busy - cores if busy - cores >= _OTHERS * count else None


def _ratio(count: float | None, of: float) -> float | None:
    return None if count is None or of <= 0 else count / of


def _least(values: Iterable[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def _mean(values: Iterable[float | None]) -> float | None:
    read = [value for value in values if value is not None]
    return sum(read) / len(read) if read else None


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _most_of(recording: Recording, name: str) -> int | None:
    """The most that an option of the iterations was."""
    counts = recording.options.get(name, "").split(" | ")
    return _most(int(count) for count in counts if count.isdecimal())


def write_recording(path: str | os.PathLike[str], recording: Recording) -> None:
    """Writes a recording, and the figures of its summary, as JSON, in one step.

    The keys are the names of the fields of `Recording` and `Summary`. Bytes and counts are
    integers, times are seconds; what is unknown is null.
    """
    content = {
        "format": FORMAT,
        "version": VERSION,
        "summary": asdict(summarize(recording)),
        "recording": asdict(recording),
    }
    write_atomically(path, json.dumps(content, allow_nan=False).encode())


_Row = tuple[str, str]


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
    rows = summary.batches.row_bytes
    yield (
        "reads",
        f"{_bytes(summary.device_bytes)} read from the device, {_bytes(summary.read_bytes)} by "
        f"these processes, {_total(summary.major_faults)} major page faults"
        + (f"; rows of mini-batches have {_bytes(rows)}" if rows else ""),
    )
    yield "processors", f"{_rate(summary.cores)} used on average"


def _killed_text(number: int, kills: int | None) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    if number == signal.SIGKILL:
        name += ": its memory group was full" if kills else ", as when memory runs out"
    return f"by {name}; the figures are those until then"


def _batch_rows(summary: Summary) -> Iterator[_Row]:
    """How mini-batches were prepared, and what the training loop did."""
    totals = summary.batches
    if totals.batches == totals.steps == 0:
        yield (
            "batches",
            "no mini-batch was seen: ready-made loaders tell of theirs, and monitor.watch(loader) "
            "of those of any other loader",
        )
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
        if totals.sent_bytes:
            sent, copied = _bytes(totals.sent_bytes), seconds_text(totals.copied)
            yield "device", f"{sent} were sent, in copies of {copied} beside the model"
    if totals.steps == 0:
        return
    looped = totals.stall + totals.training
    yield (
        "loop",
        f"waited {_with_share(totals.stall, looped)} for {totals.steps:,} mini-batches, worked on "
        f"them {_with_share(totals.training, looped)}",
    )
    if 0 < totals.batches < totals.steps:
        yield (
            "",
            f"{totals.steps - totals.batches:,} mini-batches have no `stats`: those of other "
            f"libraries, or of a transform= that makes new objects",
        )
    if len(summary.epochs) > 1:
        texts = [
            f"{epoch}: {seconds_text(loop.stall + loop.training)}, "
            f"{_share(loop.stall, loop.stall + loop.training)} of it waiting"
            for epoch, loop in summary.epochs.items()
        ]
        yield "epochs", "; ".join(texts if len(texts) <= 4 else [*texts[:2], "...", *texts[-2:]])


def _memory_rows(summary: Summary) -> Iterator[_Row]:
    if summary.shared is None:
        yield "memory", f"at most {_bytes(summary.rss)} resident; its parts are unknown"
    else:
        yield (
            "memory",
            f"at most {_bytes(summary.anonymous)} anonymous, {_bytes(summary.file)} of mapped "
            f"files, {_bytes(summary.shared)} shared; each page once (PSS) {_bytes(summary.pss)}",
        )
    if summary.dataset is None:
        yield "page cache", "unknown: no file of a dataset was seen that can be opened"
    else:
        cached = [file.page_cache for file in summary.files if file.page_cache is not None]
        yield (
            "page cache",
            f"{_bytes(summary.page_cache)} at most, {_bytes(sum(cached))} at the end of the "
            f"dataset's {_bytes(summary.dataset)}"
            + ("" if len(cached) == len(summary.files) else ", without files of other users"),
        )
    if summary.group_usage is not None:
        limit = summary.group_limit
        of = "; it has no limit" if limit is None else f" of {_bytes(limit)}"
        yield (
            "group",
            f"at most {_bytes(summary.group_usage)}{of}; {_total(summary.kills)} processes killed",
        )
    yield "machine", f"{_bytes(summary.available)} of memory available at the least"


def _aligned(rows: Iterable[_Row]) -> str:
    """Names on the left, texts on the right; long texts go on below their beginning."""
    lines: list[str] = []
    for name, text in rows:
        lines += textwrap.wrap(
            printable(text),  # paths may have characters that change the terminal
            _WIDTH,
            initial_indent=f"{name:{_LEFT}}",
            subsequent_indent=" " * _LEFT,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def _bytes(count: int | None) -> str:
    return UNKNOWN if count is None else format_bytes(count)


def _total(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def _rate(rate: float | None) -> str:
    return UNKNOWN if rate is None else f"{rate:.3g}" if rate < 100 else f"{rate:,.0f}"


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.0%}" if whole > 0 else UNKNOWN


def _with_share(seconds: float, whole: float) -> str:
    return f"{seconds_text(seconds)} ({_share(seconds, whole)})"
