"""`from_data`: a PyG graph becomes a dataset folder."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
import torch_geometric.data
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import BaseStorage
from torch_geometric.utils import to_edge_index

from graphzero import api
from graphzero.errors import warn_user
from graphzero.graph.dataset import Dataset
from graphzero.ingest.options import BuildOptions
from graphzero.ingest.sources.torch_file import array_of_tensor, is_sparse_tensor
from graphzero.pyg.facade import is_seed_edges
from graphzero.store.manifest import EDGES, NODES, EdgeType

Array = npt.NDArray[Any]
# What has no row for each node or edge, by name: of a type, or of the whole graph (None).
Kept: TypeAlias = dict[str | EdgeType | None, dict[str, object]]

_SPLITS = {"train": "train", "val": "val", "valid": "val", "test": "test"}
_SPLIT_NAMES = {
    f"{name}_{kind}": split for name, split in _SPLITS.items() for kind in ("mask", "idx", "index")
}
# Of the edges themselves; everything else of theirs is an attribute.
_TOPOLOGY = ("edge_index", "adj_t", "num_nodes")
# Numbers that scripts give to nodes and edges, and that batches have by themselves.
_IN_BATCHES = {"n_id": "nodes", "input_id": "nodes", "e_id": "edges"}
# Options of `build` that the graph itself says, and how to change it.
_INSTEAD = {
    "directed": "PyG's edge_index has both directions of an undirected graph already",
    "coalesce": "set data = data.coalesce() before, or call torch_geometric.utils.coalesce",
    "drop_self_loops": "use torch_geometric.utils.remove_self_loops before",
    "reverse": "set data.edge_index = data.edge_index.flip(0) before",
    "weight": "set data.edge_weight before, or name an edge attribute in weight_attrs=",
    "timestamp": "set data.edge_time before, or name an attribute in time_attrs=",
}


def from_data(
    data: object,
    path: str | os.PathLike[str],
    *,
    weight_attrs: str | Sequence[str] | None = None,
    time_attrs: str | Sequence[str] | None = None,
    edge_ids: bool = True,
    **options: Any,
) -> Dataset:
    """Writes a PyG graph to a dataset folder, and opens it.

    Every call builds the folder anew, in one step: a second run of a script never gets the graph
    of the first by mistake, and an interrupted one leaves the earlier dataset. Of several ranks
    that call this, one builds, and the others wait, as in `graphzero.build`. If the build takes
    long, or the graph should not be in memory while you train, call this in a script of its own,
    and `graphzero.open` in the one that trains.

    Attributes with a row for each node or edge are stored, under their names. Masks and ids named
    train, val, valid and test (``train_mask``, ``train_idx``) become the splits. The rest (numbers,
    texts) is stored, too, and every batch has it; what is of other classes stays in memory, and a
    warning names it. Seed edges (``edge_label_index``, ``edge_label``) are in the result, for
    `LinkNeighborLoader`. `graphzero.open` has the same names as the result.

    Parameters
    ----------
    data : Data, HeteroData, or a PyG dataset of one graph
        Its edges are stored as they are, each in the one direction that it has. A graph in a file
        that is larger than memory is ``torch.load(file, weights_only=False, mmap=True)``.
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
        Of `graphzero.build`: ``order``, ``presample``, ``feature_dtype``, ``memory_limit``,
        ``progress``, ``neighbors`` ("in", as in PyG).

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If an attribute cannot be stored, an edge names a node that does not exist, or the PyG
        dataset has several graphs.
    TypeError
        If `data` is not a PyG graph, but a path for example; says how to read it.
    """
    for name in options.keys() - api.GRAPH_OPTIONS:
        reason = _INSTEAD.get(name, f"there are {sorted(api.GRAPH_OPTIONS)}")
        raise TypeError(f"from_data has no {name}=: {reason}")
    graph = _contents_of(_one_graph(data))
    of_nodes, of_edges = graph.nodes.values(), graph.edges.values()
    if weight_attrs is None:
        weight_attrs = ["edge_weight"] if _can_sample(of_edges, "edge_weight", np.float32) else []
    if time_attrs is None:
        places = ((of_edges, "edge_time"), (of_edges, "time"), (of_nodes, "time"))
        time_attrs = [name for parts, name in places if _can_sample(parts, name, np.integer)][:1]
    options |= {"weight_attrs": weight_attrs, "time_attrs": time_attrs}
    extras, unsaved = graph.extras()
    options |= {"directed": True, "edge_ids": edge_ids, "extras": extras}
    dataset = api.built_dataset(path, BuildOptions(**graph.arguments(), **options))
    dataset.facade.unsaved.update(unsaved)
    for name in dataset.shadowed():
        warn_user(
            f"data.{name} of the result is something else: read data[{name!r}], or batch.{name}"
        )
    return dataset


def _one_graph(data: object) -> Data | HeteroData:
    """The graph, also if it is the only one of a PyG dataset."""
    if isinstance(data, torch_geometric.data.Dataset):
        if len(data) != 1:
            raise ValueError(
                f"{data!r} holds {len(data):,} graphs, and a dataset folder holds one: choose it, "
                f"as in from_data(dataset[0], path); for training on many small graphs, in memory "
                f"or in an OnDiskDataset, use PyG's DataLoader"
            )
        data = data[0]
    if not isinstance(data, Data | HeteroData):
        raise TypeError(
            f"from_data takes a torch_geometric.data.Data or HeteroData, or a PyG dataset of one "
            f"graph, not {type(data).__name__}. A graph in a file: from_data(torch.load(file, "
            f"weights_only=False, mmap=True), path), of a dataset's processed/data.pt "
            f"Data.from_dict(torch.load(...)[0]). The tensors of a (FeatureStore, GraphStore), "
            f"saved as .npy files, are for graphzero.build"
        )
    return data


# --- what a graph consists of: what is stored, and what stays in memory


@dataclass
class _Graph:
    """The parts of a graph as `build` takes them, by type (without types `NODES` and `EDGES`).

    Attributes
    ----------
    num_nodes : dict of int
    nodes, edges : dict of dict
        Arrays with a row for each node or edge, by name; ``edge_index``.
    splits : dict of dict
        Node ids, or a mask of them, by the name of the split and the node type.
    masks : dict of dict
        By node type, the name of the split by the name that it was given.
    kept : dict of dict
        What has no row for each node or edge: by type, and None for the whole graph.
    """

    num_nodes: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, dict[str, Array]] = field(default_factory=dict)
    edges: dict[EdgeType, dict[str, Array]] = field(default_factory=dict)
    splits: dict[str, dict[str, Array]] = field(default_factory=dict)
    masks: dict[str, dict[str, str]] = field(default_factory=dict)
    kept: Kept = field(default_factory=dict)

    def extras(self) -> tuple[bytes | None, Kept]:
        """The content of the file of `Extras`, and what it cannot hold, with a warning."""
        unsaved: Kept = {}
        for key, values in self.kept.items():
            for name in [name for name, value in values.items() if not _can_save(value)]:
                unsaved.setdefault(key, {})[name] = values.pop(name)
                warn_user(
                    f"{name} is a {type(unsaved[key][name]).__name__}, which is not stored: the "
                    f"result of from_data has it in memory, and graphzero.open does not. Numbers, "
                    f"texts, tensors, and lists and dictionaries of them are stored"
                )
        kept = {key: values for key, values in self.kept.items() if values}
        content = {"kept": kept, "splits": self.masks}
        if not any(content.values()):
            return None, unsaved
        file = io.BytesIO()
        torch.save(content, file)
        return file.getvalue(), unsaved

    def arguments(self) -> dict[str, Any]:
        """Arguments of `build`."""
        if NODES in self.nodes:
            return {
                "edges": self.edges[EDGES],
                "num_nodes": self.num_nodes[NODES],
                "nodes": self.nodes[NODES],
                "splits": {name: by_type[NODES] for name, by_type in self.splits.items()},
            }
        nodes = {
            node_type: {"num_nodes": self.num_nodes[node_type], **arrays}
            for node_type, arrays in self.nodes.items()
        }
        return {"nodes": nodes, "edges": self.edges, "splits": self.splits}


def _contents_of(data: Data | HeteroData) -> _Graph:
    """The parts of a PyG graph; a ValueError names one that cannot be stored."""
    graph, is_typed = _Graph(), isinstance(data, HeteroData)
    if is_typed:
        graph.kept[None] = dict(data._global_store.items())
        if not data.edge_types:
            raise ValueError("the graph has no edges: set edge_index of an edge type")
    for store in data.node_stores:
        if store.num_nodes is None:
            raise ValueError(f"{_prefix(store)}no number of nodes: set its num_nodes")
        graph.num_nodes[_node_type(store)] = int(store.num_nodes)
        graph.nodes[_node_type(store)] = {}
    for store in data.edge_stores:
        for name in (store._key[0], store._key[2]) if is_typed else ():
            if name not in graph.nodes:
                raise ValueError(
                    f"{_prefix(store)}no nodes of type {name!r}: set data[{name!r}].num_nodes"
                )
        graph.edges[_edge_type(store)] = _edges_of(store)
    for store in [*data.node_stores, *data.edge_stores] if is_typed else [data._store]:
        graph.kept.setdefault(store._key, {})
        for name in list(store.keys()):
            has_nodes = _node_type(store) in graph.nodes
            if name not in _TOPOLOGY and not (has_nodes and _add_split(graph, store, name)):
                _add_attribute(graph, store, name)
    return graph


def _node_type(store: BaseStorage) -> str:
    return NODES if store._key is None else store._key


def _edge_type(store: BaseStorage) -> EdgeType:
    return EDGES if store._key is None else store._key


def _prefix(store: BaseStorage) -> str:
    """Which type an error is about."""
    return "" if store._key is None else f"{store._key}: "


def _as_array(value: object, name: str) -> Array:
    """The numbers of a tensor or array, not copied where they are in the processor's memory."""
    if isinstance(value, Tensor):
        dense = value if is_sparse_tensor(value) else value.as_subclass(Tensor)
        return array_of_tensor(dense, name)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value
    raise ValueError(
        f"{name} has an entry for each node or edge, but is a {type(value).__name__}, which cannot "
        f"be stored: make it a tensor of numbers, or remove it from the graph"
    )


