"""How much disk space a typed build needs, as far as this is known before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from graphzero.ingest.edge_groups import Merging
from graphzero.ingest.raw_ids import IdKind
from graphzero.ingest.sources.table import most_records
from graphzero.ingest.space_before import counted_edges, id_mentions, id_space
from graphzero.ingest.typed_files import TypedContent, typed_space_needed
from graphzero.ingest.typed_input import TypedInput
from graphzero.ingest.write_options import WriteOptions
from graphzero.store.disk_space import free_disk_space, require_disk_space
from graphzero.store.schema import EdgeType
from graphzero.units import format_bytes

__all__ = ["announce_typed_space"]


def _space(
    given: TypedInput,
    num_edges: Mapping[EdgeType, int],
    counts: Mapping[str, int],
    options: WriteOptions,
) -> int:
    """For so many edges and nodes of each type, and what memory cannot hold of the edges."""
    memory = options.column_memory // len(given.edges)
    spilled = 0
    for edge_type, one in given.edges.items():
        columns = sum(column.dtype.itemsize for column in one.edges.columns)
        spilled += num_edges[edge_type] * columns if num_edges[edge_type] * columns > memory else 0
    content = TypedContent(
        dict(counts),
        {name: counted_edges(one.edges, num_edges[name]) for name, one in given.edges.items()},
        {name: nodes.attributes for name, nodes in given.nodes.items()},
        {name: one.attributes for name, one in given.edges.items()},
    )
    return spilled + typed_space_needed(content, options)


def _mentions(given: TypedInput, num_edges: Mapping[EdgeType, int]) -> dict[str, int] | None:
    """Node ids of each type in edges and tables, at most; None if a table does not say."""
    found: dict[str, int] = {}
    for name, nodes in given.nodes.items():
        of_rows = id_mentions(nodes.attributes.values())
        if of_rows is None:
            return None
        found[name] = of_rows
    for (source, _, target), count in num_edges.items():
        found[source] += count
        found[target] += count
    return found


def announce_typed_space(
    folder: Path,
    given: TypedInput,
    known: Mapping[str, int | None],
    kind: IdKind | None,
    options: WriteOptions,
    mergings: Mapping[EdgeType, Merging],
) -> None:
    """`announce_space` for a graph with types.

    Parameters
    ----------
    folder : pathlib.Path
    given : TypedInput
    known : mapping of str to int or None
        Nodes of each type, where their number is known.
    kind : {"map", "integer", "string"} or None
        How ids are mapped.
    options : WriteOptions
    mergings : mapping of (str, str, str) to Merging
        What is done to the edges of each type; what merging leaves of them is not known.

    Raises
    ------
    OSError
        With ``errno.ENOSPC`` and the folder.
    """
    tables = {name: one.edges.table for name, one in given.edges.items()}
    merged = {
        name for name, one in mergings.items() if one.plan.coalesce or one.plan.drop_self_loops
    }
    surely = {
        name: 0 if name in merged else table.num_records or 0 for name, table in tables.items()
    }
    least = _space(given, surely, {n: count or 1 for n, count in known.items()}, options)
    require_disk_space(folder, least, "the build needs at least")
    if not options.progress.enabled:
        return
    free = format_bytes(free_disk_space(folder))
    most_edges = {name: most_records(table) for name, table in tables.items()}
    bounded = {name: count for name, count in most_edges.items() if count is not None}
    mentions = _mentions(given, bounded)
    if mentions is None or len(bounded) < len(tables) or merged:
        options.progress.say(
            f"disk space: at least {format_bytes(least)}; the rest is known when the edges have "
            f"been read; {free} are free"
        )
        return
    counts = {name: count or max(1, mentions[name]) for name, count in known.items()}
    most = _space(given, bounded, counts, options)
    gaps = ", if ids have no large gaps" if kind is None and None in known.values() else ""
    if kind is not None:
        texts = [getattr(table, "text_bytes", None) for table in tables.values()]
        if None in texts and kind != "integer":
            gaps = ", if ids are integers"
        most += id_space(
            sum(mentions.values()), sum(size or 0 for size in texts), options.sort_memory
        )
    options.progress.say(f"disk space: at most {format_bytes(most)}{gaps}; {free} are free")
