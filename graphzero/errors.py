"""The exception that is graphzero's own; everything else is a built-in one."""

from __future__ import annotations

__all__ = ["FormatError"]


class FormatError(ValueError):
    """A file is not what its format allows: truncated, foreign, corrupt or too new.

    The message names the file, what is wrong with it, and what to do.
    """
