"""Memory reports: what is counted where."""

from __future__ import annotations

import mmap
import os

import files
import numpy as np
import others
import psutil
import pytest

import graphzero as gz
from graphzero import _core, units
from graphzero.report import readings as memory
from graphzero.report.readings import MemoryReport, format_memory
from graphzero.store import mapped_file as residency

MB = 1 << 20

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


@linux_only
def test_page_cache_shrinks_when_the_kernel_drops_the_file(tmp_path, wide):
    path = wide.features.path
    with open(path, "rb") as file:  # also where the file system has not kept it
        while file.read(MB):
            pass
    warm = gz.memory_report(wide)
    assert warm.dataset == sum(os.path.getsize(path) for path in wide.paths)
    assert warm.page_cache == pytest.approx(warm.dataset, rel=0.01)
    files.drop_from_cache(path)
    dropped = gz.memory_report(wide)
    if dropped.page_cache == warm.page_cache:
        pytest.skip("this file system does not drop pages when asked")
    assert dropped.page_cache < warm.page_cache / 2


def test_page_cache_is_unknown_where_mincore_is_not_to_be_believed(tmp_path, wide, monkeypatch):
    monkeypatch.setattr(residency, "mincore_is_honest", lambda path: False)
    report = gz.memory_report(wide)
    assert report.page_cache is None
    assert "page cache of the dataset's files: unknown of " in format_memory(report)


def test_mincore_is_believed_for_files_that_are_ours_or_writable(tmp_path, monkeypatch):
    path = tmp_path / "mine"
    path.write_bytes(b"x" * 5000)
    assert residency.mincore_is_honest(str(path))
    assert residency.resident_bytes(_core.Mapping(path)) in (0, 4096, 5000)
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert not residency.mincore_is_honest(str(path))
    assert not residency.mincore_is_honest(str(tmp_path / "missing"))


def test_one_closing_line():
    report = MemoryReport(1, 360 * 10**6, 312 * 10**6, 48 * 10**6, 1_240_000_000, 2_300_000_000)
    assert format_memory(report) == (
        "memory: 312 MB anonymous + 48 MB of files mapped (RSS); "
        "page cache of the dataset's files: 1.2 GB of 2.3 GB"
    )


def test_systems_that_do_not_split_say_so(wide, tmp_path, monkeypatch):
    """As macOS, which has no /proc."""
    monkeypatch.setattr(memory, "PROC", tmp_path / "none")
    report = gz.memory_report(wide)
    assert report.resident == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)
    assert (report.anonymous, report.file) == (None, None)
    assert " resident (not split on this system); page cache" in format_memory(report)


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


SHOWN = {
    **{0: "0 bytes", 999: "999 bytes", 1000: "1.0 kB", 9_960: "10 kB", 999_499: "999 kB"},
    **{999_500: "1.0 MB", 1_234_567_890: "1.2 GB", 5 * 10**15: "5000 TB"},
}


def test_bytes_as_people_read_them():
    assert {count: units.format_bytes(count) for count in SHOWN} == SHOWN
