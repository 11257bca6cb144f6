"""Named attributes of nodes and edges: what the user gave, and which of them drive sampling."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from graphzero.ingest.row_stream import Rows
from graphzero.store.format import dtype_name
from graphzero.store.schema import EDGE_TIME, EDGE_WEIGHT, Driving

__all__ = ["as_names", "check_known", "is_typed_input", "resolve_driving"]

WEIGHT_NAMES = (EDGE_WEIGHT, "weight")
TIME_NAMES = (EDGE_TIME, "timestamp", "time")


def is_typed_input(nodes: Any, edges: Any) -> bool:
    """Whether the arguments of `graphzero.build` describe a graph with types.

    Its nodes are dictionaries by node type, and its edges by edge type.
    """
    by_node_type = isinstance(nodes, Mapping) and any(
        isinstance(value, Mapping) for value in nodes.values()
    )
    # A matrix that SciPy keeps as a dictionary has pairs of numbers for keys.
    is_matrix = hasattr(edges, "tocoo")
    by_edge_type = (
        isinstance(edges, Mapping)
        and not is_matrix
        and any(isinstance(key, tuple) for key in edges)
    )
    return by_node_type or by_edge_type


def as_names(value: str | Iterable[str] | None, option: str) -> tuple[str, ...] | None:
    """Names that an option lists; one name may stand alone. None is the default choice.

    Raises
    ------
    ValueError
        If they are not names, or one is there twice.
    """
    if value is None:
        return None
    names = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(name, str) for name in names):
        raise ValueError(f"{option}={value!r} must be a list of names of attributes")
    if len(set(names)) != len(names):
        raise ValueError(f"{option}={value!r} has a name twice")
    return names


def check_known(
    weight_attrs: Collection[str] | None,
    time_attrs: Collection[str] | None,
    edge_names: Collection[str],
    node_names: Collection[str],
) -> None:
    """Raises an error for a name that no attribute has, or that is to be weight and time.

    Parameters
    ----------
    weight_attrs, time_attrs : collection of str or None
        From `as_names`.
    edge_names, node_names : collection of str
        Of all types.

    Raises
    ------
    ValueError
    """
    for name in weight_attrs or ():
        if name in (time_attrs or ()):
            raise ValueError(f"{name!r} is in weight_attrs and in time_attrs: it can be one only")
        if name not in edge_names:
            hint = ": it is one of the nodes" if name in node_names else ""
            raise ValueError(
                f"weight_attrs: there is no edge attribute {name!r}{hint}; {_listed(edge_names)}"
            )
    for name in time_attrs or ():
        if name not in edge_names and name not in node_names:
            raise ValueError(
                f"time_attrs: there is no attribute {name!r} of edges or nodes; "
                f"{_listed([*edge_names, *node_names])}"
            )


def _listed(names: Collection[str]) -> str:
    return f"there are {', '.join(sorted(names))}" if names else "there are none"


def _one(chosen: Collection[str], option: str, what: str, where: str) -> str | None:
    if len(chosen) > 1:
        names = " and ".join(map(repr, chosen))
        raise ValueError(
            f"{where}{names} would both be {what} by which neighbours are sampled, and there can "
            f"be one: name it in {option}, and leave the others as ordinary attributes"
        )
    return next(iter(chosen), None)


def resolve_driving(
    edge_attrs: Mapping[str, Rows],
    weight_attrs: Collection[str] | None,
    time_attrs: Collection[str] | None,
    *,
    node_attrs: Mapping[str, Rows] | None = None,
    where: str = "",
) -> Driving:
    """The attributes by which the edges of one type are sampled.

    Parameters
    ----------
    edge_attrs : mapping of str to Rows
        All attributes of these edges.
    weight_attrs, time_attrs : collection of str or None
        From `as_names`; names that these edges do not have are for those of other types. None:
        "edge_weight" or "weight", and "edge_time", "timestamp" or "time" of the edges, if there is
        one.
    node_attrs : mapping of str to Rows, optional
        The attributes of the nodes that are sampled, which may have the time.
    where : str
        Beginning of messages, such as the edge type.

    Raises
    ------
    ValueError
        If two attributes would be the weight, or the time, or one is no vector of such numbers.
    """
    nodes = node_attrs or {}
    wanted = WEIGHT_NAMES if weight_attrs is None else weight_attrs
    weight = _one([n for n in wanted if n in edge_attrs], "weight_attrs", "weights", where)
    wanted = TIME_NAMES if time_attrs is None else time_attrs
    of_edges = [name for name in wanted if name in edge_attrs]
    of_nodes = [] if time_attrs is None else [name for name in wanted if name in nodes]
    time = _one([*of_edges, *of_nodes], "time_attrs", "times", where)
    if weight is not None:
        _check_numbers(edge_attrs[weight], weight, "weight_attrs", "iuf", where)
    if time is not None:
        _check_numbers(
            edge_attrs[time] if of_edges else nodes[time], time, "time_attrs", "iu", where
        )
    return Driving(weight, time, "node" if of_nodes else "edge")


def _check_numbers(rows: Rows, name: str, option: str, kinds: str, where: str) -> None:
    """Refuses attributes that cannot drive sampling: other shapes than vectors, other dtypes."""
    numbers = "integers" if "f" not in kinds else "numbers"
    is_float = np.dtype(rows.dtype).kind not in "iu"  # bfloat16 has a kind of its own
    if rows.vector and not ("f" not in kinds and is_float):
        return
    raise ValueError(
        f"{where}attribute {name!r} has rows of shape {rows.row_shape} and dtype "
        f"{dtype_name(rows.dtype)}, but neighbours are sampled by vectors of {numbers}: convert "
        f"it, or leave it out of {option}, {option}=[] if need be, to store it as it is"
    )
