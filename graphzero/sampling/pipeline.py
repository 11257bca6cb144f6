"""A pipeline of background threads: stages work on items in advance, results stay in order."""

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


def run_ahead(
    stages: Sequence[Stage], items: Iterable[Any], *, lookahead: int
) -> Generator[Any, None, None]:
    """Passes items through stages, in background threads, before their results are requested.

    Parameters
    ----------
    stages : sequence of Stage
    items : iterable
        Read in the consumer's thread.
    lookahead : int
        How many items are finished, in work or waiting beyond the one that is
        being consumed. 0: each item is worked on when its result is requested, in the consumer's
        thread.

    Yields
    ------
    The results, in the order of the items. An exception of a stage is raised in place of its
    result. If the iteration ends early, calls that have not begun are cancelled, and it waits for
    those that have.
    """
    if lookahead == 0:
        for item in items:
            yield _through(stages, item)
        return
    source = iter(items)
    pending: deque[list[Future[Any]]] = deque()
    with ExitStack() as stack:
        # At exit the interpreter waits for an executor's threads; these end with the iterator.
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
                yield results.pop()  # keeps no reference: its memory is needed for the next result
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
