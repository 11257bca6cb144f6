"""Text files as tables: their lines, their format, their records, and their bad lines."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import itertools
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any, BinaryIO, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from graphzero._core import PARSE_PADDING, PARSED_DTYPES, parse_records
from graphzero.ingest.sort import available_processors
from graphzero.ingest.sources.table import (
    IDS,
    Chunk,
    Column,
    Table,
    find_known,
    is_source_name,
    is_target_name,
    looks_like_name,
)

# --- compressed files

_KINDS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bzip2", ".xz": "xz"}
_READ_BYTES = 1 << 18
# What a dictionary of xz may take: twice what `xz -9` needs to decompress.
_XZ_MEMORY = 256 << 20
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, pa.ArrowException)


def compression_of(path: PurePath) -> str | None:
    """The kind of compression that a name ends in: "gzip", "zstd", "bzip2" or "xz"."""
    return _KINDS.get(path.suffix.lower())


def without_compression(path: PurePath) -> PurePath:
    """The name of the file inside: "edges.csv" for "edges.csv.gz"."""
    return path if compression_of(path) is None else path.with_suffix("")


def open_binary(path: Path) -> BinaryIO:
    """A file as bytes: those that are inside if its name ends in .gz, .zst, .bz2 or .xz.

    Files of several members, as ``cat a.gz b.gz`` makes them, are read to their end.
    """
    kind = compression_of(path)
    if kind is None:
        return path.open("rb", buffering=_READ_BYTES)
    return io.BufferedReader(_Checked(path, kind), _READ_BYTES)


def open_text(path: Path) -> TextIO:
    """The lines of a file, which may be compressed."""
    return io.TextIOWrapper(open_binary(path), encoding="utf-8-sig", errors="replace", newline="")


class _Checked(io.RawIOBase):
    """A stream of decompressed bytes, whose errors name the file."""

    def __init__(self, path: Path, kind: str) -> None:
        self._path = path
        self._kind = kind
        self._file: Any = path.open("rb")
        self._stream = _DECOMPRESS[kind](self._file)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except (*_DAMAGED, OSError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            raise ValueError(
                f"{self._path} is not a complete {self._kind} file: {error}. It is damaged, or "
                f"was cut short: download or compress it again"
            ) from None
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


class _Members:
    """The bytes of a bzip2 or xz file of any number of members.

    Python's own readers take whatever follows a member and is none for its end, without a word.
    """

    def __init__(self, file: BinaryIO, new: Callable[[], Any]) -> None:
        self._file = file
        self._new = new
        self._member: Any = None
        self._rest = b""

    def read(self, size: int) -> bytes:
        while True:
            if self._member is None:
                block = self._rest or self._file.read(_READ_BYTES)
                if not block:
                    return b""
                self._rest = block.lstrip(b"\0")  # padding
                if not self._rest:
                    continue
                self._member = self._new()
            data = b""
            if self._member.needs_input:
                data, self._rest = self._rest or self._file.read(_READ_BYTES), b""
                if not data:
                    raise EOFError("it ends too soon")
            out: bytes = self._member.decompress(data, size)
            if self._member.eof:
                self._rest, self._member = self._member.unused_data, None
            if out:
                return out


_new_xz = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
_DECOMPRESS: dict[str, Callable[[BinaryIO], Any]] = {
    "gzip": lambda file: gzip.GzipFile(fileobj=file),
    "zstd": lambda file: pa.CompressedInputStream(file, "zstd"),
    "bzip2": lambda file: _Members(file, bz2.BZ2Decompressor),
    "xz": lambda file: _Members(file, _new_xz),
}


# --- blocks of whole lines

_LEAST_BYTES = 16
_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")
_LONGEST_PARSED_LINE = 16 << 20
_LONGEST_LINE = 64 << 20
_TABS = bytes.maketrans(b"\t", b" ")


class LineBlocks:
    """Reads a file in blocks of whole lines, in a buffer that is used again for every block.

    Parameters
    ----------
    file : BinaryIO
        A byte order mark at its begin is left out.
    skip_lines : int
        Lines at its begin that are left out.
    block_bytes : int
        Of a block; more where a line is longer.

    Attributes
    ----------
    buffer : bytearray
        The block, from its begin; other bytes follow.
    """

    def __init__(self, file: BinaryIO, skip_lines: int, block_bytes: int) -> None:
        self.buffer = bytearray(max(block_bytes, _LEAST_BYTES) + PARSE_PADDING)
        self._file = file
        self._filled = 0
        self._ended = False
        self._skip(skip_lines)

    def fill(self) -> int:
        """Reads on; returns the bytes of whole lines, 0 at the end or before an overlong line.

        The last line gets a line feed if it has none.
        """
        while True:
            self._read()
            end = self.buffer.rfind(b"\n", 0, self._filled) + 1
            if end or self._ended or len(self.buffer) > _LONGEST_PARSED_LINE:
                return end
            self._grow()

    @property
    def has_more(self) -> bool:
        """Whether anything is left that has been read."""
        return self._filled > 0

    def take(self, count: int) -> None:
        """Drops whole lines from the block's begin: so many bytes."""
        left = self._filled - count
        self.buffer[:left] = self.buffer[count : self._filled]
        self._filled = left

    def rest(self, name: str) -> Iterator[bytes]:
        """What has not been taken, in blocks of whole lines with line ends of any kind.

        pyarrow's CSV reader is given such blocks: over a Python file of its own it comes to hang.
        """
        begun, file = bytes(self.buffer[: self._filled]), self._file
        while data := file.read(2 * _READ_BYTES):
            if data.endswith(b"\r"):
                data += file.read(1)  # of one line end
            data = begun + data
            cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
            if cut:
                yield data[:cut]
            begun = data[cut:]
            if len(begun) > _LONGEST_LINE:
                raise ValueError(f"{name} has a line longer than {_LONGEST_LINE >> 20} MiB")
        if begun:
            yield begun

    def _read(self) -> None:
        space = memoryview(self.buffer)[: len(self.buffer) - PARSE_PADDING]
        while not self._ended and self._filled < len(space):
            got = self._file.readinto(space[self._filled :])  # type: ignore[attr-defined]
            self._filled += got
            if not got:
                self._ended = True
                if self._filled and self.buffer[self._filled - 1] != ord("\n"):
                    self.buffer[self._filled] = ord("\n")
                    self._filled += 1

    def _grow(self) -> None:
        self.buffer += bytes(len(self.buffer) - PARSE_PADDING)

    def _skip(self, count: int) -> None:
        self._read()
        if self.buffer.startswith(_BOM):
            self.take(len(_BOM))
        while count:
            found = _LINE_END.search(self.buffer, 0, self._filled)
            # A line feed may follow a carriage return at the end of what has been read.
            if (found is None or found.end() == self._filled) and not self._ended:
                self._read()
                if self._filled == len(self.buffer) - PARSE_PADDING:
                    self._grow()
                    self._read()
                continue
            self.take(self._filled if found is None else found.end())
            count -= 1


