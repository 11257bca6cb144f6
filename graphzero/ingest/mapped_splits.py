"""Splits of nodes by the user's own ids."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.id_map import NodeIds
from graphzero.ingest.sources.array_table import ArrayTable, load_ids
from graphzero.ingest.sources.columns import id_column
from graphzero.ingest.sources.csv_format import TEXT_IDS
from graphzero.ingest.sources.opening import open_table
from graphzero.ingest.sources.table import Table

__all__ = ["MappedSplit"]

_CHUNK = 1 << 18


class MappedSplit:
    """The nodes of a split that the user gave by ids.

    Parameters
    ----------
    value : path, array or tensor
    ids : NodeIds
    """

    def __init__(self, value: Any, ids: NodeIds) -> None:
        self._value = value
        self._ids = ids

    def _table(self, name: str) -> Table:
        value = self._value
        if isinstance(value, str | os.PathLike) and Path(value).suffix.lower() != ".npy":
            table = open_table(Path(value), header=TEXT_IDS)
            if table.width != 1:
                raise ValueError(
                    f"{name} ({value}) has {table.width} columns: it must have one, of node ids"
                )
            return table
        array = load_ids(value, name)
        if array.dtype == np.bool_:
            raise ValueError(
                f"{name} is a mask: with ids='map' nodes are numbered by their sorted ids, which a "
                f"mask cannot follow; give the ids of its nodes"
            )
        if array.ndim != 1:
            raise ValueError(f"{name} has shape {array.shape}: it must be one-dimensional")
        return ArrayTable(name, [array.astype(np.int64) if not array.size else array])

    def pieces(self, name: str) -> Iterator[npt.NDArray[np.int64]]:
        """The nodes, in pieces.

        Parameters
        ----------
        name : str
            Of the split, for messages.

        Raises
        ------
        IndexError
            Naming the first id that no node has.
        ValueError
            If the values are no ids.
        """
        table, column, record = self._table(name), id_column(0, "node id").raw(), 0
        if table.num_records == 0:
            return
        for (values,) in table.chunks([column], _CHUNK):
            nodes = self._ids.find(values, column, table, record)
            unknown = np.flatnonzero(nodes < 0)
            if len(unknown):
                at = int(unknown[0])
                value = values[at].as_py() if hasattr(values[at], "as_py") else values[at]
                shown = repr(value) if isinstance(value, str) else str(value)
                raise IndexError(
                    f"{name}, position {record + at}: {shown:.80} is the id of no node: neither "
                    f"edges nor attributes name it"
                )
            yield nodes
            record += len(nodes)
