"""Tables from files, one or several, and from objects in memory."""

from __future__ import annotations

import errno
import glob
import importlib
import itertools
import os
import re
import stat
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Literal
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.fs

from graphzero.ingest.options import as_source
from graphzero.ingest.sources.arrow_table import open_frame, open_ipc, open_parquet
from graphzero.ingest.sources.table import (
    CONTAINERS,
    Chunk,
    Column,
    Table,
    checked,
    columns_of,
    is_array_file,
    is_frame,
)
from graphzero.ingest.sources.text_table import (
    TEXT_IDS,
    WHITESPACE,
    CsvTable,
    without_compression,
)
from graphzero.units import is_url

TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".edges", ".edgelist", ".el")
PARQUET_SUFFIXES = (".parquet", ".parq", ".pq")
ARROW_SUFFIXES = (".arrow", ".arrows", ".ipc", ".feather")

# What Spark, Dask and others write beside the data.
_MARKERS = {"_SUCCESS", "_metadata", "_common_metadata", "_started", "_committed"}
_MAGIC = re.compile(r"[*?[]")
_PARTITION = re.compile(r"([^=/]+)=(.*)")
_FOREIGN = {
    "_delta_log": "is a Delta table, which may hold records that were deleted: write it as Parquet",
    ".hoodie": "is a Hudi table, which may hold records that were deleted: write it as Parquet",
    "_temporary": "has a folder _temporary: the job that writes it has not finished",
}


# Paths, with what their folders say of their records, by name.
Files = dict[Any, dict[str, str]]


class RemoteFile:
    """A file on a store of pyarrow's or fsspec's file systems; for readers it is as a path."""

    def __init__(self, filesystem: pa.fs.FileSystem, place: str, url: str) -> None:
        path = PurePosixPath(place)
        self.suffix, self.with_suffix = path.suffix, path.with_suffix
        self._filesystem, self._place, self._url = filesystem, place, url

    def __str__(self) -> str:
        return self._url

    def open(self, *_: Any, **__: Any) -> pa.NativeFile:
        """The file, which can be sought in."""
        return self._filesystem.open_input_file(self._place)


def _remote_files(url: str) -> Files:
    """One file, or those of a folder."""
    try:
        filesystem, place = pa.fs.FileSystem.from_uri(url)
    except pa.ArrowInvalid:  # not a store that pyarrow has
        fsspec = importlib.import_module("fsspec")
        of_fsspec, place = fsspec.core.url_to_fs(url)
        filesystem = pa.fs.PyFileSystem(pa.fs.FSSpecHandler(of_fsspec))
    scheme, folder = url.partition("://")[0], PurePosixPath(place)
    if filesystem.get_file_info(place).is_file:
        return {RemoteFile(filesystem, place, url): {}}
    chosen = pa.fs.FileSelector(place, recursive=True, allow_not_found=True)
    listed = [PurePosixPath(one.path) for one in filesystem.get_file_info(chosen) if one.is_file]
    found = _of_folder(folder, listed, url)  # of an address, a PurePath has lost one slash
    places = [f"{place.rstrip('/')}/{path.relative_to(folder)}" for path in found]
    files = (
        RemoteFile(filesystem, at, f"{scheme}://{at.partition('://')[2] or at}") for at in places
    )
    return dict(zip(files, found.values(), strict=True))


def _is_pattern(value: str | os.PathLike[str]) -> bool:
    return bool(_MAGIC.search(os.fspath(value))) and not os.path.exists(value)


def _natural(path: PurePath) -> tuple[list[list[Any]], str]:
    """Key by which part-2 comes before part-10."""
    names = [re.split(r"(\d+)", name) for name in path.parts]
    return [
        [int(piece) if i % 2 else piece for i, piece in enumerate(name)] for name in names
    ], path.as_posix()


def kind_of(path: PurePath) -> str:
    """The end of a name without that of compression; the first of those that mean the same."""
    suffix = without_compression(path).suffix.lower()
    return next((each[0] for each in (PARQUET_SUFFIXES, ARROW_SUFFIXES) if suffix in each), suffix)


