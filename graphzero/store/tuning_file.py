"""``tuning.json``: the prefetch options that `graphzero tune` has found for a dataset folder."""

from __future__ import annotations

import errno
import json
import os
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from graphzero import _core
from graphzero.store.format import PAGE_BYTES
from graphzero.store.machine import Machine
from graphzero.store.outputs import replaced_file
from graphzero.store.user_line import user_line

__all__ = [
    "TUNING_NAME",
    "Tuning",
    "files_digest",
    "read_tuning",
    "remove_tuning",
    "require_replaceable",
    "tuning_content",
    "write_tuning",
]

TUNING_NAME = "tuning.json"
_FORMAT, _VERSION = "graphzero-tuning", 1
_MOST_BYTES = 16 << 20
_MOST_INTEGER = 2**63 - 1
_WRONG = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


@dataclass(frozen=True)
class Tuning:
    """The content of ``tuning.json``.

    Attributes
    ----------
    path : str
        Of the file.
    date : str
        ISO 8601, UTC.
    prefetch : dict
        The chosen fields of `Prefetch`.
    memory_limit : int or None
        Bytes that each trial had in all; None where they had what the machine has available.
    available : int
        Bytes that were available to the trials when they began.
    machine : Machine
    dataset : str
        `files_digest` of the files.
    content : dict
        Everything that the file has: also the measured table, the disk's rate, versions.
    """

    path: str
    date: str
    prefetch: dict[str, Any]
    memory_limit: int | None
    available: int
    machine: Machine
    dataset: str
    content: dict[str, Any]


def files_digest(mappings: Iterable[_core.Mapping]) -> str:
    """Fingerprint of the files of a dataset, whatever their names are.

    It is made of their sizes and their header pages, which have the checksum of every section. So
    it stays the same in a copy of the folder, and changes with any of the data.
    """
    found = []
    for mapping in mappings:
        page = mapping.read(0, min(PAGE_BYTES, mapping.size))
        # not a CRC-32: with its own at its end, a page has always the same one
        found.append(f"{mapping.size}-{blake2b(page, digest_size=8).hexdigest()}")
    return " ".join(sorted(found))


def read_tuning(folder: str | os.PathLike[str]) -> Tuning | None:
    """The tuning of a dataset folder, for whatever machine and files it was made.

    Returns
    -------
    Tuning or None
        None without the file, and with a warning that names it, where it cannot be used: it is
        corrupt, of something else, or of a later version.
    """
    path = Path(folder) / TUNING_NAME
    try:
        if not path.is_file():  # nor a pipe, which would wait for its writer
            return None
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict) or content.get("format") != _FORMAT:
            raise ValueError("graphzero has not written it")
        if content.get("version") != _VERSION:
            raise ValueError(f"its version is {content.get('version')!r:.80}, and not {_VERSION}")
        return _parse(path, content)
    except (OSError, *_WRONG) as error:
        warnings.warn(
            f"{path} is ignored: {error}; remove it, and run graphzero tune again",
            UserWarning,
            stacklevel=user_line(),
        )
        return None


def _parse(path: Path, content: dict[str, Any]) -> Tuning:
    date = _of_type(content, "date", str)
    datetime.fromisoformat(date)
    machine = _of_type(content, "machine", dict)
    _require_printable([date, machine, content.get("prefetch")])  # they are printed and logged
    return Tuning(
        path=os.fspath(path),
        date=date,
        prefetch=_of_type(content, "prefetch", dict),
        memory_limit=_unless_null(content, "memory_limit", int),
        available=_of_type(content, "available", int),
        machine=Machine(
            cpu=_unless_null(machine, "cpu", str),
            cores=_unless_null(machine, "cores", int),
            memory=_unless_null(machine, "memory", int),
            disk=_unless_null(machine, "disk", str),
            file_system=_unless_null(machine, "file_system", str),
        ),
        dataset=_of_type(content, "dataset", str),
        content=content,
    )


def _require_printable(value: Any) -> None:
    """Refuses texts that could draw on a terminal, or cannot be written to one."""
    if isinstance(value, Mapping):
        _require_printable([*value.keys(), *value.values()])
    elif isinstance(value, list):
        for each in value:
            _require_printable(each)
    elif isinstance(value, str) and not value.isprintable():
        raise ValueError(f"it has {value!a:.80}, which cannot be printed")


def _unless_null(content: Mapping[str, Any], name: str, kind: type) -> Any:
    value = _field(content, name)
    return None if value is None else _of_type(content, name, kind)


def _of_type(content: Mapping[str, Any], name: str, kind: type) -> Any:
    value = _field(content, name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name} is {value!r:.80}")
    if isinstance(value, int) and not 0 <= value <= _MOST_INTEGER:
        raise ValueError(f"{name} is out of range")
    return value


def _field(content: Mapping[str, Any], name: str) -> Any:
    if name not in content:
        raise ValueError(f"it has no {name!r}")
    return content[name]


def tuning_content(machine: Machine, **content: Any) -> dict[str, Any]:
    """The content of a file.

    Parameters
    ----------
    machine : Machine
    **content
        The other attributes of `Tuning`, and whatever else is to be recorded; plain values.
    """
    return {"format": _FORMAT, "version": _VERSION, "machine": asdict(machine), **content}


def write_tuning(path: str | os.PathLike[str], content: Mapping[str, Any]) -> None:
    """Replaces the file in one step; where the path is a symbolic link, the file it points to.

    Raises
    ------
    OSError
        With errno and path.
    """
    with replaced_file(path) as file:
        file.write((json.dumps(content, indent=2) + "\n").encode())


def remove_tuning(folder: str | os.PathLike[str]) -> None:
    """Removes the file, which other files than those that were tuned make useless.

    Another program's file of this name stays.
    """
    path = Path(folder) / TUNING_NAME
    if _is_ours(path):
        path.unlink(missing_ok=True)


def require_replaceable(path: str | os.PathLike[str]) -> None:
    """Refuses to write where there is a file that no `tune` has written, and that is not empty.

    Raises
    ------
    FileExistsError
        With the path.
    """
    where = Path(path)
    if where.exists() and where.stat().st_size > 0 and not _is_ours(where):
        reason = "graphzero tune did not write this file: rename it, or write to another with --out"
        raise FileExistsError(errno.EEXIST, reason, os.fspath(path))


def _is_ours(path: Path) -> bool:
    try:
        return path.is_file() and json.loads(path.read_bytes()).get("format") == _FORMAT
    except (OSError, *_WRONG):
        return False
