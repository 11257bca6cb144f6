"""Arrays in ``.safetensors`` files, mapped.

The format (https://github.com/huggingface/safetensors#format): 8 bytes with the length of a JSON
header, the header, and the tensors one after the other, in C order and little-endian.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.store.format import BFLOAT16

__all__ = ["SafetensorsFile"]

_MOST_HEADER_BYTES = 100_000_000  # what the format's own library accepts
_DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "BF16": BFLOAT16,
    **{
        f"{kind}{bits}": np.dtype(f"<{letter}{bits // 8}")
        for kind, letter, sizes in (("U", "u", (8, 16, 32, 64)), ("I", "i", (8, 16, 32, 64)))
        for bits in sizes
    },
    **{f"F{bits}": np.dtype(f"<f{bits // 8}") for bits in (16, 32, 64)},
}


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


def _is_count(value: Any) -> bool:
    return type(value) is int and value >= 0


class SafetensorsFile:
    """The tensors of a ``.safetensors`` file.

    Parameters
    ----------
    path : pathlib.Path

    Attributes
    ----------
    names : list of str

    Raises
    ------
    ValueError
        If the file is damaged, or its header describes no valid tensors.
    OSError
        If it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or not 2 <= length <= min(size - 8, _MOST_HEADER_BYTES):
                raise self._damaged(f"its header would have {length:,} bytes, and it has {size:,}")
            text = file.read(length)
        self._begin = 8 + length
        try:
            header = json.loads(text.decode(), object_pairs_hook=_no_duplicates)
        except (ValueError, RecursionError) as error:
            raise self._damaged(f"its header is not valid JSON: {str(error)[:200]}") from None
        if not isinstance(header, dict):
            raise self._damaged("its header is no JSON object")
        header.pop("__metadata__", None)
        self._tensors = {name: self._entry(name, entry) for name, entry in header.items()}
        self.names = list(self._tensors)
        self._check_ranges(size - self._begin)

    def describe(self, name: str) -> str:
        """Shape and dtype of a tensor, for messages."""
        kind, shape, _, _ = self._tensors[name]
        return f"{shape} {kind}"

    def array(self, name: str) -> npt.NDArray[Any]:
        """A tensor, mapped.

        Raises
        ------
        ValueError
            If its dtype is not one that NumPy or this package has.
        """
        kind, shape, begin, end = self._tensors[name]
        if kind not in _DTYPES:
            raise ValueError(
                f"{self.path}:{name} has dtype {kind}, which cannot be stored: convert it first"
            )
        dtype = _DTYPES[kind]
        if math.prod(shape) * dtype.itemsize != end - begin:
            raise self._damaged(f"{name!r} has {end - begin:,} bytes for a tensor of shape {shape}")
        if begin == end:
            return np.empty(shape, dtype)
        return np.memmap(self.path, dtype, "r", self._begin + begin, shape)

    def _damaged(self, why: str) -> ValueError:
        return ValueError(f"{self.path} is not a complete safetensors file: {why}")

    def _entry(self, name: str, entry: Any) -> tuple[str, tuple[int, ...], int, int]:
        try:
            kind, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
            valid = isinstance(kind, str) and isinstance(shape, list) and set(entry) == {
                "dtype", "shape", "data_offsets",
            }  # fmt: skip
            valid = valid and all(map(_is_count, [*shape, begin, end])) and begin <= end
        except (TypeError, KeyError, ValueError):
            valid = False
        if not valid:
            raise self._damaged(f"its header does not describe {name!r} as a tensor")
        return kind, tuple(shape), begin, end

    def _check_ranges(self, size: int) -> None:
        """Tensors follow each other, and fill the file."""
        at = 0
        for name, (_, _, begin, end) in sorted(
            self._tensors.items(), key=lambda item: (item[1][2], item[1][3])
        ):
            if begin != at:
                raise self._damaged(f"{name!r} begins at byte {begin:,} of the data, not at {at:,}")
            at = end
        if at != size:
            raise self._damaged(f"its tensors have {at:,} bytes, and {size:,} are there")
