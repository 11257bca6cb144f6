"""`ids="map"`: the user's ids of nodes are taken to 0...N-1, the order of the sorted ids."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from graphzero.ingest.options import FOR_VALUES, WriteOptions, as_source
from graphzero.ingest.rows import Rows, split_column
from graphzero.ingest.sort import TempColumn, TempFile, close_with_build
from graphzero.ingest.sources.arrays import known_names, open_id_array
from graphzero.ingest.sources.columns import (
    MAX_MAPPED_RECORDS,
    Array,
    ArrayTable,
    Column,
    Table,
    id_column,
    without_index,
)
from graphzero.ingest.sources.tables import is_table, open_table
from graphzero.ingest.sources.text_table import HeaderRule
from graphzero.store.format import FileWriter, sealed_file
from graphzero.store.id_table import IdTable, id_table_layout

# Ids of a chunk of a table: an array of NumPy, or texts of Arrow, which has no types.
RawIds = Any
# A table, and the columns of it that have ids, each with its node type.
IdColumns = tuple[Table, Sequence[tuple[Column, str]]]
MOST_TEXT_BYTES = 4096
_RECORD_BYTES = 160  # that translation needs for each id, besides the text
_LEAST_BLOCK = 16
_ORDER_MEMORY = 1 << 26
_SORT_FACTOR = 4  # bytes of scratch for each byte that is sorted
_INTEGER = "^(0|-?[1-9][0-9]{0,19})$"
_SIGN = np.uint64(1 << 63)
_NO_INTEGER = ", which is no integer as the other ids are"


# Ids of one chunk


class _BadId(Exception):
    """An id cannot be stored; with its position, and what is wrong with it."""

    def __init__(self, at: int, what: str) -> None:
        super().__init__(what)
        self.at = at


class _NotIntegers(_BadId):
    """Ids are texts, where integers were tried; with the position of one, and what it is."""


def _plain(values: RawIds) -> RawIds:
    """Ids as int64, uint64 or large_string, whatever holds them."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "OU":
        values = _arrow_array(values.tolist())
    if not isinstance(values, np.ndarray):
        if values.null_count:
            raise _BadId(pc.index(pc.is_null(values), True).as_py(), "there is no id")
        if str(values.type) in ("string", "large_string", "string_view"):
            return values.cast(pa.large_string())
        values = values.to_numpy(zero_copy_only=False)
    if values.dtype.kind not in "iu":
        raise _BadId(0, f"ids have type {values.dtype}; they must be integers or texts")
    return values.astype(np.uint64 if values.dtype.kind == "u" else np.int64, copy=False)


def _arrow_array(values: list[object]) -> pa.Array:
    """Integers of 64 bits or texts; Arrow says which value is of another kind than the first."""
    try:
        try:
            return pa.array(values, None if values else pa.int64())
        except OverflowError:
            unsigned = pa.array(values, pa.uint64())
            if unsigned.to_pylist() != values:  # Arrow has cut off fractions
                raise
            return unsigned
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        what = "here or behind it, ids are neither integers of 64 bits nor texts, all of one kind"
        raise _BadId(0, f"{what}: {error}") from None


def _parsed(texts: pa.Array) -> Array:
    """Integers of texts, which must be as Python writes integers: "007" and "7" are two ids."""
    for dtype in (pa.int64(), pa.uint64()):
        with suppress(pa.ArrowInvalid):
            integers = pc.cast(texts, dtype)
            if pc.cast(integers, pa.large_string()).equals(texts):
                numbers: Array = integers.to_numpy(zero_copy_only=False)
                return numbers
    at = pc.index(pc.match_substring_regex(texts, _INTEGER), False).as_py()
    if at < 0:  # the longest one does not fit
        at = int(np.argmax(pc.binary_length(texts)))
    raise _NotIntegers(at, f"{texts[at].as_py()!r:.80}")