def _of_folder(folder: PurePath, paths: Iterable[PurePath], name: str) -> Files:
    """The files of records among those inside a folder, in natural order of their paths."""
    inside = sorted((path.relative_to(folder) for path in paths), key=_natural)
    for foreign, what in _FOREIGN.items():
        if any(foreign in path.parts[:1] for path in inside):
            raise ValueError(f"{name} {what}")
    found = [
        path
        for path in inside
        if path.name not in _MARKERS
        and path.suffix != ".crc"
        and not any(part.startswith(".") for part in path.parts)
    ]
    if not found:
        raise FileNotFoundError(errno.ENOENT, "There is no file of records", name)
    return {folder / path: _partition(path) for path in found}


def _partition(path: PurePath) -> dict[str, str]:
    """What folders such as ``year=2020`` say, by name."""
    matches = filter(None, map(_PARTITION.fullmatch, path.parts[:-1]))
    return {match[1]: unquote(match[2]) for match in matches}


def files_of(value: Any) -> Files:
    """The files of a path, a URL, or a list of paths: of files, folders and patterns.

    Those of folders and patterns such as ``**/*.parquet`` are in natural order of their paths:
    part-2 comes before part-10. A list has its own order. Each has what its folders, such as
    ``year=2020``, say of its records.
    """
    if isinstance(value, list | tuple):
        several = [one for each in value for one in files_of(each).items()]
        real = [os.path.realpath(str(path)) for path, _ in several]
        for path, again in itertools.pairwise(sorted(real)):
            if path == again:
                raise ValueError(f"{path} is in the list of files twice: leave one out")
        places = [Path(os.path.abspath(str(path))) for path, _ in several]
        base = os.path.commonpath([place.parent for place in places])
        among = (_partition(place.relative_to(base)) for place in places)
        found = {path: {**more, **own} for (path, own), more in zip(several, among, strict=True)}
    elif is_url(str(value)):
        found = _remote_files(str(value))
    elif _is_pattern(value):
        fixed = itertools.takewhile(lambda part: not _MAGIC.search(part), Path(value).parts)
        matching = map(Path, glob.iglob(os.fspath(value), recursive=True))
        found = _of_folder(Path(*fixed), (p for p in matching if p.is_file()), str(value))
    elif os.path.isdir(value):
        inside = (Path(parent, name) for parent, _, names in os.walk(value) for name in names)
        found = _of_folder(Path(value), inside, str(value))
    else:
        return {Path(value): {}}
    first = next(iter(found))
    for path in found:
        if kind_of(path) != kind_of(first):
            raise ValueError(
                f"{path} and {first} are files of several kinds: give those to read as a pattern, "
                f"such as '*{kind_of(first)}', or as a list"
            )
    return found


# --- several files as one table

_INTEGER = re.compile(r"-?[0-9]{1,18}")


