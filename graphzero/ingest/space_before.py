"""How much disk space a build needs, as far as this is known before anything is read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.edge_input import EdgeInput
from graphzero.ingest.edges import EdgeList
from graphzero.ingest.graph_input import GraphInput
from graphzero.ingest.keyed_rows import id_columns
from graphzero.ingest.merge_passes import merge_bytes
from graphzero.ingest.merge_plan import MergePlan
from graphzero.ingest.raw_ids import IdKind
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.sources.table import most_records
from graphzero.ingest.staging import space_needed
from graphzero.ingest.write_options import WriteOptions
from graphzero.store.disk_space import free_disk_space, require_disk_space
from graphzero.units import format_bytes

__all__ = ["announce_space", "counted_edges", "id_mentions", "id_space"]


class _Counted:
    """A column of edges of which only the length is known."""

    def __init__(self, count: int) -> None:
        self.dtype: np.dtype[Any] = np.dtype("<u4")
        self.count = count

    def __len__(self) -> int:
        return self.count

    def read(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Nothing: there are no values yet."""
        raise NotImplementedError

    def close(self) -> None:
        """Nothing to free."""


def counted_edges(edges: EdgeInput, count: int) -> EdgeList:
    """As many edges as there may be, without self-loops, which would take less space."""
    column = _Counted(count)
    return EdgeList(
        source=column,
        target=column,
        weight=column if edges.has_weights else None,
        time=column if edges.has_times else None,
        num_loops=0,
        max_ids=(-1, -1),
        directed=edges.directed,
        incoming=edges.incoming,
        with_edge_ids=edges.with_edge_ids,
    )


def id_mentions(rows: Iterable[Rows]) -> int | None:
    """Node ids in the tables of attributes, at most."""
    counts = [most_records(table) for one in rows for table, _ in id_columns(one)]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def id_space(mentions: int, text_bytes: int, memory: int) -> int:
    """The table of ids, and the temporary files of its sort."""
    table = 8 * mentions + text_bytes
    return table if table <= memory // 8 else 3 * table


def _space(
    given: GraphInput, count: int, num_edges: int, options: WriteOptions, num_graph_files: int
) -> int:
    edges = counted_edges(given.source, num_edges)
    columns = num_edges * sum(column.dtype.itemsize for column in given.source.columns)
    spilled = columns if columns > options.column_memory else 0
    return spilled + space_needed(
        edges,
        given.tables.values(),
        count,
        options,
        num_graph_files=num_graph_files,
        edge_rows=given.edges.values(),
    )


def _merge_space(edges: EdgeInput, num_edges: int, options: WriteOptions) -> int:
    driving = [column.dtype for column in edges.columns if not column.is_id]
    return merge_bytes(num_edges, driving, options.sort_memory, options.column_memory)


def announce_space(
    folder: Path,
    given: GraphInput,
    known: int | None,
    kind: IdKind | None,
    options: WriteOptions,
    num_graph_files: int,
    plan: MergePlan,
) -> None:
    """Says how much disk space the build needs at most, and refuses what can have no room.

    The number of edges of a text file is bounded by its size. Of a compressed one nothing is known;
    then, and before the number of nodes is known, only a part of the need can be refused here, and
    `require_space` refuses the rest when the edges have been read.

    Parameters
    ----------
    folder : pathlib.Path
    given : GraphInput
    known : int or None
        Nodes, if their number is known.
    kind : {"map", "integer", "string"} or None
        How ids are mapped.
    options : WriteOptions
    num_graph_files : int
    plan : MergePlan
        What is done to the edges; what merging leaves of them is not known.

    Raises
    ------
    OSError
        With ``errno.ENOSPC`` and the folder.
    """
    table = given.source.table
    least_edges = 0 if plan.coalesce or plan.drop_self_loops else table.num_records or 0
    if not given.source.directed:
        least_edges //= 2  # of a list with both directions of every edge, half is stored
    least = _space(given, known or 1, least_edges, options, num_graph_files)
    require_disk_space(folder, least, "the build needs at least")
    if not options.progress.enabled:
        return
    most_edges, others = most_records(table), id_mentions(given.tables.values())
    free = format_bytes(free_disk_space(folder))
    if most_edges is None or others is None or plan.coalesce:
        options.progress.say(
            f"disk space: at least {format_bytes(least)}; the rest is known when the edges have "
            f"been read; {free} are free"
        )
        return
    mentions = 2 * most_edges + others
    most = _space(given, known or mentions, most_edges, options, num_graph_files)
    if not given.source.directed:  # a second direction may be taken out
        most += _merge_space(given.source, most_edges, options)
    gaps = "" if known is not None or kind is not None else ", if ids have no large gaps"
    if kind is not None:
        text_bytes = getattr(table, "text_bytes", None)
        if text_bytes is None and kind != "integer":
            gaps = ", if ids are integers"
        most += id_space(mentions, text_bytes or 0, options.sort_memory)
    options.progress.say(f"disk space: at most {format_bytes(most)}{gaps}; {free} are free")
