"""`Verdict`: what a run was bound by, in one sentence, and which option would help."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from graphzero.report.recording import BatchTotals

__all__ = ["Bound", "Verdict", "Workforce", "find_verdict"]

Bound = Literal["disk", "sampling", "gather", "model", "delivery", "unknown"]

# A loop that waits less than this share of its time has nothing to gain from faster mini-batches.
_STALLS = 0.1
# Preparation that takes less than this share of the waiting does not explain it.
_EXPLAINS = 0.5
# Where the loop was not observed: mini-batches that waited for it as long as this share of the time
# that it took to prepare them were ready before they were needed.
_WAITED = 0.25
# The least that a page fault waits for a disk: fast ones take 55 to 100 microseconds.
_FAULT_SECONDS = 5e-5

_NAMES: dict[Bound, str] = {
    "disk": "the disk",
    "sampling": "sampling",
    "gather": "gathering rows",
}
_WORK: dict[Bound, str] = {
    "disk": "waiting for the disk",
    "sampling": "sampling",
    "gather": "copying rows",
}
_KNOBS: dict[Bound, str] = {
    "disk": "Run `graphzero tune DIR` to find the best gz.Prefetch for this disk. Give the run more"
    " memory (Prefetch(memory_limit=, resident=), fewer programs beside it), store features as"
    " float16 (build --feature-dtype float16), use hot order (graphzero reorder DIR --order hot),"
    " or pack the mini-batches of some epochs (graphzero pack).",
    "sampling": "Use more threads (num_workers=0 and num_threads= up to the number of processors,"
    " or more num_workers) or smaller fanouts.",
    "gather": "Load fewer attributes (gather=), store narrower rows (build --feature-dtype"
    " float16), convert them on the device (no feature_dtype=), draw fewer distinct nodes"
    " (labor=True, smaller fanouts), or use more num_workers.",
    "model": "Mini-batches are ready before they are needed: only a faster step of the model"
    " (a larger batch_size, trimmed layers, a GPU) makes this run faster.",
    "delivery": "Try num_workers=0: its threads need no transfer between processes. Otherwise make"
    " transform= or collate_fn= cheaper, keep workers (persistent_workers=True), and use no more"
    " workers and threads than there are processors.",
    "unknown": "",
}
_WATCH = (
    "How long the training loop waited is unknown; `for batch in monitor.watch(loader)` measures it"
)


@dataclass(frozen=True)
class Workforce:
    """How many processes and threads prepare mini-batches; None where this is unknown.

    Attributes
    ----------
    processes : int or None
        DataLoader workers, or 1 without workers.
    threads : int or None
        That sample, in each of these processes.
    """

    processes: int | None = None
    threads: int | None = None


@dataclass(frozen=True)
class Verdict:
    """What a run was bound by.

    Attributes
    ----------
    bound : {"disk", "sampling", "gather", "model", "delivery", "unknown"}
        "delivery": mini-batches were prepared fast enough, and the training loop waited all the
        same, for their transfer between processes, for transforms, or for workers to start.
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
    is_estimated: bool = False  # whether some of `disk` is estimated from page faults

    @property
    def total(self) -> float:
        return self.sampling + self.disk + self.gather

    @property
    def longest(self) -> Bound:
        stages: dict[Bound, float] = {
            "disk": self.disk,
            "sampling": self.sampling,
            "gather": self.gather,
        }
        return max(stages, key=lambda stage: stages[stage])

    def share(self, stage: Bound) -> float:
        seconds: float = getattr(self, stage)
        return seconds / self.total if self.total > 0 else 0.0


