"""A build says how much disk space it needs, and refuses at once what has no room."""

from __future__ import annotations

import errno
import os
import re
from typing import Any

import numpy as np
import pytest
from id_files import write_csv

import graphzero as gz
from graphzero.ingest.progress import Progress
from graphzero.ingest.rank import order_scratch
from graphzero.store import disk_space
from graphzero.units import parse_size

pytestmark = pytest.mark.no_asan  # pure Python

UNITS = r"([\d.,]+ [A-Za-z]+)"


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


def bytes_of(line: str, what: str) -> int:
    found = re.search(what.format(UNITS), line)
    assert found, line
    return parse_size(found[1].replace(" ", ""), "size")


EDGES = np.random.default_rng(0).integers(0, 3000, (20_000, 2))


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("ids", ["dense", "map", "integer"])
@pytest.mark.parametrize("kind", ["npy", "csv", "gz"])
def test_it_says_first_what_it_needs(tmp_path, said, kind, ids, directed) -> None:
    edges = EDGES * (1 if ids == "dense" else 1_000_003)
    if kind == "npy":
        path = tmp_path / "e.npy"
        np.save(path, edges)
    else:
        path = tmp_path / ("e.csv" if kind == "csv" else "e.csv.gz")
        np.savetxt(path, edges, "%d", ",")
    gz.build(
        tmp_path / "d",
        path,
        ids=ids,
        directed=directed,
        edge_ids=True,
        progress=True,
        memory_limit="1MiB",
    ).close()
    size = sum(file.stat().st_size for file in (tmp_path / "d").iterdir())
    assert said[1] in ("reading edges", "reading ids")
    if kind == "gz":
        assert "the rest is known when the edges have been read" in said[0]
    else:
        assert bytes_of(said[0], "at most {}") >= 0.99 * size  # it is shown with three digits
    later = next(line for line in said[2:] if line.startswith("disk space"))
    assert bytes_of(later, "{} from here on") >= 0.99 * (tmp_path / "d" / "graph.gl").stat().st_size


def test_what_has_no_room_is_refused_before_anything_is_read(tmp_path, said, monkeypatch) -> None:
    features = np.zeros((3000, 100))
    monkeypatch.setattr(disk_space, "free_disk_space", lambda _: 2_000_000)
    path = write_csv(tmp_path / "e.csv", *(f"{a},{b}" for a, b in EDGES.tolist()))
    for edges in (EDGES, path):
        with pytest.raises(
            OSError, match=r"at least [\d,]+ bytes of disk space and 2,000,000 are"
        ) as e:
            gz.build(tmp_path / "d", edges, features)
        assert (e.value.errno, e.value.filename) == (errno.ENOSPC, str(tmp_path / "d"))
    assert not any("reading" in line for line in said)
    assert os.listdir(tmp_path / "d") == []
    # Nothing is known of how many edges the text has until it is read.
    monkeypatch.setattr(disk_space, "free_disk_space", lambda _: 60_000)
    with pytest.raises(OSError, match=r"the build needs [\d,]+ bytes of disk space"):
        gz.build(tmp_path / "d", path)
    assert "reading edges" in said
    monkeypatch.setattr(disk_space, "free_disk_space", lambda _: 2_000_000)
    gz.build(tmp_path / "d", path).close()


def test_orders_on_the_disk_count() -> None:
    assert order_scratch(1000, 1 << 20) == 0
    assert order_scratch(1 << 20, 1 << 20) == 16 << 20


@pytest.mark.parametrize("ids", ["dense", "integer"])
@pytest.mark.parametrize("kind", ["npy", "csv", "gz"])
def test_typed_graphs_say_it_too(tmp_path, said, kind, ids) -> None:
    ends = EDGES * (1 if ids == "dense" else 1_000_003)
    path = tmp_path / {"npy": "e.npy", "csv": "e.csv", "gz": "e.csv.gz"}[kind]
    if kind == "npy":
        np.save(path, ends)
    else:
        np.savetxt(path, ends, "%d", ",")
    author = {} if ids != "dense" else {"x": np.ones((3000, 4))}
    edges = {("author", "writes", "paper"): path, ("paper", "cites", "paper"): ends}
    nodes = {"author": author, "paper": {}}
    gz.build(tmp_path / "d", edges, nodes=nodes, ids=ids, progress=True).close()
    size = sum(file.stat().st_size for file in (tmp_path / "d").iterdir())
    assert said[0].startswith("disk space: at ")
    assert ("at least" in said[0]) is (kind == "gz")
    if kind == "gz":
        assert bytes_of(said[0], "at least {}") <= 1.01 * size
    else:
        assert bytes_of(said[0], "at most {}") >= 0.99 * size
    assert all("disk space" not in line for line in said[1:])


def test_typed_graphs_without_room_are_refused_first(tmp_path, said, monkeypatch) -> None:
    monkeypatch.setattr(disk_space, "free_disk_space", lambda _: 30_000)
    with pytest.raises(OSError, match="needs at least") as caught:
        gz.build(tmp_path / "d", {("a", "to", "a"): EDGES}, nodes={"a": {}})
    assert caught.value.errno == errno.ENOSPC
    assert said == []
