"""Which records the compiled core reads, and how a block of them is given to it."""

from __future__ import annotations

from collections.abc import Sequence

from graphzero._core import PARSED_DTYPES, parse_records
from graphzero.ingest.processors import available_processors
from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.csv_format import WHITESPACE, CsvFormat
from graphzero.ingest.sources.line_blocks import LineBlocks
from graphzero.ingest.sources.table import Chunk

__all__ = ["is_plain", "parse_block"]

_NO_DELIMITERS = '0123456789+-.eE"\r\n\0'


def is_plain(source: CsvFormat, columns: Sequence[Column]) -> bool:
    """Whether the core reads these columns, separated by this delimiter."""
    mark = source.delimiter
    known = all(column.dtype.str in PARSED_DTYPES for column in columns)
    return known and (mark == WHITESPACE or (mark.isascii() and mark not in _NO_DELIMITERS))


def parse_block(
    lines: LineBlocks, end: int, source: CsvFormat, columns: Sequence[Column]
) -> tuple[list[Chunk], int]:
    """The records of a block in pieces, and where the first begins that the core does not read."""
    return parse_records(
        lines.buffer,
        end,
        None if source.delimiter == WHITESPACE else ord(source.delimiter),
        source.width,
        [(column.index, column.dtype) for column in columns],
        available_processors(),
    )
