"""Splits of nodes by the user's own ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.given import is_table, open_given, refuse_frame
from graphzero.ingest.id_map import NodeIds
from graphzero.ingest.source import FOR_VALUES, as_source
from graphzero.ingest.sources.array_opening import open_id_array
from graphzero.ingest.sources.array_table import ArrayTable
from graphzero.ingest.sources.columns import Column, id_column
from graphzero.ingest.sources.members import known_names
from graphzero.ingest.sources.sparse_matrix import SparseMatrix
from graphzero.ingest.sources.table import Table
from graphzero.ingest.value_columns import id_values_column

__all__ = ["MappedSplit"]

_CHUNK = 1 << 18


class MappedSplit:
    """The nodes of a split that the user gave by ids.

    Parameters
    ----------
    value : path, array, tensor, list or `Source`
        A list of str has ids, not files.
    ids : NodeIds
    """

    def __init__(self, value: Any, ids: NodeIds) -> None:
        self._value = value
        self._ids = ids

    def _table(self, split: str, name: str) -> tuple[Table, Column]:
        source = as_source(self._value)
        with_columns = is_table(source.value) and not self._are_texts
        source.check_options(FOR_VALUES, split, is_table=with_columns)
        if with_columns:
            table = open_given(source, text_ids=True)
            at = id_values_column(table, source, split, "node ids")
            return table, id_column(at, "node id").raw()
        refuse_frame(source.value, split)
        array = open_id_array(source.value, split, known_names(name, "split"))
        if isinstance(array, SparseMatrix):
            raise ValueError(f"{array.name} is a sparse matrix: {split} must be a list of ids")
        if array.dtype == np.bool_:
            raise ValueError(
                f"{split} is a mask: with ids='map' nodes are numbered by their sorted ids, which "
                f"a mask cannot follow; give the ids of its nodes"
            )
        if array.ndim != 1:
            raise ValueError(f"{split} has shape {array.shape}: it must be one-dimensional")
        return ArrayTable(split, [array]), id_column(0, "node id").raw()

    @property
    def _are_texts(self) -> bool:
        """Whether it is a list of str: these are ids, not files."""
        value = self._value
        return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)

    def pieces(self, split: str, name: str) -> Iterator[npt.NDArray[np.int64]]:
        """The nodes, in pieces.

        Parameters
        ----------
        split : str
            For messages.
        name : str
            Of the split.

        Raises
        ------
        IndexError
            Naming the first id that no node has.
        ValueError
            If the values are no ids.
        """
        (table, column), record = self._table(split, name), 0
        if table.num_records == 0:
            return
        for (values,) in table.chunks([column], _CHUNK):
            nodes = self._ids.find(values, column, table, record)
            unknown = np.flatnonzero(nodes < 0)
            if len(unknown):
                at = int(unknown[0])
                value = values[at].as_py() if hasattr(values[at], "as_py") else values[at]
                shown = repr(str(value)) if isinstance(value, str) else str(value)
                raise IndexError(
                    f"{split}, position {record + at}: {shown:.80} is the id of no node: neither "
                    f"edges nor attributes name it{self._hint()}"
                )
            yield nodes
            record += len(nodes)

    def _hint(self) -> str:
        if self._are_texts and is_table(self._value):
            return "; give files as gz.Source([...]), because a list of texts is one of ids"
        return ""
