"""Conversion and validation of the ids, counts and times that users pass in."""

from __future__ import annotations

import operator
import os
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero import _core

__all__ = ["MOST_COUNT", "IdArray", "as_count", "as_id", "as_ids", "as_threads", "as_times"]

# The core counts in 63 bits, and threads in 31.
MOST_COUNT = (1 << 63) - 1
_MOST_THREADS = (1 << 31) - 1

IdArray = npt.NDArray[np.int64]


def as_ids(values: Any, limit: int, name: str) -> IdArray:
    """One-dimensional, contiguous int64 array of ids in [0, limit).

    Parameters
    ----------
    values : sequence, numpy.ndarray or torch.Tensor
        Of any integer dtype.
    limit : int
        Upper bound of the ids, exclusive.
    name : str
        Name of the argument, for messages.

    Returns
    -------
    (n,) int64 array
        The same memory where nothing had to be converted.

    Raises
    ------
    ValueError
        If the values are not one-dimensional or not integers.
    IndexError
        If an id is negative or not below limit; with its position and value.
    """
    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not of shape {array.shape}")
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind == "b":
        raise ValueError(f"{name} must be ids, not a boolean mask: use numpy.flatnonzero(mask)")
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be integers, not {array.dtype}")
    if array.dtype == np.uint64 and int(array.max()) > np.iinfo(np.int64).max:
        at = int(array.argmax())
        raise IndexError(f"{name}[{at}] = {array[at]} is out of range [0, {limit})")
    ids: IdArray = np.ascontiguousarray(array, dtype=np.int64)
    at = _core.first_outside(ids, limit)
    if at >= 0:
        raise IndexError(f"{name}[{at}] = {ids[at]} is out of range [0, {limit})")
    return ids


def as_id(value: Any, limit: int, name: str) -> int:
    """One id in [0, limit).

    Raises
    ------
    ValueError
        If the value is not an integer.
    IndexError
        If it is out of range.
    """
    try:
        id_ = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer, not {value!r}") from None
    if not 0 <= id_ < limit:
        raise IndexError(f"{name} {id_} is out of range [0, {limit})")
    return id_


def as_count(value: Any, name: str, least: int = 1, most: int = MOST_COUNT) -> int:
    """An integer from `least` to `most`.

    Raises
    ------
    ValueError
        If the value is not an integer, too small or too large.
    """
    try:
        count = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer, not {value!r}") from None
    if isinstance(value, bool) or count < least:
        raise ValueError(f"{name} must be at least {least}, not {value!r}")
    if count > most:
        raise ValueError(f"{name} must be at most {most}, not {value!r}")
    return count


def as_times(values: Any, count: int, name: str) -> IdArray:
    """Contiguous int64 array of timestamps, (count,).

    Raises
    ------
    ValueError
        If they are not integers, not `count` of them, or do not fit 63 bits.
    """
    array = np.asarray(values)
    if array.shape != (count,):
        raise ValueError(
            f"{name} must hold a time for each of the {count} seeds, not {array.shape}"
        )
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be integers, as the graph's timestamps, not {array.dtype}")
    if array.dtype == np.uint64 and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{name} has a time that does not fit 63 bits")
    return np.ascontiguousarray(array, dtype=np.int64)


def as_threads(num_threads: int | None) -> int:
    """Number of threads: as given, or one for each processor available to the process."""
    if num_threads is not None:
        return as_count(num_threads, "num_threads", most=_MOST_THREADS)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
