"""Which way rows are read: a function of sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero.io.plan import Estimate, make_plan

GB = 10**9
ESTIMATE = Estimate(
    features=20 * GB, topology=1 * GB, batch=GB // 10, batches=5, available=8 * GB, is_hot=True
)
MEMORY = 6.7 * GB  # 8 GB less a tenth, five batches and three MiB


def plan(estimate=ESTIMATE, **options):
    return make_plan(gz.Prefetch(**options), estimate)


def evenly(pages, up_to):
    return np.linspace(0, up_to, pages + 1)[1:].astype(np.int64)


def test_what_fits_in_memory_is_left_to_the_kernel():
    small = plan(replace(ESTIMATE, features=5 * GB))
    assert (small.strategy.name, small.resident, small.topology) == ("willneed", 0, None)
    assert not small.is_larger
    assert "fits in memory" in str(small)


@pytest.mark.parametrize("more", [{}, {"batch": GB // 2}, {"labels": GB}])
def test_what_barely_fits_is_not_left_to_the_kernel(more):
    """A model and page tables take more than the rest; batches and labels take memory too."""
    assert plan(replace(ESTIMATE, features=int(5.6 * GB))).strategy.name == "willneed"
    tight = plan(replace(ESTIMATE, features=int(5.8 * GB), **more))
    assert tight.strategy.name == "uring"
    assert tight.is_larger


def test_larger_datasets_are_read_past_the_page_cache():
    large = plan()
    assert large.strategy.name == "uring"
    # 8 GB less a tenth, five batches and the topology
    assert large.resident == pytest.approx(5.7 * GB, rel=1e-3)
    assert large.topology == 1 * GB
    assert large.is_larger
    assert "features of 20 GB" in str(large)
    assert "5.7 GB of rows and 1.0 GB of topology resident" in str(large)
    unordered = replace(ESTIMATE, is_hot=False)
    assert plan(unordered).resident == 0  # its first rows are no better
    assert plan(unordered, resident=GB).resident == GB


@settings(max_examples=300, deadline=None)
@given(
    strategy=st.sampled_from(["auto", "willneed", "pread"]),
    options=st.fixed_dictionaries(
        {
            "lookahead": st.integers(1, 3),
            "group": st.sampled_from([None, 1, 8]),
            "resident": st.sampled_from([None, 0.25, 1.0]),
        }
    ),
    sizes=st.fixed_dictionaries(
        {
            "topology": st.integers(0, 20 * GB),
            "labels": st.integers(0, GB),
            "sampling": st.integers(0, GB),
            "fetched_row": st.integers(0, GB // 50),
            "available": st.integers(0, 30 * GB),
            "is_hot": st.booleans(),
            "workers": st.integers(1, 3),
        }
    ),
    batch=st.integers(0, 4 * GB),
    pages=st.tuples(st.integers(0, 400), st.integers(0, 400)),
    seed=st.integers(0, 99),
)
@example(  # more memory is better spent on topology: then fewer rows are resident, not more
    "auto",
    {"lookahead": 1},
    {"topology": 20 * GB, "fetched_row": GB // 50, "available": 30 * GB, "is_hot": True},
    4 * GB,
    (200, 100),
    13,
)
def test_what_is_kept_has_room_beside_all_mini_batches(
    strategy, options, sizes, batch, pages, seed
):
    sizes = {"workers": 1, **sizes}
    rng, ahead = np.random.default_rng(seed), sizes["workers"] * options["lookahead"]
    estimate = Estimate(
        features=20 * GB,
        batch=batch + 1000,
        batch_rows=batch,
        batches=2 * sizes["workers"],
        lookahead=ahead,
        fetching=ahead + sizes["workers"],
        touched_rows=np.sort(rng.integers(0, 20 * GB, pages[0])),
        touched_topology=np.sort(rng.integers(0, sizes["topology"] + 1, pages[1])),
        **sizes,
    )
    chosen = plan(estimate, strategy=strategy, **options)
    kept = chosen.resident + chosen.reserve - estimate.labels
    if chosen.is_larger and kept > 0:
        assert kept + estimate.labels + chosen.in_flight <= 0.9 * estimate.available


def test_without_io_uring_threads_stand_in():
    estimate = replace(ESTIMATE, unavailable={"uring": "forbidden here"})
    for strategy in ("auto", "uring"):
        chosen = plan(estimate, strategy=strategy)
        assert chosen.strategy.name == "pread"
        assert "forbidden here" in chosen.reason


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


def test_in_no_order_pages_that_are_read_ahead_have_room_beside_resident_rows():
    crowded = replace(ESTIMATE, is_hot=False, lookahead=1, touched_rows=evenly(2_000_000, 20 * GB))
    chosen = plan(crowded, strategy="willneed", resident=0.25)
    assert chosen.resident == 0
    assert "; 0 bytes of memory available for the 5.0 GB of resident rows" in chosen.reason
    unknown = replace(crowded, touched_rows=None)
    assert plan(unknown, strategy="willneed", resident=0.25).resident == 5 * GB
    in_order = replace(crowded, is_hot=True)  # what is wanted most is there
    assert plan(in_order, strategy="willneed", resident=0.25).resident == 5 * GB
    assert plan(crowded, strategy="uring", resident=0.25).resident == 5 * GB


def test_topology_that_is_larger_than_memory_is_not_kept_whole():
    chosen = plan(replace(ESTIMATE, topology=30 * GB))
    assert 0 < chosen.topology < 0.5 * MEMORY
    assert chosen.resident == pytest.approx(0.5 * MEMORY, rel=1e-3)
    assert plan(strategy="none").topology is None  # page faults bring it, as requested


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


def test_what_was_left_before_stands_for_estimates():
    seen = plan(replace(ESTIMATE, observed=5 * GB, labels=GB // 2, available=7 * GB))
    # less labels, topology and mini-batches
    assert seen.resident == 5 * GB - GB // 2 - 1 * GB - seen.in_flight
    assert seen.reserve == GB // 2 + 1 * GB
    assert (seen.first_resident, plan().first_resident) == (seen.resident, plan().resident // 2)


def test_rows_are_placed_ahead_where_there_is_room_for_another_batch():
    alone = replace(ESTIMATE, batches=2, lookahead=1, fetching=2, workers=1)
    assert plan(alone).places_ahead
    assert not plan(replace(alone, workers=2)).places_ahead  # which work beside the loop anyway
    assert not plan(alone, lookahead=0).places_ahead
    assert not plan(alone, strategy="willneed").places_ahead
    assert not plan(replace(alone, available=2 * GB, batch=GB // 3, topology=0)).places_ahead
    # the next iteration of a loop decides as this one did
    enough = plan(alone).in_flight + 4 * alone.batch
    exactly = replace(alone, observed=enough, topology=0)
    assert plan(exactly).places_ahead
    assert not plan(replace(exactly, observed=enough - 1)).places_ahead


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
    known = replace(in_turns(GB, batch=GB // 40), observed=GB // 2)
    assert plan(known, group=8).resident < plan(known, group=1).resident


def test_mini_batches_that_do_not_fit_in_memory_are_not_read_together():
    for available in range(GB // 4, 4 * GB, GB // 4):
        chosen = plan(in_turns(available, batch=GB // 30), group=32)
        assert chosen.group == 1 or chosen.in_flight <= 0.9 * available
        best, alone = (plan(in_turns(available, GB // 30), group=k).in_flight for k in (None, 1))
        assert best == alone or best - alone <= (0.9 * available - alone) / 2  # rows keep a half
    assert plan(in_turns(8 * GB, batch=GB // 30), group=32).group == 32


def test_the_most_resident_rows_that_leave_room_for_what_is_missing_beside_them():
    rows = np.sort(np.random.default_rng(0).geometric(1e-8, 20_000).clip(max=20 * GB))
    hot = replace(in_turns(GB, batch=GB // 20), touched_rows=rows, fetched_row=20_000)
    assert (plan(hot, group=4).group, plan(hot, group=4).resident > 0.2 * GB) == (4, True)


REFUSED = {
    "strategy must be one of": [{"strategy": "magic"}],
    "fraction from 0 to 1, or a whole number of bytes": [{"resident": x} for x in (1.5, -1, -0.5)],
    "resident must be a fraction or bytes": [{"resident": float("nan")}, {"resident": True}],
    "resident 'much' is not a size": [{"resident": "much"}],
    "memory_limit must be at least 0": [{"memory_limit": -1}],
    "threads must be at least 1": [{"threads": 0}],
    "threads must be at most 4096": [{"strategy": "pread", "threads": 4097}],
    "lookahead must be at least 0": [{"lookahead": -1}],
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
