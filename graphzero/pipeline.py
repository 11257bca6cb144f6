"""Work that runs ahead of its consumer, in threads, stage by stage, and comes out in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from typing import Any

__all__ = ["Stage", "run_ahead"]


@dataclass(frozen=True)
class Stage:
    """One step of the work on an item.

    Attributes
    ----------
    function : callable
        From the result of the stage before, or the item, to the result of this one. Called in a
        thread; it should leave the interpreter's lock to others.
    threads : int
        How many calls run side by side. With one, calls are made in the order of the items.
    """

    function: Callable[[Any], Any]
    threads: int = 1


def run_ahead(
    stages: Sequence[Stage], items: Iterable[Any], *, ahead: int
) -> Generator[Any, None, None]:
    """Passes items through stages, in threads, before their results are asked for.

    Parameters
    ----------
    stages : sequence of Stage
    items : iterable
        Read in the consumer's thread.
    ahead : int
        Items that are finished, under way or waiting beyond the one being consumed. 0: all work
        is done when its result is asked for, in the consumer's thread.

    Yields
    ------
    The results, in the order of the items. An exception of a stage is raised where the result
    would have been. When the iteration is left early, calls that have not begun are dropped, and
    those that have are waited for.
    """
    if ahead == 0:
        for item in items:
            for stage in stages:
                item = stage.function(item)
            yield item
        return
    source = iter(items)
    pending: deque[list[Future[Any]]] = deque()
    with ExitStack() as stack:
        # The interpreter waits for executors' threads at exit, and they never outlive the iterator.
        executors = [
            stack.enter_context(ThreadPoolExecutor(stage.threads, "graphzero-batch"))
            for stage in stages
        ]

        def begin(item: Any) -> None:
            futures = [executors[0].submit(stages[0].function, item)]
            for stage, executor in zip(stages[1:], executors[1:], strict=True):
                futures.append(executor.submit(_follow, stage.function, futures[-1]))
            pending.append(futures)

        try:
            for item in islice(source, ahead):
                begin(item)
            while pending:
                result = pending.popleft()[-1].result()
                for item in islice(source, 1):
                    begin(item)
                yield result
                del result  # a mini-batch's memory is wanted for the next one
        finally:
            for futures in pending:
                for future in futures:
                    future.cancel()


def _follow(function: Callable[[Any], Any], before: Future[Any]) -> Any:
    return function(before.result())
