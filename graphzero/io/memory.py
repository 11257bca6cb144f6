"""Memory: how much is taken, and which parts of files are kept in it.

What all processes may keep together: every iteration claims the parts of files that it would like
to have in memory. The claims stand in small files, which the processes of a user read. All divide
the same memory by the same rule, so nobody has to be asked. Each process holds a lock on its files,
which ends with the process, however it dies; a file without its lock is void, and whoever reads it
removes it. A folder or file of somebody else, or a link, is not touched: anybody may put one where
temporary files are kept.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import json
import os
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from mmap import PAGESIZE
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any
from weakref import WeakKeyDictionary

import psutil

from graphzero.sampling.threads import WorkerThreads
from graphzero.store.free_memory import available_memory, content_of
from graphzero.store.mapped_file import ResidentPrefix
from graphzero.units import format_bytes

UNKNOWN = 1 << 62
_SETTLED = 4  # batches, after which a model has taken about all the memory that it ever takes
_SLACK = 0.05  # of what was available at the worst moment
_STATM = "/proc/self/statm"


class MemoryWatch:
    """The least memory that was available at any moment, however short.

    The memory of a model comes and goes with each mini-batch. Reading all limits that often costs
    too much; between two readings, the process's own anonymous memory is read.

    Attributes
    ----------
    least_available : int
        Bytes, as of `available_memory`.
    batches : int
        Mini-batches that were trained on meanwhile.
    """

    def __init__(self) -> None:
        self.least_available = UNKNOWN
        self.batches = 0
        self._peak = 0

    @property
    def is_settled(self) -> bool:
        """Whether a model has been trained for long enough to know what it takes."""
        return self.batches >= _SETTLED

    @property
    def available(self) -> int:
        """Bytes for files: what was available, less a safety margin."""
        return int((1 - _SLACK) * self.least_available)

    def sample_own(self) -> None:
        """Reads the process's own memory; some microseconds."""
        self._peak = max(self._peak, _anonymous_bytes())

    def sample_limits(self) -> None:
        """Reads what is available, and subtracts the peak since the last reading."""
        self.sample_own()
        beyond = self._peak - _anonymous_bytes()
        self.least_available = min(self.least_available, available_memory() - beyond)
        self._peak = 0


def _anonymous_bytes() -> int:
    """Resident memory of the process that does not belong to files."""
    try:
        _, resident, of_files, *_ = content_of(_STATM).split()
    except OSError:  # not Linux: memory of files counts as well, and less is resident than could be
        return int(psutil.Process().memory_info().rss)
    return (int(resident) - int(of_files)) * PAGESIZE


SHARED_MEMORY = Path("/dev/shm")  # where torch puts tensors that go from process to process
_IN_USE = 1
_REMEDY = (
    "use a smaller prefetch_factor or batch_size, num_workers=0 (graphzero's own threads prepare "
    "batches in parallel), or more shared memory (docker run --shm-size)"
)


