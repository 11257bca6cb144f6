"""What a PyG graph consists of, as plain arrays: what is stored, and what stays in memory."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import to_edge_index

from graphzero.store.format import BFLOAT16

__all__ = ["OF_SEED_EDGES", "Described", "DescribedGraph", "describe"]

Array = npt.NDArray[Any]
EdgeType = tuple[str, str, str]

_SPLITS = {"train": "train", "val": "val", "valid": "val", "test": "test"}
_SPLIT_NAMES = {
    f"{name}_{kind}": split for name, split in _SPLITS.items() for kind in ("mask", "idx", "index")
}
# Of the edges themselves; everything else of theirs is an attribute.
_TOPOLOGY = ("edge_index", "adj_t")
# Seed edges of LinkNeighborLoader and their labels, also where there are as many as edges.
OF_SEED_EDGES = re.compile(r"(\w+_)?edge_(index|label|label_index|label_time)")
# Numbers that scripts give to nodes and edges, and that batches have by themselves.
_IN_BATCHES = {"n_id": "nodes", "input_id": "nodes", "e_id": "edges"}


@dataclass
class Described:
    """The nodes of one type, or the edges of one.

    Attributes
    ----------
    count : int
        Number of nodes or edges.
    stored : dict
        Arrays with a row for each, by name.
    booleans : set of str
        Which of these are booleans, whose files have uint8.
    kept : dict
        What has no row for each: it stays in memory, as it was given.
    splits : dict
        Node ids, or a mask of them, by name of the split.
    masks : dict
        Masks and ids of splits by the names that they were given.
    edge_index : (2, count) integers, optional
        Sources and targets of edges.
    """

    count: int
    stored: dict[str, Array] = field(default_factory=dict)
    booleans: set[str] = field(default_factory=set)
    kept: dict[str, Any] = field(default_factory=dict)
    splits: dict[str, Array] = field(default_factory=dict)
    masks: dict[str, Tensor] = field(default_factory=dict)
    edge_index: Array | None = None


@dataclass
class DescribedGraph:
    """A whole graph: its node types, its edge types, and what belongs to neither.

    A graph without types has one of each, under the names None.
    """

    nodes: dict[str | None, Described]
    edges: dict[EdgeType | None, Described]
    kept: dict[str, Any]


def as_array(value: Any, name: str) -> Array:
    """The numbers of a tensor or array, not copied where they are in the processor's memory.

    Raises
    ------
    ValueError
        If it is neither, or a sparse tensor.
    """
    if isinstance(value, Tensor):
        if value.layout != torch.strided:
            raise ValueError(
                f"{name} is a sparse tensor, which cannot be stored: give {name}.to_dense(), or "
                f"remove it from the graph"
            )
        value = value.detach().as_subclass(Tensor).cpu().contiguous()
        if value.dtype == torch.bfloat16:
            array: Array = value.view(torch.int16).numpy().view(BFLOAT16)
            return array
        return np.asarray(value.numpy())
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value
    what = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    raise ValueError(
        f"{name} has an entry for each node or edge, but is {what}, which cannot be stored: make "
        f"it a tensor of numbers, or remove it from the graph"
    )


def _edges_of(store: Mapping[str, Any], where: str) -> tuple[Array, Array | None]:
    """Sources and targets, and the values of a sparse matrix, which are weights or attributes."""
    if store.get("edge_index") is not None:
        edge_index = store["edge_index"]
        if isinstance(edge_index, Tensor) and edge_index.layout != torch.strided:
            raise ValueError(f"{where}edge_index is a sparse tensor: give its (2, E) form")
        edges = as_array(edge_index, f"{where}edge_index")
        if edges.ndim != 2 or edges.shape[0] != 2:
            raise ValueError(f"{where}edge_index must have shape (2, E), not {edges.shape}")
        return edges, None
    adjacency = store.get("adj_t")
    if adjacency is None:
        raise ValueError(f"{where}the graph has no edge_index")
    transposed, value = to_edge_index(adjacency)
    edges = as_array(transposed.flip(0), f"{where}adj_t")
    return edges, None if value is None else as_array(value, f"{where}adj_t")


def _row_for_each(value: Any, name: str, axis: Any, where: str) -> Array:
    array = as_array(value, f"{where}{name}")
    if axis % array.ndim != 0:
        raise ValueError(
            f"{where}{name} has shape {array.shape} with an entry for each node or edge along its "
            f"last axis: transpose it and give it another name than one with 'index' or 'face'"
        )
    return array


def _add_split(nodes: Described, name: str, value: Any, where: str) -> bool:
    """Takes a mask or ids of a split; False where the name or the shape is not that of one."""
    if name not in _SPLIT_NAMES or not isinstance(value, Tensor | np.ndarray):
        return False
    tensor = torch.as_tensor(value)
    nodes.masks[name] = tensor
    array = as_array(tensor, f"{where}{name}")
    is_mask = array.dtype == np.bool_ and array.shape == (nodes.count,)
    if is_mask or (array.ndim == 1 and array.dtype.kind in "iu" and not name.endswith("_mask")):
        nodes.splits[_SPLIT_NAMES[name]] = array
    else:
        warnings.warn(
            f"{where}{name} of shape {array.shape} is not stored as a split, which is a mask of "
            f"{nodes.count:,} nodes or their ids; the result of from_data has it in memory",
            UserWarning,
            stacklevel=5,
        )
    return True


def _is_numbering(value: Any, name: str, what: str, count: int, where: str) -> bool:
    """Whether an attribute is the numbers 0 to count - 1, which batches have under its name.

    Raises
    ------
    ValueError
        If it is something else, which would hide what batches have.
    """
    if _IN_BATCHES.get(name) != what:
        return False
    if not np.array_equal(as_array(value, f"{where}{name}"), np.arange(count)):
        raise ValueError(
            f"{where}{name}: a batch has numbers of its {what} under this name, which are others: "
            f"give the attribute another name, such as 'own_{name}'"
        )
    warnings.warn(
        f"{where}{name} is left out: it counts the {what} from 0, and batches have a {name} anyway",
        UserWarning,
        stacklevel=6,
    )
    return True


def _add(part: Described, store: Any, name: str, is_row: bool, where: str) -> None:
    value = store[name]
    what = "nodes" if part.edge_index is None else "edges"
    if OF_SEED_EDGES.fullmatch(name):
        if value is not None:
            part.kept[name] = value
    elif is_row and _is_numbering(value, name, what, part.count, where):
        pass
    elif is_row:
        axis = store._parent().__cat_dim__(name, value, store) if hasattr(store, "_parent") else 0
        part.stored[name] = _row_for_each(value, name, axis, where)
        if part.stored[name].dtype == np.bool_:
            part.booleans.add(name)
    elif name in ("x", "y", "edge_attr", "edge_weight") and value is not None:
        shape = tuple(getattr(value, "shape", ()))
        raise ValueError(
            f"{where}{name} of shape {shape} has not one row for each of the {part.count:,} {what}"
        )
    elif value is not None:
        part.kept[name] = value


def _described_edges(store: Any, where: str) -> Described:
    edges, value = _edges_of(store, where)
    described = Described(edges.shape[1], edge_index=edges)
    if value is not None:
        described.stored["edge_weight" if value.ndim == 1 else "edge_attr"] = value
    return described


def _describe_data(data: Data) -> DescribedGraph:
    store = data._store
    if data.num_nodes is None:
        raise ValueError("the graph has no num_nodes: set data.num_nodes")
    nodes, edges = Described(int(data.num_nodes)), _described_edges(store, "")
    for name in list(store.keys()):
        if name in (*_TOPOLOGY, "num_nodes") or _add_split(nodes, name, store[name], ""):
            continue
        part = edges if name.startswith("edge_") else nodes
        is_edge = store.is_edge_attr(name)
        part = edges if is_edge else part
        _add(part, store, name, is_edge or store.is_node_attr(name), "")
    kept = {**nodes.kept, **edges.kept}
    nodes.kept, edges.kept = {}, {}
    return DescribedGraph({None: nodes}, {None: edges}, kept)


def _describe_hetero(data: HeteroData) -> DescribedGraph:
    graph = DescribedGraph({}, {}, dict(data._global_store.items()))
    if not data.edge_types:
        raise ValueError("the graph has no edges: set edge_index of an edge type")
    for store in data.node_stores:
        where = f"{store._key}: "
        if store.num_nodes is None:
            raise ValueError(f"{where}no number of nodes: set data[{store._key!r}].num_nodes")
        nodes = graph.nodes[store._key] = Described(int(store.num_nodes))
        for name in list(store.keys()):
            if name != "num_nodes" and not _add_split(nodes, name, store[name], where):
                _add(nodes, store, name, store.is_node_attr(name), where)
    for store in data.edge_stores:
        where = f"{store._key}: "
        for name in (store._key[0], store._key[2]):
            if name not in graph.nodes:
                raise ValueError(
                    f"{where}there are no nodes of type {name!r}: set data[{name!r}].num_nodes"
                )
        edges = graph.edges[store._key] = _described_edges(store, where)
        for name in list(store.keys()):
            if name not in _TOPOLOGY:
                _add(edges, store, name, store.is_edge_attr(name), where)
    return graph


def describe(data: Data | HeteroData) -> DescribedGraph:
    """The parts of a PyG graph.

    Raises
    ------
    ValueError
        If a part of it cannot be stored; the message names it.
    """
    return _describe_hetero(data) if isinstance(data, HeteroData) else _describe_data(data)
