"""What mini-batches cost: `batch.stats`, and what a training loop has spent on them."""

from __future__ import annotations

import json
import os
import time
from types import SimpleNamespace

import pytest

import graphzero as gz
from graphzero.loader import stats as stats_module
from graphzero.loader.stats import BatchTotals, Step, listeners, watch

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.no_asan,  # Python alone
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]


@pytest.fixture(autouse=True)
def steps():
    """What the loops of the test tell."""
    found = []
    listeners.append(found.append)
    yield found
    listeners.remove(found.append)


def sums(steps):
    return sum((step.totals for step in steps), BatchTotals())


@pytest.fixture
def order():
    return "hot"


class Clock:
    """Of a machine where time passes only as it is told."""

    def __init__(self):
        self.wall = 1000.0

    def spend(self, wall):
        self.wall += wall


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    watch = SimpleNamespace(perf_counter=lambda: clock.wall, monotonic=lambda: clock.wall)
    monkeypatch.setattr(stats_module, "time", watch)
    monkeypatch.setattr(stats_module._here, "until", 0.0)
    return clock


@pytest.mark.parametrize("strategy", ["none", "willneed", "pread"])
@pytest.mark.parametrize("lookahead", [0, 2])
def test_what_a_mini_batch_cost_is_told(dataset, strategy, lookahead):
    with gz.open(dataset[0]) as ds:
        prefetch = gz.Prefetch(strategy, lookahead=lookahead)
        loader = gz.NeighborLoader(
            ds, [3], "train", batch_size=50, prefetch=prefetch, num_threads=1, gather=["x"]
        )
        begun = time.perf_counter()
        batches = list(loader)
        elapsed = time.perf_counter() - begun
    for number, batch in enumerate(batches):
        stats = batch.stats
        assert stats.sampled > 0
        assert stats.gathered > 0
        assert stats.number == number
        assert (stats.disk > 0) == (strategy == "pread")  # the file itself is in the page cache
        assert (stats.pages_missed > 0) == (strategy == "pread")
        assert stats.row_bytes == len(batch.n_id) * 7 * 4
        assert stats.ready >= 0
    # one thread samples and places, another one reads
    assert sum(batch.stats.sampled + batch.stats.gathered for batch in batches) < elapsed
    assert sum(batch.stats.disk for batch in batches) < elapsed
    if lookahead == 0:
        waited = [batch.stats.waited for batch in batches]
        worked = [b.stats.sampled + b.stats.gathered + b.stats.disk for b in batches]
        assert all(work <= wait for work, wait in zip(worked, waited, strict=True))


# --- loops


class Source:
    """Items for which a loop waits 2 s each; its iterator takes 1 s."""

    def __init__(self, clock, count=3):
        self.clock, self.count = clock, count

    def __len__(self):
        return self.count

    def __iter__(self):
        self.clock.spend(1)
        return self._items()

    def _items(self):
        for item in range(self.count):
            self.clock.spend(2)
            yield item


def whole(clock, source):
    for _ in watch(source):
        clock.spend(5)


def left_by_an_exception(clock, source):
    with pytest.raises(KeyError):
        for item in watch(source):
            clock.spend(5)
            if item == 1:
                raise KeyError
    clock.spend(100)
    whole(clock, source)


def held(clock, source):
    iterator = iter(watch(source))
    next(iterator)
    clock.spend(100)
    whole(clock, source)
    return iterator


def nested(clock, source):
    for item in watch(source):
        clock.spend(5)
        if item == 1:
            whole(clock, source)
            clock.spend(7)


def side_by_side(clock, source):
    for _ in zip(watch(source), watch(source), strict=False):
        clock.spend(5)


def watched_twice(clock, source):
    for _ in watch(watch(watch(source))):
        clock.spend(5)


@pytest.mark.parametrize(
    ("loop", "count", "stall", "training"),
    [
        (whole, 3, 7, 15),
        (left_by_an_exception, 5, 12, 20),
        (held, 4, 10, 15),
        (nested, 6, 14, 32),  # without the 5 s before another loop began
        (side_by_side, 6, 14, 15),
        (watched_twice, 3, 7, 15),
    ],
)
def test_no_second_of_a_loop_counts_twice(clock, steps, loop, count, stall, training):
    before = clock.wall
    kept = loop(clock, Source(clock))
    got = sums(steps)
    assert got == BatchTotals(steps=count, stall=stall, training=training)
    assert got.stall + got.training <= clock.wall - before
    del kept


# --- loaders


def make_loader(kind, ds, workers):
    """A loader over a ready-made or an open form."""
    options = {"num_workers": workers, "persistent_workers": workers > 0}
    if kind == "ready-made":
        return gz.NeighborLoader(ds, [4, 3], "train", batch_size=20, **options)
    batches = gz.NeighborDataset(ds, ds.splits["train"], [4, 3], batch_size=20, shuffle=True)
    return torch.utils.data.DataLoader(
        batches, batch_size=None, collate_fn=gz.Collate(ds), **options
    )