def cells_between_blanks(line: str) -> list[str]:
    """The cells of a line whose columns stand apart by any number of blanks and tabs."""
    return [cell for cell in line.strip("\r\n").replace("\t", " ").split(" ") if cell]


def with_single_blanks(lines: bytes) -> bytes:
    """Whole lines with each run of blanks and tabs as one blank, and without those at line ends."""
    data = lines.translate(_TABS)
    while b"  " in data:
        data = data.replace(b"  ", b" ")
    for end in (b"\n", b"\r"):
        data = data.replace(b" " + end, end).replace(end + b" ", end)
    return data.strip(b" ")


# --- the format, by the first lines

WHITESPACE = "whitespace"  # as a delimiter: any number of blanks and tabs
# For `header`: "auto" of a table whose ids may be texts, such as ids='map' has.
TEXT_IDS = "auto, ids may be texts"
_SAMPLE_LINES = 20
_MAX_LINE = 16 << 20
_MATRIX_MARKET = (
    "is a Matrix Market file: its first numbers are sizes, and its ids begin at 1. Read it with "
    "scipy.io.mmread, and give the matrix"
)
_COMMENTS = ("#", "%")
# In this order, because fields between semicolons may hold decimal commas.
_DELIMITERS = ("\t", ";", ",")


def is_number(cell: str) -> bool:
    """Whether a cell reads as a number, nan and inf included."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def csv_records(lines: Iterable[str], delimiter: str) -> Any:
    """A reader of `csv` over lines; `delimiter` is one character, or "whitespace"."""
    if delimiter == WHITESPACE:
        single = (" ".join(cells_between_blanks(line)) + "\n" for line in lines)
        return csv.reader(single, delimiter=" ")
    return csv.reader(lines, delimiter=delimiter)


def _has_empty_column(lines: list[str]) -> bool:
    rows = [line.split("\t") for line in lines]
    return any(not any(map(str.strip, column)) for column in zip(*rows, strict=False))


def _delimiter_of(lines: list[str]) -> str:
    first = lines[0].strip()
    present = [mark for mark in _DELIMITERS if mark in first]
    between_blanks = {len(cells_between_blanks(line)) for line in lines}
    for mark in present:
        if len({line.count(mark) for line in lines}) == 1:
            # A column without any cell is none: the tabs are for the eye.
            padded = mark == "\t" and len(between_blanks) == 1 and _has_empty_column(lines)
            return WHITESPACE if padded else mark
    if (" " in first or "\t" in first) and (len(between_blanks) == 1 or not present):
        return WHITESPACE
    return present[0] if present else ","


def _is_header_of_texts(cells: list[str], strict: bool) -> bool:
    """As `_is_header` with "auto", where ids may be texts: a record is not taken for a header."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    texts = [cell for cell in filled if not is_number(cell)]
    if not texts or not all(map(looks_like_name, texts)):
        return False
    of_ids = bool(find_known(texts, IDS))
    if strict:
        known = of_ids or any(is_source_name(c) or is_target_name(c) for c in texts)
        if known or len(texts) < len(filled):
            return len(texts) == len(filled)
        raise ValueError(
            f"the first line, {','.join(cells)!r:.80}, may be a header or an edge between texts: "
            f"say header=True or header=False"
        )
    if len(texts) < len(filled):  # columns may be named 0, 1, 2, ...
        numbers = [cell for cell in filled if is_number(cell)]
        return of_ids and len(texts) == 1 and numbers == [str(i) for i in range(len(numbers))]
    return of_ids or len(cells) > 1


