"""`SampledBatch`: what datasets of seeds yield, before `Collate` makes tensors of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from graphzero.graph.ids import IdArray
from graphzero.io.row_sources import RowKey
from graphzero.loader.batch_stats import BatchStats
from graphzero.sampling.any_subgraph import AnySubgraph

__all__ = ["SampledBatch"]


@dataclass(frozen=True)
class SampledBatch:
    """A sampled subgraph and its rows, in NumPy arrays.

    Attributes
    ----------
    subgraph : Subgraph or TypedSubgraph
    input_id : (batch_size,) int64
        Positions of the seeds in the seed array, or of the seed edges in theirs.
    stats : BatchStats
    rows : dict of str to array
        Rows of its nodes and edges, by the names of attributes; in a typed graph by type and name.
    fields : dict of str to array
        Further fields of the `MiniBatch`, likewise: about seed edges, times of seeds.
    input_type : str, tuple or None
        In a typed graph, the node type or edge type of the seeds.
    """

    subgraph: AnySubgraph
    input_id: IdArray
    stats: BatchStats = field(default_factory=BatchStats)
    rows: dict[RowKey, npt.NDArray[Any]] = field(default_factory=dict)
    fields: dict[RowKey, npt.NDArray[Any]] = field(default_factory=dict)
    input_type: Any = None

    if not TYPE_CHECKING:  # for which a class with __getattr__ has every attribute

        def __getattr__(self, name: str) -> Any:
            """Says how to get a `MiniBatch`, whose attributes a training loop wants."""
            raise AttributeError(
                f"a SampledBatch of NumPy arrays has no {name!r}: pass collate_fn=gz.Collate(ds) "
                f"to the DataLoader, or call gz.Collate(ds) with it, for a MiniBatch of tensors"
            )
