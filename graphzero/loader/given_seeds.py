"""Checks and conversions of the seeds that users give to the ready-made loaders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.graph.dataset import Dataset, Splits
from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray
from graphzero.graph.typed_dataset import TypedDataset
from graphzero.loader.driving import driving_attribute, own_times
from graphzero.loader.given import as_array
from graphzero.loader.neighborhoods import as_seed_ids
from graphzero.store.schema import EdgeType

__all__ = [
    "SeedNodes",
    "as_seed_edges",
    "as_seed_nodes",
    "edge_labels",
    "node_labels",
    "seed_times",
]


@dataclass(frozen=True)
class SeedNodes:
    """Seed nodes as `NeighborDataset` takes them.

    Attributes
    ----------
    node_type : str or None
    nodes : (n,) integers, (num_nodes,) bool, or None
    is_mask : bool
        Whether they were given as a mask, whose ``input_id`` are the ids of the nodes.
    """

    node_type: str | None
    nodes: npt.NDArray[Any] | None
    is_mask: bool = False

    @property
    def given(self) -> Any:
        """The first argument of `NeighborDataset`."""
        return self.nodes if self.node_type is None else (self.node_type, self.nodes)


def as_seed_nodes(input_nodes: Any, dataset: Dataset) -> SeedNodes:
    """The seed nodes: all, a split, ids or a mask; in a typed graph those of one type.

    Raises
    ------
    ValueError
        If a name is none of a split or node type; names those that exist.
    TypeError
        If a node type is named, and the dataset has none.
    """
    if isinstance(dataset, TypedDataset):
        return _typed_nodes(input_nodes, dataset)
    if isinstance(input_nodes, (tuple, list)) and input_nodes and isinstance(input_nodes[0], str):
        raise TypeError(
            f"input_nodes={input_nodes[0]!r}, ... names a node type, and the dataset has none: "
            f"give the ids alone"
        )
    return _nodes_of(None, input_nodes, dataset.splits, "the dataset")


def _nodes_of(node_type: str | None, nodes: Any, splits: Splits, owner: str) -> SeedNodes:
    if nodes is None:
        return SeedNodes(node_type, None)
    if isinstance(nodes, str):
        if nodes not in splits:
            raise ValueError(
                f"input_nodes={nodes!r} is no split of {owner}: there are {sorted(splits)}"
            )
        return SeedNodes(node_type, splits[nodes])
    array = as_array(nodes)
    return SeedNodes(node_type, array, array.dtype == np.bool_)


def _typed_nodes(input_nodes: Any, dataset: TypedDataset) -> SeedNodes:
    if isinstance(input_nodes, (tuple, list)) and len(input_nodes) == 2:
        kind, nodes = input_nodes
        if isinstance(kind, str) and kind in dataset.nodes:
            return _nodes_of(kind, nodes, dataset.nodes[kind].splits, f"the node type {kind!r}")
    if isinstance(input_nodes, str):
        if input_nodes in dataset.nodes:
            return SeedNodes(input_nodes, None)
        having = [kind for kind, nodes in dataset.nodes.items() if input_nodes in nodes.splits]
        if len(having) == 1:
            return SeedNodes(having[0], dataset.nodes[having[0]].splits[input_nodes])
        if having:
            raise ValueError(
                f"input_nodes={input_nodes!r} is a split of several node types: give one of "
                f"{[(kind, input_nodes) for kind in having]}"
            )
    splits = {kind: sorted(nodes.splits) for kind, nodes in dataset.nodes.items() if nodes.splits}
    named = f", not {input_nodes!r}" if isinstance(input_nodes, str) else ""
    raise ValueError(
        f"input_nodes of a typed graph are of one node type: give (node type, ids or mask or the "
        f"name of a split), or the type alone for all of its nodes{named}; the node types are "
        f"{dataset.node_types}, their splits {splits}"
    )


def seed_times(
    dataset: Dataset, seeds: SeedNodes, time_attr: str | None, input_time: Any
) -> npt.NDArray[Any] | None:
    """The times of seed nodes: as given, or with `time_attr` their own; None if they have none.

    Raises
    ------
    ValueError
        If `time_attr` does not drive the sampling; if seeds have no times of their own.
    """
    name = driving_attribute(dataset, "time_attr", time_attr)
    if input_time is not None:
        return as_array(input_time)
    if name is None:
        return None
    kind, nodes = seeds.node_type, dataset.num_nodes
    if kind is not None and isinstance(dataset, TypedDataset):
        nodes = dataset.nodes[kind].num_nodes
    return own_times(dataset, name, kind, as_seed_ids(seeds.nodes, nodes))


def as_seed_edges(edge_label_index: Any, dataset: Dataset) -> Any:
    """The seed edges as `LinkNeighborDataset` takes them: (2, n), or (edge type, these).

    All edges come in the order of the edge list if it is known.

    Raises
    ------
    TypeError
        If an edge type is named, and the dataset has none.
    ValueError
        If there is no such split.
    """
    if isinstance(dataset, TypedDataset):
        return _typed_edges(edge_label_index, dataset)
    if edge_label_index is None:
        return _all_edges(dataset.graph)[0]
    if isinstance(edge_label_index, str):
        positions = _edge_split(edge_label_index, dataset.edge_splits, "the dataset")
        return _at_positions(*_all_edges(dataset.graph), positions)
    if isinstance(edge_label_index, (tuple, list)) and edge_label_index:
        first = edge_label_index[0]
        if isinstance(first, str) or (isinstance(first, tuple) and isinstance([*first, 0][0], str)):
            raise TypeError(
                f"edge_label_index names the edge type {first!r}, and the dataset has none: give "
                f"the (2, n) edges alone, or None for all"
            )
    return _as_edges(edge_label_index)


def _as_edges(edges: Any) -> npt.NDArray[Any]:
    if isinstance(edges, (tuple, list)):
        return np.stack([as_array(ends) for ends in edges])
    return as_array(edges)


def _typed_edges(given: Any, dataset: TypedDataset) -> Any:
    if isinstance(given, (tuple, list)) and len(given) == 2:
        name, edges = given
        kind = _edge_type(name, dataset)
        if isinstance(edges, str) and kind is not None:
            store = dataset.edges[kind]
            positions = _edge_split(edges, store.splits, f"the edge type {kind}")
            return kind, store.edges_at(positions)
        if not isinstance(edges, str):
            return (kind or name), None if edges is None else _as_edges(edges)
    return _edge_type(given, dataset) or given  # which the dataset refuses


def _edge_type(given: Any, dataset: TypedDataset) -> EdgeType | None:
    """The edge type that a name stands for, as the dataset takes names; None if it is none."""
    is_name = isinstance(given, str) or (
        isinstance(given, (tuple, list)) and all(isinstance(part, str) for part in given)
    )
    try:
        return dataset.edge_type_of(given) if is_name else None
    except KeyError:
        return None


def _edge_split(name: str, splits: Splits, owner: str) -> IdArray:
    if name not in splits:
        raise ValueError(
            f"edge_label_index={name!r} is no split of the edges of {owner}: there are "
            f"{sorted(splits)}"
        )
    return splits[name]


def _all_edges(graph: Graph) -> tuple[IdArray, IdArray | None]:
    """Sources and destinations, and positions in the edge list, by which they are sorted."""
    num_edges = graph.num_edges
    _core.require_memory(num_edges, 8 * 8, "seed edges")  # with what is made on the way
    lists = graph.sample_neighbors(np.arange(graph.num_nodes), -1)
    owners = np.repeat(np.arange(graph.num_nodes), np.diff(lists.indptr))
    out = graph.is_directed and not graph.is_incoming
    edges = np.stack([owners, lists.indices] if out else [lists.indices, owners])
    if lists.e_id is None:
        return edges, None
    order = np.argsort(lists.e_id, kind="stable")
    return edges[:, order], lists.e_id[order]


def _at_positions(edges: IdArray, e_id: IdArray | None, positions: IdArray) -> IdArray:
    """The edges at positions in the edge list; of an undirected edge, one of both directions."""
    if e_id is None:
        raise ValueError(
            "the graph file does not store the positions of its edges: build the dataset with "
            "edge_ids=True, or give the edges"
        )
    found: IdArray = edges[:, np.searchsorted(e_id, positions)]
    return found


def node_labels(dataset: Dataset, node_type: str | None, seeds: IdArray) -> npt.NDArray[Any]:
    """The labels of seeds.

    Raises
    ------
    ValueError
        If they have none.
    """
    if isinstance(dataset, TypedDataset):
        labels = dataset[node_type].get("y")
        owner = f"nodes of the type {node_type!r} have"
    else:
        labels, owner = dataset.labels, "the dataset has"
    if labels is None:
        raise ValueError(f"seed_weights='balanced' needs labels, and {owner} none")
    found: npt.NDArray[Any] = labels.gather(seeds)
    return found


def edge_labels(edge_label: Any) -> npt.NDArray[Any]:
    """The labels of seed edges, as given."""
    if edge_label is None:
        raise ValueError("seed_weights='balanced' needs edge_label: give it, or the weights")
    return as_array(edge_label)
