"""`profiled`: marks a stretch of work with the name that a profiler shows, if one is attached."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, Protocol, TypeVar

__all__ = ["Recorder", "attach", "attached", "detach", "profiled"]

_P = ParamSpec("_P")
_T = TypeVar("_T")


class Recorder(Protocol):
    """What records the ranges of all threads; `loader.profiler_ranges` has the one of torch."""

    def begin(self, name: str) -> object | None:
        """Opens a range of the calling thread; None if the recorder has ended."""

    def end(self, opened: object) -> None:
        """Closes what `begin` has opened."""


_recorder: Recorder | None = None


def attach(recorder: Recorder) -> None:
    """From now on, ranges go to this recorder."""
    global _recorder
    _recorder = recorder


def detach(recorder: Recorder) -> None:
    """Ranges that begin from now on are not recorded, unless another recorder was attached."""
    global _recorder
    if _recorder is recorder:
        _recorder = None


def attached() -> Recorder | None:
    """The recorder, if there is one."""
    return _recorder


def _forget() -> None:
    """A forked child has no part in the recording: its parent's threads may hold its locks."""
    global _recorder
    _recorder = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class profiled:
    """A range around a block (``with``) or around the calls of a function (as decorator).

    Without a recorder it costs a fraction of a microsecond.

    Parameters
    ----------
    name : str
        What the profiler shows.
    """

    __slots__ = ("_name", "_opened", "_recorder")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._recorder = _recorder
        if self._recorder is not None:
            self._opened = self._recorder.begin(self._name)

    def __exit__(self, *_: object) -> None:
        if self._recorder is not None and self._opened is not None:
            self._recorder.end(self._opened)

    def __call__(self, function: Callable[_P, _T]) -> Callable[_P, _T]:
        """The function, each of whose calls is a range."""
        name = self._name

        @wraps(function)
        def ranged(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            with profiled(name):  # one of its own: calls run side by side
                return function(*args, **kwargs)

        return ranged
