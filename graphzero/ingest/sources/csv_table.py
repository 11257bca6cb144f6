"""CSV files as tables, parsed by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.compression import compression_of
from graphzero.ingest.sources.csv_errors import find_bad_line, line_of_record
from graphzero.ingest.sources.csv_format import WHITESPACE, CsvFormat
from graphzero.ingest.sources.table import Chunk
from graphzero.ingest.sources.text_blocks import line_blocks

__all__ = ["CsvTable"]

_BLOCK_BYTES = 1 << 18
_ARROW = {np.dtype(name): pa.type_for_alias(name) for name in (
    "int32", "int64", "uint32", "float32", "float64"
)} | {np.dtype(object): pa.string()}  # fmt: skip


class CsvTable:
    """The records of a CSV file.

    Parameters
    ----------
    source : CsvFormat
    """

    def __init__(self, source: CsvFormat) -> None:
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
        # What the size of the file bounds: a record has a character a column, and line ends.
        plain = source.path.suffix.lower() != ".gz"
        self.text_bytes = source.path.stat().st_size if plain else None
        self.most_records = (
            None if self.text_bytes is None else self.text_bytes // (2 * self.width) + 1
        )

    def locate(self, record: int) -> str:
        """The line of a record, such as "line 7"."""
        return f"line {line_of_record(self.source, record)}"

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of the size of pyarrow's blocks."""
        if self.source.first_record is None:
            return
        try:
            for batch in self._batches(columns):
                yield tuple(
                    batch.column(i)
                    if column.is_raw
                    else batch.column(i).to_numpy(zero_copy_only=False)
                    for i, column in enumerate(columns)
                )
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            found = find_bad_line(self.source, columns)
            raise ValueError(found or f"{self.name}: {error}") from None

    def _batches(self, columns: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        source = self.source
        single_blanks = source.delimiter == WHITESPACE
        if compression_of(source.path) is None and not single_blanks:
            options = self._options(columns, source.skip_lines)
            with pa.csv.open_csv(pa.OSFile(self.name, "rb"), **options) as reader:
                yield from reader
            return
        options = self._options(columns, 0)
        for block in line_blocks(
            source.path, skip_lines=source.skip_lines, single_blanks=single_blanks
        ):
            if not block.isspace():  # which would be an empty file
                table = pa.csv.read_csv(pa.BufferReader(block), **options)
                yield from table.combine_chunks().to_batches()

    def _options(self, columns: Sequence[Column], skip_lines: int) -> dict[str, Any]:
        source = self.source
        names = [str(i) for i in range(source.width)]
        read = [names[column.index] for column in columns]
        return {
            "read_options": pa.csv.ReadOptions(
                column_names=names,
                skip_rows=skip_lines,
                use_threads=False,
                block_size=max(_BLOCK_BYTES, 8 * source.longest_line),
            ),
            "parse_options": pa.csv.ParseOptions(
                delimiter=" " if source.delimiter == WHITESPACE else source.delimiter
            ),
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
