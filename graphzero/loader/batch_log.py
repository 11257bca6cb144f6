"""The batch log: what the iterations of a process do, for whoever wants to know, at any time.

A process publishes it in a small mapped file (`io.process_files`), made by its first iteration.
Another process reads it with a `BatchLogReader`, which also keeps the last figures of a process
that has ended since.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing.util import Finalize
from typing import Any

from graphzero.io.process_files import ProcessFile, living_files, process_folder, start_ticks
from graphzero.loader import batch_log_file as layout
from graphzero.loader.batch_log_file import BatchRecord, LogContent
from graphzero.loader.batch_totals import BatchTotals

__all__ = [
    "LOG_KIND",
    "BatchLog",
    "BatchLogReader",
    "BatchRecord",
    "LogContent",
    "batch_log",
    "logs_of",
]

LOG_KIND = "batches"
_MOST_ITERATIONS = 16  # different combinations of options that are kept
_PATIENCE = 0.2  # seconds until a reader gives up; a change takes microseconds


class _Fence:
    """Loads and stores before a call are done before those after it; for one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def __call__(self) -> None:
        self._lock.release()
        self._lock.acquire()


class BatchLog:
    """What the iterations of this process have done.

    Attributes
    ----------
    unpublished : str or None
        Why no other process can read it; None if any can.
    """

    def __init__(self) -> None:
        self.unpublished: str | None = None
        self._file: ProcessFile | None = None
        self._data: mmap.mmap | bytearray = bytearray(layout.SIZE)
        header = (layout.MAGIC, layout.VERSION, os.getpid(), _ticks(os.getpid()))
        layout.HEADER.pack_into(self._data, 0, *header)
        self._publish()
        self._changes = memoryview(self._data)[layout.CHANGES : layout.CHANGES + 8].cast("q")
        self._totals: Sequence[Any] = layout.EMPTY
        self._epochs: OrderedDict[int, Sequence[Any]] = OrderedDict()  # the last one used is last
        self._rows: dict[int, int] = {layout.NO_EPOCH: 0}
        self._records = self._text_bytes = 0
        self._files: dict[str, None] = {}
        self._iterations: dict[str, dict[str, str]] = {}
        self._calls: deque[tuple[Any, ...]] = deque()
        self._turn = threading.RLock()
        self._is_changing = False
        self._fence = _Fence()
        self._write_row(layout.NO_EPOCH, layout.EMPTY)

    def _publish(self) -> None:
        try:
            for _ in living_files(LOG_KIND):  # removes those of dead processes
                pass
            self._file = ProcessFile(LOG_KIND, bytes(self._data))
            self._data = mmap.mmap(self._file.fileno(), layout.SIZE)
        except (OSError, ValueError) as error:
            self.unpublished = f"its file cannot be made: {error}"
            self.remove()

    def remove(self) -> None:
        """Removes the file, at the end of the process."""
        file, self._file = self._file, None
        if file is not None:
            file.remove()

    def add(self, epoch: int, sums: BatchTotals, record: BatchRecord | None = None) -> None:
        """Adds to the totals, those of an epoch among them; in any thread."""
        self._do(self._add, epoch, sums.values, record)

    def describe(self, files: Iterable[str], options: Mapping[str, str], io: str) -> None:
        """Adds the files that an iteration reads, and its options; in any thread."""
        self._do(self._describe, tuple(files), dict(options), io)

    def content(self) -> LogContent:
        """All that was added, as a reader in this process gets it."""
        with self._turn:
            return LogContent(bytes(self._data))

    def _do(self, *call: Any) -> None:
        self._calls.append(call)
        with self._turn:
            # A signal handler that has interrupted a change leaves the call to it.
            while self._calls and not self._is_changing:
                self._is_changing = True
                try:
                    self._change()
                finally:
                    self._is_changing = False

    def _change(self) -> None:
        before = self._changes[0] & ~1  # odd if an exception has interrupted the last change
        try:
            self._changes[0] = before + 1
            self._fence()
            while self._calls:
                function, *arguments = self._calls.popleft()
                function(*arguments)
        finally:
            state = (len(self._rows), self._records, self._text_bytes, *self._totals)
            layout.STATE.pack_into(self._data, layout.STATE_AT, *state)
            self._fence()
            self._changes[0] = before + 2

    def _add(self, epoch: int, sums: Sequence[Any], record: BatchRecord | None) -> None:
        if epoch not in self._rows:
            self._new_row(epoch)
        self._epochs[epoch] = after = _sum(self._epochs.get(epoch, layout.EMPTY), sums)
        self._epochs.move_to_end(epoch)
        self._write_row(epoch, after)
        self._totals = _sum(self._totals, sums)
        if record is not None:
            at = layout.RECORDS_AT + self._records % layout.RECORDS * layout.record_format.size
            layout.record_format.pack_into(self._data, at, *record)
            self._records += 1

    def _new_row(self, epoch: int) -> None:
        if len(self._rows) < layout.EPOCHS:
            self._rows[epoch] = len(self._rows)
            return
        oldest = next(name for name in self._epochs if name != layout.NO_EPOCH)
        merged = self._epochs.pop(layout.NO_EPOCH, layout.EMPTY)
        merged = _sum(merged, self._epochs.pop(oldest))
        self._epochs[layout.NO_EPOCH] = merged
        self._write_row(layout.NO_EPOCH, merged)
        self._rows[epoch] = self._rows.pop(oldest)

    def _write_row(self, epoch: int, sums: Sequence[Any]) -> None:
        at = layout.EPOCHS_AT + self._rows[epoch] * layout.EPOCH.size
        layout.EPOCH.pack_into(self._data, at, epoch, *sums)

    def _describe(self, files: tuple[str, ...], options: dict[str, str], io: str) -> None:
        key, latest = json.dumps(options), {**options, "io": io}
        is_known = next(reversed(self._iterations.values()), None) == latest
        if is_known and self._files.keys() >= set(files):
            return
        self._iterations.pop(key, None)
        self._iterations[key] = latest
        for old in list(self._iterations)[:-_MOST_ITERATIONS]:
            del self._iterations[old]
        self._files.update(dict.fromkeys(files))
        text = _as_text(list(self._files), list(self._iterations.values()))
        self._data[layout.TEXT_AT : layout.TEXT_AT + len(text)] = text
        self._text_bytes = len(text)


