"""`profile`: torch's profiler, with the ranges of the threads that prepare mini-batches.

A range of torch (``record_function``) that is open when its profiler stops, and is closed while
another session runs, writes to memory that was freed: at least up to torch 2.13. Such ranges are
usual here: threads prepare mini-batches while the training loop calls ``profiler.step()``. So what
may be open then is recorded only where the end of the session is known, by `profile`.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch.autograd.profiler
import torch.profiler
from torch.profiler import record_function

from graphzero.sampling.profiled import Recorder, attach, attached, detach

__all__ = ["LoopRanges", "profile"]

_WAITING, _TRAINING = "graphzero: wait for batch", "graphzero: training"
_ONE_THREAD = (
    "this version of torch records the thread that starts the profiler and no other, so that the "
    "trace will not show what graphzero's threads do: that needs torch 2.6"
)


@dataclass(frozen=True, eq=False)
class _Open:
    """A range that was begun, without torch's object: freeing that closes the range."""

    name: str
    thread: int


class _Session:
    """The ranges of one session of a profiler, from all threads.

    There is no lock: the garbage collector may end an iteration in the middle of any call, and
    waits for its threads, which may be in other calls. Single operations of a dict are atomic.
    """

    unfinished: ClassVar[list[record_function]] = []  # of ended sessions

    def __init__(self) -> None:
        self._open: dict[_Open, record_function] = {}
        self._calls: dict[object, int] = {}  # that use torch's session, with their threads
        self._is_running = True

    @contextmanager
    def _use(self) -> Iterator[bool]:
        """Whether the session runs; if so, it does not end meanwhile."""
        call = object()
        self._calls[call] = threading.get_ident()
        try:
            yield self._is_running
        finally:
            del self._calls[call]

    def begin(self, name: str) -> _Open | None:
        with self._use() as is_running:
            if not is_running:
                return None
            opened = _Open(name, threading.get_ident())
            self._open[opened] = record_function(name)
            self._open[opened].__enter__()  # type: ignore[no-untyped-call]
            return opened

    def end(self, opened: object) -> None:
        assert isinstance(opened, _Open)
        with self._use() as is_running:
            if not is_running or opened not in self._open:
                return  # `stop` has ended it, or `end_training`
            if opened.thread == threading.get_ident():
                self._open.pop(opened).__exit__(None, None, None)
            # Otherwise its iteration was dropped in another thread: it ends with the session.

    def end_training(self) -> None:
        """Ends this thread's range of training, which others would otherwise overlap."""
        for opened in self._of_this_thread():
            if opened.name == _TRAINING:
                self.end(opened)

    def stop(self) -> None:
        """Closes the ranges of this thread. torch itself ends those of others with the session."""
        self._is_running = False
        here = threading.get_ident()
        while any(thread != here for thread in self._calls.copy().values()):
            time.sleep(1e-4)
        for opened in reversed(self._of_this_thread()):
            self._open.pop(opened).__exit__(None, None, None)
        self.unfinished.extend(self._open.values())
        self._open.clear()

    def _of_this_thread(self) -> list[_Open]:
        here = threading.get_ident()
        return [opened for opened in self._open.copy() if opened.thread == here]

    @classmethod
    def drop_unfinished(cls) -> None:
        """Drops ranges of ended sessions, which closes them: harmless while no session runs."""
        if not _is_profiling(unknown=True):
            cls.unfinished.clear()


def _is_profiling(*, unknown: bool = False) -> bool:
    """Whether a profiler of torch runs, in any thread."""
    return bool(getattr(torch.autograd.profiler, "_is_profiler_enabled", unknown))


class profile(torch.profiler.profile):
    """`torch.profiler.profile` that also shows graphzero's threads and what the loop does.

    Its ranges are "graphzero: sample", "fetch", "disk wait", "gather", "read ahead" and "place",
    in the threads that do this; "wait for batch" and "training" in the thread that iterates. It
    takes the same arguments, and gives the same results, as torch's own.

    Parameters
    ----------
    experimental_config : torch._C._profiler._ExperimentalConfig, optional
        Default: one with ``profile_all_threads=True``, without which torch records no other thread
        than the one that starts the profiler.
    **options
        Of `torch.profiler.profile`.

    Notes
    -----
    Of DataLoader workers nothing is recorded, because they are other processes: profile with
    ``num_workers=0``. The threads prepare mini-batches side by side all the same.
    """

    _session: _Session | None = None

    def __init__(self, *, experimental_config: Any = None, **options: Any) -> None:
        config = _all_threads() if experimental_config is None else experimental_config
        super().__init__(experimental_config=config, **options)

    def start_trace(self) -> None:
        """Begins a session, as in torch."""
        _Session.drop_unfinished()
        super().start_trace()
        self._session = _Session()
        attach(self._session)

    def stop_trace(self) -> None:
        """Ends the session, and the ranges that are open."""
        if self._session is not None:
            detach(self._session)
            self._session.stop()
            self._session = None
        super().stop_trace()

    def step(self) -> None:
        """As in torch. What the loop does from here to the next mini-batch is in no range."""
        if self._session is not None:
            self._session.end_training()
        super().step()


def _all_threads() -> Any:
    try:
        return torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    except (AttributeError, TypeError):
        warnings.warn(_ONE_THREAD, UserWarning, stacklevel=3)
        return None


class _Here(threading.local):
    """What the iterations of one thread share."""

    is_waiting = False  # an iteration may take its mini-batches from another


_here = _Here()


class LoopRanges:
    """The ranges of a loop over mini-batches: it waits for one, and trains on it until the next.

    A ``with`` block is the waiting. After it, training begins, unless an exception ends the loop.

    Parameters
    ----------
    training : bool
        False: without that range. A DataLoader of torch has a range of its own around `next`,
        which would end within it. Perfetto shows no ranges that overlap but are not nested.
    """

    __slots__ = ("_has_training", "_is_inner", "_plain", "_recorder", "_training", "_waiting")

    def __init__(self, *, training: bool) -> None:
        self._has_training = training
        self._recorder: Recorder | None = None
        self._training: object | None = None
        self._waiting: object | None = None
        self._plain: record_function | None = None
        self._is_inner = False

    def __enter__(self) -> None:
        self._is_inner = _here.is_waiting
        if self._is_inner:
            return
        self.close()
        self._recorder = attached()
        if self._recorder is not None:
            self._waiting = self._recorder.begin(_WAITING)
        elif _is_profiling():  # torch's own: the loop does not stop it while it waits
            self._plain = record_function(_WAITING)
            self._plain.__enter__()  # type: ignore[no-untyped-call]
        _here.is_waiting = True

    def __exit__(self, exception: object, *_: object) -> None:
        if self._is_inner:
            return
        _here.is_waiting = False
        if self._plain is not None:
            self._plain.__exit__(None, None, None)
            self._plain = None
        if self._recorder is not None:
            if self._waiting is not None:
                self._recorder.end(self._waiting)
                self._waiting = None
            if exception is None and self._has_training:
                self._training = self._recorder.begin(_TRAINING)

    def close(self) -> None:
        """Ends the training range, if one is open."""
        recorder, training = self._recorder, self._training
        self._recorder = self._training = None
        if recorder is not None and training is not None:
            recorder.end(training)

    def __del__(self) -> None:
        self.close()
