"""Memory reports that tell a process's own memory from the page cache."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from graphzero import _core
from graphzero.report.readings.processes import read_processes
from graphzero.store.residency import resident_bytes
from graphzero.units import format_bytes

__all__ = ["MemoryReport", "format_memory", "memory_report"]


@dataclass(frozen=True)
class MemoryReport:
    """Memory of this process and its children (DataLoader workers), in bytes.

    Attributes
    ----------
    processes : int
        Number of processes.
    resident : int
        Resident set size, summed over the processes. In this sum and its two parts, a page that
        several of them have is counted for each: a forked worker's memory includes what it shares
        with its parent. `pss` counts it once.
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
    pss : int or None
        Proportional set size, summed over the processes: each page once, but for pages that other
        processes of the machine have as well, which count in part. None where the system does not
        tell.
    pss_anonymous : int or None
        The part of it that is the processes' own: what they take from the machine for as long as
        they run.
    """

    processes: int
    resident: int
    anonymous: int | None
    file: int | None
    page_cache: int | None
    dataset: int
    pss: int | None = None
    pss_anonymous: int | None = None


def _sum(figures: Iterable[int | None]) -> int | None:
    """None if one of them is unknown."""
    known = list(figures)
    return None if None in known else sum(figure for figure in known if figure is not None)


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
    readings = read_processes(with_pss=True)
    resident = {one: one.rss for one in readings if one.rss is not None}
    processes = tuple(resident)
    mappings = dataset.mappings
    file, shared = (_sum(getattr(one, name) for one in processes) for name in ("file", "shared"))
    return MemoryReport(
        processes=len(processes),
        resident=sum(resident.values()),
        anonymous=_sum(one.anonymous for one in processes),
        file=_sum((file, shared)),
        page_cache=_sum(resident_bytes(mapping) for mapping in mappings),
        dataset=sum(mapping.size for mapping in mappings),
        pss=_sum(one.pss for one in processes),
        pss_anonymous=_sum(one.pss_anonymous for one in processes),
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
    if report.processes > 1 and report.pss is not None:
        processes = f"{format_bytes(report.pss)}, each page once; {processes}"
    cached = "unknown" if report.page_cache is None else format_bytes(report.page_cache)
    count = f" of {report.processes} processes" if report.processes > 1 else ""
    return (
        f"memory{count}: {processes}; page cache of the dataset's files: "
        f"{cached} of {format_bytes(report.dataset)}"
    )