def sums_of_stats(batches, loop):
    """Of these mini-batches, what their steps must have; `loop` has times of the loop itself."""
    of = {"sampling": "sampled", "disk": "disk", "gathering": "gathered", "seeds": "num_seeds"}
    names = ("ready", "pages_missed", "topology_missed", "row_bytes", "queue_depth")
    names += ("sent_bytes", "copied")
    sums = {
        name: pytest.approx(sum(getattr(batch.stats, field) for batch in batches))
        for name, field in {**of, **dict(zip(names, names, strict=True))}.items()
    }
    sums["nodes"] = sum(len(batch.n_id) for batch in batches)
    sums["edges"] = sum(batch.edge_index.shape[1] for batch in batches)
    count = len(batches)
    return {**sums, "batches": count, "steps": count, **loop}


@pytest.mark.parametrize(
    ("kind", "is_watched", "workers"),
    [
        *(("ready-made", False, 0), ("ready-made", True, 2)),
        *(("plain", True, 0), ("plain", True, 2), ("plain", False, 0)),
    ],
)
def test_what_a_loop_tells_is_the_sum_of_the_stats(dataset, steps, kind, is_watched, workers):
    with gz.open(dataset[0]) as ds:
        loader = make_loader(kind, ds, workers)
        loop, passes = watch(loader) if is_watched else loader, []
        for epoch in range(2):
            if kind == "plain":
                loader.dataset.set_epoch(epoch)
            passes.append(list(loop))
    if kind == "plain" and not is_watched:
        assert steps == []
        return
    for epoch, batches in enumerate(passes):
        got = vars(sums([step for step in steps if step.epoch == epoch]))
        times = {"stall": got["stall"], "training": got["training"]}
        assert got == sums_of_stats(batches, times)
        assert got["stall"] > 0
        found = [(b.stats.epoch, b.stats.number, b.stats.num_workers) for b in batches]
        assert found == [(epoch, number, workers) for number in range(len(batches))]


@pytest.mark.parametrize("workers", [0, 1])
def test_stats_of_batches_that_a_transform_replaces(dataset, steps, workers):
    with gz.open(dataset[0]) as ds:
        loader = gz.NeighborLoader(
            *(ds, [4, 3], "train"),
            batch_size=50,
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
            transform=lambda batch: SimpleNamespace(n_id=batch.n_id),
        )
        assert [batch.stats.num_seeds for batch in loader][:2] == [50, 50]
    assert (sums(steps).batches, sums(steps).steps) == (5, 5)


def test_a_watched_loop_counts_the_collate_function_as_waiting(dataset, clock, steps):
    def collate(sampled):
        clock.spend(3)
        return sampled.input_id  # without stats: those of its dataset count

    with gz.open(dataset[0]) as ds:
        batches = gz.NeighborDataset(ds, ds.splits["train"], [4, 3], batch_size=50)
        loader = torch.utils.data.DataLoader(batches, batch_size=None, collate_fn=collate)
        whole(clock, loader)
    watched = sums(steps)
    assert (watched.batches, watched.steps) == (5, 5)
    assert (watched.stall, watched.training) == (15, 25)


def test_steps_are_written_to_a_file_of_the_process(clock, tmp_path, steps):
    file = stats_module.StatsFile(str(tmp_path / "stats"))
    listeners.append(file.add)
    try:
        whole(clock, Source(clock, count=1))
        quick = SimpleNamespace(spend=lambda seconds: clock.spend(seconds / 1000))
        for _ in watch(Source(quick, 400)):  # 0.8 s
            pass
    finally:
        listeners.remove(file.add)
    path = tmp_path / f"stats.{os.getpid()}"
    assert len(path.read_text().splitlines()) == 3  # at once, and then every half second
    child = os.fork()
    if child == 0:
        steps.clear()
        file.add(Step(0, BatchTotals(steps=5), {}))
        os._exit(0)
    os.waitpid(child, 0)
    file.write()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    written = sum((BatchTotals(**line["totals"]) for line in lines), BatchTotals())
    assert written == sums(steps)
    assert written.steps == 401
    assert json.loads((tmp_path / f"stats.{child}").read_text())["totals"]["steps"] == 5


def test_a_file_of_steps_that_cannot_be_written_is_said_once(clock, tmp_path):
    file = stats_module.StatsFile(str(tmp_path / "missing" / "stats"))
    with pytest.warns(UserWarning, match="not recorded.*missing"):
        file.add(Step(0, BatchTotals(steps=1), {}))
    clock.spend(1)
    file.add(Step(0, BatchTotals(steps=1), {}))  # warnings are errors in tests
