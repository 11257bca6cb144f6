"""The memory control group of a process, from files as both versions have them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import others
import pytest

from graphzero.report.readings.memory_group import find_group, read_group
from graphzero.report.recording import GroupReading
from graphzero.report.tuning import limited_memory as making
from graphzero.report.tuning.limited_memory import NoMemoryGroup, memory_group

pytestmark = pytest.mark.no_asan  # pure Python; starts processes
MB = 1 << 20

# memory.stat of a group of version 1 with processes and a group below it, as Linux 6.18 wrote it
STAT_1 = """\
cache 9838592
rss 13414400
rss_huge 0
shmem 8933376
mapped_file 7495680
dirty 16384
writeback 0
workingset_refault_anon 0
workingset_refault_file 4291
swap 0
swapcached 0
pgpgin 250235
pgpgout 244558
pgfault 411923
pgmajfault 1
inactive_anon 0
active_anon 1531904
inactive_file 28672
active_file 876544
unevictable 20815872
hierarchical_memory_limit 9223372036854771712
hierarchical_memsw_limit 9223372036854771712
total_cache 1799368704
total_rss 22872064
total_rss_huge 0
total_shmem 9031680
total_mapped_file 11010048
total_dirty 12484608
total_writeback 0
total_workingset_refault_anon 7
total_workingset_refault_file 38046177
total_swap 0
total_swapcached 0
total_pgpgin 2558212489
total_pgpgout 2558472973
total_pgfault 3130015994
total_pgmajfault 22850150
total_inactive_anon 9277440
total_active_anon 1699840
total_inactive_file 1246953472
total_active_file 543383552
total_unevictable 20815872
"""
# The lines of version 2, as Documentation/admin-guide/cgroup-v2.rst of Linux 6.12 lists them.
STAT_2 = """\
anon 314572800
file 1610612736
kernel 25165824
kernel_stack 1048576
pagetables 6291456
sec_pagetables 0
percpu 20480
sock 0
vmalloc 0
shmem 67108864
zswap 0
zswapped 0
file_mapped 1073741824
file_dirty 0
file_writeback 0
swapcached 0
anon_thp 100663296
file_thp 0
shmem_thp 0
inactive_anon 377487360
active_anon 4194304
inactive_file 1006632960
active_file 536870912
unevictable 0
slab_reclaimable 12582912
slab_unreclaimable 3145728
slab 15728640
workingset_refault_anon 5
workingset_refault_file 987654
workingset_activate_anon 0
workingset_activate_file 4321
workingset_restore_anon 0
workingset_restore_file 99
workingset_nodereclaim 64
pgfault 7654321
pgmajfault 54321
"""
EVENTS_2 = "low 0\nhigh 12\nmax 3456\noom 2\noom_kill 1\noom_group_kill 0\n"


def write(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def group_1(folder, limit=9223372036854771712, kills=0, stat=STAT_1):
    write(
        folder,
        {
            "memory.limit_in_bytes": f"{limit}\n",
            "memory.usage_in_bytes": "1850000000\n",
            "memory.max_usage_in_bytes": "1900000000\n",
            "memory.stat": stat,
            "memory.oom_control": f"oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n",
        },
    )


def group_2(folder, limit="max", high="max", stat=STAT_2):
    write(
        folder,
        {
            "memory.max": f"{limit}\n",
            "memory.high": f"{high}\n",
            "memory.current": "1950351360\n",
            "memory.peak": "2000000000\n",
            "memory.stat": stat,
            "memory.events": EVENTS_2,
        },
    )


@pytest.fixture
def system(tmp_path):
    """Has `found(membership)`, a reading of pid 7, and `mount`."""

    class System:
        mount = tmp_path / "cgroup"

        def found(self, membership):
            write(tmp_path / "proc/7", {"cgroup": membership})
            self.unknown: dict[str, str] = {}
            places = {"proc": tmp_path / "proc", "mount": self.mount, "unknown": self.unknown}
            return read_group(7, **places), find_group(7, **places)

    (tmp_path / "cgroup").mkdir()
    return System()


def test_version_1(system):
    group_1(system.mount / "memory")
    group_1(system.mount / "memory/a", limit=4096 * MB, kills=5)
    reading, _ = system.found("9:name=systemd:/\n4:cpu,memory:/a\n0::/\n")
    assert reading == GroupReading(
        version=1,
        limit=4096 * MB,
        usage=1850000000,
        anonymous=22872064,
        file=1799368704 - 9031680,
        shared=9031680,
        refaults=38046177,
        kills=5,
        peak=1900000000,
    )
    assert system.unknown == {}


def test_version_2(system):
    group_2(system.mount / "a", limit=2048 * MB)
    reading, _ = system.found("0::/a\n")
    assert reading == GroupReading(
        version=2,
        limit=2048 * MB,
        usage=1950351360,
        anonymous=314572800,
        file=1610612736 - 67108864,
        shared=67108864,
        refaults=987654,
        kills=1,
        peak=2000000000,
    )
    assert system.unknown == {}


def test_older_kernels_count_refaults_of_both_kinds_together(system):
    group_2(system.mount / "a", stat="anon 1\nfile 3\nshmem 1\nworkingset_refault 12\n")
    assert system.found("0::/a\n")[0].refaults == 12
    group_1(system.mount / "memory/a", stat="total_cache 3\ntotal_workingset_refault 13\n")
    assert system.found("4:memory:/a\n")[0].refaults == 13


@pytest.mark.parametrize(
    ("limits", "bounding"),
    [
        ((None, None, None), "a/b"),  # its own
        ((None, 900, None), "a"),
        ((None, 900, 640), "a/b"),
        ((None, 640, 900), "a"),  # a limit beyond that of the group above never counts
        ((None, 640, 640), "a/b"),
        ((100, 640, 640), ""),
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_of_nested_groups_the_tightest_counts(system, version, limits, bounding):
    make, root = ((group_1, system.mount / "memory"), (group_2, system.mount))[version - 1]
    for name, limit in zip(("", "a", "a/b"), limits, strict=True):
        make(root / name, **({} if limit is None else {"limit": limit * MB}))
    reading, group = system.found("4:memory:/a/b\n" if version == 1 else "0::/a/b\n")
    assert group.folder == root / bounding
    assert reading.limit == min((limit * MB for limit in limits if limit), default=None)


def test_kills_in_groups_below_count(system):
    """Version 1 counts a kill only in the group of the process."""
    for name, kills in (("a", 1), ("a/b", 2), ("a/b/c", 4), ("a/other", 8)):
        group_1(system.mount / "memory" / name, kills=kills)
    (system.mount / "memory/a/b/memory.limit_in_bytes").write_text(f"{MB}\n")
    assert system.found("4:memory:/a/b/c\n")[0].kills == 6


def test_where_processes_are_slowed_down_is_a_limit_too(system):
    group_2(system.mount / "a", limit=900 * MB, high=600 * MB)
    assert system.found("0::/a\n")[0].limit == 600 * MB


def test_a_container_sees_its_own_root_only(system):
    group_1(system.mount / "memory", limit=640 * MB)
    assert system.found("4:memory:/docker/0123\n")[0].limit == 640 * MB


def test_missing_lines_and_files_have_a_reason(system):
    write(system.mount / "a", {"memory.current": "5\n", "memory.stat": "anon 4096\nfile 3\n"})
    reading, _ = system.found("0::/a\n")
    assert reading == GroupReading(version=2, usage=5, anonymous=4096)
    unknown = ("file", "shared", "refaults", "kills")
    assert set(system.unknown) == {f"group.{name}" for name in unknown}
    assert str(system.mount / "a") in system.unknown["group.kills"]


@pytest.mark.parametrize(
    ("membership", "reason"),
    [
        ("", "no memory control group that is visible"),
        ("4:memory:/a\n", "no memory control group that is visible"),
        ("0::/\n", "root group, whose memory version 2 does not count"),
    ],
)
def test_without_a_group_there_is_a_reason(system, membership, reason):
    assert system.found(membership) == (None, None)
    assert reason in system.unknown["group"]


def test_without_control_groups_there_is_a_reason(tmp_path):
    unknown: dict[str, str] = {}
    assert read_group(7, proc=tmp_path, mount=tmp_path, unknown=unknown) is None
    assert "no control groups" in unknown["group"]


# Takes so much memory, by argument, says so, and waits.
HOLDER = """
import mmap, signal, sys
block = mmap.mmap(-1, int(sys.argv[1]), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, len(block), mmap.PAGESIZE):
    block[at] = 1
