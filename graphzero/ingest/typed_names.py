"""Names of the files of a typed graph, made from the names of types and attributes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from graphzero.store.schema import EdgeType

__all__ = [
    "check_name",
    "edge_file",
    "graph_file",
    "id_map_file",
    "ids_file",
    "node_file",
    "split_file",
    "visits_file",
]

# A file name has at most 255 bytes, of which its name during the build needs 24.
_MOST_BYTES = 231
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
# Underscores that could be taken for those between the names of an edge type.
_AMBIGUOUS = re.compile("^_|_$|_(?=_)|(?<=_)_")
# What the files of nodes and edges besides attributes are called.
_RESERVED = re.compile("ids|id_map|visits|split_.*", re.DOTALL)


def check_name(name: object, what: str) -> str:
    """The name of a type or an attribute, if it can be stored.

    Raises
    ------
    ValueError
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"{what} is {name!r}: it must be a text that is not empty")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} is {name!r}, which is no valid Unicode text") from None
    return name


def _hex(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


def _encode(name: str) -> str:
    """Other characters as %XX; no two names have one encoding."""
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in name.encode())


def _part(name: str) -> str:
    """A name that begins and ends without an underscore, and has no two of them in a row."""
    return _AMBIGUOUS.sub("%5F", _encode(name))


def _attribute(name: str) -> str:
    encoded = _encode(name)
    return _hex(name[0]) + encoded[1:] if _RESERVED.fullmatch(name) else encoded


def _file(types: Iterable[str], rest: str) -> str:
    names = list(types)
    name = "__".join(map(_part, names)) + rest
    if len(name) > _MOST_BYTES:
        raise ValueError(
            f"the file name {name[:40]}... of {', '.join(map(repr, names))} would have "
            f"{len(name)} bytes, more than {_MOST_BYTES}: choose shorter names of types and "
            f"attributes"
        )
    return name


def node_file(node_type: str, attribute: str) -> str:
    """Name of the file of an attribute of nodes, such as "paper.x.gd"."""
    return _file([node_type], f".{_attribute(attribute)}.gd")


def edge_file(edge_type: EdgeType, attribute: str) -> str:
    """Name of the file of an attribute of edges, such as "author__writes__paper.edge_attr.gd"."""
    return _file(edge_type, f".{_attribute(attribute)}.gd")


def graph_file(edge_type: EdgeType) -> str:
    """Name of the file of an edge type's neighbour lists, such as "author__writes__paper.gl"."""
    return _file(edge_type, ".gl")


def split_file(types: str | EdgeType, split: str) -> str:
    """Name of the file of a split of nodes or edges, such as "paper.split_train.gd"."""
    return _file([types] if isinstance(types, str) else types, f".split_{split}.gd")


def ids_file(node_type: str) -> str:
    """Name of the file with the user's ids of stored nodes, such as "paper.ids.gd"."""
    return _file([node_type], ".ids.gd")


def visits_file(node_type: str) -> str:
    """Name of the file with the visit counts of nodes, such as "paper.visits.gd"."""
    return _file([node_type], ".visits.gd")


def id_map_file(node_type: str) -> str:
    """Name of the file with the user's own ids of nodes, such as "paper.id_map.gd"."""
    return _file([node_type], ".id_map.gd")
