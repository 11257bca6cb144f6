"""The format of a CSV file: its delimiter, its header, and where its records begin."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from graphzero.ingest.sources.blanks import cells_between_blanks
from graphzero.ingest.sources.column_names import (
    IDS,
    find_known,
    is_source_name,
    is_target_name,
    looks_like_name,
)
from graphzero.ingest.sources.compression import open_binary

__all__ = [
    "TEXT_IDS",
    "WHITESPACE",
    "CsvFormat",
    "csv_records",
    "is_number",
    "open_text",
    "sniff_csv",
]

WHITESPACE = "whitespace"  # as a delimiter: any number of blanks and tabs
# For `header`: "auto" of a table whose ids may be texts, such as ids='map' has.
TEXT_IDS = "auto, ids may be texts"
_SAMPLE_LINES = 20
_MAX_LINE = 16 << 20
_MATRIX_MARKET = (
    "is a Matrix Market file: its first numbers are sizes, and its ids begin at 1. Read it with "
    "scipy.io.mmread, and give the matrix"
)
_COMMENTS = ("#", "%")
# In this order, because fields between semicolons may hold decimal commas.
_DELIMITERS = ("\t", ";", ",")


@dataclass(frozen=True)
class CsvFormat:
    """How to read one CSV file.

    Attributes
    ----------
    path : pathlib.Path
    delimiter : str
        One character, or "whitespace".
    names : tuple of str or None
        The header's names.
    width : int
        Columns.
    skip_lines : int
        Lines before the first record: comments, blank lines, the header.
    first_record : tuple of str or None
        Its cells; None if there are no records.
    longest_line : int
        Characters of the longest line in the sample.
    comment : str
        The last comment line above the records, without its marks; "" if there is none.
    """

    path: Path
    delimiter: str
    names: tuple[str, ...] | None
    width: int
    skip_lines: int
    first_record: tuple[str, ...] | None
    longest_line: int
    comment: str = ""


def is_number(cell: str) -> bool:
    """Whether a cell reads as a number, nan and inf included."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def open_text(path: Path) -> TextIO:
    """The lines of a file, which may be compressed.

    Raises
    ------
    ValueError
        While it is read: if it is damaged.
    OSError
        If it cannot be read.
    """
    return io.TextIOWrapper(open_binary(path), encoding="utf-8-sig", errors="replace", newline="")


def csv_records(lines: Iterable[str], delimiter: str) -> Any:
    """A reader of `csv` over lines; `delimiter` is one character, or "whitespace"."""
    if delimiter == WHITESPACE:
        single = (" ".join(cells_between_blanks(line)) + "\n" for line in lines)
        return csv.reader(single, delimiter=" ")
    return csv.reader(lines, delimiter=delimiter)


def _has_empty_column(lines: list[str]) -> bool:
    rows = [line.split("\t") for line in lines]
    return any(not any(map(str.strip, column)) for column in zip(*rows, strict=False))


def _delimiter_of(lines: list[str]) -> str:
    first = lines[0].strip()
    present = [mark for mark in _DELIMITERS if mark in first]
    between_blanks = {len(cells_between_blanks(line)) for line in lines}
    for mark in present:
        if len({line.count(mark) for line in lines}) == 1:
            # A column without any cell is none: the tabs are for the eye.
            padded = mark == "\t" and len(between_blanks) == 1 and _has_empty_column(lines)
            return WHITESPACE if padded else mark
    if (" " in first or "\t" in first) and (len(between_blanks) == 1 or not present):
        return WHITESPACE
    return present[0] if present else ","


