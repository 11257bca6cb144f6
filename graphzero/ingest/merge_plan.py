"""The options `coalesce`, `drop_self_loops` and `reverse` of a build, checked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from graphzero.ingest.aggregation import AGGREGATIONS, How, check_dtype
from graphzero.store.schema import EDGE_TIME, EDGE_WEIGHT, Driving, EdgeType

__all__ = [
    "MergeOptions",
    "MergePlan",
    "all_dtypes",
    "check_attributes",
    "merge_options",
    "typed_merge_options",
]

_WAYS = ", ".join(f"'{name}'" for name in AGGREGATIONS)


@dataclass(frozen=True)
class MergeOptions:
    """What the user wants of the edges of one edge list.

    Attributes
    ----------
    coalesce : bool
        Whether parallel edges are merged.
    one : str or None
        The aggregation of every attribute.
    by_name : dict of str to str
        The aggregations of some attributes.
    drop_self_loops, reverse : bool
    """

    coalesce: bool = False
    one: str | None = None
    by_name: dict[str, str] = field(default_factory=dict)
    drop_self_loops: bool = False
    reverse: bool = False

    def plan(self, dtypes: Mapping[str, np.dtype[Any]], time: str | None) -> MergePlan:
        """How each attribute is merged.

        Parameters
        ----------
        dtypes : mapping of str to dtype
            Of all attributes of these edges, as they are stored.
        time : str or None
            The attribute that drives sampling by time. It has no sum or mean, unless it is named.

        Raises
        ------
        ValueError
            If an attribute cannot have its aggregation.
        """
        how: dict[str, How] = {}
        for name, dtype in dtypes.items():
            chosen = self.by_name.get(name)
            if chosen is None and not (name == time and self.one in ("sum", "mean")):
                chosen = self.one
            if chosen is not None:
                check_dtype(chosen, dtype, name)
            how[name] = cast(How, chosen or "equal")
        return MergePlan(self.coalesce, how, self.drop_self_loops, self.reverse)


@dataclass(frozen=True)
class MergePlan:
    """What is done to the edges of one edge list.

    Attributes
    ----------
    coalesce : bool
    how : dict of str to How
        By attribute.
    drop_self_loops, reverse : bool
    """

    coalesce: bool
    how: dict[str, How]
    drop_self_loops: bool
    reverse: bool


def all_dtypes(
    attributes: Mapping[str, Any], has_weights: bool, has_times: bool, driving: Driving
) -> dict[str, np.dtype[Any]]:
    """The dtypes of all attributes of edges, by name, with those that drive sampling."""
    found = {name: np.dtype(rows.dtype) for name, rows in attributes.items()}
    if has_weights:
        found[driving.weight or EDGE_WEIGHT] = np.dtype(np.float32)
    if has_times:
        found[driving.time or EDGE_TIME] = np.dtype(np.int64)
    return found


def check_attributes(options: Iterable[MergeOptions], names: Collection[str]) -> None:
    """Raises an error for an aggregation of an attribute that no edges have.

    Raises
    ------
    ValueError
    """
    for name in dict.fromkeys(name for one in options for name in one.by_name):
        if name not in names:
            there = f"there are {', '.join(sorted(names))}" if names else "there are none"
            raise ValueError(f"coalesce: there is no edge attribute {name!r}; {there}")


def _flag(value: Any, option: str, more: str = "") -> bool:
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{option}={value!r} must be True or False{more}")
    return bool(value)


def _aggregation(value: Any, option: str) -> str:
    if isinstance(value, str) and value in AGGREGATIONS:
        return value
    hint = {"any": "; 'first' takes one of the values", "add": "; 'sum' adds"}
    told = hint.get(value, "") if isinstance(value, str) else ""
    raise ValueError(f"{option} must be one of {_WAYS}, not {value!r}{told}")


def merge_options(
    coalesce: Any = False, drop_self_loops: Any = False, reverse: Any = False
) -> MergeOptions:
    """The options of a graph without types.

    Raises
    ------
    ValueError
        If a value has no meaning.
    """
    one: str | None = None
    by_name: dict[str, str] = {}
    if isinstance(coalesce, Mapping):
        for name, how in coalesce.items():
            if not isinstance(name, str):
                raise ValueError(
                    f"coalesce names {name!r}: it is a dictionary by attribute, such as "
                    f"{{'edge_weight': 'sum'}}"
                )
            by_name[name] = _aggregation(how, f"coalesce[{name!r}]")
        merges = True
    elif isinstance(coalesce, str):
        one, merges = _aggregation(coalesce, "coalesce"), True
    else:
        more = f", one of {_WAYS}, or a dictionary of these by attribute"
        merges = _flag(coalesce, "coalesce", more)
    return MergeOptions(
        merges,
        one,
        by_name,
        _flag(drop_self_loops, "drop_self_loops"),
        _flag(reverse, "reverse"),
    )


def _by_edge_type(value: Any, option: str, types: Collection[EdgeType]) -> dict[EdgeType, Any]:
    """A dictionary by edge type; one that is none is for all of them."""
    if not isinstance(value, Mapping) or not any(isinstance(key, tuple) for key in value):
        return {edge_type: value for edge_type in types}
    for key in value:
        if key not in types:
            raise ValueError(
                f"{option} names {key!r}, which is none of the edge types "
                f"{', '.join(map(repr, types))}"
            )
    return {edge_type: value.get(edge_type, False) for edge_type in types}


def typed_merge_options(
    types: Collection[EdgeType],
    coalesce: Any = False,
    drop_self_loops: Any = False,
    reverse: Any = False,
) -> dict[EdgeType, MergeOptions]:
    """The options of each edge type; any of them may be a dictionary by edge type.

    Self-loops are dropped where both ends have one type. `reverse` must be a dictionary: True could
    also be meant to add edge types in the other direction.

    Raises
    ------
    ValueError
        If a value has no meaning.
    """
    if reverse is not False and not isinstance(reverse, Mapping):
        example = next(iter(types))
        raise ValueError(
            f"reverse={reverse!r}: name the edge types of a typed graph whose lists have the "
            f"target first: reverse={{{example!r}: True}}. For messages the other way, add "
            f"another edge type: ({example[2]!r}, 'rev_{example[1]}', {example[0]!r})"
        )
    merging = _by_edge_type(coalesce, "coalesce", types)
    dropping = _by_edge_type(drop_self_loops, "drop_self_loops", types)
    turning = _by_edge_type(reverse, "reverse", types)
    found: dict[EdgeType, MergeOptions] = {}
    for edge_type in types:
        drop, same = dropping[edge_type], edge_type[0] == edge_type[2]
        if isinstance(drop_self_loops, Mapping) and drop is True and not same:
            raise ValueError(
                f"drop_self_loops names {edge_type!r}, which leads from one node type to another: "
                f"it has no self-loops"
            )
        drop = drop and same if isinstance(drop, bool) else drop
        found[edge_type] = merge_options(merging[edge_type], drop, turning[edge_type])
    return found
