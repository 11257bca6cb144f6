"""What makes a machine the one on which something was measured: cheap to look up."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Machine", "cpu_name", "machine_differences", "this_machine", "usable_cores"]

_CPU_INFO = Path("/proc/cpuinfo")
_MOUNTS = Path("/proc/self/mountinfo")
_BLOCK_DEVICES = Path("/sys/dev/block")
_FIRST_PROCESSOR = 4096  # bytes that describe it; a large machine has hundreds like it
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
    disk: str | None
    file_system: str | None


def this_machine(folder: str | os.PathLike[str]) -> Machine:
    """The machine that this process runs on, with the disk that holds a folder."""
    return Machine(cpu_name(), usable_cores(), _memory(), _disk(folder), _file_system(folder))


def machine_differences(one: Machine, other: Machine) -> list[str]:
    """In what `one` differs from `other`, in words; what is unknown of either is not compared."""
    parts = (
        ("processor", one.cpu, other.cpu),
        ("number of processors", one.cores, other.cores),
        ("disk", one.disk, other.disk),
        ("file system", one.file_system, other.file_system),
    )
    found = [
        f"{name} {here}, not {there}"
        for name, here, there in parts
        if here is not None and there is not None and here != there
    ]
    if one.memory and other.memory and abs(one.memory / other.memory - 1) > _SAME_MEMORY:
        found.append(f"memory of {one.memory:,} bytes, not {other.memory:,}")
    return found


def cpu_name() -> str | None:
    """The processor's name, or at least its architecture."""
    try:
        with open(_CPU_INFO, "rb") as file:
            lines = file.read(_FIRST_PROCESSOR).decode(errors="replace").splitlines()
    except OSError:  # not Linux
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine() or None


def usable_cores() -> int | None:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def _disk(folder: str | os.PathLike[str]) -> str | None:
    """Model of the whole disk, if its maker has given one, else its name, without a partition."""
    try:
        number = os.stat(folder).st_dev
        device = (_BLOCK_DEVICES / f"{os.major(number)}:{os.minor(number)}").resolve(strict=True)
    except OSError:  # not Linux, or the file system is on no disk of its own
        return None
    if (device / "partition").exists():
        device = device.parent
    try:
        return (device / "device" / "model").read_text().strip() or device.name
    except OSError:
        return device.name


def _file_system(folder: str | os.PathLike[str]) -> str | None:
    """Type of the file system that is mounted at a folder or above it."""
    here = Path(os.path.realpath(folder))
    best, kind = -1, None
    try:
        lines = _MOUNTS.read_text().splitlines()
    except OSError:  # not Linux
        return None
    for line in lines:
        before, _, after = line.partition(" - ")
        # In mount points, the kernel writes blanks and the like as octal numbers.
        point = before.split()[4].encode().decode("unicode_escape")
        if len(point) >= best and here.is_relative_to(point):  # a later mount hides an earlier
            best, kind = len(point), after.split()[0]
    return kind
