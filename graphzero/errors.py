"""graphzero's only exception of its own, and where its warnings point to."""

from __future__ import annotations

import sys


class FormatError(ValueError):
    """A file is truncated, not of its format, corrupt, or of a newer version.

    The message names the file, the fault, and what to do.
    """


def user_line() -> int:
    """``stacklevel`` for a `warnings.warn` in the calling function: the first line outside."""
    level, frame, own = 1, sys._getframe(1), ("graphzero", "functools")  # of cached properties
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in own:
        level, frame = level + 1, frame.f_back
    return level
