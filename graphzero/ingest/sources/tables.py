"""Tables from files, one or several, and from objects in memory."""

from __future__ import annotations

import errno
import glob
import importlib
import itertools
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, Literal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs

from graphzero.ingest.options import Source, as_source
from graphzero.ingest.sources.arrow_table import open_frame, open_ipc, open_parquet
from graphzero.ingest.sources.columns import (
    CONTAINERS,
    JoinedTable,
    Part,
    Table,
    is_array_file,
    is_frame,
)
from graphzero.ingest.sources.text_table import (
    ANY_HEADER,
    HeaderRule,
    TextTable,
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


class RemoteFile:
    """A file on a store of pyarrow's or fsspec's file systems; for readers it is as a path."""

    def __init__(self, filesystem: pa.fs.FileSystem, place: str, url: str) -> None:
        path = PurePosixPath(place)
        self.suffix, self.with_suffix = path.suffix, path.with_suffix
        self._filesystem, self._place, self._url = filesystem, place, url

    def __str__(self) -> str:
        return self._url

    def open(self, *_: object, **__: object) -> pa.NativeFile:
        """The file, which can be sought in."""
        return self._filesystem.open_input_file(self._place)


FileNames = str | os.PathLike[str]
# Files (also `RemoteFile`), with what their folders say of their records, by name.
Files = dict[Any, dict[str, str]]


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
    selector = pa.fs.FileSelector(place, recursive=True, allow_not_found=True)
    infos = filesystem.get_file_info(selector)
    inside = [PurePosixPath(info.path) for info in infos if info.is_file]
    files: Files = {}
    for path, cells in _of_folder(folder, inside, url).items():
        # of an address, a PurePath has lost one slash
        inner = f"{place.rstrip('/')}/{path.relative_to(folder)}"
        address = f"{scheme}://{inner.partition('://')[2] or inner}"
        files[RemoteFile(filesystem, inner, address)] = cells
    return files


def _is_pattern(value: FileNames) -> bool:
    return bool(_MAGIC.search(os.fspath(value))) and not os.path.exists(value)


def _natural(path: PurePath) -> tuple[list[list[int | str]], str]:
    """Key by which part-2 comes before part-10."""
    pieces = [re.split(r"(\d+)", name) for name in path.parts]
    numbered = [
        [int(piece) if i % 2 else piece for i, piece in enumerate(of_name)] for of_name in pieces
    ]
    return numbered, path.as_posix()


def kind_of(path: PurePath) -> str:
    """The end of a name without that of compression; the first of those that mean the same."""
    suffix = without_compression(path).suffix.lower()
    for same in (PARQUET_SUFFIXES, ARROW_SUFFIXES):
        if suffix in same:
            return same[0]
    return suffix


def _of_folder(folder: PurePath, paths: Iterable[PurePath], name: str) -> Files:
    """The files of records among those inside a folder, in natural order of their paths."""
    inside = sorted((path.relative_to(folder) for path in paths), key=_natural)
    for foreign, what in _FOREIGN.items():
        if any(foreign in path.parts[:1] for path in inside):
            raise ValueError(f"{name} {what}")
    of_records = [
        path
        for path in inside
        if path.name not in _MARKERS
        and path.suffix != ".crc"
        and not any(part.startswith(".") for part in path.parts)
    ]
    if not of_records:
        raise FileNotFoundError(errno.ENOENT, "There is no file of records", name)
    return {folder / path: _partition(path) for path in of_records}


def _partition(path: PurePath) -> dict[str, str]:
    """What folders such as ``year=2020`` say, by name."""
    matches = filter(None, map(_PARTITION.fullmatch, path.parts[:-1]))
    return {match[1]: unquote(match[2]) for match in matches}


def table_files(value: FileNames | Sequence[FileNames]) -> Files:
    """The files of a path, a URL, or a list of paths: of files, folders and patterns.

    Those of folders and patterns such as ``**/*.parquet`` are in natural order of their paths:
    part-2 comes before part-10. A list has its own order. Each has what its folders, such as
    ``year=2020``, say of its records.
    """
    if not isinstance(value, str | os.PathLike):
        files = _of_list(value)
    elif is_url(str(value)):
        files = _remote_files(str(value))
    elif _is_pattern(value):
        fixed = itertools.takewhile(lambda part: not _MAGIC.search(part), Path(value).parts)
        matching = map(Path, glob.iglob(os.fspath(value), recursive=True))
        files = _of_folder(Path(*fixed), (p for p in matching if p.is_file()), str(value))
    elif os.path.isdir(value):
        inside = (Path(parent, name) for parent, _, names in os.walk(value) for name in names)
        files = _of_folder(Path(value), inside, str(value))
    else:
        return {Path(value): {}}
    first = next(iter(files))
    for path in files:
        if kind_of(path) != kind_of(first):
            raise ValueError(
                f"{path} and {first} are files of several kinds: give those to read as a pattern, "
                f"such as '*{kind_of(first)}', or as a list"
            )
    return files


def _of_list(values: Sequence[FileNames]) -> Files:
    """The files of all values, with what the folders that they do not share say."""
    several = [pair for value in values for pair in table_files(value).items()]
    real = [os.path.realpath(str(path)) for path, _ in several]
    for path, again in itertools.pairwise(sorted(real)):
        if path == again:
            raise ValueError(f"{path} is in the list of files twice: leave one out")
    places = [Path(os.path.abspath(str(path))) for path, _ in several]
    base = os.path.commonpath([place.parent for place in places])
    files: Files = {}
    for (path, cells), place in zip(several, places, strict=True):
        files[path] = {**_partition(place.relative_to(base)), **cells}
    return files


# --- several tables as one


def _with_folders(table: Table, cells: Mapping[str, str]) -> Table:
    """A table with what its folders say as further columns, unless it has such columns."""
    if not cells:
        return table
    if table.names is None:
        raise ValueError(
            f"{table.name} has no header, and its columns no names beside {', '.join(cells)}, "
            f"of which its folder is a partition: give the files as a list"
        )
    more = {name: cell for name, cell in cells.items() if name not in table.names}
    part = Part(table, [*range(table.width), *more.values()])
    return JoinedTable(table.name, [part], names=[*table.names, *more], of_folders=tuple(more))


def _order(table: Table, first: Table) -> list[int]:
    """Positions of a table's columns in the order of the first table's."""
    names, wanted = table.names, first.names
    same = (names is None) == (wanted is None) and table.width == first.width
    if not same or (names is not None and sorted(names) != sorted(wanted or ())):
        raise ValueError(
            f"{first.name} has {first.described}, but {table.name} has {table.described}: "
            f"the files of one table must have the same columns"
        )
    if names is None or list(names) == list(wanted or ()):
        return list(range(table.width))
    if len(set(names)) < len(names):
        raise ValueError(f"{table.name} has {table.described}: two have one name")
    return [list(names).index(name) for name in wanted or ()]


# --- which kind of table a value is


def is_table(value: object) -> bool:
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
    rule: HeaderRule = ANY_HEADER,
    *,
    of: Literal["node", "edge"] = "node",
    once: bool = False,
) -> Table:
    """The records of one file or several, or of an object in memory, for which `is_table` holds.

    Parameters
    ----------
    source : Source, path, list of paths, or object
        A path may be that of a folder, or a pattern.
    rule : HeaderRule
        What is a header of text, unless the source says it.
    of : {"node", "edge"}
        What a record belongs to.
    once : bool
        Whether the records are read once only. Otherwise a stream is spooled.
    """
    source = as_source(source)
    value = source.value
    is_files = isinstance(value, str | os.PathLike | list | tuple)
    files: Files = table_files(value) if is_files else {}
    rule = _with_source(rule, source)
    tables: list[Table] = [_open_file(path, source.delimiter, rule) for path in files]
    tables = tables or [open_frame(value, of, once=once)]
    for table in tables:
        if not isinstance(table, TextTable) and (source.header, source.delimiter) != ("auto",) * 2:
            raise ValueError(f"header= and delimiter= are for text files, not for {table.name}")
    for at, cells in enumerate(files.values()):
        tables[at] = _with_folders(tables[at], cells)
    if len(tables) == 1:
        return tables[0]
    name = f"{len(tables)} files" if isinstance(value, list | tuple) else os.fspath(value)
    first = tables[0]
    parts = [Part(table, _order(table, first)) for table in tables]
    return JoinedTable(name, parts, names=first.names, of_folders=first.of_folders)