def shared_memory_bytes(folder: Path = SHARED_MEMORY) -> int | None:
    """Size of the shared memory, in bytes; None where there is no such file system."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def check_shared_memory(
    batch_bytes: int, workers: int, queued: int, folder: Path = SHARED_MEMORY
) -> None:
    """Refuses workers whose mini-batches do not fit, before the first of them is sent.

    The kernel kills a worker that writes beyond the end of the shared memory (SIGBUS).

    Parameters
    ----------
    batch_bytes : int
        One mini-batch with its rows.
    workers : int
        Of the DataLoader.
    queued : int
        Mini-batches that each of them prepares ahead: its ``prefetch_factor``.
    folder : path
        Where shared memory is mounted.

    Raises
    ------
    OSError
        With ``errno.ENOSPC`` and the folder.
    """
    total = shared_memory_bytes(folder)
    needed = (workers * queued + _IN_USE) * batch_bytes
    if total is not None and needed > total:
        raise OSError(
            errno.ENOSPC,
            f"the shared memory has {format_bytes(total)}, and {workers} DataLoader workers with "
            f"prefetch_factor={queued} need {format_bytes(needed)} for mini-batches of "
            f"{format_bytes(batch_bytes)}: {_REMEDY}",
            str(folder),
        )


def shared_memory_is_full(batch_bytes: int, folder: Path = SHARED_MEMORY) -> OSError:
    """The error for a mini-batch that found no shared memory, with ``errno.ENOSPC``."""
    found = os.statvfs(folder)
    free = found.f_bavail * found.f_frsize
    used = found.f_blocks * found.f_frsize - free
    return OSError(
        errno.ENOSPC,
        f"a mini-batch of {format_bytes(batch_bytes)} does not fit in the shared memory, in "
        f"which {format_bytes(used)} are used, by the mini-batches that DataLoader workers "
        f"have prepared among others, and {format_bytes(free)} are free: {_REMEDY}",
        str(folder),
    )


_numbers = itertools.count()
_TRIES = 3


def claims_folder() -> Path:
    """Where the claims of all processes of this user are."""
    return Path(tempfile.gettempdir()) / f"graphzero-leases-{os.getuid()}"


class ClaimFile:
    """A file of this process, which it holds a lock on until `remove`.

    Raises
    ------
    OSError
        If the file cannot be made.
    """

    def __init__(self, content: bytes) -> None:
        self._process = os.getpid()
        self.path, self._file = _publish(claims_folder(), content)

    def replace(self, content: bytes) -> None:
        """Replaces the content; a reader that comes in between finds less."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._file.fileno(), 0)
            os.pwrite(self._file.fileno(), content, 0)

    def remove(self) -> None:
        """Removes it; in a forked child, which has no right to it, closes the descriptor only."""
        if self._process == os.getpid():
            with contextlib.suppress(OSError):
                self.path.unlink()
                self.path.parent.rmdir()  # if no other process has a claim
        self._file.close()


def _publish(folder: Path, content: bytes) -> tuple[Path, Any]:
    failure = OSError(f"no file in {folder} could be locked")
    for _ in range(_TRIES):
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            if not _is_own_folder(folder):
                reason = "it is a link, or belongs to another user: remove it"
                raise PermissionError(errno.EPERM, reason, os.fspath(folder))
            path = folder / f"{os.getpid()}-{next(_numbers)}-{os.urandom(4).hex()}"
            file = open(path, "x+b", buffering=0)  # noqa: SIM115 - `remove` closes it
        except OSError as error:  # perhaps another process has just removed the empty folder
            failure = error
            continue
        try:
            # Not flock, whose locks forked children share: this one ends with the process.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists():  # else a reader took it for that of a dead process
                if os.pwrite(file.fileno(), content, 0) == len(content):
                    return path, file
                failure = OSError(f"no space is left for {path}")
                path.unlink()
        except OSError as error:
            failure = error
        file.close()
    raise failure


def claims_of_others() -> Iterator[bytes]:
    """The claims of other processes that live; removes the files of dead ones.

    Those of this process are left out: closing any descriptor of them would end its lock.
    """
    folder, own = claims_folder(), f"{os.getpid()}-"
    try:
        paths = list(folder.iterdir()) if _is_own_folder(folder) else []
    except OSError:
        return
    for path in paths:
        if not path.name.startswith(own):
            with contextlib.suppress(OSError), _opened(path) as file:
                try:
                    fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except OSError:  # its process lives
                    yield file.read()
                else:
                    path.unlink()


def _is_own_folder(folder: Path) -> bool:
    """Whether it is a folder of this user, and no link to one: nobody else can write there."""
    info = folder.lstat()
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid()


def _opened(path: Path) -> Any:
    """A regular file, no link: opening a device may have effects."""
    if not stat.S_ISREG(path.lstat().st_mode):
        raise OSError(errno.EINVAL, "no regular file", os.fspath(path))
    number = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    return os.fdopen(number, "r+b", buffering=0)


