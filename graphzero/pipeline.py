"""Work that runs ahead of its consumer, in threads, and comes out in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

__all__ = ["run_ahead"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def run_ahead(
    function: Callable[[_Item], _Result], items: Iterable[_Item], *, threads: int, ahead: int
) -> Generator[_Result, None, None]:
    """``map(function, items)``, prepared by threads before it is asked for.

    Parameters
    ----------
    function : callable
        Called in the threads; it should leave the interpreter's lock to others.
    items : iterable
        Read in the consumer's thread.
    threads : int
        How many calls run side by side.
    ahead : int
        Results that are finished, running or waiting to run beyond the one being consumed. 0:
        each call is made when its result is asked for, in the consumer's thread.

    Yields
    ------
    The results, in the order of the items. An exception of a call is raised where its result
    would have been. When the iteration is left early, calls that have not begun are dropped, and
    those that have are waited for.
    """
    if ahead == 0:
        yield from map(function, items)
        return
    source = iter(items)
    pending: deque[Future[_Result]] = deque()
    # The interpreter waits for an executor's threads at exit, and they never outlive the iterator.
    with ThreadPoolExecutor(threads, thread_name_prefix="graphzero-batch") as executor:
        try:
            for item in islice(source, ahead):
                pending.append(executor.submit(function, item))
            while pending:
                result = pending.popleft().result()
                for item in islice(source, 1):
                    pending.append(executor.submit(function, item))
                yield result
        finally:
            for future in pending:
                future.cancel()
