"""Which disk and file system hold a path, and what is read from the disk."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from graphzero.report.readings.reasons import Reasons, note

__all__ = ["SYS", "Device", "Mount", "find_device", "find_mount"]

SYS = Path("/sys")
_SECTOR = 512  # the unit of the kernel's counters, whatever the disk's own is
_DRIVERS = {"virtio_blk": "virtio disk", "zram": "zram", "loop": "loop device", "xen": "Xen disk"}


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
class Device:
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
            return Device(parts[0], (self.folder / "slaves" / parts[0]).resolve()).model
        if parts:
            return f"{self.name} ({' + '.join(parts)})"
        driver = (self.folder / "device/driver").resolve().name
        known = next((kind for key, kind in _DRIVERS.items() if key in (driver, self._kind)), None)
        return f"{known} {self.name}" if known else self.name

    @property
    def rotational(self) -> bool | None:
        """Whether its maker says that it turns; virtual disks often say so wrongly."""
        number = self._text("queue/rotational")
        return None if number is None else number == "1"

    @property
    def readahead_bytes(self) -> int | None:
        """The kernel's own read-ahead."""
        kilobytes = self._text("queue/read_ahead_kb")
        return None if kilobytes is None else int(kilobytes) * 1024

    @property
    def _kind(self) -> str:
        return self.name.rstrip("0123456789")

    def _text(self, name: str) -> str | None:
        try:
            return (self.folder / name).read_text().strip() or None
        except OSError:
            return None


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
        stacks of file systems, and systems other than Linux.
    """
    if not (sys_folder / "dev/block").is_dir():
        note(unknown, "device_bytes", "this system does not tell which disk holds a file")
        return None
    mount = find_mount(path)
    for number in _numbers(path, mount):
        folder = sys_folder / "dev/block" / f"{os.major(number)}:{os.minor(number)}"
        if folder.exists():
            folder = folder.resolve()
            whole = folder.parent if (folder / "partition").exists() else folder
            return Device(whole.name, whole)
    kind = "its file system" if mount is None else f"{mount.file_system} at {path}"
    note(unknown, "device_bytes", f"{kind} is not on one disk of this machine")
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
