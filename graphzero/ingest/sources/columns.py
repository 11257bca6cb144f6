"""The columns of a table that are read: their dtypes and valid values."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

__all__ = ["MAX_NODES", "Column", "checked_count", "column_index", "id_column"]

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
