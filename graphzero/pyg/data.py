"""PyG's own types, for code that is written against them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

try:
    from torch_geometric.data import Data, HeteroData
except ImportError as error:
    raise ImportError("to_pyg needs torch_geometric: pip install torch-geometric") from error


def make_data(num_nodes: int, fields: Mapping[str, object]) -> Data:
    """A ``torch_geometric.data.Data`` with some attributes."""
    return Data(**fields, num_nodes=num_nodes)


def make_hetero_data(
    num_nodes: Mapping[str, int], fields: Mapping[Any, Mapping[str, object]]
) -> HeteroData:
    """A ``torch_geometric.data.HeteroData`` with some attributes of each type."""
    data = HeteroData()
    for key, attributes in fields.items():
        data[key].update(attributes)
    for kind, count in num_nodes.items():
        data[kind].num_nodes = count
    return data
