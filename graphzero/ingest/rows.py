"""Writes rows to a ``.gd`` file, permuted to the stored order in bounded memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.blocks import BlockFile, block_bytes
from graphzero.ingest.picked_rows import picked_blocks, picks
from graphzero.ingest.progress import Progress
from graphzero.ingest.rank import NodeOrder
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.spill import temp_array
from graphzero.store.filewriter import FileWriter, sealed_file
from graphzero.store.format import FLAG_VECTOR, Header, id_dtype, layout

__all__ = ["Placement", "append_shape", "block_rows", "place_scratch", "rows_layout", "write_rows"]


def rows_layout(rows: Rows, num_nodes: int, *, hot: bool) -> Header:
    """Header of the file, without the checksums."""
    arrays: list[tuple[str, npt.DTypeLike, int]] = [("rows", rows.dtype, num_nodes * rows.width)]
    if hot:
        arrays.append(("node_rank", id_dtype(num_nodes), num_nodes))
    if len(rows.row_shape) > 1:
        arrays.append(("row_shape", "<i8", len(rows.row_shape)))
    return layout(
        "features",
        arrays,
        num_nodes=num_nodes,
        width=rows.width,
        flags=FLAG_VECTOR if rows.vector else 0,
    )


def append_shape(file: FileWriter, rows: Rows) -> None:
    """Writes the section that says how rows of several dimensions are to be read."""
    if len(rows.row_shape) > 1:
        file.append("row_shape", rows.row_shape)


def block_rows(rows: Rows, memory: int) -> int:
    """Rows of a block, so that blocks, pieces of input and copies fit in so many bytes."""
    fitting = memory // (4 * block_bytes(rows.width * rows.dtype.itemsize))
    return max(1, min(fitting, 1 << 32))


def place_scratch(
    rows: Rows, num_nodes: int, *, hot: bool, memory: int, may_pick: bool = True
) -> int:
    """Bytes of temporary disk space that the permutation takes."""
    if (rows.in_order and not hot) or num_nodes <= block_rows(rows, memory):
        return 0
    if hot and may_pick and picks(rows, num_nodes, memory):
        return 0
    return num_nodes * block_bytes(rows.width * rows.dtype.itemsize)


class Placement:
    """Takes rows in any order and returns them in blocks of the stored order.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files, if the rows are larger than the memory.
    rows : Rows
        Their dtype and shape.
    num_rows : int
        Of the file.
    memory : int
        Bytes.
    """

    def __init__(self, folder: Path, rows: Rows, num_rows: int, memory: int) -> None:
        self._shape = (num_rows, rows.width)
        self._dtype = rows.dtype
        self._block = max(1, min(num_rows, block_rows(rows, memory)))
        self._whole: npt.NDArray[Any] | None = None
        if num_rows <= self._block:
            self._whole = np.zeros(self._shape, rows.dtype)
            return
        self._blocks = BlockFile(folder, num_rows, self._block, rows.dtype, rows.width)

    def add(self, targets: npt.NDArray[Any], rows: npt.NDArray[Any]) -> None:
        """Takes rows, with their positions in the file."""
        if self._whole is not None:
            self._whole[targets] = rows
            return
        self._blocks.add(targets, rows)

    def blocks(self) -> Iterator[npt.NDArray[Any]]:
        """All rows in the stored order; zeros where none came."""
        if self._whole is not None:
            yield self._whole
            return
        num_rows, width = self._shape
        for i in range(self._blocks.num_blocks):
            out = np.zeros((min(self._block, num_rows - i * self._block), width), self._dtype)
            offsets, values = self._blocks.read(i)
            out[offsets] = values
            del values
            yield out

    def close(self) -> None:
        """Frees the disk space."""
        if self._whole is None:
            self._blocks.close()


def shown_id(rows: Rows, node: Any) -> str:
    """A node in messages: by the user's own id, where ids were mapped."""
    user_id: Callable[[int], str] = getattr(rows, "user_id", str)
    return user_id(int(node))


