"""One attribute of a pack: which of its rows are packed, and the file that they are written to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphzero.graph.features import FeatureStore
from graphzero.graph.ids import IdArray
from graphzero.io.row_sources import RowKey, RowSource
from graphzero.packs.pack_file import OFFSETS, OPTIONS, PackInfo
from graphzero.store.filewriter import FileWriter
from graphzero.store.format import FLAG_VECTOR, Header, layout

__all__ = ["PackedRows", "RowsWriter"]

_PREFIX_STEP_BYTES = 4 << 20  # of resident rows, copied in one step


@dataclass(frozen=True)
class PackedRows:
    """An attribute whose rows are packed.

    Attributes
    ----------
    key : RowKey
    source : RowSource
        Where a `NeighborDataset` finds its rows.
    resident_rows : int
        The first rows of the file, which are packed once.
    """

    key: RowKey
    source: RowSource
    resident_rows: int

    @property
    def store(self) -> FeatureStore:
        """Their file."""
        return self.source.store

    def beyond(self, batch: int, subgraph: Any) -> IdArray:
        """The rows of a mini-batch that are not resident."""
        rows = self.source.rows_of(batch, subgraph)
        return rows[rows >= self.resident_rows]

    def layout(self, num_rows: int, num_batches: int, info: PackInfo) -> Header:
        """Header of the file with so many rows, without the checksums."""
        store = self.store
        sections: list[tuple[str, Any, int]] = [
            (OPTIONS, np.uint8, len(info.encode())),
            (OFFSETS, np.uint64, num_batches + 1),
        ]
        if len(store.shape) > 2:
            sections.append(("row_shape", np.int64, len(store.shape) - 1))
        sections.append(("rows", store.dtype, num_rows * store.feature_dim))
        flags = FLAG_VECTOR if len(store.shape) == 1 else 0
        return layout(
            "features", sections, num_nodes=num_rows, width=store.feature_dim, flags=flags
        )


class RowsWriter:
    """One file of a pack, while it is written."""

    def __init__(self, of: PackedRows, file: FileWriter, info: PackInfo) -> None:
        self._of, self._file = of, file
        self._num_rows = of.resident_rows
        self._offsets = [of.resident_rows]
        store = of.store
        file.append(OPTIONS, np.frombuffer(info.encode(), np.uint8))
        if len(store.shape) > 2:
            file.append("row_shape", store.shape[1:])
        step = max(1, _PREFIX_STEP_BYTES // store.row_bytes)
        for begin in range(0, of.resident_rows, step):
            end = min(begin + step, of.resident_rows)
            store.request_rows(begin, end)
            file.append("rows", store.gather_stored(np.arange(begin, end), None, 1))

    def append(self, rows: Any) -> None:
        """The rows of the next batch."""
        self._num_rows += rows.shape[0]
        self._offsets.append(self._num_rows)
        if self._num_rows > self._file.header.num_nodes:
            self._file.resize(self._num_rows)
        self._file.append("rows", rows)

    def end(self) -> None:
        """After the last batch."""
        self._file.resize(self._num_rows)
        self._file.append(OFFSETS, self._offsets)
