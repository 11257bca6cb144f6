"""``tuning.json``: the prefetch options that `graphzero tune` has found for a dataset folder.

They are used on the machine that they were found on, which is recorded as well.
"""

from __future__ import annotations

import errno
import json
import os
import platform
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

from graphzero import _core
from graphzero.errors import user_line
from graphzero.store.format import PAGE_BYTES
from graphzero.store.manifest import read_fields
from graphzero.store.outputs import replaced_file
from graphzero.units import available_processors

_CPU_INFO = Path("/proc/cpuinfo")
_BLOCK_DEVICES = Path("/sys/dev/block")
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
        Model of the disk that holds the folder, or its name.
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

    disk, mount = (None, None) if folder is None else (disk_of(folder), mount_of(folder))
    model = None if disk is None else _disk_model(disk)
    memory = int(psutil.virtual_memory().total)
    return Machine(_cpu_name(), available_processors(), memory, model, mount and mount.fstype)


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


def disk_of(path: str | os.PathLike[str]) -> Path | None:
    """The folder below ``/sys`` of the whole disk that holds a path; None if there is no such one.

    btrfs gives its files the number of no device: then the source of the mount tells.
    """
    mount = mount_of(path)
    for place, number in ((path, "st_dev"), (mount.device if mount else "", "st_rdev")):
        try:
            device = getattr(os.stat(place), number)
            folder = (_BLOCK_DEVICES / f"{os.major(device)}:{os.minor(device)}").resolve(
                strict=True
            )
        except OSError:
            continue
        return folder.parent if (folder / "partition").exists() else folder
    return None


def _disk_model(disk: Path) -> str:
    """The model of a disk, or else its name."""
    try:
        return (disk / "device" / "model").read_text().strip() or disk.name
    except OSError:
        return disk.name


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


def read_tuning(folder: str | os.PathLike[str]) -> Tuning | None:
    """The tuning of a dataset folder, for whatever machine and files it was made.

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
        content = _content_of(path)
        if content.get("version") != _VERSION:
            raise ValueError(f"its version is {content.get('version')!r:.80}, and not {_VERSION}")
        found = read_fields(Tuning, {**content, "path": os.fspath(path), "content": content})
        datetime.fromisoformat(found.date)
        # these are printed and logged, and must not draw on a terminal
        shown = (*asdict(found.machine).values(), *found.prefetch, *found.prefetch.values())
        texts = " ".join(map(str, shown))
        if not texts.isprintable():
            raise ValueError(f"it has {texts!a:.80}, which cannot be printed")
        return found
    except _WRONG as error:
        warnings.warn(
            f"{path} is ignored: {error}; remove it, and run graphzero tune again",
            UserWarning,
            stacklevel=user_line(),
        )
        return None


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


def require_replaceable(path: str | os.PathLike[str]) -> None:
    """Refuses to write where there is a file that no `tune` has written, and that is not empty.

    Raises
    ------
    FileExistsError
        With the path.
    """
    where = Path(path)
    try:
        if where.exists() and where.stat().st_size > 0:
            _content_of(where)
    except _WRONG as error:
        reason = "graphzero tune did not write this file: rename it, or write to another with --out"
        raise FileExistsError(errno.EEXIST, reason, os.fspath(path)) from error


def _content_of(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_bytes())
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise ValueError("graphzero has not written it")
    return content
