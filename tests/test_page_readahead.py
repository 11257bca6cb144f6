"""Read-ahead: which pages are asked for, and that it never gets in the way."""

from __future__ import annotations

import os
from contextlib import closing

import files
import numpy as np
import pytest
import reference_rows
from hypothesis import given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero import _core
from graphzero.io.page_readahead import PageReadAhead
from graphzero.io.plan import IOPlan
from graphzero.io.row_sources import RowSource
from graphzero.io.rows import RowIO
from graphzero.io.strategies import STRATEGIES


@pytest.fixture
def cold_store(tmp_path):
    """16 MiB of rows, none of them in the page cache."""
    path = tmp_path / "f.gd"
    files.write_rows(path, np.arange(32_768 * 128, dtype=np.float32).reshape(32_768, 128))
    with files.open_cold(gz.FeatureStore, path) as store:
        yield store


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
    runs = reference_rows.page_runs(rows.tolist(), origin, row_bytes, gap, file_bytes)
    pages, _, _ = mapping.willneed(rows, origin, row_bytes, gap)
    assert pages == sum(-(-length // 4096) for _, length in runs)
    # with nothing trusted, every run is asked for, long ones in pieces of 2 MiB
    _, missing, calls = mapping.willneed(rows, origin, row_bytes, gap, False)
    assert missing <= pages  # of a file without data, nothing is read
    assert calls == sum(-(-length // (2 << 20)) for _, length in runs)


def test_pages_asked_for_become_resident_without_a_fault(cold_store):
    pages, missing, calls = cold_store.read_ahead(FAR_ROWS, gap_pages=0, trust_mincore=True)
    assert pages == missing == calls == 448
    cold_store.gather(FAR_ROWS)  # waits for what is still being read
    pages, missing, calls = cold_store.read_ahead(FAR_ROWS, gap_pages=0, trust_mincore=True)
    assert (pages, missing, calls) == (448, 0, 0)
    # MADV_RANDOM: what was not asked for was not read
    assert cold_store._mapping.resident_pages() < 448 + 64


def test_of_a_file_of_others_what_is_read_counts_as_missing(cold_store):
    """There mincore says that all is in memory, so everything is requested each time."""
    if not os.path.exists("/proc/self/io"):
        pytest.skip("the system does not count what a process reads")
    pages, missing, _ = cold_store.read_ahead(FAR_ROWS, gap_pages=0, trust_mincore=False)
    assert pages == missing == 448
    cold_store.gather(FAR_ROWS)  # waits for what is still being read
    pages, missing, calls = cold_store.read_ahead(FAR_ROWS, gap_pages=0, trust_mincore=False)
    assert (pages, missing, calls) == (448, 0, 448)


def test_long_runs_are_read_whole(cold_store):
    """One call would be cut silently at the device's limit."""
    cold_store.read_ahead(np.arange(32_768), gap_pages=0, trust_mincore=True)
    cold_store.gather(np.arange(0, 32_768, 8))
    assert cold_store._mapping.resident_pages() >= 4096


def test_the_thread_reports_what_was_missing(cold_store):
    readahead = PageReadAhead([cold_store], gz.Prefetch())
    try:
        rows = np.random.default_rng(0).permutation(FAR_ROWS)
        first = readahead.submit(rows).result(timeout=60)
        assert (first.pages, first.missing) == (448, 448)
        cold_store.gather(rows)
        assert readahead.submit(rows).result(timeout=60).missing == 0
    finally:
        readahead.close()


def test_a_few_rows_are_looked_up_first(cold_store):
    """Where all is in memory, the others are not."""
    rows = np.random.default_rng(0).permutation(FAR_ROWS)
    cold_store.gather(rows)
    readahead = PageReadAhead([cold_store], gz.Prefetch())
    try:
        asked = readahead.submit(rows).result(timeout=60)
        assert asked.missing == 0
        assert 0 < asked.pages <= 128
        everywhere = np.arange(32_768)  # now most are missing, and all of these asked for
        asked = readahead.submit(everywhere).result(timeout=60)
        assert (asked.pages, asked.missing > 3000) == (4096, True)
    finally:
        readahead.close()


def test_looking_asks_for_nothing(cold_store):
    assert cold_store.count_missing(FAR_ROWS) == (448, 448)
    assert cold_store._mapping.resident_pages() < 64


def test_rows_beyond_the_limit_are_left_to_faults(cold_store):
    readahead = PageReadAhead([cold_store], gz.Prefetch(readahead_limit=100 * 512))
    try:
        asked = readahead.submit(FAR_ROWS).result(timeout=60)
        assert asked.pages == 100
        readahead.finish(asked)
        assert readahead.submit(np.arange(8)).result(timeout=60).pages == 1  # given back
    finally:
        readahead.close()


def test_pages_read_too_early_wait_for_those_before_to_be_gathered(cold_store):
    first, second = FAR_ROWS[:200], FAR_ROWS[200:]
    readahead = PageReadAhead([cold_store], gz.Prefetch(), room=100 * 4096)
    try:
        asked = readahead.submit(first).result(timeout=60)
        assert asked.missing == 200  # nothing else is in memory: it may be more than fits
        waiting = readahead.submit(second)
        with pytest.raises(TimeoutError):
            waiting.result(timeout=0.5)
        assert cold_store.count_missing(second) == (248, 248)
        readahead.finish(asked)
        assert waiting.result(timeout=60).missing == 248
    finally:
        readahead.close()


def test_closing_ends_the_waiting(cold_store):
    readahead = PageReadAhead([cold_store], gz.Prefetch(), room=0)
    readahead.submit(FAR_ROWS[:200]).result(timeout=60)
    waiting = readahead.submit(FAR_ROWS[200:])
    readahead.close()
    assert waiting.cancelled() or waiting.result(timeout=60).pages == 0
    assert cold_store.count_missing(FAR_ROWS[200:]) == (248, 248)


@pytest.mark.parametrize(("strategy", "pages"), [("none", 0), ("willneed", 448)])
def test_only_strategies_that_read_ahead_request_pages(cold_store, strategy, pages):
    source = RowSource(cold_store, lambda batch, subgraph: FAR_ROWS, "rows")
    plan = IOPlan(STRATEGIES[strategy])
    with closing(RowIO({"x": source}, gz.Prefetch(strategy), plan)) as rows:
        requested = rows.wait(rows.submit(0, None))
        assert sum(part.pages for part in requested) == pages
        rows.finish(requested)
    assert (cold_store._mapping.resident_pages() < 64) is (pages == 0)


def test_rows_with_the_same_numbers_are_one_request(cold_store, tmp_path):
    files.write_rows(tmp_path / "y.gd", np.zeros(32_768, dtype=np.uint8))
    with gz.FeatureStore(tmp_path / "y.gd") as labels:

        def sources(numbering):
            return {
                "x": RowSource(cold_store, lambda batch, subgraph: FAR_ROWS, "rows"),
                "y": RowSource(labels, lambda batch, subgraph: FAR_ROWS, numbering),
            }

        for numbering, requests in (("rows", 1), ("others", 2)):
            plan = IOPlan(STRATEGIES["willneed"])
            with closing(RowIO(sources(numbering), gz.Prefetch("willneed"), plan)) as rows:
                submitted = rows.submit(0, None)
                assert len(submitted) == requests
                rows.finish(rows.wait(submitted))


def test_failing_advice_warns_and_goes_on(tmp_path, monkeypatch):
    files.write_rows(tmp_path / "f.gd", np.ones((10, 4)))
    store = gz.FeatureStore(tmp_path / "f.gd")

    def refuse(*args, **kwargs):
        raise OSError(12, "no memory for read-ahead")

    monkeypatch.setattr(store, "read_ahead", refuse)
    readahead = PageReadAhead([store], gz.Prefetch())
    try:
        with pytest.warns(RuntimeWarning, match="read-ahead failed"):
            assert readahead.submit(np.arange(10)).result(timeout=60).pages == 0
    finally:
        readahead.close()


def test_rows_beyond_the_file_are_refused(tmp_path):
    files.write_rows(tmp_path / "f.gd", np.ones((10, 4)))
    store = gz.FeatureStore(tmp_path / "f.gd")
    with pytest.raises(IndexError, match="beyond the end"):
        store.read_ahead(np.array([0, 10]), gap_pages=0, trust_mincore=True)


@pytest.mark.timeout(60)
def test_a_batch_that_is_waited_for_does_not_wait_for_later_ones(cold_store):
    """Threads that sample side by side submit in any order; rows are gathered in one."""
    readahead = PageReadAhead([cold_store], gz.Prefetch("willneed"), room=4096)
    later, still_later = FAR_ROWS[200:300], FAR_ROWS[300:400]
    assert readahead.submit(later).result().missing == 100
    readahead.submit(still_later)
    first = readahead.submit(FAR_ROWS[:100])
    assert readahead.result(first).missing == 100
    readahead.close()
