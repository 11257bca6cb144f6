"""Bytes that a process has read itself: the kernel also counts those of children that have ended.

Linux adds the figures of ``/proc/PID/io`` of a child to those of its parent when the parent waits
for it (``wait_task_zombie`` in kernel/exit.c), so that the sum over a tree would count them twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["InheritedReads"]

_MOST_READINGS = 10  # after which a parent will not wait for its child any more


@dataclass
class _Ended:
    """A child that has ended: the bytes that its parent inherits, once it waits for it."""

    read_bytes: int
    readings: int = 0


@dataclass
class _Process:
    parent: int
    read_bytes: int  # as the kernel counts them
    inherited: int = 0
    unexplained: int = 0  # bytes since the first of the children that have ended was last seen
    ended: list[_Ended] = field(default_factory=list)

    def add(self, read_bytes: int) -> None:
        """Counts what is new: the bytes of a child, if there are as many as it has read."""
        new, self.read_bytes = read_bytes - self.read_bytes, read_bytes
        if not self.ended:
            return
        self.unexplained += new
        waiting = []
        for child in self.ended:
            child.readings += 1
            if self.unexplained >= child.read_bytes:
                self.unexplained -= child.read_bytes
                self.inherited += child.read_bytes
            elif child.readings < _MOST_READINGS:
                waiting.append(child)
        self.ended = waiting
        if not waiting:
            self.unexplained = 0


class InheritedReads:
    """Subtracts from what each process has read what it has inherited, reading by reading."""

    def __init__(self) -> None:
        self._processes: dict[int, _Process] = {}

    def own(self, read: Mapping[int, tuple[int, int]]) -> dict[int, int]:
        """Bytes that each process has read itself.

        Parameters
        ----------
        read : mapping of int to (int, int)
            The parent of each running process, and bytes read as the kernel counts them, by pid.
        """
        for pid in [pid for pid in self._processes if pid not in read]:
            gone = self._processes.pop(pid)
            parent = self._processes.get(gone.parent)
            if parent is not None and gone.read_bytes > 0:
                parent.ended.append(_Ended(gone.read_bytes))
        for pid, (parent_pid, read_bytes) in read.items():
            known = self._processes.get(pid)
            if known is None or read_bytes < known.read_bytes:  # another process with this number
                self._processes[pid] = _Process(parent_pid, read_bytes)
            else:
                known.add(read_bytes)
        return {
            pid: process.read_bytes - process.inherited for pid, process in self._processes.items()
        }
