"""The options that a build and a reordering share, and how they divide the memory limit."""

from __future__ import annotations

from dataclasses import dataclass, field

from graphzero.ingest.closing import Closing
from graphzero.ingest.presampling import Presampler
from graphzero.ingest.progress import Progress
from graphzero.store.manifest import Neighbors
from graphzero.units import parse_size

__all__ = ["WriteOptions", "parse_bytes"]

_MIN_LIMIT = 1 << 20
_ORDERS = ("hot", "input", "presample")
_NEIGHBORS = ("in", "out", "both", None)


def parse_bytes(size: int | str) -> int:
    """Bytes of a memory limit.

    Parameters
    ----------
    size : int or str
        As `graphzero.units.parse_size` takes it.

    Raises
    ------
    ValueError
        If it is not such a size, or less than 1 MiB.
    """
    count = parse_size(size, "memory limit")
    if count < _MIN_LIMIT:
        raise ValueError(f"memory limit {size!r} is too small: the minimum is 1MiB")
    return count


@dataclass(frozen=True)
class WriteOptions:
    """How a dataset is written.

    Attributes
    ----------
    order : {"hot", "input", "presample"}
    presampler : Presampler or None
        Required by the order "presample", forbidden otherwise.
    memory_limit : int
        Bytes. The edge columns, the hot order and the sort are in memory at the same time;
        later, a part of the hot order and the feature rows are.
    progress : Progress
    neighbors : {"in", "out", "both"} or None
        Which neighbours a directed graph stores. None, for a reordering: those that it has.
    closing : Closing
        Takes what is to be said when everything is written.

    Raises
    ------
    ValueError
        For an unknown order or choice of neighbours, or a presampler that does not fit it.
    """

    order: str
    presampler: Presampler | None
    memory_limit: int
    progress: Progress
    neighbors: Neighbors | None = None
    closing: Closing = field(default_factory=Closing)

    def __post_init__(self) -> None:
        if self.order not in _ORDERS:
            raise ValueError(f"order must be 'hot', 'input' or 'presample', not {self.order!r}")
        if self.neighbors not in _NEIGHBORS:
            raise ValueError(f"neighbors must be 'in', 'out' or 'both', not {self.neighbors!r}")
        if self.order == "presample" and self.presampler is None:
            raise ValueError("order='presample' needs something that samples: presample=...")
        if self.order != "presample" and self.presampler is not None:
            raise ValueError(f"presample= is for order='presample', not {self.order!r}")

    @property
    def renumbers(self) -> bool:
        """Whether stored ids differ from the user's."""
        return self.order != "input"

    @property
    def column_memory(self) -> int:
        """Bytes for the edge columns, and for a split."""
        return self.memory_limit * 2 // 16

    @property
    def order_memory(self) -> int:
        """Bytes for the order of nodes."""
        return self.memory_limit * 4 // 16

    @property
    def times_memory(self) -> int:
        """Bytes for the times of nodes, when the order of nodes takes half of what it may."""
        return self.order_memory // 2

    @property
    def sort_memory(self) -> int:
        """Bytes for the sort of the edges."""
        return self.memory_limit * 9 // 16

    @property
    def rows_memory(self) -> int:
        """Bytes for rows while they are put in order."""
        return self.memory_limit * 8 // 16
