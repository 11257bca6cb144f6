"""Files with node ids, and comparisons of datasets, for tests of `ids="map"`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet


def fresh(path: Path) -> Path:
    """A path where nothing is."""
    shutil.rmtree(path, ignore_errors=True)
    return path


def table_of(path: Path, ids: list[Any], values: list[int]) -> Path:
    """A Parquet file of node ids and values."""
    column: Any = ids
    if not isinstance(ids[0], str):
        column = np.array(ids, np.uint64 if max(ids) >= 1 << 63 else np.int64)
    pa.parquet.write_table(pa.table({"id": column, "v": values}), path)
    return path


def write_csv(path: Path, *lines: str) -> Path:
    """A text file of lines."""
    path.write_text("\n".join(lines) + "\n")
    return path
