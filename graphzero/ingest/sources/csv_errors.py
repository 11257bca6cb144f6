"""The slow second pass over a CSV file, which finds the line that the parser refused."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence

import numpy as np

from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.csv_format import (
    CsvFormat,
    csv_records,
    is_number,
    open_text,
)

__all__ = ["fault_of_record", "find_bad_line", "line_of_record"]

_INTEGER = re.compile(r"-?[0-9]+")
_SHOWN = 60


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _records(source: CsvFormat) -> Iterator[tuple[int, list[str]]]:
    """Line number (from 1) and cells of every record, without blank lines."""
    with open_text(source.path) as file:
        for _ in range(source.skip_lines):
            file.readline()
        reader = csv_records(file, source.delimiter)
        end = source.skip_lines
        try:
            for cells in reader:
                begin, end = end + 1, source.skip_lines + reader.line_num
                if cells:
                    yield begin, cells
        except csv.Error as error:
            raise ValueError(f"{source.path}, line {end + 1}: {error}") from None


def _fault(cell: str, column: Column) -> str | None:
    text = cell.strip(" \t")
    if column.is_raw:
        if "\ufffd" in text:
            return f"'{_shorten(text)}' is no valid UTF-8"
        return None if text else f"an empty cell is not {column.expected()}"
    if column.dtype.kind == "f":
        valid = is_number(text)
    elif _INTEGER.fullmatch(text):
        bounds = np.iinfo(column.dtype)
        valid = bounds.min <= int(text[:40]) <= bounds.max
    else:
        valid = False
    if valid:
        return None
    if not text:
        return f"an empty cell is not {column.expected()}"
    return f"'{_shorten(text)}' is not {column.expected()}"


def fault_of_record(
    cells: Sequence[str], source: CsvFormat, columns: Sequence[Column]
) -> str | None:
    """What is wrong with a record, None if it is good."""
    if len(cells) != source.width:
        mark = source.delimiter if len(source.delimiter) == 1 else " "
        text = _shorten(mark.join(cells))
        return f"{len(cells)} columns, but the first record has {source.width}: {text!r}"
    faults = (_fault(cells[column.index], column) for column in columns)
    return next((fault for fault in faults if fault is not None), None)


def find_bad_line(source: CsvFormat, columns: Sequence[Column]) -> str | None:
    """Message about the first bad line, None if no line is bad."""
    for line, cells in _records(source):
        fault = fault_of_record(cells, source, columns)
        if fault is not None:
            return f"{source.path}, line {line}: {fault}"
    return None


def line_of_record(source: CsvFormat, record: int) -> int:
    """Line number (from 1) of a record (from 0)."""
    for i, (line, _) in enumerate(_records(source)):
        if i == record:
            return line
    raise ValueError(f"{source.path} has changed while it was read: it has no record {record}")
