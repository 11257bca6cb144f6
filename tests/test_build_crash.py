"""Builds that are interrupted, out of disk space, or raced by readers leave a whole dataset."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import files
import numpy as np
import pytest

import graphzero as gz
from graphzero import _core
from graphzero.graph import dataset as dataset_module
from graphzero.ingest import Changes, build_dataset, change_dataset, reorder_dataset
from graphzero.store import atomic as disk_space
from graphzero.store import folder
from graphzero.store.atomic import StagedFile, is_staging_name
from graphzero.store.format import FileWriter
from graphzero.store.manifest import Manifest, finish_renames

NODES = 3000


def edges_of(version: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(version).integers(0, NODES, (20_000, 2))


def build_version(path: Path, version: int) -> None:
    """Every file has the number of its version, and so have the edges, as random seed."""
    build_dataset(
        path,
        {"edge_index": edges_of(version), "edge_attr": np.full((20_000, 3), version)},
        np.full((NODES, 8), version, np.float32),
        np.full(NODES, version),
        {"train": [version], f"of_{version}": [version]},  # a file that no other version has
        nodes={"year": np.full(NODES, version)},
        edge_splits={"train": [version]},
        neighbors="both",
    )


def version_of(ds: gz.Dataset) -> int:
    """The version that all files of a dataset agree on."""
    rows = (ds.features, ds.labels, ds.nodes[""].attributes["year"])
    versions = {int(store.gather(np.arange(1)).flat[0]) for store in rows}
    (version,) = versions | {int(ds.splits["train"][0]), ds.num_classes - 1}
    for direction, ends in zip(("out", "in"), edges_of(version).T, strict=True):
        degrees = ds.graph.degree(np.arange(NODES), direction)
        np.testing.assert_array_equal(degrees, np.bincount(ends, minlength=NODES))
    return version


def staged_in(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if is_staging_name(name)]


@pytest.mark.parametrize("is_known", [False, True])
def test_an_interrupt_before_anybody_has_the_staged_file(tmp_path, monkeypatch, is_known) -> None:
    make, path = os.open, tmp_path / "file"

    def interrupted(*args):
        descriptor = make(*args)
        if not is_known:
            os.close(descriptor)
            raise KeyboardInterrupt
        return descriptor

    def begin():
        StagedFile(path)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "open", interrupted)
    interrupts = 0
    try:
        begin()
    except KeyboardInterrupt:
        interrupts += 1
    assert (interrupts, os.listdir(tmp_path)) == (1, [])


def test_a_forked_child_leaves_the_staged_file_to_its_parent(tmp_path) -> None:
    staged = StagedFile(tmp_path / "file")
    child = os.fork()
    if child == 0:
        del staged
        os._exit(0)
    os.waitpid(child, 0)
    assert len(os.listdir(tmp_path)) == 1
    staged.discard()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_failed_build_gives_its_disk_space_back_while_its_traceback_lives(tmp_path: Path) -> None:
    edges = np.random.default_rng(0).integers(0, NODES, (200_000, 2))
    edges[-1] = NODES
    with pytest.raises(ValueError, match="out of range") as caught:
        build_dataset(tmp_path / "data", edges, num_nodes=NODES, memory_limit="1MiB")
    assert caught.tb
    is_open = (os.path.realpath(file) for file in Path("/proc/self/fd").iterdir())
    assert not [path for path in is_open if path.startswith(str(tmp_path))]


class Stop(BaseException):
    """Stands for a kill: nothing that the package does may catch it for good."""


ROWS = np.ones(NODES)
STEPS = ["first seal", "last seal", "before the manifest", "after the manifest", "one rename"]
WORK: dict[str, Any] = {  # and how many files it writes
    "build": (lambda folder: build_version(folder, 2), 9),
    "reorder": (lambda folder: reorder_dataset(folder, "input"), 6),
    "set": (
        lambda folder: change_dataset(folder, Changes(attributes=dict.fromkeys("xy", ROWS))),
        2,
    ),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("what", WORK)
def test_stop_at_each_step(tmp_path: Path, monkeypatch: Any, what: str, step: str) -> None:
    work, num_seals = WORK[what]
    target, whole = tmp_path / "data", tmp_path / "whole"
    build_version(target, 1)
    earlier = files.committed(target)
    shutil.copytree(target, whole)
    work(whole)
    seals, written = [], []

    def stop_at_seal(self: FileWriter) -> None:
        seals.append(self)
        if len(seals) == {"first seal": 1, "last seal": num_seals}.get(step):
            raise Stop
        original_seal(self)

    def write(path: Path, text: bytes) -> None:
        if step == "before the manifest":
            raise Stop
        original_write(path, text)
        written.append(path)
        if step == "after the manifest":
            raise Stop

    def rename(path: Path, manifest: Manifest) -> None:
        if written:
            entry = manifest.nodes[""].attributes["x"]
            os.replace(path / entry.staged, path / entry.name)
            raise Stop
        finish_renames(path, manifest)

    original_seal, original_write = FileWriter.seal, folder.write_atomically
    monkeypatch.setattr(FileWriter, "seal", stop_at_seal)
    monkeypatch.setattr(folder, "write_atomically", write)
    if step == "one rename":
        monkeypatch.setattr(folder, "finish_renames", rename)
    with pytest.raises(Stop):
        work(target)
    assert files.committed(target) == (files.committed(whole) if written else earlier)
    assert bool(staged_in(target)) is bool(written)
    monkeypatch.undo()
    # A failing build rolls the committed one forward and leaves no trace of its own.
    with pytest.raises(ValueError, match="has no edges"):
        build_dataset(target, np.empty((0, 2), int))
    assert files.committed(target) == (files.committed(whole) if written else earlier)
    assert not staged_in(target)


def check_full(path: Path, *args: object, **options: object) -> None:
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    with pytest.raises(OSError, match=str(path)) as caught:
        build_dataset(path, *args, **options)
    assert caught.value.errno == errno.ENOSPC
    assert str(caught.value.filename).startswith(str(path))
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_full_disk(small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = small_disk / "data"
    build_version(target, 1)
    edges = np.random.default_rng(0).integers(0, NODES, (600_000, 2))
    np.savetxt(tmp_path / "e.csv", edges, fmt="%d", delimiter=",")
    wide = np.zeros((NODES, 400))
    with_attribute = {"edge_index": edges[:30_000], "edge_attr": np.zeros((30_000, 8))}
    cases: list[tuple[Any, Any, dict[str, Any]]] = [
        (edges, None, {"memory_limit": "1MiB"}),
        (edges, None, {"memory_limit": "64MiB", "directed": False}),
        (tmp_path / "e.csv", None, {"memory_limit": "1MiB"}),
        (edges[:10], wide, {}),
        ([[0, 2_000_000]], None, {"memory_limit": "1MiB"}),
        (with_attribute, None, {"memory_limit": "1MiB"}),
    ]
    for given, features, options in cases:
        check_full(target, given, features, **options)
    # The same where the disk fills while the build runs, which no look ahead can know.
    monkeypatch.setattr("graphzero.ingest.writer.require_disk_space", lambda *_: None)
    for given, features, options in cases:
        check_full(target, given, features, **options)


# --- the space is looked at when the edges are read; a build says how much it needs

RANDOM = np.random.default_rng(0).integers(0, NODES, (20_000, 2))


@pytest.mark.parametrize("typed", [False, True])
def test_what_has_no_room_is_refused_before_anything_is_written(tmp_path, monkeypatch, typed):
    edges = {("a", "to", "a"): RANDOM} if typed else RANDOM
    nodes = {"x": np.zeros((3000, 100))}
    monkeypatch.setattr(disk_space.shutil, "disk_usage", lambda _: SimpleNamespace(free=2_000_000))
    with pytest.raises(OSError, match=r"needs [\d,]+ bytes of disk space and 2,000,000 are") as e:
        gz.build(tmp_path / "d", edges, nodes={"a": nodes} if typed else nodes)
    assert (e.value.errno, e.value.filename) == (errno.ENOSPC, str(tmp_path / "d"))
    assert os.listdir(tmp_path / "d") == []
    gz.build(tmp_path / "d", edges, nodes={"a": {}} if typed else {}).close()


# --- `gz.open` while a rebuild replaces the dataset: files of one build, or an error


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("is_committed", [False, True])
def test_a_rebuild_before_any_of_the_files_is_opened(monkeypatch, tmp_path, at, is_committed):
    """Where it has committed, a file that was found under its staged name is renamed."""
    build_version(tmp_path, 1)
    pending, opened, mapping = [], [], _core.Mapping
    if is_committed:
        with monkeypatch.context() as patch:
            patch.setattr(folder, "finish_renames", lambda *args: pending.append(args))
            build_version(tmp_path, 2)

    def opening(path):
        opened.append(path)
        if len(opened) == at + 1:
            finish_renames(*pending[-1]) if is_committed else build_version(tmp_path, 2)
        return mapping(path)

    monkeypatch.setattr("graphzero.store.mapped_file._core.Mapping", opening)
    with gz.open(tmp_path) as ds:
        assert version_of(ds) == 2
    assert _core.open_mappings() == 0


@pytest.mark.extended
def test_endless_rebuilding_ends_in_an_error_that_says_so(monkeypatch, tmp_path):
    build_version(tmp_path, 1)
    versions = iter(range(2, 1000))
    graph = dataset_module.Graph

    def rebuilt(path):
        opened = graph(path)
        build_version(tmp_path, next(versions))
        return opened

    monkeypatch.setattr(dataset_module, "Graph", rebuilt)
    with pytest.raises(BlockingIOError, match="was replaced .* times while it was being opened"):
        gz.open(tmp_path)
    assert _core.open_mappings() == 0


SCRIPT = """
import sys, test_build_crash as this
print("ready", flush=True)
for version in range(2, 1_000_000):
    this.build_version(sys.argv[1], version)
"""


def test_opening_again_and_again_while_another_process_rebuilds(tmp_path):
    build_version(tmp_path, 1)
    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    path = [os.path.dirname(__file__), *filter(None, [os.environ.get("PYTHONPATH")])]
    # elsewhere than in the source tree, whose uncompiled package would be imported
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path, env=env) as builder:
        try:
            builder.stdout.readline()
            end, seen = time.monotonic() + 3, set()
            while time.monotonic() < end:
                with gz.open(tmp_path) as ds:
                    seen.add(version_of(ds))
            assert builder.poll() is None
        finally:
            builder.kill()
    assert len(seen) > 1
