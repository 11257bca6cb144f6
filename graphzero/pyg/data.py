"""PyG's own types, for code that is written against them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["make_data", "make_hetero_data"]


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


def make_hetero_data(num_nodes: Mapping[str, int], fields: Mapping[Any, Mapping[str, Any]]) -> Any:
    """A ``torch_geometric.data.HeteroData`` with some attributes of each type.

    Raises
    ------
    ImportError
        If torch_geometric is not installed.
    """
    try:
        from torch_geometric.data import HeteroData
    except ImportError as error:
        raise ImportError("to_pyg needs torch_geometric: pip install torch-geometric") from error
    data = HeteroData()
    for key, attributes in fields.items():
        for name, value in attributes.items():
            data[key][name] = value
    for kind, count in num_nodes.items():
        data[kind].num_nodes = count
    return data
