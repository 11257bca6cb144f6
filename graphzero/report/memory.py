"""Memory reports that do not mix up a process's own memory with the page cache."""

from __future__ import annotations

from dataclasses import dataclass

import psutil

from graphzero.graph.dataset import Dataset
from graphzero.store.residency import resident_bytes
from graphzero.units import format_bytes

__all__ = ["MemoryReport", "format_memory", "memory_report"]


@dataclass(frozen=True)
class MemoryReport:
    """Memory of this process and its children (DataLoader workers), in bytes.

    Attributes
    ----------
    processes : int
        How many were counted. A page that several of them hold is counted in each: a forked
        worker's report includes what it shares with its parent.
    resident : int
        Resident set size, summed over the processes.
    anonymous : int or None
        The part of it that is the processes' own: what the kernel cannot drop. None on systems
        that do not tell (all but Linux).
    file : int or None
        The rest: mapped pages of files (datasets, but also libraries), and shared memory, in which
        workers hand over their batches. Pages of files may be dropped at any time.
    page_cache : int or None
        What the kernel's page cache holds of the dataset's files, whether a process maps it or
        not, each page once. None if the kernel does not tell, as for files of other users.
    dataset : int
        Size of the dataset's files.
    """

    processes: int
    resident: int
    anonymous: int | None
    file: int | None
    page_cache: int | None
    dataset: int


def _process_memory() -> tuple[int, int, int | None]:
    """Number of processes, this one and its children, their resident bytes, the shared ones."""
    count = resident = shared = 0
    splits = True
    this = psutil.Process()
    for process in [this, *this.children(recursive=True)]:
        try:
            info = process.memory_info()
        except psutil.Error:  # it has ended meanwhile
            continue
        count += 1
        resident += info.rss
        splits = splits and hasattr(info, "shared")
        shared += getattr(info, "shared", 0)
    return count, resident, shared if splits else None


def memory_report(dataset: Dataset) -> MemoryReport:
    """Memory of this process, its children, and the page cache of a dataset's files, now."""
    count, resident, shared = _process_memory()
    mappings = dataset.mappings
    cached = [resident_bytes(mapping) for mapping in mappings]
    known = [count for count in cached if count is not None]
    return MemoryReport(
        processes=count,
        resident=resident,
        anonymous=None if shared is None else resident - shared,
        file=shared,
        page_cache=sum(known) if len(known) == len(cached) else None,
        dataset=sum(mapping.size for mapping in mappings),
    )


def format_memory(report: MemoryReport) -> str:
    """A report in one line."""
    if report.anonymous is None or report.file is None:
        processes = f"{format_bytes(report.resident)} resident (not split on this system)"
    else:
        processes = (
            f"{format_bytes(report.anonymous)} anonymous + "
            f"{format_bytes(report.file)} of files mapped (RSS)"
        )
    cached = "unknown" if report.page_cache is None else format_bytes(report.page_cache)
    count = f" of {report.processes} processes" if report.processes > 1 else ""
    return (
        f"memory{count}: {processes}; page cache of the dataset's files: "
        f"{cached} of {format_bytes(report.dataset)}"
    )