print("holds", flush=True)
signal.pause()
"""


def test_a_real_group_says_what_its_processes_take(tmp_path):
    limit = 64 * MB
    try:
        made = memory_group(limit)
        with made as group:
            if group.folder is None:
                pytest.skip("a systemd scope, whose folder is not known")
            command = [*group.prefix, sys.executable, "-S", "-c", HOLDER]
            held = subprocess.Popen([*command, str(24 * MB)], stdout=subprocess.PIPE, cwd=tmp_path)
            try:
                assert held.stdout.readline() == b"holds\n"
                found = find_group(held.pid)
                assert (found.folder, found.interface.version) == (
                    group.folder,
                    int(group.kind[-1]),
                )
                reading = found.read()
                assert (reading.limit, reading.kills) == (limit, 0)
                assert 24 * MB <= reading.anonymous <= reading.usage <= limit
                with pytest.raises(subprocess.CalledProcessError):
                    subprocess.run([*command, str(100 * MB)], check=True, cwd=tmp_path)
                assert found.read().kills == 1
            finally:
                held.kill()
                held.communicate()
    except NoMemoryGroup as error:
        pytest.skip(str(error))


def test_the_group_of_this_process_is_found_or_explained():
    unknown: dict[str, str] = {}
    found = read_group(unknown=unknown)
    assert (found is None) == ("group" in unknown)
    with others.child_of_this() as child:
        assert (find_group(child) is None) == (found is None)


MAKER = """
import sys
from graphzero.report.tuning import limited_memory
limited_memory._PREFIX = sys.argv[1]
with limited_memory.memory_group(64 << 20) as group:
    print(group.folder, flush=True)
    sys.stdin.read()
"""


def test_a_group_whose_maker_was_killed_is_removed_by_the_next(tmp_path, monkeypatch):
    pipe = subprocess.PIPE
    # Groups of tests that run beside this one are not looked at.
    prefix = f"graphzero-test{os.getpid()}-"
    monkeypatch.setattr(making, "_PREFIX", prefix)
    command = [sys.executable, "-c", MAKER, prefix]
    with subprocess.Popen(command, cwd=tmp_path, stdin=pipe, stdout=pipe, text=True) as maker:
        folder = maker.stdout.readline().strip()
        if folder in ("", "None"):
            maker.kill()
            pytest.skip("no memory group whose folder is known can be made here")
        monkeypatch.setattr(making, "_MAKING_SECONDS", 0.0)
        with memory_group(64 * MB):
            assert Path(folder).exists()  # its maker lives, and may be about to use it
        maker.kill()
        maker.wait()
        assert Path(folder).exists()
        monkeypatch.setattr(making, "_MAKING_SECONDS", 60.0)
        with memory_group(64 * MB):
            assert Path(folder).exists()  # so young that it may not have been locked yet
        monkeypatch.setattr(making, "_MAKING_SECONDS", 0.0)
        with memory_group(64 * MB):
            assert not Path(folder).exists()
