"""Which epoch a pass gets, as pure functions: workers that ask in any order agree, or it raises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphzero.loader.passes import (
    MOST_BYTES,
    MOST_EPOCH,
    Worker,
    begin,
    choose,
    decode,
    encode,
    join,
    load,
    starting_at,
)
from graphzero.loader.resume import Position

FRESH = starting_at(Position(0, 0))


def workers_of(count, start=1, nth=0, thread=0):
    return [Worker(thread, start + worker, nth, worker, count) for worker in range(count)]


def join_all(table, workers, number=None, wish=None):
    """The table after all of them, and the epochs that they got."""
    epochs = []
    for worker in workers:
        table, begun = join(table, worker, number, wish)
        epochs.append(begun.position.epoch)
    return table, epochs


@given(
    counts=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    passes=st.integers(1, 3),
    data=st.data(),
)
def test_live_passes_with_workers_in_any_order_get_one_epoch_each(counts, passes, data):
    """Several iterators, one after the other in one thread; each worker in its own order."""
    waiting, start = [], 1
    for count in counts:
        for worker in range(count):
            mine = [workers_of(count, start, nth)[worker] for nth in range(passes)]
            waiting.append(mine)
        start += count
    table, epochs = FRESH, {}
    while any(waiting):
        queue = data.draw(st.sampled_from([each for each in waiting if each]))
        worker = queue.pop(0)
        table, begun = join(table, worker, None)
        epochs.setdefault(worker.key, set()).add(begun.position.epoch)
        table = decode(encode(table))
    assert all(len(found) == 1 for found in epochs.values())
    assert sorted(e for found in epochs.values() for e in found) == list(range(len(epochs)))
    assert table.newest.next == Position(len(epochs), 0)


def test_other_threads_do_not_disturb_the_workers_of_a_pass():
    """Numbers are counted for each thread: those of another thread may be the same."""
    here, there = workers_of(2, 5), workers_of(2, 5, thread=1)
    table, epochs = join_all(FRESH, [here[0], there[1], there[0], here[1]])
    assert epochs == [0, 1, 1, 0]
    assert table.newest.epoch == 2


def test_workers_that_were_not_started_in_a_row_are_refused():
    table, _ = join(FRESH, Worker(0, 1, 0, 0, 2), None)
    with pytest.raises(RuntimeError, match="not started one directly after the other"):
        join(table, Worker(0, 3, 0, 1, 2), None)
    with pytest.raises(RuntimeError, match="not started one directly after the other"):
        join(table, Worker(0, 2, 0, 1, 3), None)  # as if of another number of workers
    table, _ = join(table, Worker(0, 2, 0, 1, 2), None)
    with pytest.raises(RuntimeError, match="not started one directly after the other"):
        join(table, Worker(0, 2, 0, 1, 2), None)  # the same one again


def test_a_worker_that_was_told_another_epoch_is_refused():
    here = workers_of(2)
    table, epochs = join_all(FRESH, here, wish=Position(7, 0))
    assert epochs == [7, 7]
    assert table.newest.epoch == 8
    table, _ = join(FRESH, here[0], None)
    with pytest.raises(RuntimeError, match="worker 1 was told to begin at .*7.* set_epoch in all"):
        join(table, here[1], None, Position(7, 0))


def test_workers_follow_the_choice_that_was_in_force_when_they_were_started():
    """The loop asks for a pass, and for another epoch before the workers have woken up."""
    early = choose(FRESH, Position(3, 2))
    late = choose(early, Position(9, 0))
    table, begun = join(late, workers_of(2)[0], early.newest.number)
    assert begun.position == Position(3, 2)
    assert table.newest.next == Position(9, 0)
    table, begun = join(table, workers_of(2)[1], early.newest.number)
    assert begun.position == Position(3, 2)
    for epoch in range(50):  # a choice that nobody remembers: the newest
        table = choose(table, Position(epoch, 0))
    assert begin(table, early.newest.number)[1].position == Position(49, 0)


@pytest.mark.parametrize("chosen", [None, 2, 5])
def test_a_state_makes_the_next_pass_the_epoch_after_its_own(chosen):
    table = FRESH if chosen is None else choose(FRESH, Position(chosen, 0))
    table, begun = begin(table)
    going_on = load(table, begun, Position(2, 4), has_more=True)
    assert going_on.newest.next == Position(5 if chosen == 5 else 3, 0)
    assert going_on.newest.last == Position(2, 4)
    # nothing is left of it: what set_epoch had chosen is still to come, the same epoch as well
    over = load(table, begun, Position(2, 0), has_more=False)
    assert over.newest.next == Position(3 if chosen is None else chosen, 0)


def test_states_of_workers_count_as_one():
    table = choose(FRESH, Position(2, 0))
    joined = []
    for worker in workers_of(3):
        table, begun = join(table, worker, None)
        joined.append(begun)
    for begun in joined[:2]:
        table = load(table, begun, Position(2, 0), has_more=False)
        assert table.newest.next == Position(3, 0)
    for has_more, epoch in ((False, 2), (True, 3)):
        loaded = load(table, joined[2], Position(2, 0), has_more=has_more)
        assert loaded.newest.next == Position(epoch, 0)
    with pytest.raises(RuntimeError, match="states of the epochs 2 and 3"):
        load(table, joined[2], Position(3, 0), has_more=True)


def test_the_table_fits_its_page():
    table = FRESH
    for turn in range(100):
        table = choose(table, Position(MOST_EPOCH, turn))
        table, _ = join(table, workers_of(2, start=1 << 40 | 2 * turn)[0], None)
        assert decode(encode(table)) == table
    assert len(encode(table)) <= MOST_BYTES
    with pytest.raises(ValueError, match="epoch must be at most"):
        choose(table, Position(MOST_EPOCH + 1, 0))