def _is_header(cells: list[str], header: bool | str, strict: bool) -> bool:
    if isinstance(header, bool):
        return header
    if header == TEXT_IDS:
        return _is_header_of_texts(cells, strict)
    filled = [cell for cell in cells if cell.strip()]
    texts = [cell for cell in filled if not is_number(cell)]
    # A first record with a gap or a malformed number is not taken for a header.
    if not filled or not all(looks_like_name(cell) for cell in texts):
        return False
    if len(texts) == len(filled):
        return True
    # Columns of a table may be named 0, 1, 2, ..., beside a name such as "id" or none.
    if strict or is_number(cells[0]):
        return False
    if texts:
        return len(find_known(texts, IDS)) == 1
    return filled == [str(i) for i in range(len(cells) - 1)]


def _first_lines(path: Path) -> tuple[int, str, list[str]]:
    """Lines above the header or the first record, the last comment in them, and some lines."""
    with open_text(path) as file:
        lines = iter(lambda: file.readline(_MAX_LINE), "")
        above, comment = 0, ""
        for line in lines:
            if line.startswith("%%MatrixMarket"):
                raise ValueError(f"{path} {_MATRIX_MARKET}")
            if line.strip("\r\n") and not line.startswith(_COMMENTS):
                break
            comment = line.strip("#").strip() if line.startswith("#") else comment
            above += 1
        else:
            raise ValueError(f"{path} is empty: it has no columns")
        more = [one for one in itertools.islice(lines, _SAMPLE_LINES) if one.strip("\r\n")]
    sample = [line, *more]
    if "\0" in "".join(sample):
        raise ValueError(f"{path} is not a text file")
    return above, comment, sample


