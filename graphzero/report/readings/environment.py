"""What a measurement ran on: processor, memory, system, disk, and versions of packages."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import psutil

from graphzero.report.readings.reasons import Reasons, note
from graphzero.report.readings.storage import find_device, find_mount
from graphzero.report.recording import Environment

__all__ = ["cpu_name", "read_environment", "system_name", "usable_cores", "versions_of"]

_PACKAGES = ("graphzero", "numpy", "torch", "torch_geometric")
_CPU_INFO = Path("/proc/cpuinfo")


def cpu_name() -> str | None:
    """The processor's name, or at least its architecture."""
    try:
        lines = _CPU_INFO.read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine() or None


def usable_cores() -> int | None:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def system_name() -> str:
    """Operating system and its version, such as "Linux 6.18.1"."""
    return f"{platform.system()} {platform.release()}"


def versions_of(packages: Iterable[str]) -> dict[str, str | None]:
    """Installed versions, None for a package that is not installed; imports none of them."""
    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def read_environment(
    path: str | os.PathLike[str] | None = None, unknown: Reasons | None = None
) -> Environment:
    """Everything but the disk's measured rate.

    Parameters
    ----------
    path : path, optional
        The dataset, whose disk and file system are described.
    unknown : dict of str to str, optional
        Gets the reasons for what is unknown.
    """
    device = None if path is None else find_device(path, unknown=unknown)
    mount = None if path is None else find_mount(path)
    if path is None:
        note(unknown, ("disk", "file_system"), "no dataset is known")
    elif device is None:
        reason = "" if unknown is None else unknown.get("device_bytes", "")
        note(unknown, ("disk", "rotational", "readahead_bytes"), reason)
    versions = versions_of(_PACKAGES)
    return Environment(
        cpu=cpu_name(),
        cores=usable_cores(),
        memory=int(psutil.virtual_memory().total),
        system=system_name(),
        disk=None if device is None else device.model,
        file_system=None if mount is None else mount.file_system,
        mount_options=None if mount is None else mount.options,
        rotational=None if device is None else device.rotational,
        readahead_bytes=None if device is None else device.readahead_bytes,
        versions={
            "python": platform.python_version(),
            **{package: version for package, version in versions.items() if version is not None},
        },
    )
