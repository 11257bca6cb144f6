"""Ids that are too far apart: dense numbers would make files that are empty for the most part."""

from __future__ import annotations

from collections.abc import Iterable

from graphzero.ingest.keyed_rows import id_columns
from graphzero.ingest.row_stream import Rows

__all__ = ["refuse_sparse_ids"]

# So many nodes take 32 MiB, and no more is lost whatever the ids are.
_ALWAYS = 1 << 22
# Beyond it, one node in so many must be named, even if nothing names a node twice.
_NODES_PER_MENTION = 16
_CHUNK = 1 << 16


def _records(rows: Rows) -> int:
    """Records with a node id."""
    count = 0
    for table, column in id_columns(rows):
        known = table.num_records
        count += (
            sum(len(ids) for (ids,) in table.chunks([column], _CHUNK)) if known is None else known
        )
    return count


def refuse_sparse_ids(
    count: int, num_ends: int, tables: Iterable[Rows], *, largest: str, option: str = "num_nodes="
) -> None:
    """Raises an error if hardly any of the nodes can be named; for counts that nobody gave.

    Parameters
    ----------
    count : int
        Nodes: the largest id + 1.
    num_ends : int
        Ends of edges.
    tables : iterable of Rows
        Attributes of the nodes, some with a column of ids.
    largest : str
        What has the largest id, for messages.
    option : str
        That says how many nodes there are, such as "num_nodes=".

    Raises
    ------
    ValueError
        Naming the largest id, and what to do.
    """
    if count <= _ALWAYS or count <= _NODES_PER_MENTION * num_ends:
        return
    mentions = num_ends + sum(_records(rows) for rows in tables)
    if count <= _NODES_PER_MENTION * mentions:
        return
    raise ValueError(
        f"the largest node id, in {largest}, is {count - 1:,}, and ids are given only {mentions:,} "
        f"times: files for {count:,} nodes would be empty for the most part. ids='map' takes such "
        f"ids to 0...N-1; {option}{count} says that there are so many nodes"
    )
