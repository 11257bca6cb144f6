"""The options that change edges, of each edge type of a typed graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphzero.ingest.edge_groups import Merging
from graphzero.ingest.merge_plan import check_attributes, typed_merge_options
from graphzero.ingest.merging import merging_of
from graphzero.ingest.typed_input import TypedInput, naming
from graphzero.store.schema import EdgeType

__all__ = ["turned_types", "typed_mergings"]


def turned_types(mergings: Mapping[EdgeType, Merging]) -> set[EdgeType]:
    """Edge types whose lists have the targets first."""
    return {edge_type for edge_type, merging in mergings.items() if merging.plan.reverse}


def typed_mergings(
    given: TypedInput, coalesce: Any, drop_self_loops: Any, reverse: Any
) -> dict[EdgeType, Merging]:
    """What is done to the edges of each type before the sort; the options are those of the build.

    Raises
    ------
    ValueError
        If an option has no meaning, or an attribute cannot have the aggregation that is wanted.
    """
    wanted = typed_merge_options(given.edges, coalesce, drop_self_loops, reverse)
    found: dict[EdgeType, Merging] = {}
    for edge_type, edges in given.edges.items():
        with naming(edge_type):
            found[edge_type] = merging_of(
                wanted[edge_type], edges.edges, edges.attributes, edges.driving, edges.splits
            )
    names = {name for merging in found.values() for name in merging.plan.how}
    check_attributes(wanted.values(), names)
    return found
