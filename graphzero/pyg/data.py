"""PyG's own types, for code that is written against them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def make_data(num_nodes: int, fields: Mapping[str, Any]) -> Any:
    """A ``torch_geometric.data.Data`` with some attributes.

    Raises
    ------
    ImportError
        If torch_geometric is not installed.
    """
    data = _class_of_pyg("Data")(**fields)
    data.num_nodes = num_nodes
    return data


def make_hetero_data(num_nodes: Mapping[str, int], fields: Mapping[Any, Mapping[str, Any]]) -> Any:
    """A ``torch_geometric.data.HeteroData`` with some attributes of each type.

    Raises
    ------
    ImportError
        If torch_geometric is not installed.
    """
    data = _class_of_pyg("HeteroData")()
    for key, attributes in fields.items():
        data[key].update(attributes)
    for kind, count in num_nodes.items():
        data[kind].num_nodes = count
    return data


def _class_of_pyg(name: str) -> Any:
    try:
        import torch_geometric.data as of_pyg
    except ImportError as error:
        raise ImportError("to_pyg needs torch_geometric: pip install torch-geometric") from error
    return getattr(of_pyg, name)