def _with_source(rule: HeaderRule, source: Source) -> HeaderRule:
    """A rule with what the user says of the header, or names as if there is one."""
    columns = (source.src, source.dst, source.id_column, source.columns)
    if isinstance(source.header, bool):
        return replace(rule, says=source.header)
    if rule.text_ids and any(isinstance(column, str) for column in columns):
        return replace(rule, says=True)
    return rule


def _open_file(path: Path, delimiter: str, rule: HeaderRule) -> Table:
    note_input(path)
    with path.open("rb"):  # for an error with errno and name, whoever opens it next
        pass
    if without_compression(path).suffix.lower() in TEXT_SUFFIXES:
        return TextTable(path, delimiter=delimiter, rule=rule)
    if path.suffix.lower() in PARQUET_SUFFIXES:
        return open_parquet(path)
    if path.suffix.lower() in ARROW_SUFFIXES:
        return open_ipc(path)
    raise ValueError(
        f"{path}: the name does not end in {', '.join(TEXT_SUFFIXES)} (or one of them and .gz, "
        f".zst, .bz2 or .xz), {', '.join(PARQUET_SUFFIXES + ARROW_SUFFIXES)}, .npy, "
        f"{', '.join(CONTAINERS)}"
    )


# --- the files of a build must be the same from its beginning to its end


def _state(path: str) -> tuple[int, ...] | None:
    """What changes with the content of a regular file; None for anything else."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
    return state if stat.S_ISREG(status.st_mode) else None


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


def note_input(path: object) -> None:
    """Notes a file that is opened, if a build asks for it."""
    if (inputs := _inputs.get()) is not None:
        inputs.setdefault(str(path), _state(str(path)))
