"""`Summary`: the figures of a `Recording` that say where memory and time went."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from graphzero.report.recording import BatchTotals, FileReading
from graphzero.report.text import (
    UNKNOWN,
    aligned,
    bytes_text,
    rate_text,
    seconds_text,
    share_text,
)
from graphzero.report.verdict import Verdict

__all__ = ["Course", "Summary"]


@dataclass(frozen=True)
class Course:
    """How a figure went, in bytes.

    Attributes
    ----------
    most : int
        At a reading; there may have been more between two of them.
    mean : float
        Over time.
    last : int or None
        At the end, or when there was one of the processes for the last time. None if it was read
        before that only.
    looks : int
        At how many readings it was known. Proportional memory is expensive to find out: of large
        processes it is read seldom.
    """

    most: int
    mean: float
    last: int | None
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
        In the memory group: pages that were read again, because memory was short; processes that
        the kernel killed.
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

    def __str__(self) -> str:
        """A table of about twenty lines."""
        return aligned(_rows(self))


_Row = tuple[str, str]
# What the text does not have, known or not: the page and the JSON file do.
_NOT_SHOWN = {
    *("disk", "disk_rate", "file_system", "group_peak", "pss.last", "readahead_bytes"),
    *("rotational", "system.cached", "uss"),
}


def _rows(summary: Summary) -> Iterator[_Row]:
    count = f"{summary.processes} process{'' if summary.processes == 1 else 'es'}"
    seen = " seen" if "processes" in summary.unknown else ""
    yield "run", f"{seconds_text(summary.seconds)}, {count}{seen} at most"
    yield "verdict", summary.verdict.sentence
    if summary.verdict.knob:
        yield "to do", summary.verdict.knob
    yield from _batch_rows(summary)
    yield from _memory_rows(summary)
    yield from _reading_rows(summary)
    cores = UNKNOWN if summary.cores is None else f"{summary.cores:.2f} used on average"
    own = UNKNOWN if summary.own_cpu is None else f"{summary.own_cpu:.2%} of one"
    yield "processors", f"{cores}; the monitor took {own}"
    reasons: dict[str, list[str]] = {}
    for name, reason in summary.unknown.items():
        if name not in _NOT_SHOWN:
            reasons.setdefault(reason, []).append(name)
    for i, (reason, names) in enumerate(reasons.items()):
        yield UNKNOWN if i == 0 else "", f"{', '.join(names)}: {reason}"


def _batch_rows(summary: Summary) -> Iterator[_Row]:
    totals = summary.batches
    if totals.batches:
        rate = rate_text(summary.batches_per_second)
        nodes, edges = totals.nodes / totals.batches, totals.edges / totals.batches
        yield (
            "batches",
            f"{totals.batches:,} prepared, {rate} a second, each of {nodes:,.0f} nodes and "
            f"{edges:,.0f} edges on average",
        )
        yield "work", _work_text(totals)
    yield "loop", _loop_text(totals)
    if len(summary.epochs) > 1:
        yield "epochs", _epochs_text(summary.epochs)


def _work_text(totals: BatchTotals) -> str:
    work = totals.sampling + totals.disk + totals.gathering
    parts = {
        "sampling": totals.sampling,
        "waiting for the disk": totals.disk,
        "gathering": totals.gathering,
    }
    texts = [
        f"{name} {seconds_text(value)} ({share_text(value, work)})" for name, value in parts.items()
    ]
    return (
        f"{', '.join(texts)}, over all threads; finished, they waited {seconds_text(totals.ready)}"
    )


def _loop_text(totals: BatchTotals) -> str:
    if totals.steps == 0:
        return "how long it waited is unknown: it was not observed"
    looped = totals.stall + totals.training
    maybe = ", or their DataLoader did" if totals.unsplit else ""
    return (
        f"waited {seconds_text(totals.stall)} ({share_text(totals.stall, looped)}) for "
        f"{totals.steps:,} mini-batches, worked on them {seconds_text(totals.training)} "
        f"({share_text(totals.training, looped)}){maybe}"
    )


def _epochs_text(epochs: dict[int, BatchTotals]) -> str:
    shown = list(epochs.items())
    texts = []
    for epoch, totals in shown if len(shown) <= 4 else [*shown[:2], *shown[-2:]]:
        looped = totals.stall + totals.training
        if totals.steps:
            took = f"{seconds_text(looped)}, {share_text(totals.stall, looped)} of it waiting"
        else:
            took = f"{totals.batches:,} batches"
        texts.append(f"{epoch}: {took}")
    if len(shown) > 4:
        texts.insert(2, "...")
    return "; ".join(texts)


def _memory_rows(summary: Summary) -> Iterator[_Row]:
    if summary.anonymous is None and summary.rss is not None:
        looks = f"in {summary.rss.looks:,} readings"
        yield "memory", f"at most {_most(summary.rss)} resident, {looks}; its parts are unknown"
    else:
        yield "memory", _parts_text(summary)
    if summary.pss is not None:
        yield (
            "",
            f"each page once (PSS): {_most(summary.pss)} at most, "
            f"{_most(summary.pss_file)} of mapped files, at {summary.pss.looks:,} looks",
        )
    yield "page cache", _page_cache_text(summary)
    if summary.group_usage is not None:
        limit = summary.group_limit
        of = "; it has no limit" if limit is None else f" of {bytes_text(limit)}"
        yield (
            "group",
            f"{_group_most(summary, summary.group_usage)}{of}; "
            f"{_count(summary.refaults)} pages read again (refaults), "
            f"{_count(summary.kills)} processes killed",
        )
    yield "machine", f"{bytes_text(summary.available)} of memory available at the least"


def _group_most(summary: Summary, usage: Course) -> str:
    if summary.group_peak is not None:
        return f"at most {bytes_text(summary.group_peak)}"
    return f"{bytes_text(usage.most)} at the highest of {usage.looks:,} readings"


def _parts_text(summary: Summary) -> str:
    if summary.anonymous is None:
        return UNKNOWN
    return (
        f"at most {_most(summary.anonymous)} anonymous, {_most(summary.file)} of mapped files, "
        f"{_most(summary.shared)} shared, in {summary.anonymous.looks:,} readings; on average "
        f"{_mean(summary.anonymous)}, {_mean(summary.file)}, {_mean(summary.shared)}"
    )


def _page_cache_text(summary: Summary) -> str:
    if summary.dataset is None:
        return f"unknown: {summary.unknown.get('files', 'no file of a dataset was seen')}"
    cached = summary.page_cache
    whole = bytes_text(summary.dataset)
    if cached is None:
        known = [file.page_cache for file in summary.files if file.page_cache is not None]
        if not known:
            return f"unknown, of the dataset's {whole}"
        return f"unknown for some files; {bytes_text(sum(known))} of the others, of {whole} in all"
    largest = max(summary.files, key=lambda file: file.size)
    name = largest.path.rsplit("/", 1)[-1]
    text = (
        f"{bytes_text(cached.most)} at most, {bytes_text(cached.last)} at the end of the dataset's "
        f"{whole}"
    )
    if len(summary.files) > 1 and largest.page_cache is not None:
        text += f"; {share_text(largest.page_cache, largest.size)} of {name}"
    return text


def _reading_rows(summary: Summary) -> Iterator[_Row]:
    yield (
        "reads",
        f"processes {bytes_text(summary.read_bytes)}, the disk {bytes_text(summary.device_bytes)} "
        f"for anybody; {_count(summary.major_faults)} page faults waited for it",
    )
    if summary.batches.row_bytes:
        both = (summary.own_read_amplification, summary.read_amplification)
        own, ratio = both
        is_cached = any(each is not None and each < 1 for each in both)
        hits = " (rows from the page cache are not read)" if is_cached else ""
        yield (
            "",
            f"rows in mini-batches {bytes_text(summary.batches.row_bytes)}; for each byte of them "
            f"the processes read {_ratio(own)}, and the disk {_ratio(ratio)} for anybody{hits}",
        )


def _ratio(ratio: float | None) -> str:
    return UNKNOWN if ratio is None else "less than 0.01" if 0 < ratio < 0.01 else f"{ratio:.3g}"


def _most(figure: Course | None) -> str:
    return bytes_text(None if figure is None else figure.most)


def _mean(figure: Course | None) -> str:
    return bytes_text(None if figure is None else figure.mean)


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"
