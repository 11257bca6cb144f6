"""Builds in a memory limit that `graphzero.build` refuses, so that little data goes to the disk."""

from __future__ import annotations

from typing import Any

import graphzero as gz
from graphzero.ingest import build_dataset, reorder_dataset


def build(
    path: Any, edges: Any, *more: Any, memory_limit: int | str = "1MiB", **options: Any
) -> Any:
    """As `graphzero.build`."""
    build_dataset(path, edges, *more, memory_limit=memory_limit, **options)
    return gz.open(path)


def reorder(path: Any, order: str, *, memory_limit: int | str = "1MiB", **options: Any) -> Any:
    """As `graphzero.reorder`."""
    reorder_dataset(path, order, memory_limit=memory_limit, **options)
    return gz.open(path)
