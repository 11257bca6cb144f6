"""`Verdict`: what a run was bound by, in one sentence, and which option would help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from graphzero.loader.stats import BatchTotals
from graphzero.units import format_bytes

Bound = Literal["disk", "sampling", "gather", "model", "delivery", "memory", "unknown"]

# A loop that waits less than this share of its time has nothing to gain from faster mini-batches.
_STALLS = 0.1
# The same where finished mini-batches wait for the loop longer than it took to prepare them.
_STALLS_AT_FIRST = 0.3
# Preparation that takes less than this share of the loop's waiting does not explain it.
_EXPLAINS = 0.5
# Mini-batches that waited to be taken for as long as this share of the time that it took to
# prepare them were ready before they were needed.
_WAITED = 0.5
# Loops that took less than this share of the recorded time do not explain it.
_LOOPED = 0.8

# About what a page fault takes that reads from a solid-state disk, the kernel's work included. A
# clock that sees how long a thread was blocked sees a part of it.
_FAULT_SECONDS = 1e-4

_TUNE = "Run `graphzero tune DIR` to find the best gz.Prefetch for this disk. "
_HOT = " use hot order (graphzero reorder DIR --order hot),"
_MORE = "Give the run more memory (Prefetch(memory_limit=, resident=), fewer programs beside it)"
# Instead, where the dataset fits in memory.
_FITS = (
    "Memory was not short: the dataset's {} fit in the {} available, unless Prefetch(memory_limit=)"
    " allows less. A first pass reads every page once: see whether the next one waits as well"
)


class _Stage(NamedTuple):
    """What a run may be bound by: its name, what threads did, and options that would help."""

    name: str
    doing: str
    knob: str


_STAGES: dict[Bound, _Stage] = {
    "disk": _Stage(
        "the disk",
        "waiting for the disk",
        f"{_TUNE}{_MORE}. Store features as float16 (build --feature-dtype float16),{_HOT} or pack"
        " the mini-batches of some epochs (graphzero pack).",
    ),
    "sampling": _Stage(
        "sampling",
        "sampling",
        "Use more threads (num_workers=0 and num_threads= up to the number of processors,"
        " or more num_workers) or smaller fanouts.",
    ),
    "gather": _Stage(
        "gathering rows",
        "copying rows",
        "Load fewer attributes (gather=), store narrower rows (build --feature-dtype"
        " float16), convert them on the device (no feature_dtype=), draw fewer distinct nodes"
        " (labor=True, smaller fanouts), or use more num_workers.",
    ),
}
_NO_ROWS = _Stage(
    "handing mini-batches over",
    "between the stages",
    "The mini-batches have no rows to copy, and little else to do: use a larger batch_size, so that"
    " fewer of them are handed from thread to thread.",
)
_FASTER_STEP = (
    "Mini-batches are ready before they are needed: only a faster step of the model (a larger"
    " batch_size, trimmed layers, a GPU) makes this run faster."
)
_DELIVERY = (
    "Try num_workers=0: its threads need no transfer between processes. Otherwise make transform="
    " or collate_fn= cheaper, keep workers (persistent_workers=True), and use no more workers and"
    " threads than there are processors."
)
# Instead, where other programs use the processors.
_FEWER_THREADS = "End the other programs, or use torch.set_num_threads() for what they leave free."
_SPINNING = (
    "Set OMP_WAIT_POLICY=passive before the program starts: OpenMP's threads otherwise spin while "
    f"they wait, in place of those that they wait for. {_FEWER_THREADS}"
)
# Of a run of which the kernel has killed a process.
KILLED = "Bound by memory: the kernel killed a process of the run, or of its memory group."
LESS_MEMORY = (
    "Give the run more memory, or have it hold less: a smaller batch_size, smaller fanouts, fewer "
    "num_workers, and Prefetch(memory_limit=) for what the model leaves."
)
# Instead of the knob of "delivery", where there are no workers.
_BESIDE = (
    "Make transform= or collate_fn= cheaper, and look for what else runs between two mini-batches "
    "or at the beginning of a pass: short passes wait for their first mini-batch each time."
)
# The disk's share, where the clocks of the stages have not seen most of it.
_ESTIMATED = (
    ", as its page faults imply: this is an estimate, and the measured seconds of the stages count "
    "that time as gathering or sampling"
)


@dataclass(frozen=True)
class Verdict:
    """What a run was bound by.

    Attributes
    ----------
    bound : {"disk", "sampling", "gather", "model", "delivery", "memory", "unknown"}
        "delivery": mini-batches were prepared fast enough, and the training loop waited all the
        same, for their transfer between processes, for transforms, or for workers to start.
        "memory": the kernel killed a process of the run.
    stalled : float or None
        Share of its time that the training loop waited for mini-batches. None if it was not
        observed.
    sentence : str
        Why.
    knob : str
        Options that would help; empty if the bound is unknown.
    """

    bound: Bound
    stalled: float | None
    sentence: str
    knob: str


@dataclass(frozen=True)
class _Work:
    """Seconds for one mini-batch, divided by the threads that work side by side."""

    sampling: float
    disk: float
    gather: float
    is_estimated: bool = False  # whether most of `disk` is estimated from page faults
    has_rows: bool = True  # whether anything was gathered at all
    advice: Mapping[str, str] = field(default_factory=dict)  # in place of parts of the knob

    @property
    def stages(self) -> dict[Bound, float]:
        return {"disk": self.disk, "sampling": self.sampling, "gather": self.gather}

    @property
    def total(self) -> float:
        return sum(self.stages.values())


def find_verdict(
    totals: BatchTotals,
    *,
    workers: int | None = None,
    threads: int | None = None,
    dataset: int | None = None,
    room: int | None = None,
    major_faults: int | None = None,
    recorded: float | None = None,
    others: float | None = None,
    is_passive: bool = False,
    is_tuned: bool = False,
    is_hot: bool = False,
) -> Verdict:
    """What a run was bound by; a pure function.

    If the training loop hardly waits, it is bound by the model, unless what it worked may have been
    the work of a ``DataLoader``: then the sentence and the knob say that it may be either. If
    finished mini-batches wait as well, it is bound by their delivery. Otherwise it is bound by the
    stage that takes the most time for one mini-batch, divided by the threads that work on it.

    Parameters
    ----------
    totals : BatchTotals
        Of the run.
    workers : int, optional
        DataLoader workers that prepared the mini-batches; 0 if the training process did.
    threads : int, optional
        That sampled, in each of these processes. What is unknown counts as one.
    dataset, room : int, optional
        Bytes of the dataset's files, and the least memory that these could have had. If it is
        enough for all of them, the knob does not ask for more.
    major_faults : int, optional
        Page faults of the run that read from the disk. If they took
        longer than `totals.disk`, the rest is taken from gathering, and then from sampling.
    recorded : float, optional
        Seconds of the recording. The sentence says so if the loops that were observed took much
        less: nothing is known of the rest.
    others : float, optional
        Processors that other programs used, if they were many and none was idle: a step of the
        model may be slow for that reason.
    is_passive, is_tuned, is_hot : bool
        What is done, and not advised again: threads sleep while they wait
        (``OMP_WAIT_POLICY=passive``), the strategy was chosen, nodes are ordered by their use.
    """
    looped = totals.stall + totals.training
    stalled = totals.stall / looped if totals.steps > 0 and looped > 0 else None
    processes = max(1, workers or 1)
    work = _work(totals, processes, max(1, threads or 1), major_faults or 0)
    advice = {_TUNE: ""} if is_tuned else {}
    if is_hot:
        advice[_HOT] = ""
    if dataset is not None and room is not None and dataset <= room:
        advice[_MORE] = _FITS.format(format_bytes(dataset), format_bytes(room))
    if stalled is None:
        sentence = "graphzero prepared no mini-batch while the run was observed."
        return Verdict("unknown", None, f"What the run was bound by is unknown: {sentence}", "")
    verdict = _of_loops(totals, stalled, replace(work, advice=advice), workers)
    if verdict.bound == "model" and others is not None:
        sentence = f"{verdict.sentence} Other programs used {others:.1f} processors meanwhile."
        knob = _FEWER_THREADS if is_passive else _SPINNING
        verdict = replace(verdict, sentence=sentence, knob=knob)
    if recorded is None or looped >= _LOOPED * recorded:
        return verdict
    outside = (
        f"The loops that were observed took {seconds_text(looped)} in all, {looped / recorded:.0%} "
        f"of the recorded time: this is about them alone."
    )
    return replace(verdict, sentence=f"{verdict.sentence} {outside}")


def _of_loops(totals: BatchTotals, stalled: float, work: _Work, workers: int | None) -> Verdict:
    """From how long the loop waited, as far as it is known."""
    stall, waited = totals.stall / totals.steps, totals.ready / max(1, totals.batches)
    prepared = work.total * max(1, workers or 1)
    if stalled < _STALLS or (work.total > 0 and stalled < _STALLS_AT_FIRST and waited >= prepared):
        return _model(stalled)
    if work.total == 0:
        sentence = f"The training loop waited {stalled:.0%} of its time; for what is unknown: "
        sentence += "graphzero prepared no mini-batch while the run was observed."
        return Verdict("unknown", stalled, sentence, "")
    if work.total < _EXPLAINS * stall or waited >= _WAITED * prepared:
        return _delivery(stalled, stall, prepared, waited, workers)
    return _by_stage(work, stalled, f"the training loop waited {stalled:.0%} of its time, and ")


def _model(stalled: float) -> Verdict:
    sentence = f"Bound by the model: the training loop waited {stalled:.0%} of its time"
    if stalled < _STALLS:
        sentence += " for mini-batches."
    else:
        sentence += (
            ", although mini-batches were finished before they were needed: for the first one of "
            "each pass, or until others were delivered."
        )
    return Verdict("model", stalled, sentence, _FASTER_STEP)


def _work(totals: BatchTotals, processes: int, threads: int, major_faults: int) -> _Work:
    unseen = max(0.0, major_faults * _FAULT_SECONDS - totals.disk)
    of_rows = min(unseen, totals.gathering)  # rows are most of the data
    of_topology = min(unseen - of_rows, totals.sampling)
    batches, samplers = max(1, totals.batches), processes * threads
    disk = (totals.disk + of_rows) / processes + of_topology / samplers
    return _Work(
        sampling=(totals.sampling - of_topology) / samplers / batches,
        disk=disk / batches,
        gather=(totals.gathering - of_rows) / processes / batches,
        is_estimated=of_rows + of_topology > totals.disk,
        has_rows=totals.row_bytes > 0,
    )


def _delivery(
    stalled: float, stall: float, prepared: float, waited: float, workers: int | None
) -> Verdict:
    """The loop waits, and finished mini-batches, too."""
    sentence = (
        f"Bound by the delivery of mini-batches: the training loop waited {stalled:.0%} of its "
        f"time, {seconds_text(stall)} for each one, although preparing one took "
        f"{seconds_text(prepared)} and it then waited {seconds_text(waited)} to be taken."
    )
    knob = _DELIVERY if workers != 0 else _BESIDE
    return Verdict("delivery", stalled, sentence, knob)


def _by_stage(work: _Work, stalled: float, why: str) -> Verdict:
    bound, seconds = max(work.stages.items(), key=lambda stage: stage[1])
    stage = _NO_ROWS if bound == "gather" and not work.has_rows else _STAGES[bound]
    estimated = _ESTIMATED if bound == "disk" and work.is_estimated else ""
    sentence = (
        f"Bound by {stage.name}: {why}{seconds / work.total:.0%} of the work on a "
        f"mini-batch was {stage.doing}{estimated}."
    )
    knob = stage.knob
    for text, other in work.advice.items():
        knob = knob.replace(text, other)
    return Verdict(bound, stalled, sentence, knob)


def seconds_text(seconds: float) -> str:
    """Seconds, as precisely as they are of interest."""
    if seconds >= 120:
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
