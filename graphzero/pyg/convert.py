"""`from_data`: a PyG graph becomes a dataset folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch_geometric.data
from torch_geometric.data import Data, HeteroData

from graphzero.api import build
from graphzero.pyg.description import Described, DescribedGraph, describe
from graphzero.pyg.stored_data import StoredData, stored_data

__all__ = ["from_data"]


def _one_graph(data: Any) -> Data | HeteroData:
    """The graph, also if it is the only one of a PyG dataset."""
    if isinstance(data, torch_geometric.data.Dataset):
        if len(data) != 1:
            raise ValueError(
                f"{data!r} holds {len(data):,} graphs, and a dataset folder holds one: choose it, "
                f"as in from_data(dataset[0], path); for training on many small graphs, use PyG's "
                f"DataLoader"
            )
        data = data[0]
    if not isinstance(data, Data | HeteroData):
        raise TypeError(
            f"from_data takes a torch_geometric.data.Data or HeteroData, or a PyG dataset of one "
            f"graph, not {type(data).__name__}"
        )
    return data


def _refuse(options: dict[str, Any]) -> None:
    taken = {
        "directed": "PyG's edge_index has both directions of an undirected graph already",
        "edges": "they are those of the graph",
        "nodes": "they are those of the graph",
        "features": "they are x of the graph",
        "labels": "they are y of the graph",
    }
    for name, why in taken.items():
        if name in options:
            raise TypeError(f"from_data has no {name}=: {why}")


def from_data(
    data: Any,
    path: str | os.PathLike[str],
    *,
    weight_attrs: Sequence[str] | None = None,
    time_attrs: Sequence[str] = (),
    edge_ids: bool = True,
    **options: Any,
) -> StoredData:
    """Writes a PyG graph to a dataset folder, and opens it.

    Every call builds the folder anew, in one step: a second run of a script never gets the graph
    of the first by mistake, and an interrupted one leaves the earlier dataset. If the build takes
    long, or the graph should not be in memory while you train, call this in a script of its own,
    and `graphzero.open` in the one that trains.

    Attributes with a row for each node or edge are stored. Masks and ids named train, val, valid
    and test (``train_mask``, ``train_idx``) become the splits. The rest (``edge_label_index``,
    numbers, texts) stays in memory: the result and every batch have it, the folder does not.

    Parameters
    ----------
    data : Data, HeteroData, or a PyG dataset of one graph
        Its edges are stored as they are, each in the one direction that it has.
    path : path-like
        Folder of the dataset; created if it does not exist.
    weight_attrs : sequence of str, optional
        Edge attributes that neighbours can be drawn by: ``weight_attr=`` of a loader. Default:
        ``edge_weight``, if no weight is negative.
    time_attrs : sequence of str
        Attributes of nodes or edges that hold times for temporal sampling: ``time_attr=`` of a
        loader.
    edge_ids : bool
        Whether to store the position of each edge in ``edge_index``, which batches have as
        ``e_id``, as PyG's do.
    **options
        Of `graphzero.build`: ``order``, ``feature_dtype``, ``memory_limit``, ``progress``,
        ``neighbors`` ("in", as in PyG).

    Returns
    -------
    StoredData

    Raises
    ------
    ValueError
        If an attribute cannot be stored, an edge names a node that does not exist, or the PyG
        dataset has several graphs.
    TypeError
        If `data` is not a PyG graph.
    """
    _refuse(options)
    graph = describe(_one_graph(data))
    if list(graph.nodes) != [None]:
        raise NotImplementedError("typed graphs cannot be stored yet")
    nodes, edges = graph.nodes[None], graph.edges[None]
    dataset = build(
        path,
        edges.edge_index,
        **_tables(graph, weight_attrs, time_attrs),
        splits=_without_empty(nodes),
        num_nodes=nodes.count,
        directed=True,
        edge_ids=edge_ids,
        **options,
    )
    return stored_data(dataset, graph)


def _without_empty(nodes: Described) -> dict[str, Any]:
    return dict(nodes.splits)


def _tables(
    graph: DescribedGraph, weight_attrs: Sequence[str] | None, time_attrs: Sequence[str]
) -> dict[str, Any]:
    """Arguments of `build`; an error that names what cannot be stored."""
    nodes, edges = graph.nodes[None], graph.edges[None]
    if weight_attrs is None:
        weights = edges.stored.get("edge_weight")
        usable = weights is not None and weights.ndim == 1 and not (weights < 0).any()
        weight_attrs = ("edge_weight",) if usable else ()
    arguments: dict[str, Any] = {}
    left = {**nodes.stored, **edges.stored}
    for argument, name in (
        ("features", "x" if "x" in nodes.stored else None),
        ("labels", "y" if "y" in nodes.stored else None),
        ("weight", next(iter(weight_attrs), None)),
        ("timestamp", next(iter(time_attrs), None)),
    ):
        if name is not None:
            if name not in left:
                raise ValueError(f"the graph has no {name!r} with a row for each node or edge")
            arguments[argument] = left.pop(name)
    if left:
        raise NotImplementedError(f"attributes that cannot be stored yet: {', '.join(left)}")
    return arguments
