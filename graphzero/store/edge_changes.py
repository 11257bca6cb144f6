"""`EdgeChanges`: how the stored edges differ from the user's edge list."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EdgeChanges", "describe_changes"]


@dataclass(frozen=True)
class EdgeChanges:
    """What a build did to an edge list.

    Attributes
    ----------
    num_merged : int or None
        Edges that were merged into an earlier one with the same ends; None if parallel edges were
        not to be merged.
    num_self_loops_dropped : int or None
        None if self-loops were to be kept.
    reversed : bool
        Whether source and target were exchanged.
    symmetric : bool
        Whether the list had both directions of every edge, for an undirected graph. Each pair of
        directions is then stored as one edge.
    """

    num_merged: int | None = None
    num_self_loops_dropped: int | None = None
    reversed: bool = False
    symmetric: bool = False

    def __bool__(self) -> bool:
        """Whether there is something to tell."""
        return self != EdgeChanges()


def describe_changes(changes: EdgeChanges | None) -> list[str]:
    """A clause for each of the changes.

    Parameters
    ----------
    changes : EdgeChanges or None
    """
    if changes is None:
        return []
    clauses: list[str] = []
    if changes.reversed:
        clauses.append("reversed")
    if changes.num_self_loops_dropped is not None:
        clauses.append(f"dropped {_counted(changes.num_self_loops_dropped, 'self-loop')}")
    if changes.symmetric:
        clauses.append("the list was symmetric: each pair stored once")
    if changes.num_merged is not None:
        clauses.append(f"merged {_counted(changes.num_merged, 'parallel edge')}")
    return clauses


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
