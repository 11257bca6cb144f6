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
from graphzero.ingest.sources.table import Table

__all__ = ["AnyTable", "commented_names", "is_table", "open_given", "refuse_frame"]

AnyTable = CsvTable | ParquetTable


def is_table(value: Any) -> bool:
    """Whether a value has columns; everything else is an array."""
    return isinstance(value, str | os.PathLike) and not is_array_file(value)


def open_given(source: Source, *, strict: bool = False) -> AnyTable:
    """The table of a source, for which `is_table` holds; `strict` is that of `sniff_csv`."""
    return open_table(
        Path(source.value), delimiter=source.delimiter, header=source.header, strict=strict
    )


def commented_names(table: Table) -> list[str] | None:
    """The names that the comment above a text table without a header may have; None without one."""
    if not isinstance(table, CsvTable) or table.names is not None:
        return None
    source = table.source
    names = source.comment.split(None if source.delimiter == " " else source.delimiter)
    return names if len(names) == source.width else None


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
            f"a table: write it to a Parquet file, or give the values as an array"
        )
