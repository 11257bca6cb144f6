"""`Table`: records of any source, as a stream of checked columns."""

from __future__ import annotations

import mmap
import operator
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

# The builder stores ids in 32 bits; the format itself allows more.
MAX_NODES = 1 << 32


@dataclass(frozen=True)
class Column:
    """One column of a table, to be read as a dtype.

    Attributes
    ----------
    index : int
    label : str
        What it holds, for messages: "source id".
    dtype : numpy.dtype
        Of lists of numbers, with their shape.
    is_id : bool
        Whether it holds node ids.
    hint : str
        What to do if its cells are not valid, for messages; "" if there is nothing to say.
    """

    index: int
    label: str
    dtype: np.dtype[Any]
    is_id: bool = False
    hint: str = ""

    @property
    def is_raw(self) -> bool:
        """Whether values are wanted as they are: integers of any type, or texts.

        Chunks then have a NumPy array of integers, of str or of objects, or a pyarrow array.
        """
        return self.dtype == object

    def raw(self) -> Column:
        """The same column of ids, as they are."""
        return replace(self, dtype=np.dtype(object))

    def expected(self) -> str:
        """A valid cell, in words."""
        return self._valid() + self.hint

    def _valid(self) -> str:
        if self.is_raw:
            return f"a {self.label}"
        if self.dtype.base.kind == "f":
            return f"a number for the {self.label}"
        bounds = np.iinfo(self.dtype.base)
        if self.is_id:
            return (
                f"a {self.label} (an integer from 0 to {bounds.max}); ids='map' takes any integers "
                f"and texts"
            )
        return f"a {self.label} (an integer from {bounds.min} to {bounds.max})"


def checked_count(num_nodes: Any) -> int:
    """A number of nodes that the user gives.

    Raises
    ------
    ValueError
        If it is not an integer from 1 to 2^32.
    """
    try:
        count = operator.index(num_nodes)
    except TypeError:
        count = 0
    if isinstance(num_nodes, bool) or not 1 <= count <= MAX_NODES:
        raise ValueError(f"num_nodes={num_nodes!r} is not an integer from 1 to 2^32")
    return count


def id_column(index: int, label: str) -> Column:
    """A column of node ids."""
    return Column(index, label, np.dtype("<u4"), is_id=True)


def column_index(
    spec: str | int, names: Sequence[str] | None, width: int, role: str, table: str
) -> int:
    """Position of a column given by name or position.

    Raises
    ------
    ValueError
        If the table has no such column, or several of that name.
    """
    if isinstance(spec, bool) or not isinstance(spec, str | int | np.integer):
        raise ValueError(f"{role}={spec!r}: give the name of the column, or its position from 0")
    if isinstance(spec, str):
        if names is None:
            raise ValueError(f"{table} has no header: give {role} as a position, not as {spec!r}")
        if list(names).count(spec) != 1:
            count = "no" if spec not in names else "more than one"
            raise ValueError(
                f"{table} has {count} column {spec!r} for {role}; it has {', '.join(names)}"
            )
        return list(names).index(spec)
    if not 0 <= spec < width:
        raise ValueError(f"{table} has {width} columns, so {role}={spec} does not exist")
    return int(spec)


# --- tables

USERS_ERROR = "_graphzero_users_error"  # an attribute of errors that the user's own code raised

Chunk = tuple[npt.NDArray[Any], ...]


class Table(Protocol):
    """Records with named or numbered columns, which can be read as often as needed.

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
    dtypes : sequence of numpy.dtype or None, or None
        Of the columns; None for text, which is parsed as it is asked for. A column without numbers
        has None. Lists of one length have a dtype with their shape; chunks have them as
        (n, length).
    first_record : sequence of str or None
        The cells of the first record, of text only.
    """

    name: str
    names: Sequence[str] | None = None
    width: int
    num_records: int | None = None
    first_record: Sequence[str] | None = None

    @property
    def dtypes(self) -> Sequence[np.dtype[Any] | None] | None:  # noqa: D102
        return None

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, checked and converted to the columns' dtypes."""
        ...

    def locate(self, record: int) -> str:
        """Where a record (from 0) is, in words."""
        return f"record {record}"


def is_users_error(error: BaseException) -> bool:
    """Whether the user's own iterator raised an error, which is then passed on unchanged."""
    return getattr(error, USERS_ERROR, False) is True


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


# --- arrays as tables


def require_whole(array: npt.NDArray[Any]) -> None:
    """Raises an error if the file of a mapped array has become shorter: reading it would kill.

    It is checked before each piece that is read. What is cut off while a piece is read still ends
    the process, with SIGBUS; the earlier dataset is whole all the same.
    """
    if not isinstance(array, np.memmap) or array.filename is None:
        return
    mapped = getattr(array, "_mmap", None)
    try:
        size = os.stat(array.filename).st_size
    except OSError:  # a file that is gone keeps its content while it is mapped
        return
    begin = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY  # of the mapping
    if mapped is not None and size < begin + len(mapped):
        raise ValueError(
            f"{os.fspath(array.filename)} has become shorter while the build read it: build again "
            f"when it is complete"
        )


def pieces_of(array: npt.NDArray[Any], max_items: int) -> Iterator[npt.NDArray[Any]]:
    """Consecutive pieces along the first axis, of max_items; the last one may be shorter."""
    for begin in range(0, len(array), max_items):
        require_whole(array)
        yield array[begin : begin + max_items]


class ArrayTable(Table):
    """Equally long arrays, of one dimension, a column each, or of shape (E, columns)."""

    _MOST_RECORDS = 1 << 16  # of a mapped file: still in memory when they are converted

    def __init__(self, name: str, arrays: Sequence[npt.NDArray[Any]]) -> None:
        self.name = name
        self._columns = [
            (part, None if array.ndim == 1 else i)
            for part, array in enumerate(arrays)
            for i in range(1 if array.ndim == 1 else array.shape[1])
        ]
        self._arrays = arrays
        self.width = len(self._columns)
        self.num_records = len(arrays[0])

    @property
    def dtypes(self) -> Sequence[np.dtype[Any] | None]:
        """Of the columns."""
        return [self._arrays[part].dtype for part, _ in self._columns]

    def locate(self, record: int) -> str:
        """An edge by its position from 0: edges are what arrays are read as."""
        return f"edge {record}"

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of at most max_records records."""
        places = [self._columns[column.index] for column in columns]
        step = min(max_records, self._MOST_RECORDS)
        for begin in range(0, len(self._arrays[0]), step):
            pieces = []
            for (part, inner), column in zip(places, columns, strict=True):
                require_whole(self._arrays[part])
                piece = self._arrays[part][begin : begin + step]
                piece = piece if inner is None else piece[:, inner]
                pieces.append(checked(piece, column, self, begin))
            yield tuple(pieces)
