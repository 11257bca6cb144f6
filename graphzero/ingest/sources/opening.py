"""Which kind of source a value is."""

from __future__ import annotations

import os
from pathlib import Path

from graphzero.ingest.sources.bad_rows import BadRows, refuse_skipping
from graphzero.ingest.sources.csv_format import sniff_csv
from graphzero.ingest.sources.csv_table import CsvTable, is_csv
from graphzero.ingest.sources.parquet_table import ParquetTable

__all__ = ["open_table"]


def open_table(
    path: Path,
    *,
    delimiter: str = "auto",
    header: bool | str = "auto",
    strict: bool = False,
    bad_rows: BadRows | None = None,
) -> CsvTable | ParquetTable:
    """A CSV or Parquet file as a table.

    Raises
    ------
    ValueError
        If it is neither, is damaged, or has no columns.
    OSError
        If it cannot be read.
    """
    with open(path, "rb"):
        pass
    if is_csv(path):
        return CsvTable(
            sniff_csv(path, delimiter=delimiter, header=header, strict=strict), bad_rows
        )
    refuse_skipping(bad_rows, os.fspath(path))
    if path.suffix.lower() == ".parquet":
        return ParquetTable(path)
    raise ValueError(
        f"{path}: the name does not end in .csv, .tsv, .txt (or one of them and .gz, .zst, .bz2 "
        f"or .xz), .parquet or .npy"
    )
