"""Builds that are killed, interrupted or out of disk space leave a whole dataset."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphzero.ingest import build_dataset, folder, reorder_dataset
from graphzero.store.atomic import StagedFile, is_staging_name
from graphzero.store.format import FileWriter, read_file, verify_file
from graphzero.store.manifest import MANIFEST_NAME, Manifest, finish_renames, read_manifest

NODES = 3000


def build_version(path: Path, version: int) -> None:
    """Every file has the number of its version, and so have the edges, as random seed."""
    edges = np.random.default_rng(version).integers(0, NODES, (20_000, 2))
    features = np.full((NODES, 8), version, np.float32)
    labels = np.full(NODES, version)
    splits = {"train": [version], f"of_{version}": [version]}  # a file that no other version has
    build_dataset(
        path,
        {"edge_index": edges, "edge_attr": np.full((20_000, 3), version)},
        features,
        labels,
        splits,
        nodes={"year": np.full(NODES, version)},
        edge_splits={"train": [version]},
        neighbors="both",
    )


def version_of(path: Path) -> int:
    """The version of a dataset whose files are all whole and of one version."""
    manifest = read_manifest(path)
    versions = set()
    for entry in manifest.entries():
        file = entry.resolve(path)
        verify_file(file)
        if file.suffix == ".gd" or entry.name.endswith(".gd"):
            versions |= set(read_file(file)[1]["rows"].tolist())
    assert len(versions) == 1
    return int(versions.pop())


def assert_edges_of(path: Path, version: int) -> None:
    expected = np.random.default_rng(version).integers(0, NODES, (20_000, 2))
    manifest = read_manifest(path)
    assert manifest.out_graph is not None
    for entry in (manifest.edges["", "", ""].graph, manifest.out_graph):
        _, arrays = read_file(entry.resolve(path))
        owners = np.repeat(np.arange(NODES), np.diff(arrays["indptr"].astype(np.int64)))
        node_ids = arrays.get("node_ids", np.arange(NODES))
        ends = [node_ids[ids] for ids in (owners, arrays["indices"])]
        stored = np.stack(ends[::-1] if entry == manifest.edges["", "", ""].graph else ends, 1)
        in_order = stored[np.lexsort(stored.T)]
        np.testing.assert_array_equal(in_order, expected[np.lexsort(expected.T)])


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


STEPS = ["first seal", "last seal", "before the manifest", "after the manifest", "one rename"]
SEALS = {"build": 9, "reorder": 6}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("what", SEALS)
def test_stop_at_each_step(tmp_path: Path, monkeypatch: Any, what: str, step: str) -> None:
    build_version(tmp_path, 1)
    seals, committed = [], []

    def stop_at_seal(self: FileWriter) -> None:
        seals.append(self)
        if len(seals) == {"first seal": 1, "last seal": SEALS[what]}.get(step):
            raise Stop
        original_seal(self)

    def write(path: Path, manifest: Manifest) -> None:
        if step == "before the manifest":
            raise Stop
        original_write(path, manifest)
        committed.append(manifest)
        if step == "after the manifest":
            raise Stop

    def rename(path: Path, manifest: Manifest) -> None:
        if committed:
            entry = manifest.nodes[""].attributes["x"]
            os.replace(path / entry.staged, path / entry.name)
            raise Stop
        finish_renames(path, manifest)

    original_seal, original_write = FileWriter.seal, folder.write_manifest
    monkeypatch.setattr(FileWriter, "seal", stop_at_seal)
    monkeypatch.setattr(folder, "write_manifest", write)
    if step == "one rename":
        monkeypatch.setattr(folder, "finish_renames", rename)
    with pytest.raises(Stop):
        build_version(tmp_path, 2) if what == "build" else reorder_dataset(tmp_path, "input")
    is_new = step in {"after the manifest", "one rename"}
    version = 2 if is_new and what == "build" else 1
    assert version_of(tmp_path) == version
    assert read_manifest(tmp_path).order == ("input" if is_new and what == "reorder" else "hot")
    assert_edges_of(tmp_path, version)
    if not is_new:
        assert not [name for name in os.listdir(tmp_path) if is_staging_name(name)]
    monkeypatch.undo()
    # A failing build rolls the committed one forward and leaves no trace of its own.
    with pytest.raises(ValueError, match="has no edges"):
        build_dataset(tmp_path, np.empty((0, 2), int))
    assert version_of(tmp_path) == version
    assert not [name for name in os.listdir(tmp_path) if is_staging_name(name)]


def check_full(path: Path, *args: object, **options: object) -> None:
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    with pytest.raises(OSError, match=str(path)) as caught:
        build_dataset(path, *args, **options)
    assert caught.value.errno == errno.ENOSPC
    assert str(caught.value.filename).startswith(str(path))
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert version_of(path) == 1


def test_full_disk(small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = small_disk / "data"
    build_version(target, 1)
    edges = np.random.default_rng(0).integers(0, NODES, (600_000, 2))
    np.savetxt(tmp_path / "e.csv", edges, fmt="%d", delimiter=",")
    wide = np.zeros((NODES, 400))
    check_full(target, edges, memory_limit="1MiB")
    check_full(target, edges, memory_limit="64MiB", directed=False)
    check_full(target, tmp_path / "e.csv", memory_limit="1MiB")
    check_full(target, edges[:10], wide)
    check_full(target, [[0, 2_000_000]])
    with_attribute = {"edge_index": edges[:30_000], "edge_attr": np.zeros((30_000, 8))}
    check_full(target, with_attribute, memory_limit="1MiB")
    # The same where the disk fills while the build runs, which no look ahead can know.
    monkeypatch.setattr("graphzero.ingest.build.require_disk_space", lambda *_: None)
    check_full(target, edges, memory_limit="1MiB")
    check_full(target, edges, memory_limit="64MiB", directed=False)
    check_full(target, edges[:300_000], memory_limit="1MiB")
    check_full(target, edges[:10], wide)
    check_full(target, [[0, 2_000_000]], memory_limit="1MiB")
    check_full(target, with_attribute, memory_limit="1MiB")
    assert MANIFEST_NAME in os.listdir(target)
