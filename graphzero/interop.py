"""PyG's own types, for code that is written against them."""

from __future__ import annotations

from typing import Any

from graphzero.batch import MiniBatch

__all__ = ["to_pyg"]


def to_pyg(batch: MiniBatch) -> Any:
    """A mini-batch as ``torch_geometric.data.Data``, with the attributes of NeighborLoader's, or
    LinkNeighborLoader's.

    Raises
    ------
    ImportError
        If torch_geometric is not installed.
    """
    try:
        from torch_geometric.data import Data
    except ImportError as error:
        raise ImportError("to_pyg needs torch_geometric: pip install torch-geometric") from error
    data = Data(
        x=batch.x,
        edge_index=batch.edge_index,
        y=batch.y,
        n_id=batch.n_id,
        e_id=batch.e_id,
        input_id=batch.input_id,
        num_sampled_nodes=batch.num_sampled_nodes,
        num_sampled_edges=batch.num_sampled_edges,
        batch_size=batch.batch_size,
        **batch.optional_tensors,
    )
    data.num_nodes = batch.num_nodes
    return data