def _sum(some: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    return [one + other for one, other in zip(some, others, strict=True)]


def _as_text(files: list[str], iterations: list[dict[str, str]]) -> bytes:
    """As much of it as there is room for: the first files, the last iterations."""
    count = len(files)
    while True:
        content = {
            "files": files,
            "files_left_out": count - len(files),
            "iterations": iterations,
        }
        text = json.dumps(content).encode()
        if len(text) <= layout.TEXT_BYTES:
            return text
        iterations, files = iterations[1:], files if iterations else files[: len(files) // 2]


def _ticks(pid: int) -> int:
    ticks = start_ticks(pid)
    return -1 if ticks is None else ticks


_log: BatchLog | None = None
_making = threading.RLock()


def batch_log() -> BatchLog:
    """That of this process; the first call makes it."""
    global _log
    if _log is None:
        with _making:
            if _log is None:
                _log = log = BatchLog()
                # Not `atexit`, which does not run in processes that multiprocessing has forked.
                Finalize(None, log.remove, exitpriority=0)
    return _log


def _forget() -> None:
    """In a forked child: the log is the parent's."""
    global _log, _making
    inherited, _log, _making = _log, None, threading.RLock()
    if inherited is not None:
        inherited.remove()  # closes its descriptor, and no more than that


os.register_at_fork(after_in_child=_forget)


class BatchLogReader:
    """Reads the batch log of one process.

    The log begins with the first iteration of the process. Once it was found, its last figures stay
    readable after the process has ended.

    Parameters
    ----------
    pid : int
        Also that of this process.
    user : int, optional
        Whose process it is. Default: this user's.

    Attributes
    ----------
    pid : int
    unknown : str or None
        Why the last `read` has returned None.
    """

    def __init__(self, pid: int, user: int | None = None) -> None:
        self.pid = pid
        self.unknown: str | None = None
        self._user = user
        self._file: int | None = None
        self._last: LogContent | None = None
        self._fence = _Fence()

    def read(self) -> LogContent | None:
        """What the process has published by now; None if nothing can be read."""
        self.unknown = None
        if self.pid == os.getpid():
            if _log is None:
                self.unknown = "the process has not iterated over mini-batches"
                return None
            return _log.content()
        if self._file is None and not self._find():
            return None
        return self._consistent()

    def _find(self) -> bool:
        self.unknown = (
            f"process {self.pid} has nothing in {process_folder(LOG_KIND, self._user)}: it has not "
            f"iterated over mini-batches, has ended, or could not write there"
        )
        ticks = _ticks(self.pid)
        for file in living_files(LOG_KIND, self.pid, self._user):
            content = os.pread(file.fileno(), layout.SIZE, 0)
            if len(content) < layout.SIZE:
                self.unknown = f"the file of process {self.pid} is not complete"
                continue
            magic, version, pid, since = layout.HEADER.unpack_from(content)
            if magic != layout.MAGIC or (pid, since) != (self.pid, ticks):
                continue  # of a process of the same number, in another container
            if version != layout.VERSION:
                self.unknown = f"process {self.pid} runs another version of graphzero"
                continue
            self._file, self.unknown = os.dup(file.fileno()), None
            return True
        return False

    def _consistent(self) -> LogContent | None:
        """Reads it without a map: whoever cuts the file short would end this process by SIGBUS."""
        file = self._file
        assert file is not None
        end = time.monotonic() + _PATIENCE
        while True:
            before = os.pread(file, 8, layout.CHANGES)
            self._fence()
            content = os.pread(file, layout.SIZE, 0)
            self._fence()
            is_same = before == os.pread(file, 8, layout.CHANGES)
            is_even = int.from_bytes(before, sys.byteorder) % 2 == 0
            if is_same and is_even and len(content) == layout.SIZE:
                self._last = LogContent(content)
                return self._last
            if time.monotonic() > end:
                break
            time.sleep(0.0002)
        # It was ended in the middle of a change, or stopped; or its file was cut short.
        if self._last is None:
            self.unknown = f"process {self.pid} is changing its figures, and does not go on"
        return self._last

    def close(self) -> None:
        """Gives the file up."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def __del__(self) -> None:
        self.close()


def logs_of(pids: Iterable[int], user: int | None = None) -> dict[int, LogContent]:
    """What several processes have published, by process; without those that nothing is known of."""
    found = {}
    for pid in pids:
        reader = BatchLogReader(pid, user)
        content = reader.read()
        reader.close()
        if content is not None:
            found[pid] = content
    return found
