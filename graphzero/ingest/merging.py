"""Before the sort: parallel edges are merged, self-loops dropped, symmetric lists stored once."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from graphzero.ingest.aggregation import RowsDiffer
from graphzero.ingest.edge_groups import Merging, conflict
from graphzero.ingest.edge_input import EdgeInput
from graphzero.ingest.edges import EdgeList
from graphzero.ingest.merge_passes import Passes
from graphzero.ingest.merge_plan import MergeOptions, all_dtypes
from graphzero.ingest.merged_edges import MergedEdges
from graphzero.ingest.merged_rows import MergedRows, merged_rows
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.spill import TempColumn
from graphzero.ingest.symmetry import Directions, sampled_directions
from graphzero.ingest.write_options import WriteOptions
from graphzero.store.edge_changes import EdgeChanges
from graphzero.store.schema import EDGE_TIME, Driving

__all__ = ["Prepared", "merging_of", "prepare_edges"]


@dataclass(frozen=True)
class Prepared:
    """An edge list that is ready for the sort.

    Attributes
    ----------
    edges : EdgeList
    attributes : dict of str to Rows
        A row for each edge of the user's list: those of stored edges are what these are to have.
    changes : EdgeChanges
    merged : MergedEdges or None
        None where every edge is stored, or nothing is found by the positions of edges.
    """

    edges: EdgeList
    attributes: dict[str, Rows]
    changes: EdgeChanges
    merged: MergedEdges | None

    def remap(self, positions: TempColumn, memory: int, split: str) -> TempColumn:
        """Positions of stored edges, from positions in the edge list; `write_split` calls it.

        Parameters
        ----------
        positions : TempColumn of int64
            Closed, unless it is the result.
        memory : int
            Bytes.
        split : str
            For the warning.
        """
        if self.merged is None or not (len(self.merged) or len(self.merged.dropped)):
            return positions
        kept, moved, left_out = self.merged.remap(positions, memory)
        if moved or left_out:
            _warn(
                f"{split}: of its positions, {moved:,} named an edge that was merged into an "
                f"earlier one, and were replaced by that of the earlier one, once each; "
                f"{left_out:,} named a self-loop that was dropped, and were left out"
            )
        return kept

    def close(self) -> None:
        """Frees the disk space of what is not the edges."""
        _close_rows(self.attributes)
        if self.merged is not None:
            self.merged.close()


def _close_rows(attributes: Mapping[str, Rows]) -> None:
    for rows in attributes.values():
        if isinstance(rows, MergedRows):
            rows.close()


def _warn(message: str) -> None:
    warnings.warn(message, UserWarning, stacklevel=2)


def prepare_edges(
    folder: Path,
    edges: EdgeList,
    attributes: Mapping[str, Rows],
    merging: Merging,
    options: WriteOptions,
    column_memory: int,
) -> Prepared:
    """Does with an edge list what the options say; without them, looks for symmetric lists.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files.
    edges : EdgeList
        Closed, unless it is that of the result.
    attributes : mapping of str to Rows
        Of these edges, without those that drive sampling.
    merging : Merging
    options : WriteOptions
    column_memory : int
        Bytes that the new columns may take.

    Raises
    ------
    ValueError
        If attributes of merged edges differ, and nothing says how they are merged.
    OSError
        If the disk is full.
    """
    changes = EdgeChanges(reversed=merging.plan.reverse)
    if merging.plan.reverse:
        source, target = edges.target, edges.source
        edges = replace(edges, source=source, target=target, max_ids=edges.max_ids[::-1])
    merged = MergedEdges(folder, options.sort_memory) if merging.has_positions else None
    work = Passes(folder, edges, merging, merged, options, column_memory)
    try:
        step = _coalesced if merging.plan.coalesce else _uncoalesced
        edges, changes, told = step(work, changes)
        rows = _merged_attributes(folder, attributes, merging, merged, work.num_edges, options)
    except BaseException:
        edges.close()
        if merged is not None:
            merged.close()
        raise
    if told:
        _warn(told)
    return Prepared(edges, rows, changes, merged)


def _merged_attributes(
    folder: Path,
    attributes: Mapping[str, Rows],
    merging: Merging,
    merged: MergedEdges | None,
    num_edges: int,
    options: WriteOptions,
) -> dict[str, Rows]:
    """The attributes of merged edges, each merged as the options say."""
    if merged is None or not len(merged):
        return dict(attributes)
    found: dict[str, Rows] = {}
    with options.progress.phase("merging attributes", len(attributes), "attributes") as advance:
        for name, rows in attributes.items():
            how, memory = merging.how(name), options.rows_memory
            try:
                found[name] = merged_rows(
                    folder, rows, merged, how, num_edges=num_edges, name=name, memory=memory
                )
            except RowsDiffer as error:
                _close_rows(found)
                raise conflict(merging, name, error) from None
            except BaseException:
                _close_rows(found)
                raise
            advance(1)
    return found


def _coalesced(work: Passes, changes: EdgeChanges) -> tuple[EdgeList, EdgeChanges, str]:
    """The merged list, what was done, and what to warn of."""
    count = work.num_edges
    edges, directions, dropped = work.coalesced()
    dropping = work.merging.plan.drop_self_loops
    changes = replace(
        changes,
        num_merged=count - dropped - len(edges),
        num_self_loops_dropped=dropped if dropping else None,
    )
    told = ""
    if not edges.directed and directions.may_be_symmetric:
        changes = replace(changes, symmetric=True)
        summed = [name for name, how in work.merging.plan.how.items() if how == "sum"]
        added = f", and {', '.join(summed)} of both directions are added" if summed else ""
        told = (
            f"the edge list has both directions of every edge, and directed=False makes them one "
            f"edge: they were merged{added}. directed=True keeps the directions apart"
        )
    return edges, changes, told


def _uncoalesced(work: Passes, changes: EdgeChanges) -> tuple[EdgeList, EdgeChanges, str]:
    """The list that is stored, what was done, and what to warn of."""
    edges, dropping = work.edges, work.merging.plan.drop_self_loops
    if dropping:
        changes = replace(changes, num_self_loops_dropped=edges.num_loops)
    directions = Directions() if edges.directed else sampled_directions(edges)
    if directions.may_be_symmetric:
        paired = work.paired()
        if paired is not None:
            count = len(paired) - paired.num_loops
            told = (
                f"the edge list has both directions of each of its {count:,} "
                f"undirected edges, which directed=False adds by itself: each was stored once. "
                f"directed=True stores the list as it is, without this warning"
            )
            return paired, replace(changes, symmetric=True), told
        directions = replace(directions, exact=False)
    told = ""
    if directions.mostly or directions.may_be_symmetric:
        told = (
            f"{directions} have their reverse in the edge list as well, and the others do not. "
            f"directed=False adds the reverse of every edge, so that such pairs are stored twice, "
            f"as parallel edges: coalesce=True stores each once, directed=True stores the list as "
            f"it is"
        )
    if dropping and edges.num_loops:
        edges = work.without_loops()
    return edges, changes, told


def merging_of(
    wanted: MergeOptions,
    source: EdgeInput,
    attributes: Mapping[str, Rows],
    driving: Driving,
    splits: Mapping[str, Any],
) -> Merging:
    """What the options mean for the edges of one type.

    Parameters
    ----------
    wanted : MergeOptions
    source : EdgeInput
    attributes : mapping of str to Rows
        Without those that drive sampling.
    driving : Driving
    splits : mapping of str to object
        Of the edges.

    Raises
    ------
    ValueError
        If an attribute cannot have the aggregation that is wanted.
    """
    dtypes = all_dtypes(attributes, source.has_weights, source.has_times, driving)
    time = (driving.time or EDGE_TIME) if source.has_times else None
    has_positions = bool(attributes or splits)
    return Merging(wanted.plan(dtypes, time), driving, source.table.locate, has_positions)
