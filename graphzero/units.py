"""Numbers as people read them."""

from __future__ import annotations

__all__ = ["format_bytes"]


def format_bytes(count: int) -> str:
    """Bytes with a unit, in powers of 1000: ``"1.2 GB"``."""
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 999.5:
            break
        size /= 1000
    else:
        unit = "TB"
    return f"{size:.1f} {unit}" if unit != "bytes" and size < 9.95 else f"{size:.0f} {unit}"
