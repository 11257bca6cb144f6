"""The budget: what the iterations of all processes of a memory group want to keep, and who gets it.

Every iteration claims the parts of files that it would like to have in memory. The claims stand in
small files that end with their process (`io.process_files`). All processes divide the same memory
by the same rule, so nobody has to be asked.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from graphzero.io.limits import MemoryWatch
from graphzero.io.prefix_group import PrefixGroup
from graphzero.io.process_files import ProcessFile, living_files
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
        self.claim = claim
        self._file: ProcessFile | None = None
        with contextlib.suppress(OSError):  # without a file, only this process knows the claim
            self._file = ProcessFile(_KIND, _as_bytes(claim))
        owner.enter(self)

    def settle(self) -> None:
        """Tells the others that the mini-batches in flight are allocated."""
        if not self.claim.is_settled:
            self.claim = replace(self.claim, is_settled=True)
            if self._file is not None:
                self._file.replace(_as_bytes(self.claim))

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
            file.remove()


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


_KIND = "leases"


def _as_bytes(claim: Claim) -> bytes:
    return json.dumps(asdict(claim)).encode()


def _claims_of_others() -> Iterator[Claim]:
    """Claims of other processes."""
    for file in living_files(_KIND):
        with contextlib.suppress(OSError, ValueError, TypeError):  # it may be half written
            yield Claim(**json.loads(file.read()))


_budget = Budget()
os.register_at_fork(after_in_child=_budget.forget)


def budget() -> Budget:
    """The budget of this process."""
    return _budget
