"""`Table`: records of any source as a stream of checked columns; what users' values are."""

from __future__ import annotations

import errno
import mmap
import operator
import os
import re
import sys
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, SupportsIndex

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Array = npt.NDArray[Any]
DType = np.dtype[Any]
# Arrays of a piece of some columns; Arrow's arrays for texts (see `Column.is_raw`).
Chunk = tuple[Any, ...]

# The builder stores ids in 32 bits; the format itself allows more.
MAX_NODES = 1 << 32
# Ids that are translated to nodes in one step.
MAX_MAPPED_RECORDS = 1 << 18


class DecimalError(ValueError):
    """A column that began with integers, and may widen, goes on with decimals."""


class Codes(Protocol):
    """What makes numbers of cells that are none."""

    def find(self, values: Any, column: Column, table: Table, record: int) -> npt.NDArray[np.int64]:
        """The numbers of a chunk of raw cells, whose first one is that of a record."""
        ...


class NodeLookup(Protocol):
    """The nodes that the user's ids name."""

    @property
    def num_nodes(self) -> int:
        """Distinct ids."""
        ...

    def shown(self, node: int) -> str:
        """The id of a node, for messages."""
        ...

    def find(self, values: Any, column: Column, table: Table, record: int) -> npt.NDArray[np.int64]:
        """The nodes of a chunk of raw ids, whose first one is that of a record."""
        ...


@dataclass(frozen=True)
class Column:
    """One column of a table, to be read as a dtype.

    Attributes
    ----------
    index : int
    label : str
        What it holds, for messages: "source id".
    dtype : numpy.dtype
        Of lists of numbers, with their shape.
    is_id : bool
        Whether it holds node ids.
    hint : str
        What to do if its cells are not valid, for messages; "" if there is nothing to say.
    ids : NodeLookup or None
        What takes the user's ids to nodes, where they are mapped.
    codes : Codes or None
        What makes numbers of texts or dates.
    may_widen : bool
        Whether integers that turn out to be followed by decimals are read again as these.
    """

    index: int
    label: str
    dtype: DType
    is_id: bool = False
    hint: str = ""
    ids: NodeLookup | None = field(default=None, compare=False)
    codes: Codes | None = field(default=None, compare=False)
    may_widen: bool = False

    @property
    def translation(self) -> Codes | None:
        """What takes cells as they are to numbers."""
        return self.codes if self.ids is None else self.ids

    @property
    def is_raw(self) -> bool:
        """Whether values are wanted as they are: integers of any type, or texts.

        Chunks then have a NumPy array of integers, of str or of objects, or a pyarrow array.
        """
        return self.dtype == object

    def raw(self) -> Column:
        """The same column, with cells as they are."""
        return replace(self, dtype=np.dtype(object), ids=None, codes=None)

    def expected(self) -> str:
        """A valid cell, in words."""
        kind = self.dtype.base.kind
        if kind in "Obf":
            what = {"O": "a", "b": "a boolean for the", "f": "a number for the"}[kind]
            return f"{what} {self.label}{self.hint}"
        bounds = np.iinfo(self.dtype.base)
        hint = "; ids='map' takes any integers and texts" if self.is_id else self.hint
        article = "an" if self.label[0] in "aeiou" else "a"
        return f"{article} {self.label} (an integer from {bounds.min} to {bounds.max}){hint}"


def checked_count(num_nodes: SupportsIndex) -> int:
    """A number of nodes that the user gives.

    Raises
    ------
    ValueError
        If it is not an integer from 1 to 2^32.
    """
    try:
        count = operator.index(num_nodes)
    except TypeError:
        count = 0
    if isinstance(num_nodes, bool) or not 1 <= count <= MAX_NODES:
        raise ValueError(f"num_nodes={num_nodes!r} is not an integer from 1 to 2^32")
    return count


def id_column(index: int, label: str, ids: NodeLookup | None = None) -> Column:
    """A column of node ids, which are mapped if `ids` are given."""
    return Column(index, label, np.dtype("<u4"), is_id=True, ids=ids)


