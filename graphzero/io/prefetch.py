"""`Prefetch`: every choice about how rows come into memory."""

from __future__ import annotations

from dataclasses import dataclass

from graphzero.graph.ids import as_count
from graphzero.units import parse_size

__all__ = ["STRATEGIES", "Prefetch"]

STRATEGIES = ("auto", "none", "willneed", "pread", "uring")
_ADVICE = ("normal", "random", "sequential")


@dataclass(frozen=True)
class Prefetch:
    """How the rows that a batch will touch are read before they are wanted.

    Attributes
    ----------
    strategy : {"auto", "none", "willneed", "pread", "uring"}
        "none": pages are read by the page faults of the gather. "willneed": a background thread
        asks the kernel (``MADV_WILLNEED``) for the sorted, merged page runs of the next batches.
        "uring" and "pread": a background thread reads these runs from the disk past the page
        cache (``O_DIRECT``), by io_uring or by `threads` threads; when the batch is wanted, they
        and the resident rows are brought to their places. "auto":
        "willneed" for a dataset that fits in memory, else "uring", or "pread" where io_uring
        cannot be had; ``batch.stats.io`` says what was chosen, and why.
    lookahead : int
        Batches whose rows are in memory before they are wanted (by "uring" and "pread" those that
        are not resident); as many are sampled, and more where more threads sample. More hides more
        latency, and needs memory.
        0: each batch is prepared when it is asked for.
    budget : int or str
        Bytes of pages that "willneed" may have read and not gathered yet: later batches wait for
        earlier ones. Rows of a single batch beyond it are left to page faults. Never more than
        memory leaves.
    gap : int
        Pages that are read along to merge two runs into one.
    resident : int, str or float, optional
        How much of the features' head, in a file in hot order its hottest rows, is read once and
        kept in memory: bytes (or ``"2GB"``), or as a float a fraction of the file. Locked
        (``mlock``) where the process may lock so much, else only read. Never more than memory
        allows. Default: what memory allows where "auto" reads past the page cache, else nothing.
    memory_limit : int or str, optional
        Bytes that resident rows, batches under way and buffers may take. Default: what the
        process's control groups and the machine leave when an iteration begins.
    threads : int
        Of "pread".
    advice : {"random", "normal", "sequential"}
        ``madvise`` for the feature files while they are read. "random" stops the kernel from
        reading around every page that is asked for.

    Raises
    ------
    ValueError
        For a value that is not one of these, or negative.
    """

    strategy: str = "auto"
    lookahead: int = 1
    budget: int | str = 1 << 30
    gap: int = 0
    resident: int | str | float | None = None
    memory_limit: int | str | None = None
    threads: int = 16
    advice: str = "random"

    def __post_init__(self) -> None:
        if self.strategy not in STRATEGIES:
            raise ValueError(f"strategy must be one of {STRATEGIES}, not {self.strategy!r}")
        if self.advice not in _ADVICE:
            raise ValueError(f"advice must be one of {_ADVICE}, not {self.advice!r}")
        for name in ("budget", "resident", "memory_limit"):
            value = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, parse_size(value, name))
        for name, least in (("lookahead", 0), ("budget", 0), ("gap", 0), ("threads", 1)):
            as_count(getattr(self, name), name, least)
        if self.memory_limit is not None:
            as_count(self.memory_limit, "memory_limit", 0)
        if isinstance(self.resident, float):
            if not 0 <= self.resident <= 1:
                raise ValueError(
                    f"resident must be bytes, or a fraction from 0.0 to 1.0, not {self.resident!r}"
                )
        elif self.resident is not None:
            as_count(self.resident, "resident", 0)

    def resident_bytes(self, total: int) -> int | None:
        """Bytes of `resident`, of a file with so many bytes of rows; None if it was left open."""
        if isinstance(self.resident, float):
            return int(self.resident * total)
        assert not isinstance(self.resident, str)
        return self.resident

    @property
    def budget_bytes(self) -> int:
        """`budget` as a number."""
        assert not isinstance(self.budget, str)
        return self.budget

    @property
    def limit_bytes(self) -> int | None:
        """`memory_limit` as a number."""
        assert not isinstance(self.memory_limit, str)
        return self.memory_limit
