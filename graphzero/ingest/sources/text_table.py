"""Text files as tables: their lines, their format, their records, and their bad lines."""

from __future__ import annotations

import csv
import io
import itertools
import lzma
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from graphzero._core import PARSE_PADDING, PARSED_DTYPES, parse_records
from graphzero.ingest.sources.columns import (
    IDS,
    Chunk,
    Column,
    DecimalError,
    Table,
    find_names,
    is_source_name,
    is_target_name,
    looks_like_name,
    reading,
)
from graphzero.units import available_processors

# --- compressed files

_CODECS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".xz": "xz"}
_READ_BYTES = 1 << 18
# What a dictionary of xz may take: twice what `xz -9` needs to decompress.
_XZ_MEMORY = 256 << 20


def without_compression(path: PurePath) -> PurePath:
    """The name of the file inside: "edges.csv" for "edges.csv.gz"."""
    return path.with_suffix("") if path.suffix.lower() in _CODECS else path


def open_binary(path: Path) -> io.BufferedReader:
    """A file as bytes: those that are inside if its name ends in .gz, .zst, .bz2 or .xz.

    Files of several members, as ``cat a.gz b.gz`` makes them, are read to their end.
    """
    codec = _CODECS.get(path.suffix.lower())
    file: Any = path.open("rb", buffering=0)
    return io.BufferedReader(
        file if codec is None else _Decompressed(path, file, codec), _READ_BYTES
    )


class _Decompressed(io.RawIOBase):
    """A stream of decompressed bytes, whose errors name the file."""

    def __init__(self, path: Path, file: BinaryIO, codec: str) -> None:
        self._path, self._file, self._codec = path, file, codec
        self._stream: Any = _Xz(file) if codec == "xz" else pa.CompressedInputStream(file, codec)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            with reading(self._path, f"{self._codec} file"):
                data = self._stream.read(len(buffer))
        except ValueError as error:
            raise ValueError(f"{error}: download or compress it again") from None
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Xz:
    """The bytes of an xz file of any number of members, which pyarrow does not read.

    Python's own reader takes whatever follows a member and is none for its end, without a word.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._member: Any = None
        self._rest = b""

    def read(self, size: int) -> bytes:
        while True:
            data = b""
            if self._member is None or self._member.needs_input:
                data, self._rest = self._rest or self._file.read(_READ_BYTES), b""
            if self._member is None:
                data = data.lstrip(b"\0")  # padding
                if not data:
                    return b""
                self._member = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
            elif self._member.needs_input and not data:
                raise EOFError("it ends too soon")
            out: bytes = self._member.decompress(data, size)
            if self._member.eof:
                self._rest, self._member = self._member.unused_data, None
            if out:
                return out


# --- blocks of whole lines

_LEAST_BLOCK = 16
_BOM = b"\xef\xbb\xbf"
_LONGEST_PARSED_LINE = 16 << 20
_LONGEST_LINE = 64 << 20
_TABS = bytes.maketrans(b"\t", b" ")


class LineBlocks:
    """Reads a file on in blocks of whole lines, in a buffer that is used again for every block.

    Attributes
    ----------
    buffer : bytearray
        The block, from its begin; other bytes follow. It grows where a line is longer.
    """

    def __init__(self, file: io.BufferedReader, block_bytes: int) -> None:
        self.buffer = bytearray(max(block_bytes, _LEAST_BLOCK) + PARSE_PADDING)
        self._file = file
        self._filled = 0

    def fill(self) -> int:
        """Reads on; returns the bytes of whole lines, 0 at the end or before an overlong line.

        The last line gets a line feed if it has none.
        """
        while True:
            room = len(self.buffer) - PARSE_PADDING
            self._filled += self._file.readinto(memoryview(self.buffer)[self._filled : room])
            is_end = self._filled < room
            if is_end and self._filled and self.buffer[self._filled - 1] != ord("\n"):
                self.buffer[self._filled] = ord("\n")
                self._filled += 1
            end = self.buffer.rfind(b"\n", 0, self._filled) + 1
            if end or is_end or len(self.buffer) > _LONGEST_PARSED_LINE:
                return end
            self.buffer += bytes(room)

    def take(self, count: int) -> None:
        """Drops whole lines from the block's begin: so many bytes."""
        rest = self._filled - count
        self.buffer[:rest] = self.buffer[count : self._filled]
        self._filled = rest

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
_SAMPLE_LINES = 20
_MAX_LINE = 16 << 20
_MATRIX_MARKET = (
    "is a Matrix Market file: its first numbers are sizes, and its ids begin at 1. Read it with "
    "scipy.io.mmread, and give the matrix"
)
_COMMENTS = (b"#", b"%")
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


