"""Labels that a task has for its seeds, as labels of all nodes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.streamed_array import AnyArray, pieces_of

__all__ = ["TaskLabels"]

_PIECE_BYTES = 1 << 25  # of the labels of all nodes: for each piece, all seeds are read once
_SEED_BYTES = 1 << 21


@dataclass(frozen=True)
class TaskLabels:
    """The labels of seeds, at the places of their nodes.

    Nodes that are no seeds get -1, or NaN where labels are floats. Integers become int64.

    Parameters
    ----------
    count : int
        Nodes.
    parts : sequence of (str, array, array)
        A name for messages, node ids, and a label for each of them.

    Raises
    ------
    ValueError
        If the parts do not fit together.
    """

    count: int
    parts: Sequence[tuple[str, AnyArray, AnyArray]]

    def __post_init__(self) -> None:
        first = self.parts[0][2]
        for name, seeds, labels in self.parts:
            if seeds.ndim != 1 or seeds.dtype.kind not in "iu":
                raise ValueError(f"{name}: seeds have shape {seeds.shape}, dtype {seeds.dtype}")
            if labels.ndim == 0 or len(labels) != len(seeds) or 0 in labels.shape[1:]:
                raise ValueError(f"{name} has {len(seeds)} seeds, and labels of {labels.shape}")
            if (labels.shape[1:], labels.dtype.kind) != (first.shape[1:], first.dtype.kind):
                raise ValueError(
                    f"{name} has labels of shape {labels.shape} and dtype {labels.dtype}, and "
                    f"{self.parts[0][0]} of {first.shape} and {first.dtype}: they must be alike"
                )

    def __call__(self) -> Iterator[npt.NDArray[np.generic]]:
        """The labels of all nodes, in pieces.

        Raises
        ------
        ValueError
            If a node has two different labels, or does not exist.
        """
        step = max(1, _PIECE_BYTES // self._row_bytes)
        for begin in range(0, self.count, step):
            yield self._piece(begin, min(begin + step, self.count))

    @property
    def _row_bytes(self) -> int:
        return 8 * math.prod(self.parts[0][2].shape[1:])

    def _piece(self, begin: int, end: int) -> npt.NDArray[np.generic]:
        like = self.parts[0][2]
        is_float = like.dtype.kind == "f"
        shape = (end - begin, *like.shape[1:])
        rows = np.full(shape, np.nan if is_float else -1, like.dtype if is_float else np.int64)
        known = np.zeros(end - begin, np.bool_)
        step = max(1, _SEED_BYTES // self._row_bytes)
        for name, seeds, labels in self.parts:
            pairs = zip(pieces_of(seeds, step), pieces_of(labels, step), strict=True)
            for ids, values in pairs:
                if begin == 0 and len(ids) and not 0 <= ids.min() <= ids.max() < self.count:
                    raise ValueError(f"{name} has seeds that are no nodes of {self.count}")
                inside = (ids >= begin) & (ids < end)
                at, given = ids[inside] - begin, values[inside]
                differ = known[at] & _differ(rows[at], given)
                rows[at] = given
                known[at] = True
                differ |= _differ(rows[at], given)  # a node twice in this step
                if differ.any():
                    node = int(at[differ][0]) + begin
                    raise ValueError(f"{name}: node {node} has two different labels")
        return rows


def _differ(
    first: npt.NDArray[np.generic], second: npt.NDArray[np.generic]
) -> npt.NDArray[np.bool_]:
    if first.dtype.kind == "f":
        second = second.astype(first.dtype)
        different = (first != second) & ~(np.isnan(first) & np.isnan(second))
    else:
        different = first != second
    return np.asarray(different.any(axis=tuple(range(1, different.ndim))))
