"""`Monitor`: records where the memory and the time of a run go."""

from __future__ import annotations

import glob
import json as json_
import math
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path as FilePath
from types import TracebackType
from typing import TypeVar

import psutil

from graphzero.loader.stats import BatchTotals, Step, listeners, watch
from graphzero.report.page import require_matplotlib, write_page
from graphzero.report.readings import (
    HasFiles,
    busy_seconds,
    device_bytes,
    gpu_use,
    mapped_files,
    order_of_nodes,
    read_environment,
    read_files,
    read_group,
    read_processes,
)
from graphzero.report.recording import Reading, Recording
from graphzero.report.summary import Summary, over_processes, summarize, write_recording
from graphzero.sampling.threads import WorkerThreads
from graphzero.store.manifest import read_manifest
from graphzero.store.outputs import Output, check_outputs

_T = TypeVar("_T")
Path = str | os.PathLike[str]
# What a monitor takes as its dataset.
Observed = Path | HasFiles | Sequence[Path | HasFiles] | None
_PARTS = 512  # of a file's map
_MOST_READINGS = 2000
_SHARE = 0.005  # of one processor at an interval of a second, for what the kernel counts by page


class Batches:
    """Sums over the steps of training loops, by epoch, and how the mini-batches were prepared.

    Parameters
    ----------
    prefix : str, optional
        Of the files that the processes of a command write (``GRAPHZERO_STATS``). Default: the steps
        are those of this process, from now on.
    """

    def __init__(self, prefix: str | None = None) -> None:
        self.epochs: dict[int, BatchTotals] = {}
        self.options: dict[str, dict[str, None]] = {}
        self._prefix = prefix
        self._positions: dict[str, int] = {}
        if prefix is None:
            listeners.append(self.add)

    @property
    def totals(self) -> BatchTotals:
        """Sums over all epochs."""
        return sum(self.epochs.values(), BatchTotals())

    def add(self, step: Step) -> None:
        """Adds what a loop has spent."""
        self.epochs[step.epoch] = self.epochs.get(step.epoch, BatchTotals()) + step.totals
        for name, value in step.options.items():
            self.options.setdefault(name, {})[str(value)] = None

    def read(self) -> None:
        """Adds the whole new lines of the files; a killed process may leave one unfinished."""
        if self._prefix is None:
            return
        for path in glob.glob(f"{glob.escape(self._prefix)}.*"):
            with open(path, "rb") as file:
                file.seek(self._positions.get(path, 0))
                whole, end, _ = file.read().rpartition(b"\n")
                self._positions[path] = self._positions.get(path, 0) + len(whole + end)
            for line in whole.splitlines():
                step = json_.loads(line)
                totals = BatchTotals(**step["totals"])
                self.add(Step(step["epoch"], totals, step["options"]))

    def close(self) -> None:
        """Listens no more."""
        if self.add in listeners:
            listeners.remove(self.add)


