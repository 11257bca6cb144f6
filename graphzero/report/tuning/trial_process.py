"""The processes of trials: each iterates over mini-batches with one setting, and tells their time.

`TrialServer` starts a first one, inside a memory group if there is a limit. It imports what trials
need, which takes longer than many a trial, and forks one for each.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Generator
from contextlib import closing, suppress
from dataclasses import fields
from pathlib import Path
from statistics import fmean
from typing import Any, NoReturn

import psutil

from graphzero.graph.dataset import Dataset
from graphzero.graph.opening import open_dataset
from graphzero.graph.split_seeds import seeds_of_split
from graphzero.io.limits import available_memory
from graphzero.io.prefetch import Prefetch
from graphzero.loader.batch_stats import BatchStats
from graphzero.loader.collate import Collate
from graphzero.loader.neighbor_dataset import NeighborDataset
from graphzero.store.residency import resident_bytes

__all__ = ["main", "measure", "mini_batches"]

_WATCH_SECONDS = 0.02
# Warming up ends when so many mini-batches have added less than this share to the pages in memory.
_LOOKS, _STEADY = 3, 0.03
_MOST_WARM_UP = 4  # times the least number of mini-batches


class _PeakAnonymous:
    """The most anonymous memory of this process while the block runs, in bytes: `peak`."""

    peak: int | None = 0

    def __enter__(self) -> _PeakAnonymous:
        self._process = psutil.Process()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while self._look() and not self._done.wait(_WATCH_SECONDS):
            pass

    def _look(self) -> bool:
        info = self._process.memory_info()
        if self.peak is None or not hasattr(info, "shared"):  # not Linux: not told apart
            self.peak = None
            return False
        self.peak = max(self.peak, info.rss - info.shared)
        return True

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        self._look()


class _Loop:
    """A training loop without a model: takes mini-batches, epoch after epoch, and drops them.

    Attributes
    ----------
    seconds : list of float
        From asking for each mini-batch to asking for the next.
    stats : list of BatchStats
    """

    def __init__(self, ds: Dataset, batches: NeighborDataset, step_seconds: float) -> None:
        self._batches = self._endless(batches)
        self._collate = Collate(ds)
        self._step_seconds = step_seconds
        self.seconds: list[float] = []
        self.stats: list[BatchStats] = []

    @staticmethod
    def _endless(batches: NeighborDataset) -> Generator[Any, None, None]:
        if len(batches) == 0:
            raise ValueError("the split has no seeds: choose another one")
        while True:
            yield from batches

    def step(self) -> None:
        """Takes one mini-batch."""
        started = time.perf_counter()
        batch = self._collate(next(self._batches))
        self.stats.append(batch.stats)
        del batch  # its memory is needed for the next one
        if self._step_seconds > 0:
            time.sleep(self._step_seconds)
        self.seconds.append(time.perf_counter() - started)

    def close(self) -> None:
        """Ends the iteration, which uses the dataset's files."""
        self._batches.close()

    def forget(self) -> None:
        """Drops the figures so far: they were of warming up."""
        self.seconds, self.stats = [], []


def mini_batches(ds: Dataset, work: dict[str, Any], prefetch: Prefetch) -> NeighborDataset:
    """What a trial iterates over.

    Parameters
    ----------
    ds : Dataset
    work : dict
        The fields of a `Workload`.
    prefetch : Prefetch

    Raises
    ------
    TypeError, ValueError
        If the workload is not of this dataset, or wrong in itself.
    """
    return NeighborDataset(
        ds,
        seeds_of_split(ds, work["split"], work["node_type"]),
        work["fanouts"],
        batch_size=work["batch_size"],
        shuffle=True,
        seed=work["seed"],
        prefetch=prefetch,
        gather=work["gather"],
        feature_dtype=work["feature_dtype"],
        num_threads=work["num_threads"],
        **work["sampling"],
    )


