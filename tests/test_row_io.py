"""Rows are the same whichever way they are read, and it is said which."""

from __future__ import annotations

import os
import shutil
import threading

import files
import numpy as np
import pytest
from loaders import loader_of

import graphzero as gz
from graphzero import _core
from graphzero.io.budget import Budget, budget
from graphzero.io.limits import MemoryWatch
from graphzero.io.probe import probe_files
from graphzero.io.row_sources import RowSource, touched_rows
from graphzero.loader.preparation import _Preparation

pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")

NODES, DIM = 20_000, 128  # 10 MB of rows
PLENTY, LITTLE = 1 << 40, 4 << 20


@pytest.fixture(scope="module", params=["input", "hot"])
def folder(request, tmp_path_factory):
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("rows") / "data"
    files.write_dataset(
        folder,
        files.random_edges(NODES, 200_000),
        NODES,
        features=rng.standard_normal((NODES, DIM)).astype(np.float32),
        labels=rng.integers(0, 5, NODES),
        order=request.param,
    )
    return folder


def make(folder, **prefetch):
    ds = gz.open(folder)
    batches = gz.NeighborDataset(
        ds, np.arange(600), [8, 8], batch_size=64, prefetch=gz.Prefetch(**prefetch)
    )
    return ds, batches


def batches_of(folder, workers=0, **prefetch):
    _, batches = make(folder, **prefetch)
    return list(loader_of(batches, workers))


def fingerprints(batches):
    return [batch.x.numpy().tobytes() + batch.y.numpy().tobytes() for batch in batches]


@pytest.fixture(scope="module")
def expected(folder):
    ds, batches = make(folder, strategy="none", lookahead=0)
    result = []
    for sampled in batches:
        batch = gz.Collate(ds)(sampled)
        np.testing.assert_array_equal(batch.x, ds.features.gather(batch.n_id.numpy()))
        result.append(batch)
    return fingerprints(result)


@pytest.mark.parametrize("strategy", ["none", "willneed", "pread", "uring", "auto"])
@pytest.mark.parametrize("resident", [0, 1 << 20, 0.5, 1.0])
@pytest.mark.parametrize("lookahead", [0, 3])
def test_every_strategy_gives_the_same_bytes(folder, expected, strategy, resident, lookahead):
    for path in folder.iterdir():
        files.drop_from_cache(path)
    got = batches_of(folder, strategy=strategy, resident=resident, lookahead=lookahead, gap_pages=2)
    assert fingerprints(got) == expected
    again = batches_of(folder, strategy=strategy, resident=resident, lookahead=lookahead)
    assert fingerprints(again) == expected


@pytest.mark.parametrize("strategy", ["pread", "uring", "auto"])
@pytest.mark.parametrize("workers", [1, 3])
def test_so_it_is_in_workers(folder, expected, strategy, workers):
    batches_of(folder, strategy=strategy)  # with readers that the workers must not inherit
    got = batches_of(folder, workers, strategy=strategy, resident=0.25, memory_limit=64 << 20)
    assert fingerprints(got) == expected


def test_batches_say_how_their_rows_were_read(folder):
    fits = batches_of(folder, memory_limit=PLENTY)[0]
    assert fits.stats.io == "willneed: the dataset fits in memory"
    larger = batches_of(folder, memory_limit=LITTLE)[0]
    direct = "uring" if _core.uring_refusal() is None else "pread"
    assert larger.stats.io.startswith(direct)
    assert "features of 10 MB" in larger.stats.io


def test_direct_reads_count_their_pages(folder):
    for path in folder.iterdir():
        files.drop_from_cache(path)
    got = batches_of(folder, strategy="pread")
    for batch in got:
        # eight rows a page
        assert batch.num_nodes / 8 <= batch.stats.pages_missed <= batch.num_nodes
    kept = batches_of(folder, strategy="pread", resident=1.0, lookahead=0)
    assert kept[-1].stats.pages_missed == 0


@pytest.mark.parametrize("strategy", ["pread", "uring", "auto"])
def test_nothing_is_resident_without_memory(folder, expected, strategy):
    ds, batches = make(folder, strategy=strategy, resident=0.9, memory_limit=0, readahead_limit=0)
    got, kept = [], []
    for sampled in batches:
        got.append(gz.Collate(ds)(sampled))
        kept.append(budget().kept_bytes())
    assert fingerprints(got) == expected
    assert set(kept) == {0}
    assert "; 0 bytes of memory available" in got[0].stats.io


