"""`GroupPipeline`: mini-batches are sampled and read in groups, and placed before they are wanted.

One thread decides what is next, and places. It also samples small mini-batches; large ones, and
those whose topology is read, are sampled by a second thread: what is due is then placed at once,
and side by side both take less time, because sampling waits for memory, and placing is bound by its
bandwidth. A third thread reads. Sampling and placing have a team of the core each. The threads and
the loop send each other messages: nobody waits for a lock.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Generic, Protocol, TypeVar

from graphzero import _core
from graphzero.sampling.threads import WorkerThreads


class Item(Protocol):
    """A mini-batch on its way."""

    @property
    def error(self) -> Exception | None:
        """Why it cannot be had."""

    @property
    def num_bytes(self) -> int:
        """Of its arrays, once it is placed."""

    @property
    def seconds(self) -> float:
        """That threads have worked on it."""


_T = TypeVar("_T", bound=Item)


class Phases(Protocol[_T]):
    """What is done with mini-batches, one after the other; see `Preparation`."""

    def most_in_group(self) -> int:
        """How many may be read together now; 0 where none may be that is not wanted yet."""

    def sample(self, numbers: Sequence[int]) -> list[_T]:
        """The mini-batches with some numbers; none where the pipeline is stopped."""

    def must_read(self, items: Sequence[_T]) -> bool:
        """Whether `read` may have to wait."""

    def read(self, items: Sequence[_T]) -> None:
        """Brings the rows of a group into memory; errors are those of the items."""

    def place(self, items: Sequence[_T], *, apart: bool = False) -> None:
        """Puts the rows of mini-batches into arrays; errors are those of the items.

        `apart` if `sample` may run in another thread meanwhile.
        """


@dataclass(frozen=True)
class Sizes:
    """How many mini-batches are on their way.

    Attributes
    ----------
    lookahead : int
        That are placed before they are wanted. 0: everything is done by the thread that takes them.
    threads : int
        That sample and place.
    reads : bool
        Whether rows are read past the page cache.
    reads_hops : bool
        Whether topology is: whole groups are sampled together, in a thread of their own.
    fits : bool
        Whether the dataset fits in memory: then more small ones than `lookahead` are prepared.
    places_ahead : bool
        False: they are placed when they are wanted, in the memory of the one before.
    """

    lookahead: int
    threads: int = 1
    reads: bool = False
    reads_hops: bool = False
    fits: bool = True
    places_ahead: bool = True

    @property
    def is_in_memory(self) -> bool:
        """Whether nothing is read but through the page cache, and that has all of it."""
        return self.fits and not self.reads


# Small mini-batches are placed together: a thread that is woken for each costs more than its work.
_SMALL_BYTES = 16 << 20
_MOST_TOGETHER = 64
_LARGE_BYTES = 8 << 20  # of a mini-batch that is placed while others are sampled
# A call into the core is to work for so long, where batches are small.
_SECONDS_A_CALL = 1e-3
# A loop that has just got a mini-batch begins its work, for which it needs the GIL: what is not due
# waits meanwhile.
_SECONDS_OF_THE_LOOP = 5e-4


@dataclass(frozen=True)
class _Asked:
    """The loop wants so many more mini-batches; `waits` unless it has got one."""

    count: int
    waits: bool


@dataclass(frozen=True)
class _Sampled(Generic[_T]):
    """Mini-batches that the thread that samples has sampled."""

    items: list[_T]


class _Stopped:
    """There is nothing more to wait for."""


class GroupPipeline(Iterator[_T], Generic[_T]):
    """The mini-batches with some numbers, in order, prepared in background threads.

    An error is raised in place of its mini-batch, and ends the iteration.

    Parameters
    ----------
    phases : Phases
    numbers : sequence of int
    sizes : Sizes
    stop : Stop
        Is set when the pipeline is closed; calls of the core that look at it end soon.
    """

    def __init__(
        self, phases: Phases[_T], numbers: Sequence[int], sizes: Sizes, stop: _core.Stop
    ) -> None:
        self._numbers = numbers
        self._sizes = sizes
        self._taken = 0  # by the loop
        self._unsaid = 0  # mini-batches that were asked for, of which the threads do not know
        self._is_closed = False
        self._preparer = _Preparer(phases, numbers, sizes, stop)
        self._threads = WorkerThreads(3, "graphzero-batch", on_stop=self._preparer.stop)

    @property
    def num_finished(self) -> int:
        """Mini-batches that are placed, and not taken."""
        return self._preparer.results.qsize()

    def __next__(self) -> _T:
        """The next mini-batch."""
        if self._is_closed or self._taken == len(self._numbers):
            raise StopIteration
        try:
            if self._sizes.lookahead == 0:
                item = self._preparer.prepare(self._numbers[self._taken])
            else:
                item = self._take()
            if item.error is not None:
                raise item.error
        except StopIteration as error:  # it would end the iteration as if there were no more
            self.close()
            raise RuntimeError(f"a mini-batch raised StopIteration({error.value!r})") from error
        except BaseException:
            self.close()
            raise
        self._taken += 1
        return item

    def _take(self) -> _T:
        preparer, results = self._preparer, self._preparer.results
        if self._taken == 0 and self._unsaid == 0:
            self._threads.submit(preparer.run)
            self._threads.submit(preparer.run_reads)
            self._threads.submit(preparer.run_samples)
        self._unsaid += 1
        waits = results.empty()
        if 2 * self._unsaid >= preparer.most_ahead or waits:
            preparer.messages.put(_Asked(self._unsaid, waits))
            self._unsaid = 0
        # what was begun by the process that forked this one will never be done here
        result = results.get() if self._threads.is_open else _Stopped()
        if isinstance(result, _Stopped):
            raise _ended()
        if isinstance(result, BaseException):
            raise result
        return result

    def close(self) -> None:
        """Ends the iteration, and waits for the calls that threads are in."""
        self._is_closed = True
        self._threads.close()
        self._preparer.forget()


def _ended() -> RuntimeError:
    return RuntimeError(
        "the threads that prepare mini-batches have ended: the iteration was closed by another "
        "thread, the program is about to end, or this process was forked during the iteration"
    )


class _Preparer(Generic[_T]):
    """What the threads of a pipeline do. It does not refer to them: they end with the pipeline."""

    def __init__(
        self, phases: Phases[_T], numbers: Sequence[int], sizes: Sizes, stop: _core.Stop
    ) -> None:
        self._phases = phases
        self._numbers = numbers
        self._sizes = sizes
        self._stop = stop
        self.messages: SimpleQueue[_Asked | list[_T] | _Sampled[_T] | _Stopped] = SimpleQueue()
        self._to_sample: SimpleQueue[Sequence[int] | _Stopped] = SimpleQueue()
        self._to_read: SimpleQueue[list[_T] | _Stopped] = SimpleQueue()
        self.results: SimpleQueue[_T | BaseException | _Stopped] = SimpleQueue()
        # mini-batches that may be placed before they are wanted
        self.most_ahead = sizes.lookahead if sizes.places_ahead else 0
        self._begun = 0  # mini-batches that were sampled
        self._placed = 0
        self._asked = 0
        # mini-batches of one call into the core; beyond memory the first one comes alone
        self._call = sizes.threads if sizes.is_in_memory else 1
        self._group = 1  # mini-batches that are read together
        self._most = 1  # mini-batches that may be read together now
        self._samples_apart = sizes.reads_hops  # in a thread of its own
        self._is_sampling = False  # there
        self._sampled: deque[_T] = deque()
        self._reading = 0
        self._read: deque[_T] = deque()

    def prepare(self, number: int) -> _T:
        """A mini-batch, in this thread."""
        for item in self._phases.sample([number]):
            self._phases.read([item])
            self._phases.place([item])
            return item
        raise _ended()

    def stop(self) -> None:
        """Wakes whoever waits, and has calls end soon."""
        self._stop.set()
        self.messages.put(_Stopped())
        self._to_sample.put(_Stopped())
        self._to_read.put(_Stopped())
        self.results.put(_Stopped())

    def forget(self) -> None:
        """Drops what was prepared."""
        self._sampled.clear()
        self._read.clear()
        while True:
            try:
                self.results.get_nowait()
            except Empty:
                return

    # --- the thread that decides, and places

    def run(self) -> None:
        """Until all mini-batches are placed."""
        try:
            while self._placed < len(self._numbers) and not self._stop:
                self._listen(waits=not self._advance())
        except BaseException as error:
            self.results.put(error)

    def _listen(self, *, waits: bool) -> None:
        """Takes the messages that are there; with `waits`, at least one."""
        while True:
            try:
                message = self.messages.get(block=waits)
            except Empty:
                return
            if isinstance(message, _Asked):
                self._asked += message.count
                if waits and not message.waits:
                    time.sleep(_SECONDS_OF_THE_LOOP)
            elif isinstance(message, list):
                self._read += message
                self._reading = 0
            elif isinstance(message, _Sampled):
                self._is_sampling = False
                self._take_sampled(message.items)
            waits = False

    def _advance(self) -> bool:
        """Does one thing, if there is any; what is due first."""
        limit = self._phases.most_in_group()
        self._most = max(1, limit)
        wanted = self._asked - self._placed
        if limit > 0:
            wanted += self.most_ahead
        if self._read and wanted > 0:
            self._place(wanted, reads_meanwhile=limit > 0)
            return True
        if limit == 0 and (wanted <= 0 or self._reading):
            return False
        self._send_to_read(self._most)
        if self._begun == len(self._numbers) or not self._may_sample():
            return False
        self._sample()
        return True

    def _may_sample(self) -> bool:
        if self._is_sampling:
            return False
        if self._sizes.reads or self._reading or self._sampled:
            return len(self._sampled) < max(self._group, self._call)
        return 2 * len(self._read) <= self._call

    def _sample(self) -> None:
        count = min(self._call, len(self._numbers) - self._begun)
        numbers = self._numbers[self._begun : self._begun + count]
        self._begun += count
        if self._samples_apart:
            self._is_sampling = True
            self._to_sample.put(numbers)
        else:
            self._take_sampled(self._phases.sample(numbers))

    def _take_sampled(self, items: list[_T]) -> None:
        if self._phases.must_read(items) or self._sampled or self._reading:
            self._sampled += items
        else:
            self._phases.read(items)
            self._read += items
        self._call = min(2 * self._call, self._most_a_call(items))

    def _most_a_call(self, items: Sequence[_T]) -> int:
        """Enough mini-batches for all threads, and for a call that is worth its while."""
        threads = self._sizes.threads
        if not self._sizes.fits:
            return max(threads, self._most) if self._sizes.reads_hops else threads
        seconds = sum(item.seconds for item in items) / max(1, len(items)) / threads
        enough = int(_SECONDS_A_CALL / seconds) if seconds > 0 else threads
        # they end at different times, which matters where nothing is placed meanwhile
        least = threads if self._samples_apart or not self._sizes.is_in_memory else 2 * threads
        return max(least, min(enough, _MOST_TOGETHER))

    def _send_to_read(self, most: int) -> None:
        """A group to the thread that reads, once half of the one before is, or is being, placed."""
        self._group = min(self._group, most)
        is_whole = len(self._sampled) >= self._group or self._begun == len(self._numbers)
        is_early = self._reading > 0 or 2 * len(self._read) > self._group
        if is_early or not is_whole or not self._sampled:
            return
        count = min(self._group, len(self._sampled))
        group = [self._sampled.popleft() for _ in range(count)]
        self._reading = count
        self._to_read.put(group)
        self._group = min(2 * self._group, most)

    def _place(self, wanted: int, *, reads_meanwhile: bool) -> None:
        items = [self._read.popleft() for _ in range(min(wanted, len(self._read)))]
        self._placed += len(items)
        if reads_meanwhile:
            self._send_to_read(self._most)  # else the disk would rest
        self._phases.place(items, apart=self._is_sampling)
        if self._sizes.places_ahead and self._sizes.is_in_memory:
            largest = max(item.num_bytes for item in items)
            small = min(_SMALL_BYTES // max(1, largest), _MOST_TOGETHER)
            self.most_ahead = max(self._sizes.lookahead, small)
            self._samples_apart = largest >= _LARGE_BYTES
        if self._stop:  # meanwhile: their arrays may not be filled
            return
        for item in items:
            self.results.put(item)

    # --- the threads that sample and read

    def run_samples(self) -> None:
        """Until it is stopped."""
        try:
            while not isinstance(numbers := self._to_sample.get(), _Stopped):
                self.messages.put(_Sampled(self._phases.sample(numbers)))
        except BaseException as error:
            self.results.put(error)

    def run_reads(self) -> None:
        """Until it is stopped."""
        try:
            while not isinstance(work := self._to_read.get(), _Stopped):
                self._phases.read(work)
                self.messages.put(work)
                del work
        except BaseException as error:
            self.results.put(error)
