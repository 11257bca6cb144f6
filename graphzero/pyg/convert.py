"""`from_data`: a PyG graph becomes a dataset folder."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch_geometric.data
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import to_edge_index

from graphzero import api
from graphzero.errors import user_line
from graphzero.graph.dataset import Dataset
from graphzero.graph.stores import Extras, is_seed_edges
from graphzero.ingest.options import BuildOptions
from graphzero.ingest.sources.torch_file import array_of_tensor, is_sparse_tensor
from graphzero.store.manifest import EDGES, NODES

Array = npt.NDArray[Any]

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
    data: Any,
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
    graph = _describe(_one_graph(data))
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
    for name in dataset.shadowed():
        _warn(f"data.{name} of the result is something else: read data[{name!r}], or batch.{name}")
    if unsaved:
        dataset.have_extras(Extras(dataset.extras.file, unsaved))
    return dataset


def _one_graph(data: Any) -> Data | HeteroData:
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
    nodes, edges : dict of dict
        Arrays with a row for each node or edge, by name; ``num_nodes`` and ``edge_index``.
    splits : dict of dict
        Node ids, or a mask of them, by the name of the split and the node type.
    masks : dict of dict
        By node type, the name of the split by the name that it was given.
    kept : dict of dict
        What has no row for each node or edge: by type, and None for the whole graph.
    """

    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    edges: dict[tuple[str, str, str], dict[str, Any]] = field(default_factory=dict)
    splits: dict[str, dict[str, Array]] = field(default_factory=dict)
    masks: dict[str, dict[str, str]] = field(default_factory=dict)
    kept: dict[Any, dict[str, Any]] = field(default_factory=dict)

    def extras(self) -> tuple[bytes | None, dict[Any, dict[str, Any]]]:
        """The content of the file of `Extras`, and what it cannot hold, with a warning."""
        unsaved: dict[Any, dict[str, Any]] = {}
        for key, values in self.kept.items():
            for name in [name for name, value in values.items() if not _can_save(value)]:
                unsaved.setdefault(key, {})[name] = values.pop(name)
                _warn(
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
        if NODES not in self.nodes:
            return {"nodes": self.nodes, "edges": self.edges, "splits": self.splits}
        nodes, edges = {**self.nodes[NODES]}, self.edges[EDGES]
        more = {"num_nodes": nodes.pop("num_nodes"), "nodes": nodes}
        splits = {name: of_types[NODES] for name, of_types in self.splits.items()}
        return {"edges": edges, **more, "splits": splits}


def _describe(data: Data | HeteroData) -> _Graph:
    """The parts of a PyG graph; a ValueError names one that cannot be stored."""
    graph, typed = _Graph(), isinstance(data, HeteroData)
    if typed:
        graph.kept[None] = dict(data._global_store.items())
        if not data.edge_types:
            raise ValueError("the graph has no edges: set edge_index of an edge type")
    for store in data.node_stores:
        if store.num_nodes is None:
            raise ValueError(f"{_prefix(store)}no number of nodes: set its num_nodes")
        graph.nodes[store._key if typed else NODES] = {"num_nodes": int(store.num_nodes)}
    for store in data.edge_stores:
        for name in (store._key[0], store._key[2]) if typed else ():
            if name not in graph.nodes:
                raise ValueError(
                    f"{_prefix(store)}no nodes of type {name!r}: set data[{name!r}].num_nodes"
                )
        graph.edges[store._key if typed else EDGES] = _edges(store)
    for store in [*data.node_stores, *data.edge_stores] if typed else [data._store]:
        nodes = graph.nodes.get(store._key if typed else NODES)
        edges = graph.edges.get(store._key if typed else EDGES)
        parts = [part for part in (nodes, edges) if part is not None]
        kept = graph.kept.setdefault(store._key, {})
        for name in list(store.keys()):
            if name in _TOPOLOGY or (nodes and _add_split(graph, store, name)):
                continue
            of_edges = store.is_edge_attr(name) or name.startswith("edge_")
            _add(parts[-1 if of_edges else 0], kept, store, name)
    return graph


def _prefix(store: Any) -> str:
    """Which type an error is about."""
    return "" if store._key is None else f"{store._key}: "


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=user_line())


