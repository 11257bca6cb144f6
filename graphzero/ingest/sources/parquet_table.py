"""Parquet files as tables."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet

from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.table import Chunk, checked

__all__ = ["ParquetTable"]

_BLOCK_BYTES = 1 << 18


class ParquetTable:
    """The records of a Parquet file.

    Parameters
    ----------
    path : pathlib.Path
    """

    def __init__(self, path: Path) -> None:
        self.name = os.fspath(path)
        try:
            self._file = pa.parquet.ParquetFile(path, buffer_size=_BLOCK_BYTES)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{path} is not a complete Parquet file: {error}") from None
        schema = self._file.schema_arrow
        self.names: Sequence[str] | None = tuple(schema.names)
        self.dtypes = tuple(_numpy_dtype(kind) for kind in schema.types)
        self.width = len(schema.names)
        self.num_records: int | None = self._file.metadata.num_rows
        if self.width == 0:
            raise ValueError(f"{path} is empty: it has no columns")

    def locate(self, record: int) -> str:
        """A record by its number from 0."""
        return f"record {record}"

    def chunks(self, columns: Sequence[Column], max_records: int) -> Iterator[Chunk]:
        """Pieces of some columns, of at most max_records records."""
        schema = self._file.schema_arrow
        for column in columns:
            if self.dtypes[column.index] is None and not column.is_raw:
                kind = schema.types[column.index]
                raise ValueError(
                    f"{self.name}: the {column.label} has type {kind}, not a number type"
                )
        record = 0
        names = [schema.names[column.index] for column in columns]
        try:
            for batch in self._file.iter_batches(batch_size=max_records, columns=names):
                yield tuple(
                    self._values(batch.column(name), column, record)
                    for name, column in zip(names, columns, strict=True)
                )
                record += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            raise ValueError(f"{self.name} is damaged: {error}") from None

    def _values(self, array: pa.Array, column: Column, record: int) -> npt.NDArray[Any]:
        if array.null_count:
            bad = record + int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0])
            raise ValueError(
                f"{self.name}, {self.locate(bad)}: an empty cell is not {column.expected()}"
            )
        if column.is_raw and not pa.types.is_integer(array.type):
            return array  # type: ignore[no-any-return]  # Arrow's texts, as `Column.raw` says
        return checked(array.to_numpy(zero_copy_only=False), column, self, record)


def _numpy_dtype(kind: pa.DataType) -> np.dtype[Any] | None:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
        return dtype
    return None
