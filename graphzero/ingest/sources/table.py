"""`Table`: records of any source, as a stream of checked columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.columns import Column

__all__ = ["Chunk", "Table", "checked"]

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

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, checked and converted to the columns' dtypes."""
        ...

    def locate(self, record: int) -> str:
        """Where a record (from 0) is, in words."""
        ...


def checked(
    values: npt.NDArray[Any], column: Column, table: Table, record: int
) -> npt.NDArray[Any]:
    """Values in a column's dtype; `record` is the number of the first one."""
    if column.is_raw:
        return values
    if column.dtype.kind == "f":
        if values.dtype.kind not in "iuf":
            raise ValueError(f"{table.name}: the {column.label} has dtype {values.dtype}")
        with np.errstate(over="ignore"):
            return values.astype(column.dtype, copy=False)
    if values.dtype.kind not in "iu":
        raise ValueError(
            f"{table.name}: the {column.label} has dtype {values.dtype}; it must be an integer one"
        )
    bounds = np.iinfo(column.dtype)
    if len(values) and (values.min() < bounds.min or values.max() > bounds.max):
        bad = np.flatnonzero((values < bounds.min) | (values > bounds.max))[0]
        place = table.locate(record + int(bad))
        raise ValueError(f"{table.name}, {place}: {values[bad]} is not {column.expected()}")
    return values.astype(column.dtype, copy=False)
