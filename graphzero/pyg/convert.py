"""`from_data`: a PyG graph becomes a dataset folder."""

from __future__ import annotations

import inspect
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
    time_attrs: Sequence[str] | None = None,
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
        ``edge_weight``, if none is negative.
    time_attrs : sequence of str, optional
        Attributes of nodes or edges that hold times for temporal sampling: ``time_attr=`` of a
        loader. Default: ``edge_time`` or ``time``, if the edges have it as integers.
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
    arguments = _arguments(graph, weight_attrs, time_attrs)
    dataset = build(path, directed=True, edge_ids=edge_ids, **arguments, **options)
    result: StoredData = stored_data(dataset, graph)
    return result


def _can_drive(values: Any, kinds: str) -> bool:
    return values.ndim == 1 and values.dtype.kind in kinds and not (values < 0).any()


def _driving(graph: DescribedGraph, names: Sequence[str], kinds: str) -> list[str]:
    """The first of some names that edges have, if it can drive sampling wherever they have it."""
    for name in names:
        found = [edges.stored[name] for edges in graph.edges.values() if name in edges.stored]
        if found and all(_can_drive(values, kinds) for values in found):
            return [name]
    return []


def _arguments(
    graph: DescribedGraph, weight_attrs: Sequence[str] | None, time_attrs: Sequence[str] | None
) -> dict[str, Any]:
    """Arguments of `build`."""
    if weight_attrs is None:
        weight_attrs = _driving(graph, ["edge_weight"], "iuf")
    if time_attrs is None:
        time_attrs = _driving(graph, ["edge_time", "time"], "iu")
    driving = {"weight_attrs": list(weight_attrs), "time_attrs": list(time_attrs)}
    parts = [*graph.nodes.values(), *graph.edges.values()]
    for name in (*weight_attrs, *time_attrs):
        if not any(name in part.stored for part in parts):
            raise ValueError(f"the graph has no {name!r} with a row for each node or edge")
    if None in graph.nodes:
        return _arguments_without_types(graph.nodes[None], graph.edges[None], driving)
    nodes: dict[Any, Any] = {}
    splits: dict[str, dict[Any, Any]] = {}
    for kind, described in graph.nodes.items():
        nodes[kind] = {"num_nodes": described.count, **described.stored}
        for split, ids in described.splits.items():
            splits.setdefault(split, {})[kind] = ids
    edges = {
        kind: {"edge_index": described.edge_index, **described.stored}
        for kind, described in graph.edges.items()
    }
    return {"nodes": nodes, "edges": edges, "splits": splits, **driving}


def _arguments_without_types(
    nodes: Described, edges: Described, driving: dict[str, list[str]]
) -> dict[str, Any]:
    common = {"splits": nodes.splits, "num_nodes": nodes.count}
    if "nodes" in inspect.signature(build).parameters:
        attributes = {"edge_index": edges.edge_index, **edges.stored}
        return {"nodes": nodes.stored, "edges": attributes, **common, **driving}
    left = {**nodes.stored, **edges.stored}
    weight, time = (next(iter(names), "") for names in driving.values())
    named = {"features": "x", "labels": "y", "weight": weight, "timestamp": time}
    found = {argument: left.pop(name) for argument, name in named.items() if name in left}
    if left:
        raise NotImplementedError(f"attributes that cannot be stored yet: {', '.join(left)}")
    return {"edges": edges.edge_index, **common, **found}
