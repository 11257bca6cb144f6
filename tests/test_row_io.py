"""Rows are the same whichever way they are read, and reading ahead never gets in the way."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import wait
from contextlib import closing
from mmap import PAGESIZE

import files
import numpy as np
import others
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loaders import loader_of

import graphzero as gz
from graphzero import _core
from graphzero.io import prefetch
from graphzero.io.memory import LearntMemory, MemoryWatch
from graphzero.io.plan import IOPlan
from graphzero.io.prefetch import STRATEGIES
from graphzero.io.resident import kept_bytes
from graphzero.io.row_io import PageReadAhead, PagesRequested, RowSource, touched_rows
from graphzero.io.session import Session, probe_files
from graphzero.loader.preparation import Preparation
from graphzero.store.mapped_file import ResidentPrefix

pytest.importorskip("torch")
pytestmark = [
    pytest.mark.core,
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]

NODES, DIM = 20_000, 128  # 10 MB of rows
PLENTY, LITTLE = 1 << 40, 4 << 20


@pytest.fixture(scope="module", params=["input", "hot"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "data"
    return files.write_random(path, NODES, 200_000, DIM, order=request.param)


def make(folder, **options):
    ds = gz.open(folder)
    reading = gz.Prefetch(**options)
    batches = gz.NeighborDataset(ds, np.arange(600), [8, 8], batch_size=64, prefetch=reading)
    return ds, batches


def batches_of(folder, workers=0, **options):
    _, batches = make(folder, **options)
    batches.set_epoch(0)  # which workers do not decide by themselves
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


def test_batches_say_how_their_rows_were_read(folder):
    smaller = batches_of(folder, memory_limit=PLENTY)[0].stats.io
    assert smaller == "willneed: the dataset fits in memory"
    larger = batches_of(folder, memory_limit=LITTLE)[0].stats.io
    assert larger.startswith("uring" if _core.uring_refusal() is None else "pread")
    assert "features of 10 MB" in larger


def test_direct_reads_count_their_pages(folder):
    for path in folder.iterdir():
        files.drop_from_cache(path)
    for batch in batches_of(folder, strategy="pread"):
        # eight rows a page
        assert batch.num_nodes / 8 <= batch.stats.pages_missed <= batch.num_nodes
    kept = batches_of(folder, strategy="pread", resident=1.0, lookahead=0)
    assert kept[-1].stats.pages_missed == 0


@pytest.mark.parametrize("strategy", ["pread", "uring"])
def test_short_gaps_are_read_along_past_the_page_cache(folder, expected, strategy):
    """Reads cost more than pages; the pages of gaps are not rows that the batches have missed."""
    if strategy == "uring" and _core.uring_refusal() is not None:
        pytest.skip("no io_uring here")
    gap = (12 << 10) // PAGESIZE
    rows = np.array([0, (gap + 1) * PAGESIZE, (2 * gap + 3) * PAGESIZE]) // (4 * DIM)
    ds = gz.open(folder)
    nothing = ResidentPrefix(ds.features.mapping, ds.features.origin)
    for chosen, reads in ((None, 2), (gap, 2), (gap + 1, 1), (0, 2 + (gap > 0))):
        options = gz.Prefetch(gap_pages=chosen)
        with closing(STRATEGIES[strategy].open(ds.features, None, options, nothing)) as reader:
            (fetched,) = reader.fetch([rows])
            assert fetched.counts[0] == prefetch.pages_read(fetched) == 3
            assert fetched.counts[2] == reads
            fills = _core.Fills(1)
            placed = reader.add(fetched, fills, 0, _core.empty)
            fills.run(_core.Team(1), _core.Stop())
            np.testing.assert_array_equal(placed, ds.features.gather_stored(rows, None, 1))
    assert fingerprints(batches_of(folder, strategy=strategy)) == expected
    assert fingerprints(batches_of(folder, strategy=strategy, gap_pages=0)) == expected


@pytest.mark.parametrize("group", [2, 5, 100])
@pytest.mark.parametrize("workers", [0, 2])
def test_batches_whose_rows_are_read_together_are_the_same(folder, expected, group, workers):
    assert fingerprints(batches_of(folder, workers, strategy="pread", group=group)) == expected


def test_each_page_is_read_once_for_a_group(folder):
    def missed(group):
        together = batches_of(folder, strategy="pread", group=group)
        return sum(batch.stats.pages_missed for batch in together)

    assert missed(8) < 0.7 * missed(1)  # ten batches: groups of 1, 2, 4 and 3


def test_nothing_is_resident_without_memory(folder, expected):
    ds, batches = make(folder, resident=0.9, memory_limit=0, readahead_limit=0)
    got, kept = zip(*[(gz.Collate(ds)(one), kept_bytes()) for one in batches], strict=True)
    assert fingerprints(got) == expected
    assert set(kept) == {0}
    assert "; 0 bytes of memory available" in got[0].stats.io


@pytest.mark.parametrize("when", ["before", "when it is opened"])
def test_a_ring_that_is_refused_is_replaced_and_named(folder, expected, monkeypatch, when):
    make_reader = prefetch.direct_reader

    def refuse(store, engine, threads):
        if engine == "uring":
            raise OSError(12, "no memory for a ring")
        return make_reader(store, engine, threads)

    refusal = "forbidden for this test" if when == "before" else None
    monkeypatch.setattr(_core, "uring_refusal", lambda: refusal)
    monkeypatch.setattr(prefetch, "direct_reader", refuse)
    got = batches_of(folder, strategy="uring")
    assert fingerprints(got) == expected
    assert got[0].stats.io.startswith("pread: ")
    assert (refusal or "no memory for a ring") in got[0].stats.io


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


def test_rows_are_kept_by_so_many_bytes(tmp_path):
    sources = {}
    for name, count, rows in (("x", 100, [9, 3, 0, 3]), ("half", 50, [49])):
        path = tmp_path / f"{name}.gd"
        files.write_rows(path, np.zeros((count, 300), dtype=np.float32))  # 1200 bytes a row
        store = gz.FeatureStore(path)
        sources[name] = RowSource(
            store, lambda *_, rows=rows: np.array(rows), name, is_managed=True
        )
    alone = touched_rows({"x": sources["x"]}, 0, None)
    assert alone.tolist() == [1200, 4800, 4800, 12000]
    # where two files share the bytes, each is kept as far as the other
    assert touched_rows(sources, 0, None).tolist() == [1800, 7200, 7200, 18000, 180000]


class Hashable:
    """Stands for the loader of a training loop."""


def test_what_earlier_iterations_left_is_planned_with_unless_a_limit_is_given():
    watch, memory, loop = MemoryWatch(), LearntMemory(), Hashable()
    watch.least_available = 100 << 20
    memory.learn(loop, watch)
    assert memory.available_before(loop) is None  # too few batches to know what the model takes
    watch.batches = 4
    memory.learn(loop, watch, in_flight=10 << 20)
    assert memory.available_before(loop) == (95 + 9) << 20
    assert probe_files(gz.Prefetch(), {}, [], 95 << 20).observed == 95 << 20
    assert probe_files(gz.Prefetch(memory_limit=1 << 30), {}, [], 95 << 20).observed is None
    del loop
    assert len(memory._available) == 0


def test_the_next_rows_are_placed_and_those_after_them_read_while_the_loop_is_busy(
    folder, monkeypatch
):
    done = []

    def record(name, function):
        def recorded(preparation, items, **how):
            function(preparation, items, **how)
            done.extend([name] * len(items))

        return recorded

    for name in ("read", "place"):
        monkeypatch.setattr(Preparation, name, record(name, getattr(Preparation, name)))
    _, batches = make(folder, strategy="pread", memory_limit="1GB")
    iterator = iter(batches)
    next(iterator)  # in use: the next one is placed, and the one after it is read
    others.wait_until(lambda: len(done) >= 5)
    iterator.close()
    assert (done.count("read"), done.count("place")) == (3, 2)


def test_memory_of_mini_batches_is_given_back_where_rows_could_have_it(folder):
    idle = {}
    for limit in (LITTLE, PLENTY):
        _, batches = make(folder, lookahead=0, memory_limit=limit)
        with closing(iter(batches)) as iterator:
            held = [next(iterator), next(iterator)]
            held.clear()
            held.append(next(iterator))
            idle[limit] = _core.pool_state()[1]
    assert idle[LITTLE] == 0 < idle[PLENTY]


def test_rows_that_an_earlier_iteration_kept_beyond_are_given_back(folder):
    ds, batches = make(folder, strategy="pread", resident=0.1, memory_limit="20MB")
    pages = ds.features.mapping.resident_pages
    ds.features.gather(np.arange(NODES))
    with closing(iter(batches)) as iterator:
        next(iterator)
        assert pages() < 250 + 64
        ds.features.gather(np.arange(NODES))
        with closing(iter(batches)) as other:
            next(other)
            assert pages() > 2400  # somebody has them now


def test_a_group_is_as_large_as_the_memory_that_is_planned_for_it():
    plan = IOPlan(STRATEGIES["pread"], group=8, group_bytes=80 << 20, is_larger=True)
    how = {"feature_dtype": None, "ranks": 1, "loop": Hashable()}
    with closing(Session((), {}, gz.Prefetch(), plan, **how)) as session:
        assert session.most_in_group(10 << 20) == 1  # what the model takes is unknown
        for _ in range(4):
            session.count_batch()
        assert session.most_in_group(10 << 20) == 8
        assert session.most_in_group(20 << 20) == 4  # larger than planned
        assert session.most_in_group(1 << 60) == 0
        session.rows.prefix.num_bytes = 1 << 20  # of which nothing is in memory yet
        assert session.most_in_group(10 << 20) == 1


FAR_ROWS = np.arange(4096, 32_768, 64)  # 448 pages, past what opening the file read along


@given(
    rows=st.lists(st.integers(0, 3000), max_size=60),
    origin=st.sampled_from([0, 4096, 128]),
    row_bytes=st.sampled_from([1, 4, 512, 4096, 5000]),
    gap=st.integers(0, 5),
)
@settings(max_examples=200, deadline=None)
def test_runs_cover_the_pages_of_the_rows(tmp_path_factory, rows, origin, row_bytes, gap):
    rows = np.array(sorted(rows), dtype=np.int64)
    file_bytes = origin + row_bytes * 3001
    path = tmp_path_factory.getbasetemp() / "runs.bin"
    with open(path, "wb") as file:
        file.truncate(file_bytes)
    mapping = _core.Mapping(path)
    first, last = (origin + rows * row_bytes) // 4096, (origin + (rows + 1) * row_bytes - 1) // 4096
    touched = sorted({n for a, b in zip(first, last, strict=True) for n in range(a, b + 1)})
    runs = np.split(touched, np.flatnonzero(np.diff(touched) > gap + 1) + 1) if touched else []
    lengths = [int(run[-1] - run[0]) + 1 for run in runs]
    pages, _, _ = mapping.willneed(rows, origin, row_bytes, gap)
    assert pages == sum(lengths)
    # with nothing trusted, every run is asked for, long ones in pieces of 2 MiB
    _, missing, calls = mapping.willneed(rows, origin, row_bytes, gap, False)
    assert missing <= pages  # of a file without data, nothing is read
    assert calls == sum(-(-length // 512) for length in lengths)


@pytest.mark.parametrize("trust", [True, False])
def test_pages_asked_for_become_resident_without_a_fault(cold_store, trust):
    """Of files of others mincore says that all is in memory: everything is requested each time."""
    if not trust and not os.path.exists("/proc/self/io"):
        pytest.skip("the system does not count what a process reads")
    pages, missing, calls = cold_store.read_ahead(FAR_ROWS, gap_pages=0, trust_mincore=trust)
    assert pages == missing == calls == 448
    cold_store.gather(FAR_ROWS)  # waits for what is still being read
    again = cold_store.read_ahead(FAR_ROWS, gap_pages=0, trust_mincore=trust)
    assert again == (448, 0, 0 if trust else 448)
    # MADV_RANDOM: what was not asked for was not read
    assert cold_store.mapping.resident_pages() < 448 + 64


def test_a_few_rows_are_looked_up_first(cold_store):
    """Where all is in memory, the others are not; and after some requests, hardly any are."""
    rows = np.random.default_rng(0).permutation(FAR_ROWS)
    with closing(PageReadAhead([cold_store], gz.Prefetch())) as readahead:
        assert readahead.submit(rows).result(timeout=60) == PagesRequested(448, 448)
        cold_store.gather(rows)
        requests = [readahead.submit(rows).result(timeout=60) for _ in range(40)]
        assert all(request.missing == 0 for request in requests)
        looked = [0 < request.pages <= 128 for request in requests]
        assert looked[:8] == [True] * 8
        assert 3 <= sum(looked[8:]) <= 5
        readahead.look_again()  # a page fault here and there: soon one looks, not each
        assert sum(readahead.submit(rows).result(timeout=60).pages > 0 for _ in range(8)) == 1
        everywhere = np.arange(32_768)  # now most are missing, and soon requested again
        missing = [readahead.submit(everywhere).result(timeout=60).missing for _ in range(8)]
        assert max(missing) > 3000


def test_once_all_is_in_memory_nothing_is_looked_up(cold_store):
    with closing(PageReadAhead([cold_store], gz.Prefetch())) as readahead:
        cold_store.gather(FAR_ROWS)
        for _ in range(100):  # of rows in memory, while others are not
            readahead.submit(FAR_ROWS).result(timeout=60)
        cold_store.gather(np.arange(32_768))
        looked = [readahead.submit(FAR_ROWS).result(timeout=60).pages for _ in range(600)]
        assert not any(looked[-100:])


def test_rows_beyond_the_limit_are_left_to_faults(cold_store):
    prefetch = gz.Prefetch(readahead_limit=100 * 512)
    with closing(PageReadAhead([cold_store], prefetch)) as readahead:
        asked = readahead.submit(FAR_ROWS).result(timeout=60)
        assert asked.pages == 100
        readahead.finish(asked)
        assert readahead.submit(np.arange(8)).result(timeout=60).pages == 1  # given back


def test_pages_read_too_early_wait_for_those_before_to_be_gathered(cold_store):
    first, second = FAR_ROWS[:200], FAR_ROWS[200:]
    limited = PageReadAhead([cold_store], gz.Prefetch(), most_bytes=100 * 4096)
    with closing(limited) as readahead:
        asked = readahead.submit(first).result(timeout=60)
        assert asked.missing == 200  # nothing else is in memory: it may be more than fits
        waiting = readahead.submit(second)
        assert not wait([waiting], timeout=0.5).done
        assert cold_store.read_ahead(second, only_count=True)[:2] == (248, 248)
        readahead.finish(asked)
        assert waiting.result(timeout=60).missing == 248


def test_closing_ends_the_waiting(cold_store):
    readahead = PageReadAhead([cold_store], gz.Prefetch(), most_bytes=0)
    readahead.submit(FAR_ROWS[:200]).result(timeout=60)
    waiting = readahead.submit(FAR_ROWS[200:])
    readahead.close()
    assert waiting.cancelled() or waiting.result(timeout=60).pages == 0
    assert readahead.submit(FAR_ROWS).cancelled()
    assert cold_store.read_ahead(FAR_ROWS[200:], only_count=True)[:2] == (248, 248)


def test_failing_advice_warns_and_goes_on(cold_store, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(12, "no memory for read-ahead")

    monkeypatch.setattr(cold_store, "read_ahead", refuse)
    with (
        closing(PageReadAhead([cold_store], gz.Prefetch())) as readahead,
        pytest.warns(RuntimeWarning, match="read-ahead failed"),
    ):
        assert readahead.submit(np.arange(10)).result(timeout=60).pages == 0


def test_rows_beyond_the_file_are_refused(cold_store):
    with pytest.raises(IndexError, match="beyond the end"):
        cold_store.read_ahead(np.array([0, 32_768]), gap_pages=0, trust_mincore=True)


@pytest.mark.timeout(60)
def test_a_batch_that_is_waited_for_does_not_wait_for_later_ones(cold_store):
    """Threads that sample side by side submit in any order; rows are gathered in one."""
    readahead = PageReadAhead([cold_store], gz.Prefetch("willneed"), most_bytes=4096)
    later, still_later = FAR_ROWS[200:300], FAR_ROWS[300:400]
    assert readahead.submit(later).result().missing == 100
    readahead.submit(still_later)
    assert readahead.result(readahead.submit(FAR_ROWS[:100])).missing == 100
    readahead.close()
