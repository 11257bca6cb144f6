"""`PrefixKeeper`: the thread of an iteration that keeps its resident prefixes in memory."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from mmap import PAGESIZE
from queue import Empty, SimpleQueue

from graphzero.io.limits import MemoryWatch
from graphzero.io.prefix_group import PrefixGroup
from graphzero.sampling.threads import WorkerThreads
from graphzero.store.resident_prefix import ResidentPrefix

__all__ = ["ElasticPrefix", "PrefixKeeper"]

_STEP_BYTES = 4 << 20  # that are read in one step: the thread can be stopped between two
_SAMPLE_SECONDS = 0.01  # between two readings of the process's own memory
_SAMPLES = 10  # between two readings of all limits
_IDLE_SECONDS = 2.0  # without a mini-batch, after which nothing is sampled
_QUIET_BATCHES = 16  # in which the kernel took nothing back, before the prefix grows again
_TOLERATED = 64  # of this many bytes, one that is missing is nothing to react to


@dataclass(frozen=True)
class ElasticPrefix:
    """A prefix whose size follows the memory that is available.

    Attributes
    ----------
    prefix : ResidentPrefix or PrefixGroup
    first, most : int
        Bytes until the model's memory is known, and the most bytes that it may have.
    allowed : callable
        From the bytes that are available for files to those that the prefix may have.
    """

    prefix: ResidentPrefix | PrefixGroup
    first: int
    most: int
    allowed: Callable[[int], int]


class _Signals:
    """What wakes the thread: a mini-batch that was finished, or the end."""

    def __init__(self) -> None:
        self.is_stopped = False
        self._batches: SimpleQueue[None] = SimpleQueue()  # its put is safe in a destructor

    def put(self) -> None:
        self._batches.put(None)

    def stop(self) -> None:
        self.is_stopped = True
        self.put()

    def wait(self, seconds: float | None) -> bool:
        """Whether there was a signal since the last call; waits for one."""
        try:
            self._batches.get(timeout=seconds)
        except Empty:
            return False
        with contextlib.suppress(Empty):
            while True:
                self._batches.get_nowait()
        return True


class PrefixKeeper:
    """Reads resident prefixes, reads again what the kernel has taken back, and adapts their size.

    Until a page is in memory it is read like everything else, so nobody waits for the thread. How
    much memory a model takes is unknown until it has trained on some mini-batches: an elastic
    prefix begins small, and grows while memory is available. Where it was too large, the kernel
    takes pages back; it then gives up as many.

    Parameters
    ----------
    fixed : sequence of (ResidentPrefix, int)
        Prefixes and the size that each is to have. They come first.
    elastic : ElasticPrefix, optional
    watch : MemoryWatch
    """

    def __init__(
        self,
        fixed: Sequence[tuple[ResidentPrefix, int]],
        elastic: ElasticPrefix | None,
        watch: MemoryWatch,
    ) -> None:
        self._fixed = fixed
        self._elastic = elastic if elastic is not None and elastic.most > 0 else None
        self._watch = watch
        self._cap = 1 << 62  # of the elastic prefix, from what the kernel took back
        self._quiet = 0
        self._signals = _Signals()
        self._threads = WorkerThreads(1, "graphzero-resident", on_stop=self._signals.stop)
        for prefix, goal in fixed:
            prefix.resize(goal)
        if self._elastic is not None or any(goal > 0 for _, goal in fixed):
            self._threads.submit(self._run)

    def count_batch(self) -> None:
        """The training loop has finished another mini-batch."""
        self._watch.batches += 1
        self._signals.put()

    def _run(self) -> None:
        try:
            self._watch.sample_limits()
            self._adapt()
            for prefix, _ in self._fixed:
                self._load(prefix)
            if self._elastic is not None:
                self._load(self._elastic.prefix)
            while not self._signals.is_stopped:
                self._follow_batches()
        except OSError as error:
            # Rows that are not resident are read like all others, which reports what is wrong.
            warnings.warn(f"making rows resident failed: {error}", RuntimeWarning, stacklevel=1)

    def _follow_batches(self) -> None:
        """Samples memory until the next mini-batch is done, and then adapts."""
        samples = 0
        while not self._signals.wait(_SAMPLE_SECONDS):
            samples += 1
            if samples * _SAMPLE_SECONDS > _IDLE_SECONDS:
                self._signals.wait(None)
                break
            if samples % _SAMPLES == 0:
                self._watch.sample_limits()
            else:
                self._watch.sample_own()
        if self._signals.is_stopped:
            return
        self._watch.sample_limits()
        for prefix, _ in self._fixed:
            self._load(prefix, _STEP_BYTES)
        if self._elastic is not None:
            before = self._elastic.prefix.num_bytes
            has_lost = self._react()
            self._adapt()
            grown = self._elastic.prefix.num_bytes > before
            # What was lost has been given up at the end of the prefix: its hot part comes first.
            self._load(self._elastic.prefix, None if grown or has_lost else _STEP_BYTES)

    def _react(self) -> bool:
        """Lowers the cap by what the kernel took back, and raises it when it no longer does.

        Returns whether it took back more than a little.
        """
        assert self._elastic is not None
        prefix = self._elastic.prefix
        lost = prefix.lost_bytes
        if lost > max(_STEP_BYTES, prefix.num_bytes // _TOLERATED):
            self._cap, self._quiet = max(0, prefix.num_bytes - lost), 0
            return True
        self._quiet += 1
        if self._quiet >= _QUIET_BATCHES:
            self._cap += _STEP_BYTES
        return False

    def _adapt(self) -> None:
        """Sets the size of the elastic prefix to what is available."""
        if self._elastic is None:
            return
        wanted = min(self._elastic.most, self._cap, self._elastic.allowed(self._watch.room))
        if not self._watch.is_settled:
            wanted = min(wanted, self._elastic.first)
        self._elastic.prefix.resize(max(0, wanted) // PAGESIZE * PAGESIZE)

    def _load(self, prefix: ResidentPrefix | PrefixGroup, most_bytes: int | None = None) -> None:
        """Reads what is missing of a prefix, at most `most_bytes` of it."""
        done = 0
        for part in prefix.parts:
            for begin, end in part.missing_runs(_STEP_BYTES):
                if self._signals.is_stopped or (most_bytes is not None and done >= most_bytes):
                    return
                if self._signals.wait(0.0):  # the size may be another by now
                    self._watch.sample_limits()
                    self._adapt()
                if part.reaches(begin):
                    part.load(begin, end)
                    done += end - begin

    def close(self) -> None:
        """Ends the thread, after the step that it is in."""
        self._threads.close()
