"""What a measurement ran on: processor, memory, system, disk, and versions of packages."""

from __future__ import annotations

import os
import platform
import warnings
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import psutil

from graphzero.report.readings.reasons import Reasons, note
from graphzero.report.readings.storage import find_device, find_mount
from graphzero.report.recording import Environment
from graphzero.store.machine import cpu_name, machine_differences, this_machine, usable_cores
from graphzero.store.tuning_file import TUNING_NAME, read_tuning

__all__ = ["cpu_name", "read_environment", "system_name", "usable_cores", "versions_of"]

_PACKAGES = ("graphzero", "numpy", "torch", "torch_geometric")


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
    """The machine, its disk and versions; the disk's rate as `graphzero tune` has measured it.

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
    elif device.rotational is None:
        note(unknown, "rotational", "the system does not tell, or the disk is a virtual one")
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
        disk_rate=None if path is None else _disk_rate(Path(path).parent, unknown),
        versions={
            "python": platform.python_version(),
            **{package: version for package, version in versions.items() if version is not None},
        },
    )


def _disk_rate(folder: Path, unknown: Reasons | None) -> float | None:
    """Bytes a second of random reads that the disk of a dataset was measured to give."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever opens the dataset is told
        tuning = read_tuning(folder)
    if tuning is None:
        reason = f"it was not measured: graphzero tune {folder} does"
    elif differing := machine_differences(this_machine(folder), tuning.machine):
        reason = f"{TUNING_NAME} is of another machine: {', '.join(differing)}"
    else:
        rate = (tuning.content.get("disk_rate") or {}).get("bytes_per_second")
        if isinstance(rate, int | float) and rate > 0:
            return float(rate)
        reason = f"{TUNING_NAME} does not have it"
    note(unknown, "disk_rate", reason)
    return None
