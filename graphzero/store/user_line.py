"""Which line a warning is about: the user's, however many calls of graphzero are below it."""

from __future__ import annotations

import sys

__all__ = ["user_line"]


def user_line() -> int:
    """``stacklevel`` for a `warnings.warn` in the calling function: the first line outside."""
    level, frame = 1, sys._getframe(1)
    while frame.f_globals.get("__name__", "").split(".")[0] == "graphzero":
        if frame.f_back is None:
            break
        level, frame = level + 1, frame.f_back
    return level
