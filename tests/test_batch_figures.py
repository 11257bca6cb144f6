"""What mini-batches cost: `batch.stats`, and the totals that loaders publish."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack, closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import packed_graphs
import pytest
from loaders import loader_of
from packed_graphs import SEEDS

import graphzero as gz
from graphzero.io.page_readahead import PagesRequested
from graphzero.io.rows import RowIO
from graphzero.loader import batch_log as log_module
from graphzero.loader import loop_clock, preparation
from graphzero.loader.batch_log import BatchLogReader, logs_of
from graphzero.loader.batch_totals import BatchTotals
from graphzero.loader.sampled_batch import SampledBatch
from graphzero.loader.stage_clock import Moment
from graphzero.loader.timed import timed

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.no_asan,  # Python alone
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]


@pytest.fixture(autouse=True)
def own_log(tmp_path, monkeypatch):
    """A log that begins with the test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(log_module, "_log", None)
    yield
    if log_module._log is not None:
        log_module._log.remove()


@pytest.fixture
def order():
    return "hot"


class Clock:
    """Of a machine where time passes only as it is told."""

    def __init__(self):
        self.wall, self.cpu, self.faults = 1000.0, 10.0, 0

    def spend(self, wall, cpu=0.0, faults=0):
        self.wall += wall
        self.cpu += cpu
        self.faults += faults

    def moment(self):
        return Moment(self.wall, self.cpu, 0.0, self.faults)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    watch = SimpleNamespace(perf_counter=lambda: clock.wall)
    monkeypatch.setattr(preparation, "moment", clock.moment)
    monkeypatch.setattr(preparation, "time", watch)
    return clock


# Stages: sampling takes 5 s of which 2 s on the processor, requests 1 s, waiting for them 7 s,
# fetching 11 s (4 s on the processor), placing 3 s (2 s on the processor).
@pytest.mark.parametrize(
    ("faults", "missing", "topology", "read", "sampled", "disk", "gathered"),
    [
        ({}, 0, 0, 0, 5, 0, 22),
        ({"sample": 1}, 0, 0, 0, 2, 3, 22),
        ({}, 0, 6, 0, 2, 3, 22),
        ({}, 4, 0, 0, 5, 14, 8),
        ({}, 0, 0, 9, 5, 11, 11),
        ({"fetch": 2}, 0, 0, 0, 5, 7, 15),
        ({"place": 2}, 0, 0, 0, 5, 1, 21),
        ({"sample": 1, "place": 1}, 4, 6, 9, 2, 22, 3),
    ],
)
def test_the_times_of_a_mini_batch_do_not_overlap(
    dataset, clock, monkeypatch, faults, missing, topology, read, sampled, disk, gathered
):
    def slow(owner, name, wall, cpu, change=lambda result: result):
        original = getattr(owner, name)

        def slowed(*args, **options):
            result = original(*args, **options)
            clock.spend(wall, cpu, faults.get(name, 0))
            return change(result)

        monkeypatch.setattr(owner, name, slowed)

    def with_missed(batch):
        return replace(batch, subgraph=replace(batch.subgraph, pages_missed=topology))

    slow(gz.NeighborDataset, "sample", 5, 2, with_missed)
    slow(RowIO, "submit", 1, 1)
    slow(RowIO, "wait", 7, 0, lambda requested: [PagesRequested(missing, missing)])
    slow(RowIO, "fetch", 11, 4)
    slow(RowIO, "place", 3, 2)
    monkeypatch.setattr(preparation, "pages_read", lambda fetched: read)
    with gz.open(dataset[0]) as ds:
        prefetch = gz.Prefetch("willneed", lookahead=0)
        batches = gz.NeighborDataset(
            ds, ds.splits["train"], [3], batch_size=50, prefetch=prefetch, gather=["x"]
        )
        with closing(iter(batches)) as iterator:
            batch = next(iterator)
    stats = batch.stats
    assert (stats.sampled, stats.disk, stats.gathered) == (sampled, disk, gathered)
    assert stats.sampled + stats.disk + stats.gathered == stats.waited == 27
    assert (stats.ready, stats.queue_depth) == (0, 0)
    assert (stats.pages_missed, stats.topology_missed) == (missing + read, topology)
    assert stats.row_bytes == len(batch.subgraph.n_id) * 7 * 4


def test_a_batch_without_rows_gathers_nothing_while_other_threads_run(dataset, clock, monkeypatch):
    submit = RowIO.submit

    def submitted(*args):
        clock.spend(1)  # another thread has its turn
        return submit(*args)

    monkeypatch.setattr(RowIO, "submit", submitted)
    with gz.open(dataset[0]) as ds:
        prefetch = gz.Prefetch("willneed", lookahead=0)
        batches = gz.NeighborDataset(
            ds, ds.splits["train"], [3], batch_size=50, prefetch=prefetch, gather=[]
        )
        stats = [batch.stats for batch in batches]
    assert [each.gathered for each in stats] == [0] * 5
    assert [each.row_bytes for each in stats] == [0] * 5


