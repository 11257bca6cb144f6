"""`Epochs`: the epochs of a dataset's passes, shared by a process and its DataLoader workers.

The process that made the dataset owns a page of shared memory. Its DataLoader workers use the same
page, because torch calls no method of the dataset in the process that starts them. Every other
process that gets the dataset (a rank that was forked or spawned) has a page of its own, and so has
every copy.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import reduction
from multiprocessing.context import get_spawning_popen
from typing import Any, TypeVar

from torch.utils.data import get_worker_info

from graphzero.loader.passes import (
    MOST_BYTES,
    Begun,
    Table,
    Worker,
    begin,
    choose,
    decode,
    encode,
    join,
    load,
    starting_at,
)
from graphzero.loader.resume import Position, Progress

__all__ = ["Epochs"]

_Result = TypeVar("_Result")


class _Page:
    """A table in a file without a name, which processes that have its descriptor share.

    The lock is the kernel's, on the file: a process that is killed does not keep it. It does not
    hold between threads of one process, hence the second one.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._file = _file_of(descriptor)
        self._lock = threading.Lock()
        weakref.finalize(self, _close, descriptor, self._file).atexit = False

    @classmethod
    def of(cls, table: Table) -> _Page:
        """A new page."""
        if hasattr(os, "memfd_create"):
            page = cls(os.memfd_create("graphzero-epochs"))
        else:
            with tempfile.TemporaryFile(prefix="graphzero-") as file:
                page = cls(os.dup(file.fileno()))
        os.pwrite(page.descriptor, encode(table), 0)
        return page

    def forget_threads(self) -> None:
        """After a fork: the thread that held the lock does not exist here."""
        self._lock = threading.Lock()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:
            if _file_of(self.descriptor) != self._file:
                raise RuntimeError(
                    "something in this process has closed the file that holds the epochs of a "
                    "dataset: create the dataset after closing all files"
                )
            fcntl.lockf(self.descriptor, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.lockf(self.descriptor, fcntl.LOCK_UN)

    def read(self) -> Table:
        with self._locked():
            return decode(os.pread(self.descriptor, MOST_BYTES, 0))

    def update(self, change: Callable[[Table], tuple[Table, _Result]]) -> _Result:
        with self._locked():
            table, result = change(decode(os.pread(self.descriptor, MOST_BYTES, 0)))
            os.pwrite(self.descriptor, encode(table), 0)
            return result


def _file_of(descriptor: int) -> tuple[int, int] | None:
    """Which file a descriptor means: a daemon may close them all, and others get their numbers."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _close(descriptor: int, file: tuple[int, int] | None) -> None:
    if file is not None and _file_of(descriptor) == file:
        os.close(descriptor)


_threads = itertools.count()


class _Starts(threading.local):
    """Counts the processes that a thread starts: the workers of a pass have numbers in a row."""

    def __init__(self) -> None:
        self.thread = next(_threads)
        self.count = 0
        self._spawning: Callable[[], Any] = lambda: None

    def count_spawned(self, popen: Any) -> None:
        if self._spawning() is not popen:  # it may get several datasets
            self._spawning = weakref.ref(popen)
            self.count += 1


_starts = _Starts()
_alive: weakref.WeakSet[Epochs] = weakref.WeakSet()


class Epochs:
    """The epoch of the next pass over a dataset, and of those that have begun.

    In a DataLoader worker, `choose` concerns the next pass of this worker only, and the others must
    agree.
    """

    def __init__(self) -> None:
        self._set_up(starting_at(Position(0, 0)))

    def _set_up(
        self,
        table: Table,
        shared: _Page | None = None,
        start: tuple[int, int] = (0, 0),
    ) -> None:
        """Makes a page of its own; `shared` is that of the process that started this one."""
        self._own: _Page | None = None
        self._shared = shared
        self._start = start
        self._number = table.newest.number
        self._wish: Position | None = None
        self._begun_here = 0
        self._at_fork = table
        _alive.add(self)
        self._own = _Page.of(table)  # may fail

    @property
    def _page(self) -> _Page:
        if self._shared is not None and get_worker_info() is not None:
            return self._shared
        if self._own is None:
            reason = "no file could be opened for the epochs of a dataset when this process started"
            raise OSError(errno.EMFILE, f"{reason}: raise the limit of open files (ulimit -n)")
        return self._own

    @property
    def next(self) -> Position:
        """Where the next pass begins."""
        return self._wish or self._page.read().newest.next

    @property
    def last(self) -> Position:
        """Where the last pass began, or the next one will if none has begun since `choose`."""
        return self._page.read().newest.last

    def choose(self, position: Position) -> None:
        """The next pass begins at a position."""
        page = self._page
        if page is self._shared:
            self._wish = position
            return

        def change(table: Table) -> tuple[Table, int]:
            table = choose(table, position)
            return table, table.newest.number

        self._number = page.update(change)

    def begin(self) -> Begun:
        """Begins a pass in this process, which may be one of several workers."""
        page, info = self._page, get_worker_info()
        if page is not self._shared or info is None:
            return page.update(begin)
        worker = Worker(*self._start, self._begun_here, info.id, info.num_workers)
        number = None if self._begun_here else self._number
        begun = page.update(lambda table: join(table, worker, number, self._wish))
        self._begun_here += 1
        self._wish = None
        return begun

    def load(self, begun: Begun, progress: Progress, has_more: bool) -> None:
        """A pass of this process goes on with the state of another one; see `passes.load`."""
        state = Position(progress.epoch, progress.first)

        def change(table: Table) -> tuple[Table, None]:
            return load(table, begun, state, has_more=has_more), None

        self._page.update(change)

    def before_fork(self) -> None:
        """Remembers what a process that is forked now begins with."""
        self._at_fork = self._page.read()

    def after_fork(self, start: tuple[int, int]) -> None:
        """Parts from the process that forked this one, or shares its page, if this is a worker."""
        shared = self._page  # torch does not know yet that this may be a worker
        shared.forget_threads()
        self._set_up(_copy(self._at_fork), shared, start)

    def __copy__(self) -> Epochs:
        copied = Epochs.__new__(Epochs)
        copied._set_up(_copy(self._page.read()))
        return copied

    def __deepcopy__(self, memo: object) -> Epochs:
        return self.__copy__()

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {"table": encode(_copy(self._page.read()))}
        popen = get_spawning_popen()
        if popen is not None:
            _starts.count_spawned(popen)
            state["start"] = (_starts.thread, _starts.count)
            state["shared"] = reduction.DupFd(self._page.descriptor)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        shared = state.get("shared")
        if shared is not None:
            descriptor = shared.detach()
            os.set_inheritable(descriptor, False)
            shared = _Page(descriptor)
        self._set_up(decode(state["table"]), shared, state.get("start", (0, 0)))


def _copy(table: Table) -> Table:
    """What a copy keeps: where the next pass begins and where the last one began."""
    return Table((table.newest,))


def _before_fork() -> None:
    _starts.count += 1
    for epochs in list(_alive):
        epochs.before_fork()


def _after_fork_in_child() -> None:
    for epochs in list(_alive):
        epochs.after_fork((_starts.thread, _starts.count))


os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
