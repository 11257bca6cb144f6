"""Memory: how much is available, also shared memory of workers; and reports of what is used."""

from __future__ import annotations

import errno
import mmap
import os
import re
import subprocess
import sys
import warnings
from dataclasses import replace

import files
import numpy as np
import others
import pytest
from loaders import refused
from memory_groups import NONE, group

import graphzero as gz
from graphzero.io import memory, session
from graphzero.io.memory import ranks_of_host
from graphzero.report.readings import MemoryReport, format_memory
from graphzero.store.free_memory import cgroup_available_memory

MB = 1 << 20


LEVELS = {"memory": (1, NONE, 0), "memory/a": (1, 900, 500), "memory/a/b": (1, 640, 100)}
GROUPS = {  # folders with their numbers, the line of the process, and what is available
    "all levels, version 1": (LEVELS, "5:cpu,cpuacct:/\n4:memory:/a/b\n0::/\n", 400),
    "all levels, version 2": ({"a": (2, 900, 500), "a/b": (2, "max", 100)}, "0::/a/b\n", 400),
    "shared memory, version 1": ({"memory/a": (1, 900, 100, 50)}, "4:memory:/a\n", 750),
    "shared memory, version 2": ({"a": (2, 900, 100, 50)}, "0::/a\n", 750),
    "locked pages": ({"memory/a": (1, 900, 100, 0, 40)}, "4:memory:/a\n", 760),
    "slowed down": ({"a": (2, 900, 100, 0, 0, 600)}, "0::/a\n", 500),
    "only slowed down": ({"a": (2, "max", 100, 0, 0, 600)}, "0::/a\n", 500),
    "in a container": ({"memory": (1, 640, 40)}, "4:memory:/docker/0123\n", 600),
    "no limit": ({".": (2, "max", 0)}, "0::/\n", None),
    "no such group": ({".": (2, "max", 0)}, "4:memory:/a\n", None),
    "no groups": ({}, "", None),
}


@pytest.mark.parametrize("case", GROUPS)
def test_control_groups_have_what_cannot_be_dropped(tmp_path, case):
    groups, membership, expected = GROUPS[case]
    for name, how in groups.items():
        group(tmp_path / "mount" / name, *how)
    (tmp_path / "cgroup").write_text(membership)
    found = cgroup_available_memory(tmp_path / "cgroup", tmp_path / "mount")
    assert found == (None if expected is None else expected * MB)


