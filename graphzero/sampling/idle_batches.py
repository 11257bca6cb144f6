"""`IdleBatches`: working memory for mini-batches, one for every running call of a sampler."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from graphzero import _core

__all__ = ["IdleBatches"]


class IdleBatches:
    """The core's batches that no call uses now.

    Threads may share a sampler, but not the working memory of a call.
    """

    def __init__(self) -> None:
        self._idle: deque[_core.Batch] = deque()

    @contextmanager
    def one(self) -> Iterator[_core.Batch]:
        """A batch for one call: an idle one, or a new one."""
        try:
            batch = self._idle.pop()
        except IndexError:
            batch = _core.Batch()
        try:
            yield batch
        finally:
            self._idle.append(batch)

    def __reduce__(self) -> tuple[type[IdleBatches], tuple[()]]:
        return IdleBatches, ()