class _Seen:
    """The nodes that have had a row."""

    def __init__(self, folder: Path, rows: Rows, num_nodes: int, memory: int) -> None:
        self._rows = rows
        self._num_nodes = num_nodes
        self._seen = temp_array(folder, num_nodes, np.bool_, memory // 16)
        self._row = 0

    def add(self, ids: npt.NDArray[Any]) -> None:
        """Marks the nodes of the next rows; a second row of a node is an error."""
        outside = np.flatnonzero(ids >= self._num_nodes)
        if len(outside):
            bad = int(outside[0])
            raise ValueError(
                f"{self._place(bad)}: node id {ids[bad]} is out of range for "
                f"{self._num_nodes} nodes"
            )
        by_id = np.argsort(ids, kind="stable")
        repeated = self._seen[ids]
        repeated[by_id[1:]] |= ids[by_id[1:]] == ids[by_id[:-1]]
        if repeated.any():
            bad = int(np.flatnonzero(repeated)[0])
            raise ValueError(
                f"{self._place(bad)}: node id {shown_id(self._rows, ids[bad])} has a row already"
            )
        self._seen[ids] = True
        self._row += len(ids)

    def _place(self, row: int) -> str:
        return f"{self._rows.name}, {self._rows.locate(self._row + row)}"

    def missing(self) -> tuple[int, int]:
        """Number of nodes without a row, and the first of them."""
        count = self._num_nodes - int(np.count_nonzero(self._seen))
        return count, int(np.argmin(self._seen)) if count else -1


def _in_memory(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Rows that may be picked in any order: those of a mapped file are read from first to last."""
    return np.array(rows) if isinstance(rows, np.memmap) else rows


def _collect(
    rows: Rows,
    placement: Placement,
    seen: _Seen | None,
    order: NodeOrder | None,
    max_rows: int,
    advance: Any,
) -> None:
    for ids, chunk in rows.chunks(max_rows):
        if seen is not None:
            seen.add(ids)
        # pyarrow's pieces may be larger than max_rows.
        for begin in range(0, len(ids), max_rows):
            part = ids[begin : begin + max_rows]
            targets = part if order is None else order.node_rank[part]
            placement.add(targets, _in_memory(chunk[begin : begin + max_rows]))
            advance(len(part))


def _check_missing(seen: _Seen, rows: Rows, num_nodes: int, fill_missing: bool) -> None:
    count, first = seen.missing()
    if not count:
        return
    if not fill_missing:
        raise ValueError(
            f"{rows.name} has no row for {count} of {num_nodes} nodes, the first is node "
            f"{shown_id(rows, first)}"
        )
    warnings.warn(
        f"{rows.name} has no row for {count} of {num_nodes} nodes: they get zeros",
        UserWarning,
        stacklevel=2,
    )


def write_rows(
    path: Path,
    rows: Rows,
    num_nodes: int,
    *,
    order: NodeOrder | None,
    fill_missing: bool,
    memory: int,
    progress: Progress,
) -> FileWriter:
    """Writes rows in the stored order.

    Parameters
    ----------
    path : pathlib.Path
        Final path; temporary data is written to the same folder.
    rows : Rows
    num_nodes : int
    order : NodeOrder or None
    fill_missing : bool
        If True, nodes without a row get zeros, and a warning counts them; else they are an error.
    memory : int
        Bytes.
    progress : Progress

    Returns
    -------
    FileWriter
        Sealed, not yet published.

    Raises
    ------
    ValueError
        Naming the line: a node has two rows, or an id is out of range.
    OSError
        If the file cannot be read, or the disk is full.
    """
    max_rows = max(1, block_rows(rows, memory) // 2)
    picked = order is not None and picks(rows, num_nodes, memory)
    placement: Placement | None = None
    with (
        sealed_file(path, rows_layout(rows, num_nodes, hot=order is not None)) as file,
        ExitStack() as temporary,
    ):
        label = f"{'writing' if picked else 'reading'} {path.stem}"
        with progress.phase(label, num_nodes) as advance:
            if picked and order is not None:
                for block in picked_blocks(rows, num_nodes, order, memory):
                    file.append("rows", block)
                    advance(len(block))
            elif rows.in_order and order is None:
                for _, chunk in rows.chunks(max_rows):
                    file.append("rows", chunk)
                    advance(len(chunk))
            else:
                placement = Placement(path.parent, rows, num_nodes, memory)
                temporary.callback(placement.close)
                seen = None if rows.in_order else _Seen(path.parent, rows, num_nodes, memory)
                _collect(rows, placement, seen, order, max_rows, advance)
                if seen is not None:
                    _check_missing(seen, rows, num_nodes, fill_missing)
        if placement is not None:
            with progress.phase(f"writing {path.stem}", num_nodes) as advance:
                for block in placement.blocks():
                    file.append("rows", block)
                    advance(len(block))
        if order is not None:
            file.append("node_rank", order.node_rank)
        append_shape(file, rows)
    return file
