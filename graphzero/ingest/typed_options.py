"""Options of a build that have no meaning for a typed graph: each is refused with what to do."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

__all__ = ["check_typed_options"]

_COLUMNS = (
    "names a column of one edge list, and a typed graph has several: name it for each of them, "
    "such as edges={('author', 'writes', 'paper'): gz.Source('writes.csv', src='a', dst='p')}"
)
# What to do instead of options that are not None.
_REFUSED = {
    "features": "is for graphs without types: use nodes={'paper': {'x': ...}}",
    "labels": "is for graphs without types: use nodes={'paper': {'y': ...}}",
    "num_nodes": "is for graphs without types: use nodes={'paper': {'num_nodes': ...}}",
    "src": _COLUMNS,
    "dst": _COLUMNS,
    "edge_attrs": _COLUMNS,
}


def is_empty(edge_attrs: Any) -> bool:
    """Whether `edge_attrs` says, of all edge types, that no further column is needed."""
    return isinstance(edge_attrs, Collection) and len(edge_attrs) == 0


def check_typed_options(
    *,
    neighbors: Any = "in",
    directed: bool = True,
    weight: Any = None,
    timestamp: Any = None,
    on_bad_rows: str = "raise",
    **others: Any,
) -> None:
    """Raises an error for an option of `graphzero.build` that a typed graph cannot have.

    Raises
    ------
    ValueError
        Naming the option and what to use instead.
    TypeError
        If there is no such option.
    """
    if not directed:
        raise ValueError(
            "directed=False is for graphs without types: the edges of an edge type lead from one "
            "type to another. Add the reverse edge types, as torch_geometric's T.ToUndirected "
            "does: ('paper', 'rev_writes', 'author') with both rows of edge_index exchanged"
        )
    if on_bad_rows != "raise":
        raise ValueError(
            f"on_bad_rows={on_bad_rows!r} is for graphs without types: correct the edge lists of a "
            f"typed graph first"
        )
    if neighbors not in ("in", "out"):
        raise ValueError(
            f"neighbors={neighbors!r} is not for typed graphs: use 'in' or 'out', and add reverse "
            f"edge types for messages the other way"
        )
    for option, value, attrs in (
        ("weight", weight, "weight_attrs"),
        ("timestamp", timestamp, "time_attrs"),
    ):
        if value is not None and value is not False:
            raise ValueError(
                f"{option}= is for graphs without types: name the column for its edge type, as "
                f"gz.Source(file, {option}=...), or give an attribute and name it in {attrs}="
            )
    for option, value in others.items():
        if option not in _REFUSED:
            raise TypeError(f"build has no option {option!r} for typed graphs")
        if value is not None and not (option == "edge_attrs" and is_empty(value)):
            raise ValueError(f"{option}= {_REFUSED[option]}")
