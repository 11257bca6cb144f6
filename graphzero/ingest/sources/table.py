"""`Table`: records of any source, as a stream of checked columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.columns import Column

__all__ = ["Chunk", "Table", "checked", "most_records"]

Chunk = tuple[npt.NDArray[Any], ...]


class Table(Protocol):
    """Records with named or numbered columns.

    Attributes
    ----------
    name : str
        For messages.
    names : sequence of str or None
        Of the columns.
    width : int
        Columns.
    num_records : int or None
        None if it is unknown before the table is read.
    """

    name: str
    names: Sequence[str] | None
    width: int
    num_records: int | None

    @property
    def dtypes(self) -> Sequence[np.dtype[Any] | None] | None:
        """Of the columns; None for text, which is parsed as it is asked for.

        A column without numbers has None. Lists of one length have a dtype with their shape, and
        `chunks` has them as (n, length).
        """
        ...

    @property
    def first_record(self) -> Sequence[str] | None:
        """The cells of the first record, of text only."""
        ...

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, checked and converted to the columns' dtypes."""
        ...

    def locate(self, record: int) -> str:
        """Where a record (from 0) is, in words."""
        ...


def most_records(table: Table) -> int | None:
    """Records that a table has at most; None if its files do not say."""
    if table.num_records is not None:
        return table.num_records
    found: int | None = getattr(table, "most_records", None)
    return found


def checked(
    values: npt.NDArray[Any], column: Column, table: Table, record: int
) -> npt.NDArray[Any]:
    """Values in a column's dtype; `record` is the number of the first one."""
    if column.is_raw:
        return values
    if column.dtype.kind == "f":
        if values.dtype.kind not in "iuf":
            raise ValueError(
                f"{table.name}: the {column.label} has dtype {values.dtype}{column.hint}"
            )
        with np.errstate(over="ignore"):
            return values.astype(column.dtype, copy=False)
    if values.dtype.kind not in "iu":
        raise ValueError(
            f"{table.name}: the {column.label} has dtype {values.dtype}; it must be an integer "
            f"one{column.hint}"
        )
    bounds = np.iinfo(column.dtype)
    if len(values) and (values.min() < bounds.min or values.max() > bounds.max):
        bad = np.flatnonzero((values < bounds.min) | (values > bounds.max))[0]
        place = table.locate(record + int(bad))
        raise ValueError(f"{table.name}, {place}: {values[bad]} is not {column.expected()}")
    return values.astype(column.dtype, copy=False)
