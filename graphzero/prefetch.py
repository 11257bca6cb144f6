"""`Prefetch`: every choice about how pages are read ahead."""

from __future__ import annotations

from dataclasses import dataclass

from graphzero.ids import as_count

__all__ = ["Prefetch"]

_STRATEGIES = ("none", "willneed")
_ADVICE = ("normal", "random", "sequential")


@dataclass(frozen=True)
class Prefetch:
    """How the pages that a batch will touch are read before they are touched.

    Attributes
    ----------
    strategy : {"willneed", "none"}
        "willneed": a background thread asks the kernel (``MADV_WILLNEED``) for the sorted, merged
        page runs of the next batches. "none": pages are read by the page faults of the gather.
    lookahead : int
        Batches that are sampled, and whose pages are asked for, before they are wanted; at least
        as many as threads prepare them. More hides more latency, and needs memory for the pages.
        0: each batch is prepared when it is asked for.
    budget : int
        Bytes of rows that may be asked for ahead; what does not fit is left to page faults.
    gap : int
        Pages that are read along to merge two runs into one.
    advice : {"random", "normal", "sequential"}
        ``madvise`` for the feature files while they are read. "random" stops the kernel from
        reading around every page that is asked for.

    Raises
    ------
    ValueError
        For a value that is not one of these, or negative.
    """

    strategy: str = "willneed"
    lookahead: int = 1
    budget: int = 1 << 30
    gap: int = 0
    advice: str = "random"

    def __post_init__(self) -> None:
        if self.strategy not in _STRATEGIES:
            raise ValueError(f"strategy must be one of {_STRATEGIES}, not {self.strategy!r}")
        if self.advice not in _ADVICE:
            raise ValueError(f"advice must be one of {_ADVICE}, not {self.advice!r}")
        for name in ("lookahead", "budget", "gap"):
            as_count(getattr(self, name), name, 0)
