"""`BlockFile`: rows in any order of their ids become blocks of ascending ids, through a file."""

from __future__ import annotations

import itertools
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
        if not len(ids):
            return
        blocks = ids // self._block
        # NumPy sorts 16-bit numbers by their digits, several times faster than wider ones.
        keys = blocks.astype(np.uint16) if self.num_blocks <= 1 << 16 else blocks
        by_block = np.argsort(keys, kind="stable")
        blocks, rows = blocks[by_block], rows[by_block].astype(self._dtype, copy=False)
        offsets = (ids % self._block).astype(_OFFSET)[by_block]
        cuts = [0, *(np.flatnonzero(blocks[1:] != blocks[:-1]) + 1).tolist(), len(blocks)]
        for begin, end in itertools.pairwise(cuts):
            block = int(blocks[begin])
            filled = int(self._filled[block])
            if filled + end - begin > self._room:
                raise FormatError("ids repeat that must not: build the dataset again")
            at = block * self._room + filled
            self._rows.write(rows[begin:end], at * self._row_bytes)
            self._offsets.write(offsets[begin:end], at * _OFFSET.itemsize)
            self._filled[block] = filled + end - begin

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
