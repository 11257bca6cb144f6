"""The budget: what the iterations of all processes of a memory group want to keep, and who gets it.

Every iteration claims the parts of files that it would like to have in memory. The claims stand in
small files that each process holds a lock on: the lock ends with the process, however it dies, and
a claim without its lock is void. All processes divide the same memory by the same rule, so nobody
has to be asked.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from graphzero.io.limits import MemoryWatch
from graphzero.io.prefix_group import PrefixGroup
from graphzero.store.resident_prefix import ResidentPrefix

__all__ = ["Budget", "Claim", "Lease", "budget", "divide"]


@dataclass(frozen=True)
class Claim:
    """What one iteration would like to keep.

    Attributes
    ----------
    group : str
        The memory group of its process.
    family : int
        The process whose DataLoader the iteration serves: its workers have the same.
    wishes : mapping of str to int
        Bytes of each file, by a name that is the same in all processes.
    in_flight : int
        Most bytes of mini-batches that the family has at the same time.
    is_settled : bool
        Whether these, and the model, have been allocated by now.
    """

    group: str
    family: int
    wishes: Mapping[str, int] = field(default_factory=dict)
    in_flight: int = 0
    is_settled: bool = False


def divide(room: int, wishes: Mapping[str, int]) -> dict[str, int]:
    """Divides bytes among wishes: each gets as much as the others, and no more than it wishes.

    Parameters
    ----------
    room : int
    wishes : mapping of str to int

    Returns
    -------
    dict of str to int
    """
    shares: dict[str, int] = {}
    by_size = sorted(wishes.items(), key=lambda wish: (wish[1], wish[0]))
    for number, (name, wished) in enumerate(by_size):
        shares[name] = max(0, min(wished, room // (len(by_size) - number)))
        room -= shares[name]
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
        self._process = os.getpid()
        self.claim = claim
        self._path, self._file = _publish(claim)
        owner.enter(self)

    def settle(self) -> None:
        """Tells the others that the mini-batches in flight are allocated."""
        if not self.claim.is_settled:
            self.claim = replace(self.claim, is_settled=True)
            if self._file is not None:
                _write(self._file, self.claim)

    def share(self, name: str, room: int) -> int:
        """Bytes of one file that this iteration may keep, of the bytes that all may keep."""
        own = self.claim
        wishes = {name: own.wishes.get(name, 0)}
        for claim in self._owner.claims():
            if claim.group != own.group:
                continue
            if claim.family != own.family and not claim.is_settled:
                room -= claim.in_flight
            for wished, num_bytes in claim.wishes.items():
                # The plan has divided this iteration's memory between its own files.
                if wished == name or wished not in own.wishes:
                    wishes[wished] = max(num_bytes, wishes.get(wished, 0))
        return divide(max(0, room), wishes)[name]

    def close(self) -> None:
        """Gives everything back."""
        self._owner.leave(self)
        file, self._file = self._file, None
        if file is not None:
            # A forked child has the descriptor, and neither the lock nor a right to the file.
            if self._path is not None and self._process == os.getpid():
                with contextlib.suppress(OSError):
                    self._path.unlink()
                    self._path.parent.rmdir()  # if nobody else has a lease
            file.close()


class Budget:
    """All leases of this process, and what its iterations have learnt about its memory."""

    def __init__(self) -> None:
        self._leases: set[Lease] = set()
        self._learnt: WeakKeyDictionary[Any, int] = WeakKeyDictionary()

    def enter(self, lease: Lease) -> None:
        """Counts a lease."""
        self._leases.add(lease)

    def leave(self, lease: Lease) -> None:
        """Counts it no more."""
        self._leases.discard(lease)

    def kept_bytes(self) -> int:
        """Bytes of files that the iterations of this process keep in memory."""
        return sum(prefix.kept_bytes for lease in self._living() for prefix in lease.prefixes)

    def claims(self) -> list[Claim]:
        """The claims of all living iterations, those of other processes included."""
        return [lease.claim for lease in self._living()] + list(_claims_of_others())

    def _living(self) -> list[Lease]:
        # No lock: an iterator may be collected, and leave, while its own thread is here.
        while True:
            try:
                return list(self._leases)
            except RuntimeError:  # the set changed meanwhile
                continue

    def room_learnt(self, loop: object) -> int | None:
        """Bytes for files that earlier iterations of a loop have left; None if unknown."""
        return self._learnt.get(loop)

    def learn(self, loop: object, watch: MemoryWatch, placed_ahead: int = 0) -> None:
        """Keeps what an iteration has seen for the next one of the same loop.

        What it took for a mini-batch that was placed ahead, the next one may do without.
        """
        if watch.is_settled:
            self._learnt[loop] = watch.room + placed_ahead

    def forget(self) -> None:
        """In a forked child: the leases are the parent's."""
        self._leases = set()


_numbers = itertools.count()
_TRIES = 3


def _folder() -> Path:
    return Path(tempfile.gettempdir()) / f"graphzero-leases-{os.getuid()}"


def _publish(claim: Claim) -> tuple[Path | None, Any]:
    """The file of a claim, locked; none where it cannot be made."""
    for _ in range(_TRIES):
        try:
            folder = _folder()
            folder.mkdir(mode=0o700, exist_ok=True)
            path = folder / f"{os.getpid()}-{next(_numbers)}-{os.urandom(4).hex()}"
            file = open(path, "x+b", buffering=0)  # noqa: SIM115 - the lease closes it
        except OSError:  # perhaps another process has just removed the empty folder
            continue
        try:
            # Not flock, whose locks forked children share: this one ends with the process.
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists():  # else a reader took it for that of a dead process
                _write(file, claim)
                return path, file
        except OSError:
            pass
        file.close()
    return None, None


def _write(file: Any, claim: Claim) -> None:
    """Replaces the content; a reader that comes in between finds no valid claim."""
    text = json.dumps(asdict(claim)).encode()
    with contextlib.suppress(OSError):
        os.ftruncate(file.fileno(), 0)
        os.pwrite(file.fileno(), text, 0)


def _claims_of_others() -> Iterator[Claim]:
    """Claims of other processes whose lock is held; removes those of dead ones."""
    own = f"{os.getpid()}-"
    try:
        paths = [path for path in _folder().iterdir() if not path.name.startswith(own)]
    except OSError:
        return
    for path in paths:
        with contextlib.suppress(OSError, ValueError, TypeError):
            if (claim := _read(path)) is not None:
                yield claim


def _read(path: Path) -> Claim | None:
    with open(path, "r+b", buffering=0) as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:  # its process lives
            return Claim(**json.loads(file.read()))
        path.unlink()
        return None


_budget = Budget()
os.register_at_fork(after_in_child=_budget.forget)


def budget() -> Budget:
    """The budget of this process."""
    return _budget
