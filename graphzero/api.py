"""`build` and `reorder`: the work of `graphzero.ingest`, then the opened dataset."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

from graphzero.graph.dataset import Dataset, open_dataset
from graphzero.ingest.build import build_dataset
from graphzero.ingest.reorder import reorder_dataset
from graphzero.sampling.presample import Presample

__all__ = ["build", "reorder"]

_P = ParamSpec("_P")


def _opened(writer: Callable[_P, Any], name: str, order_at: int | None) -> Callable[_P, Dataset]:
    """The same function, with its signature and documentation, returning the opened dataset.

    It is also what knows how to sample: `graphzero.ingest` stands beside the graph, not above it.
    `order_at` is the position of the order among the arguments, if it can be given by position.
    """

    @wraps(writer)
    def write(*args: _P.args, **options: _P.kwargs) -> Dataset:
        given: dict[str, Any] = dict(options)
        positional = order_at is not None and len(args) > order_at
        order = args[order_at or 0] if positional else given.get("order")
        if order == "presample" and given.get("presample") is None:
            given["presample"] = Presample()
        run: Callable[..., Any] = writer
        run(*args, **given)
        path: Any = args[0] if args else options["path"]
        return open_dataset(path)

    write.__name__ = write.__qualname__ = name
    return write


build = _opened(build_dataset, "build", None)
reorder = _opened(reorder_dataset, "reorder", 1)
