"""Resident parts of files: who may keep how much, and the thread that keeps them in memory.

What is kept is page cache, which the kernel takes back where memory is short: nobody is killed for
it. Iterations of a process that keep other files divide the memory by their number, so that none
drives out what another needs again. DataLoader workers, and ranks on a machine, read the same
files, whose pages are in memory once; of their mini-batches each process has its own. Other
processes are left to the kernel.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Collection, Sequence, Set
from mmap import PAGESIZE
from queue import Empty, SimpleQueue

from graphzero.io.memory import MemoryWatch
from graphzero.sampling.threads import WorkerThreads
from graphzero.store.mapped_file import PrefixGroup, ResidentPrefix


def number_of_parts(files: Set[str], others: Collection[Set[str]]) -> int:
    """Into how many parts iterations divide the memory for files: those of the same files have one.

    Parameters
    ----------
    files : set of str
        Paths of the files whose rows an iteration keeps.
    others : collection of set of str
        The same of other iterations at the same time.
    """
    return 1 + len({rows for rows in map(frozenset, others) if rows and rows.isdisjoint(files)})


_STEP_BYTES = 4 << 20  # that are read in one step: the thread can be stopped between two
_SAMPLE_SECONDS = 0.01  # between two readings of the process's own memory
_SAMPLES = 10  # between two readings of all limits
_IDLE_SECONDS = 2.0  # without a mini-batch, after which nothing is sampled
_QUIET_BATCHES = 16  # in which the kernel took nothing back, before the prefix grows again
_TOLERATED = 64  # of this many bytes, one that is missing is nothing to react to


class PrefixKeeper:
    """Reads resident prefixes, reads again what the kernel has taken back, and adapts their size.

    Until a page is in memory it is read like everything else, so nobody waits for the thread. How
    much memory a model takes is unknown until it has trained on some mini-batches: an elastic
    prefix begins small, and grows while memory is available. Where it was too large, the kernel
    takes pages back; it then gives up as many.

    Parameters
    ----------
    watch : MemoryWatch
    fixed : sequence of (ResidentPrefix, int)
        Prefixes and the size that each is to have. They come first.
    elastic : PrefixGroup
        Prefixes whose size follows the memory that is available.
    first, most : int
        Its bytes until the model's memory is known, and the most bytes that it may have.
    reserve : int
        Bytes that the iteration needs for other files.
    reserve_at_first : int
        Bytes of mini-batches that other processes may not have allocated before the model's memory
        is known.

    Attributes
    ----------
    elastic : PrefixGroup
    files : frozenset of str
        Paths of its files; empty if it may have no bytes.
    """

    def __init__(
        self,
        watch: MemoryWatch,
        fixed: Sequence[tuple[ResidentPrefix, int]],
        elastic: PrefixGroup,
        *,
        first: int = 0,
        most: int = 0,
        reserve: int = 0,
        reserve_at_first: int = 0,
    ) -> None:
        self.elastic = elastic
        self._watch = watch
        self._fixed = fixed
        self._first = first
        self._most = most if elastic.parts else 0
        rows = elastic.parts if self._most else ()
        self.files = frozenset(os.path.realpath(prefix.path) for prefix in rows)
        self._cap = 1 << 62  # from what the kernel took back
        self._reserve = reserve
        self._reserve_at_first = reserve_at_first
        self._quiet = 0
        self._is_stopped = False
        self._signals: SimpleQueue[None] = SimpleQueue()  # its put is safe in a destructor
        self._threads = WorkerThreads(1, "graphzero-resident", on_stop=self._stop)

    def start(self) -> None:
        """Begins, in a thread. Whoever calls this closes it even if that is interrupted."""
        for prefix, goal in self._fixed:
            prefix.resize(goal)
        self._watch.sample_limits()
        self._adapt()  # before the first rows are read: they may be in memory already
        self._threads.submit(self._run)
        KEEPERS.add(self)

    @property
    def kept_bytes(self) -> int:
        """Bytes of its prefixes that are in memory now."""
        return self.elastic.kept_bytes + sum(prefix.kept_bytes for prefix, _ in self._fixed)

    def follow_batch(self) -> None:
        """The training loop has finished another mini-batch, which `watch` has counted."""
        self._signals.put(None)

    def _stop(self) -> None:
        self._is_stopped = True
        self._signals.put(None)

    def _wait(self, seconds: float | None) -> bool:
        """Whether a mini-batch was finished, or the end came, since the last call; waits for it."""
        try:
            self._signals.get(timeout=seconds)
        except Empty:
            return False
        with contextlib.suppress(Empty):
            while True:
                self._signals.get_nowait()
        return True

    def _run(self) -> None:
        try:
            for prefix, _ in self._fixed:
                self._load(prefix)
            self._load(self.elastic)
            while not self._is_stopped:
                self._follow_batches()
        except OSError as error:
            # Rows that are not resident are read like all others, which reports what is wrong.
            warnings.warn(f"making rows resident failed: {error}", RuntimeWarning, stacklevel=1)

    def _follow_batches(self) -> None:
        """Samples memory until the next mini-batch is done, and then adapts."""
        samples = 0
        while not self._wait(_SAMPLE_SECONDS):
            samples += 1
            if samples * _SAMPLE_SECONDS > _IDLE_SECONDS:
                self._wait(None)
                break
            if samples % _SAMPLES == 0:
                self._watch.sample_limits()
            else:
                self._watch.sample_process()
        if self._is_stopped:
            return
        self._watch.sample_limits()
        for prefix, _ in self._fixed:
            self._load(prefix, _STEP_BYTES)
        before = self.elastic.num_bytes
        has_lost = self._react()
        self._adapt()
        grown = self.elastic.num_bytes > before
        # What was lost has been given up at the end of the prefix: its hot part comes first.
        self._load(self.elastic, None if grown or has_lost else _STEP_BYTES)

    def _react(self) -> bool:
        """Lowers the cap by what the kernel took back, and raises it when it no longer does.

        Returns whether it took back more than a little.
        """
        lost, num_bytes = self.elastic.lost_bytes, self.elastic.num_bytes
        if lost > max(_STEP_BYTES, num_bytes // _TOLERATED):
            self._cap, self._quiet = max(0, num_bytes - lost), 0
            return True
        self._quiet += 1
        if self._quiet >= _QUIET_BATCHES:
            self._cap += _STEP_BYTES
        return False

    def _adapt(self) -> None:
        """Sets the size of the elastic prefix to what is available."""
        if self._most == 0:
            return
        most, available = min(self._most, self._cap), self._watch.available
        if not self._watch.is_settled:
            most, available = min(most, self._first), available - self._reserve_at_first
        others = [keeper.files for keeper in KEEPERS.copy() if keeper is not self]
        share = available // number_of_parts(self.files, others) - self._reserve
        self.elastic.resize(max(0, min(most, share)) // PAGESIZE * PAGESIZE)

    def _load(self, prefix: ResidentPrefix | PrefixGroup, most_bytes: int | None = None) -> None:
        """Reads what is missing of a prefix, at most `most_bytes` of it."""
        done = 0
        for part in prefix.parts:
            for runs in part.missing_runs(_STEP_BYTES):
                if self._is_stopped or (most_bytes is not None and done >= most_bytes):
                    return
                if self._wait(0.0):  # the size may be another by now
                    self._watch.sample_limits()
                    self._adapt()
                runs = [[begin, end] for begin, end in runs if part.reaches(begin)]
                part.load(runs)
                done += sum(end - begin for begin, end in runs)

    def close(self) -> None:
        """Ends the thread, after the step that it is in, and leaves its part to the others."""
        KEEPERS.discard(self)
        self._threads.close()


# Those of this process. The set is copied in one step, without a lock: an iterator may be
# collected, and its keeper leave, in any thread.
KEEPERS: set[PrefixKeeper] = set()
os.register_at_fork(after_in_child=KEEPERS.clear)


def kept_bytes() -> int:
    """Bytes of files that the iterations of this process keep in memory."""
    return sum(keeper.kept_bytes for keeper in KEEPERS.copy())
