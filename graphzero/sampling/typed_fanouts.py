"""Fanouts of a typed graph: one list for all edge types, or a list for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphzero import _core
from graphzero.graph.sampling_options import as_fanout
from graphzero.sampling.typed_subgraph import EdgeType

__all__ = ["as_typed_fanouts", "edge_type_name"]

_DEFAULT = "default"


def edge_type_name(edge_type: EdgeType) -> str:
    """An edge type as one word: "source__relation__target", as PyG writes it."""
    return "__".join(edge_type)


def as_typed_fanouts(fanouts: Any, edge_types: Sequence[EdgeType]) -> dict[EdgeType, list[int]]:
    """Fanouts of every edge type, one for each hop.

    Parameters
    ----------
    fanouts : sequence of int, or mapping
        One list for all edge types; or a list by edge type, ``("user", "rates", "movie")`` or
        "user__rates__movie", where the list of "default" is for all edge types without one. Each
        fanout is positive, -1 for all neighbours, or 0 for none in this hop.
    edge_types : sequence of EdgeType

    Raises
    ------
    ValueError
        If a list is no list of fanouts, or has another number of hops than the others; if an edge
        type is unknown, named twice, or missing.
    """
    if isinstance(fanouts, Mapping):
        lists = _by_edge_type(fanouts, edge_types)
    else:
        hops = _as_hops(fanouts, "fanouts")
        lists = {edge_type: list(hops) for edge_type in edge_types}
    counts = {len(each) for each in lists.values()}
    if len(counts) > 1:
        named = ", ".join(f"{edge_type_name(of)}: {len(each)}" for of, each in lists.items())
        raise ValueError(
            f"all edge types must have fanouts for the same number of hops, not {named}: "
            f"use 0 in a hop in which an edge type is not sampled"
        )
    if not all(1 <= count <= _core.MOST_HOPS for count in counts):
        raise ValueError(
            f"fanouts must name at least one hop, such as [15, 10], and at most {_core.MOST_HOPS}"
        )
    return lists


def _as_hops(fanouts: Any, name: str) -> list[int]:
    if isinstance(fanouts, (str, bytes)):
        raise ValueError(f"{name} must be a list with one fanout for each hop, not {fanouts!r}")
    try:
        each = list(fanouts)
    except TypeError:
        raise ValueError(
            f"{name} must be a list with one fanout for each hop, such as [15, 10], or a dict of "
            f"such lists by edge type, not {fanouts!r}"
        ) from None
    return [0 if fanout is not False and fanout == 0 else as_fanout(fanout) for fanout in each]


def _by_edge_type(
    fanouts: Mapping[Any, Any], edge_types: Sequence[EdgeType]
) -> dict[EdgeType, list[int]]:
    names = {edge_type_name(edge_type): edge_type for edge_type in edge_types}
    if len(names) < len(edge_types) and any(isinstance(key, str) for key in fanouts):
        names = {}  # two edge types have one name: only tuples tell them apart
    given: dict[EdgeType, list[int]] = {}
    default = None
    for key, value in fanouts.items():
        hops = _as_hops(value, f"fanouts[{key!r}]")
        if isinstance(key, str) and key == _DEFAULT:
            default = hops
            continue
        edge_type = names.get(key) if isinstance(key, str) else key
        if edge_type is None or edge_type not in edge_types:
            raise ValueError(
                f"fanouts name {key!r}, but the edge types are {list(edge_types)}: name one of "
                f"them, or 'default' for all others"
            )
        if edge_type in given:
            raise ValueError(f"fanouts name the edge type {edge_type} twice")
        given[edge_type] = hops
    missing = [edge_type for edge_type in edge_types if edge_type not in given]
    if missing and default is None:
        raise ValueError(
            f"fanouts lack the edge types {missing}: name them, or add an entry 'default' for all "
            f"others, such as 'default': {[0] * len(next(iter(given.values()), [0]))} to sample "
            f"none of them"
        )
    return {edge_type: list(given.get(edge_type, default or [])) for edge_type in edge_types}
