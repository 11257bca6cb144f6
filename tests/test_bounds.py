"""Trainings that are bound by something on purpose: the monitor must name it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import files
import numpy as np
import pytest

import graphzero as gz
from graphzero.report.summary import Summary

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.no_asan  # measures what takes the time

NODES = 6000


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Rows of 16 KiB, 98 MB of them, and a graph whose lists are long."""
    path = tmp_path_factory.mktemp("bounds") / "data"
    rng = np.random.default_rng(0)
    files.write_dataset(
        path,
        files.random_edges(NODES, 600_000),
        NODES,
        features=rng.standard_normal((NODES, 4096)).astype(np.float32),
        labels=rng.integers(0, 4, NODES),
    )
    return path


@pytest.fixture
def ds(folder: Path) -> Iterator[gz.Dataset]:
    with gz.open(folder) as opened:
        yield opened


def _run(loader, step: Callable[[], None], batches: int) -> Summary:
    with gz.Monitor(interval=0.2) as monitor:
        for i, batch in enumerate(loader):
            del batch
            step()
            if i + 1 == batches:
                break
    return monitor.summary


def _nothing() -> None:
    pass


def _loader(ds, fanouts, **options):
    options = {"batch_size": 1000, "num_threads": 1, "input_nodes": range(NODES), **options}
    return gz.NeighborLoader(ds, num_neighbors=fanouts, **options)


def _drop(path: Path) -> None:
    """Drops a file from the page cache, which is not mapped by then."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def test_a_slow_model_is_the_bound(ds) -> None:
    loader = _loader(ds, [2], batch_size=100, gather=["y"])
    summary = _run(loader, lambda: time.sleep(0.05), 20)
    assert summary.verdict.bound == "model", summary
    assert summary.verdict.stalled is not None
    assert summary.verdict.stalled < 0.1


def test_long_lists_without_rows_are_bound_by_sampling(ds) -> None:
    loader = _loader(ds, [100, 100, 100], gather=["y"])
    summary = _run(loader, _nothing, 6)
    assert summary.verdict.bound == "sampling", summary


def test_wide_rows_in_memory_are_bound_by_gathering(ds) -> None:
    assert ds.features is not None
    ds.features.get_tensor().sum()  # into the page cache
    loader = _loader(ds, [1], shuffle=True, prefetch=gz.Prefetch("none"))
    summary = _run(loader, _nothing, 6)
    assert summary.verdict.bound == "gather", summary


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="nothing else drops a file")
@pytest.mark.parametrize("strategy", ["none", "willneed", "uring", "pread"])
def test_rows_that_are_not_in_memory_are_bound_by_the_disk(folder: Path, strategy: str) -> None:
    _drop(folder / "features.gd")
    with gz.open(folder) as ds:
        cached = gz.memory_report(ds).page_cache
        if cached is None or cached > 10**7:
            pytest.skip("this file system keeps the file in memory")
        prefetch = gz.Prefetch(strategy, resident=0)
        summary = _run(_loader(ds, [1], shuffle=True, prefetch=prefetch), _nothing, 6)
        assert summary.verdict.bound == "disk", summary


def test_transforms_are_bound_by_delivery(ds) -> None:
    def transform(batch):
        time.sleep(0.05)
        return batch

    loader = _loader(ds, [2], batch_size=100, gather=["y"], num_workers=1, transform=transform)
    summary = _run(loader, _nothing, 20)
    assert summary.verdict.bound == "delivery", summary