def measure(request: dict[str, Any]) -> dict[str, Any]:
    """Runs one trial in this process.

    Parameters
    ----------
    request : dict
        ``workload`` and ``setting``, the fields of a `Workload` and of a `Prefetch`; ``warm_up``
        and ``batches``, how many mini-batches; ``warm_up_seconds`` and ``seconds``, the most that
        each part takes, though at least one mini-batch is measured.

    Returns
    -------
    dict
        Fields of a `TrialResult`.
    """
    work = request["workload"]
    available = available_memory()
    with _PeakAnonymous() as anonymous, open_dataset(work["folder"]) as ds:
        batches = mini_batches(ds, work, Prefetch(**request["setting"]))
        with closing(_Loop(ds, batches, work["step_ms"] / 1000)) as loop:
            started = time.perf_counter()
            warmed_up = _warm_up(ds, loop, request["warm_up"], request["warm_up_seconds"])
            loop.forget()
            warm = time.perf_counter()
            end = warm + request["seconds"]
            while len(loop.seconds) < request["batches"]:
                loop.step()
                if time.perf_counter() >= end:
                    break
    return {
        "seconds": loop.seconds,
        "warmed_up": warmed_up,
        "warm_up_seconds": warm - started,
        "peak_anonymous": anonymous.peak,
        "available": available,
        "io": loop.stats[-1].io,
        "stats": _means(loop.stats),
    }


def _warm_up(ds: Dataset, loop: _Loop, least: int, seconds: float) -> int:
    """Takes mini-batches until the files have about as many pages in memory as they will have."""
    end = time.perf_counter() + seconds
    count, before = 0, _cached(ds)
    while count < _MOST_WARM_UP * least and time.perf_counter() < end:
        loop.step()
        count += 1
        if count >= least and count % _LOOKS == 0:
            now = _cached(ds)
            if now is None or before is None or now - before <= _STEADY * now:
                break
            before = now
    return count


def _cached(ds: Dataset) -> int | None:
    """Bytes of the dataset's files in the page cache; None if this is unknown."""
    total = 0
    for mapping in ds.mappings:
        resident = resident_bytes(mapping)
        if resident is None:
            return None
        total += resident
    return total


def _means(stats: list[BatchStats]) -> dict[str, float]:
    """Means over mini-batches of the figures that `BatchStats` has."""
    names = [field.name for field in fields(BatchStats)]
    numbers = [name for name in names if isinstance(getattr(stats[0], name), (int, float))]
    return {name: fmean(getattr(one, name) for one in stats) for name in numbers}


def main() -> None:
    """Runs a trial for each line of the standard input, until that is closed.

    A line is a request of `measure` as JSON, with the paths of two files: ``answer``, for the
    figures, and ``errors``, for whatever is printed. It is answered by two lines: the process id of
    the trial, and its exit status when it has ended. The last argument of the program is a
    descriptor that becomes readable when the process that wants the answers is gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever wants the answers ends the trials
    alive = int(sys.argv[-1])
    gc.freeze()  # the collector would write to pages that trials share with this process
    for line in sys.stdin:
        request = json.loads(line)
        trial = os.fork()
        if trial == 0:
            _run(request, alive)
        print(trial, flush=True)
        _, status = os.waitpid(trial, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _run(request: dict[str, Any], alive: int) -> NoReturn:
    """The trial, in a process of its own, which ends here."""
    code = 1
    try:
        # If memory is short, the trial is killed, and not the process that has forked it.
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("500")
        errors = os.open(request["errors"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for descriptor in (1, 2):
            os.dup2(errors, descriptor)
        threading.Thread(target=_end_with, args=(alive,), daemon=True).start()
        Path(request["answer"]).write_text(json.dumps(measure(request)))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _end_with(alive: int) -> None:
    """Ends this process when the one that wants its answer is gone."""
    os.read(alive, 1)
    os._exit(1)
