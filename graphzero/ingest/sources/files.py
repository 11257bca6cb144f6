"""One value, several files: lists, globs and folders."""

from __future__ import annotations

import errno
import glob
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphzero.ingest.sources.compression import without_compression

__all__ = [
    "ARROW_SUFFIXES",
    "PARQUET_SUFFIXES",
    "TEXT_SUFFIXES",
    "Part",
    "files_of",
    "is_several",
    "kind_of",
]

TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".edges", ".edgelist", ".el")
PARQUET_SUFFIXES = (".parquet", ".parq", ".pq")
ARROW_SUFFIXES = (".arrow", ".arrows", ".ipc", ".feather")

# What Spark, Dask and others write beside the data.
_MARKERS = {"_SUCCESS", "_metadata", "_common_metadata", "_started", "_committed"}
_MAGIC = re.compile(r"[*?[]")
_PARTITION = re.compile(r"([^=/]+)=(.*)")
_FOREIGN = {
    "_delta_log": "is a Delta table, which may hold records that were deleted: write it as Parquet",
    ".hoodie": "is a Hudi table, which may hold records that were deleted: write it as Parquet",
    "_temporary": "has a folder _temporary: the job that writes it has not finished",
}
_SHOWN = 8


@dataclass(frozen=True)
class Part:
    """One of the files.

    Attributes
    ----------
    path : pathlib.Path
    partition : dict of str to str
        What folders such as ``year=2020`` say of all of its records.
    """

    path: Path
    partition: dict[str, str]


def is_several(value: Any) -> bool:
    """Whether a value may be several files: a list of paths, a folder, or a pattern."""
    if isinstance(value, list | tuple):
        return bool(value) and all(
            isinstance(part, str | os.PathLike) and (Path(part).suffix or is_several(part))
            for part in value
        )
    if not isinstance(value, str | os.PathLike):
        return False
    return os.path.isdir(value) or _is_pattern(value)


def _is_pattern(value: str | os.PathLike[str]) -> bool:
    return bool(_MAGIC.search(os.fspath(value))) and not os.path.exists(value)


def _natural(path: Path) -> tuple[list[list[Any]], str]:
    """Key by which part-2 comes before part-10."""
    names = [re.split(r"(\d+)", name) for name in path.parts]
    return [
        [int(piece) if i % 2 else piece for i, piece in enumerate(name)] for name in names
    ], path.as_posix()


def _is_data(name: str) -> bool:
    return name not in _MARKERS and not name.startswith(".") and not name.endswith(".crc")


def kind_of(path: Path) -> str:
    """The end of a name without that of compression; those of one kind of file are one."""
    suffix = without_compression(path).suffix.lower()
    for kinds in (PARQUET_SUFFIXES, ARROW_SUFFIXES):
        if suffix in kinds:
            return kinds[0]
    return suffix


def _of_folder(folder: Path) -> Iterator[Path]:
    for name, what in _FOREIGN.items():
        if (folder / name).exists():
            raise ValueError(f"{folder} {what}")
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(parent, name) for name in names if _is_data(name))


def _of_pattern(pattern: str) -> Iterator[Path]:
    for found in glob.iglob(pattern, recursive=True):
        path = Path(found)
        if path.is_file() and _is_data(path.name):
            yield path


def _fixed_part(pattern: str) -> Path:
    parts = Path(pattern).parts
    fixed = [i for i, part in enumerate(parts) if _MAGIC.search(part)]
    return Path(*parts[: fixed[0]])


def _listed(paths: Sequence[Path]) -> str:
    names = ", ".join(path.as_posix() for path in paths[:_SHOWN])
    return f"{names} and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else names


def _check_one_kind(paths: Sequence[Path], base: Path, name: str) -> None:
    kinds = sorted({kind_of(path) or "no suffix" for path in paths})
    if len(kinds) > 1:
        shown = _listed([path.relative_to(base) for path in paths])
        raise ValueError(
            f"{name} has files of several kinds ({', '.join(kinds)}): {shown}. Give those to read "
            f"as a pattern, such as '*{kinds[-1]}', or as a list"
        )


def _checked(paths: list[Path], base: Path, name: str) -> list[Part]:
    _check_one_kind(paths, base, name)
    found = []
    for path in paths:
        matches = map(_PARTITION.fullmatch, path.relative_to(base).parent.parts)
        found.append(Part(path, {match[1]: match[2] for match in matches if match}))
    for part in found:
        if part.partition.keys() != found[0].partition.keys():
            one, other = (", ".join(at.partition) or "none" for at in (part, found[0]))
            raise ValueError(
                f"{name}: {part.path} and {found[0].path} are in folders of different partitions "
                f"({one}; {other})"
            )
    return found


def files_of(value: Any) -> list[Part]:
    """The files of a value, those of folders and patterns in natural order of their paths.

    Numbers in names count as numbers: part-2 comes before part-10. A list has its own order.

    Parameters
    ----------
    value : path, or list of paths
        Of files, folders and patterns such as ``part-*.csv.gz`` and ``**/*.parquet``.

    Raises
    ------
    ValueError
        If there is no file, or a file twice, or there are files of several kinds.
    OSError
        If a folder cannot be read, or is empty.
    """
    if isinstance(value, list | tuple):
        parts = [part for one in value for part in files_of(one)]
        seen: dict[str, Path] = {}
        for part in parts:
            real = os.path.realpath(part.path)
            if real in seen:
                raise ValueError(f"{part.path} is in the list of files twice: leave one out")
            seen[real] = part.path
        paths = [part.path.absolute() for part in parts]
        base = Path(os.path.commonpath([path.parent for path in paths]))
        among = _checked(paths, base, "the list of files")
        return [
            Part(part.path, {**other.partition, **part.partition})
            for part, other in zip(parts, among, strict=True)
        ]
    path = Path(value)
    if _is_pattern(value):
        found = sorted(_of_pattern(os.fspath(value)), key=_natural)
        if not found:
            raise FileNotFoundError(errno.ENOENT, "No file matches this pattern", str(value))
        return _checked(found, _fixed_part(os.fspath(value)), str(value))
    if not path.is_dir():
        return [Part(path, {})]
    found = sorted(_of_folder(path), key=lambda one: _natural(one.relative_to(path)))
    if not found:
        names = _listed([Path(name) for name in sorted(os.listdir(path))]) or "nothing"
        raise IsADirectoryError(
            errno.EISDIR, f"Folder without a file of records; it has {names}", str(path)
        )
    return _checked(found, path, str(path))
