"""`build`: the one-time build, then the opened dataset."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

from graphzero.dataset import Dataset, open_dataset
from graphzero.ingest.build import build_dataset

__all__ = ["build"]

_P = ParamSpec("_P")


def _opened(builder: Callable[_P, Any]) -> Callable[_P, Dataset]:
    """The same function, with its signature and documentation, returning the opened dataset."""

    @wraps(builder)
    def build(*args: _P.args, **options: _P.kwargs) -> Dataset:
        builder(*args, **options)
        path: Any = args[0] if args else options["path"]
        return open_dataset(path)

    build.__name__ = build.__qualname__ = "build"
    return build


build = _opened(build_dataset)
