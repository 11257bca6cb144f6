"""``tuning.json``: the prefetch options that `graphzero tune` has found for a dataset folder.

They are used on the machine that they were found on, which is recorded as well.
"""

from __future__ import annotations

import json
import os
import platform
import warnings
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from graphzero import _core
from graphzero.errors import user_line
from graphzero.store.format import PAGE_BYTES
from graphzero.store.manifest import read_fields
from graphzero.units import available_processors

_CPU_INFO = Path("/proc/cpuinfo")
_SAME_MEMORY = 0.02  # kernels reserve more or less of the same memory


@dataclass(frozen=True)
class Machine:
    """A machine, as far as it decides how fast data is read; None for what is unknown.

    Attributes
    ----------
    cpu : str or None
        The processor's name, or at least its architecture.
    cores : int or None
        That this process may use.
    memory : int or None
        Bytes in all.
    disk : str or None
        Device that holds the folder, such as "/dev/sda1".
    file_system : str or None
        Of the folder.
    """

    cpu: str | None
    cores: int | None
    memory: int | None
    disk: str | None = None
    file_system: str | None = None


def this_machine(folder: str | os.PathLike[str] | None) -> Machine:
    """The machine that this process runs on, with the disk that holds a folder."""
    import psutil  # which `import graphzero` does without

    mount = None if folder is None else mount_of(folder)
    place = (None, None) if mount is None else (mount.device or None, mount.fstype or None)
    return Machine(_cpu_name(), available_processors(), psutil.virtual_memory().total, *place)


def machine_differences(one: Machine, other: Machine) -> list[str]:
    """In what `one` differs from `other`, in words; what is unknown of either is not compared."""
    found = []
    for name, here in asdict(one).items():
        there = getattr(other, name)
        if None in (here, there) or here == there:
            continue
        if name != "memory" or abs(here - there) > _SAME_MEMORY * there:
            found.append(f"{name.replace('_', ' ')} {here}, not {there}")
    return found


def _cpu_name() -> str | None:
    """The processor's name, or at least its architecture."""
    try:
        with open(_CPU_INFO, errors="replace") as file:
            names = (line.partition(":")[2] for line in file if line.startswith("model name"))
            return next(names).strip()
    except (OSError, StopIteration):  # not Linux, or another architecture
        return platform.machine() or None


def mount_of(path: str | os.PathLike[str]) -> Any:
    """The mount that shows at a path, as psutil describes it; None if there is none."""
    import psutil  # which `import graphzero` does without

    here = Path(os.path.realpath(path))
    mounts = psutil.disk_partitions(all=True)
    # a later mount hides an earlier one
    found = [mount for mount in reversed(mounts) if here.is_relative_to(mount.mountpoint)]
    return max(found, key=lambda mount: len(mount.mountpoint), default=None)


TUNING_NAME = "tuning.json"
_FORMAT, _VERSION = "graphzero-tuning", 1
_WRONG = (OSError, ValueError, TypeError, RecursionError)


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
    not_used : str or None
        Why loaders do not use it: it is of other files, or of another machine.
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
    not_used: str | None
    content: dict[str, Any] = field(repr=False)


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


def _mismatch(tuned: Tuning, folder: str | os.PathLike[str], files: str) -> str | None:
    if tuned.dataset != files:
        return "it is of other files: run graphzero tune again"
    others = machine_differences(tuned.machine, this_machine(folder))
    return f"it is of another machine ({'; '.join(others)})" if others else None


def read_tuning(folder: str | os.PathLike[str], mappings: Iterable[_core.Mapping]) -> Tuning | None:
    """The tuning of a dataset folder, whose files are `mappings`.

    Returns
    -------
    Tuning or None
        None without the file, and with a warning that names it, where it cannot be used: it is
        corrupt, of something else, or of a later version.
    """
    path = Path(folder) / TUNING_NAME
    if not path.is_file():  # nor a pipe, which would wait for its writer
        return None
    try:
        content = content_of(path)
        if content.get("version") != _VERSION:
            raise ValueError(f"its version is {content.get('version')!r:.80}, and not {_VERSION}")
        own = {"path": os.fspath(path), "not_used": None, "content": content}
        found = read_fields(Tuning, {**content, **own})
        datetime.fromisoformat(found.date)
        # these are printed and logged, and must not draw on a terminal
        shown = (*asdict(found.machine).values(), *found.prefetch, *found.prefetch.values())
        if not "".join(map(str, shown)).isprintable():
            raise ValueError(f"it has {shown!a:.80}, which cannot be printed")
        return replace(found, not_used=_mismatch(found, folder, files_digest(mappings)))
    except _WRONG as error:
        warnings.warn(
            f"{path} is ignored: {error}; remove it, and run graphzero tune again",
            UserWarning,
            stacklevel=user_line(),
        )
        return None


def remove_tuning(folder: Path) -> None:
    """Removes the file, which other files make useless; another program's of this name stays."""
    with suppress(*_WRONG):
        content_of(folder / TUNING_NAME)
        (folder / TUNING_NAME).unlink()


def tuning_content(machine: Machine, **content: Any) -> dict[str, Any]:
    """The content of a file.

    Parameters
    ----------
    machine : Machine
    **content
        The other attributes of `Tuning`, and whatever else is to be recorded; plain values.
    """
    return {"format": _FORMAT, "version": _VERSION, "machine": asdict(machine), **content}


def content_of(path: Path) -> dict[str, Any]:
    """The JSON object in a file that `graphzero tune` has written.

    Raises
    ------
    OSError, ValueError, RecursionError
        If it cannot be read, or is something else.
    """
    content = json.loads(path.read_bytes())
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError("graphzero has not written it")
    return content
