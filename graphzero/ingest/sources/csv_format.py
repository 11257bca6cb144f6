"""The format of a CSV file: its delimiter, its header, and where its records begin."""

from __future__ import annotations

import csv
import gzip
import itertools
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

__all__ = ["ID_NAMES", "TEXT_IDS", "CsvFormat", "is_number", "open_text", "sniff_csv"]

# For `header`: "auto" of a table whose ids may be texts, such as ids='map' has.
TEXT_IDS = "auto, ids may be texts"
# Names of columns of ids, which make a line a header where ids may be texts.
ID_NAMES = frozenset(
    f"{name}{ending}"
    for name in ("id", "node", "src", "dst", "source", "target", "from", "to", "head", "tail")
    for ending in ("", "id", "_id", "s")
) | {"u", "v", "n_id", "nid", "fromnodeid", "tonodeid"}
_SAMPLE_LINES = 20
_MAX_LINE = 16 << 20
# In this order, because fields between semicolons may hold decimal commas, and any may hold blanks.
_DELIMITERS = ("\t", ";", ",", " ")


@dataclass(frozen=True)
class CsvFormat:
    """How to read one CSV file.

    Attributes
    ----------
    path : pathlib.Path
    delimiter : str
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
    """

    path: Path
    delimiter: str
    names: tuple[str, ...] | None
    width: int
    skip_lines: int
    first_record: tuple[str, ...] | None
    longest_line: int


def is_number(cell: str) -> bool:
    """Whether a cell reads as a number, nan and inf included."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


@contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """The lines of a plain or gzip file.

    Raises
    ------
    ValueError
        If it is a damaged gzip file.
    """
    opened: IO[str]
    if path.suffix.lower() == ".gz":
        opened = gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="")  # noqa: SIM115
    else:
        opened = open(path, encoding="utf-8-sig", errors="replace", newline="")  # noqa: SIM115
    with opened:
        try:
            yield opened
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ValueError(f"{path} is not a complete gzip file: {error}") from None


def _delimiter_of(lines: list[str]) -> str:
    present = [mark for mark in _DELIMITERS if mark in lines[0].strip()]
    for mark in present:
        if len({line.strip(" ").count(mark) for line in lines}) == 1:
            return mark
    return present[0] if present else ","


def _is_header_of_texts(cells: list[str], strict: bool) -> bool:
    """As `_is_header` with "auto", where ids may be texts: a record is not taken for a header."""
    cells = [cell.strip() for cell in cells]
    rest = [cell for cell in cells[1:] if cell]
    numbers = any(is_number(cell) for cell in rest)
    if strict and (numbers or is_number(cells[0]) or any(c.lower() in ID_NAMES for c in cells)):
        return not numbers and not is_number(cells[0])
    if not strict and numbers:  # columns may be named 0, 1, 2, ...
        named = rest == [str(i) for i in range(len(cells) - 1)]
        return named and cells[0].lower() in ID_NAMES
    if not strict:
        return not is_number(cells[0]) and (bool(rest) or cells[0].lower() in ID_NAMES)
    raise ValueError(
        f"the first line, {','.join(cells)!r:.80}, may be a header or an edge between texts: say "
        f"header=True or header=False"
    )


def _is_header(cells: list[str], header: bool | str, strict: bool) -> bool:
    if isinstance(header, bool):
        return header
    if header == TEXT_IDS:
        return _is_header_of_texts(cells, strict)
    if header != "auto":
        raise ValueError(f"header must be True, False or 'auto', not {header!r}")
    filled = [cell for cell in cells if cell.strip()]
    if not filled:
        return False
    if not any(is_number(cell) for cell in filled):
        return True
    # Columns of a table may be named 0, 1, 2, ..., behind a first name such as "id" or none.
    if strict or is_number(cells[0]):
        return False
    return bool(cells[0].strip()) or filled == [str(i) for i in range(len(cells) - 1)]


def sniff_csv(
    path: Path, *, delimiter: str = "auto", header: bool | str = "auto", strict: bool = False
) -> CsvFormat:
    """The format of a CSV file, from its first lines.

    Parameters
    ----------
    path : pathlib.Path
    delimiter : str
        One character, or ``"auto"``: tab, semicolon, comma or space.
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
    if delimiter != "auto" and len(delimiter) != 1:
        raise ValueError(f"delimiter must be one character or 'auto', not {delimiter!r}")
    with open_text(path) as file:
        lines = iter(lambda: file.readline(_MAX_LINE), "")
        top = 0
        first = ""
        for line in lines:
            if line.strip("\r\n") and not line.startswith("#"):
                first = line
                break
            top += 1
        if not first:
            raise ValueError(f"{path} is empty: it has no columns")
        sample = [line for line in itertools.islice(lines, _SAMPLE_LINES) if line.strip("\r\n")]
    sample.insert(0, first)
    mark = _delimiter_of(sample) if delimiter == "auto" else delimiter
    if "\0" in "".join(sample):
        raise ValueError(f"{path} is not a text file")
    try:
        records = list(csv.reader(sample, delimiter=mark))
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
    )
