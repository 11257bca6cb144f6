"""How figures are written in a summary on the terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from graphzero.units import format_bytes

__all__ = ["UNKNOWN", "aligned", "bytes_text", "rate_text", "seconds_text", "share_text"]

UNKNOWN = "unknown"
_NAMES = 12
_WIDTH = 100


def aligned(rows: Iterable[tuple[str, str]]) -> str:
    """Names on the left, texts on the right; long texts go on below their beginning."""
    lines: list[str] = []
    for name, text in rows:
        wrapped = textwrap.wrap(
            _printable(text), _WIDTH - _NAMES, break_long_words=False, break_on_hyphens=False
        )
        for i, part in enumerate(wrapped or [""]):
            lines.append(f"{name if i == 0 else '':{_NAMES}}{part}".rstrip())
    return "\n".join(lines)


def _printable(text: str) -> str:
    """Paths may have characters that change the terminal."""
    return "".join(each if each.isprintable() else "?" for each in text)


def bytes_text(count: float | None) -> str:
    """Bytes with a unit, or that they are unknown."""
    return UNKNOWN if count is None else format_bytes(round(count))


def seconds_text(seconds: float) -> str:
    """Seconds, as precisely as they are of interest."""
    if seconds >= 120:
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
    if seconds >= 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.2f} s" if seconds >= 1 or seconds == 0 else f"{seconds * 1000:.3g} ms"


def share_text(part: float, whole: float) -> str:
    """What share of the whole a part is."""
    return f"{part / whole:.0%}" if whole > 0 else UNKNOWN


def rate_text(rate: float | None) -> str:
    """A number a second."""
    return UNKNOWN if rate is None else f"{rate:.3g}" if rate < 100 else f"{rate:,.0f}"