def test_uring_that_cannot_be_had_is_replaced_and_named(folder, expected, monkeypatch):
    monkeypatch.setattr(_core, "uring_refusal", lambda: "forbidden for this test")
    got = batches_of(folder, strategy="uring")
    assert fingerprints(got) == expected
    assert got[0].stats.io.startswith("pread: uring was requested and is unavailable (forbidden")


def test_a_ring_that_is_refused_after_all_is_replaced_and_named(folder, expected, monkeypatch):
    make_reader = gz.FeatureStore.direct_reader

    def refuse(store, engine, threads):
        if engine == "uring":
            raise OSError(12, "no memory for a ring")
        return make_reader(store, engine, threads)

    monkeypatch.setattr(_core, "uring_refusal", lambda: None)
    monkeypatch.setattr(gz.FeatureStore, "direct_reader", refuse)
    got = batches_of(folder, strategy="uring")
    assert fingerprints(got) == expected
    assert got[0].stats.io.startswith("pread: ")
    assert "no memory for a ring" in got[0].stats.io


@pytest.mark.parametrize("strategy", ["pread", "uring"])
def test_a_file_truncated_under_the_reader_is_an_error(folder, tmp_path, strategy):
    shutil.copytree(folder, tmp_path / "data")
    ds, batches = make(tmp_path / "data", strategy=strategy)
    iterator = iter(batches)
    next(iterator)
    with open(ds.features.path, "r+b") as file:
        file.truncate(1 << 20)
    with pytest.raises((OSError, gz.FormatError), match="features"):
        list(iterator)


def test_iterations_leave_nothing_but_what_is_kept(folder):
    ds, batches = make(folder, strategy="pread", resident=0.5)
    for _ in range(2):
        next(iter(batches))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        iterator = iter(batches)
        next(iterator)
        iterator.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_rows_are_kept_by_so_many_bytes(tmp_path):
    files.write_rows(tmp_path / "f.gd", np.zeros((100, 300), dtype=np.float32))  # 1200 bytes a row
    with gz.FeatureStore(tmp_path / "f.gd") as store:
        rows = np.array([9, 3, 0, 3])
        source = RowSource(store, lambda batch, subgraph: rows, "rows", is_managed=True)
        assert touched_rows({"x": source}, 0, None).tolist() == [1200, 4800, 4800, 12000]
        # where two files share the bytes, each is kept as far as the other
        small = np.array([49])
        files.write_rows(tmp_path / "half.gd", np.zeros((50, 300), dtype=np.float32))
        with gz.FeatureStore(tmp_path / "half.gd") as half:
            other = RowSource(half, lambda batch, subgraph: small, "other", is_managed=True)
            found = touched_rows({"x": source, "edge_attr": other}, 0, None)
            assert found.tolist() == [1800, 7200, 7200, 18000, 180000]


class Hashable:
    """Stands for the loader of a training loop."""


def test_what_earlier_iterations_left_is_planned_with_unless_a_limit_is_given():
    watch, known, loop = MemoryWatch(), Budget(), Hashable()
    watch.least_available = 100 << 20
    known.learn(loop, watch)
    assert known.room_learnt(loop) is None  # too few batches to know what the model takes
    watch.batches = 4
    known.learn(loop, watch)
    assert known.room_learnt(loop) == 95 << 20
    assert probe_files(gz.Prefetch(), {}, 0, 95 << 20).observed == 95 << 20
    assert probe_files(gz.Prefetch(memory_limit=1 << 30), {}, 0, 95 << 20).observed is None
    del loop
    assert len(known._learnt) == 0


def test_the_next_rows_are_placed_and_those_after_them_read_while_the_loop_is_busy(
    folder, monkeypatch
):
    done, ready = [], threading.Event()

    def record(name, function):
        def recorded(preparation, item):
            result = function(preparation, item)
            done.append(name)
            if done.count("fetch") == 3 and done.count("place") == 2:
                ready.set()
            return result

        return recorded

    for name in ("fetch", "place"):
        monkeypatch.setattr(_Preparation, name, record(name, getattr(_Preparation, name)))
    _, batches = make(folder, strategy="pread", memory_limit="1GB")
    iterator = iter(batches)
    next(iterator)  # in use: the next one is placed, and the one after it is read
    assert ready.wait(60)
    iterator.close()
    assert (done.count("fetch"), done.count("place")) == (3, 2)
