"""`build`: the one-time build, then the opened dataset."""

from __future__ import annotations

import os
from typing import Any

from graphzero.dataset import Dataset, open_dataset
from graphzero.ingest.build import build_dataset

__all__ = ["build"]


def build(
    path: str | os.PathLike[str],
    edges: Any,
    features: Any = None,
    labels: Any = None,
    splits: dict[str, Any] | None = None,
    **options: Any,
) -> Dataset:
    """Builds a dataset folder and opens it.

    Parameters are those of `graphzero.ingest.build.build_dataset`.

    Returns
    -------
    Dataset
    """
    build_dataset(path, edges, features, labels, splits, **options)
    return open_dataset(path)
