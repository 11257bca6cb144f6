"""`from_data`: a PyG graph becomes a dataset folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch_geometric.data
from torch_geometric.data import Data, HeteroData

from graphzero.api import build
from graphzero.pyg.description import DescribedGraph, describe
from graphzero.pyg.processed import open_graph_file
from graphzero.pyg.stored_data import StoredData, stored_data
from graphzero.pyg.stored_hetero_data import StoredHeteroData, stored_hetero_data

__all__ = ["from_data"]


def _one_graph(data: Any) -> Data | HeteroData:
    """The graph, also if it is in a file, or the only one of a PyG dataset."""
    if isinstance(data, str | os.PathLike):
        return open_graph_file(data)
    if isinstance(data, torch_geometric.data.Dataset):
        if len(data) != 1:
            raise ValueError(
                f"{data!r} holds {len(data):,} graphs, and a dataset folder holds one: choose it, "
                f"as in from_data(dataset[0], path); for training on many small graphs, in memory "
                f"or in an OnDiskDataset, use PyG's DataLoader"
            )
        data = data[0]
    if isinstance(data, tuple):
        raise TypeError(
            "from_data takes no (FeatureStore, GraphStore): save each tensor to a .npy file, and "
            "give the files to graphzero.build, which does not load them"
        )
    if not isinstance(data, Data | HeteroData):
        raise TypeError(
            f"from_data takes a torch_geometric.data.Data or HeteroData, a PyG dataset of one "
            f"graph, or the path of its file, not {type(data).__name__}"
        )
    return data


def _refuse(options: dict[str, Any]) -> None:
    taken = {
        "directed": "PyG's edge_index has both directions of an undirected graph already",
        "coalesce": "call data.coalesce() before, or torch_geometric.utils.coalesce",
        "drop_self_loops": "use torch_geometric.utils.remove_self_loops before",
        "reverse": "use data.edge_index.flip(0) before",
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
    weight_attrs: str | Sequence[str] | None = None,
    time_attrs: str | Sequence[str] | None = None,
    edge_ids: bool = True,
    **options: Any,
) -> StoredData | StoredHeteroData:
    """Writes a PyG graph to a dataset folder, and opens it.

    Every call builds the folder anew, in one step: a second run of a script never gets the graph
    of the first by mistake, and an interrupted one leaves the earlier dataset. If the build takes
    long, or the graph should not be in memory while you train, call this in a script of its own,
    and `graphzero.open` in the one that trains.

    Attributes with a row for each node or edge are stored, under their names. Masks and ids named
    train, val, valid and test (``train_mask``, ``train_idx``) become the splits. The rest (numbers,
    texts) stays in memory: the result and every batch have it, the folder does not. Seed edges
    (``edge_label_index``, ``edge_label``) are in the result, for `LinkNeighborLoader`.

    Parameters
    ----------
    data : Data, HeteroData, a PyG dataset of one graph, or path-like
        Its edges are stored as they are, each in the one direction that it has. A path is that of
        a file with one graph, such as ``processed/data.pt`` of an `InMemoryDataset`, or of
        ``torch.save(data, path)``. Its tensors are mapped and not loaded, so that a graph larger
        than memory can be stored; no code in the file is executed.
    path : path-like
        Folder of the dataset; created if it does not exist.
    weight_attrs : str or list of str, optional
        Edge attributes that neighbours can be drawn by: ``weight_attr=`` of a loader. They are
        stored as float32. Default: ``edge_weight``, if it is float32 and not negative.
    time_attrs : str or list of str, optional
        Attributes of edges or nodes that hold times for temporal sampling: ``time_attr=`` of a
        loader. Default: ``edge_time`` or ``time`` of the edges, else ``time`` of the nodes, if
        they are integers and not negative. Those of edges are stored as int64.
    edge_ids : bool
        Whether to store the position of each edge in ``edge_index``, which batches have as
        ``e_id``, as PyG's do.
    **options
        Of `graphzero.build`: ``order``, ``feature_dtype``, ``memory_limit``, ``progress``,
        ``neighbors`` ("in", as in PyG).

    Returns
    -------
    StoredData or StoredHeteroData

    Raises
    ------
    ValueError
        If an attribute cannot be stored, an edge names a node that does not exist, the PyG dataset
        or the file has several graphs, or the file has objects of other classes.
    TypeError
        If `data` is not a PyG graph.
    """
    _refuse(options)
    graph = describe(_one_graph(data))
    arguments = _arguments(graph, weight_attrs, time_attrs)
    dataset = build(path, directed=True, edge_ids=edge_ids, **arguments, **options)
    return (
        stored_data(dataset, graph) if None in graph.nodes else stored_hetero_data(dataset, graph)
    )


def _can_drive(values: Any, dtypes: str) -> bool:
    return values.ndim == 1 and values.dtype.kind in dtypes and not (values < 0).any()


def _default_weights(graph: DescribedGraph) -> list[str]:
    """``edge_weight``, where weights are stored as they are: others become float32 if named."""
    found = [e.stored["edge_weight"] for e in graph.edges.values() if "edge_weight" in e.stored]
    driving = all(one.dtype == np.float32 and _can_drive(one, "f") for one in found)
    return ["edge_weight"] if found and driving else []


def _default_times(graph: DescribedGraph) -> list[str]:
    """``edge_time`` or ``time`` of the edges, else ``time`` of the nodes, if all are integers."""
    for parts, names in ((graph.edges, ("edge_time", "time")), (graph.nodes, ("time",))):
        for name in names:
            found = [one.stored[name] for one in parts.values() if name in one.stored]
            if found and all(_can_drive(values, "iu") for values in found):
                return [name]
    return []


def _arguments(
    graph: DescribedGraph,
    weight_attrs: str | Sequence[str] | None,
    time_attrs: str | Sequence[str] | None,
) -> dict[str, Any]:
    """Arguments of `build`."""
    weights = _default_weights(graph) if weight_attrs is None else weight_attrs
    times = _default_times(graph) if time_attrs is None else time_attrs
    driving = {"weight_attrs": weights, "time_attrs": times}
    edges = {
        kind: {"edge_index": described.edge_index, **described.stored}
        for kind, described in graph.edges.items()
    }
    if None in graph.nodes:
        nodes = graph.nodes[None]
        of_nodes = {"nodes": nodes.stored, "num_nodes": nodes.count, "splits": nodes.splits}
        return {"edges": edges[None], **of_nodes, **driving}
    by_type = {
        kind: {"num_nodes": described.count, **described.stored}
        for kind, described in graph.nodes.items()
    }
    splits: dict[str, dict[Any, Any]] = {}
    for kind, described in graph.nodes.items():
        for split, ids in described.splits.items():
            splits.setdefault(split, {})[kind] = ids
    return {"nodes": by_type, "edges": edges, "splits": splits, **driving}
