"""What a process gets from children that it has waited for: a sum over a tree counts it once.

When a parent waits for a child that has ended, Linux adds the child's counters, with what the child
has got in the same way, to those of the parent (``wait_task_zombie`` in kernel/exit.c): page faults
and processor time to fields of their own in ``/proc/PID/stat``, bytes read to those of the parent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

__all__ = ["Counted", "Inherited"]

_MOST_READINGS = 10  # after which a parent will not wait any more for a child that is gone
_ROUNDING = 1e-6  # of sums of seconds


@dataclass(frozen=True)
class Counted:
    """A counter of one running process.

    Attributes
    ----------
    parent : int
    collected : int or float
        To which the kernel adds what children had. Its own may be part of it.
    own : int or float
        Its own that is no part of `collected`.
    """

    parent: int
    collected: float
    own: float = 0


@dataclass
class _Ended:
    """A child that has ended: what its parent inherits, once it waits for it."""

    pid: int
    amount: float
    readings: int = 0


@dataclass
class _Process:
    counted: Counted
    base: float  # collected before the first reading
    beyond: float  # collected, without what was seen of the children
    inherited: float = 0
    unexplained: float = 0  # since the first of the children that have ended was last seen
    ended: list[_Ended] = field(default_factory=list)

    def can_become(self, counted: Counted) -> bool:
        """Whether the counters can be those of the same process, later."""
        before = self.counted
        return counted.collected >= before.collected and counted.own >= before.own

    def add(self, counted: Counted, listed: Collection[int]) -> None:
        """Counts what is new: that of a child, if it is as much as was seen of the child."""
        new, self.counted = counted.collected - self.counted.collected, counted
        if self.ended:
            self.unexplained += new
            self.ended = [child for child in self.ended if self._waits_for(child, listed)]
            if not self.ended:
                self.unexplained = 0
        # it never falls, although a child may be found late
        self.beyond = max(self.beyond, counted.collected - self.inherited)

    def _waits_for(self, child: _Ended, listed: Collection[int]) -> bool:
        """Whether the child's may still come."""
        if self.unexplained >= child.amount - _ROUNDING:
            self.unexplained -= child.amount
            self.inherited += child.amount
            return False
        child.readings += child.pid not in listed  # a zombie may be waited for at any time
        return child.readings < _MOST_READINGS


class Inherited:
    """Tells what was seen of children from the rest, reading by reading, for one counter."""

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}
        self._has_begun = False
        self._unseen_before: float = 0  # by processes that have ended

    def update(self, counted: Mapping[int, Counted], listed: Collection[int] = ()) -> None:
        """Takes a reading.

        Parameters
        ----------
        counted : mapping of int to Counted
            The running processes, by pid, parents before children.
        listed : collection of int
            Them, and those that have ended but that nobody has waited for (zombies).
        """
        for pid in [pid for pid in reversed(self._processes) if pid not in counted]:
            self._end(pid)
        for pid, new in counted.items():
            known = self._processes.get(pid)
            if known is not None and known.can_become(new):
                known.add(new, listed)
                continue
            if known is not None:  # another process with this number
                self._end(pid)
            base = 0 if self._has_begun else new.collected
            self._processes[pid] = _Process(new, base, new.collected)
        self._has_begun = True

    def _end(self, pid: int) -> None:
        gone = self._processes.pop(pid)
        self._unseen_before += gone.beyond - gone.base
        parent = self._processes.get(gone.counted.parent)
        amount = gone.counted.own + gone.counted.collected
        if parent is not None and amount > 0:
            # it may have waited for its children after it was last seen
            parent.ended += [_Ended(pid, amount), *gone.ended]

    def beyond(self, pid: int) -> float:
        """What a running process has collected, without what was seen of its children."""
        return self._processes[pid].beyond

    @property
    def unseen(self) -> float:
        """What all processes have collected since the first reading that was not seen before.

        So much did their children count before they were first seen, after they were last seen, or
        without having been seen at all.
        """
        running = sum(process.beyond - process.base for process in self._processes.values())
        return self._unseen_before + running