def find_verdict(
    totals: BatchTotals, workforce: Workforce | None = None, *, major_faults: int | None = None
) -> Verdict:
    """What a run was bound by; a pure function.

    If the training loop hardly waits, it is bound by the model. Otherwise it is bound by the stage
    that takes the most time for one mini-batch, divided by the threads that work on that stage.

    Parameters
    ----------
    totals : BatchTotals
        Of the run.
    workforce : Workforce, optional
        Who prepared the mini-batches. What is unknown counts as one process, or one thread.
    major_faults : int, optional
        Page faults that waited for the disk, of all processes. Times cannot tell their waiting
        from the work that they interrupt, so that it is estimated.
    """
    looped = totals.stall + totals.training
    stalled = totals.stall / looped if totals.steps > 0 and looped > 0 else None
    work = _work(totals, workforce or Workforce(), major_faults or 0)
    if work.total == 0:
        return _without_work(stalled)
    if stalled is None:
        return _unobserved(totals, work, workforce or Workforce())
    if stalled < _STALLS:
        sentence = (
            f"Bound by the model: the training loop waited {stalled:.0%} of its time for "
            f"mini-batches."
        )
        return Verdict("model", stalled, sentence, _KNOBS["model"])
    if work.total < _EXPLAINS * totals.stall / totals.steps:
        sentence = (
            f"Bound by the delivery of mini-batches: the training loop waited {stalled:.0%} of its "
            f"time, {_seconds(totals.stall / totals.steps)} for each one, but preparing one took "
            f"only {_seconds(work.total)}."
        )
        return Verdict("delivery", stalled, sentence, _KNOBS["delivery"])
    return _by_stage(work, stalled, f"the training loop waited {stalled:.0%} of its time, and ")


def _without_work(stalled: float | None) -> Verdict:
    if stalled is not None and stalled < _STALLS:
        sentence = f"Bound by the model: the training loop waited {stalled:.0%} of its time."
        return Verdict("model", stalled, sentence, _KNOBS["model"])
    nothing = "graphzero prepared no mini-batch while the run was observed."
    if stalled is None:
        return Verdict("unknown", None, f"What the run was bound by is unknown: {nothing}", "")
    sentence = f"The training loop waited {stalled:.0%} of its time; for what is unknown: {nothing}"
    return Verdict("unknown", stalled, sentence, "")


def _work(totals: BatchTotals, workforce: Workforce, major_faults: int) -> _Work:
    """What one mini-batch took.

    The waiting of page faults is taken from gathering first, because rows are most of the data.
    """
    batches = max(1, totals.batches)
    processes = max(1, workforce.processes or 1)
    samplers = processes * max(1, workforce.threads or 1)
    by_rows = min(major_faults * _FAULT_SECONDS, totals.gathering)
    by_topology = min(major_faults * _FAULT_SECONDS - by_rows, totals.sampling)
    work = _Work(
        sampling=(totals.sampling - by_topology) / samplers / batches,
        disk=((totals.disk + by_rows) / processes + by_topology / samplers) / batches,
        gather=(totals.gathering - by_rows) / processes / batches,
    )
    return replace(work, is_estimated=by_rows + by_topology > totals.disk)


def _unobserved(totals: BatchTotals, work: _Work, workforce: Workforce) -> Verdict:
    """From how long finished mini-batches waited in the processes that prepared them."""
    prepared = work.total * max(1, workforce.processes or 1)  # seconds of one process
    waited = totals.ready / totals.batches
    if waited < _WAITED * prepared:
        found = _by_stage(work, None, "mini-batches were taken as soon as they were finished, and ")
        return replace(found, sentence=f"{found.sentence} {_WATCH}.")
    sentence = (
        f"Probably bound by the model: finished mini-batches waited {_seconds(waited)} until they "
        f"were taken, and preparing one took {_seconds(prepared)}. {_WATCH}."
    )
    return Verdict("model", None, sentence, _KNOBS["model"])


def _by_stage(work: _Work, stalled: float | None, why: str) -> Verdict:
    stage = work.longest
    estimated = ", estimated from page faults" if stage == "disk" and work.is_estimated else ""
    sentence = (
        f"Bound by {_NAMES[stage]}: {why}{work.share(stage):.0%} of the work on a mini-batch was "
        f"{_WORK[stage]}{estimated}."
    )
    return Verdict(stage, stalled, sentence, _KNOBS[stage])


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
