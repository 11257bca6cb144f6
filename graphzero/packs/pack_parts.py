"""The files of a pack: one for each row file that its batches gather, found through the first."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphzero.errors import FormatError
from graphzero.io.row_sources import RowKey
from graphzero.packs.pack_file import Pack, open_pack
from graphzero.store.atomic import is_staging_name
from graphzero.store.format import MAGIC

__all__ = ["clear_leftovers", "clear_old_parts", "open_parts", "pack_files", "part_name"]

_TOKEN = "[0-9a-f]{8}"
_MOST_SOURCE = 60  # characters of the name of an attribute in the name of a file


def _stem(main: Path) -> str:
    return main.name.removesuffix(".gd")


def part_name(main: Path, token: str, number: int, source: str) -> str:
    """Name of a file beside the first: "train.pack.1f3a9c2b-01-paper.x.gd"."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", source)[:_MOST_SOURCE]
    return f"{_stem(main)}.{token}-{number:02d}-{plain}.gd"


def _is_part(main: Path, name: str) -> bool:
    return re.fullmatch(rf"{re.escape(_stem(main))}\.{_TOKEN}-\d\d+-.*\.gd", name) is not None


def open_parts(main: Pack) -> dict[RowKey, Pack]:
    """The files of a pack by what they have rows of, the first among them.

    Raises
    ------
    FileNotFoundError
        If one is missing.
    FormatError
        If one is corrupt, or of another pack.
    """
    if main.info.token and not main.info.parts:
        raise FormatError(f"{main.store.path} is a later file of a pack: give the first one")
    found: dict[RowKey, Pack] = {main.info.source: main}
    folder = Path(os.path.realpath(main.store.path)).parent
    try:
        for source, name in main.info.parts:
            found[source] = part = _open_part(main, folder / name)
            info = part.info
            own: Any = {
                "source": info.source,
                "files": info.files,
                "resident_rows": info.resident_rows,
            }
            if info.source != source or info != replace(main.info, parts=(), **own):
                raise FormatError(f"{folder / name} is of another pack: pack again")
    except BaseException:
        for part in found.values():
            if part is not main:
                part.store.close()
        raise
    return found


def _open_part(main: Pack, path: Path) -> Pack:
    try:
        return open_pack(path)
    except FileNotFoundError:
        reason = f"a file of the pack {main.store.path} is missing: keep its files together, or"
        raise FileNotFoundError(errno.ENOENT, f"{reason} pack again", str(path)) from None


def pack_files(path: str | os.PathLike[str]) -> list[Path]:
    """Every file of a pack, from the first.

    Raises
    ------
    FormatError
        If it is not a pack.
    OSError
        If it cannot be opened.
    """
    pack = open_pack(path)
    pack.store.close()
    folder = Path(os.path.realpath(path)).parent
    return [Path(path), *(folder / name for _, name in pack.info.parts)]


def clear_old_parts(main: Path, kept: Iterable[str]) -> None:
    """Removes the other files of earlier packs of the same name."""
    names = set(kept)
    for name in os.listdir(main.parent):
        if _is_part(main, name) and name not in names:
            (main.parent / name).unlink(missing_ok=True)


def clear_leftovers(main: Path) -> None:
    """Removes unfinished files of a killed packing of the same file: they have no header."""
    for name in os.listdir(main.parent):
        if not is_staging_name(name):
            continue
        final = ".".join(name[1:].split(".")[:-2])  # .NAME.random.suffix
        if final == main.name or _is_part(main, final):
            staged = main.parent / name
            with open(staged, "rb") as file:
                unfinished = file.read(8) not in MAGIC.values()
            if unfinished:
                staged.unlink()