def _as_array(value: Any, name: str) -> Array:
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


def _edges(store: Any) -> dict[str, Any]:
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


def _add_split(graph: _Graph, store: Any, name: str) -> bool:
    """Takes a mask or ids of a split; False where the name or the type is not that of one."""
    if name not in _SPLIT_NAMES or not isinstance(store[name], Tensor | np.ndarray):
        return False
    where, kind = _prefix(store), NODES if store._key is None else store._key
    count = graph.nodes[kind]["num_nodes"]
    array = _as_array(torch.as_tensor(store[name]), f"{where}{name}")
    is_mask = array.dtype == np.bool_ and array.shape == (count,)
    if is_mask or (array.ndim == 1 and array.dtype.kind in "iu" and not name.endswith("_mask")):
        split = _SPLIT_NAMES[name]
        earlier = graph.splits.setdefault(split, {}).setdefault(kind, array)
        if earlier is not array and not np.array_equal(_ids_of(earlier), _ids_of(array)):
            other = next(one for one, of in graph.masks[kind].items() if of == split)
            raise ValueError(
                f"{where}{other} and {name} both name the split {split!r}, and have different "
                f"nodes: remove one of them, or give it a name of its own before from_data"
            )
        graph.masks.setdefault(kind, {})[name] = split
        return True
    _warn(
        f"{where}{name} of shape {array.shape} is no split, which is a mask of {count:,} "
        f"nodes or their ids: it is stored as it is, and input_nodes= takes one column of it"
    )
    return False


def _ids_of(split: Array) -> Array:
    """The nodes of a split that is a mask or ids, ascending."""
    return np.flatnonzero(split) if split.dtype == np.bool_ else np.unique(split)


def _can_save(value: Any) -> bool:
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


def _add(part: dict[str, Any], kept: dict[str, Any], store: Any, name: str) -> None:
    """Stores an attribute with a row for each node or edge; keeps others in memory."""
    value, where, what = store[name], f"{_prefix(store)}{name}", "nodes"
    count = part.get("num_nodes")
    if count is None:
        count, what = part["edge_index"].shape[1], "edges"
    is_stored = (store.is_node_attr(name) or store.is_edge_attr(name)) and not is_seed_edges(name)
    array = _as_array(value, where) if is_stored else np.empty(0)
    if name in ("batch", "ptr"):
        _warn(f"{where} is left out: the graphs of a PyG Batch are stored as one graph")
    elif is_stored and _IN_BATCHES.get(name) == what:
        if not np.array_equal(array, np.arange(count)):
            raise ValueError(
                f"{where}: a batch has numbers of its {what} under this name, which are others: "
                f"give the attribute another name, such as 'own_{name}'"
            )
        _warn(f"{where} is left out: it counts the {what} from 0, as {name} of batches does")
    elif is_stored and store._parent().__cat_dim__(name, value, store) % array.ndim == 0:
        part[name] = array
    elif is_stored or (value is not None and name in ("x", "y", "edge_attr", "edge_weight")):
        shape = tuple(getattr(value, "shape", ()))
        raise ValueError(
            f"{where} of shape {shape} has not one row for each of the {count:,} {what}: "
            f"transpose it, or give it another name"
        )
    elif value is not None:
        kept[name] = value


def _can_sample(parts: Iterable[Mapping[str, Any]], name: str, dtype: Any) -> bool:
    """Whether neighbours can be drawn by the attributes of a name as they are."""
    found = [part[name] for part in parts if name in part]
    return bool(found) and all(
        values.ndim == 1 and np.issubdtype(values.dtype, dtype) and not (values < 0).any()
        for values in found
    )