# --- records

_PARSED_BYTES = 1 << 18
_NO_DELIMITERS = '0123456789+-.eE"\r\n\0'
_LEAST_BYTES, _MOST_BYTES, _BYTES_PER_RECORD = 1 << 16, 1 << 22, 8
_ARROW = {np.dtype(name): pa.type_for_alias(name) for name in (
    "int32", "int64", "uint32", "float32", "float64"
)} | {np.dtype(object): pa.string()}  # fmt: skip


class CsvTable(Table):
    """The records of a CSV file: plain ones parsed by the compiled core, all others by pyarrow.

    Its format is decided by its first lines.

    Parameters
    ----------
    path : pathlib.Path
    delimiter : str
        One character, ``"whitespace"`` for any number of blanks and tabs, or ``"auto"``: tab,
        semicolon, comma or whitespace.
    header : bool or "auto"
        With ``"auto"`` the first line is a header if it is not numeric.
    strict : bool
        Whether a header may not have any numeric cell. Then a bad first record of a table of
        numbers is an error, and is not taken for a header.

    Attributes
    ----------
    comment : str
        The last comment line above the records, without its marks; "" if there is none.
    """

    def __init__(
        self,
        path: Path,
        *,
        delimiter: str = "auto",
        header: bool | str = "auto",
        strict: bool = False,
    ) -> None:
        self.path, self.name = path, str(path)
        lines_above, self.comment, sample = _first_lines(path)
        self.delimiter = _delimiter_of(sample) if delimiter == "auto" else delimiter
        try:
            records = list(csv_records(sample, self.delimiter))
        except csv.Error as error:
            raise ValueError(f"{path}, line {lines_above + 1} or soon after it: {error}") from None
        named = _is_header(records[0], header, strict)
        body = records[1:] if named else records
        self.names = tuple(name.strip() for name in records[0]) if named else None
        self.width = len(records[0])
        self.first_record = tuple(body[0]) if body else None
        self.num_records = None if body else 0
        self._skip_lines = lines_above + named
        self._longest_line = max(len(line) for line in sample)

    def locate(self, record: int) -> str:
        """The line of a record, such as "line 7"."""
        for i, (line, _) in enumerate(self._numbered_records()):
            if i == record:
                return f"line {line}"
        raise ValueError(f"{self.name} has changed while it was read: it has no record {record}")

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of the size of a block of lines."""
        if self.first_record is None:
            return
        block_bytes = min(_MOST_BYTES, max(_LEAST_BYTES, _BYTES_PER_RECORD * max_records))
        try:
            with open_binary(self.path) as file:
                lines = LineBlocks(file, self._skip_lines, block_bytes)
                if self._is_plain(columns):
                    yield from self._plain(lines, columns)
                if lines.fill() or lines.has_more:
                    yield from self._others(lines.rest(self.name), columns)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            found = self._find_bad_line(columns)
            raise ValueError(found or f"{self.name}: {error}") from None

    def _plain(self, lines: LineBlocks, columns: Sequence[Column]) -> Iterator[Chunk]:
        """Pieces up to the first record that the core does not read, or the end."""
        while end := lines.fill():
            pieces, stop = parse_records(
                lines.buffer,
                end,
                None if self.delimiter == WHITESPACE else ord(self.delimiter),
                self.width,
                [(column.index, column.dtype) for column in columns],
                available_processors(),
            )
            yield from pieces
            lines.take(stop)
            if stop < end:
                return

    def _others(self, blocks: Iterable[bytes], columns: Sequence[Column]) -> Iterator[Chunk]:
        """Pieces of all records of a stream, by pyarrow."""
        names = [str(i) for i in range(self.width)]
        read = [names[column.index] for column in columns]
        blanks = self.delimiter == WHITESPACE
        types = {name: _ARROW[column.dtype] for name, column in zip(read, columns, strict=True)}
        options = {
            "read_options": pa.csv.ReadOptions(
                column_names=names,
                use_threads=False,
                block_size=max(_PARSED_BYTES, 8 * self._longest_line),
            ),
            "parse_options": pa.csv.ParseOptions(delimiter=" " if blanks else self.delimiter),
            "convert_options": pa.csv.ConvertOptions(
                column_types=types,
                include_columns=read,
                null_values=[],
                strings_can_be_null=False,
            ),
            # pyarrow's own pools retain freed blocks, tens of megabytes.
            "memory_pool": pa.system_memory_pool(),
        }
        for block in blocks:
            data = with_single_blanks(block) if blanks else block
            if not data.strip(b"\r\n"):  # it would be an empty file
                continue
            table = pa.csv.read_csv(pa.BufferReader(data), **options).combine_chunks()
            for batch in table.to_batches():
                yield tuple(
                    values if column.is_raw else values.to_numpy(zero_copy_only=False)
                    for values, column in zip(batch.columns, columns, strict=True)
                )

    def _is_plain(self, columns: Sequence[Column]) -> bool:
        """Whether the core reads these columns, separated by this delimiter."""
        mark = self.delimiter
        known = all(column.dtype.str in PARSED_DTYPES for column in columns)
        return known and (mark == WHITESPACE or (mark.isascii() and mark not in _NO_DELIMITERS))

    def _numbered_records(self) -> Iterator[tuple[int, list[str]]]:
        """Line number (from 1) and cells of every record, without blank lines."""
        with open_text(self.path) as file:
            for _ in range(self._skip_lines):
                file.readline()
            reader = csv_records(file, self.delimiter)
            end = self._skip_lines
            try:
                for cells in reader:
                    begin, end = end + 1, self._skip_lines + reader.line_num
                    if cells:
                        yield begin, cells
            except csv.Error as error:
                raise ValueError(f"{self.path}, line {end + 1}: {error}") from None

    def _find_bad_line(self, columns: Sequence[Column]) -> str | None:
        """What is wrong with the first bad line, in a slow second pass; None if none is bad."""
        for line, cells in self._numbered_records():
            place = f"{self.path}, line {line}"
            if len(cells) != self.width:
                mark = self.delimiter if len(self.delimiter) == 1 else " "
                text = _shorten(mark.join(cells))
                return (
                    f"{place}: {len(cells)} columns, but the first record has {self.width}: "
                    f"{text!r}"
                )
            for column in columns:
                fault = _fault(cells[column.index], column)
                if fault is not None:
                    return f"{place}: {fault}"
        return None


# --- bad cells

_INTEGER = re.compile(r"-?[0-9]+")
_SHOWN = 60


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _fault(cell: str, column: Column) -> str | None:
    text = cell.strip(" \t")
    if column.is_raw:
        if "\ufffd" in text:
            return f"'{_shorten(text)}' is no valid UTF-8"
        return None if text else f"an empty cell is not {column.expected()}"
    if column.dtype.kind == "f":
        valid = is_number(text)
    elif _INTEGER.fullmatch(text):
        bounds = np.iinfo(column.dtype)
        valid = bounds.min <= int(text[:40]) <= bounds.max
    else:
        valid = False
    if valid:
        return None
    if not text:
        return f"an empty cell is not {column.expected()}"
    return f"'{_shorten(text)}' is not {column.expected()}"