class PartitionTable(Table):
    """The records of a file, and what the names of its folders say of all of them.

    That is further columns, unless the file has such columns.
    """

    def __init__(self, table: Table, cells: dict[str, str]) -> None:
        if table.names is None:
            raise ValueError(
                f"{table.name} has no header, and its columns no names beside {', '.join(cells)}, "
                f"of which its folder is a partition: give the files as a list"
            )
        more = {key: cell for key, cell in cells.items() if key not in table.names}
        self._table, self._cells = table, list(more.values())
        self.name, self.first_record = table.name, table.first_record
        self.num_records = table.num_records
        self.names, self.of_folders = (*table.names, *more), tuple(more)
        self.width = len(self.names)

    @property
    def dtypes(self) -> Sequence[np.dtype[Any] | None] | None:
        """Of the columns: integers, where the name of the folder is one."""
        more = [np.dtype(np.int64) if _INTEGER.fullmatch(cell) else None for cell in self._cells]
        return None if self._table.dtypes is None else [*self._table.dtypes, *more]

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns."""
        own = [column for column in columns if column.index < self._table.width]
        own = own or [Column(0, "record", np.dtype(object))]  # for the number of records
        for chunk in self._table.chunks(own, max_records):
            count, values = len(chunk[0]), iter(chunk)
            yield tuple(
                next(values) if column in own else self._filled(column, count) for column in columns
            )

    def locate(self, record: int) -> str:
        """Where a record is in the file."""
        return self._table.locate(record)

    def _filled(self, column: Column, count: int) -> Any:
        cell = self._cells[column.index - self._table.width]
        if column.is_raw:
            return pa.repeat(pa.scalar(cell, pa.large_string()), count)
        if not _INTEGER.fullmatch(cell):
            raise ValueError(f"{self.name}: {cell!r}, its folder, is not {column.expected()}")
        return checked(np.full(count, int(cell)), column, self, 0)


class PartTable(Table):
    """The records of several tables, one after the other.

    Columns are matched by name where there are names, in any order.
    """

    def __init__(self, name: str, tables: Sequence[Table]) -> None:
        first = tables[0]
        self.name, self.names, self.width = name, first.names, first.width
        self._tables, self.of_folders = tables, first.of_folders
        self._orders = [_order(table, first) for table in tables]
        counts = [table.num_records for table in tables]
        self.num_records = None if None in counts else sum(count or 0 for count in counts)
        records = (table.first_record for table in tables)
        self.first_record = next((one for one in records if one is not None), None)
        self._starts = [0]

    @property
    def dtypes(self) -> Sequence[np.dtype[Any] | None] | None:
        """Of the columns, those that hold the numbers of all files."""
        if self._tables[0].dtypes is None:
            return None
        return [
            _common([(table.dtypes or ())[order[i]] for table, order in self._pairs()])
            for i in range(self.width)
        ]

    def _pairs(self) -> Iterator[tuple[Table, list[int]]]:
        return zip(self._tables, self._orders, strict=True)

    def locate(self, record: int) -> str:
        """The file of a record, and where it is in there."""
        at = bisect_right(self._starts, record) - 1
        table = self._tables[at]
        return f"{table.name}, {table.locate(record - self._starts[at])}"

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, file by file."""
        record = 0
        for at, (table, order) in enumerate(self._pairs()):
            self._starts[at:] = [record]
            asked = [replace(column, index=order[column.index]) for column in columns]
            for chunk in table.chunks(asked, max_records):
                yield chunk
                record += len(chunk[0])


def _common(kinds: Sequence[np.dtype[Any] | None]) -> np.dtype[Any] | None:
    """The dtype that holds the numbers of all; None if one has none."""
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        return None
    # Lists of other lengths are found where they are read.
    shape = next((kind.shape for kind in known if kind.shape != (0,)), known[0].shape)
    return np.dtype((np.result_type(*(kind.base for kind in known)), shape))


def _order(table: Table, first: Table) -> list[int]:
    """Positions of a table's columns in the order of the first table's."""
    names, wanted = table.names, first.names
    same = (names is None) == (wanted is None) and table.width == first.width
    if not same or (names is not None and sorted(names) != sorted(wanted or ())):
        raise ValueError(
            f"{first.name} has {columns_of(first)}, but {table.name} has {columns_of(table)}: "
            f"the files of one table must have the same columns"
        )
    if names is None or list(names) == list(wanted or ()):
        return list(range(table.width))
    if len(set(names)) < len(names):
        raise ValueError(f"{table.name} has {columns_of(table)}: two have one name")
    return [list(names).index(name) for name in wanted or ()]


# --- which kind of table a value is


def is_table(value: Any) -> bool:
    """Whether `open_table` opens a value; everything else is an array, or several of them.

    Paths are tables but for those of arrays, and so are lists of files, folders and patterns, and
    frames in memory.
    """
    if isinstance(value, list | tuple):
        return bool(value) and all(
            isinstance(part, str | os.PathLike)
            and is_table(part)
            and (Path(part).suffix or os.path.isdir(part) or _is_pattern(part))
            for part in value
        )
    if isinstance(value, str | os.PathLike):
        return os.path.isdir(value) or not is_array_file(value)
    return is_frame(value)