def _edges_of(store: BaseStorage) -> dict[str, Array]:
    """The edges of a store; the values of a sparse matrix are weights or attributes."""
    edge_index, value, where = store.get("edge_index"), None, _prefix(store)
    if edge_index is None:
        if store.get("adj_t") is None:
            raise ValueError(f"{where}the graph has no edge_index")
        transposed, value = to_edge_index(store["adj_t"])
        edge_index = transposed.flip(0)
    elif is_sparse_tensor(edge_index):
        raise ValueError(
            f"{where}edge_index is a sparse tensor: name it adj_t if its rows are the targets; "
            f"if they are the sources, give torch_geometric.utils.to_edge_index(edge_index)[0]"
        )
    edges = _as_array(edge_index, f"{where}edge_index")
    if edges.ndim != 2 or edges.shape[0] != 2:
        raise ValueError(f"{where}edge_index must have shape (2, E), not {edges.shape}")
    if value is None:
        return {"edge_index": edges}
    values = _as_array(value, f"{where}adj_t")
    return {"edge_index": edges, "edge_weight" if values.ndim == 1 else "edge_attr": values}


def _add_split(graph: _Graph, store: BaseStorage, name: str) -> bool:
    """Takes a mask or ids of a split; False where the name or the type is not that of one."""
    if name not in _SPLIT_NAMES or not isinstance(store[name], Tensor | np.ndarray):
        return False
    where, node_type = _prefix(store), _node_type(store)
    count = graph.num_nodes[node_type]
    array = _as_array(torch.as_tensor(store[name]), f"{where}{name}")
    is_mask = array.dtype == np.bool_ and array.shape == (count,)
    if is_mask or (array.ndim == 1 and array.dtype.kind in "iu" and not name.endswith("_mask")):
        split = _SPLIT_NAMES[name]
        earlier = graph.splits.setdefault(split, {}).setdefault(node_type, array)
        if earlier is not array and not np.array_equal(_ids_of(earlier), _ids_of(array)):
            masks = graph.masks[node_type].items()
            other = next(mask for mask, mask_split in masks if mask_split == split)
            raise ValueError(
                f"{where}{other} and {name} both name the split {split!r}, and have different "
                f"nodes: remove one of them, or give it a name of its own before from_data"
            )
        graph.masks.setdefault(node_type, {})[name] = split
        return True
    warn_user(
        f"{where}{name} of shape {array.shape} is no split, which is a mask of {count:,} "
        f"nodes or their ids: it is stored as it is, and input_nodes= takes one column of it"
    )
    return False


