"""`TreeLogs`: what the batch logs of a tree of processes have counted since a moment."""

from __future__ import annotations

import os
from collections.abc import Iterable

from graphzero.io.process_files import process_folder
from graphzero.loader.batch_log import LOG_KIND, BatchLogReader, LogContent
from graphzero.report.recording import BatchTotals

__all__ = ["TreeLogs"]


class _Log:
    """The log of one process, and where it stood at first."""

    def __init__(self, reader: BatchLogReader, content: LogContent, *, from_now: bool) -> None:
        self.reader = reader
        self.content = content
        self.first = content if from_now else None

    @property
    def totals(self) -> BatchTotals:
        before = BatchTotals() if self.first is None else self.first.totals
        return self.content.totals - before

    @property
    def epochs(self) -> dict[int, BatchTotals]:
        before = {} if self.first is None else self.first.epochs
        return {
            epoch: sums - before.get(epoch, BatchTotals())
            for epoch, sums in self.content.epochs.items()
        }

    @property
    def files(self) -> tuple[str, ...]:
        """That were first read since. Those read before are mapped, if they still are read."""
        before = () if self.first is None else self.first.files
        return tuple(path for path in self.content.files if path not in before)

    @property
    def iterations(self) -> tuple[dict[str, str], ...]:
        """Options of the iterations since, or else of the one that was under way."""
        now = self.content.iterations
        if self.first is None:
            return now
        before = list(self.first.iterations)
        unused = 0
        for options in now:  # one that begins goes to the end: the others stay in their order
            if options not in before:
                break
            del before[: before.index(options) + 1]
            unused += 1
        if unused == len(now) and self.totals != BatchTotals():
            unused -= 1
        return now[unused:]


class _Sums:
    """What the logs of ended processes have counted, without the logs: 200 kB each."""

    def __init__(self) -> None:
        self.totals = BatchTotals()
        self.epochs: dict[int, BatchTotals] = {}
        self.files: dict[str, None] = {}
        self.iterations: list[dict[str, str]] = []

    def add(self, log: _Log) -> None:
        self.totals += log.totals
        for epoch, totals in log.epochs.items():
            if totals != BatchTotals():
                self.epochs[epoch] = self.epochs.get(epoch, BatchTotals()) + totals
        self.files.update(dict.fromkeys(log.files))
        self.iterations += [each for each in log.iterations if each not in self.iterations]


class TreeLogs:
    """The batch logs of a tree of processes.

    A log that was found once is read to its end, also after its process has ended.

    Parameters
    ----------
    user : int, optional
        Whose processes these are. Default: this user's.

    Attributes
    ----------
    unknown : str or None
        Why the log of the process that was named first was not found.
    """

    def __init__(self, user: int | None = None) -> None:
        self.unknown: str | None = None
        self._user = user
        self._logs: dict[int, _Log] = {}
        self._ended = _Sums()  # of processes: each epoch may have other workers
        self._ended_pids: set[int] = set()  # of those that have prepared mini-batches
        self._readers: dict[int, BatchLogReader] = {}  # of processes that have no log so far
        self._has_begun = False
        self._folder = process_folder(LOG_KIND, user)
        self._names: frozenset[str] = frozenset()

    def has_news(self) -> bool:
        """Whether logs have come or gone, of any process, since this was asked last.

        It takes some microseconds. A process may live for a shorter time than a reading takes.
        """
        try:
            names = frozenset(os.listdir(self._folder))
        except OSError:  # nobody has made it
            names = frozenset()
        before, self._names = self._names, names
        return names != before

    def look(self, pids: Iterable[int]) -> None:
        """Finds the logs of new processes, and reads those of ended ones for the last time.

        What stands in the logs at the first call does not count.
        """
        living = list(pids)
        for pid in living:
            if pid not in self._logs:
                self._open(pid)
        if living:
            root = self._readers.get(living[0])
            self.unknown = None if root is None else root.unknown
        for pid in [pid for pid in self._logs if pid not in living]:
            log = self._logs.pop(pid)
            log.content = log.reader.read() or log.content
            log.reader.close()
            self._ended.add(log)
            if log.totals.batches:
                self._ended_pids.add(pid)
        for pid in [pid for pid in self._readers if pid not in living]:
            del self._readers[pid]
        self._has_begun = True

    def _open(self, pid: int) -> None:
        reader = self._readers.pop(pid, None) or BatchLogReader(pid, self._user)
        content = reader.read()
        if content is None:
            self._readers[pid] = reader
        else:
            self._logs[pid] = _Log(reader, content, from_now=not self._has_begun)

    def read(self) -> BatchTotals:
        """Reads all logs; the sum of what they have counted since the first look."""
        for log in self._logs.values():
            log.content = log.reader.read() or log.content
        return sum((log.totals for log in self._all), BatchTotals())

    @property
    def pids(self) -> set[int]:
        """The processes that have prepared mini-batches since the first look."""
        return self._ended_pids | {pid for pid, log in self._logs.items() if log.totals.batches}

    @property
    def _all(self) -> list[_Log | _Sums]:
        return [self._ended, *self._logs.values()]

    @property
    def epochs(self) -> dict[int, BatchTotals]:
        """The same by epoch, without those in which nothing has happened since."""
        sums: dict[int, BatchTotals] = {}
        for log in self._all:
            for epoch, totals in log.epochs.items():
                if totals != BatchTotals():
                    sums[epoch] = sums.get(epoch, BatchTotals()) + totals
        return dict(sorted(sums.items()))

    @property
    def files(self) -> tuple[str, ...]:
        """That the iterations of all processes have begun to read."""
        return tuple(dict.fromkeys(path for log in self._all for path in log.files))

    @property
    def iterations(self) -> tuple[dict[str, str], ...]:
        """The options of the iterations of all processes, each combination once."""
        found: list[dict[str, str]] = []
        for log in self._all:
            found += [each for each in log.iterations if each not in found]
        return tuple(found)

    def close(self) -> None:
        """Gives all logs up."""
        for log in self._logs.values():
            log.reader.close()
