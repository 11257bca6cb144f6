"""A pipeline of background threads: stages work on items in advance, results stay in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from itertools import islice
from typing import Any

from graphzero.sampling.threads import WorkerThreads

__all__ = ["Pipeline", "Stage"]


@dataclass(frozen=True)
class Stage:
    """One step of the work on an item.

    Attributes
    ----------
    function : callable
        Takes the result of the stage before (the first stage: the item), and returns its own.
        Called in a background thread; it should release the GIL during long work.
    threads : int
        Calls that may run at the same time. With one, calls are made in the order of the items.
    most : int, optional
        Bounds the memory of large results: at most this many of the stage exist or are being
        made, beyond the one that is being consumed. Calls for later items wait.
    """

    function: Callable[[Any], Any]
    threads: int = 1
    most: int | None = None


class Pipeline(Iterator[Any]):
    """Passes items through stages, in background threads, before their results are requested.

    It yields the results, in the order of the items. An exception of a stage is raised in place of
    its result, and ends the iteration.

    Parameters
    ----------
    stages : sequence of Stage
    items : iterable
        Read in the consumer's thread.
    lookahead : int
        How many items are finished, in work or waiting beyond the one that is
        being consumed. 0: each item is worked on when its result is requested, in the consumer's
        thread.
    """

    def __init__(self, stages: Sequence[Stage], items: Iterable[Any], *, lookahead: int) -> None:
        self._stages = stages
        self._items = iter(items)
        self._lookahead = lookahead
        self._pending: deque[list[Future[Any]]] = deque()
        self._threads = [WorkerThreads(stage.threads, "graphzero-batch") for stage in stages]
        self._has_begun = self._is_closed = False

    def __next__(self) -> Any:
        """The result of the next item."""
        if self._is_closed:
            raise StopIteration
        try:
            return self._next()
        except BaseException:
            self.close()
            raise

    @property
    def num_finished(self) -> int:
        """Items behind the one that is being consumed that are through all stages."""
        whole = len(self._stages) + 1
        return sum(len(futures) == whole and futures[-1].done() for futures in self._pending)

    def _next(self) -> Any:
        if self._lookahead == 0:
            return self._through(next(self._items))
        if not self._has_begun:
            self._has_begun = True
            self._begin(self._lookahead)
        if not self._pending:
            raise StopIteration
        result = self._result_of(self._pending.popleft())
        self._begin(1)
        return result

    def _through(self, item: Any) -> Any:
        for stage in self._stages:
            try:
                item = stage.function(item)
            except StopIteration as error:
                raise _stray(error) from error
        return item

    def _begin(self, count: int) -> None:
        """Submits `count` further items, and whatever calls may begin now."""
        for item in islice(self._items, count):
            given: Future[Any] = Future()
            given.set_result(item)
            self._pending.append([given])
        for i, futures in enumerate(self._pending):
            for number in range(len(futures) - 1, len(self._stages)):
                stage, before = self._stages[number], futures[-1]
                if stage.most is not None and i >= stage.most:
                    break
                futures.append(self._threads[number].submit(_follow, stage.function, before))

    def _result_of(self, futures: list[Future[Any]]) -> Any:
        # what was begun by the process that forked this one will never be done here
        if all(threads.is_open for threads in self._threads):
            try:
                return futures[-1].result()
            except CancelledError:
                pass
            except StopIteration as error:
                raise _stray(error) from error
        raise RuntimeError(
            "the threads that prepare results have ended: the iteration was closed by another "
            "thread, the program is about to end, or this process was forked during the iteration"
        )

    def close(self) -> None:
        """Ends the iteration: drops calls that have not begun, and waits for those that have."""
        self._is_closed = True
        for threads in self._threads:
            threads.stop()  # all of them first: a call may wait for one of the stage before
        for threads in self._threads:
            threads.close()
        self._pending.clear()


def _stray(error: StopIteration) -> RuntimeError:
    """As in a generator: it would end the iteration as if there were no more items."""
    return RuntimeError(f"a stage raised StopIteration({error.value!r})")


def _follow(function: Callable[[Any], Any], before: Future[Any]) -> Any:
    return function(before.result())
