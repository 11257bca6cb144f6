"""`Monitor`: records where the memory and the time of a run go."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any, TypeVar

from graphzero.report.observed import Observed, files_of
from graphzero.report.recorder import Recorder
from graphzero.report.recording import Recording
from graphzero.report.recording_file import write_recording
from graphzero.report.report_files import ReportFiles, write_page
from graphzero.report.summarize import summarize
from graphzero.report.summary import Summary
from graphzero.report.tree_logs import TreeLogs
from graphzero.sampling.threads import WorkerThreads
from graphzero.store.outputs import Output

__all__ = ["Monitor"]

_T = TypeVar("_T")
Path = str | os.PathLike[str]


class Monitor:
    """Records a process and its children: memory, page cache, reads, and time of mini-batches.

    It begins with the ``with`` block and ends with it. A thread takes a reading every second, which
    takes less than 1 % of one processor: what is expensive to find out is read as seldom as that
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
    pid : int, optional
        Another process to record. Default: this one.

    Raises
    ------
    ValueError
        If `interval` is not positive, or `pid` is a thread of the kernel.
    ProcessLookupError
        If there is no process `pid`.
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
        dataset: Any = None,
        *,
        interval: float = 1.0,
        html: Path | None = None,
        json: Path | None = None,
        pid: int | None = None,
    ) -> None:
        number = isinstance(interval, int | float) and not isinstance(interval, bool)
        if not (number and 0 < interval < math.inf):
            raise ValueError(f"interval must be a positive number of seconds, not {interval!r}")
        self._files = files_of(dataset)
        self._interval = float(interval)
        self._outputs = ReportFiles(_output("json", json), _output("html", html))
        self._pid = pid
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
        self._outputs.check()
        observed = Observed(os.getpid() if self._pid is None else self._pid, self._files)
        self._process = os.getpid()
        self._recorder = recorder = Recorder(observed, TreeLogs(observed.user), self._interval)
        recorder.begin()
        stop = threading.Event()
        self._threads = WorkerThreads(1, "graphzero-monitor", on_stop=stop.set)
        self._threads.submit(recorder.run, stop)
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
            self._recorder.end()
        finally:
            self._threads.close()
        self._outputs.write(self._recorder.recording(), error=error)

    @property
    def recording(self) -> Recording:
        """Everything that was seen, so far or in all.

        Raises
        ------
        RuntimeError
            If nothing was recorded yet, or in a forked child.
        """
        if self._recorder is None:
            raise RuntimeError("this Monitor has recorded nothing yet: use it in a with statement")
        if self._process != os.getpid():
            raise RuntimeError(
                "this Monitor is that of the parent process, which has its recording"
            )
        return self._recorder.recording()

    @property
    def summary(self) -> Summary:
        """The figures of `recording`; ``print`` shows them."""
        return summarize(self.recording)

    def watch(self, loader: Iterable[_T]) -> Iterable[_T]:
        """A loader that yields the same, and tells the monitor what the loop over it does.

        Ready-made loaders tell it by themselves; watching them changes nothing. It is for a plain
        ``DataLoader``, or any other iterable. Without it, nothing is known of the loop over a
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
        from graphzero.loader.timed import timed  # imports torch

        return timed(loader)

    def write_json(self, path: Path) -> None:
        """Writes the recording to a JSON file; see `graphzero.report.recording_file`.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        write_recording(path, self.recording)

    def write_html(self, path: Path) -> None:
        """Writes a page with charts, one file that needs no network.

        Raises
        ------
        OSError
            If the file cannot be written.
        """
        write_page(path, self.recording)


def _output(name: str, path: Path | None) -> Output | None:
    """With an absolute path: the program may change its folder."""
    return None if path is None else Output(name, os.path.abspath(path))