class PrefixGroup:
    """Resident prefixes that share one size, in proportion to the sizes of their files.

    Attributes
    ----------
    parts : tuple of ResidentPrefix
    num_bytes : int
        Size that all prefixes are to have together.
    """

    def __init__(self, prefixes: Sequence[ResidentPrefix], sizes: Sequence[int]) -> None:
        self.parts = tuple(prefixes)
        self._sizes = tuple(sizes)
        self._total = sum(sizes)
        self.num_bytes = 0

    def resize(self, num_bytes: int) -> None:
        """Sets the size, and divides it."""
        self.num_bytes = num_bytes
        for prefix, size in zip(self.parts, self._sizes, strict=True):
            share = size if num_bytes >= self._total else num_bytes * size // self._total
            # a part of a page is no use, but at the end of a file
            prefix.resize(share if share == size else share // PAGESIZE * PAGESIZE)

    @property
    def resident_bytes(self) -> int:
        """Bytes of the prefixes that were in memory when their pages were last looked up."""
        return sum(prefix.resident_bytes for prefix in self.parts)

    @property
    def kept_bytes(self) -> int:
        """Bytes of the prefixes that are in memory now."""
        return sum(prefix.kept_bytes for prefix in self.parts)

    @property
    def lost_bytes(self) -> int:
        """Bytes of the prefixes that are not in memory now."""
        return sum(prefix.lost_bytes for prefix in self.parts)

    @property
    def unknown(self) -> str | None:
        """Why the system does not tell which pages of a prefix are in memory; None if it does."""
        return next((prefix.unknown for prefix in self.parts if prefix.unknown), None)


@dataclass(frozen=True)
class Claim:
    """What one iteration would like to keep in memory.

    Attributes
    ----------
    group : str
        The memory group of its process.
    trainer : int
        The process whose DataLoader the iteration serves: its workers have the same.
    files : mapping of str to int
        Bytes of each file that are wanted, by a name that is the same in all processes.
    in_flight : int
        Most bytes of mini-batches that the trainer has at the same time.
    is_settled : bool
        Whether these, and the model, have been allocated by now.
    """

    group: str
    trainer: int
    files: Mapping[str, int] = field(default_factory=dict)
    in_flight: int = 0
    is_settled: bool = False

    def to_json(self) -> bytes:
        """As it stands in a file."""
        return json.dumps(asdict(self)).encode()


def divide(available: int, wanted: Mapping[str, int]) -> dict[str, int]:
    """Divides bytes: each gets as much as the others, and no more than it wants."""
    shares: dict[str, int] = {}
    by_size = sorted(wanted.items(), key=lambda one: (one[1], one[0]))
    for number, (name, most) in enumerate(by_size):
        shares[name] = max(0, min(most, available // (len(by_size) - number)))
        available -= shares[name]
    return shares


class Lease:
    """The claim of one iteration; it ends with `close`, or with the process.

    Parameters
    ----------
    owner : Budget
    claim : Claim
    prefixes : sequence of ResidentPrefix or PrefixGroup
        What the iteration keeps.
    """

    def __init__(
        self, owner: Budget, claim: Claim, prefixes: Sequence[ResidentPrefix | PrefixGroup] = ()
    ) -> None:
        self.prefixes = prefixes
        self._owner = owner
        self.claim = claim
        self._file: ClaimFile | None = None
        with contextlib.suppress(OSError):  # without a file, only this process knows the claim
            self._file = ClaimFile(claim.to_json())
        owner.leases.add(self)

    def settle(self) -> None:
        """Tells the others that the mini-batches in flight are allocated."""
        if not self.claim.is_settled:
            self.claim = replace(self.claim, is_settled=True)
            if self._file is not None:
                self._file.replace(self.claim.to_json())

    def share(self, name: str, available: int) -> int:
        """Bytes of one file that this iteration may keep, of the bytes that all may keep."""
        own = self.claim
        wanted = {name: own.files.get(name, 0)}
        for claim in self._owner.claims():
            if claim.group != own.group:
                continue
            if claim.trainer != own.trainer and not claim.is_settled:
                available -= claim.in_flight
            for file, num_bytes in claim.files.items():
                # The plan has divided this iteration's memory between its own files.
                if file == name or file not in own.files:
                    wanted[file] = max(num_bytes, wanted.get(file, 0))
        return divide(max(0, available), wanted)[name]

    def close(self) -> None:
        """Gives everything back."""
        self._owner.leases.discard(self)
        file, self._file = self._file, None
        if file is not None:
            file.remove()


class Budget:
    """All leases of this process, and what its iterations have learnt about its memory."""

    def __init__(self) -> None:
        self.leases: set[Lease] = set()
        self._learnt: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def kept_bytes(self) -> int:
        """Bytes of files that the iterations of this process keep in memory."""
        return sum(prefix.kept_bytes for lease in self._living() for prefix in lease.prefixes)

    def claims(self) -> list[Claim]:
        """The claims of all living iterations, those of other processes included."""
        found = [lease.claim for lease in self._living()]
        for text in claims_of_others():
            with contextlib.suppress(ValueError, TypeError):  # it may be half written
                found.append(Claim(**json.loads(text)))
        return found

    def _living(self) -> list[Lease]:
        # No lock: an iterator may be collected, and leave, while its own thread is here.
        while True:
            try:
                return list(self.leases)
            except RuntimeError:  # the set changed meanwhile
                continue

    def available_before(self, loop: object) -> int | None:
        """Bytes for files that earlier iterations of a loop have left; None if unknown."""
        return self._learnt.get(loop)

    def learn(self, loop: object, watch: MemoryWatch, placed_ahead: int = 0) -> None:
        """Keeps what an iteration has seen for the next one of the same loop.

        What it took for a mini-batch that was placed ahead, the next one may do without.
        """
        if watch.is_settled and watch.least_available < UNKNOWN:
            self._learnt[loop] = watch.available + placed_ahead

    def forget(self) -> None:
        """In a forked child: the leases are the parent's."""
        self.leases = set()


BUDGET = Budget()  # of this process
os.register_at_fork(after_in_child=BUDGET.forget)


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
    allowed : callable
        From the bytes that are available for files to those that it may have.
    """

    def __init__(
        self,
        watch: MemoryWatch,
        fixed: Sequence[tuple[ResidentPrefix, int]],
        elastic: PrefixGroup,
        first: int = 0,
        most: int = 0,
        allowed: Callable[[int], int] = int,
    ) -> None:
        self._watch = watch
        self._fixed = fixed
        self._elastic = elastic
        self._first = first
        self._most = most if elastic.parts else 0
        self._cap = 1 << 62  # from what the kernel took back
        self._allowed = allowed
        self._quiet = 0
        self._is_stopped = False
        self._signals: SimpleQueue[None] = SimpleQueue()  # its put is safe in a destructor
        self._threads = WorkerThreads(1, "graphzero-resident", on_stop=self._stop)
        for prefix, goal in fixed:
            prefix.resize(goal)
        self._has_work = self._most > 0 or any(goal > 0 for _, goal in fixed)
        if self._has_work:
            self._threads.submit(self._run)

    def count_batch(self) -> None:
        """The training loop has finished another mini-batch."""
        self._watch.batches += 1
        if self._has_work:
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
            self._watch.sample_limits()
            self._adapt()
            for prefix, _ in self._fixed:
                self._load(prefix)
            self._load(self._elastic)
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
                self._watch.sample_own()
        if self._is_stopped:
            return
        self._watch.sample_limits()
        for prefix, _ in self._fixed:
            self._load(prefix, _STEP_BYTES)
        before = self._elastic.num_bytes
        has_lost = self._react()
        self._adapt()
        grown = self._elastic.num_bytes > before
        # What was lost has been given up at the end of the prefix: its hot part comes first.
        self._load(self._elastic, None if grown or has_lost else _STEP_BYTES)

    def _react(self) -> bool:
        """Lowers the cap by what the kernel took back, and raises it when it no longer does.

        Returns whether it took back more than a little.
        """
        lost, num_bytes = self._elastic.lost_bytes, self._elastic.num_bytes
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
        wanted = min(self._most, self._cap, self._allowed(self._watch.available))
        if not self._watch.is_settled:
            wanted = min(wanted, self._first)
        self._elastic.resize(max(0, wanted) // PAGESIZE * PAGESIZE)

    def _load(self, prefix: ResidentPrefix | PrefixGroup, most_bytes: int | None = None) -> None:
        """Reads what is missing of a prefix, at most `most_bytes` of it."""
        done = 0
        for part in prefix.parts:
            for begin, end in part.missing_runs(_STEP_BYTES):
                if self._is_stopped or (most_bytes is not None and done >= most_bytes):
                    return
                if self._wait(0.0):  # the size may be another by now
                    self._watch.sample_limits()
                    self._adapt()
                if part.reaches(begin):
                    part.load(begin, end)
                    done += end - begin

    def close(self) -> None:
        """Ends the thread, after the step that it is in."""
        self._threads.close()
