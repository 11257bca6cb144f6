"""What a run was bound by, from sums over its mini-batches."""

from __future__ import annotations

from dataclasses import replace

import pytest

from graphzero.loader.stats import BatchTotals
from graphzero.report.verdict import find_verdict

pytestmark = pytest.mark.no_asan

MODEL = BatchTotals(100, 5.0, 1.0, 2.0, ready=90.0, steps=100, stall=4.0, training=96.0)
DISK = BatchTotals(100, 5.0, 60.0, 10.0, steps=100, stall=61.0, training=39.0)
SAMPLING = BatchTotals(100, 60.0, 5.0, 10.0, steps=100, stall=61.0, training=39.0)
GATHER = BatchTotals(100, 5.0, 10.0, 60.0, steps=100, stall=61.0, training=39.0)
DELIVERY = BatchTotals(100, 4.0, 1.0, 5.0, ready=70.0, steps=100, stall=61.0, training=39.0)


@pytest.mark.parametrize(
    ("totals", "workforce", "bound"),
    [
        (MODEL, {}, "model"),
        (DISK, {}, "disk"),
        (SAMPLING, {}, "sampling"),
        (GATHER, {}, "gather"),
        (DELIVERY, {}, "delivery"),
        # 200 seconds of 8 threads are less than 40 of one
        (replace(SAMPLING, sampling=200.0, gathering=40.0), {"workers": 1, "threads": 8}, "gather"),
        (SAMPLING, {"workers": 8, "threads": 1}, "delivery"),
        # every worker has a thread that reads, and no more
        (DISK, {"workers": 1, "threads": 8}, "disk"),
        (BatchTotals(100, 4.0, 50.0, 5.0, steps=100, stall=61.0), {}, "disk"),
        # finished mini-batches wait in their workers as well
        (replace(SAMPLING, ready=50.0), {"workers": 2}, "delivery"),
        (replace(SAMPLING, ready=25.0), {"workers": 2}, "sampling"),
    ],
)
def test_the_stage_that_takes_most_time_of_a_thread_is_the_bound(totals, workforce, bound):
    verdict = find_verdict(totals, **workforce)
    assert verdict.bound == bound
    assert verdict.knob
    assert verdict.stalled == pytest.approx(totals.stall / (totals.stall + totals.training))
    assert verdict.sentence.startswith("Bound by ")


def test_the_sentence_says_how_much():
    assert find_verdict(DISK).sentence == (
        "Bound by the disk: the training loop waited 61% of its time, and 80% of the work on a "
        "mini-batch was waiting for the disk."
    )
    assert "graphzero tune" in find_verdict(DISK).knob


def test_memory_is_not_blamed_where_the_dataset_fits():
    totals, gigabyte = DISK, 10**9
    fits = find_verdict(totals, dataset=2 * gigabyte, room=21 * gigabyte)
    assert (fits.bound, fits.sentence) == ("disk", find_verdict(totals).sentence)
    assert "Memory was not short: the dataset's 2.0 GB fit in the 21 GB available" in fits.knob
    assert "more memory" not in fits.knob
    for dataset, room in [(30, 21), (None, 21), (2, None)]:
        sizes = {"dataset": dataset, "room": room}
        found = find_verdict(totals, **{k: v and v * gigabyte for k, v in sizes.items()})
        assert found == find_verdict(totals)
        assert "Give the run more memory" in found.knob


def test_a_loop_that_waits_at_first_only_is_bound_by_the_model():
    totals = BatchTotals(100, 4.0, 1.0, 5.0, ready=30.0, steps=100, stall=20.0, training=80.0)
    assert find_verdict(totals).bound == "model"
    assert "for the first one of each pass" in find_verdict(totals).sentence
    assert find_verdict(replace(totals, ready=8.0)).bound == "delivery"
    assert find_verdict(replace(totals, stall=60.0)).bound == "delivery"


def test_page_faults_that_read_from_the_disk_are_no_gathering():
    assert find_verdict(GATHER, major_faults=1000).bound == "gather"
    verdict = find_verdict(GATHER, major_faults=600_000)  # 60 s, and 10 of them are known
    assert verdict.bound == "disk"
    assert "as its page faults imply" in verdict.sentence
    assert "the measured seconds of the stages count that time as gathering" in verdict.sentence
    assert "imply" not in find_verdict(DISK, major_faults=10**6).sentence
    # ... and never more than was measured
    assert find_verdict(SAMPLING, major_faults=10**12).bound == "disk"


def test_without_mini_batches_nothing_is_guessed():
    for totals in (BatchTotals(), BatchTotals(batches=1, steps=1)):
        nothing = find_verdict(totals)
        assert (nothing.bound, nothing.stalled, nothing.knob) == ("unknown", None, "")
    foreign = find_verdict(BatchTotals(steps=10, stall=8.0, training=2.0))
    assert foreign.bound == "unknown"
    assert "80%" in foreign.sentence
    busy = find_verdict(BatchTotals(steps=10, stall=0.1, training=9.9))
    assert busy.bound == "model"


def test_the_sentence_says_so_if_most_of_the_run_was_outside_of_the_loops() -> None:
    alone = find_verdict(DISK)
    assert find_verdict(DISK, recorded=124.0) == alone  # the loops took 100 s of it
    most = find_verdict(DISK, recorded=800.0)
    assert most.sentence == (
        f"{alone.sentence} The loops that were observed took 100.0 s in all, 12% of the recorded "
        "time: this is about them alone."
    )
    assert replace(most, sentence=alone.sentence) == alone


def test_where_no_rows_are_copied_fewer_attributes_do_not_help():
    rows = find_verdict(replace(GATHER, row_bytes=10**9))
    assert rows.sentence.startswith("Bound by gathering rows: ")
    assert "gather=" in rows.knob
    nothing = find_verdict(GATHER)
    assert nothing.bound == "gather"
    assert nothing.sentence.startswith("Bound by handing mini-batches over: ")
    assert "rows" not in nothing.sentence
    assert "gather=" not in nothing.knob
    assert "batch_size" in nothing.knob


def test_what_is_done_is_not_advised():
    assert "graphzero tune" in find_verdict(DISK).knob
    assert "reorder DIR --order hot" in find_verdict(DISK).knob
    tuned, hot = find_verdict(DISK, is_tuned=True), find_verdict(DISK, is_hot=True)
    assert "graphzero tune" not in tuned.knob
    assert "reorder" in tuned.knob
    assert "reorder" not in hot.knob
    assert hot.knob.endswith(
        "(build --feature-dtype float16), or pack the mini-batches of some epochs (graphzero pack)."
    )


def test_a_step_that_other_programs_slow_down_is_told_apart():
    alone = find_verdict(MODEL)
    shared = find_verdict(MODEL, others=1.3)
    assert shared.sentence == f"{alone.sentence} Other programs used 1.3 processors meanwhile."
    assert "Set OMP_WAIT_POLICY=passive" in shared.knob
    assert "OMP_WAIT_POLICY" not in find_verdict(MODEL, others=1.3, is_passive=True).knob
    assert "torch.set_num_threads()" in find_verdict(MODEL, others=1.3, is_passive=True).knob
    assert find_verdict(DISK, others=1.3) == find_verdict(DISK)
