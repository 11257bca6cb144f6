"""Which way rows are read: a function of sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import graphzero as gz
from graphzero import _core
from graphzero.io.plan import BatchSize, Estimate, make_plan, with_batches

GB = 10**9
ESTIMATE = Estimate(
    features=20 * GB, topology=1 * GB, batch=GB // 10, batches=5, available=8 * GB, is_hot=True
)
MEMORY = 6.7 * GB  # 8 GB less a tenth, five batches and three MiB


def plan(estimate=ESTIMATE, **options):
    return make_plan(gz.Prefetch(**options), estimate)


def test_what_fits_in_memory_is_left_to_the_kernel():
    small = plan(replace(ESTIMATE, features=5 * GB))
    assert (small.strategy.name, small.resident, small.topology) == ("willneed", 0, None)
    assert not small.is_larger
    assert "fits in memory" in str(small)


def test_what_barely_fits_is_not_left_to_the_kernel():
    # 7.5 of 8 GB, with batches: a model and page tables take more than the rest
    tight = plan(replace(ESTIMATE, features=6 * GB))
    assert tight.strategy.name == "uring"
    assert tight.is_larger
    assert tight.resident > 5 * GB


def test_batches_under_way_take_memory_too():
    tight = replace(ESTIMATE, features=6 * GB, batch=GB // 2)
    assert plan(tight).strategy.name == "uring"
    assert plan(replace(tight, batch=0)).strategy.name == "willneed"


def test_larger_datasets_are_read_past_the_page_cache():
    large = plan()
    assert large.strategy.name == "uring"
    # 8 GB less a tenth, five batches and the topology
    assert large.resident == pytest.approx(5.7 * GB, rel=1e-3)
    assert large.topology == 1 * GB
    assert large.is_larger
    assert "features of 20 GB" in str(large)
    assert "5.7 GB of rows and 1.0 GB of topology resident" in str(large)


def test_batches_ahead_have_only_rows_that_are_not_resident():
    # two whole batches, the edges of one ahead, and rows of two that are on their way
    estimate = replace(
        ESTIMATE, batches=2, lookahead=1, fetching=2, batch_rows=GB // 20, fetched_row=GB // 1000
    )
    none_known = plan(estimate).resident
    assert none_known == pytest.approx((8 * 0.9 - 1 - 0.2 - 0.05 - 0.1) * GB, rel=1e-3)
    touched = (np.arange(50) + 1) * GB // 5  # 20 MB a row; in 5.7 GB are more than half of them
    half = plan(replace(estimate, touched_rows=touched)).resident
    assert half == pytest.approx(none_known + 0.1 * GB - 2 * 22 * GB / 1000, rel=1e-3)
    everything = plan(replace(estimate, touched_rows=touched // 2)).resident
    assert everything == pytest.approx(none_known + 0.1 * GB, rel=1e-3)
    # through the page cache, and in memory, all are there
    through = plan(estimate, strategy="willneed", resident=1.0).resident
    assert through == plan(replace(ESTIMATE, batches=3), strategy="willneed", resident=1.0).resident


def test_in_no_order_pages_that_are_read_ahead_have_room_beside_resident_rows():
    rows = evenly(100_000, 20 * GB)  # 200 kB apart
    estimate = replace(ESTIMATE, is_hot=False, lookahead=1, touched_rows=rows)
    room = plan(estimate, strategy="willneed").page_cache
    nothing_known = replace(estimate, touched_rows=None)
    assert plan(nothing_known, strategy="willneed", resident=0.25).resident == 5 * GB
    chosen = plan(estimate, strategy="willneed", resident=0.25)
    missing = 2 * 4096 * (rows > chosen.resident).sum()  # of two batches
    assert chosen.resident + missing <= room
    assert chosen.resident + missing == pytest.approx(room, rel=0.03)
    crowded = replace(estimate, touched_rows=evenly(2_000_000, 20 * GB))
    chosen = plan(crowded, strategy="willneed", resident=0.25)
    assert chosen.resident == 0
    assert "; 0 bytes of memory available for the 5.0 GB of resident rows" in chosen.reason
    in_order = replace(crowded, is_hot=True)  # what is wanted most is there
    assert plan(in_order, strategy="willneed", resident=0.25).resident == 5 * GB
    assert plan(crowded, strategy="uring", resident=0.25).resident == 5 * GB


def test_rows_on_their_way_are_not_counted_too_low():
    """More memory may be better spent on topology: then fewer rows are resident, not more."""
    for seed in range(200):
        rng = np.random.default_rng(seed)
        estimate = replace(
            ESTIMATE,
            batches=2,
            lookahead=1,
            fetching=2,
            batch_rows=4 * GB,
            batch=4 * GB + 1000,
            fetched_row=GB // 50,
            available=30 * GB,
            topology=20 * GB,
            touched_rows=np.sort(rng.integers(0, 20 * GB, 200)),
            touched_topology=np.sort(rng.integers(0, 20 * GB, int(rng.integers(1, 400)))),
        )
        chosen = plan(estimate)
        missing = int((estimate.touched_rows > chosen.resident).sum())
        taken = 2 * estimate.batch + 1000 + 2 * missing * estimate.fetched_row
        assert taken + chosen.reserve + chosen.resident <= 0.9 * estimate.available


def test_without_io_uring_threads_stand_in():
    estimate = replace(ESTIMATE, unavailable={"uring": "forbidden here"})
    for strategy in ("auto", "uring"):
        chosen = plan(estimate, strategy=strategy)
        assert chosen.strategy.name == "pread"
        assert "forbidden here" in chosen.reason


def test_labels_stay_in_the_page_cache_beside_resident_rows():
    labels = replace(ESTIMATE, labels=GB)
    assert plan(labels).resident == pytest.approx(plan().resident - GB)
    assert plan(labels).reserve == pytest.approx(plan().reserve + GB)
    assert plan(replace(ESTIMATE, features=int(5.6 * GB))).strategy.name == "willneed"
    assert plan(replace(labels, features=int(5.6 * GB))).strategy.name == "uring"
    assert plan(replace(ESTIMATE, is_hot=False)).resident == 0  # its first rows are no better
    assert plan(replace(ESTIMATE, is_hot=False), resident=GB).resident == GB
    for strategy in ("auto", "willneed", "pread"):  # memory of sampling, which comes and goes
        fewer = plan(replace(ESTIMATE, sampling=GB), strategy=strategy, resident=1.0)
        assert fewer.resident == plan(strategy=strategy, resident=1.0).resident - GB


@pytest.mark.parametrize("strategy", ["none", "willneed", "pread", "uring"])
def test_what_is_asked_for_is_done(strategy):
    chosen = plan(strategy=strategy)
    assert (chosen.strategy.name, chosen.resident) == (strategy, 0)
    assert plan(strategy=strategy, resident=2 * GB).resident == 2 * GB
    assert plan(strategy=strategy, resident=0.25).resident == 5 * GB
    chosen = plan(strategy=strategy, resident=0.9)  # more than memory allows
    assert chosen.resident <= 5.7 * GB * 1.001
    assert " of memory available for the 18 GB of resident rows" in chosen.reason
    assert plan(replace(ESTIMATE, available=0), strategy=strategy, resident=0.9).resident == 0


def test_topology_that_is_larger_than_memory_is_not_kept_whole():
    chosen = plan(replace(ESTIMATE, topology=30 * GB))
    # of half of what is left, three quarters are kept, and the rest is for what is asked for
    assert chosen.topology == pytest.approx(0.75 * 0.5 * MEMORY, rel=1e-3)
    assert chosen.resident == pytest.approx(0.5 * MEMORY, rel=1e-3)


def evenly(pages, up_to):
    return np.linspace(0, up_to, pages + 1)[1:].astype(np.int64)


@pytest.mark.parametrize(
    ("pages_of_rows", "pages_of_topology", "topology"),
    [
        (1000, 4000, 6 * GB),  # worth more than rows, byte by byte: all of it
        (4000, 10, 0),
        (4000, 0, 0),
        (0, 0, 6 * GB),  # no reason for either: read all over, as another mini-batch may
    ],
)
def test_memory_goes_where_it_saves_most_pages(pages_of_rows, pages_of_topology, topology):
    estimate = replace(
        ESTIMATE,
        topology=6 * GB,
        touched_rows=evenly(pages_of_rows, 20 * GB),
        touched_topology=evenly(pages_of_topology, 6 * GB),
    )
    chosen = plan(estimate)
    assert chosen.topology == topology
    assert chosen.resident == pytest.approx(MEMORY - topology, rel=1e-2)
    assert chosen.reserve == topology


def test_a_split_that_saves_most_is_found_between_the_ends():
    # half of the topology is in every mini-batch, the other half in none; likewise of the rows
    estimate = replace(
        ESTIMATE,
        topology=6 * GB,
        touched_rows=evenly(1000, 3 * GB),
        touched_topology=evenly(1000, 3 * GB),
    )
    chosen = plan(estimate)
    # where not all of a topology has room, a quarter of its room is left to the page cache
    assert chosen.topology == pytest.approx(3 * GB, rel=0.03)
    assert chosen.reserve == pytest.approx(4 * GB, rel=0.03)
    assert chosen.resident == pytest.approx(MEMORY - chosen.reserve, rel=0.01)


def test_rows_through_the_page_cache_keep_room_there():
    estimate = replace(ESTIMATE, topology=6 * GB, touched_topology=evenly(4000, 6 * GB))
    chosen = plan(estimate, strategy="willneed")
    assert chosen.reserve == pytest.approx(MEMORY / 2, rel=0.01)
    assert chosen.page_cache == pytest.approx(MEMORY / 2, rel=0.01)
    none_resident = plan(estimate, strategy="uring")
    assert (none_resident.resident, none_resident.topology) == (0, 6 * GB)
    assert plan(strategy="none").topology is None  # page faults bring it, as requested
    assert plan(strategy="none").is_larger


def test_what_was_left_before_stands_for_estimates():
    seen = plan(replace(ESTIMATE, observed=5 * GB, labels=GB // 2, available=7 * GB))
    assert seen.resident == 5 * GB - GB // 2 - 1 * GB  # less labels and topology
    assert seen.reserve == GB // 2 + 1 * GB


ALONE = replace(ESTIMATE, batches=2, lookahead=1, fetching=2, workers=1)
BUFFERS = _core.URING_DEPTH * _core.BUFFER_BYTES  # of a second worker


def test_rows_are_placed_ahead_where_there_is_room_for_another_batch():
    chosen = plan(ALONE)
    assert (chosen.places_ahead, chosen.placed_ahead) == (True, ALONE.batch)
    workers = plan(replace(ALONE, workers=2))  # which work beside the loop anyway
    assert not workers.places_ahead
    assert chosen.in_flight == workers.in_flight + ALONE.batch - BUFFERS
    assert chosen.resident == workers.resident - ALONE.batch + BUFFERS
    assert not plan(ALONE, lookahead=0).places_ahead
    assert not plan(ALONE, strategy="willneed").places_ahead


def test_rows_are_placed_when_wanted_where_memory_is_short():
    # 2.2 GB less a tenth and four batches has no room for five more
    short = replace(ALONE, available=int(2.2 * GB), batch=3 * GB // 10, topology=0)
    assert plan(replace(short, available=4 * GB)).places_ahead
    chosen = plan(short)
    assert (chosen.places_ahead, chosen.placed_ahead) == (False, 0)
    assert chosen.in_flight == plan(replace(short, workers=2)).in_flight - BUFFERS


def test_the_batch_that_is_placed_ahead_is_not_in_what_was_left_before():
    known = replace(ALONE, observed=2 * GB, topology=0)
    assert plan(known).resident == plan(replace(known, workers=2)).resident - ALONE.batch
    # so the next iteration of a loop decides as this one did
    exactly = replace(ALONE, observed=ALONE.batch * 6, topology=0)
    assert plan(exactly).places_ahead
    assert not plan(replace(exactly, observed=ALONE.batch * 6 - 1)).places_ahead


def test_mini_batches_are_estimated_from_the_size_of_one():
    size = BatchSize(
        nodes=1000, edges=2000, row_bytes=1 << 26, managed_rows=800, managed_bytes=800 * 512
    )

    def known(size=size, lookahead=2, workers=1):
        return with_batches(ESTIMATE, size, lookahead=lookahead, workers=workers, threads=4)

    alone, several = known(), known(workers=3)
    assert alone.batch_rows == _core.block_bytes((1 << 26) + (1 << 22))  # a sixteenth more
    assert alone.batch == alone.batch_rows + 1000 * 16 + 2000 * 32
    assert (alone.batches, alone.lookahead, alone.fetching, alone.workers) == (2, 2, 3, 1)
    assert (several.batches, several.lookahead, several.fetching, several.workers) == (12, 6, 9, 3)
    of_threads = 4 * (1.5 * 2000 * 24 + 1000 * 64)
    # two threads sample batches that nobody has asked for yet
    assert alone.sampling == of_threads + 2 * (1000 * 16 + 2000 * 32) == several.sampling / 3
    assert known(lookahead=5).sampling == of_threads
    assert alone.read_lists == 800 * 32
    assert alone.fetched_row == int(17 / 16 * (512 + _core.PICK_BYTES))
    nothing = known(replace(size, managed_rows=0, managed_bytes=0))
    assert nothing.fetched_row == int(17 / 16 * _core.PICK_BYTES)


REFUSED = {
    "strategy must be one of": [{"strategy": "magic"}],
    "fraction from 0 to 1, or a whole number of bytes": [{"resident": x} for x in (1.5, -1, -0.5)],
    "resident must be a fraction or bytes": [{"resident": float("nan")}, {"resident": True}],
    "resident 'much' is not a size": [{"resident": "much"}],
    "memory_limit must be at least 0": [{"memory_limit": -1}],
    "threads must be at least 1": [{"threads": 0}],
}


@pytest.mark.parametrize("message", REFUSED)
def test_bad_choices_are_named(message):
    for options in REFUSED[message]:
        with pytest.raises(ValueError, match=message):
            gz.Prefetch(**options)


def test_resident_is_a_fraction_up_to_one_and_bytes_above():
    for resident, of_thousand_bytes in (
        *((1, 1000), (1.0, 1000), (np.int64(1), 1000), ("1", 1000), (0, 0), (0.25, 250)),
        *(("0.25", 250), (2, 2), (2.0, 2), ("2", 2), ("1B", 1), ("2kB", 2000), (None, None)),
    ):
        assert gz.Prefetch(resident=resident).resident_bytes(1000) == of_thousand_bytes


def in_turns(available, batch=GB // 1000):
    """An iteration whose batches want rows evenly, with much more data than memory."""
    return Estimate(
        features=20 * GB,
        topology=0,
        batch=batch,
        batch_rows=batch // 2,
        batches=2,
        lookahead=1,
        fetching=2,
        fetched_row=5000,
        workers=1,
        available=available,
        is_hot=True,
        touched_rows=evenly(1000, 20 * GB),
    )


def test_rows_of_as_many_batches_are_read_together_as_memory_is_worth_it():
    assert plan(in_turns(8 * GB)).group == 32  # of small batches
    some = plan(in_turns(GB, batch=GB // 30))
    assert 1 < some.group < 32
    assert plan(in_turns(GB // 4, batch=GB // 30)).group < some.group
    assert f"the rows of {some.group} batches are read together" in str(some)
    assert plan(in_turns(8 * GB), lookahead=0).group == 1
    assert plan(in_turns(8 * GB), strategy="willneed").group == 1
    assert plan(in_turns(100 * GB)).group == 1  # nothing is read


@pytest.mark.parametrize("group", [None, 1, 8])
@pytest.mark.parametrize("available", [GB // 2, GB, 4 * GB])
def test_groups_are_counted_as_memory_that_is_taken(group, available):
    estimate = in_turns(available, batch=GB // 40)
    chosen = plan(estimate, group=group)
    assert group in (None, chosen.group)
    missing = int((estimate.touched_rows > chosen.resident).sum()) * estimate.fetched_row
    # half of a group waits, one is read, and one is sampled
    ahead = (chosen.group + chosen.group // 2) * missing + 2.5 * (chosen.group - 1) * GB // 80
    taken = (2 + chosen.places_ahead) * estimate.batch + ahead
    assert taken + chosen.resident <= 0.9 * available


def test_what_was_observed_without_groups_leaves_room_for_them():
    estimate = replace(in_turns(GB, batch=GB // 40), observed=GB // 2)
    alone, grouped = (plan(estimate, group=group) for group in (1, 8))
    assert grouped.resident < alone.resident
    assert grouped.placed_ahead - alone.placed_ahead == alone.resident - grouped.resident
