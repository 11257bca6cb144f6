"""Hot order: the nodes by how often they occur as a neighbour."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.spill import temp_array

__all__ = ["HotOrder", "hot_order"]

_CHUNK = 1 << 20


@dataclass(frozen=True)
class HotOrder:
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


def hot_order(
    folder: Path, num_nodes: int, occurrences: Iterator[npt.NDArray[Any]], memory: int
) -> HotOrder:
    """Order by descending number of occurrences, equal ones by ascending id.

    Parameters
    ----------
    folder : pathlib.Path
        On whose disk arrays larger than the memory live.
    num_nodes : int
    occurrences : iterator of 1-D arrays
        Every id as often as it occurs.
    memory : int
        Bytes.
    """
    keep = memory // 4
    keys = temp_array(folder, num_nodes, np.uint64, 2 * keep)
    one = np.uint64(1)
    for ids in occurrences:
        for begin in range(0, len(ids), _CHUNK):
            np.add.at(keys, ids[begin : begin + _CHUNK].astype(np.intp), one)
    # One sort of (rarity, id) packed in 64 bits, in place. A count that does not fit beside the
    # id is cut: such hubs are equally hot.
    bits = max(1, (num_nodes - 1).bit_length())
    most = np.uint64((1 << (64 - bits)) - 1)
    for begin in range(0, num_nodes, _CHUNK):
        part = keys[begin : begin + _CHUNK]
        np.minimum(part, most, out=part)
        np.subtract(most, part, out=part)
        part <<= np.uint64(bits)
        part |= np.arange(begin, begin + len(part), dtype=np.uint64)
    keys.sort()
    node_ids = temp_array(folder, num_nodes, np.uint32, keep)
    node_rank = temp_array(folder, num_nodes, np.uint32, keep)
    low = np.uint64((1 << bits) - 1)
    for begin in range(0, num_nodes, _CHUNK):
        ids = (keys[begin : begin + _CHUNK] & low).astype(np.uint32)
        node_ids[begin : begin + len(ids)] = ids
        node_rank[ids] = np.arange(begin, begin + len(ids), dtype=np.uint32)
    return HotOrder(node_ids, node_rank)
