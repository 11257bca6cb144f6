"""`gz.open` while a rebuild replaces the dataset: the files are those of one build, or an error."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import numpy as np
import pytest

import graphzero as gz
from graphzero import _core
from graphzero.graph import dataset as dataset_module
from graphzero.ingest import build_dataset
from graphzero.ingest import folder as folder_module
from graphzero.store import manifest as manifest_module
from graphzero.store.manifest import finish_renames

NODES = 40


def build_version(path, version, **options):
    """Every file says which version it is of, and each has the same shapes."""
    edges = np.stack([np.full(NODES, version % NODES), np.arange(NODES)], axis=1)
    features = np.full((NODES, 2), version, np.float32)
    labels = np.full(NODES, version, np.int64)
    splits = {"train": np.array([version % NODES])}
    build_dataset(path, edges, features, labels, splits, order="input", neighbors="both", **options)


def version_of(ds):
    """The version that all files of a dataset agree on."""
    versions = {
        int(ds.graph.indices[0]),
        int(ds.graph.degree(np.arange(NODES), "out").argmax()),
        int(ds.features.get_tensor()[0, 0]) % NODES,
        int(ds.labels.get_tensor()[0]) % NODES,
        int(ds.splits["train"][0]),
        (ds.num_classes - 1) % NODES,
    }
    assert len(versions) == 1, versions
    return versions.pop()


@pytest.mark.parametrize("at", range(5))
@pytest.mark.parametrize("is_committed", [False, True])
def test_a_rebuild_before_any_of_the_files_is_opened(monkeypatch, tmp_path, at, is_committed):
    """Where it has committed, a file that was found under its staged name is renamed."""
    build_version(tmp_path, 1)
    pending, opened, mapping = [], [], _core.Mapping
    if is_committed:
        with monkeypatch.context() as patch:
            patch.setattr(folder_module, "finish_renames", lambda *args: pending.append(args))
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


def test_an_error_of_files_that_nobody_replaces_is_raised_at_once(monkeypatch, tmp_path):
    build_version(tmp_path, 1)
    (tmp_path / "labels.gd").unlink()
    reads = []
    read = manifest_module.read_manifest
    monkeypatch.setattr(manifest_module, "read_manifest", lambda f: reads.append(f) or read(f))
    with pytest.raises(FileNotFoundError, match=r"labels\.gd"):
        gz.open(tmp_path)
    assert len(reads) <= 2


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import test_open_race
version = 1
print("ready", flush=True)
while True:
    version += 1
    test_open_race.build_version(sys.argv[2], version)
"""


def test_opening_again_and_again_while_another_process_rebuilds(tmp_path):
    build_version(tmp_path, 1)
    command = [sys.executable, "-c", SCRIPT, os.path.dirname(__file__), str(tmp_path)]
    # elsewhere than in the source tree, whose uncompiled package would be imported
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path) as builder:
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
