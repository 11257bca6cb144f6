"""graphzero's only exception of its own, and where its warnings point to."""

from __future__ import annotations

import os.path
import sys
import warnings


class FormatError(ValueError):
    """A file is truncated, not of its format, corrupt, or of a newer version.

    The message names the file, the fault, and what to do.
    """


def user_line() -> int:
    """``stacklevel`` for a `warnings.warn` in the calling function: the first line outside."""
    inside = ("graphzero", "functools")  # the latter calls cached properties
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] in inside:
        level, frame = level + 1, frame.f_back
    return level


def warn_user(message: str) -> None:
    """A `UserWarning` that points to the first line outside."""
    warnings.warn(message, UserWarning, stacklevel=user_line())


def user_place() -> str:
    """File and number of the first line outside of graphzero, as "train.py:12"."""
    frame = sys._getframe(user_line() - 1)
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