def _ids_of(split: Array) -> Array:
    """The nodes of a split that is a mask or ids, ascending."""
    return np.flatnonzero(split) if split.dtype == np.bool_ else np.unique(split)


def _can_save(value: object) -> bool:
    """Whether a value comes back from a file in which no code is executed."""
    if isinstance(value, Tensor) and value.layout == torch.strided and type(value) is Tensor:
        return True
    file = io.BytesIO()
    try:
        torch.save(value, file)
        file.seek(0)
        torch.load(file, weights_only=True)
    except Exception:  # whatever a class raises that is not made for it
        return False
    return True


def _add_attribute(graph: _Graph, store: BaseStorage, name: str) -> None:
    """Stores an attribute with a row for each node or edge; keeps others in memory."""
    value, where = store[name], f"{_prefix(store)}{name}"
    is_of_edges = isinstance(store._key, tuple)
    if store._key is None:
        is_of_edges = store.is_edge_attr(name) or name.startswith("edge_")
    if is_of_edges:
        part, what = graph.edges[_edge_type(store)], "edges"
        count = part["edge_index"].shape[1]
    else:
        part, what = graph.nodes[_node_type(store)], "nodes"
        count = graph.num_nodes[_node_type(store)]
    is_stored = (store.is_node_attr(name) or store.is_edge_attr(name)) and not is_seed_edges(name)
    array = _as_array(value, where) if is_stored else np.empty(0)
    if name in ("batch", "ptr"):
        warn_user(f"{where} is left out: the graphs of a PyG Batch are stored as one graph")
    elif is_stored and _IN_BATCHES.get(name) == what:
        if not np.array_equal(array, np.arange(count)):
            raise ValueError(
                f"{where}: a batch has numbers of its {what} under this name, which are others: "
                f"give the attribute another name, such as 'own_{name}'"
            )
        warn_user(f"{where} is left out: it counts the {what} from 0, as {name} of batches does")
    elif is_stored and store._parent().__cat_dim__(name, value, store) % array.ndim == 0:
        part[name] = array
    elif is_stored or (value is not None and name in ("x", "y", "edge_attr", "edge_weight")):
        shape = tuple(getattr(value, "shape", ()))
        raise ValueError(
            f"{where} of shape {shape} has not one row for each of the {count:,} {what}: "
            f"transpose it, or give it another name"
        )
    elif value is not None:
        graph.kept[store._key][name] = value


def _can_sample(parts: Iterable[Mapping[str, Array]], name: str, dtype: Any) -> bool:
    """Whether neighbours can be drawn by the attributes of a name as they are."""
    columns = [part[name] for part in parts if name in part]
    return bool(columns) and all(
        values.ndim == 1 and np.issubdtype(values.dtype, dtype) and not (values < 0).any()
        for values in columns
    )
