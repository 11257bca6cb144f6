"""Rows of merged edges become one row: aggregations, in pieces of any size."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from graphzero.ingest.casting import round_to
from graphzero.store.format import BFLOAT16, dtype_name

__all__ = ["AGGREGATIONS", "Groups", "How", "RowsDiffer", "as_numbers", "check_dtype", "differ"]

How = Literal["equal", "sum", "mean", "min", "max", "first", "last"]
AGGREGATIONS = ("sum", "mean", "min", "max", "first", "last")

Ids = npt.NDArray[Any]
_HALF = 32
_LOW = np.uint64(0xFFFFFFFF)


class RowsDiffer(Exception):
    """Two rows of a group differ, and no aggregation says what their edge is to have.

    Parameters
    ----------
    positions : (int, int)
        Of the two rows.
    values : (object, object)
        The first numbers of the rows that differ.
    """

    def __init__(self, positions: tuple[int, int], values: tuple[Any, Any]) -> None:
        super().__init__(positions, values)
        self.positions = positions
        self.values = values


def check_dtype(how: str, dtype: np.dtype[Any], name: str) -> None:
    """Raises an error for an aggregation that numbers of a dtype cannot have.

    Raises
    ------
    ValueError
        For the mean of integers.
    """
    if how == "mean" and dtype.kind in "iu":
        raise ValueError(
            f"coalesce: the mean of {name!r} is wanted, which has {dtype_name(dtype)} numbers, and "
            f"the mean of integers is none: give {name!r} as floats, or choose another aggregation "
            f"of it, such as coalesce={{{name!r}: 'sum'}}"
        )


def as_numbers(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same numbers, of a dtype that NumPy computes with: float32 for bfloat16."""
    if rows.dtype != BFLOAT16:
        return rows
    wide = np.ascontiguousarray(rows).view(np.uint16).astype(np.uint32)
    wide <<= np.uint32(16)
    return wide.view(np.float32)