def _delimiter_of(lines: list[str]) -> str:
    first = lines[0].strip()
    present = [mark for mark in _DELIMITERS if mark in first]
    for mark in present:
        if len({line.count(mark) for line in lines}) == 1:
            return mark
    between_blanks = {len(cells_between_blanks(line)) for line in lines}
    if (" " in first or "\t" in first) and (len(between_blanks) == 1 or not present):
        return WHITESPACE
    return present[0] if present else ","


@dataclass(frozen=True)
class HeaderRule:
    """How it is decided whether the first line of a text file has the names of its columns.

    Attributes
    ----------
    says : bool or None
        What the user says of it. None: its cells decide.
    only_texts : bool
        Whether a header may not have any numeric cell. Then a bad first record of a table of
        numbers is an error, and is not taken for a header.
    text_ids : bool
        Whether ids may be texts, so that a record can look like a header.
    """

    says: bool | None = None
    only_texts: bool = False
    text_ids: bool = False

    def is_header(self, cells: list[str], name: str) -> bool:
        """Whether the first line is a header; `name` is the file, for messages."""
        if self.says is not None:
            return self.says
        filled = [cell.strip() for cell in cells if cell.strip()]
        texts = [cell for cell in filled if not is_number(cell)]
        # A first record with a gap or a malformed number is not taken for a header.
        if not filled or not all(map(looks_like_name, texts)):
            return False
        has_id_name = bool(find_names(texts, IDS))
        if len(texts) < len(filled):
            # Columns of a table may be named 0, 1, 2, ..., beside a name such as "id" or none.
            numbers = [cell for cell in filled if is_number(cell)]
            are_positions = numbers == [str(i) for i in range(len(numbers))]
            if self.only_texts:
                return False
            if self.text_ids:
                return has_id_name and len(texts) == 1 and are_positions
            return not is_number(cells[0]) and (has_id_name if texts else are_positions)
        if not self.text_ids or has_id_name:
            return True
        if not self.only_texts:
            return len(cells) > 1
        if any(is_source_name(cell) or is_target_name(cell) for cell in texts):
            return True
        raise ValueError(
            f"{name}: the first line, {','.join(cells)!r:.80}, may be a header or an edge between "
            f"texts: say header=True or header=False, as in gz.Source(path, header=True)"
        )


ANY_HEADER = HeaderRule()


def _first_lines(path: Path) -> tuple[int, tuple[int, int], str, list[str]]:
    """Lines above the header or first record, where it begins and ends, a comment, some lines."""
    count, size, comment = 0, 0, ""
    # Every character is a byte, so that lines say where the next one begins.
    with io.TextIOWrapper(open_binary(path), encoding="latin-1", newline="") as file:
        for raw in iter(lambda: file.readline(_MAX_LINE), ""):
            line = raw.encode("latin-1").removeprefix(b"" if size else _BOM)
            size += len(raw) - len(line)
            if line.startswith(b"%%MatrixMarket"):
                raise ValueError(f"{path} {_MATRIX_MARKET}")
            if line.strip(b"\r\n") and not line.startswith(_COMMENTS):
                break
            if line.startswith(b"#"):
                comment = line.decode(errors="replace").strip("#").strip()
            count, size = count + 1, size + len(line)
        else:
            raise ValueError(f"{path} is empty: it has no columns")
        more = [file.readline(_MAX_LINE).encode("latin-1") for _ in range(_SAMPLE_LINES)]
    filled = [below for below in (line, *more) if below.strip(b"\r\n")]
    sample = [below.decode(errors="replace") for below in filled]
    if "\0" in "".join(sample):
        raise ValueError(f"{path} is not a text file")
    return count, (size, size + len(line)), comment, sample


# --- records

_PARSED_BYTES = 1 << 18
_NO_DELIMITERS = '0123456789+-.eE"\r\n\0'
_LEAST_BYTES, _MOST_BYTES, _BYTES_PER_RECORD = 1 << 16, 1 << 22, 8
_ARROW = {np.dtype(name): pa.type_for_alias(name) for name in (
    "int32", "int64", "uint32", "float32", "float64"
)} | {np.dtype(object): pa.string()}  # fmt: skip