def open_table(
    source: Any,
    *,
    strict: bool = False,
    of: Literal["node", "edge"] = "node",
    text_ids: bool = False,
    once: bool = False,
) -> Table:
    """The records of one file or several, or of an object in memory, for which `is_table` holds.

    Parameters
    ----------
    source : Source, path, list of paths, or object
        A path may be that of a folder, or a pattern.
    strict : bool
        Whether a header of text may not have any numeric cell: see `CsvTable`.
    of : {"node", "edge"}
        What a record belongs to.
    text_ids : bool
        Whether ids may be texts, so that a record can look like a header.
    once : bool
        Whether the records are read once only. Otherwise a stream is spooled.
    """
    source = as_source(source)
    value, header = source.value, source.header
    if text_ids and header == "auto":
        named = (source.src, source.dst, source.id_column, source.columns)
        header = True if any(isinstance(one, str) for one in named) else TEXT_IDS
    text = {"delimiter": source.delimiter, "header": header, "strict": strict}
    is_files = isinstance(value, str | os.PathLike | list | tuple)
    files: Files = files_of(value) if is_files else {}
    tables: list[Table] = [_open_file(path, text) for path in files]
    tables = tables or [open_frame(value, of, once=once)]
    for table in tables:
        if not isinstance(table, CsvTable) and (source.header, source.delimiter) != ("auto",) * 2:
            raise ValueError(f"header= and delimiter= are for text files, not for {table.name}")
    for at, cells in enumerate(files.values()):
        tables[at] = PartitionTable(tables[at], cells) if cells else tables[at]
    if len(tables) == 1:
        return tables[0]
    name = f"{len(tables)} files" if isinstance(value, list | tuple) else os.fspath(value)
    return PartTable(name, tables)


def _open_file(path: Path, text: dict[str, Any]) -> Table:
    note_input(path)
    with path.open("rb"):  # for an error with errno and name, whoever opens it next
        pass
    if without_compression(path).suffix.lower() in TEXT_SUFFIXES:
        return CsvTable(path, **text)
    if path.suffix.lower() in PARQUET_SUFFIXES:
        return open_parquet(path)
    if path.suffix.lower() in ARROW_SUFFIXES:
        return open_ipc(path)
    raise ValueError(
        f"{path}: the name does not end in {', '.join(TEXT_SUFFIXES)} (or one of them and .gz, "
        f".zst, .bz2 or .xz), {', '.join(PARQUET_SUFFIXES + ARROW_SUFFIXES)}, .npy, "
        f"{', '.join(CONTAINERS)}"
    )


def commented_names(table: Table) -> list[str] | None:
    """The names that the comment above a text table without a header may have; None without one."""
    if not isinstance(table, CsvTable) or table.names is not None:
        return None
    names = table.comment.split(None if table.delimiter in (" ", WHITESPACE) else table.delimiter)
    return names if len(names) == table.width else None


# --- the files of a build must be the same from its beginning to its end


def _state(path: str) -> tuple[int, ...] | None:
    """What changes with the content of a regular file; None for anything else."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return None
    state = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    return state if stat.S_ISREG(found.st_mode) else None


class InputFiles(dict[str, tuple[int, ...] | None]):
    """The state that files had when a build first opened them, by path."""

    def require_unchanged(self) -> None:
        """Raises an error if a file has other content than at first, or is shorter.

        A file that is gone was read from its beginning to its end all the same: an open file keeps
        its content.

        Raises
        ------
        ValueError
            Naming the file.
        """
        for path, before in self.items():
            now = _state(path)
            if None not in (before, now) and now != before:
                raise ValueError(
                    f"{path} has changed while the build read it: build again when it is complete"
                )


_inputs: ContextVar[InputFiles | None] = ContextVar("inputs", default=None)


@contextmanager
def noting_inputs() -> Iterator[InputFiles]:
    """Notes the files that are opened meanwhile."""
    inputs = InputFiles()
    token = _inputs.set(inputs)
    try:
        yield inputs
    finally:
        _inputs.reset(token)


def note_input(path: Any) -> None:
    """Notes a file that is opened, if a build asks for it."""
    if (inputs := _inputs.get()) is not None:
        inputs.setdefault(str(path), _state(str(path)))
