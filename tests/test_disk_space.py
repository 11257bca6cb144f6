"""A build checks the disk space once, when the edges are read, and says how much it needs."""

from __future__ import annotations

import errno
import os
from types import SimpleNamespace

import numpy as np
import pytest
import small_memory

import graphzero as gz
from graphzero.ingest import build
from graphzero.ingest.options import Progress
from graphzero.store import atomic as disk_space

pytestmark = pytest.mark.no_asan  # pure Python

EDGES = np.random.default_rng(0).integers(0, 3000, (20_000, 2))


@pytest.fixture
def events(monkeypatch):
    """The phases of a build, and the bytes that it says it needs, in order."""
    found = []
    phase, require = Progress.phase, build.require_disk_space

    def noted(self, label, *rest):
        found.append(label)
        return phase(self, label, *rest)

    def required(folder, num_bytes, needs):
        found.append(num_bytes)
        require(folder, num_bytes, needs)

    monkeypatch.setattr(Progress, "phase", noted)
    monkeypatch.setattr(build, "require_disk_space", required)
    return found


def size_of(folder, *, of_ids=True):
    files = [file for file in folder.glob("*.g[ld]") if of_ids or "id_map" not in file.name]
    return sum(file.stat().st_size for file in files)


@pytest.mark.parametrize(("typed", "ids"), [(False, "dense"), (True, "map")])
def test_what_is_needed_is_known_when_the_edges_are_read(tmp_path, events, typed, ids):
    edges = EDGES * (1 if ids == "dense" else 1_000_003)
    options = {"edge_ids": True}
    if typed:
        edges, options = {("a", "to", "a"): edges}, {"nodes": {"a": {}}}
    small_memory.build(tmp_path / "d", edges, ids=ids, **options).close()
    (at,) = (i for i, event in enumerate(events) if isinstance(event, int))
    assert events.index("reading edges") < at < events.index("ordering nodes")
    assert events[at] >= size_of(tmp_path / "d", of_ids=False)


def test_another_direction_and_its_presampling_are_counted(tmp_path, events):
    gz.build(tmp_path, EDGES, np.zeros((3000, 100)), edge_ids=True).close()
    gz.reorder(tmp_path, "presample", neighbors="both").close()
    sizes = size_of(tmp_path), (tmp_path / "graph.gl").stat().st_size
    gz.reorder(tmp_path, "presample", neighbors="out").close()
    _, both, out = (event for event in events if isinstance(event, int))
    assert sizes[0] <= both < 1.2 * sizes[0]
    assert both <= out  # lists of the other direction, to sample in, and their last order


@pytest.mark.parametrize("typed", [False, True])
def test_what_has_no_room_is_refused_before_anything_is_written(
    tmp_path, events, monkeypatch, typed
):
    edges = {("a", "to", "a"): EDGES} if typed else EDGES
    nodes = {"x": np.zeros((3000, 100))}
    monkeypatch.setattr(disk_space.shutil, "disk_usage", lambda _: SimpleNamespace(free=2_000_000))
    with pytest.raises(OSError, match=r"needs [\d,]+ bytes of disk space and 2,000,000 are") as e:
        gz.build(tmp_path / "d", edges, nodes={"a": nodes} if typed else nodes)
    assert (e.value.errno, e.value.filename) == (errno.ENOSPC, str(tmp_path / "d"))
    assert events[0] == "reading edges"
    assert len(events) == 2
    assert os.listdir(tmp_path / "d") == []
    gz.build(tmp_path / "d", edges, nodes={"a": {}} if typed else {}).close()


def test_the_memory_of_a_build_is_at_least_256_megabytes(tmp_path):
    with pytest.raises(ValueError, match="memory_limit='200MB' is too small.*at least 256MB"):
        gz.build(tmp_path, EDGES, memory_limit="200MB")
    gz.build(tmp_path, EDGES, memory_limit="256MB").close()
    with pytest.raises(ValueError, match="memory_limit=1000000 is too small"):
        gz.reorder(tmp_path, "input", memory_limit=1_000_000)
