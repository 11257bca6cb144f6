"""How a value that a user gives is opened: as a table with columns, or as an array."""

from __future__ import annotations

from typing import Any, Literal

from graphzero.ingest.source import Source
from graphzero.ingest.sources.bad_rows import BadRows
from graphzero.ingest.sources.csv_format import TEXT_IDS, WHITESPACE
from graphzero.ingest.sources.csv_table import CsvTable
from graphzero.ingest.sources.opening import is_table, open_table
from graphzero.ingest.sources.table import Table

__all__ = ["commented_names", "is_table", "open_given", "refuse_frame"]


def open_given(
    source: Source,
    *,
    strict: bool = False,
    of: Literal["node", "edge"] = "node",
    text_ids: bool = False,
    bad_rows: BadRows | None = None,
) -> Table:
    """The table of a source, for which `is_table` holds; the others as `open_table` has them.

    With `text_ids`, ids may be texts, so that a record can look like a header.
    """
    header = source.header
    if text_ids and header == "auto":
        header = True if source.has_names else TEXT_IDS
    return open_table(
        source.value,
        delimiter=source.delimiter,
        header=header,
        strict=strict,
        of=of,
        bad_rows=bad_rows,
    )


def commented_names(table: Table) -> list[str] | None:
    """The names that the comment above a text table without a header may have; None without one."""
    if not isinstance(table, CsvTable) or table.names is not None:
        return None
    source = table.source
    names = source.comment.split(
        None if source.delimiter in (" ", WHITESPACE) else source.delimiter
    )
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
