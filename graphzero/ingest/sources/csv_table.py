"""CSV files as tables, parsed by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.csv_errors import find_bad_line, line_of_record
from graphzero.ingest.sources.csv_format import CsvFormat
from graphzero.ingest.sources.table import Chunk

__all__ = ["CsvTable", "is_csv"]

_BLOCK_BYTES = 1 << 18
_ARROW = {np.dtype(name): pa.type_for_alias(name) for name in (
    "int32", "int64", "uint32", "float32", "float64"
)} | {np.dtype(object): pa.string()}  # fmt: skip


def is_csv(path: Path) -> bool:
    """Whether a file has the name of a CSV file, plain or gzip."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in {".csv", ".tsv", ".txt"}


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
            with self._open(columns) as reader:
                for batch in reader:
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

    def _open(self, columns: Sequence[Column]) -> pa.csv.CSVStreamingReader:
        source = self.source
        names = [str(i) for i in range(source.width)]
        read = [names[column.index] for column in columns]
        return pa.csv.open_csv(
            pa.input_stream(self.name, compression="detect"),
            read_options=pa.csv.ReadOptions(
                column_names=names,
                skip_rows=source.skip_lines,
                block_size=max(_BLOCK_BYTES, 8 * source.longest_line),
            ),
            parse_options=pa.csv.ParseOptions(delimiter=source.delimiter),
            convert_options=pa.csv.ConvertOptions(
                column_types={
                    name: _ARROW[column.dtype] for name, column in zip(read, columns, strict=True)
                },
                include_columns=read,
                null_values=[],
                strings_can_be_null=False,
            ),
            # pyarrow's own pools retain freed blocks, tens of megabytes.
            memory_pool=pa.system_memory_pool(),
        )
