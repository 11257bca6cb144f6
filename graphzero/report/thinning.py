"""`thin`: leaves readings out of a long recording, and none that a summary needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphzero.report.recording import ProcessReading, Reading

__all__ = ["thin"]

_PEAKS: tuple[Callable[[ProcessReading], int | None], ...] = (
    lambda process: process.anonymous,
    lambda process: process.file,
    lambda process: process.shared,
    lambda process: process.rss,
    lambda process: process.pss,
)


def thin(readings: Sequence[Reading]) -> list[Reading]:
    """About half of the readings.

    Every second one is left out, of those with a look at the page cache and of the others, but for
    the first and the last one and those at which a part of the memory was at its most.
    """
    kept = {0, len(readings) - 1}
    for figure in _PEAKS:
        sums = [sum(figure(process) or 0 for process in each.processes) for each in readings]
        kept.add(sums.index(max(sums)))
    usage = [0 if each.group is None else each.group.usage or 0 for each in readings]
    kept.add(usage.index(max(usage)))
    counts = {True: 0, False: 0}
    for i, reading in enumerate(readings):
        looked = reading.page_cache is not None
        if counts[looked] % 2 == 0:
            kept.add(i)
        counts[looked] += 1
    return [readings[i] for i in sorted(kept)]
