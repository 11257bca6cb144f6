"""How a value that a user gives is opened: as a table with columns, or as an array."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from graphzero.ingest.source import Source
from graphzero.ingest.sources.array_opening import is_array_file
from graphzero.ingest.sources.csv_table import CsvTable
from graphzero.ingest.sources.opening import open_table
from graphzero.ingest.sources.parquet_table import ParquetTable

__all__ = ["AnyTable", "is_table", "open_given", "refuse_frame"]

AnyTable = CsvTable | ParquetTable


def is_table(value: Any) -> bool:
    """Whether a value has columns; everything else is an array."""
    return isinstance(value, str | os.PathLike) and not is_array_file(value)


def open_given(source: Source, *, strict: bool = False) -> AnyTable:
    """The table of a source, for which `is_table` holds; `strict` is that of `sniff_csv`."""
    return open_table(
        Path(source.value), delimiter=source.delimiter, header=source.header, strict=strict
    )


def refuse_frame(value: Any, what: str) -> None:
    """Refuses an object with named columns that is read as no table: names would be lost.

    Raises
    ------
    ValueError
    """
    names = getattr(value, "columns", None)
    names = getattr(value, "column_names", None) if names is None else names
    if names is not None:
        columns = ", ".join(str(getattr(name, "name", name)) for name in names)
        raise ValueError(
            f"{what} is a {type(value).__name__} with the columns {columns}, which is not read as "
            f"a table: write it to a Parquet file, or give an array of sources and targets"
        )
