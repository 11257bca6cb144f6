"""Parquet files as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from graphzero.ingest.sources.arrow_table import ArrowTable

__all__ = ["open_parquet"]

_BLOCK_BYTES = 1 << 18


def open_parquet(path: Path) -> ArrowTable:
    """The records of a Parquet file, read page by page; it is open only while it is read.

    Raises
    ------
    ValueError
        If it is no Parquet file, or two of its columns have one name.
    """
    try:
        with _opened(path) as file:
            schema, num_records = file.schema_arrow, file.metadata.num_rows
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is not a complete Parquet file: {error}") from None
    names = schema.names

    def read(indices: Sequence[int], max_records: int) -> Iterator[pa.RecordBatch]:
        wanted = [names[index] for index in indices]
        for name in wanted:
            if names.count(name) > 1:
                raise ValueError(f"{path} has more than one column {name!r}: rename one of them")
        with _opened(path) as file:
            # Threads would read each column ahead.
            batches = file.iter_batches(batch_size=max_records, columns=wanted, use_threads=False)
            yield from (batch.select(wanted) for batch in batches)

    return ArrowTable(str(path), schema, read, num_records)


def _opened(path: Path) -> pa.parquet.ParquetFile:
    # Else pyarrow reads whole row groups ahead.
    return pa.parquet.ParquetFile(path, buffer_size=_BLOCK_BYTES, pre_buffer=False)
