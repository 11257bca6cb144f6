"""A build checks the disk space once, when the edges are read, and says how much it needs."""

from __future__ import annotations

import errno
import os
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import small_memory

import graphzero as gz
from graphzero.ingest.options import Progress
from graphzero.store import atomic as disk_space
from graphzero.units import parse_size

pytestmark = pytest.mark.no_asan  # pure Python

EDGES = np.random.default_rng(0).integers(0, 3000, (20_000, 2))


@pytest.fixture
def said(monkeypatch):
    """The lines and the phases of a build, in order."""
    lines: list[str] = []
    phase = Progress.phase
    monkeypatch.setattr(Progress, "say", lambda self, text: lines.append(text))

    def noted(self: Progress, label: str, *rest: Any) -> Any:
        lines.append(label)
        return phase(self, label, *rest)

    monkeypatch.setattr(Progress, "phase", noted)
    return lines


@pytest.mark.parametrize(("ids", "directed"), [("dense", False), ("map", True)])
@pytest.mark.parametrize("typed", [False, True])
def test_it_is_said_when_the_edges_are_read(tmp_path, said, ids, directed, typed) -> None:
    edges: Any = EDGES * (1 if ids == "dense" else 1_000_003)
    options: dict[str, Any] = {"directed": directed, "edge_ids": True}
    if typed:
        edges, options = {("a", "to", "a"): edges}, {"nodes": {"a": {}}}
    small_memory.build(tmp_path / "d", edges, ids=ids, progress=True, **options).close()
    (at,) = (i for i, line in enumerate(said) if line.startswith("disk space"))
    assert said.index("reading edges") < at < said.index("ordering nodes")
    found = re.match(r"disk space: ([\d.,]+ [A-Za-z]+) from here on; .* are free", said[at])
    size = sum(file.stat().st_size for file in (tmp_path / "d").glob("*.g[ld]"))
    size -= sum(file.stat().st_size for file in (tmp_path / "d").glob("*id_map.gd"))
    assert parse_size(found[1].replace(" ", ""), "size") >= 0.99 * size  # shown with three digits


@pytest.mark.parametrize("typed", [False, True])
def test_what_has_no_room_is_refused_before_anything_is_written(
    tmp_path, said, monkeypatch, typed
) -> None:
    edges: Any = {("a", "to", "a"): EDGES} if typed else EDGES
    nodes = {"x": np.zeros((3000, 100))}
    monkeypatch.setattr(disk_space.shutil, "disk_usage", lambda _: SimpleNamespace(free=2_000_000))
    with pytest.raises(OSError, match=r"needs [\d,]+ bytes of disk space and 2,000,000 are") as e:
        gz.build(tmp_path / "d", edges, nodes={"a": nodes} if typed else nodes)
    assert (e.value.errno, e.value.filename) == (errno.ENOSPC, str(tmp_path / "d"))
    assert said == ["reading edges"]
    assert os.listdir(tmp_path / "d") == []
    gz.build(tmp_path / "d", edges, nodes={"a": {}} if typed else {}).close()


def test_the_memory_of_a_build_is_at_least_256_megabytes(tmp_path) -> None:
    with pytest.raises(ValueError, match="memory_limit='200MB' is too small.*at least 256MB"):
        gz.build(tmp_path, EDGES, memory_limit="200MB")
    gz.build(tmp_path, EDGES, memory_limit="256MB").close()
    with pytest.raises(ValueError, match="memory_limit=1000000 is too small"):
        gz.reorder(tmp_path, "input", memory_limit=1_000_000)
