"""What users give and see: sizes as text, counts, processors, addresses, names, HTML tables."""

from __future__ import annotations

import html
import operator
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.integer[Any]]

MOST_COUNT = (1 << 63) - 1  # as the core counts

_STEPS = ("bytes", "kB", "MB", "GB", "TB")
_UNITS = {"": 1, "B": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS |= {f"{_letter}B": 1000**_power, f"{_letter}IB": 1024**_power}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def format_bytes(count: int) -> str:
    """Bytes with a unit, in powers of 1000: ``"1.2 GB"``."""
    size, unit = float(count), 0
    while size >= 999.5 and unit < len(_STEPS) - 1:
        size, unit = size / 1000, unit + 1
    decimals = 1 if unit > 0 and size < 9.95 else 0
    return f"{size:.{decimals}f} {_STEPS[unit]}"


def printable(value: object) -> str:
    """A text whose invisible characters stand as escapes."""
    text = str(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_lines(*lines: object, file: TextIO | None = None) -> None:
    """Prints each value as one line: what a file or a path is called changes no terminal."""
    print(*map(printable, lines), sep="\n", file=file, flush=True)


def escaped(value: object) -> str:
    """A text that HTML shows as it is."""
    return html.escape(printable(value), quote=True)


def html_table(rows: Iterable[Sequence[object]], header: Sequence[str] = ()) -> str:
    """A table of HTML, for pages and notebooks; nothing in its cells is taken for markup.

    A column without any text is left out, with its header.
    """
    cells = [[escaped(cell) for cell in row] for row in rows]
    shown = [at for at, column in enumerate(zip(*cells, strict=True)) if any(column)]
    lines = [[f"<th>{escaped(header[at])}</th>" for at in shown]] if header else []
    lines += [[f"<td>{row[at]}</td>" for at in shown] for row in cells]
    return "<table>\n" + "\n".join(f"<tr>{''.join(line)}</tr>" for line in lines) + "\n</table>"


def parse_size(size: int | str, what: str) -> int:
    """Number of bytes, from a number or a text.

    Parameters
    ----------
    size : int or str
        A number of bytes, or a number with one of the units B, KB, MB, GB, TB (powers of 1000),
        KiB, MiB, GiB, TiB (powers of 1024), such as ``"2GB"`` or ``"512 MiB"``.
    what : str
        Name of the size, for messages.

    Raises
    ------
    ValueError
        If it is not a size.
    """
    if isinstance(size, int) and not isinstance(size, bool):
        return size
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if match is None or match[2].upper() not in _UNITS:
        raise ValueError(
            f"{what} {size!r} is not a size: neither a number of bytes nor a text like '2GB' or "
            f"'512MiB'"
        )
    return int(float(match[1]) * _UNITS[match[2].upper()])


def as_count(value: Any, name: str, least: int = 1, most: int = MOST_COUNT) -> int:
    """An integer from `least` to `most`.

    Raises
    ------
    ValueError
        If the value is not an integer, too small or too large.
    """
    try:
        count = operator.index(value)
    except TypeError:
        raise ValueError(f"{name} must be an integer, not {value!r}") from None
    if isinstance(value, bool) or count < least:
        raise ValueError(f"{name} must be at least {least}, not {value!r}")
    if count > most:
        raise ValueError(f"{name} must be at most {most}, not {value!r}")
    return count


def refuse_mask(pieces: Iterable[Integers], size: int, count: int, what: str) -> None:
    """Refuses ids that are a mask of integers: as many as there are, of more than two, all 0 or 1.

    Parameters
    ----------
    pieces : iterable of (n,) integers
        The ids; they are only looked at if they are as many.
    size : int
        How many they are.
    count : int
        Nodes, or edges of the edge list.
    what : str
        What has the ids, for messages.

    Raises
    ------
    ValueError
    """
    if 2 < count == size and all(piece.min() >= 0 and piece.max() <= 1 for piece in pieces):
        raise ValueError(
            f"{what} has {count} values that are all 0 or 1, and looks like a mask of integers: "
            f"convert it to bool, or give the ids, numpy.flatnonzero(mask)"
        )


def available_processors() -> int:
    """Processors that this process may use."""
    has_affinity = hasattr(os, "sched_getaffinity")  # not on macOS
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


def by_either_name(name: str, value: Any, old_value: Any) -> Any:
    """The value of an argument that may be given by its name in 0.2 instead.

    Raises
    ------
    TypeError
        If it is given by both names, or by none.
    """
    if (value is None) == (old_value is None):
        raise TypeError(f"give {name}, once")
    return old_value if value is None else value


def is_url(path: str | os.PathLike[str]) -> bool:
    """Whether this is the address of a store, such as ``s3://bucket/data``."""
    return re.match(r"[A-Za-z][\w+.:-]*://", os.fspath(path)) is not None


def require_local(path: str | os.PathLike[str]) -> None:
    """Refuses an address where files are mapped or written.

    Raises
    ------
    ValueError
    """
    if is_url(path):
        raise ValueError(
            f"{os.fspath(path)!r} is on a remote store, and graphzero maps files of a local disk: "
            f"'graphzero fetch URL DIR' brings a dataset here, 'graphzero publish DIR URL' copies "
            f"one there"
        )