def differ(rows: npt.NDArray[Any], others: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which numbers differ; NaN is equal to NaN."""
    rows, others = as_numbers(rows), as_numbers(others)
    found: npt.NDArray[np.bool_] = rows != others
    if rows.dtype.kind == "f":
        found &= ~(np.isnan(rows) & np.isnan(others))
    return found


class Groups:
    """Merges the rows of each group to one row; the rows of a group follow each other.

    Sums of integers are exact, sums of floats are made in float64, row by row: no result depends on
    the sizes of the pieces.

    Parameters
    ----------
    how : {"equal", "sum", "mean", "min", "max", "first", "last"}
        "equal" takes the first row, and raises an error if another one differs.
    dtype : numpy.dtype
    width : int
        Numbers in a row.
    name : str
        For messages.
    """

    def __init__(self, how: How, dtype: np.dtype[Any], width: int, name: str) -> None:
        self._how = how
        self._dtype = dtype
        self._width = width
        self._name = name
        self._carry: list[npt.NDArray[Any]] | None = None  # of the group that is not finished

    def add(
        self, starts: npt.NDArray[np.bool_], positions: Ids, rows: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        """Takes rows, and returns those of the groups that have ended.

        Parameters
        ----------
        starts : (n,) bool
            Whether a row is the first of a group.
        positions : (n,) integers
            Of the rows in the input, for messages.
        rows : (n, width) array

        Returns
        -------
        (groups, width) array

        Raises
        ------
        RowsDiffer
        ValueError
            If a result does not fit the dtype.
        """
        if not len(rows):
            return np.empty((0, self._width), self._dtype)
        group: Ids = np.cumsum(starts) - (self._carry is None)
        first = [np.ascontiguousarray(p) for p in self._state(rows[starts], positions[starts])]
        if self._carry is not None:
            first = [np.concatenate(pair) for pair in zip(self._carry, first, strict=True)]
        rest = np.flatnonzero(~starts)
        if len(rest):
            self._merge(first, group[rest], positions[rest], rows[rest])
        self._carry = [part[-1:].copy() for part in first]
        return self._finished([part[:-1] for part in first])

    def finish(self) -> npt.NDArray[Any]:
        """The row of the last group, (1, width); (0, width) without rows."""
        if self._carry is None:
            return np.empty((0, self._width), self._dtype)
        last, self._carry = self._carry, None
        return self._finished(last)

    def _state(self, rows: npt.NDArray[Any], positions: Ids) -> list[npt.NDArray[Any]]:
        """What is known of groups by their first rows; the position of these is the last part."""
        if self._how == "sum" and self._dtype.kind in "iu":
            return [*_halves(rows), positions]
        if self._how in ("sum", "mean"):
            numbers = as_numbers(rows).astype(np.float64)
            return [numbers, np.isinf(numbers), np.ones((len(rows), 1), np.int64), positions]
        if self._how in ("min", "max"):
            return [as_numbers(rows), positions]
        return [rows, positions]

    def _merge(
        self, state: list[npt.NDArray[Any]], group: Ids, positions: Ids, rows: npt.NDArray[Any]
    ) -> None:
        """Adds rows that are not the first of their groups; changes the state."""
        if self._how == "equal":
            self._compare(state, group, positions, rows)
        elif self._how == "last":
            state[0][group] = rows  # of repeated indices, NumPy keeps the last
        elif self._how != "first":
            added = self._state(rows, positions)[:-1]
            ufuncs: tuple[np.ufunc, ...] = (np.add, np.add)
            if len(added) == 3:
                ufuncs = (np.add, np.logical_or, np.add)
            elif len(added) == 1:
                ufuncs = (np.minimum if self._how == "min" else np.maximum,)
            with np.errstate(over="ignore", invalid="ignore"):
                for ufunc, part, values in zip(ufuncs, state, added, strict=False):
                    _accumulate(ufunc, part, group, values)

    def _compare(
        self, state: list[npt.NDArray[Any]], group: Ids, positions: Ids, rows: npt.NDArray[Any]
    ) -> None:
        different = differ(rows, state[0][group])
        if different.any():
            at, column = np.argwhere(different)[0].tolist()
            kept = int(group[at])
            values = as_numbers(state[0][kept : kept + 1])[0, column], as_numbers(rows)[at, column]
            raise RowsDiffer((int(state[-1][kept]), int(positions[at])), values)

    def _finished(self, state: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
        if len(state) == 2:
            return round_to(state[0], self._dtype) if self._how in ("min", "max") else state[0]
        if self._dtype.kind in "iu":
            found, misfit = _joined(state[0], state[1], self._dtype)
        else:
            wide = state[0] / state[2] if self._how == "mean" else state[0]
            found = round_to(wide, self._dtype)
            misfit = np.isinf(as_numbers(found)) & ~state[1]
        if misfit.any():
            at = int(np.argwhere(misfit)[0, 0])
            raise ValueError(
                f"coalesce: the {self._how} of {self._name!r} over edge {state[-1][at]} and those "
                f"that are merged with it does not fit {dtype_name(self._dtype)}: give "
                f"{self._name!r} in a wider dtype, or choose another aggregation, such as 'max'"
            )
        return found


def _accumulate(
    ufunc: np.ufunc, part: npt.NDArray[Any], group: Ids, values: npt.NDArray[Any]
) -> None:
    """``ufunc.at`` by rows; over flat arrays, where it is fast."""
    width = values.shape[1]
    flat = part.reshape(-1)  # a view: the state is contiguous
    ufunc.at(
        flat, (group[:, np.newaxis] * width + np.arange(width)).reshape(-1), values.reshape(-1)
    )


def _halves(rows: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Integers as high * 2^32 + low, so that 2^31 of them can be added without overflow."""
    if rows.dtype == np.uint64:
        return (rows >> np.uint64(_HALF)).astype(np.int64), (rows & _LOW).astype(np.int64)
    wide = rows.astype(np.int64)
    return wide >> _HALF, wide & np.int64(0xFFFFFFFF)


def _joined(
    high: npt.NDArray[np.int64], low: npt.NDArray[np.int64], dtype: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Sums from their halves, and which of them do not fit."""
    high, low = high + (low >> _HALF), low & np.int64(0xFFFFFFFF)
    signed = dtype != np.uint64
    most = 1 << (31 if signed else 32)
    misfit = (high < (-most if signed else 0)) | (high >= most)
    wide: npt.NDArray[Any] = (high.astype(np.uint64) << np.uint64(_HALF)) | low.astype(np.uint64)
    if signed:
        wide = wide.view(np.int64)
        bounds = np.iinfo(dtype)
        misfit |= (wide < bounds.min) | (wide > bounds.max)
    return wide.astype(dtype), misfit
