"""Disks and file systems of paths, from folders as the kernel has them, and from this machine."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from graphzero.report.readings.environment import read_environment, versions_of
from graphzero.report.readings.storage import SYS, find_device, find_mount
from graphzero.report.readings.system import read_system
from graphzero.store.machine import this_machine
from graphzero.store.tuning_file import TUNING_NAME, tuning_content, write_tuning

pytestmark = pytest.mark.no_asan  # pure Python; starts processes
MB = 1 << 20

linux_only = pytest.mark.skipif(not SYS.joinpath("dev/block").is_dir(), reason="no /sys here")


@pytest.fixture
def sys_folder(tmp_path):
    """A function that adds disks to a made-up ``/sys`` and returns it."""
    (tmp_path / "sys/dev/block").mkdir(parents=True)

    def add(name, number=None, stat=None, parent=None, **files):
        folder = tmp_path / "sys/block" / (parent or "") / name
        folder.mkdir(parents=True, exist_ok=True)
        if stat is not None:
            (folder / "stat").write_text(f"     100        0 {stat:8d}       50 0 0 0 0 0 0 0\n")
        for path, text in files.items():
            file = folder / path.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
        if number is not None:
            link = tmp_path / f"sys/dev/block/{os.major(number)}:{os.minor(number)}"
            link.symlink_to(folder)
        return folder

    add.root = tmp_path / "sys"
    return add


def test_a_partition_counts_as_its_disk(tmp_path, sys_folder):
    settings = {"queue__rotational": 1, "queue__read_ahead_kb": 256, "device__model": "WDC WD40  "}
    sys_folder("sda", stat=2048, **settings)
    sys_folder("sda1", tmp_path.stat().st_dev, stat=1024, parent="sda", partition=1)
    disk = find_device(tmp_path, sys_folder=sys_folder.root)
    assert (disk.name, disk.model, disk.rotational) == ("sda", "WDC WD40", True)
    assert (disk.bytes_read(), disk.readahead_bytes) == (2048 * 512, 256 * 1024)


@pytest.mark.parametrize(("says", "rotational"), [(0, False), (1, None)])
def test_virtual_disks_do_not_know_that_they_turn(tmp_path, sys_folder, says, rotational):
    number = tmp_path.stat().st_dev
    folder = sys_folder("vdb", number, stat=0, queue__rotational=says)
    (sys_folder.root / "drivers/virtio_blk").mkdir(parents=True)
    (folder / "device").mkdir()
    (folder / "device/driver").symlink_to(sys_folder.root / "drivers/virtio_blk")
    disk = find_device(tmp_path, sys_folder=sys_folder.root)
    assert (disk.model, disk.readahead_bytes) == ("virtio disk vdb", None)
    assert disk.rotational is rotational


@pytest.mark.parametrize(("disks", "model"), [(1, "Fast 0"), (2, "dm-0 (nvme0n1 + nvme1n1)")])
def test_volumes_are_named_by_their_disks(tmp_path, sys_folder, disks, model):
    volume = sys_folder("dm-0", tmp_path.stat().st_dev, stat=8)
    (volume / "slaves").mkdir()
    for i in range(disks):
        disk = sys_folder(f"nvme{i}n1", device__model=f"Fast {i}")
        (volume / "slaves" / f"nvme{i}n1").symlink_to(disk)
    found = find_device(tmp_path, sys_folder=sys_folder.root)
    assert (found.name, found.model, found.bytes_read()) == ("dm-0", model, 8 * 512)


def test_counters_that_cannot_be_read_have_a_reason(tmp_path, sys_folder):
    folder = sys_folder("sda", tmp_path.stat().st_dev)
    unknown: dict[str, str] = {}
    disk = find_device(tmp_path, sys_folder=sys_folder.root, unknown=unknown)
    assert unknown == {}
    assert disk.bytes_read(unknown) is None
    assert str(folder) in unknown["device_bytes"]


def mounted(monkeypatch, *parts):
    """Has psutil find file systems, as (device, folder, kind, options)."""
    names = ("device", "mountpoint", "fstype", "opts")
    found = [SimpleNamespace(**dict(zip(names, part, strict=True))) for part in parts]
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: found)


@pytest.mark.parametrize("kind", ["overlay", "tmpfs", "nfs4"])
def test_file_systems_without_a_disk_have_a_reason(tmp_path, sys_folder, monkeypatch, kind):
    mounted(monkeypatch, ("server:/export", "/", kind, "rw"))
    unknown: dict[str, str] = {}
    assert find_device(tmp_path, sys_folder=sys_folder.root, unknown=unknown) is None
    assert unknown == {"device_bytes": f"{kind} at {tmp_path} is not on one disk of this machine"}


def test_systems_other_than_linux_have_their_only_disk(tmp_path, monkeypatch):
    """As macOS: psutil counts by disk, and nothing tells which one has a file."""
    mounted(monkeypatch, ("/dev/disk3s5", "/", "apfs", "rw"), ("map", "/net", "autofs", ""))
    disks = {"disk0": SimpleNamespace(read_bytes=4096)}
    monkeypatch.setattr(psutil, "disk_io_counters", lambda perdisk: disks)
    unknown: dict[str, str] = {}
    none = {"sys_folder": tmp_path / "none", "unknown": unknown}
    disk = find_device(tmp_path, **none)
    assert (disk.model, disk.bytes_read(), disk.rotational) == ("disk0", 4096, None)
    assert find_device("/net", **none) is None
    assert unknown == {"device_bytes": "this system does not tell which disk holds a file"}
    disks["disk4"] = disks["disk0"]
    assert find_device(tmp_path, **none) is None
    disks.clear()
    unknown.clear()
    assert disk.bytes_read(unknown) is None
    assert "disk0" in unknown["device_bytes"]


@linux_only
def test_cold_bytes_are_counted_by_process_and_disk(tmp_path):
    """Read past the page cache: the process's counter and the disk's rise by as much, or more."""
    size, path = 8 * MB, tmp_path / "file"
    path.write_bytes(os.urandom(size))
    disk = find_device(tmp_path)
    if disk is None:
        pytest.skip("the temporary folder is on no disk")
    flags = os.O_RDONLY | os.O_DIRECT
    try:
        descriptor = os.open(path, flags)
    except OSError:
        pytest.skip("no O_DIRECT here")
    try:
        os.fsync(descriptor)
        before, own = disk.bytes_read(), psutil.Process().io_counters().read_bytes
        with mmap.mmap(-1, size) as block:
            assert os.preadv(descriptor, [block], 0) == size
        after, own_after = disk.bytes_read(), psutil.Process().io_counters().read_bytes
    finally:
        os.close(descriptor)
    assert own_after - own >= size
    assert after - before >= size


@linux_only
def test_the_disk_of_a_folder_is_that_of_its_mount():
    mount, disk = find_mount("/"), find_device("/")
    if disk is None:
        pytest.skip("the root folder is on no disk")
    if mount.source.startswith("/dev/") and Path(mount.source).exists():
        assert Path(mount.source).resolve().name.startswith(disk.name[:2])
    assert disk.bytes_read() > 0
    assert disk.model


def test_the_innermost_mount_counts(monkeypatch):
    parts = [
        ("x", "/", "ext4", "rw"),
        ("x", "/usr", "xfs", "rw"),
        ("y", "/usr", "btrfs", "ro"),
        ("x", "/us", "no", "rw"),
    ]
    mounted(monkeypatch, *parts)
    found = find_mount("/usr/anything")
    assert (found.source, found.file_system, found.options) == ("y", "btrfs", "ro")
    mounted(monkeypatch, *parts[1:])
    assert find_mount("/") is None


def test_environment(tmp_path):
    unknown: dict[str, str] = {}
    found = read_environment(tmp_path, unknown)
    assert found.cpu
    assert 1 <= found.cores <= psutil.cpu_count()
    assert found.system.split()[0] in ("Linux", "Darwin")
    assert found.versions["python"] == sys.version.split()[0]
    assert set(found.versions) >= {"graphzero", "numpy", "torch"}
    mount, disk = find_mount(tmp_path), find_device(tmp_path)
    assert (found.file_system, found.mount_options) == (mount.file_system, mount.options)
    assert (found.disk is None) == (disk is None) == ("disk" in unknown)
    assert versions_of(["no-such-package"]) == {"no-such-package": None}


def test_versions_are_known_without_imports(tmp_path):
    program = (
        "import sys\n"
        "from graphzero.report.readings.environment import read_environment\n"
        "read_environment()\n"
        "print([name for name in ('torch', 'torch_geometric', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, cwd=tmp_path, text=True
    )
    assert done.stdout == "[]\n"


def test_memory_of_the_machine(monkeypatch):
    found, memory = read_system(), psutil.virtual_memory()
    assert found.total == memory.total
    assert found.available == pytest.approx(memory.available, rel=0.3)

    class Memory:
        total, available = 5, 3

    unknown: dict[str, str] = {}
    monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory())  # as on macOS
    assert read_system(unknown).cached is None
    assert "does not tell" in unknown["system.cached"]


@pytest.mark.parametrize(
    ("machine", "content", "rate", "reason"),
    [
        ({}, {"bytes_per_second": 2e8}, 2e8, None),
        ({}, None, None, "does not have it"),
        ({"cpu": "another"}, {"bytes_per_second": 2e8}, None, "of another machine: processor"),
        (None, None, None, "graphzero tune"),
    ],
)
def test_the_rate_of_the_disk_is_that_which_tune_has_measured(
    tmp_path, machine, content, rate, reason
):
    if machine is not None:
        known = replace(this_machine(tmp_path), **machine)
        fields = {
            "date": "2026-11-22T10:00:00+00:00",
            "prefetch": {},
            "memory_limit": None,
            "available": 1,
        }
        write_tuning(
            tmp_path / TUNING_NAME,
            tuning_content(known, **fields, dataset="", disk_rate=content),
        )
    unknown: dict[str, str] = {}
    assert read_environment(tmp_path / "features.gd", unknown).disk_rate == rate
    assert (reason is None) == ("disk_rate" not in unknown)
    assert (reason or "") in unknown.get("disk_rate", "")
