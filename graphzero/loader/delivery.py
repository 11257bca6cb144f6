"""`Delivery`: how the mini-batches of a pass leave its background threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy.typing as npt

from graphzero import _core
from graphzero.graph.user_input import Values
from graphzero.io.row_io import RowKey, RowSource
from graphzero.loader.device_rows import DeviceRows
from graphzero.loader.host_blocks import HostBlock, room
from graphzero.loader.mini_batch import Kind, SampledBatch
from graphzero.sampling.sampler import TypedSubgraph

_OF_STRUCTURE = ("n_id", "edge_index", "e_id", "batch")


def _unchanged(batch: SampledBatch) -> SampledBatch:
    return batch


@dataclass(frozen=True)
class Delivery:
    """How mini-batches leave the background of an iteration.

    Attributes
    ----------
    make : callable
        What the loop gets, or what it finishes, of a mini-batch.
    new_block : callable, optional
        Of so many bytes: where all arrays of a mini-batch are. Default: each is by itself.
    device_rows : DeviceRows, optional
        What a device has of the rows.
    """

    make: Callable[[SampledBatch], object] = _unchanged
    new_block: Callable[[int], HostBlock] | None = None
    device_rows: DeviceRows | None = None

    def sent_sources(self, sources: Mapping[RowKey, RowSource]) -> Mapping[RowKey, RowSource]:
        """Where the rows are found that mini-batches have in the processor's memory."""
        return sources if self.device_rows is None else self.device_rows.sources(sources)


AS_SAMPLED = Delivery()


def bytes_of_block(batch: SampledBatch, row_bytes: Sequence[int]) -> int:
    """Of a block for the arrays of a mini-batch and its rows."""
    others = sum(room(array.nbytes) for array in batch.arrays_without_rows)
    return others + sum(map(room, row_bytes))


@dataclass(frozen=True)
class Move:
    """An array of a mini-batch's structure that gets another place.

    Attributes
    ----------
    arrays : dict
        Where it is found, by type.
    kind : str or tuple
    moved : array
        At its new place.
    """

    arrays: dict[Kind, Values | None]
    kind: Kind
    moved: Values


def moves_of_structure(
    subgraph: TypedSubgraph, block: HostBlock, fills: _core.Fills, number: int
) -> list[Move]:
    """Has `fills` copy the large arrays of a mini-batch, `number` of the fills, to its block."""
    moves = []
    for name in _OF_STRUCTURE:
        arrays: dict[Kind, Values | None] = getattr(subgraph, name) or {}
        for kind, array in arrays.items():
            if array is not None:
                moves.append(Move(arrays, kind, block.empty(array.shape, array.dtype)))
                fills.add_copy(number, array, moves[-1].moved)
    return moves


def copied(array: Values, empty: Callable[[tuple[int, ...], npt.DTypeLike], Values]) -> Values:
    """A copy of a small array, in memory that `empty` gives."""
    copy = empty(array.shape, array.dtype)
    copy[...] = array
    return copy
