"""PyG's own types, for code that is written against them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

try:
    from torch_geometric.data import Data, HeteroData
    from torch_geometric.data.storage import BaseStorage
except ImportError as error:
    raise ImportError("to_pyg needs torch_geometric: pip install torch-geometric") from error


def make_data(num_nodes: int, fields: Mapping[str, object]) -> Data:
    """A ``torch_geometric.data.Data`` with some attributes."""
    data = Data()
    _fill(data._store, fields)
    data._store._mapping["num_nodes"] = num_nodes
    return data


def make_hetero_data(
    num_nodes: Mapping[str, int], fields: Mapping[Any, Mapping[str, object]]
) -> HeteroData:
    """A ``torch_geometric.data.HeteroData`` with some attributes of each type."""
    data = HeteroData()
    for key, attributes in fields.items():
        _fill(data[key], attributes)
    for kind, count in num_nodes.items():
        data[kind]._mapping["num_nodes"] = count
    return data


def _fill(store: BaseStorage, fields: Mapping[str, object]) -> None:
    """Sets attributes of a new store: one by one they take ten times as long."""
    store._mapping.update(fields)