class Prepared:
    """A pipeline that finished its items at some moments."""

    def __init__(self, clock, finished):
        self._clock, self._finished = clock, finished
        self.num_finished = len(finished)

    def __next__(self):
        if not self._finished:
            raise StopIteration
        finished, self._finished = self._finished[0], self._finished[1:]
        self.num_finished -= 1
        self._clock.wall = max(self._clock.wall, finished)
        batch = SampledBatch(None, np.arange(2))
        cost = preparation._Cost(0, "", finished=finished)
        return preparation._Placed(batch, cost, {})


def test_a_finished_batch_is_ready_until_it_is_taken(clock):
    prepared = Prepared(clock, [1002.0, 1003.0, 1004.0])
    got = []
    for batch in preparation._taken(prepared, None):
        got.append(batch.stats)
        clock.spend(10)
    assert [(s.waited, s.ready, s.queue_depth) for s in got] == [(2, 0, 2), (0, 9, 1), (0, 18, 0)]


# --- loaders


def neighbor(folder, stack, workers):
    ds = stack.enter_context(gz.open(folder))
    loader = gz.NeighborLoader(
        ds,
        [4, 3],
        "train",
        batch_size=20,
        num_workers=workers,
        persistent_workers=workers > 0,
        filter_per_worker=None,
    )
    return loader, loader


def plain(folder, stack, workers):
    ds = stack.enter_context(gz.open(folder))
    batches = gz.NeighborDataset(ds, ds.splits["train"], [4, 3], batch_size=20, shuffle=True)
    loader = loader_of(batches, workers, persistent_workers=workers > 0)
    return loader, loader


def plain_timed(folder, stack, workers):
    loader, _ = plain(folder, stack, workers)
    return timed(loader), loader


def neighbor_timed(folder, stack, workers):
    loader, _ = neighbor(folder, stack, workers)
    return timed(loader), loader


def typed(folder, stack, workers):
    ds = stack.enter_context(gz.open(packed_graphs.build_typed(folder / "typed")))
    loader = gz.NeighborLoader(
        ds,
        [4, 3],
        ("paper", "train"),
        batch_size=7,
        num_workers=workers,
        persistent_workers=workers > 0,
    )
    return loader, loader


def packed(folder, stack, workers):
    ds = stack.enter_context(gz.open(packed_graphs.build_untyped(folder / "untyped")))
    pack = packed_graphs.make(ds, folder / "pack", SEEDS["untyped"])
    log_module._log.remove()  # packing iterates as well
    log_module._log = None
    batches = gz.PackedDataset(ds, pack, SEEDS["untyped"])
    loader = loader_of(batches, workers, persistent_workers=workers > 0)
    return loader, loader


def sums_of_stats(batches):
    """Of these mini-batches, what their logs must have."""
    total = BatchTotals()
    for batch in batches:
        stats = batch.stats
        counts = batch.to_dict()
        typed = isinstance(batch, gz.TypedMiniBatch)
        n_ids = list(batch.n_id_dict.values()) if typed else [counts["n_id"]]
        edges = list(batch.edge_index_dict.values()) if typed else [counts["edge_index"]]
        total += BatchTotals(
            batches=1,
            sampling=stats.sampled,
            disk=stats.disk,
            gathering=stats.gathered,
            ready=stats.ready,
            pages_missed=stats.pages_missed,
            topology_missed=stats.topology_missed,
            row_bytes=stats.row_bytes,
            queue_depth=stats.queue_depth,
            seeds=len(batch.input_id),
            nodes=sum(map(len, n_ids)),
            edges=sum(edge_index.shape[1] for edge_index in edges),
        )
    return total


LOOP = ("steps", "stall", "training", "unsplit")
PREPARED = [field for field in vars(BatchTotals()) if field not in LOOP]


