"""Which disk and file system hold a path, and what is read from the disk."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from graphzero.report.readings.reasons import Reasons, note

__all__ = ["SYS", "Device", "Disk", "Mount", "OnlyDisk", "find_device", "find_mount"]

SYS = Path("/sys")
_SECTOR = 512  # the unit of the kernel's counters, whatever the disk's own is
_VIRTUAL = {"virtio_blk": "virtio disk", "vbd": "Xen disk"}  # by their driver


@dataclass(frozen=True)
class Mount:
    """How the file system of a path is mounted.

    Attributes
    ----------
    source : str
        A device, an export of a server, or a name.
    file_system : str
    options : str
    """

    source: str
    file_system: str
    options: str


def find_mount(path: str | os.PathLike[str]) -> Mount | None:
    """The mount that shows at a path."""
    where = Path(path).resolve()
    holding = [
        part for part in psutil.disk_partitions(all=True) if where.is_relative_to(part.mountpoint)
    ]
    if not holding:
        return None
    # of two mounts on one folder, the later one is visible
    mount = max(enumerate(holding), key=lambda item: (len(item[1].mountpoint), item[0]))[1]
    return Mount(mount.device, mount.fstype, mount.opts)


@dataclass(frozen=True)
class Disk:
    """A disk, as the kernel shows it below ``/sys``.

    Attributes
    ----------
    name : str
        Such as "nvme0n1".
    folder : pathlib.Path
    """

    name: str
    folder: Path

    def bytes_read(self, unknown: Reasons | None = None) -> int | None:
        """Counter: bytes that anyone has read from the disk."""
        try:
            return int((self.folder / "stat").read_text().split()[2]) * _SECTOR
        except (OSError, ValueError, IndexError):
            note(unknown, "device_bytes", f"{self.folder}/stat cannot be read")
            return None

    @property
    def model(self) -> str:
        """What its maker calls it; else its kind and name."""
        maker = self._text("device/model")
        if maker is not None:
            return maker
        parts = sorted(part.name for part in _entries(self.folder / "slaves"))
        if len(parts) == 1:  # encrypted, or a volume of one disk
            return Disk(parts[0], (self.folder / "slaves" / parts[0]).resolve()).model
        if parts:
            return f"{self.name} ({' + '.join(parts)})"
        return f"{_VIRTUAL[self._driver]} {self.name}" if self._driver in _VIRTUAL else self.name

    @property
    def rotational(self) -> bool | None:
        """Whether it turns; None for a virtual disk that says so, because that is its default."""
        number = self._text("queue/rotational")
        if number is None or (number == "1" and self._driver in _VIRTUAL):
            return None
        return number == "1"

    @property
    def readahead_bytes(self) -> int | None:
        """The kernel's own read-ahead."""
        kilobytes = self._text("queue/read_ahead_kb")
        return None if kilobytes is None else int(kilobytes) * 1024

    @property
    def _driver(self) -> str:
        return (self.folder / "device/driver").resolve().name

    def _text(self, name: str) -> str | None:
        try:
            return (self.folder / name).read_text().strip() or None
        except OSError:
            return None


@dataclass(frozen=True)
class OnlyDisk:
    """The one disk of a machine that is not Linux: it must be the one that holds a file.

    Attributes
    ----------
    name : str
    """

    name: str
    rotational: None = None
    readahead_bytes: None = None

    def bytes_read(self, unknown: Reasons | None = None) -> int | None:
        """Counter: bytes that anyone has read from the disk."""
        counted = (psutil.disk_io_counters(perdisk=True) or {}).get(self.name)
        if counted is None:
            note(unknown, "device_bytes", f"the system no longer counts what {self.name} reads")
            return None
        return int(counted.read_bytes)

    @property
    def model(self) -> str:
        """Its name: the system tells no more."""
        return self.name


Device = Disk | OnlyDisk


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def find_device(
    path: str | os.PathLike[str], *, sys_folder: Path = SYS, unknown: Reasons | None = None
) -> Device | None:
    """The disk that holds a path: the whole disk, where a partition of it is mounted.

    Parameters
    ----------
    path : path
    sys_folder : path
        Where the kernel shows devices.
    unknown : dict of str to str, optional
        Gets the reason, as "device_bytes", where there is none: network and memory file systems,
        stacks of file systems, and machines other than Linux with several disks.
    """
    mount = find_mount(path)
    if not (sys_folder / "dev/block").is_dir():
        return _only_disk(mount, unknown)
    for number in _numbers(path, mount):
        folder = sys_folder / "dev/block" / f"{os.major(number)}:{os.minor(number)}"
        if folder.exists():
            folder = folder.resolve()
            whole = folder.parent if (folder / "partition").exists() else folder
            return Disk(whole.name, whole)
    kind = "its file system" if mount is None else f"{mount.file_system} at {path}"
    note(unknown, "device_bytes", f"{kind} is not on one disk of this machine")
    return None


def _only_disk(mount: Mount | None, unknown: Reasons | None) -> OnlyDisk | None:
    disks = psutil.disk_io_counters(perdisk=True) or {}
    if len(disks) == 1 and mount is not None and mount.source.startswith("/dev/"):
        return OnlyDisk(next(iter(disks)))
    note(unknown, "device_bytes", "this system does not tell which disk holds a file")
    return None


def _numbers(path: str | os.PathLike[str], mount: Mount | None) -> list[int]:
    """Devices that may hold a path. btrfs gives its files a number that is no device's."""
    found: list[Any] = []
    with contextlib.suppress(OSError):
        found.append(os.stat(path).st_dev)
    if mount is not None and mount.source.startswith("/dev/"):
        with contextlib.suppress(OSError):
            found.append(os.stat(mount.source).st_rdev)
    return found
