"""CSV files as tables: plain records parsed by the compiled core, all others by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from graphzero.ingest.sources.bad_rows import BadRows
from graphzero.ingest.sources.blanks import SingleBlanks
from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.compression import compression_of, open_binary
from graphzero.ingest.sources.csv_errors import find_bad_line, line_of_record
from graphzero.ingest.sources.csv_format import WHITESPACE, CsvFormat
from graphzero.ingest.sources.csv_skipping import good_records
from graphzero.ingest.sources.line_blocks import LineBlocks
from graphzero.ingest.sources.plain_records import is_plain, parse_block
from graphzero.ingest.sources.table import Chunk
from graphzero.ingest.sources.text_blocks import text_blocks

__all__ = ["CsvTable"]

_BLOCK_BYTES = 1 << 18
_LEAST_BYTES, _MOST_BYTES, _BYTES_PER_RECORD = 1 << 16, 1 << 22, 8
_ARROW = {np.dtype(name): pa.type_for_alias(name) for name in (
    "int32", "int64", "uint32", "float32", "float64"
)} | {np.dtype(object): pa.string()}  # fmt: skip


class CsvTable:
    """The records of a CSV file.

    Parameters
    ----------
    source : CsvFormat
    bad_rows : BadRows, optional
        Takes the records that cannot be read. Default: they are errors.
    """

    def __init__(self, source: CsvFormat, bad_rows: BadRows | None = None) -> None:
        self._bad_rows = bad_rows
        self.source = source
        self.name = os.fspath(source.path)
        self.names: Sequence[str] | None = source.names
        self.width = source.width
        self.num_records: int | None = None if source.first_record is not None else 0
        self.dtypes: Sequence[np.dtype[Any] | None] | None = None
        self.first_record: Sequence[str] | None = source.first_record
        # What the size of the file bounds: a record has a character a column, and line ends.
        self.text_bytes: int | None = None
        self.most_records: int | None = None
        if compression_of(source.path) is None:
            self.text_bytes = source.path.stat().st_size
            self.most_records = self.text_bytes // (2 * self.width) + 1

    def locate(self, record: int) -> str:
        """The line of a record, such as "line 7"."""
        return f"line {line_of_record(self.source, record)}"

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of the size of a block of lines."""
        if self.source.first_record is None:
            return
        block_bytes = min(_MOST_BYTES, max(_LEAST_BYTES, _BYTES_PER_RECORD * max_records))
        try:
            with open_binary(self.source.path) as file:
                numbered = self._bad_rows is not None
                lines = LineBlocks(file, self.source.skip_lines, block_bytes, numbered=numbered)
                if self._bad_rows is not None:
                    yield from good_records(lines, self.source, columns, self._bad_rows)
                    return
                if is_plain(self.source, columns):
                    yield from self._plain(lines, columns)
                if lines.fill() or lines.has_more:
                    yield from self._others(lines.rest(), columns)
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            found = find_bad_line(self.source, columns)
            raise ValueError(found or f"{self.name}: {error}") from None

    def _plain(self, lines: LineBlocks, columns: Sequence[Column]) -> Iterator[Chunk]:
        """Pieces up to the first record that the core does not read, or the end."""
        while end := lines.fill():
            pieces, stop = parse_block(lines, end, self.source, columns)
            yield from pieces
            lines.take(stop)
            if stop < end:
                return

    def _others(self, file: BinaryIO, columns: Sequence[Column]) -> Iterator[Chunk]:
        """Pieces of all records of a stream, by pyarrow."""
        source = self.source
        names = [str(i) for i in range(source.width)]
        read = [names[column.index] for column in columns]
        blanks = source.delimiter == WHITESPACE
        options = {
            "read_options": pa.csv.ReadOptions(
                column_names=names,
                use_threads=False,
                block_size=max(_BLOCK_BYTES, 8 * source.longest_line),
            ),
            "parse_options": pa.csv.ParseOptions(delimiter=" " if blanks else source.delimiter),
            "convert_options": pa.csv.ConvertOptions(
                column_types={
                    name: _ARROW[column.dtype] for name, column in zip(read, columns, strict=True)
                },
                include_columns=read,
                null_values=[],
                strings_can_be_null=False,
            ),
            # pyarrow's own pools retain freed blocks, tens of megabytes.
            "memory_pool": pa.system_memory_pool(),
        }
        for block in text_blocks(SingleBlanks(file) if blanks else file, self.name):
            if block.strip(None if blanks else b"\r\n"):  # nothing would be an empty file
                table = pa.csv.read_csv(pa.BufferReader(block), **options).combine_chunks()
                for batch in table.to_batches():
                    yield tuple(
                        batch.column(i)
                        if column.is_raw
                        else batch.column(i).to_numpy(zero_copy_only=False)
                        for i, column in enumerate(columns)
                    )