@pytest.mark.parametrize(
    ("make", "workers", "observed"),
    [
        (neighbor, 0, True),
        (neighbor, 2, True),
        (neighbor_timed, 0, True),
        (neighbor_timed, 2, True),
        (plain, 0, True),
        (plain, 2, False),
        (plain_timed, 0, True),
        (plain_timed, 2, True),
        (typed, 0, True),
        (typed, 2, True),
        (packed, 0, True),
        (packed, 2, False),
    ],
)
def test_what_is_published_is_the_sum_of_the_stats(dataset, make, workers, observed):
    with ExitStack() as stack:
        loop, loader = make(dataset[0], stack, workers)
        first, second = list(loop), list(loop)
        workers_of = [w.pid for w in loader._iterator._workers] if workers else []
        logs = logs_of([os.getpid(), *workers_of])
        assert len(logs) == (workers + 1 if observed or not workers else workers)
        total, epochs = BatchTotals(), {0: BatchTotals(), 1: BatchTotals()}
        for log in logs.values():
            total += log.totals
            for epoch, sums in log.epochs.items():
                epochs[epoch] += sums
        for got, batches in ((total, first + second), (epochs[0], first), (epochs[1], second)):
            expected = sums_of_stats(batches)
            for name in PREPARED:
                assert getattr(got, name) == pytest.approx(getattr(expected, name)), name
            assert got.steps == (len(batches) if observed else 0)
            assert (got.stall > 0) == observed
            split = make not in (plain, packed) or workers > 0
            assert got.unsplit == (0 if split else got.training)
        if make is packed:
            assert any("pack" in path for log in logs.values() for path in log.files)
        preparing = [logs[pid] for pid in workers_of or [os.getpid()]]
        for log in preparing:
            (options,) = log.iterations
            assert options["num_workers"] == str(workers)
            assert options["fanouts"] == "[4, 3]" or make is typed
            assert options["io"] == first[0].stats.io
            names = {os.path.basename(path) for path in log.files}
            assert {"paper.x.gd"} & names or any(name.endswith(".gl") for name in names)
            batches_of = [(record.epoch, record.batch) for record in log.records]
            assert batches_of == sorted(batches_of)
        every = {(r.epoch, r.batch) for log in preparing for r in log.records}
        assert every == {(e, b) for e in (0, 1) for b in range(len(first))}
        del loader, loop


def test_a_loop_in_this_process_waits_as_long_as_its_batches_say(dataset):
    with gz.open(dataset[0]) as ds:
        batches = gz.NeighborDataset(ds, ds.splits["train"], [4, 3], batch_size=20)
        waited = sum(batch.stats.waited for batch in batches)
        got = BatchLogReader(os.getpid()).read()
        assert got.totals.stall >= waited > 0
        assert got.records[-1].waited > 0


def test_the_files_of_workers_end_with_them(dataset, tmp_path):
    with gz.open(dataset[0]) as ds:
        loader = gz.NeighborLoader(ds, [4, 3], "train", batch_size=20, num_workers=2)
        folder = tmp_path / f"graphzero-batches-{os.getuid()}"
        for at, _ in enumerate(loader):
            if at == 5:  # both have prepared some
                assert len(list(folder.iterdir())) == 3
        (path,) = folder.iterdir()
        assert path.name.startswith(f"{os.getpid()}-")


def test_a_watched_loop_counts_the_collate_function_as_waiting(dataset, clock, monkeypatch):
    watch = SimpleNamespace(perf_counter=lambda: clock.wall)
    monkeypatch.setattr(loop_clock, "time", watch)

    def collate(sampled):
        clock.spend(3)
        return sampled

    with gz.open(dataset[0]) as ds:
        batches = gz.NeighborDataset(ds, ds.splits["train"], [4, 3], batch_size=50)
        loader = torch.utils.data.DataLoader(batches, batch_size=None, collate_fn=collate)
        for _ in timed(loader):
            clock.spend(5)
        watched = BatchLogReader(os.getpid()).read().totals
        assert (watched.steps, watched.stall, watched.training) == (5, 15, 25)
        assert watched.unsplit == 0
        for _ in loader:  # its dataset cannot tell who works on a mini-batch
            clock.spend(5)
        alone = BatchLogReader(os.getpid()).read()
        assert (alone.epochs[1].steps, alone.epochs[1].stall) == (5, 0)
        assert alone.epochs[1].training == alone.epochs[1].unsplit == 4 * (3 + 5) + 3 + 5


def test_a_ready_made_loader_counts_its_collate_function_as_waiting(dataset, clock, monkeypatch):
    watch = SimpleNamespace(perf_counter=lambda: clock.wall)
    monkeypatch.setattr(loop_clock, "time", watch)
    with gz.open(dataset[0]) as ds:

        def transform(batch):
            clock.spend(3)
            return batch

        loader = gz.NeighborLoader(ds, [4, 3], "train", batch_size=50, transform=transform)
        for _ in loader:
            clock.spend(5)
        got = BatchLogReader(os.getpid()).read().totals
        assert (got.steps, got.stall, got.training) == (5, 15, 25)


def test_a_watched_loop_has_the_epochs_of_the_loader_within(dataset):
    with gz.open(dataset[0]) as ds:
        loader = gz.NeighborLoader(ds, [4, 3], "train", batch_size=50)
        for epoch in (5, 8):
            loader.set_epoch(epoch)
            assert len(list(timed(loader))) == 5
        epochs = BatchLogReader(os.getpid()).read().epochs
        assert {epoch: sums.steps for epoch, sums in epochs.items()} == {5: 5, 8: 5}
