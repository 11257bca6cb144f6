"""Conversion of feature rows to another dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.row_stream import RowChunk, Rows
from graphzero.store.format import BFLOAT16, dtype_name

__all__ = ["CastRows", "round_to"]

_PIECE = 1 << 16  # numbers that are converted in one step
_MAGNITUDE = np.uint16(0x7FFF)
_INFINITY = np.uint16(0x7F80)


def _bfloat16_as_float32(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The same numbers: a bfloat16 is the upper half of a float32."""
    wide = np.ascontiguousarray(values).view(np.uint16).astype(np.uint32)
    wide <<= np.uint32(16)
    return wide.view(np.float32)


def _rounded_to_odd(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """float64 rounded to odd as float32, so that a second rounding gives the correct result.

    If bits are lost, the last bit is set (Boldo and Melquiond, IEEE Trans. Computers 2008).
    """
    single = values.astype(np.float32)
    back = single.astype(np.float64)
    bits = single.view(np.uint32)
    bits -= np.abs(back) > np.abs(values)  # towards zero first
    bits |= back != values
    return single


def _to_bfloat16(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if values.dtype != np.float32:
        values = _rounded_to_odd(values.astype(np.float64, copy=False))
    bits = np.ascontiguousarray(values).view(np.uint32)
    high = bits >> np.uint32(16)
    # carries into the upper half if above the middle, or at the middle if that half is odd
    rounded = ((bits + (np.uint32(0x7FFF) + (high & np.uint32(1)))) >> np.uint32(16)).astype("<u2")
    is_nan = np.isnan(values)
    rounded[is_nan] = high[is_nan] | np.uint32(0x40)  # else a NaN could lose all its bits
    return rounded.view(BFLOAT16)


def _is_infinite(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    infinite: npt.NDArray[np.bool_] = (
        (values.view(np.uint16) & _MAGNITUDE) == _INFINITY
        if values.dtype == BFLOAT16
        else np.isinf(values)
    )
    return infinite


def round_to(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Numbers in a floating dtype, rounded to nearest, ties to even; infinite if too large.

    Parameters
    ----------
    values : array of integers or floats
    dtype : numpy.dtype
        A float, or bfloat16.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return _to_bfloat16(values) if dtype == BFLOAT16 else values.astype(dtype)


class CastRows:
    """Rows in another dtype: as floats of any width, or integers as other integers.

    Parameters
    ----------
    rows : Rows
    dtype : numpy.dtype
        Of the format.

    Raises
    ------
    ValueError
        If floats would become integers; in `chunks`, naming its row, if a number does not fit.
    """

    def __init__(self, rows: Rows, dtype: np.dtype[Any]) -> None:
        if dtype.kind in "iu" and rows.dtype.kind not in "iu":
            raise ValueError(
                f"{rows.name}: {dtype_name(rows.dtype)} numbers cannot be stored as {dtype} "
                f"without loss of their fractions; scale and round them first"
            )
        self.name = rows.name
        self.dtype = dtype
        self.width = rows.width
        self.row_shape = rows.row_shape
        self.vector = rows.vector
        self.in_order = rows.in_order
        self.rows = rows

    def count(self) -> int:
        """Nodes."""
        return self.rows.count()

    def locate(self, row: int) -> str:
        """Place of a row in the input, in words."""
        return self.rows.locate(row)

    def chunks(self, max_rows: int) -> Iterator[RowChunk]:
        """Pieces of the rows: before conversion, no larger than max_rows rows after it."""
        ratio = -(-self.rows.dtype.itemsize // self.dtype.itemsize)
        step = max(1, _PIECE // self.width)
        row = 0
        for ids, chunk in self.rows.chunks(max(1, max_rows // ratio)):
            out = np.empty(chunk.shape, self.dtype)
            for begin in range(0, len(chunk), step):
                out[begin : begin + step] = self._cast(chunk[begin : begin + step], row + begin)
            row += len(chunk)
            yield ids, out

    def _cast(self, values: npt.NDArray[Any], row: int) -> npt.NDArray[Any]:
        """Converts some rows; `row` is the number of the first."""
        if values.dtype == BFLOAT16:
            values = _bfloat16_as_float32(values)
        if self.dtype.kind in "iu":
            bounds = np.iinfo(self.dtype)
            misfit = (values < bounds.min) | (values > bounds.max)
            out = values.astype(self.dtype)
        else:
            out = round_to(values, self.dtype)
            misfit = _is_infinite(out) & ~np.isinf(values)
        if misfit.any():
            at, column = np.argwhere(misfit)[0].tolist()
            place = self.locate(row + at)
            raise ValueError(
                f"{self.name}, {place}: {values[at, column]} does not fit "
                f"{dtype_name(self.dtype)}: use a wider feature_dtype, or scale the features"
            )
        return out
