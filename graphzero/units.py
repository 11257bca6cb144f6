"""Numbers as people read them."""

from __future__ import annotations

__all__ = ["format_bytes"]

_UNITS = ("bytes", "kB", "MB", "GB", "TB")


def format_bytes(count: int) -> str:
    """Bytes with a unit, in powers of 1000: ``"1.2 GB"``."""
    size, unit = float(count), 0
    while size >= 999.5 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    decimals = 1 if unit > 0 and size < 9.95 else 0
    return f"{size:.{decimals}f} {_UNITS[unit]}"
