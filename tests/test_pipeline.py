"""Work that runs ahead, and memory that comes back."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from contextlib import closing

import files
import numpy as np
import pytest

import graphzero as gz
from graphzero import _core
from graphzero.sampling.threads import Pipeline, Stage


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("lookahead", [0, 1, 5, 100])
def test_results_come_in_order(threads, lookahead):
    def slow_at_first(item):
        time.sleep(0.01 / (item + 1))
        return item * item

    results = Pipeline([Stage(slow_at_first, threads)], range(20), lookahead=lookahead)
    assert list(results) == [item * item for item in range(20)]


@pytest.mark.parametrize("lookahead", [0, 1, 7])
def test_stages_follow_each_other(lookahead):
    order = []

    def last(item):
        order.append(item)
        return item + 1

    stages = [Stage(lambda item: item * 10, 3), Stage(last), Stage(str, 2)]
    results = list(Pipeline(stages, range(30), lookahead=lookahead))
    assert results == [str(10 * i + 1) for i in range(30)]
    assert order == [10 * i for i in range(30)]  # one thread: in the order of the items


@pytest.mark.parametrize("lookahead", [0, 1, 4])
def test_no_more_than_asked_for_runs_ahead(lookahead):
    begun = []
    results = Pipeline([Stage(begun.append, 2)], range(100), lookahead=lookahead)
    for consumed in range(1, 10):
        next(results)
        assert len(begun) <= consumed + lookahead
    results.close()
    assert len(begun) <= 9 + lookahead


@pytest.mark.parametrize("most", [1, 2])
def test_large_results_are_few_and_small_ones_run_ahead(most):
    small, large = [], []

    def enlarge(item):
        large.append(item)
        return item

    def shrink(item):
        small.append(item)
        return item

    stages = [Stage(shrink, 2), Stage(enlarge, most=most)]
    results = Pipeline(stages, range(100), lookahead=5)
    for consumed in range(1, 20):
        assert next(results) == consumed - 1
        for _ in range(1000):
            if len(small) == consumed + 5 and len(large) == consumed + most:
                break
            time.sleep(0.002)
        assert len(small) == consumed + 5
        assert len(large) == consumed + most
    assert list(results) == list(range(19, 100))


@pytest.mark.parametrize("lookahead", [0, 2])
def test_a_result_that_was_let_go_is_gone(lookahead):
    """While the next ones are made: a mini-batch's memory is wanted for them."""

    class Result:
        pass

    results = Pipeline([Stage(lambda _: Result())], range(5), lookahead=lookahead)
    for result in results:
        alive = weakref.ref(result)
        del result
        gc.collect()
        assert alive() is None


@pytest.mark.parametrize("lookahead", [0, 1, 4])
def test_exceptions_come_where_the_result_would_have_been(lookahead):
    def fail_at_three(item):
        if item == 3:
            raise KeyError("three")
        return item

    results = Pipeline([Stage(int, 2), Stage(fail_at_three)], range(10), lookahead=lookahead)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="three"):
        next(results)
    assert threading.active_count() == 1 or all(
        not thread.name.startswith("graphzero-batch") for thread in threading.enumerate()
    )


def test_leaving_early_waits_for_what_runs_and_drops_the_rest():
    done = []

    def work(item):
        time.sleep(0.02)
        done.append(item)

    results = Pipeline([Stage(work, 2), Stage(lambda item: item)], range(1000), lookahead=50)
    next(results)
    results.close()
    count = len(done)
    assert count < 50
    time.sleep(0.05)
    assert len(done) == count
    assert not any(t.name.startswith("graphzero-batch") for t in threading.enumerate())


def test_memory_comes_back_when_the_last_array_is_gone():
    _core.trim_pool()
    blocks, _ = _core.pool_state()
    array = _core.empty((1000, 1000), np.float32)
    assert array.shape == (1000, 1000)
    assert array.flags.c_contiguous
    assert array.flags.writeable
    array[:] = 7
    address = array.ctypes.data
    row = array[5]
    del array
    gc.collect()
    assert _core.pool_state()[0] == blocks + 1  # a row still needs it
    other = _core.empty((1000, 1000), np.float32)
    assert other.ctypes.data != address
    other[:] = 8
    assert (row == 7).all()
    del row
    assert _core.pool_state()[0] == blocks + 1
    assert _core.empty(1000 * 1000, np.float32).ctypes.data == address
    del other
    _core.trim_pool()
    assert _core.pool_state() == (blocks, 0)


def test_small_arrays_are_plain_ones():
    blocks, _ = _core.pool_state()
    array = _core.empty(1000, np.int64)
    assert array.flags.owndata
    assert _core.pool_state()[0] == blocks


def test_memory_that_cannot_be_had_is_an_error():
    with pytest.raises(MemoryError, match="no memory for"):
        _core.empty(1 << 60, np.uint8)


def test_tensors_outlive_the_batches_after_them(tmp_path):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    features = rng.standard_normal((20_000, 64)).astype(np.float32)
    files.write_dataset(
        tmp_path / "data", files.random_edges(20_000, 60_000), 20_000, features=features
    )
    blocks, _ = _core.pool_state()
    ds = gz.open(tmp_path / "data")
    batches = gz.NeighborDataset(ds, None, [5], batch_size=2000)
    loader = torch.utils.data.DataLoader(batches, batch_size=None, collate_fn=gz.Collate(ds))
    kept = list(loader)  # all of them at once: none may share memory
    for batch in kept:
        np.testing.assert_array_equal(batch.x.numpy(), features[batch.n_id.numpy()])
    assert _core.pool_state()[0] > blocks
    del kept, batch
    gc.collect()
    assert _core.pool_state()[0] == blocks
    ds.close()


def test_it_says_how_many_results_wait():
    release = threading.Event()

    def until(count):
        while got.num_finished != count:
            time.sleep(0.001)

    def work(item):
        if item == 2:
            release.wait()
        return item

    with closing(Pipeline([Stage(lambda x: x, 2), Stage(work, 2)], range(5), lookahead=3)) as got:
        assert got.num_finished == 0  # none has begun
        assert next(got) == 0
        until(2)  # 1 and 3, while 2 waits
        assert next(got) == 1
        release.set()
        until(3)
        assert [next(got), next(got), next(got), got.num_finished] == [2, 3, 4, 0]
