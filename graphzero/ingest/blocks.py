"""`BlockFile`: rows in any order of their ids become blocks of ascending ids, through a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.errors import FormatError
from graphzero.ingest.spill import TempFile

__all__ = ["BlockFile", "block_bytes"]

_OFFSET = np.dtype(np.uint32)  # of an id within its block


def block_bytes(row_bytes: int) -> int:
    """Bytes of temporary disk space that a row takes."""
    return row_bytes + _OFFSET.itemsize


class BlockFile:
    """Takes rows with their ids in any order, and returns those of one block of ids at a time.

    Every block has a region of its size in a temporary file, which collects its rows in the order
    of arrival. So rows are written and read in long pieces.

    Parameters
    ----------
    folder : pathlib.Path
    num_ids : int
    block : int
        Ids of a block, below 2^32.
    dtype : numpy.dtype
    width : int
        Numbers in a row.
    most : int
        How many rows an id may have.
    """

    def __init__(
        self,
        folder: Path,
        num_ids: int,
        block: int,
        dtype: np.dtype[Any],
        width: int = 1,
        most: int = 1,
    ) -> None:
        self.num_blocks = -(-num_ids // block)
        self._block = block
        self._room = block * most
        self._dtype = dtype
        self._width = width
        self._row_bytes = width * dtype.itemsize
        self._filled = np.zeros(self.num_blocks, np.int64)
        self._rows = TempFile(folder)
        self._offsets = TempFile(folder)

    def add(self, ids: npt.NDArray[Any], rows: npt.NDArray[Any]) -> None:
        """Takes rows (n, width) with their ids (n,), which must be in range.

        Raises
        ------
        FormatError
            If the ids of a block have more rows than they may have.
        OSError
            If the disk is full.
        """
        blocks = ids // self._block
        by_block = np.argsort(blocks, kind="stable")
        touched, begins = np.unique(blocks[by_block], return_index=True)
        ends = [*begins[1:], len(blocks)]
        for block, begin, end in zip(touched.tolist(), begins, ends, strict=True):
            chosen = by_block[begin:end]
            filled = int(self._filled[block])
            if filled + len(chosen) > self._room:
                raise FormatError("ids repeat that must not: build the dataset again")
            at = block * self._room + filled
            first = ids.dtype.type(block * self._block)
            self._rows.write(rows[chosen].astype(self._dtype, copy=False), at * self._row_bytes)
            self._offsets.write((ids[chosen] - first).astype(_OFFSET), at * _OFFSET.itemsize)
            self._filled[block] += len(chosen)

    def read(self, block: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[Any]]:
        """Of the rows of a block, as they came: offsets of their ids (n,), and rows (n, width)."""
        count, at = int(self._filled[block]), block * self._room
        offsets = self._offsets.read(at * _OFFSET.itemsize, count, _OFFSET)
        rows = self._rows.read(at * self._row_bytes, count * self._width, self._dtype)
        return offsets, rows.reshape(count, self._width)

    def close(self) -> None:
        """Frees the disk space."""
        self._rows.close()
        self._offsets.close()
