"""Which kind of source a value is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from graphzero.ingest.sources.array_opening import is_array_file
from graphzero.ingest.sources.bad_rows import BadRows, refuse_skipping
from graphzero.ingest.sources.compression import without_compression
from graphzero.ingest.sources.csv_format import sniff_csv
from graphzero.ingest.sources.csv_table import CsvTable
from graphzero.ingest.sources.files import (
    ARROW_SUFFIXES,
    PARQUET_SUFFIXES,
    TEXT_SUFFIXES,
    files_of,
    is_several,
)
from graphzero.ingest.sources.frames import is_frame, open_frame
from graphzero.ingest.sources.ipc_table import open_ipc
from graphzero.ingest.sources.members import CONTAINERS
from graphzero.ingest.sources.parquet_table import open_parquet
from graphzero.ingest.sources.part_table import PartTable
from graphzero.ingest.sources.table import Table

__all__ = ["is_table", "open_table"]


def _is_array_file(value: Any) -> bool:
    return is_array_file(value) and not os.path.isdir(value)


def is_table(value: Any) -> bool:
    """Whether `open_table` opens a value; everything else is an array, or several of them.

    Paths are tables but for those of arrays, and so are lists of such paths, and frames in memory.
    """
    if isinstance(value, list | tuple):
        return is_several(value) and not any(map(_is_array_file, value))
    if isinstance(value, str | os.PathLike):
        return not _is_array_file(value)
    return is_frame(value)


def open_table(
    value: Any,
    *,
    delimiter: str = "auto",
    header: bool | str = "auto",
    strict: bool = False,
    of: Literal["node", "edge"] = "node",
    bad_rows: BadRows | None = None,
) -> Table:
    """The records of one file or several, or of a frame in memory.

    Parameters
    ----------
    value : path, list of paths, or frame
        A path may be that of a folder, or a pattern.
    delimiter, header, strict
        Of text: see `sniff_csv`.
    of : {"node", "edge"}
        What a record belongs to.
    bad_rows : BadRows, optional
        Takes the records of text that cannot be read. Default: they are errors.

    Raises
    ------
    ValueError
        If it is no table, is damaged, or has no columns.
    OSError
        If it cannot be read.
    """
    if not isinstance(value, str | os.PathLike | list | tuple):
        refuse_skipping(bad_rows, type(value).__name__)
        return open_frame(value, of)
    parts = files_of(value)
    text = {"delimiter": delimiter, "header": header, "strict": strict}
    tables = [_open_file(part.path, text, bad_rows) for part in parts]
    if len(tables) == 1 and not parts[0].partition:
        return tables[0]
    name = f"{len(tables)} files" if isinstance(value, list | tuple) else os.fspath(value)
    return PartTable(name, tables, [part.partition for part in parts])


def _open_file(path: Path, text: dict[str, Any], bad_rows: BadRows | None) -> Table:
    with open(path, "rb"):
        pass
    if without_compression(path).suffix.lower() in TEXT_SUFFIXES:
        return CsvTable(sniff_csv(path, **text), bad_rows)
    refuse_skipping(bad_rows, os.fspath(path))
    if path.suffix.lower() in PARQUET_SUFFIXES:
        return open_parquet(path)
    if path.suffix.lower() in ARROW_SUFFIXES:
        return open_ipc(path)
    raise ValueError(
        f"{path}: the name does not end in {', '.join(TEXT_SUFFIXES)} (or one of them and .gz, "
        f".zst, .bz2 or .xz), {', '.join(PARQUET_SUFFIXES + ARROW_SUFFIXES)}, .npy, "
        f"{', '.join(CONTAINERS)}"
    )
