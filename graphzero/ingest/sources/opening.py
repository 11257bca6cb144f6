"""Which kind of source a value is."""

from __future__ import annotations

from pathlib import Path

from graphzero.ingest.sources.compression import without_compression
from graphzero.ingest.sources.csv_format import sniff_csv
from graphzero.ingest.sources.csv_table import CsvTable
from graphzero.ingest.sources.parquet_table import ParquetTable

__all__ = ["TEXT_SUFFIXES", "open_table"]

TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".edges", ".edgelist", ".el")


def open_table(
    path: Path, *, delimiter: str = "auto", header: bool | str = "auto", strict: bool = False
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
    if without_compression(path).suffix.lower() in TEXT_SUFFIXES:
        return CsvTable(sniff_csv(path, delimiter=delimiter, header=header, strict=strict))
    if path.suffix.lower() == ".parquet":
        return ParquetTable(path)
    raise ValueError(
        f"{path}: the name does not end in {', '.join(TEXT_SUFFIXES)} (or one of them and .gz, "
        f".zst, .bz2 or .xz), .parquet or .npy"
    )
