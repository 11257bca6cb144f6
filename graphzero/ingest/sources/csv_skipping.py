"""The good records of a text file, where bad ones are left out and counted."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from graphzero.ingest.sources.bad_rows import BadRows
from graphzero.ingest.sources.blanks import cells_between_blanks
from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.csv_errors import fault_of_record
from graphzero.ingest.sources.csv_format import WHITESPACE, CsvFormat
from graphzero.ingest.sources.line_blocks import LineBlocks
from graphzero.ingest.sources.plain_records import is_plain, parse_block
from graphzero.ingest.sources.table import Chunk

__all__ = ["good_records"]

_LINES_AT_ONCE = 64
_LINE_END = re.compile(rb"\r\n|\n|\r")


def good_records(
    lines: LineBlocks, source: CsvFormat, columns: Sequence[Column], bad_rows: BadRows
) -> Iterator[Chunk]:
    """Pieces of the columns; what is left out goes to `bad_rows`.

    Blocks are read by the compiled core. The lines from its first doubt on are read one by one.

    Raises
    ------
    ValueError
        At a line of more than 16 MiB.
    """
    plain = is_plain(source, columns)
    while end := lines.fill():
        stop = 0
        if plain:
            pieces, stop = parse_block(lines, end, source, columns)
            before = 0
            for piece in pieces:
                bad_rows.place = partial(_place_in_block, lines, source, before)
                yield piece
                before += len(piece[0])
            lines.take(stop)
        if stop < end:
            yield from _one_by_one(lines, end - stop, source, columns, bad_rows)
    if lines.has_more:
        raise ValueError(f"{source.path}, line {lines.line}: the line is longer than 16 MiB")


def _is_empty(line: bytes | bytearray, source: CsvFormat) -> bool:
    return not line.strip(b" \t\r" if source.delimiter == WHITESPACE else b"\r")


def _place_in_block(lines: LineBlocks, source: CsvFormat, before: int, record: int) -> str:
    """File and line of a record of the block that has not been taken yet."""
    left, begin, number = before + record, 0, lines.line
    while True:
        end = lines.buffer.index(b"\n", begin)
        if not _is_empty(lines.buffer[begin:end], source):
            if not left:
                return f"{source.path}, line {number}"
            left -= 1
        begin, number = end + 1, number + 1


def _one_by_one(
    lines: LineBlocks,
    limit: int,
    source: CsvFormat,
    columns: Sequence[Column],
    bad_rows: BadRows,
) -> Iterator[Chunk]:
    """The next lines, at most `limit` bytes, as Python's own parser reads them."""
    size = 0
    for _ in range(_LINES_AT_ONCE):
        size = lines.buffer.index(b"\n", size, limit) + 1
        if size == limit:
            break
    block = bytes(lines.buffer[:size])
    texts = _LINE_END.split(block)[:-1]
    good: list[list[str]] = []
    numbers: list[int] = []
    for number, text in enumerate(texts, lines.line):
        if _is_empty(text, source):
            continue
        try:
            cells = _cells(text.decode("utf-8", "replace"), source)
            fault = fault_of_record(cells, source, columns)
        except csv.Error as error:
            fault = str(error)
        if fault is None:
            good.append([cells[column.index].strip(" \t") for column in columns])
            numbers.append(number)
        else:
            bad_rows.add(f"{source.path}, line {number}", fault)
    lines.take(size)
    lines.line += len(texts) - block.count(b"\n")  # a carriage return alone ends a line, too
    if good:
        bad_rows.place = lambda i: f"{source.path}, line {numbers[i]}"
        yield tuple(
            _numbers([cells[i] for cells in good], column) for i, column in enumerate(columns)
        )


def _cells(text: str, source: CsvFormat) -> list[str]:
    if source.delimiter == WHITESPACE:
        return cells_between_blanks(text)
    return next(csv.reader([text], delimiter=source.delimiter))


def _numbers(texts: list[str], column: Column) -> npt.NDArray[Any]:
    if column.dtype.kind != "f":
        return np.array([int(text) for text in texts], column.dtype)
    # pyarrow rounds once, as it does where no record is bad; Python would round to double first.
    values = pa.array(texts).cast(pa.from_numpy_dtype(column.dtype))
    numbers: npt.NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return numbers
