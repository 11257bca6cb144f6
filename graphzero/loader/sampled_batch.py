"""`SampledBatch`: what datasets of seeds yield, before `Collate` makes tensors of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphzero.graph.ids import IdArray
from graphzero.loader.batch_stats import BatchStats
from graphzero.sampling.subgraph import Subgraph

__all__ = ["SampledBatch"]


@dataclass(frozen=True)
class SampledBatch:
    """A sampled subgraph and its rows, in NumPy arrays.

    Attributes
    ----------
    subgraph : Subgraph
    input_id : (batch_size,) int64
        Positions of the seeds in the seed array, or of the seed edges in theirs.
    stats : BatchStats
    rows : dict of str to array
        Rows that were gathered in the background, one per node: "x" and "y".
    feature_dtype : numpy.dtype or None
        The dtype to which "x" was, or is to be, converted.
    fields : dict of str to array
        Further fields of the `MiniBatch`, by name: about seed edges, times of seeds.
    """

    subgraph: Subgraph
    input_id: IdArray
    stats: BatchStats = field(default_factory=BatchStats)
    rows: dict[str, npt.NDArray[Any]] = field(default_factory=dict)
    feature_dtype: np.dtype[Any] | None = None
    fields: dict[str, npt.NDArray[Any]] = field(default_factory=dict)

    if not TYPE_CHECKING:  # for which a class with __getattr__ has every attribute

        def __getattr__(self, name: str) -> Any:
            """Says how to get a `MiniBatch`, whose attributes a training loop wants."""
            raise AttributeError(
                f"a SampledBatch of NumPy arrays has no {name!r}: pass collate_fn=gz.Collate(ds) "
                f"to the DataLoader, or call gz.Collate(ds) with it, for a MiniBatch of tensors"
            )