def _is_header_of_texts(cells: list[str], strict: bool) -> bool:
    """As `_is_header` with "auto", where ids may be texts: a record is not taken for a header."""
    filled = [cell.strip() for cell in cells if cell.strip()]
    texts = [cell for cell in filled if not is_number(cell)]
    if not texts or not all(map(looks_like_name, texts)):
        return False
    of_ids = bool(find_known(texts, IDS))
    if strict:
        known = of_ids or any(is_source_name(c) or is_target_name(c) for c in texts)
        if known or len(texts) < len(filled):
            return len(texts) == len(filled)
        raise ValueError(
            f"the first line, {','.join(cells)!r:.80}, may be a header or an edge between texts: "
            f"say header=True or header=False"
        )
    if len(texts) < len(filled):  # columns may be named 0, 1, 2, ...
        numbers = [cell for cell in filled if is_number(cell)]
        return of_ids and len(texts) == 1 and numbers == [str(i) for i in range(len(numbers))]
    return of_ids or len(cells) > 1


def _is_header(cells: list[str], header: bool | str, strict: bool) -> bool:
    if isinstance(header, bool):
        return header
    if header == TEXT_IDS:
        return _is_header_of_texts(cells, strict)
    if header != "auto":
        raise ValueError(f"header must be True, False or 'auto', not {header!r}")
    filled = [cell for cell in cells if cell.strip()]
    texts = [cell for cell in filled if not is_number(cell)]
    # A first record with a gap or a malformed number is not taken for a header.
    if not filled or not all(looks_like_name(cell) for cell in texts):
        return False
    if len(texts) == len(filled):
        return True
    # Columns of a table may be named 0, 1, 2, ..., beside a name such as "id" or none.
    if strict or is_number(cells[0]):
        return False
    if texts:
        return len(find_known(texts, IDS)) == 1
    return filled == [str(i) for i in range(len(cells) - 1)]


def sniff_csv(
    path: Path, *, delimiter: str = "auto", header: bool | str = "auto", strict: bool = False
) -> CsvFormat:
    """The format of a CSV file, from its first lines.

    Parameters
    ----------
    path : pathlib.Path
    delimiter : str
        One character, ``"whitespace"`` for any number of blanks and tabs, or ``"auto"``: tab,
        semicolon, comma or whitespace.
    header : bool or "auto"
        With ``"auto"`` the first line is a header if it is not numeric.
    strict : bool
        Whether a header may not have any numeric cell. Then a bad first record of a table of
        numbers is an error, and is not taken for a header.

    Raises
    ------
    ValueError
        If there are no columns, or an option is invalid.
    OSError
        If the file cannot be read.
    """
    if delimiter not in ("auto", WHITESPACE) and len(delimiter) != 1:
        raise ValueError(
            f"delimiter must be one character, 'whitespace' or 'auto', not {delimiter!r}"
        )
    with open_text(path) as file:
        lines = iter(lambda: file.readline(_MAX_LINE), "")
        top = 0
        first = comment = ""
        for line in lines:
            if line.startswith("%%MatrixMarket"):
                raise ValueError(f"{path} {_MATRIX_MARKET}")
            if line.strip("\r\n") and not line.startswith(_COMMENTS):
                first = line
                break
            comment = line.strip("#").strip() if line.startswith("#") else comment
            top += 1
        if not first:
            raise ValueError(f"{path} is empty: it has no columns")
        sample = [line for line in itertools.islice(lines, _SAMPLE_LINES) if line.strip("\r\n")]
    sample.insert(0, first)
    mark = _delimiter_of(sample) if delimiter == "auto" else delimiter
    if "\0" in "".join(sample):
        raise ValueError(f"{path} is not a text file")
    try:
        records = list(csv_records(sample, mark))
    except csv.Error as error:
        raise ValueError(f"{path}, line {top + 1} or soon after it: {error}") from None
    named = _is_header(records[0], header, strict)
    body = records[1:] if named else records
    return CsvFormat(
        path=path,
        delimiter=mark,
        names=tuple(name.strip() for name in records[0]) if named else None,
        width=len(records[0]),
        skip_lines=top + named,
        first_record=tuple(body[0]) if body else None,
        longest_line=max(len(line) for line in sample),
        comment=comment,
    )
