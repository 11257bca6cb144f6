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
    most : int, optional
        Results, large ones, that may exist or be under way beyond the one being consumed: calls for
        items further ahead wait.
    """

    function: Callable[[Any], Any]
    threads: int = 1
    most: int | None = None


def run_ahead(
    stages: Sequence[Stage], items: Iterable[Any], *, lookahead: int
) -> Generator[Any, None, None]:
    """Passes items through stages, in threads, before their results are asked for.

    Parameters
    ----------
    stages : sequence of Stage
    items : iterable
        Read in the consumer's thread.
    lookahead : int
        Items that are finished, under way or waiting beyond the one being consumed. 0: all work
        is done when its result is asked for, in the consumer's thread.

    Yields
    ------
    The results, in the order of the items. An exception of a stage is raised where the result
    would have been. When the iteration is left early, calls that have not begun are dropped, and
    those that have are waited for.
    """
    if lookahead == 0:
        for item in items:
            yield _through(stages, item)
        return
    source = iter(items)
    pending: deque[list[Future[Any]]] = deque()
    with ExitStack() as stack:
        # The interpreter waits for executors' threads at exit, and they never outlive the iterator.
        executors = [
            stack.enter_context(ThreadPoolExecutor(stage.threads, "graphzero-batch"))
            for stage in stages
        ]

        def begin(items: Iterable[Any]) -> None:
            for item in items:
                given: Future[Any] = Future()
                given.set_result(item)
                pending.append([given])
            for i, futures in enumerate(pending):
                for number in range(len(futures) - 1, len(stages)):
                    stage, before = stages[number], futures[-1]
                    if stage.most is not None and i >= stage.most:
                        break
                    futures.append(executors[number].submit(_follow, stage.function, before))

        try:
            begin(islice(source, lookahead))
            while pending:
                results = [pending.popleft()[-1].result()]
                begin(islice(source, 1))
                yield results.pop()  # its memory is wanted for the next one
        finally:
            for futures in pending:
                for future in futures:
                    future.cancel()


def _through(stages: Sequence[Stage], item: Any) -> Any:
    for stage in stages:
        item = stage.function(item)
    return item


def _follow(function: Callable[[Any], Any], before: Future[Any]) -> Any:
    return function(before.result())