def _as_texts(values: RawIds) -> pa.Array:
    """A large_binary array of UTF-8."""
    texts = _plain(values)
    if isinstance(texts, np.ndarray):
        raise _BadId(
            0,
            f"its ids have type {texts.dtype}, and others are texts: give all of them as one kind",
        )
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _BadId(0, f"its ids are no valid UTF-8 ({error})") from None
    lengths = pc.binary_length(texts)
    blank = "the id begins or ends with a blank: 'a' and 'a ' would be two nodes; remove the blank"
    long = f"the id has more than {MOST_TEXT_BYTES} bytes of UTF-8"
    for wrong, what in (
        (pc.equal(lengths, 0), "an empty text is no id"),
        (pc.greater(lengths, MOST_TEXT_BYTES), long),
        (pc.not_equal(pc.utf8_trim_whitespace(texts), texts), blank),
    ):
        at = pc.index(wrong, True).as_py()
        if at >= 0:
            raise _BadId(at, f"{texts[at].as_py()!r:.80}: {what}")
    return texts.cast(pa.large_binary())


# The distinct ids among many


def text_bytes(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint64]]:
    """The bytes of all texts of a large_binary array, and the end of each in them."""
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, np.int64, len(texts) + 1, 8 * texts.offset)
    begin, end = int(bounds[0]), int(bounds[-1])
    if begin == end:
        return np.empty(0, np.uint8), np.zeros(len(texts), np.uint64)
    ends = (bounds[1:] - begin).astype(np.uint64)
    return np.frombuffer(data, np.uint8, end - begin, begin), ends


def _distinct(pieces: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    """Each id once, ascending: texts by their bytes, integers by their bits."""
    if kind == pa.uint64():  # a sort, as a hash table is slower for integers
        keys = np.sort(np.concatenate([np.empty(0, np.uint64), *(p.to_numpy() for p in pieces)]))
        is_first = np.ones(len(keys), np.bool_)
        is_first[1:] = keys[1:] != keys[:-1]
        return pa.array(keys[is_first])
    pool = pa.system_memory_pool()
    texts = pc.unique(pa.chunked_array(pieces, kind), memory_pool=pool)
    order = pc.array_sort_indices(texts, memory_pool=pool)
    return pc.take(texts, order, memory_pool=pool)


class _Blocks:
    """Blocks of ids in a temporary file."""

    def __init__(self, folder: Path, kind: pa.DataType) -> None:
        self._file = TempFile(folder)
        self._schema = pa.schema([("ids", kind)])
        self._begins = [0]

    def __len__(self) -> int:
        return len(self._begins) - 1

    def append(self, ids: pa.Array) -> None:
        """Adds a block."""
        block = pa.record_batch([ids], schema=self._schema).serialize()
        self._file.write(np.frombuffer(block, np.uint8), self._begins[-1])
        self._begins.append(self._begins[-1] + block.size)

    def __iter__(self) -> Iterator[pa.Array]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, i: int) -> pa.Array:
        begin, end = self._begins[i], self._begins[i + 1]
        data = self._file.read(begin, end - begin, np.dtype(np.uint8))
        return pa.ipc.read_record_batch(pa.py_buffer(data), self._schema).column(0)


