"""Sums of counters over processes that come and go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from graphzero.report.recording import ProcessReading

__all__ = ["Counters"]

_NAMES = ("major_faults", "read_bytes", "cpu_seconds")
_MEMORY = ("rss", "anonymous", "file", "shared", "pss", "pss_anonymous", "pss_file", "pss_shared")


class Counters:
    """Sums of counters over processes, which do not go down when one of them ends.

    What a process has counted between its last reading and its end is known once its parent has
    waited for it.
    """

    def __init__(self) -> None:
        self._last: dict[int, dict[str, float | None]] = {}
        self._running: set[int] = set()
        # of processes whose numbers have been given to others
        self._replaced: dict[str, float | None] = dict.fromkeys(_NAMES, 0)
        self._unseen: Mapping[str, float] = {}

    def update(
        self, readings: Iterable[ProcessReading], unseen: Mapping[str, float] | None = None
    ) -> None:
        """Takes a reading of all processes: those that are not in it have ended.

        Parameters
        ----------
        readings : iterable of ProcessReading
        unseen : mapping of str to int or float, optional
            What those that have ended have counted, by name, beyond what was ever seen of them.
        """
        self._unseen = unseen or {}
        self._running.clear()
        for reading in readings:
            new: dict[str, float | None] = {name: getattr(reading, name) for name in _NAMES}
            old = self._last.get(reading.pid, new)
            if any(_less(new[name], old[name]) for name in _NAMES):
                self._replaced = {name: _sum(self._replaced[name], old[name]) for name in _NAMES}
                old = new
            # a figure that is refused for once keeps its last value
            self._last[reading.pid] = {
                name: old[name] if new[name] is None else new[name] for name in _NAMES
            }
            self._running.add(reading.pid)

    @property
    def major_faults(self) -> int | None:
        """Of all processes; None if it is unknown of one."""
        total = self._total("major_faults", self._last)
        return None if total is None else int(total)

    @property
    def read_bytes(self) -> int | None:
        """Of all processes; None if it is unknown of one."""
        total = self._total("read_bytes", self._last)
        return None if total is None else int(total)

    @property
    def cpu_seconds(self) -> float | None:
        """Of all processes; None if it is unknown of one."""
        return self._total("cpu_seconds", self._last)

    @property
    def ended(self) -> ProcessReading:
        """The processes that have ended, as one that has no memory; its number is 0.

        Beside the readings of those that run, it completes the sums.
        """
        gone = [pid for pid in self._last if pid not in self._running]
        faults, read = (self._total(name, gone) for name in _NAMES[:2])
        return ProcessReading(
            pid=0,
            name="ended",
            **dict.fromkeys((*_MEMORY, "uss"), 0),
            major_faults=None if faults is None else int(faults),
            read_bytes=None if read is None else int(read),
            cpu_seconds=self._total("cpu_seconds", gone),
        )

    def _total(self, name: str, pids: Iterable[int]) -> float | None:
        total = _sum(self._replaced[name], self._unseen.get(name, 0))
        for pid in pids:
            total = _sum(total, self._last[pid][name])
        return total


def _less(new: float | None, old: float | None) -> bool:
    return new is not None and old is not None and new < old


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other
