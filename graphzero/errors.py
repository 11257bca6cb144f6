"""graphzero's only exception of its own; all others are built-in."""

from __future__ import annotations

__all__ = ["FormatError"]


class FormatError(ValueError):
    """A file is truncated, not of its format, corrupt, or of a newer version.

    The message names the file, the fault, and what to do.
    """
