"""Whether an edge list of an undirected graph has both directions of its edges."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.edges import EdgeList
from graphzero.ingest.sort import EdgeSorter
from graphzero.ingest.sorted_blocks import Block, run_length, sorted_pieces

__all__ = ["Directions", "Pairs", "pair_keys", "sampled_directions", "symmetric_pairs"]

_CHUNK = 1 << 16
_MOST_SAMPLED = 1 << 16
_HALF = np.uint64(32)

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Directions:
    """How many of some edges have their reverse among them.

    Attributes
    ----------
    num_edges : int
        Without self-loops.
    num_reversed : int
        Edges with a partner in the other direction: of parallel edges, as many as have one each.
    exact : bool
        Whether these are all edges, not a sample.
    """

    num_edges: int = 0
    num_reversed: int = 0
    exact: bool = True

    @property
    def may_be_symmetric(self) -> bool:
        """Whether every one of them has its reverse."""
        return 0 < self.num_edges == self.num_reversed

    @property
    def mostly(self) -> bool:
        """Whether at least half have their reverse, and not all."""
        return self.num_edges <= 2 * self.num_reversed < 2 * self.num_edges

    def __str__(self) -> str:
        """Such as "about 83 % of the edges"."""
        if self.exact:
            return f"{self.num_reversed:,} of {self.num_edges:,} edges"
        return f"about {100 * self.num_reversed / self.num_edges:.3g} % of the edges"


def pair_keys(source: Array, target: Array) -> npt.NDArray[np.uint64]:
    """The two ends of each edge, smaller << 32 | larger, whichever way it leads."""
    keys: npt.NDArray[np.uint64] = np.minimum(source, target).astype(np.uint64)
    keys <<= _HALF
    keys |= np.maximum(source, target)
    return keys


def _hash(source: Array, target: Array) -> npt.NDArray[np.uint32]:
    """A number of 32 bits for each pair of ends, whichever way the edge leads.

    Sum and exclusive or of the ends depend on the pair only; multiplied by odd numbers, they are
    spread well enough to draw a sample.
    """
    found = (source + target) * np.uint32(0x9E3779B1)
    found ^= found >> np.uint32(15)
    found += (source ^ target) * np.uint32(0x85EBCA6B)
    found ^= found >> np.uint32(13)
    found *= np.uint32(0xC2B2AE35)
    return found


def sampled_directions(edges: EdgeList) -> Directions:
    """How many edges have their reverse, by a sample of pairs with all of their edges.

    A list with fewer than 65,536 such edges is its own sample. Reads the list once.

    Parameters
    ----------
    edges : EdgeList
    """
    sample: list[tuple[Array, Array]] = []
    count, limit, exact = 0, np.uint32(0xFFFFFFFF), True
    for begin in range(0, len(edges), _CHUNK):
        end = min(begin + _CHUNK, len(edges))
        source, target = edges.source.read(begin, end), edges.target.read(begin, end)
        chosen = np.flatnonzero(_hash(source, target) <= limit)
        source, target = source[chosen], target[chosen]
        loops = source == target
        if loops.any():
            source, target = source[~loops], target[~loops]
        sample.append((pair_keys(source, target), source < target))
        count += len(source)
        while count > _MOST_SAMPLED and limit:
            limit, exact = limit >> np.uint32(1), False
            keys, ways = _concatenated(sample)
            stays = _hash((keys >> _HALF).astype(np.uint32), keys.astype(np.uint32)) <= limit
            sample, count = [(keys[stays], ways[stays])], int(np.count_nonzero(stays))
    keys, ways = _concatenated(sample)
    pairs, of_pair = np.unique(keys, return_inverse=True)
    up = np.bincount(of_pair[ways], minlength=len(pairs))
    down = np.bincount(of_pair[~ways], minlength=len(pairs))
    return Directions(len(keys), 2 * int(np.minimum(up, down).sum()), exact)


def _concatenated(sample: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    keys, ways = zip((np.empty(0, np.uint64), np.empty(0, np.bool_)), *sample, strict=True)
    return np.concatenate(keys), np.concatenate(ways)


@dataclass(frozen=True)
class Pairs:
    """Some pairs of edges, in both directions: up, to the larger id, and down.

    Attributes
    ----------
    keys : (n,) uint64
        Of `pair_keys`, ascending.
    up, down : tuple of (n,) array
        The payload of the edges.
    """

    keys: npt.NDArray[np.uint64]
    up: tuple[Array, ...]
    down: tuple[Array, ...]


class NotSymmetricError(Exception):
    """An edge has no partner in the other direction."""


def symmetric_pairs(
    folder: Path, edges: EdgeList, columns: list[Any], memory: int
) -> Iterator[Pairs]:
    """Both directions of every edge that is no self-loop, sorted by their ends.

    Of parallel edges, the first one up is the partner of the first one down.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files.
    edges : EdgeList
    columns : list of EdgeColumn
        The payload; the position in the list comes before it.
    memory : int
        Bytes.

    Raises
    ------
    NotSymmetricError
        As soon as an edge has no partner.
    """
    position = np.dtype(np.uint64)
    dtypes = [position, *(column.dtype for column in columns)]
    memory //= 2
    run = run_length(dtypes, memory)
    with (
        closing(EdgeSorter(folder, dtypes, memory)) as up,
        closing(EdgeSorter(folder, dtypes, memory)) as down,
    ):
        for begin in range(0, len(edges), run):
            end = min(begin + run, len(edges))
            source, target = edges.source.read(begin, end), edges.target.read(begin, end)
            payload = [np.arange(begin, end, dtype=position)]
            payload += [column.read(begin, end) for column in columns]
            for sorter, chosen in ((up, source < target), (down, source > target)):
                sorter.spill()
                keys = pair_keys(source[chosen], target[chosen])
                if len(keys):
                    sorter.add(keys, tuple(array[chosen] for array in payload))
        yield from _zipped(sorted_pieces(up), sorted_pieces(down))


def _zipped(ups: Iterator[Block], downs: Iterator[Block]) -> Iterator[Pairs]:
    """Two streams in step, in pieces of the same length."""
    up: Block | None = None
    down: Block | None = None
    while True:
        up, down = _filled(up, ups), _filled(down, downs)
        if up is None or down is None:
            if up is not down:
                raise NotSymmetricError
            return
        count = min(len(up[0]), len(down[0]))
        first, second = _cut(up, 0, count), _cut(down, 0, count)
        if not np.array_equal(first[0], second[0]):
            raise NotSymmetricError
        yield Pairs(first[0], first[1], second[1])
        up, down = _cut(up, count, len(up[0])), _cut(down, count, len(down[0]))


def _filled(block: Block | None, blocks: Iterator[Block]) -> Block | None:
    """The block, or the next one if it has nothing left; None at the end."""
    while block is None or not len(block[0]):
        block = next(blocks, None)
        if block is None:
            return None
    return block


def _cut(block: Block, begin: int, end: int) -> Block:
    keys, payload = block
    return keys[begin:end], tuple(array[begin:end] for array in payload)