class TextTable(Table):
    """The records of a CSV file: plain ones parsed by the compiled core, all others by pyarrow.

    Its format is decided by its first lines.

    Parameters
    ----------
    path : pathlib.Path
    delimiter : str
        One character, ``"whitespace"`` for any number of blanks and tabs, or ``"auto"``: tab,
        semicolon, comma or whitespace.
    rule : HeaderRule

    Attributes
    ----------
    delimiter : str
    """

    def __init__(
        self, path: Path, *, delimiter: str = "auto", rule: HeaderRule = ANY_HEADER
    ) -> None:
        self.path, self.name = path, str(path)
        lines_above, begins, comment, sample = _first_lines(path)
        self.delimiter = _delimiter_of(sample) if delimiter == "auto" else delimiter
        try:
            records = list(csv_records(sample, self.delimiter))
        except csv.Error as error:
            raise ValueError(f"{path}, line {lines_above + 1} or soon after it: {error}") from None
        named = rule.is_header(records[0], self.name)
        body = records[1:] if named else records
        self.names = tuple(name.strip() for name in records[0]) if named else None
        self.width = len(records[0])
        mark = None if self.delimiter in (" ", WHITESPACE) else self.delimiter
        if not named and len(in_comment := comment.split(mark)) == self.width:
            self.commented_names = in_comment
        self.first_record = tuple(body[0]) if body else None
        self.num_records = None if body else 0
        self._lines_above, self._begin = lines_above + named, begins[named]
        self._longest_line = max(len(line) for line in sample)

    def locate(self, record: int) -> str:
        """The line of a record, such as "line 7"."""
        for line, _ in itertools.islice(self._numbered_records(), record, None):
            return f"line {line}"
        return "line unknown"

    def read(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of the size of a block of lines."""
        if self.first_record is None:
            return
        block_bytes = min(_MOST_BYTES, max(_LEAST_BYTES, _BYTES_PER_RECORD * max_records))
        try:
            with open_binary(self.path) as file:
                file.read(self._begin)
                lines = LineBlocks(file, block_bytes)
                if self._is_plain(columns):
                    yield from self._plain(lines, columns)
                yield from self._others(lines.rest(self.name), columns)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            bad_line = self._find_bad_line(columns)
            raise bad_line or ValueError(f"{self.name}: {error}") from None

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
        read_options = pa.csv.ReadOptions(
            column_names=names,
            use_threads=False,
            block_size=max(_PARSED_BYTES, 8 * self._longest_line),
        )
        parse_options = pa.csv.ParseOptions(delimiter=" " if blanks else self.delimiter)
        convert_options = pa.csv.ConvertOptions(
            column_types=types, include_columns=read, null_values=[], strings_can_be_null=False
        )
        for block in blocks:
            data = with_single_blanks(block) if blanks else block
            if not data.strip(b"\r\n"):  # it would be an empty file
                continue
            table = pa.csv.read_csv(
                pa.BufferReader(data),
                read_options=read_options,
                parse_options=parse_options,
                convert_options=convert_options,
                # pyarrow's own pools retain freed blocks, tens of megabytes.
                memory_pool=pa.system_memory_pool(),
            )
            for batch in table.combine_chunks().to_batches():
                yield tuple(
                    values if column.is_raw else values.to_numpy(zero_copy_only=False)
                    for values, column in zip(batch.columns, columns, strict=True)
                )

    def _is_plain(self, columns: Sequence[Column]) -> bool:
        """Whether the core reads these columns, separated by this delimiter."""
        mark = self.delimiter
        return all(column.dtype.str in PARSED_DTYPES for column in columns) and (
            mark == WHITESPACE or (mark.isascii() and mark not in _NO_DELIMITERS)
        )

    def _numbered_records(self) -> Iterator[tuple[int, list[str]]]:
        """Line number (from 1) and cells of every record, without blank lines."""
        binary = open_binary(self.path)
        with io.TextIOWrapper(binary, "utf-8-sig", errors="replace", newline="") as file:
            for _ in range(self._lines_above):
                file.readline()
            reader = csv_records(file, self.delimiter)
            end = self._lines_above
            try:
                for cells in reader:
                    begin, end = end + 1, self._lines_above + reader.line_num
                    if cells:
                        yield begin, cells
            except csv.Error as error:
                raise ValueError(f"{self.path}, line {end + 1}: {error}") from None

    def _find_bad_line(self, columns: Sequence[Column]) -> ValueError | None:
        """What is wrong with the first bad line, in a slow second pass; None if none is bad."""
        for line, cells in self._numbered_records():
            place = f"{self.path}, line {line}"
            if len(cells) != self.width:
                mark = self.delimiter if len(self.delimiter) == 1 else " "
                return ValueError(
                    f"{place}: {len(cells)} columns, but the first record has {self.width}: "
                    f"{mark.join(cells)!r:.60}"
                )
            for column in columns:
                fault = _fault(cells[column.index], column)
                if fault is not None:
                    widens = column.may_widen and is_number(cells[column.index])
                    return (DecimalError if widens else ValueError)(f"{place}: {fault}")
        return None


# --- bad cells

_INTEGER = re.compile(r"-?[0-9]+")


def _fault(cell: str, column: Column) -> str | None:
    text = cell.strip(" \t")
    if column.is_raw and "\ufffd" in text:
        return f"'{text:.60}' is no valid UTF-8"
    if column.is_raw:
        valid = bool(text)
    elif column.dtype.kind == "f":
        valid = is_number(text)
    else:
        bounds = np.iinfo(column.dtype)
        valid = bool(_INTEGER.fullmatch(text)) and bounds.min <= int(text[:40]) <= bounds.max
    shown = f"'{text:.60}'" if text else "an empty cell"
    return None if valid else f"{shown} is not {column.expected()}"
