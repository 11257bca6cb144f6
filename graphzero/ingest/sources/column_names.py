"""Names of columns that are recognised, and which column of a header has which part.

One set of names serves every kind of table. A name is recognised in any case, with or without
blanks, underscores, hyphens and dots.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_BASES = (
    ("src", "dst"),
    ("src", "dest"),
    ("source", "target"),
    ("source", "destination"),
    ("from", "to"),
    ("head", "tail"),
)
# Each convention: the name of sources and that of targets. Names of two conventions are not mixed.
END_PAIRS = (
    *((s + suffix, t + suffix) for suffix in ("", "id", "node", "nodeid") for s, t in _BASES),
    ("u", "v"),
)
WEIGHTS = frozenset(["weight", "weights", "edgeweight", "edgeweights"])
TIMES = frozenset(["timestamp", "timestamps", "time", "times", "ts", "edgetime", "edgetimestamp"])
IDS = frozenset(["id", "nodeid", "node", "nid", "vertex", "vertexid"])

_SOURCES = frozenset(pair[0] for pair in END_PAIRS)
_TARGETS = frozenset(pair[1] for pair in END_PAIRS)
# The index that pandas writes without a name, also after it was read and written again.
_UNNAMED = re.compile(r"(unnamed:?\d+|indexlevel\d+)?")
_MISSING = frozenset(["na", "n/a", "#n/a", "null", "none", "nil", "-", "--", "?", "."])
_LAST_PART = re.compile(r"(?P<stem>.*?)(?P<last>\d+|[a-z])")


def _normal(name: str) -> str:
    return re.sub(r"[\s_\-.\ufeff]+", "", name).casefold()


def looks_like_name(cell: str) -> bool:
    """Whether a cell of text can be the name of a column: neither a number nor a gap."""
    text = cell.strip()
    return text.casefold() not in _MISSING and not re.match(r"[+-]?\d", text)


def is_source_name(name: str) -> bool:
    """Whether a column of this name has sources."""
    return _normal(name) in _SOURCES


def is_target_name(name: str) -> bool:
    """Whether a column of this name has targets."""
    return _normal(name) in _TARGETS


def find_known(names: Sequence[str], known: frozenset[str]) -> list[int]:
    """Positions of the columns with one of the known names."""
    return [i for i, name in enumerate(names) if _normal(name) in known]


def unnamed_columns(names: Sequence[str]) -> list[int]:
    """Positions of columns without a name, such as an index that pandas wrote."""
    return [i for i, name in enumerate(names) if _UNNAMED.fullmatch(_normal(name))]


def label_of(names: Sequence[str] | None, index: int) -> str:
    """A column in messages: its name, or its position if it has none."""
    name = names[index] if names is not None else ""
    return name if name.strip() else f"column {index}"


def describe_columns(names: Sequence[str]) -> str:
    """All columns, for messages."""
    return ", ".join(label_of(names, i) for i in range(len(names)))


_EXAMPLES = "src and dst, source and target, from and to, head and tail, u and v"
_WAY_OUT = "say which two columns are meant with src= and dst=, by name or by position from 0"


def _descends(first: str, second: str) -> bool:
    """Whether two names are numbered or lettered the other way round: b, a, or node2, node1."""
    parts = [_LAST_PART.fullmatch(_normal(name)) for name in (first, second)]
    if parts[0] is None or parts[1] is None or parts[0]["stem"] != parts[1]["stem"]:
        return False
    last = [part["last"] for part in parts if part is not None]
    if all(text.isdigit() for text in last):
        return int(last[0]) > int(last[1])
    return not any(text.isdigit() for text in last) and last[0] > last[1]


def _why_not_in_order(names: Sequence[str]) -> str | None:
    """Why the two columns are not taken as source and target in this order."""
    known = _SOURCES | _TARGETS | WEIGHTS | TIMES | IDS
    if unnamed_columns(names):
        return "one has no name"
    if _normal(names[0]) == _normal(names[1]):
        return "both have one name"
    if _descends(*names):
        return "their names are in descending order"
    for name in names:
        if _normal(name) in known:
            return f"{name} does not fit the other name"
    return None


def find_ends(names: Sequence[str], table: str) -> tuple[int, int]:
    """Positions of the sources and the targets in a table with names.

    Two columns whose names say nothing are taken in order; otherwise the names must say it.

    Parameters
    ----------
    names : sequence of str
        Of all columns, at least two.
    table : str
        For messages.

    Raises
    ------
    ValueError
        If the names do not say it, or say it in two ways.
    """
    normal = [_normal(name) for name in names]
    has = f"{table} has the columns {describe_columns(names)}"
    pairs = [pair for pair in END_PAIRS if pair[0] in normal and pair[1] in normal]
    for pair in pairs:
        for word in pair:
            if normal.count(word) > 1:
                same = [names[i] for i in find_known(names, frozenset([word]))]
                raise ValueError(
                    f"{has}, of which {' and '.join(map(repr, same))} mean the same: {_WAY_OUT}"
                )
    if len(pairs) > 1:
        raise ValueError(f"{has}, with more than one pair of source and target: {_WAY_OUT}")
    if pairs:
        return normal.index(pairs[0][0]), normal.index(pairs[0][1])
    if len(names) > 2:
        raise ValueError(
            f"{has}, and no pair of names that is recognised ({_EXAMPLES}): {_WAY_OUT}"
        )
    reason = _why_not_in_order(names)
    if reason is not None:
        raise ValueError(f"{has}, which are not taken in this order, because {reason}: {_WAY_OUT}")
    return 0, 1
