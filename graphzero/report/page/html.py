"""Texts of the page: escaped, shortened, and words for what is unknown."""

from __future__ import annotations

import html
import shlex
from collections.abc import Iterable, Sequence
from datetime import datetime

from graphzero.report.recording import Recording

__all__ = [
    "because",
    "command_line",
    "disk_rate_unknown",
    "escaped",
    "known_limit",
    "plain",
    "shortened",
    "started",
    "table",
]


def plain(value: object) -> str:
    """A text without characters that cannot be seen; they stand as escapes."""
    characters = str(value)
    if characters.isprintable():
        return characters
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in characters
    )


def escaped(value: object) -> str:
    """A text for HTML, in elements and in attributes."""
    return html.escape(plain(value), quote=True)


def shortened(value: object, most: int = 30) -> str:
    """A text that keeps its beginning and its end."""
    text = plain(value)
    if len(text) <= most:
        return text
    tail = most * 2 // 3
    return f"{text[: most - tail - 1]}…{text[-tail:]}"


def because(recording: Recording, *names: str, otherwise: str = "") -> str:
    """The words for an unknown figure: the reason that the recording has for one of its names."""
    found = next((recording.unknown[name] for name in names if name in recording.unknown), None)
    return f"unknown ({plain(found or otherwise or 'not recorded')})"


def disk_rate_unknown(recording: Recording) -> str:
    """Why the disk's own rate is unknown."""
    never = "it was not measured; graphzero tune measures it"
    return because(recording, "disk_rate", otherwise=never)


def command_line(recording: Recording) -> str:
    """The command as a shell would read it."""
    return shlex.join(recording.command) or "unknown command"


def started(recording: Recording) -> str:
    """When the recording began, as people write it."""
    try:
        return f"{datetime.fromisoformat(recording.started):%Y-%m-%d %H:%M:%S %Z}".strip()
    except ValueError:
        return recording.started


def known_limit(recording: Recording) -> int | None:
    """The limit of the memory group, as it was last."""
    limits = [r.group.limit for r in recording.readings if r.group is not None]
    return limits[-1] if limits else None


def table(
    head: Sequence[str], rows: Iterable[Sequence[object]], *, numbers: Iterable[int] = ()
) -> str:
    """A table; columns named in `numbers` are set to the right."""
    right = set(numbers)

    def cell(n: int, value: object, name: str) -> str:
        words = str(value).startswith("unknown")
        kind = f' class="number{" words" * words}"' if n in right else ""
        return f"<{name}{kind}>{escaped(value)}</{name}>"

    def line(values: Sequence[object], name: str) -> str:
        return f"<tr>{''.join(cell(n, v, name) for n, v in enumerate(values))}</tr>"

    top = f"<thead>{line(head, 'th')}</thead>" if head else ""
    body = "\n".join(line(row, "td") for row in rows)
    return f'<div class="wide-table"><table>{top}<tbody>\n{body}\n</tbody></table></div>'
