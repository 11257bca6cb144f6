"""Rows of an array in the stored order: picked in a few passes, without a temporary file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from graphzero.ingest.rank import NodeOrder
from graphzero.ingest.row_stream import Rows

__all__ = ["PickableRows", "picked_blocks", "picks"]

_PIECE_BYTES = 4 << 20  # of rows that are copied in one step


@runtime_checkable
class PickableRows(Protocol):
    """Rows that can be read in any order.

    Attributes
    ----------
    most_passes : int
        How often reading them through pays: a file that is not in memory is read from the disk
        each time, where a temporary file would be written once and read once. 0: never.
    """

    most_passes: int

    def pick(self, ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Flattened rows of ascending ids."""
        ...


def _block_rows(rows: Rows, memory: int) -> int:
    """Rows of a block: with its ids and their sort, and copies of pieces, it fits in `memory`."""
    row_bytes = rows.width * rows.dtype.itemsize + 32
    return max(1, max(memory - 4 * _PIECE_BYTES, memory // 2) // row_bytes)


def picks(rows: Rows, num_nodes: int, memory: int) -> bool:
    """Whether rows are picked, each block of the stored order in one pass over all of them."""
    if not rows.in_order or not isinstance(rows, PickableRows):
        return False
    return -(-num_nodes // _block_rows(rows, memory)) <= rows.most_passes


def picked_blocks(
    rows: Rows, num_nodes: int, order: NodeOrder, memory: int
) -> Iterator[npt.NDArray[Any]]:
    """All rows in the stored order, in blocks; `picks` must hold."""
    assert isinstance(rows, PickableRows)
    block = min(_block_rows(rows, memory), num_nodes)
    step = max(1, min(block, _PIECE_BYTES // (rows.width * rows.dtype.itemsize)))
    out = np.empty((block, rows.width), rows.dtype)
    for begin in range(0, num_nodes, block):
        ids = order.node_ids[begin : begin + block]
        by_id = np.argsort(ids)  # a file is read from its beginning to its end
        for at in range(0, len(ids), step):
            part = by_id[at : at + step]
            out[part] = rows.pick(ids[part])
        yield out[: len(ids)]
