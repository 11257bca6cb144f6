"""Orders of nodes, hottest first: by occurrences as a neighbour, or by visits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero._core import count_ids
from graphzero.ingest.spill import temp_array

__all__ = ["NodeOrder", "NodeSpace", "hot_order", "order_scratch", "visit_order"]

_CHUNK = 1 << 20


@dataclass(frozen=True)
class NodeOrder:
    """Both directions of the renumbering.

    Attributes
    ----------
    node_ids : (N,) uint32
        The user's id of each stored id.
    node_rank : (N,) uint32
        The stored id of each of the user's ids.
    """

    node_ids: npt.NDArray[Any]
    node_rank: npt.NDArray[Any]


@dataclass(frozen=True)
class NodeSpace:
    """The nodes of one type, which are ends of edges.

    Attributes
    ----------
    num_nodes : int
    order : NodeOrder or None
        None for input order.
    """

    num_nodes: int
    order: NodeOrder | None = None

    @property
    def rank(self) -> npt.NDArray[Any] | None:
        """Stored ids by the user's ids; None where they are the same."""
        return None if self.order is None else self.order.node_rank


def hot_order(
    folder: Path, num_nodes: int, occurrences: Iterator[npt.NDArray[Any]], memory: int
) -> NodeOrder:
    """Order by descending number of occurrences, ties by ascending id.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files, if arrays are larger than the memory.
    num_nodes : int
    occurrences : iterator of 1-D arrays
        Every id as often as it occurs.
    memory : int
        Bytes.
    """
    counts = temp_array(folder, num_nodes, np.uint64, memory // 2)
    for ids in occurrences:
        count_ids(ids, counts)
    return _by_count(folder, counts, None, memory)


def order_scratch(num_nodes: int, memory: int) -> int:
    """Bytes of temporary disk space that `hot_order` takes."""
    arrays = ((8, memory // 2), (4, memory // 8), (4, memory // 8))
    return sum(num_nodes * size for size, most in arrays if num_nodes * size > most)


def visit_order(
    folder: Path,
    visits: npt.NDArray[Any],
    nodes: npt.NDArray[Any] | None,
    ties: NodeOrder,
    memory: int,
) -> NodeOrder:
    """Order by descending number of visits, ties as in another order.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files, if arrays are larger than the memory.
    visits : (N,) integers
    nodes : (N,) integers or None
        The user's id of the node of each count; None if count i is of node i.
    ties : NodeOrder
    memory : int
        Bytes.
    """
    counts = temp_array(folder, len(visits), np.uint64, memory // 2)
    for begin in range(0, len(visits), _CHUNK):
        end = min(begin + _CHUNK, len(visits))
        ids = slice(begin, end) if nodes is None else nodes[begin:end]
        counts[ties.node_rank[ids]] = visits[begin:end]
    return _by_count(folder, counts, ties.node_ids, memory)


def _by_count(
    folder: Path, keys: npt.NDArray[np.uint64], nodes: npt.NDArray[Any] | None, memory: int
) -> NodeOrder:
    """Order by descending count, ties by position; `keys` are the counts, sorted in place.

    `nodes` has the user's id of each position; None if they are the same.
    """
    num_nodes, memory_each = len(keys), memory // 4
    # One in-place sort of (maximum - count, position) packed in 64 bits. Counts that need
    # more bits than the position leaves free are capped: such hubs are equally hot.
    bits = max(1, (num_nodes - 1).bit_length())
    most = np.uint64((1 << (64 - bits)) - 1)
    for begin in range(0, num_nodes, _CHUNK):
        part = keys[begin : begin + _CHUNK]
        np.minimum(part, most, out=part)
        np.subtract(most, part, out=part)
        part <<= np.uint64(bits)
        part |= np.arange(begin, begin + len(part), dtype=np.uint64)
    keys.sort()
    node_ids = temp_array(folder, num_nodes, np.uint32, memory_each)
    node_rank = temp_array(folder, num_nodes, np.uint32, memory_each)
    low = np.uint64((1 << bits) - 1)
    for begin in range(0, num_nodes, _CHUNK):
        ids = (keys[begin : begin + _CHUNK] & low).astype(np.uint32)
        if nodes is not None:
            ids = nodes[ids]
        node_ids[begin : begin + len(ids)] = ids
        node_rank[ids] = np.arange(begin, begin + len(ids), dtype=np.uint32)
    return NodeOrder(node_ids, node_rank)