class _Distinct:
    """Takes ids of one type in any order, and writes each of them once, ascending.

    With `only_new`, those that its table has are left out. What is larger than the memory goes to a
    temporary file as sorted runs, which are merged.
    """

    def __init__(self, path: Path, memory: int, ids: NodeIds, *, only_new: bool) -> None:
        folder = path.parent
        self._path, self._ids, self._only_new = path, ids, only_new
        self._kind = pa.large_binary() if ids.is_text else pa.uint64()
        self._memory = memory
        self._most = max(1 << 13, memory // _SORT_FACTOR)
        self._pieces: list[pa.Array] = []
        self._bytes = 0
        self._runs, self._sorted = _Blocks(folder, self._kind), _Blocks(folder, self._kind)
        self._ends: list[int] = []  # of runs, by blocks

    def add(self, ids: RawIds) -> None:
        """Takes ids of one chunk, from `NodeIds.read`."""
        values = pa.array(ids.view(np.uint64)) if isinstance(ids, np.ndarray) else ids
        if self._only_new:
            values = values.filter(pa.array(self._ids.nodes_of(ids) < 0))
        self._pieces.append(_distinct([values], self._kind))
        self._bytes += self._pieces[-1].nbytes
        if self._bytes >= self._most:
            whole = _distinct(self._pieces, self._kind)
            self._pieces, self._bytes = [whole], whole.nbytes
            if whole.nbytes > self._most // 2:
                self._spill()

    def _spill(self) -> None:
        """Writes a run, in blocks of which a merge can have some thousand."""
        (ids,) = self._pieces
        size = max(_LEAST_BLOCK, len(ids) * (self._memory >> 12) // max(1, ids.nbytes))
        for begin in range(0, len(ids), size):
            self._runs.append(ids[begin : begin + size])
        self._ends.append(len(self._runs))
        self._pieces, self._bytes = [], 0

    def _merged(self) -> Iterator[pa.Array]:
        """All ids in ascending blocks, each once: a run has an id once."""
        several = max(1, 1024 // len(self._ends))  # so that blocks take a quarter of the memory
        at, blocks = [0, *self._ends[:-1]], [pa.array([], self._kind)] * len(self._ends)
        while True:
            for i, end in enumerate(self._ends):
                if not len(blocks[i]) and at[i] < end:
                    stop = min(end, at[i] + several)
                    blocks[i] = pa.concat_arrays([self._runs[j] for j in range(at[i], stop)])
                    at[i] = stop
            if not any(map(len, blocks)):
                return
            # The rest of a run may have ids just above the last one of its block.
            limits = [
                block[-1].as_py()
                for block, begin, end in zip(blocks, at, self._ends, strict=True)
                if begin < end
            ]
            cuts = [_count_up_to(b, min(limits)) if limits else len(b) for b in blocks]
            yield _distinct([b[:cut] for b, cut in zip(blocks, cuts, strict=True)], self._kind)
            blocks = [b[cut:] for b, cut in zip(blocks, cuts, strict=True)]

    def write(self) -> FileWriter:
        """The file of the table, sealed."""
        path, huge = self._path, self._ids.sign > 0
        self._pieces = [_distinct(self._pieces, self._kind)]
        blocks: Iterable[pa.Array] = self._pieces
        if self._ends:
            self._spill()
            for ids in self._merged():
                self._sorted.append(ids)
            blocks = self._sorted
        count = sum(map(len, blocks))
        if self._kind == pa.uint64():
            dtype = np.dtype("<u8" if huge else "<i8")
            with sealed_file(path, id_table_layout(count, dtype)) as file:
                for negative in (True, False):  # by their bits, these stand behind the others
                    for block in blocks:
                        keys = block.to_numpy()
                        is_negative = (keys >= _SIGN) & (not huge)
                        file.append("rows", keys[is_negative == negative].view(dtype))
            return file
        size = sum(len(text_bytes(block)[0]) for block in blocks)
        with sealed_file(path, id_table_layout(count, "<u8", size)) as file:
            begin = 0
            for block in blocks:
                data, ends = text_bytes(block)
                file.append("rows", ends + np.uint64(begin))
                begin += len(data)
            for block in blocks:
                file.append("text", text_bytes(block)[0])
        return file


def _count_up_to(ids: pa.Array, limit: int | bytes) -> int:
    """Of ascending ids, how many are not above a limit."""
    return bisect_right(range(len(ids)), limit, key=lambda i: ids[i].as_py())


# The table of ids, and what reads it


@dataclass
class NodeIds:
    """The distinct ids of the nodes of one type, and their table once it is written."""

    is_text: bool = False
    why_text: str = ""  # where the first text is, for messages
    sign: int = 0  # -1: some integers are negative; 1: some are 2^63 or more
    why_unknown: str = "neither edges nor attributes name it, or they have changed meanwhile"
    table: IdTable = field(init=False)  # once it is written

    def use(self, path: Path) -> None:
        """Has nodes found in a table, until the build ends."""
        self.table = table = IdTable(path)
        close_with_build(table.close)
        self.is_text = table.is_text
        if not self.is_text and len(table):
            least = table.rows[0 if table.by_id is None else table.by_id[0]]
            self.sign = 1 if table.dtype.kind == "u" else -int(least < 0)

    @property
    def num_nodes(self) -> int:
        """Distinct ids."""
        return len(self.table)

    def shown(self, node: int) -> str:
        """The id of a node, for messages."""
        return self.table.shown(node)

    def read(self, values: RawIds, column: Column, table: Table, record: int) -> RawIds:
        """A chunk of a column of raw ids, checked, as integers or as texts.

        Raises
        ------
        _NotIntegers
            If it has texts, and integers are tried: next time it is read as texts.
        ValueError
            Naming the place of a wrong id.
        """
        try:
            return _as_texts(values) if self.is_text else self._integers(values)
        except _BadId as error:
            place = f"{table.name}, {table.locate(record + error.at)}"
            if isinstance(error, _NotIntegers):
                self.is_text, self.why_text = True, f"{place} has the id {error}"
                raise
            why = f" ({self.why_text})" if self.is_text and self.why_text else ""
            raise ValueError(f"{place}: {column.label}: {error}{why}") from None

    def _integers(self, values: RawIds) -> Array:
        """int64 or uint64, which one dtype of 64 bits must hold with all others."""
        plain = _plain(values)
        ids = plain if isinstance(plain, np.ndarray) else _parsed(plain)
        if len(ids):
            at = int(ids.argmin() if ids.dtype.kind == "i" else ids.argmax())
            sign = int(ids[at]) >> 63
            if sign * self.sign < 0:
                raise _BadId(
                    at,
                    f"{ids[at]}: negative ids, and ids of 2^63 and more, fit no integer of 64 bits "
                    f"together; give all ids as texts",
                )
            self.sign = self.sign or sign
        return ids

    def find(
        self, values: RawIds, column: Column, table: Table, record: int
    ) -> npt.NDArray[np.int64]:
        """The nodes of a chunk of raw ids.

        Raises
        ------
        IndexError
            If an id is that of no node.
        """
        try:
            ids = self.read(values, column, table, record)
        except _NotIntegers:
            raise ValueError(f"{self.why_text}{_NO_INTEGER}") from None
        nodes = self.nodes_of(ids)
        if len(nodes) and nodes.min() < 0:
            at = int(nodes.argmin())
            raise IndexError(
                f"{table.name}, {table.locate(record + at)}: {values[at]!s:.80} is the id of no "
                f"node: {self.why_unknown}"
            )
        return nodes

    def nodes_of(self, ids: RawIds) -> npt.NDArray[np.int64]:
        """The nodes of ids that were read, -1 for those that the table lacks."""
        if isinstance(ids, np.ndarray):
            return self.table.find_integers(ids)
        encoded = ids.dictionary_encode()
        data, ends = text_bytes(encoded.dictionary)
        nodes: npt.NDArray[np.int64] = self.table.find_texts(data, ends)[encoded.indices.to_numpy()]
        return nodes


def nodes_in_order(rows: Rows, folder: Path) -> Array:
    """The nodes of a table with ids, by its records; in a file of the folder if they are many."""
    nodes = TempColumn(folder, np.int64, _ORDER_MEMORY)
    for (ids,) in rows.table.chunks(rows.columns[:1], MAX_MAPPED_RECORDS):
        nodes.append(ids)
    return nodes.array()


def split_nodes(value: Any, ids: NodeIds, name: str, order: Array | None = None) -> Iterator[Array]:
    """The nodes of a split that the user gave by ids, in pieces: a split as it can be written.

    With `order`, the nodes of a table, a mask may be in the order of its records.
    """
    split, source = f"split {name!r}", as_source(without_index(value))
    # A list of str has ids, not files.
    are_texts = isinstance(value, list | tuple) and all(isinstance(node, str) for node in value)
    with_columns = is_table(source.value) and not are_texts
    if order is not None and _is_mask(source.value):
        mask = np.asarray(source.value)
        if mask.shape != order.shape:
            raise ValueError(
                f"{split} is a mask of shape {mask.shape} for a table of {len(order)} nodes"
            )
        yield order[mask]
        return
    source.check_options(FOR_VALUES, split, is_table=with_columns)
    if with_columns:
        table = open_table(source, HeaderRule(text_ids=True))
        at = split_column(table, source, split, "node ids")
    else:
        array = open_id_array(source.value, split, known_names(name, "split"))
        if array.ndim != 1 or array.dtype == np.bool_:
            raise ValueError(
                f"{split} must be a list: with ids='map' nodes are numbered by their sorted ids, "
                f"which no mask or matrix can follow, but in the order of the only table of nodes; "
                f"give the ids of its nodes"
            )
        table, at = ArrayTable(split, [array], of="position"), 0
    column, record = id_column(at, "node id").raw(), 0
    yield np.empty(0, np.int64)
    for (values,) in table.chunks([column], MAX_MAPPED_RECORDS):
        yield ids.find(values, column, table, record)
        record += len(values)


def _is_mask(value: Any) -> bool:
    """Whether a value in memory is a mask: a list, an array, a tensor or a Series."""
    if isinstance(value, list | tuple):
        return bool(value) and all(isinstance(flag, bool | np.bool_) for flag in value)
    return "bool" in str(getattr(value, "dtype", ""))


def collect_ids(
    paths: Mapping[str, Path],
    ids: Mapping[str, NodeIds],
    sources: Sequence[IdColumns],
    options: WriteOptions,
    staged: list[FileWriter],
) -> None:
    """Reads all ids, and writes the table of each node type; `ids` use it from then on.

    Ids are integers if every id of the type is one, or the text of one as Python writes it. Else
    all of them are read again, as texts.

    Parameters
    ----------
    paths : mapping of str to Path
        Final path of the table of each node type.
    ids : mapping of str to NodeIds
        Of each node type.
    sources : sequence of IdColumns
    options : WriteOptions
    staged : list of FileWriter
        Extended by the tables, sealed.

    Raises
    ------
    ValueError
        Naming the file and the place of a wrong id.
    OSError
        If a file cannot be read, or the disk is full.
    """
    while True:
        try:
            collectors = _read_all(paths, ids, sources, options, only_new=False)
        except _NotIntegers:
            continue  # from the beginning, with texts
        break
    for name, collector in collectors.items():
        staged.append(collector.write())
        ids[name].use(staged[-1].staged_path)


def learn_ids(
    paths: Mapping[str, Path],
    ids: Mapping[str, NodeIds],
    sources: Sequence[IdColumns],
    options: WriteOptions,
) -> Iterator[tuple[str, FileWriter]]:
    """Reads ids, and writes a temporary table of those of each node type that its own table lacks.

    `ids` have the tables. The other parameters and errors are those of `collect_ids`.
    """
    try:
        collectors = _read_all(paths, ids, sources, options, only_new=True)
    except _NotIntegers:
        (why,) = (of_type.why_text for of_type in ids.values() if of_type.why_text)
        raise ValueError(f"{why}{_NO_INTEGER}") from None
    for name, collector in collectors.items():
        yield name, collector.write()


def _read_all(
    paths: Mapping[str, Path],
    ids: Mapping[str, NodeIds],
    sources: Sequence[IdColumns],
    options: WriteOptions,
    *,
    only_new: bool,
) -> dict[str, _Distinct]:
    """Hands all ids to a collector of their node type."""
    share = options.sort_memory // max(1, len(paths))
    collectors = {
        name: _Distinct(path, share, ids[name], only_new=only_new) for name, path in paths.items()
    }
    max_records = max(256, min(MAX_MAPPED_RECORDS, options.sort_memory // (4 * _RECORD_BYTES)))
    for table, columns in sources:
        raw, record = [column.raw() for column, _ in columns], 0
        with options.progress.phase("reading ids", table.num_records, "records") as advance:
            for chunk in table.read(raw, max_records):
                for values, column, (_, name) in zip(chunk, raw, columns, strict=True):
                    collectors[name].add(ids[name].read(values, column, table, record))
                record += len(chunk[0])
                advance(len(chunk[0]))
    return collectors
