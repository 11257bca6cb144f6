"""`ids="map"`: the user's ids of nodes are taken to 0...N-1, the order of the sorted ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.id_sort import DistinctIntegers, DistinctTexts, bytes_of
from graphzero.ingest.progress import Progress
from graphzero.ingest.raw_ids import BadId, IdKind, NotIntegers, as_integers, as_texts
from graphzero.ingest.sources.columns import MAX_NODES, Column
from graphzero.ingest.sources.table import Chunk, Table
from graphzero.store.filewriter import FileWriter
from graphzero.store.id_table import IdTable

__all__ = ["IdSource", "MappedTable", "NodeIds", "collect_ids"]

_MAX_RECORDS = 1 << 18
_RECORD_BYTES = 160  # that translation needs for each id, besides the text


@dataclass(frozen=True)
class IdSource:
    """Columns of node ids of one table.

    Attributes
    ----------
    table : Table
    columns : sequence of (Column, str)
        With the node type of each; "" for a graph without types.
    """

    table: Table
    columns: Sequence[tuple[Column, str]]


@dataclass
class NodeIds:
    """The distinct ids of the nodes of one type, and their table once it is written.

    Attributes
    ----------
    kind : {"map", "integer", "string"}
        As the user chose it.
    is_text : bool
        Whether they are read as texts.
    why_text : str
        Where the first text is, for messages.
    """

    kind: IdKind
    is_text: bool = False
    why_text: str = ""
    ranges: dict[str, str] = field(default_factory=dict)  # where integers are that need a sign, ...
    table: IdTable | None = None

    def read(self, values: Any, column: Column, table: Table, record: int) -> Any:
        """A chunk of a column of raw ids, checked, as integers or as texts.

        Raises
        ------
        NotIntegers
            If it has texts, and integers are tried.
        ValueError
            Naming the place of a wrong id.
        """
        try:
            return as_texts(values) if self.is_text else as_integers(values, self.kind)
        except BadId as error:
            place = f"{table.name}, {table.locate(record + error.at)}"
            why = f" ({self.why_text})" if self.is_text and self.why_text else ""
            raise ValueError(f"{place}: {column.label}: {error}{why}") from None
        except NotIntegers as error:
            place = f"{table.name}, {table.locate(record + error.at)}"
            if self.kind == "integer":
                raise ValueError(
                    f"{place}: {error} is not {column.expected()}: with ids='integer', ids are "
                    f"integers of 64 bits; ids='string' takes them as texts"
                ) from None
            self.why_text = f"{place} has the id {error}"
            raise

    def note_range(self, ids: npt.NDArray[Any], table: Table, record: int) -> None:
        """Refuses integers that no dtype of 64 bits has together."""
        if not len(ids):
            return
        is_signed = ids.dtype.kind == "i"
        at = int(ids.argmin() if is_signed else ids.argmax())
        value = int(ids[at])
        name = "negative" if value < 0 else "huge" if value >= 1 << 63 else ""
        if name and name not in self.ranges:
            self.ranges[name] = f"{table.name}, {table.locate(record + at)} has {value}"
        if len(self.ranges) == 2:
            raise ValueError(
                f"{' and '.join(self.ranges.values())}: negative ids, and ids of 2^63 and more, "
                f"fit no integer of 64 bits together; give all ids as texts (ids='string')"
            )

    def find(self, values: Any, column: Column, table: Table, record: int) -> npt.NDArray[np.int64]:
        """The nodes of a chunk of raw ids, -1 for ids that are not in the table, int64."""
        assert self.table is not None
        try:
            ids = self.read(values, column, table, record)
        except NotIntegers:
            if self.is_text:
                raise
            raise ValueError(f"{self.why_text}, which is no integer as the other ids are") from None
        if not self.is_text:
            return self.table.find_integers(ids)
        return self._find_texts(ids)

    def _find_texts(self, texts: Any) -> npt.NDArray[np.int64]:
        assert self.table is not None
        encoded = texts.dictionary_encode()
        found = self.table.find_texts(*bytes_of(encoded.dictionary))
        nodes: npt.NDArray[np.int64] = found[encoded.indices.to_numpy()]
        return nodes

    def count(self) -> int:
        """Nodes."""
        assert self.table is not None
        return len(self.table)

    def shown(self, node: int) -> str:
        """The user's id of a node, for messages."""
        assert self.table is not None
        return self.table.shown(node)

    def told(self) -> str:
        """What became of the ids, in words."""
        assert self.table is not None
        return self.table.described()

    def close(self) -> None:
        """Unmaps the table."""
        if self.table is not None:
            self.table.close()


