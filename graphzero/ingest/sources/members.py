"""Which array of a file that has several: ``data.npz:edge_index``."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

__all__ = ["CONTAINERS", "choose_member", "known_names", "split_member"]

CONTAINERS = (".npz", ".pt", ".pth", ".safetensors")
_WITH_MEMBER = re.compile(r"(.*?(?:\.npz|\.pth?|\.safetensors)):(.+)", re.I | re.S)
_SHOWN = 20

_ROLES: dict[str, tuple[str, ...]] = {
    "edge_index": ("edge_index", "edges"),
    "x": ("x", "features", "feat", "node_feat"),
    "y": ("y", "labels", "label", "node_label"),
    "edge_weight": ("edge_weight", "weight", "weights"),
    "edge_time": ("edge_time", "timestamp", "time"),
    "edge_attr": ("edge_attr", "edge_feat"),
}


def known_names(role: str, of: str = "") -> tuple[str, ...]:
    """Names of an array in a file that are taken for an attribute, or for the edges.

    Parameters
    ----------
    role : str
        "edge_index", or the name of an attribute or a split.
    of : {"", "node", "edge", "split"}
        What it is an attribute of.
    """
    if of == "split":
        return role, f"{role}_idx", f"{role}_index", f"{role}_mask"
    return _ROLES.get(role, (role, f"{of}_{role}") if of else (role,))


def split_member(path: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """A file and the name of the array in it, None where the path names no array.

    A file that has the whole name is that file, and no array of another.
    """
    text = os.fspath(path)
    match = _WITH_MEMBER.fullmatch(text)
    if match is None or os.path.exists(text):
        return Path(text), None
    return Path(match[1]), match[2]


def _listed(file: str, names: Iterable[str], describe: Callable[[str], str]) -> str:
    names = list(names)
    lines = [f"{name} ({describe(name)})" for name in names[:_SHOWN]]
    more = len(names) - len(lines)
    return ", ".join(lines) + (f" and {more} more" if more else "")


def choose_member(
    file: str,
    names: Sequence[str],
    member: str | None,
    wanted: Sequence[str],
    describe: Callable[[str], str],
) -> str:
    """The name of the array to read.

    Parameters
    ----------
    file : str
    names : sequence of str
        Of the arrays in the file.
    member : str or None
        As the user gave it.
    wanted : sequence of str
        Names that fit without one, from `known_names`.
    describe : callable
        Shape and dtype of an array, for messages.

    Raises
    ------
    ValueError
        If there is no such array, or it is not clear which one is meant.
    """
    if not names:
        raise ValueError(f"{file} holds no arrays")
    if member is not None:
        if names.count(member) == 1:
            return member
        what = "several arrays" if member in names else "no array"
        raise ValueError(f"{file} has {what} {member!r}; it has {_listed(file, names, describe)}")
    found = [name for name in wanted if name in names]
    if len(found) == 1 and names.count(found[0]) == 1:
        return found[0]
    others = {name for role in _ROLES.values() for name in role} - set(wanted)
    if not found and len(names) == 1 and names[0] not in others:
        return names[0]
    raise ValueError(
        f"{file} has {_listed(file, names, describe)}: name the array, as in {file}:{names[0]}"
    )
