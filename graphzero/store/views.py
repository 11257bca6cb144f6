"""Read-only NumPy views of mapped files, and the fingerprint of a file."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero import _core

__all__ = ["header_identity", "section_view"]


def section_view(
    mapping: _core.Mapping, dtype: np.dtype[Any], offset: int, shape: tuple[int, ...]
) -> npt.NDArray[Any]:
    """A read-only array over part of a mapped file; it keeps the mapping alive."""
    count = math.prod(shape)
    if count == 0:
        empty = np.empty(shape, dtype)
        empty.flags.writeable = False
        return empty
    view = np.frombuffer(memoryview(mapping), dtype=dtype, count=count, offset=offset)
    return view.reshape(shape)


def header_identity(header: dict[str, Any]) -> tuple[Any, ...]:
    """Fingerprint of a file's content: the counts and section checksums of its header."""
    return (header["num_nodes"], header["width"], tuple(entry[-1] for entry in header["sections"]))