class MappedTable:
    """A table whose ids are translated to the nodes that have them.

    Parameters
    ----------
    table : Table
    ids : mapping of int to NodeIds
        By the position of a column.
    """

    def __init__(self, table: Table, ids: Mapping[int, NodeIds]) -> None:
        self.name = table.name
        self.names = table.names
        self.width = table.width
        self.num_records = table.num_records
        self.dtypes = table.dtypes
        self.first_record = table.first_record
        self._table = table
        self._ids = ids

    def locate(self, record: int) -> str:
        """Where a record (from 0) is, in words."""
        return self._table.locate(record)

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns."""
        wanted = [column.raw() if column.is_id else column for column in columns]
        record = 0
        for chunk in self._table.chunks(wanted, max(1, min(max_records, _MAX_RECORDS))):
            yield tuple(
                self._nodes(values, column, record) if column.is_id else values
                for values, column in zip(chunk, columns, strict=True)
            )
            record += len(chunk[0])

    def _nodes(self, values: Any, column: Column, record: int) -> npt.NDArray[Any]:
        nodes = self._ids[column.index].find(values, column, self, record)
        if len(nodes) and nodes.min() < 0:
            place = self.locate(record + int(nodes.argmin()))
            raise ValueError(f"{self.name}, {place}: it has changed while it was read")
        return nodes.astype(column.dtype)


def _read_all(
    sources: Iterable[IdSource],
    ids: Mapping[str, NodeIds],
    found: Mapping[str, DistinctIntegers | DistinctTexts],
    max_records: int,
    progress: Progress,
) -> str | None:
    """Adds all ids to `found`; returns the type of nodes whose ids are texts unexpectedly."""
    for source in sources:
        columns = [column.raw() for column, _ in source.columns]
        with progress.phase("reading ids", source.table.num_records, "records") as advance:
            record = 0
            for chunk in source.table.chunks(columns, max_records):
                for values, column, (_, name) in zip(chunk, columns, source.columns, strict=True):
                    try:
                        some = ids[name].read(values, column, source.table, record)
                    except NotIntegers:
                        return name
                    taker = found[name]
                    if isinstance(taker, DistinctIntegers):
                        ids[name].note_range(some, source.table, record)
                    taker.add(some)
                record += len(chunk[0])
                advance(len(chunk[0]))
    return None


def _write_table(
    path: Path, distinct: DistinctIntegers | DistinctTexts, staged: list[FileWriter]
) -> IdTable:
    file = distinct.write(path)
    staged.append(file)
    table = IdTable(file.staged.staged_path)
    if len(table) > MAX_NODES:
        count = len(table)
        table.close()
        raise ValueError(f"there are {count:,} different ids, more than the limit of 2^32 nodes")
    return table


def collect_ids(
    paths: Mapping[str, Path],
    sources: Sequence[IdSource],
    kind: IdKind,
    memory: int,
    progress: Progress,
    staged: list[FileWriter],
) -> dict[str, NodeIds]:
    """Reads all ids once, and writes the table of each node type.

    With the kind "map", ids are integers if every id of the type is one, or the text of one as
    Python writes it. Else all of them are read again, as texts.

    Parameters
    ----------
    paths : mapping of str to Path
        Final path of the table of each node type.
    sources : sequence of IdSource
    kind : {"map", "integer", "string"}
    memory : int
        Bytes.
    progress : Progress
    staged : list of FileWriter
        Extended by the tables, sealed.

    Returns
    -------
    dict of str to NodeIds
        To be closed.

    Raises
    ------
    ValueError
        Naming the file and the place of a wrong id.
    OSError
        If a file cannot be read, or the disk is full.
    """
    ids = {name: NodeIds(kind, kind == "string") for name in paths}
    share = memory // max(1, len(paths))
    max_records = max(256, min(_MAX_RECORDS, memory // (4 * _RECORD_BYTES)))
    while True:
        found: dict[str, DistinctIntegers | DistinctTexts] = {}
        try:
            for name, path in paths.items():
                taker = DistinctTexts if ids[name].is_text else DistinctIntegers
                found[name] = taker(path.parent, share)
            text = _read_all(sources, ids, found, max_records, progress)
            if text is None:
                for name, path in paths.items():
                    ids[name].table = _write_table(path, found[name], staged)
                return ids
            ids[text].is_text = True
            for one in ids.values():
                one.ranges.clear()
        except BaseException:
            for one in ids.values():
                one.close()
            raise
        finally:
            for distinct in found.values():
                distinct.close()
