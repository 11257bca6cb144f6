"""`FoundDataset`: what a folder in another project's layout holds, as arguments of a build."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.streamed_array import AnyArray, StreamedArray, pieces_of

__all__ = ["ClassLabels", "FoundDataset", "as_vector"]

_PIECE = 1 << 18


@dataclass(frozen=True)
class FoundDataset:
    """Which files a dataset is built from.

    Attributes
    ----------
    edges : path, `Source` or dict
        As in `graphzero.build`, like `nodes` and `splits`.
    nodes : dict
    splits : dict
    num_nodes : int or None
        None in typed graphs, where `nodes` has it.
    directed : bool
    seeds : dict of str to dict
        What the tasks on edges need besides the graph, by split: arrays, or dictionaries of these
        by edge type.
    notes : tuple of str
        What the folder has and a dataset cannot have.
    """

    edges: Any
    nodes: Mapping[str, Any]
    splits: Mapping[str, Any] = field(default_factory=dict)
    num_nodes: int | None = None
    directed: bool = True
    seeds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of `graphzero.build`."""
        return {
            "edges": self.edges,
            "nodes": self.nodes,
            "splits": self.splits,
            "num_nodes": self.num_nodes,
            "directed": self.directed,
        }


def as_vector(array: AnyArray) -> AnyArray:
    """An array of one column as a vector, not read; another as it is."""
    if array.ndim != 2 or array.shape[1] != 1:
        return array
    if isinstance(array, StreamedArray):
        return replace(array, shape=array.shape[:1], fortran_order=False)
    return array.reshape(-1)


@dataclass(frozen=True)
class ClassLabels:
    """Classes that are stored as floats, as integers: NaN becomes -1.

    Parameters
    ----------
    name : str
        For messages.
    array : (N,) floats
    """

    name: str
    array: AnyArray

    def __call__(self) -> Iterator[npt.NDArray[np.int64]]:
        """The labels in pieces.

        Raises
        ------
        ValueError
            If one is no whole number, which would be changed.
        """
        begin = 0
        for piece in pieces_of(self.array, _PIECE):
            missing = np.isnan(piece)
            known = np.where(missing, -1, piece)
            classes = known.astype(np.int64)
            wrong = np.flatnonzero(classes != known)
            if len(wrong):
                at = int(wrong[0])
                raise ValueError(
                    f"{self.name}, row {begin + at}: {piece[at]} is no class, which must be a "
                    f"whole number or NaN"
                )
            yield classes
            begin += len(piece)
