"""Memory reports that tell a process's own memory from the page cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import psutil

from graphzero import _core
from graphzero.store.residency import resident_bytes
from graphzero.units import format_bytes

__all__ = ["MemoryReport", "format_memory", "memory_report"]


@dataclass(frozen=True)
class MemoryReport:
    """Memory of this process and its children (DataLoader workers), in bytes.

    Attributes
    ----------
    processes : int
        Number of processes. A page that several of them have mapped is counted for each: a forked
        worker's memory includes what it shares with its parent.
    resident : int
        Resident set size, summed over the processes.
    anonymous : int or None
        The part of it that is the processes' own, which the kernel cannot drop. None on systems
        other than Linux, which do not tell it apart.
    file : int or None
        The rest: mapped pages of files (datasets, but also libraries), and the shared memory in
        which workers deliver their batches. The kernel may drop pages of files at any time.
    page_cache : int or None
        Bytes of the dataset's files, and of a pack's, in the kernel's page cache, whether a process
        has them mapped or not; each page is counted once. None where the kernel does not tell, as
        for files of other users.
    dataset : int
        Size of these files.
    """

    processes: int
    resident: int
    anonymous: int | None
    file: int | None
    page_cache: int | None
    dataset: int


def _process_memory() -> tuple[int, int, int | None]:
    """Number of processes (this one and its children), their resident and their shared bytes."""
    count = resident = shared = 0
    splits = True
    this = psutil.Process()
    for process in [this, *this.children(recursive=True)]:
        try:
            info = process.memory_info()
        except psutil.Error:  # it has ended in the meantime
            continue
        count += 1
        resident += info.rss
        splits = splits and hasattr(info, "shared")
        shared += getattr(info, "shared", 0)
    return count, resident, shared if splits else None


class _Files(Protocol):
    """What has mapped files."""

    @property
    def mappings(self) -> list[_core.Mapping]:
        """One for each file."""


def memory_report(dataset: _Files) -> MemoryReport:
    """Memory of this process and its children, and page cache of a dataset's files, at present.

    Parameters
    ----------
    dataset : Dataset, NeighborDataset or PackedDataset
        Whose files; those of a `PackedDataset` are the pack's as well.
    """
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