@pytest.mark.parametrize(
    ("environment", "ranks"),
    [
        ({"LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "localhost"}, 2),
        ({"LOCAL_WORLD_SIZE": "", "MASTER_ADDR": "127.0.0.1"}, 4),
        ({"MASTER_ADDR": "node17"}, 1),
        ({}, 1),
    ],
)
def test_ranks_of_this_machine_are_known_from_those_who_started_them(environment, ranks):
    assert ranks_of_host(environment, world_size=4) == ranks


def test_batches_on_their_way_and_one_in_use_must_fit_in_shared_memory(monkeypatch):
    monkeypatch.setattr(memory, "shared_memory_bytes", lambda *_: 64 * MB)
    memory.check_shared_memory(12 * MB, 2, 2)
    with pytest.raises(OSError, match="prefetch_factor=20 need 539 MB .*smaller") as refused:
        memory.check_shared_memory(12 * MB + 570_000, 2, 20)
    assert (refused.value.errno, refused.value.filename) == (errno.ENOSPC, "/dev/shm")


@pytest.fixture
def data(tmp_path):
    """A dataset of 20,000 nodes with rows of 256 bytes."""
    features, edges = np.zeros((20_000, 64), np.float32), files.random_edges(20_000, 100_000)
    files.write_dataset(tmp_path / "data", edges, 20_000, features=features)
    return tmp_path / "data"


SMALL_SHARED_MEMORY = """
import sys, time
from torch.utils.data import DataLoader
import graphzero as gz

ds = gz.open(sys.argv[1])
batches = gz.NeighborDataset(ds, range(8000), [5, 5], batch_size=500)
how = {"batch_size": None, "num_workers": 2, "prefetch_factor": 50}
for batch in DataLoader(batches, collate_fn=gz.Collate(ds), **how):
    time.sleep(0.5)
"""


@pytest.mark.extended
def test_a_batch_for_which_no_shared_memory_is_left_is_an_error(data, tmp_path):
    """However many batches workers have prepared, which only a ready-made loader knows before."""
    pytest.importorskip("torch")
    mount = 'mount -t tmpfs -o size=24m tmpfs /dev/shm && exec "$@"'
    small = ["unshare", "--map-root-user", "--mount", "sh", "-c", mount, "sh"]
    if subprocess.run([*small, "true"], capture_output=True, check=False).returncode:
        pytest.skip("cannot mount a small /dev/shm")
    program = [sys.executable, "-c", SMALL_SHARED_MEMORY, str(data)]
    ended = subprocess.run(
        [*small, *program], capture_output=True, text=True, check=False, timeout=120, cwd=tmp_path
    )
    assert ended.returncode == 1
    message = r"of [\d.]+ [kM]B does not fit in the shared memory, in which \d+ MB are used"
    assert re.search(message, ended.stderr), ended.stderr


@pytest.mark.parametrize("memory_limit", [None, 4 * MB])
def test_batches_that_do_not_fit_are_found_before_the_first_one(data, monkeypatch, memory_limit):
    loaders = pytest.importorskip("torch.utils.data")

    def first(shared_memory, workers):
        """The size of the first batch, with so many bytes of shared memory."""
        found = os.statvfs("/dev")
        pretended = os.statvfs_result((found[0], 1, *[shared_memory] * 3, *found[5:]))
        with monkeypatch.context() as patch, gz.open(data) as ds:
            patch.setattr(memory.os, "statvfs", lambda _: pretended)
            prefetch = gz.Prefetch(memory_limit=memory_limit)
            batches = gz.NeighborDataset(ds, fanouts=[5, 5], batch_size=1024, prefetch=prefetch)
            how = {"batch_size": None, "collate_fn": gz.Collate(ds), "num_workers": workers}
            how["multiprocessing_context"] = "fork" if workers else None  # with what is pretended
            return next(iter(loaders.DataLoader(batches, **how))).batch_size

    needed = r"2 DataLoader workers with prefetch_factor=2 need [\d.]+ MB .*num_workers=0"
    with refused(OSError, match=needed):
        first(4 * MB, workers=2)
    assert first(4 * MB, workers=0) == first(64 * MB, workers=2) == 1024


SAID = {0: "use a smaller batch_size", 2: "use num_workers=0"}


@pytest.mark.parametrize(("workers", "limit"), [(0, None), (2, None), (0, "4MB")])
def test_batches_beyond_memory_are_said_once(data, monkeypatch, capfd, workers, limit):
    pytest.importorskip("torch")
    monkeypatch.setattr(session, "available_memory", lambda: 4 * MB)
    how = {"num_workers": workers, "multiprocessing_context": "fork"} if workers else {}
    how["prefetch"] = gz.Prefetch(memory_limit=limit)
    with gz.open(data) as ds, warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda text, *_: print(text, file=sys.stderr)
        next(iter(gz.NeighborLoader(ds, [5, 5], batch_size=1024, **how)))
    printed, said = capfd.readouterr().err, SAID[workers] if limit is None else "limit leaves them"
    assert printed.count(said) == printed.count("mini-batches take up to") == 1


# --- reports: what is counted where

linux_only = pytest.mark.skipif(
    not hasattr(os, "posix_fadvise"), reason="other systems do not split resident memory"
)


@pytest.fixture
def wide(tmp_path):
    """A dataset whose features take 64 MB."""
    rows = np.ones((1 << 16, 256), dtype=np.float32)
    edges, how = [[0, 1], [1, 2], [2, 0]], {"num_nodes": 1 << 16, "order": "input"}
    with gz.build(tmp_path / "wide", edges, rows, **how) as ds:
        yield ds


@linux_only
def test_touching_mapped_pages_raises_the_file_part_alone(wide):
    before = gz.memory_report(wide)
    total = float(wide.features.get_tensor()[:, 0].sum())
    after = gz.memory_report(wide)
    assert total == 1 << 16
    assert after.file - before.file > 50 * MB
    assert after.anonymous - before.anonymous < 8 * MB
    assert after.dataset == sum(os.path.getsize(path) for path in wide.paths)
    assert after.page_cache <= after.dataset + 4096 * len(wide.paths)


def test_one_closing_line():
    report = MemoryReport(1, 360 * 10**6, 312 * 10**6, 48 * 10**6, 1_240_000_000, 2_300_000_000)
    cached = "page cache of the dataset's files: 1.2 GB of 2.3 GB"
    split = "memory: 312 MB anonymous + 48 MB of files mapped (RSS); "
    assert format_memory(report) == split + cached
    report = replace(report, anonymous=None, file=None)  # as of macOS, which has no /proc
    assert format_memory(report).endswith(f" resident (not split on this system); {cached}")


@linux_only
def test_own_memory_is_anonymous_and_what_a_fork_shares_is_counted_once(wide):
    before = gz.memory_report(wide)
    with mmap.mmap(-1, 64 * MB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as own:
        for at in range(0, 64 * MB, mmap.PAGESIZE):
            own[at] = 1
        alone = gz.memory_report(wide)
        with others.child_of_this():
            during = gz.memory_report(wide)
    assert alone.anonymous - before.anonymous > 60 * MB
    assert abs(alone.file - before.file) < 8 * MB
    assert during.processes == alone.processes + 1
    assert "memory of " in format_memory(during)
    counted_twice = during.anonymous - alone.anonymous
    assert counted_twice > 60 * MB
    # pages that parent or child has written since the fork are two
    assert abs(during.pss_anonymous - alone.pss_anonymous) < counted_twice / 2
    assert during.pss_anonymous < during.pss < during.resident