class Table(ABC):
    """Records with named or numbered columns, which can be read as often as needed.

    Attributes
    ----------
    name : str
        For messages.
    names : sequence of str or None
        Of the columns.
    width : int
        Columns.
    num_records : int or None
        None if it is unknown before the table is read.
    dtypes : sequence of numpy.dtype or None, or None
        Of the columns; None for text, which is parsed as it is asked for. A column without numbers
        has None. Lists of one length have a dtype with their shape; chunks have them as
        (n, length).
    first_record : sequence of str or None
        The cells of the first record, of text only.
    of_folders : sequence of str
        The names of columns that are in the names of folders, and not in the files.
    commented_names : sequence of str or None
        Of text without a header: the names that the comment above it may have.
    """

    name: str
    names: Sequence[str] | None = None
    width: int
    num_records: int | None = None
    first_record: Sequence[str] | None = None
    of_folders: Sequence[str] = ()
    commented_names: Sequence[str] | None = None

    @property
    def dtypes(self) -> Sequence[DType | None] | None:  # noqa: D102
        return None

    @abstractmethod
    def read(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, checked and converted to their dtypes; ids as they are."""

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, checked and converted to their dtypes, with mapped ids as nodes.

        Pieces have about `max_records` records.
        """
        if all(column.translation is None for column in columns):
            return self.read(columns, max_records)
        return self._mapped_chunks(columns, max(1, min(max_records, MAX_MAPPED_RECORDS)))

    def _mapped_chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        stored = [column if column.translation is None else column.raw() for column in columns]
        record = 0
        for chunk in self.read(stored, max_records):
            yield tuple(
                values
                if column.translation is None
                else column.translation.find(values, column, self, record).astype(column.dtype)
                for values, column in zip(chunk, columns, strict=True)
            )
            record += len(chunk[0])

    def locate(self, record: int) -> str:
        """Where a record (from 0) is, in words."""
        return f"record {record}"

    def index_of(self, column: object, option: str) -> int:
        """Position of a column that an option gives, by name or position.

        Raises
        ------
        ValueError
            If there is no such column, or several of that name.
        """
        if isinstance(column, bool) or not isinstance(column, str | int | np.integer):
            raise ValueError(
                f"{option}={column!r}: give the name of the column, or its position from 0"
            )
        if isinstance(column, str):
            if self.names is None:
                raise ValueError(
                    f"{self.name} has no header: give {option} as a position, not as {column!r}"
                )
            if list(self.names).count(column) != 1:
                count = "no" if column not in self.names else "more than one"
                raise ValueError(
                    f"{self.name} has {count} column {column!r} for {option}; it has "
                    f"{', '.join(self.names)}"
                )
            return list(self.names).index(column)
        if not 0 <= column < self.width:
            raise ValueError(
                f"{self.name} has {self.width} columns, so {option}={column} does not exist"
            )
        return int(column)

    def columns_named(self, wanted: frozenset[str]) -> list[int]:
        """Positions of the columns with one of the wanted names, such as `WEIGHTS`."""
        return find_names(self.names or (), wanted)

    def label(self, index: int) -> str:
        """A column in messages: its name, or its position if it has none."""
        name = self.names[index] if self.names is not None else ""
        return name if name.strip() else f"column {index}"

    @property
    def described(self) -> str:
        """Its columns, for messages."""
        if self.names is None:
            return f"{self.width} columns and no header"
        return f"the columns {', '.join(map(self.label, range(self.width)))}"


def checked(values: Array, column: Column, table: Table, record: int) -> Array:
    """Values in a column's dtype; `record` is the number of the first one."""
    dtype = column.dtype.base
    if column.is_raw or values.dtype == dtype:
        return values
    if dtype.kind == "b":
        return values.astype(np.bool_, copy=False)
    is_float = dtype.kind == "f"
    if values.dtype.kind not in ("iuf" if is_float else "iu"):
        raise ValueError(
            f"{table.name}: the {column.label} has dtype {values.dtype}, and must be "
            f"{'a number' if is_float else 'an integer'}{column.hint}"
        )
    if is_float:
        with np.errstate(over="ignore"):
            return values.astype(dtype, copy=False)
    bounds = np.iinfo(dtype)
    if len(values) and (values.min() < bounds.min or values.max() > bounds.max):
        bad = np.flatnonzero((values < bounds.min) | (values > bounds.max))[0]
        place = table.locate(record + int(bad))
        raise ValueError(f"{table.name}, {place}: {values[bad]} is not {column.expected()}")
    return values.astype(dtype, copy=False)


# --- arrays as tables

# Of several columns of a mapped file: still in memory when they are converted.
_MOST_RECORDS = 1 << 16


def require_whole(array: Array) -> None:
    """Raises an error if the file of a mapped array has become shorter: reading it would kill.

    It is checked before each piece that is read. What is cut off while a piece is read still ends
    the process, with SIGBUS; the earlier dataset is whole all the same.
    """
    if not isinstance(array, np.memmap) or array.filename is None:
        return
    mapped = getattr(array, "_mmap", None)
    try:
        size = os.stat(array.filename).st_size
    except OSError:  # a file that is gone keeps its content while it is mapped
        return
    begin = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY  # of the mapping
    if mapped is not None and size < begin + len(mapped):
        raise ValueError(
            f"{os.fspath(array.filename)} has become shorter while the build read it: build again "
            f"when it is complete"
        )


def pieces_of(array: Array, max_items: int) -> Iterator[Array]:
    """Consecutive pieces along the first axis, of max_items; the last one may be shorter."""
    for begin in range(0, len(array), max_items):
        require_whole(array)
        yield array[begin : begin + max_items]


class ArrayTable(Table):
    """Equally long arrays, a column each: of numbers, or of rows of one shape.

    Parameters
    ----------
    name : str
    columns : sequence of array
    of : str
        What a record is, for messages.
    """

    def __init__(self, name: str, columns: Sequence[Array], *, of: str = "edge") -> None:
        self.name = name
        self.columns = columns
        self.width = len(columns)
        self.num_records = columns[0].shape[0]
        self._of = of

    @property
    def dtypes(self) -> Sequence[DType]:
        """Of the columns, with the shape of their rows."""
        return [np.dtype((c.dtype.newbyteorder("<"), c.shape[1:])) for c in self.columns]

    def locate(self, record: int) -> str:
        """A record by its position from 0."""
        return f"{self._of} {record}"

    def read(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of at most max_records records."""
        step = min(max_records, _MOST_RECORDS) if self.width > 1 else max_records
        for begin in range(0, self.num_records or 0, step):
            pieces = []
            for column in columns:
                array = self.columns[column.index]
                require_whole(array)
                pieces.append(checked(array[begin : begin + step], column, self, begin))
            yield tuple(pieces)


# --- several tables as one

_INTEGER = re.compile(r"-?[0-9]{1,18}")


@dataclass(frozen=True)
class Part:
    """Records of a table, and which of its columns those of the whole are.

    Attributes
    ----------
    table : Table
    columns : sequence of int or str
        Positions in the table; a text is what all of its records have, as the name of a folder
        says.
    parsed_as : sequence of numpy.dtype, optional
        Of the columns, where they are not those of the table.
    """

    table: Table
    columns: Sequence[int | str]
    parsed_as: Sequence[DType] | None = None

    @property
    def dtypes(self) -> Sequence[DType | None] | None:
        """Of the columns: integers, where the name of a folder is one."""
        if self.parsed_as is not None:
            return self.parsed_as
        stored = self.table.dtypes
        if stored is None:
            return None
        return [
            stored[source] if isinstance(source, int) else _dtype_of_cell(source)
            for source in self.columns
        ]

    def read(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns of the whole."""
        sources = [self.columns[column.index] for column in columns]
        stored = [
            replace(column, index=source)
            for column, source in zip(columns, sources, strict=True)
            if isinstance(source, int)
        ]
        stored = stored or [Column(0, "record", np.dtype(object))]  # for the number of records
        for chunk in self.table.read(stored, max_records):
            values = iter(chunk)
            yield tuple(
                next(values)
                if isinstance(source, int)
                else self._repeated(source, column, len(chunk[0]))
                for column, source in zip(columns, sources, strict=True)
            )

    def _repeated(self, cell: str, column: Column, count: int) -> Array | pa.Array:
        if column.is_raw:
            return pa.repeat(pa.scalar(cell, pa.large_string()), count)
        if not _INTEGER.fullmatch(cell):
            raise ValueError(f"{self.table.name}: {cell!r}, its folder, is not {column.expected()}")
        return checked(np.full(count, int(cell)), column, self.table, 0)


def _dtype_of_cell(cell: str) -> DType | None:
    return np.dtype(np.int64) if _INTEGER.fullmatch(cell) else None


class JoinedTable(Table):
    """The records of one table or several, one after the other.

    Parameters
    ----------
    name : str
    parts : sequence of Part
    names : sequence of str, optional
        Of the columns.
    of_folders : sequence of str
        Those of them that are in the names of folders.
    """

    def __init__(
        self,
        name: str,
        parts: Sequence[Part],
        *,
        names: Sequence[str] | None = None,
        of_folders: Sequence[str] = (),
    ) -> None:
        self.name, self.names, self.of_folders = name, names, of_folders
        self.width = len(parts[0].columns)
        self._parts = parts
        counts = [part.table.num_records for part in parts]
        self.num_records = None if None in counts else sum(count or 0 for count in counts)
        records = (part.table.first_record for part in parts)
        self.first_record = next((record for record in records if record is not None), None)
        self._begins = [0]  # of the parts that have been read, by records

    @property
    def dtypes(self) -> Sequence[DType | None] | None:
        """Of the columns, those that hold the numbers of all parts."""
        kinds = [part.dtypes or () for part in self._parts]
        if not all(kinds):
            return None
        return [_common([of_part[i] for of_part in kinds]) for i in range(self.width)]

    def locate(self, record: int) -> str:
        """The file of a record, where there are several, and where it is in there."""
        at = bisect_right(self._begins, record) - 1
        table = self._parts[at].table
        place = table.locate(record - self._begins[at])
        return place if table.name == self.name else f"{table.name}, {place}"

    def read(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, part by part."""
        record = 0
        for at, part in enumerate(self._parts):
            self._begins[at:] = [record]
            for chunk in part.read(columns, max_records):
                yield chunk
                record += len(chunk[0])


def _common(kinds: Sequence[DType | None]) -> DType | None:
    """The dtype that holds the numbers of all; None if one has none."""
    numbers = [kind for kind in kinds if kind is not None]
    if len(numbers) < len(kinds):
        return None
    # Lists of other lengths are found where they are read.
    shape = next((kind.shape for kind in numbers if kind.shape != (0,)), numbers[0].shape)
    return np.dtype((np.result_type(*(kind.base for kind in numbers)), shape))


# --- names of columns that are recognised, in any case, with or without blanks, underscores,
# hyphens and dots; one set of them serves every kind of table

_BASES = (
    ("src", "dst"),
    ("src", "dest"),
    ("source", "target"),
    ("source", "destination"),
    ("from", "to"),
    ("head", "tail"),
)
_SUFFIXES = ("", "id", "node", "nodeid")
# Each convention: the name of sources and that of targets. Names of two conventions are not mixed.
END_PAIRS = (
    *((s + suffix, t + suffix) for suffix in _SUFFIXES for s, t in _BASES),
    ("u", "v"),
)
WEIGHTS = frozenset(["weight", "weights", "edgeweight", "edgeweights"])
TIMES = frozenset(["timestamp", "timestamps", "time", "times", "ts", "edgetime", "edgetimestamp"])
LABELS = frozenset(["label", "labels", "y", "target", "targets", "class"])
IDS = frozenset(["id", "nodeid", "node", "nid", "vertex", "vertexid"])

_SOURCES = frozenset(pair[0] for pair in END_PAIRS)
_TARGETS = frozenset(pair[1] for pair in END_PAIRS)
# The index that pandas writes without a name, also after it was read and written again.
_UNNAMED = re.compile(r"(unnamed:?\d+|indexlevel\d+)?")
_MISSING = frozenset(["na", "n/a", "#n/a", "null", "none", "nil", "-", "--", "?", "."])
_LAST_PART = re.compile(r"(?P<stem>.*?)(?P<last>\d+|[a-z])")


def _normal(name: str) -> str:
    return re.sub(r"[\s_\-.\ufeff]+", "", name).casefold()


def looks_like_name(cell: str) -> bool:
    """Whether a cell of text can be the name of a column: neither a number nor a gap."""
    text = cell.strip()
    return text.casefold() not in _MISSING and not re.match(r"[+-]?\d", text)


def is_source_name(name: str) -> bool:
    """Whether a column of this name has sources."""
    return _normal(name) in _SOURCES


def is_target_name(name: str) -> bool:
    """Whether a column of this name has targets."""
    return _normal(name) in _TARGETS


def find_names(names: Sequence[str], wanted: frozenset[str]) -> list[int]:
    """Positions of the columns with one of the wanted names, such as `WEIGHTS`."""
    return [i for i, name in enumerate(names) if _normal(name) in wanted]


def unnamed_columns(names: Sequence[str]) -> list[int]:
    """Positions of columns without a name, such as an index that pandas wrote."""
    return [i for i, name in enumerate(names) if _UNNAMED.fullmatch(_normal(name))]


_EXAMPLES = "src and dst, source and target, from and to, head and tail, u and v"


def _descends(first: str, second: str) -> bool:
    """Whether two names are numbered or lettered the other way round: b, a, or node2, node1."""
    parts = [_LAST_PART.fullmatch(_normal(name)) for name in (first, second)]
    if parts[0] is None or parts[1] is None or parts[0]["stem"] != parts[1]["stem"]:
        return False
    last = [part["last"] for part in parts if part is not None]
    if all(text.isdigit() for text in last):
        return int(last[0]) > int(last[1])
    return not any(text.isdigit() for text in last) and last[0] > last[1]


def _fit_in_order(names: Sequence[str]) -> bool:
    """Whether names of two columns say nothing against their order, source and target."""
    recognised = _SOURCES | _TARGETS | WEIGHTS | TIMES | IDS
    normal = [_normal(name) for name in names]
    odd = unnamed_columns(names) or recognised & set(normal) or normal[0] == normal[1]
    return not odd and not _descends(names[0], names[1])


def say_direction(names: Sequence[str], types: Sequence[str]) -> bool:
    """Whether names of two columns say which has the sources: as a pair that is recognised, by
    numbers or letters (a, b), or as the node types of the edges.
    """
    of_types = [{_normal(name + suffix) for suffix in _SUFFIXES} for name in types]
    return (
        is_source_name(names[0])
        or _descends(names[1], names[0])
        or all(_normal(name) in words for name, words in zip(names, of_types, strict=True))
    )


def find_ends(table: Table) -> tuple[int, int]:
    """Positions of the sources and the targets in a table with names.

    Two columns whose names say nothing are taken in order; otherwise the names must say it.

    Raises
    ------
    ValueError
        If the names do not say it, or say it in two ways.
    """
    names = table.names or ()
    normal = [_normal(name) for name in names]
    pairs = [pair for pair in END_PAIRS if pair[0] in normal and pair[1] in normal]
    if len(pairs) == 1 and all(normal.count(word) == 1 for word in pairs[0]):
        return normal.index(pairs[0][0]), normal.index(pairs[0][1])
    if not pairs and len(names) == 2 and _fit_in_order(names):
        return 0, 1
    raise ValueError(
        f"{table.name} has {table.described}, and not one pair of names that is recognised "
        f"({_EXAMPLES}): say which two columns are meant with src= and dst=, by name or by "
        f"position from 0"
    )


# --- what a value of the user is


@contextmanager
def reading(name: object, what: str) -> Iterator[None]:
    """Turns what readers raise for a damaged file, which is of many kinds, into one error."""
    try:
        yield
    except Exception as error:
        # Python's parser, of a header: no message, or since 3.12 "Parser stack overflowed"
        if isinstance(error, MemoryError) and error.args and "Parser" not in str(error):
            raise
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise OSError(error.errno, error.strerror, str(error.filename or name)) from None
        reason = str(error)[:400] or type(error).__name__
        raise ValueError(f"{name} is not a complete {what}: {reason}") from None


CONTAINERS = (".npz", ".pt", ".pth", ".safetensors")
_ARRAY_SUFFIXES = (".npy", ".gl", ".gd", *CONTAINERS)
_WITH_MEMBER = re.compile(r"(.*?(?:\.npz|\.pth?|\.safetensors)):(.+)", re.I | re.S)


def split_member(path: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """A file and the name of the array in it, None where the path names no array.

    A file that has the whole name is that file, and no array of another.
    """
    text = os.fspath(path)
    match = _WITH_MEMBER.fullmatch(text)
    if match is None or os.path.exists(text):
        return Path(text), None
    return Path(match[1]), match[2]


def is_array_file(value: object) -> bool:
    """Whether a value is the path of a file of arrays, perhaps with the name of an array in it."""
    if not isinstance(value, str | os.PathLike):
        return False
    path, member = split_member(os.fspath(value))
    return member is not None or path.suffix.lower() in _ARRAY_SUFFIXES


def is_scipy(value: object) -> bool:
    """Whether a value is a sparse matrix or array of SciPy, or behaves as one."""
    return hasattr(value, "tocoo") and hasattr(value, "format") and hasattr(value, "shape")


def types_of(module: str, *kinds: str) -> tuple[type, ...]:
    """Types of a package, without importing it: who has no such object has not imported it."""
    loaded = sys.modules.get(module)
    types = (getattr(loaded, kind, None) for kind in kinds)
    return tuple(kind for kind in types if isinstance(kind, type))


def is_frame(value: object) -> bool:
    """Whether a value is a table in memory, a stream of one, or a pandas Series with its index.

    Everything with named columns that exports an Arrow stream is one: pandas, polars, relations of
    DuckDB, results of ADBC. A stream of a single series, without names, is not.
    """
    frames = (
        pa.RecordBatch,
        *types_of("pyarrow.dataset", "Dataset"),
        *types_of("pandas", "DataFrame", "Series"),
    )
    return isinstance(value, frames) or (
        hasattr(value, "__arrow_c_stream__")
        and any(hasattr(value, name) for name in ("columns", "column_names", "schema"))
    )


def without_index(value: Any) -> Any:
    """A pandas Series of ids as its values: those that a filter has left; a mask as it is."""
    is_series = isinstance(value, types_of("pandas", "Series"))
    return value.to_numpy() if is_series and value.dtype != np.bool_ else value


def is_chunks(value: object) -> bool:
    """Whether a value is an iterator of chunks, or a function that returns one."""
    return hasattr(value, "__next__") or (
        callable(value) and not hasattr(value, "shape") and not hasattr(value, "__fspath__")
    )


def chunks_of(value: Any, name: str) -> Iterator[Any]:
    """The chunks of an iterator, or of the one that a function returns."""
    chunks = value if hasattr(value, "__next__") else value()
    if not hasattr(chunks, "__iter__") or hasattr(chunks, "shape"):
        raise ValueError(
            f"{name} is a function that returns {type(chunks).__name__}, not an iterator"
        )
    yield from chunks
