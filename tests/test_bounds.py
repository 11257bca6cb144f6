"""Trainings that are bound by something on purpose: the monitor must name it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import files
import numpy as np
import pytest

import graphzero as gz
from graphzero.report.summary import Summary

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.no_asan  # measures what takes the time

NODES, WIDE_NODES = 100_000, 2000


def _build(path: Path, nodes: int, edges: int, columns: int) -> Path:
    rng = np.random.default_rng(0)
    gz.build(
        path,
        rng.integers(0, nodes, (edges, 2)),
        rng.standard_normal((nodes, columns)).astype(np.float32),
        labels=rng.integers(0, 4, nodes),
        num_nodes=nodes,
        order="input",
    ).close()
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Rows of 512 bytes: eight on a page, of which a mini-batch has hardly ever two."""
    return _build(tmp_path_factory.mktemp("bounds") / "data", NODES, 2_000_000, 128)


@pytest.fixture(scope="module")
def wide(tmp_path_factory) -> Path:
    """Rows of 16 KiB."""
    return _build(tmp_path_factory.mktemp("wide") / "data", WIDE_NODES, 20_000, 4096)


@pytest.fixture
def ds(folder: Path) -> Iterator[gz.Dataset]:
    with gz.open(folder) as opened:
        yield opened


def _run(batches: Iterable[object], step: Callable[[], None]) -> Summary:
    iterator = iter(batches)
    next(iterator)  # every loop waits for the first one, whatever it is bound by
    with gz.Monitor(interval=0.2) as monitor:
        for batch in monitor.watch(iterator):
            del batch  # its memory is needed for the next one
            step()
    return monitor.summary


def _nothing() -> None:
    pass


def _named(bound: str, run: Callable[[], Summary]) -> Summary:
    """The summary of a run that must be bound by something.

    Other programs on the machine may take the processors away, which then is what bounds the run:
    one of three attempts must do. A wrong name would be wrong in all of them.
    """
    for _ in range(3):
        summary = run()
        if summary.verdict.bound == bound:
            return summary
    pytest.fail(str(summary))


def _batches(
    ds: gz.Dataset, fanouts: list[int], *, repeats: int = 1, **options: Any
) -> gz.NeighborDataset:
    options = {"batch_size": 500, "num_threads": 1, **options}
    return gz.NeighborDataset(ds, np.tile(np.arange(2000), repeats), fanouts, **options)


def test_a_slow_model_is_the_bound(ds) -> None:
    batches = _batches(ds, [2], repeats=4, gather=["y"])
    summary = _named("model", lambda: _run(batches, lambda: time.sleep(0.05)))
    assert summary.verdict.stalled is not None
    assert summary.verdict.stalled < 0.3


def test_long_lists_without_rows_are_bound_by_sampling(ds) -> None:
    _named("sampling", lambda: _run(_batches(ds, [20, 20, 20], gather=["y"]), _nothing))


def test_wide_rows_in_memory_are_bound_by_gathering(wide: Path) -> None:
    with gz.open(wide) as ds:
        assert ds.features is not None
        ds.features.get_tensor().sum()  # into the page cache
        # without a thread beside the loop, whose handing over takes long on a busy machine
        prefetch = gz.Prefetch("none", lookahead=0)
        batches = _batches(ds, [1], repeats=20, batch_size=2000, prefetch=prefetch)
        _named("gather", lambda: _run(batches, _nothing))


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="nothing else drops a file")
@pytest.mark.parametrize("strategy", ["none", "willneed", "uring", "pread"])
def test_rows_that_are_not_in_memory_are_bound_by_the_disk(folder: Path, strategy: str) -> None:
    def run() -> Summary:
        files.drop_from_cache(folder / "features.gd")
        with gz.open(folder) as ds:
            cached = gz.memory_report(ds).page_cache
            if cached is None or cached > 10**7:
                pytest.skip("this file system keeps the file in memory")
            # without a thread beside the loop, whose handing over takes long on a busy machine
            prefetch = gz.Prefetch(strategy, resident=0, lookahead=0)
            return _run(_batches(ds, [10], prefetch=prefetch), _nothing)

    _named("disk", run)


def test_a_collate_function_that_takes_long_is_bound_by_delivery(ds) -> None:
    def collate(sampled: gz.SampledBatch) -> gz.SampledBatch:
        time.sleep(0.1)
        return sampled

    loader = torch.utils.data.DataLoader(
        _batches(ds, [2], gather=["y"]),
        batch_size=None,
        num_workers=1,
        multiprocessing_context="fork",
        collate_fn=collate,
    )
    summary = _named("delivery", lambda: _run(loader, _nothing))
    assert "num_workers=0" in summary.verdict.knob
