"""How many threads a build uses."""

from __future__ import annotations

import os

__all__ = ["available_processors"]


def available_processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