class Recorder:
    """Takes readings of a process and its children, and makes a `Recording` of them.

    Proportional memory, page cache and the search for mapped files cost more the larger a process
    is: they are left out of readings until they have taken no more than a small share of the time.

    Parameters
    ----------
    pid : int
    files : sequence of str
        Of the dataset, as far as they are known. Those that processes map are found.
    batches : Batches
    interval : float
        Seconds between readings.
    """

    def __init__(
        self,
        pid: int,
        files: Sequence[str],
        batches: Batches,
        interval: float,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pid, self._batches = pid, batches
        self._clock, self._interval = clock, interval
        self._files = dict.fromkeys(files)
        self._spent = 0.0  # seconds of a processor, on what is costly
        self._lock = threading.Lock()
        self._readings: list[Reading] = []
        self._result: Recording | None = None
        self._wait_policy: str | None = None
        self._started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self._begin = clock()
        self._command: tuple[str, ...] = ()

    def begin(self) -> None:
        """Takes the first reading, of what costs little."""
        with self._lock:
            self._read(looks=False)

    def run(self, wait: Callable[[float], bool]) -> None:
        """Takes readings until the process has ended, or `wait`, which takes seconds, is true."""
        while not wait(self._interval):
            with self._lock:
                if self._result is not None:
                    return
                most = _SHARE * max(1.0, 1.0 / self._interval) * (self._clock() - self._begin)
                self._try_to_read(looks=self._spent <= most)
                if not self._readings[-1].processes:
                    return

    def recording(self, *, is_last: bool = False) -> Recording:
        """What was recorded so far, with a reading of this moment; the last one ends it."""
        with self._lock:
            if self._result is not None:
                return self._result
            self._try_to_read(looks=True)
            folder = next(map(os.path.dirname, self._files), None)
            options = {name: " | ".join(of) for name, of in self._batches.options.items()}
            facts = {"order": order_of_nodes(self._files), "OMP_WAIT_POLICY": self._wait_policy}
            options |= {name: value for name, value in facts.items() if value is not None}
            recording = Recording(
                command=self._command,
                started=self._started,
                seconds=self._clock() - self._begin,
                environment=read_environment(folder),
                readings=tuple(self._readings),
                files=read_files(self._files, _PARTS),
                epochs=dict(sorted(self._batches.epochs.items())),
                options=options,
            )
            if is_last:
                self._result = recording
                self._batches.close()
            return recording

    def _try_to_read(self, *, looks: bool) -> None:
        """The run goes on where a reading fails."""
        try:
            self._read(looks=looks)
        except Exception as error:
            warnings.warn(f"A reading failed: {type(error).__name__}: {error}", stacklevel=2)

    def _read(self, *, looks: bool) -> None:
        """Takes a reading; it looks at what is costly as well, or does not."""
        begun, now = time.thread_time(), self._clock() - self._begin
        processes = read_processes(self._pid, with_pss=looks)
        self._batches.read()
        with suppress(psutil.Error):
            process = psutil.Process(self._pid)
            # where a program is just being started, there is no command line yet
            self._command = self._command or tuple(process.cmdline())
            # and it may start itself again, as graphzero train does
            self._wait_policy = process.environ().get("OMP_WAIT_POLICY")
        cached = None
        if looks:
            self._files |= dict.fromkeys(mapped_files(process.pid for process in processes))
            cached = {
                file.path: file.page_cache
                for file in read_files(self._files)
                if file.page_cache is not None
            }
            self._spent += time.thread_time() - begun
        reading = Reading(
            seconds=now,
            processes=processes,
            available=int(psutil.virtual_memory().available),
            group=read_group(),  # a command runs in that of this process, which lives longer
            page_cache=cached,
            device_bytes=next(map(device_bytes, self._files), None),
            batches=self._batches.totals,
            busy_seconds=busy_seconds(),
            gpu=gpu_use() if self._batches.totals.sent_bytes else None,
        )
        self._readings.append(reading)
        if len(self._readings) > _MOST_READINGS:
            self._readings = thin(self._readings)


def thin(readings: Sequence[Reading]) -> list[Reading]:
    """About half of the readings of a long recording, and none that a summary needs.

    Every second one is left out, of those with a look at the page cache and of the others, but for
    the first and the last one and those at which a part of the memory was at its most.
    """
    kept = {0, len(readings) - 1}
    for name in ("anonymous", "file", "shared", "rss", "pss"):
        sums = [over_processes(name)(reading) or 0 for reading in readings]
        kept.add(sums.index(max(sums)))
    for looked in (True, False):
        alike = [i for i, r in enumerate(readings) if (r.page_cache is not None) == looked]
        kept.update(alike[::2])
    return [readings[i] for i in sorted(kept)]


# --- what users call

_WRITERS = {"json": write_recording, "html": write_page}


def check_reports(outputs: Sequence[Output]) -> None:
    """Checks before a run that its reports can be written: a recording (json), a page (html)."""
    if any(output.option.endswith("html") for output in outputs):
        require_matplotlib()
    check_outputs(outputs)


def write_reports(
    outputs: Sequence[Output], recording: Recording, *, error: BaseException | None = None
) -> None:
    """Writes all reports, also if one fails, and raises the first failure.

    Further failures are warnings, and all are if the run itself was ended by an error.
    """
    failures: list[Exception] = []
    for output in outputs:
        try:
            # of a link, the file that it leads to
            _WRITERS[output.option.lstrip("-")](output.target, recording)
        except Exception as failure:
            failures.append(failure)
    raised = failures[:1] if error is None else []
    for other in failures[len(raised) :]:
        warnings.warn(f"the report was not written: {other!r}", stacklevel=3)
    if raised:
        raise raised[0]


def check_interval(interval: float) -> None:
    """Refuses what is no time between readings."""
    if not 0 < interval < math.inf:
        raise ValueError(f"interval must be a positive number of seconds, not {interval!r}")


def observed_files(dataset: Observed) -> tuple[str, ...]:
    """Real paths of the files of what `Monitor` takes as its dataset.

    Raises
    ------
    TypeError
        If it is none of these.
    FormatError
        If a folder is no dataset.
    FileNotFoundError
        If there is nothing at a path.
    """
    if dataset is None:
        return ()
    if isinstance(dataset, HasFiles):
        return tuple(os.path.realpath(mapping.path) for mapping in dataset.mappings)
    if isinstance(dataset, Sequence) and not isinstance(dataset, str):
        return tuple(path for source in dataset for path in observed_files(source))
    path = FilePath(dataset)
    if path.is_dir():
        entries = read_manifest(path).entries()
        return tuple(os.path.realpath(entry.resolve(path)) for entry in entries)
    return (os.path.realpath(path.resolve(strict=True)),)


class Monitor:
    """Records this process and its children: memory, page cache, reads, and time of mini-batches.

    It begins with the ``with`` block and ends with it. A thread takes a reading every second, which
    takes about 1 % of one processor: what is expensive to find out is read as seldom as that
    requires. It prints nothing; ``print(monitor.summary)`` does. docs/monitoring.md explains the
    figures.

    Parameters
    ----------
    dataset : path-like, Dataset, NeighborDataset, PackedDataset, or a list of these; optional
        Whose files to observe. Those that loaders of the process read, and dataset files that it
        has mapped, are observed anyway.
    interval : float
        Seconds between readings. Shorter intervals cost more in proportion.
    html : path-like, optional
        Where to write a page with charts at the end, also if the block raises an exception. A
        relative path is that of the folder in which the monitor was made.
    json : path-like, optional
        Where to write the recording at the end.

    Raises
    ------
    ValueError
        If `interval` is not positive.
    OSError
        If `html` or `json` cannot be written: at the beginning of the block, or else at its end,
        with a recording that is complete. At the end of a block that raises an exception, it is a
        warning instead.

    Examples
    --------
    >>> with gz.Monitor("data/", html="report.html") as monitor:  # doctest: +SKIP
    ...     for batch in monitor.watch(loader):
    ...         train(batch)
    >>> print(monitor.summary)  # doctest: +SKIP
    """

    def __init__(
        self,
        dataset: Observed = None,
        *,
        interval: float = 1.0,
        html: Path | None = None,
        json: Path | None = None,
    ) -> None:
        check_interval(interval)
        self._files = observed_files(dataset)
        self._interval = float(interval)
        paths = {"json": json, "html": html}
        # absolute: the program may change its folder
        self._outputs = [
            Output(name, os.path.abspath(path)) for name, path in paths.items() if path is not None
        ]
        self._process: int | None = None  # which has entered the block
        self._recorder: Recorder | None = None
        self._threads: WorkerThreads | None = None

    def __enter__(self) -> Monitor:
        """Begins to record.

        Raises
        ------
        RuntimeError
            If this monitor was used before.
        """
        if self._process is not None:
            raise RuntimeError("this Monitor has been used already: make another one")
        check_reports(self._outputs)
        self._process = os.getpid()
        self._recorder = Recorder(self._process, self._files, Batches(), self._interval)
        self._recorder.begin()
        stop = threading.Event()
        self._threads = WorkerThreads(1, "graphzero-monitor", on_stop=stop.set)
        self._threads.submit(self._recorder.run, stop.wait)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the recording, and writes the files that were asked for."""
        if self._process != os.getpid():
            return  # a forked child leaves the block as well: the recording is its parent's
        assert self._recorder is not None
        assert self._threads is not None
        self._threads.stop()
        try:
            self._recorder.recording(is_last=True)
        finally:
            self._threads.close()
        write_reports(self._outputs, self._recorder.recording(), error=error)

    @property
    def recording(self) -> Recording:
        """Everything that was seen, so far or in all.

        Raises
        ------
        RuntimeError
            If nothing was recorded yet.
        """
        if self._recorder is None:
            raise RuntimeError("this Monitor has recorded nothing yet: use it in a with statement")
        return self._recorder.recording()

    @property
    def summary(self) -> Summary:
        """The figures of `recording`; ``print`` shows them."""
        return summarize(self.recording)

    def __repr__(self) -> str:
        return "Monitor(not begun)" if self._recorder is None else str(self.summary)

    def _repr_html_(self) -> str | None:
        """The summary so far as a table, for notebooks."""
        return None if self._recorder is None else self.summary._repr_html_()

    def watch(self, loader: Iterable[_T]) -> Iterable[_T]:
        """A loader that yields the same, and tells the monitor what the loop over it does.

        Ready-made loaders tell it by themselves; watching them changes nothing. It is for a plain
        ``DataLoader``, or any other iterable. Without it, nothing is known of the mini-batches of a
        ``DataLoader`` with workers, and without workers, its ``collate_fn`` cannot be told from the
        loop.

        Parameters
        ----------
        loader : iterable

        Returns
        -------
        iterable
            To iterate over as often as over `loader`.
        """
        return watch(loader)
