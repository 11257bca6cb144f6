"""PyG's own types, for code that is written against them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["make_data"]


def make_data(num_nodes: int, fields: Mapping[str, Any]) -> Any:
    """A ``torch_geometric.data.Data`` with some attributes.

    Raises
    ------
    ImportError
        If torch_geometric is not installed.
    """
    try:
        from torch_geometric.data import Data
    except ImportError as error:
        raise ImportError("to_pyg needs torch_geometric: pip install torch-geometric") from error
    data = Data(**fields)
    data.num_nodes = num_nodes
    return data
