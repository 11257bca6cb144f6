"""What users give to datasets and loaders: checked, and with PyG's names understood."""

from __future__ import annotations

import difflib
import inspect
import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.errors import user_line
from graphzero.graph.dataset import Dataset, Splits
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray, as_ids
from graphzero.graph.sampling_options import Sampling
from graphzero.io.memory import available_memory
from graphzero.io.prefetch import Prefetch
from graphzero.store.manifest import NODES, EdgeType
from graphzero.store.tuning_file import TUNING_NAME, Tuning
from graphzero.units import format_bytes


def as_array(values: Any) -> npt.NDArray[Any]:
    """A NumPy array of a tensor on any device, an array or a list."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    return np.asarray(values)


def as_dataset(dataset: Any) -> Dataset:
    """The dataset that a loader is to sample.

    Raises
    ------
    TypeError
        If it is something else; says how to make a dataset of it.
    """
    if isinstance(dataset, Dataset):
        return dataset
    if dataset is None:
        raise TypeError("the first argument is missing: a Dataset, from gz.open('data/')")
    if isinstance(dataset, (str, os.PathLike)):
        raise TypeError(f"a loader takes an open dataset: gz.open({os.fspath(dataset)!r})")
    kind = type(dataset[0] if isinstance(dataset, tuple) and dataset else dataset)
    if kind.__module__.partition(".")[0] == "torch_geometric":
        raise TypeError(
            f"a loader reads a dataset from its files, not a {kind.__name__} in memory: write it "
            f"once with ds = graphzero.pyg.from_data(data, 'data/'), and open it with "
            f"gz.open('data/') from then on"
        )
    raise TypeError(f"the first argument must be a Dataset, from gz.open, not {type(dataset)}")


def as_num_neighbors(num_neighbors: Any, dataset: Dataset) -> Any:
    """The fanouts, a list or by edge type; samplers check their values.

    Raises
    ------
    TypeError
        If they are missing, or by edge type, and the dataset has no types.
    """
    if num_neighbors is None:
        raise TypeError("num_neighbors is missing: neighbours per node in each hop, as [15, 10]")
    if hasattr(num_neighbors, "get_mapped_values"):  # PyG's NumNeighbors
        default, num_neighbors = num_neighbors.default, num_neighbors.values
        if isinstance(num_neighbors, Mapping):
            num_neighbors = {str(name): hops for name, hops in num_neighbors.items()}
            if default is not None:
                num_neighbors["default"] = default
    if not isinstance(num_neighbors, Mapping):
        return as_array(num_neighbors).tolist()
    if not dataset.is_typed:
        raise TypeError(
            "num_neighbors by edge type needs a dataset with edge types, and this one has none: "
            "give a list, such as [15, 10]"
        )
    return {name: as_array(hops).tolist() for name, hops in num_neighbors.items()}


def as_input_ids(input_id: Any, default: IdArray | None, num_seeds: int) -> IdArray | None:
    """What ``input_id`` of the batches has instead of positions in the seeds; None for these.

    Raises
    ------
    ValueError
        If there is not one for each seed.
    """
    if input_id is None:
        return default
    ids = as_array(input_id)
    if ids.shape[:1] != (num_seeds,):
        raise ValueError(
            f"input_id must hold a value for each of the {num_seeds} seeds, not {ids.shape}"
        )
    return ids.copy()


def as_subgraph_type(subgraph_type: Any, directed: Any) -> Any:
    """The name of a subgraph type, also from PyG's enum; ``directed=False`` means "induced"."""
    if isinstance(subgraph_type, Enum):
        subgraph_type = subgraph_type.value
    if subgraph_type == "bidirectional":
        raise ValueError(
            "subgraph_type='bidirectional' is not available: use 'induced' for all edges between "
            "the nodes of a batch, or transform=torch_geometric.transforms.ToUndirected()"
        )
    return "induced" if directed is False else subgraph_type


def as_negatives(neg_sampling: Any, ratio: Any) -> dict[str, Any]:
    """How negatives are drawn, from any way in which PyG takes it.

    Returns
    -------
    dict
        The arguments ``neg_sampling``, ``amount``, ``src_weight`` and ``dst_weight`` of
        `LinkNeighborDataset`.

    Raises
    ------
    ValueError
        If both are given, or no mode.
    """
    if ratio is not None and ratio != 0:
        if neg_sampling is not None:
            raise ValueError("give neg_sampling or neg_sampling_ratio, not both")
        return {"neg_sampling": "binary", "amount": ratio}
    if neg_sampling is None:
        return {"neg_sampling": None}
    names = ("mode", "amount", "src_weight", "dst_weight")
    if isinstance(neg_sampling, str):
        found: dict[str, Any] = {"mode": neg_sampling}
    elif isinstance(neg_sampling, Mapping):
        found = dict(neg_sampling)
    elif isinstance(neg_sampling, (tuple, list)):
        found = dict(zip(names, neg_sampling, strict=False))
    else:
        found = {name: getattr(neg_sampling, name, None) for name in names}
    unknown = sorted(set(found) - set(names))
    if unknown:
        raise ValueError(f"neg_sampling has {', '.join(names)}, not {unknown}")
    mode, amount = found.pop("mode", None), found.pop("amount", 1)
    if mode is None:
        raise ValueError(
            f"neg_sampling must be 'binary', 'triplet', (mode, amount), a dict of these, or PyG's "
            f"NegativeSampling, not {neg_sampling!r}"
        )
    weights = {name: as_array(values) for name, values in found.items() if values is not None}
    return {"neg_sampling": getattr(mode, "value", mode), "amount": amount, **weights}


# --- seeds


def as_seed_ids(seeds: Any, num_nodes: int) -> IdArray:
    """Seeds as ids, (n,) int64, a copy: from ids, a mask, or None for all nodes."""
    if seeds is None:
        return np.arange(num_nodes, dtype=np.int64)
    array = np.asarray(seeds)
    if array.dtype == np.bool_:
        if array.shape != (num_nodes,):
            raise ValueError(f"a seed mask must have shape ({num_nodes},), not {array.shape}")
        return np.flatnonzero(array)
    return as_ids(array, num_nodes, "seeds").copy()  # the caller may change theirs


@dataclass(frozen=True)
class SeedNodes:
    """Seed nodes as `NeighborDataset` takes them.

    Attributes
    ----------
    node_type : str
        "" in a graph without types.
    nodes : (n,) integers, (num_nodes,) bool, or None
    is_mask : bool
        Whether they were given as a mask, whose ``input_id`` are the ids of the nodes.
    """

    node_type: str
    nodes: npt.NDArray[Any] | None
    is_mask: bool = False

    @property
    def seeds(self) -> Any:
        """The first argument of `NeighborDataset`."""
        return self.nodes if self.node_type == NODES else (self.node_type, self.nodes)


def as_seed_nodes(input_nodes: Any, dataset: Dataset) -> SeedNodes:
    """The seed nodes: all, a split, ids or a mask; in a typed graph those of one type.

    Raises
    ------
    ValueError
        If a name is none of a split or node type; names those that exist.
    TypeError
        If a node type is named, and the dataset has none.
    """
    if dataset.is_typed:
        return _typed_nodes(input_nodes, dataset)
    if isinstance(input_nodes, (tuple, list)) and input_nodes and isinstance(input_nodes[0], str):
        raise TypeError(
            f"input_nodes={input_nodes[0]!r}, ... names a node type, and the dataset has none: "
            f"give the ids alone"
        )
    return _nodes_of(NODES, input_nodes, dataset.splits, "the dataset")


def _nodes_of(node_type: str, nodes: Any, splits: Splits, owner: str) -> SeedNodes:
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


def _typed_nodes(input_nodes: Any, dataset: Dataset) -> SeedNodes:
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
        If `time_attr` does not drive the sampling; if seeds have no times of their own, because
        the times are those of edges, or of nodes of other types.
    """
    name = driving_attribute(dataset, "time_attr", time_attr)
    if input_time is not None:
        return as_array(input_time)
    if name is None:
        return None
    nodes = dataset.nodes[seeds.node_type]
    if {each.time: each.time_level for each in _drivers(dataset)}[name] == "edge":
        raise ValueError(
            f"time_attr={name!r} is a time of edges, so seeds have none of their own: "
            f"give input_time, a time for each seed"
        )
    if name not in nodes:
        raise ValueError(
            f"time_attr={name!r}: nodes of the type {seeds.node_type!r} do not have it: give "
            f"input_time, a time for each seed"
        )
    times: npt.NDArray[Any] = nodes[name].gather(as_seed_ids(seeds.nodes, nodes.num_nodes))
    return times


def node_times(dataset: Dataset, node_type: str) -> tuple[FeatureStore, ...]:
    """The times of the nodes of a type, where nodes have the times that drive sampling."""
    of_nodes = [each.time for each in _drivers(dataset) if each.time_level == "node"]
    nodes = dataset.nodes[node_type]
    return tuple(nodes[name] for name in dict.fromkeys(of_nodes) if name and name in nodes)


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
    if dataset.is_typed:
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


def _typed_edges(given: Any, dataset: Dataset) -> Any:
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


def _edge_type(given: Any, dataset: Dataset) -> EdgeType | None:
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


def node_labels(dataset: Dataset, node_type: str, seeds: IdArray) -> npt.NDArray[Any]:
    """The labels of seeds.

    Raises
    ------
    ValueError
        If they have none.
    """
    labels = dataset.nodes[node_type].get("y")
    if labels is None:
        owner = f"nodes of the type {node_type!r} have" if node_type else "the dataset has"
        raise ValueError(f"seed_weights='balanced' needs labels, and {owner} none")
    found: npt.NDArray[Any] = labels.gather(seeds)
    return found


def as_seed_weights(seed_weights: Any, labels: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """The weights of the seeds: as given, or for "balanced", from their labels.

    With "balanced", every label has the same share; seeds without one (-1 or NaN) have none.

    Raises
    ------
    ValueError
        If it is another text, or a seed has several labels.
    """
    if not isinstance(seed_weights, str):
        return as_array(seed_weights)
    if seed_weights != "balanced":
        raise ValueError(
            f"seed_weights must be 'balanced' or a number for each seed, not {seed_weights!r}"
        )
    values = labels()
    if values.ndim != 1 or values.dtype.kind not in "biuf":
        raise ValueError(
            f"seed_weights='balanced' needs one label for each seed, not {values.dtype} of shape "
            f"{values.shape}: give an array of weights"
        )
    known = values != -1
    if values.dtype.kind == "f":
        known &= ~np.isnan(values)
    _, of_each, counts = np.unique(values[known], return_inverse=True, return_counts=True)
    weights = np.zeros(values.shape[0])
    weights[known] = 1 / counts[of_each]
    return weights


# --- attributes that drive sampling

# The field of `Driving`, the option of gz.build, and other names where there is one such attribute.
_DRIVING = {
    "weight_attr": ("weight", "weight_attrs", ("edge_weight", "weight")),
    "time_attr": ("time", "time_attrs", ("edge_time", "time", "timestamp")),
}


@dataclass(frozen=True)
class _Drivers:
    """The attributes that drive the sampling along the edges of a type."""

    edge_type: EdgeType
    weight: str | None
    time: str | None
    time_level: str


def _drivers(dataset: Dataset) -> list[_Drivers]:
    return [
        _Drivers(
            kind,
            None if edges.graph.weights is None else edges.driving.weight,
            None if edges.graph.times is None else edges.driving.time,
            edges.driving.time_level,
        )
        for kind, edges in dataset.edges.items()
    ]


def driving_attribute(dataset: Dataset, argument: str, name: str | None) -> str | None:
    """The attribute that is to drive the sampling, by its name in the dataset; None if `name` is.

    Parameters
    ----------
    dataset : Dataset
    argument : {"time_attr", "weight_attr"}
    name : str or None
        In a graph without types also "time", "timestamp", "edge_time", "weight" or "edge_weight",
        whatever the attribute is called.

    Raises
    ------
    ValueError
        If there is no such attribute, if it does not drive sampling, if nodes and edges have it,
        or if edges of another type would be sampled by another attribute.
    """
    if name is None:
        return None
    kind, option, aliases = _DRIVING[argument]
    drivers = {each.edge_type: getattr(each, kind) for each in _drivers(dataset)}
    names: list[str] = sorted({each for each in drivers.values() if each is not None})
    of_nodes = {each for nodes in dataset.nodes.values() for each in nodes}
    of_edges = {each for edges in dataset.edges.values() for each in edges}
    if not dataset.is_typed and name in aliases and names and name not in of_nodes | of_edges:
        return names[0]
    what = f"{argument}={name!r}"
    if argument == "time_attr" and name in of_nodes and name in of_edges:
        raise ValueError(
            f"{what} is an attribute of nodes and of edges: build the dataset with another name "
            f"for the times of either, so that it is clear which of them are meant"
        )
    if name not in names:
        if name in of_edges or (name in of_nodes and argument == "time_attr"):
            raise ValueError(
                f"{what} does not drive the sampling: build the dataset with {option}={name!r}"
            )
        if name in of_nodes:
            what = f"{what} is an attribute of nodes, and weights are attributes of edges"
        else:
            what = f"Unknown {argument} {name!r}"
        if names:
            raise ValueError(f"{what}. Available: {', '.join(map(repr, names))}.")
        raise ValueError(f"{what}. The dataset was built without {kind}s; build it with {option}=")
    others = {each: other for each, other in drivers.items() if other not in (None, name)}
    if others:
        raise ValueError(
            f"{what}, but others would drive the sampling along other edges: {others}. Build the "
            f"dataset with {option}={name!r}, so that no others do"
        )
    return name


# --- names of arguments

_BOTH = ("NeighborLoader", "LinkNeighborLoader")
# Arguments of PyG's loaders and of torch's DataLoader that have no effect here, and why.
NO_EFFECT = {
    "is_sorted": "neighbour lists are sorted when they are built",
    "filter_per_worker": "rows are always gathered where the batch was sampled",
    "pin_memory_device": "deprecated in torch, which uses the current accelerator",
}
# Those that are refused: what to use instead, and which loaders would have them.
REFUSED = {
    "transform_sampler_output": (
        "use transform, which gets the batch with its n_id, edge_index and e_id",
        _BOTH,
    ),
    "neighbor_sampler": (
        "the dataset brings its own sampler: leave it out; gz.NeighborSampler samples without a "
        "loader",
        _BOTH,
    ),
    "node_sampler": ("the dataset brings its own sampler: leave it out", _BOTH[:1]),
    "link_sampler": ("the dataset brings its own sampler: leave it out", _BOTH[1:]),
    "custom_cls": ("use transform, which may return an object of any class", _BOTH),
    "sampler": (
        "use input_nodes or edge_label_index with shuffle, seed_weights=, or distributed=True",
        _BOTH,
    ),
    "batch_sampler": ("use batch_size, shuffle and drop_last", _BOTH),
    "collate_fn": (
        "use transform, which gets the batch; for your own collate function, the open form: "
        "gz.NeighborDataset in a DataLoader",
        _BOTH,
    ),
    "in_order": (
        "batches come in their order, which makes them repeatable: leave it out",
        _BOTH,
    ),
}
# Values with which a refused argument asks for nothing.
_NEUTRAL: dict[str, Any] = {"in_order": True}

# What users of one interface type in the other one.
_OTHER_NAMES = {
    "fanouts": "num_neighbors",
    "seeds": "input_nodes",
    "weighted": "weight_attr='edge_weight'",
    "amount": "neg_sampling=(mode, amount)",
    "src_weight": "neg_sampling=(mode, amount, src_weight, dst_weight)",
    "dst_weight": "neg_sampling=(mode, amount, src_weight, dst_weight)",
    "gather": "NeighborDataset with Collate, the open form",
}
_OF_DATASETS = {
    "num_neighbors": "fanouts",
    "input_nodes": "seeds",
    "data": "dataset, the first argument",
    "time_attr": "input_time: the times that the build chose drive the sampling by any name",
    "weight_attr": "weighted=True: the weights that the build chose drive the sampling by any name",
    "directed": "subgraph_type='induced', which is what directed=False meant",
    "neg_sampling_ratio": "neg_sampling='binary', amount=ratio",
    "num_workers": "the DataLoader's num_workers",
    "pin_memory": "the DataLoader's pin_memory",
    "persistent_workers": "the DataLoader's persistent_workers",
    "transform": "a collate_fn that calls gz.Collate(ds) first",
}


def check_keywords(loader: str, options: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuses keywords that a loader does not have, and those that it does not take.

    Parameters
    ----------
    loader : str
        "NeighborLoader" or "LinkNeighborLoader".
    options : mapping
        Keywords that are not in its signature, with their values.
    known : iterable of str
        Those that are.

    Raises
    ------
    TypeError
        That says what to use instead, or which names are close.
    """
    refused = {name: note for name, (note, loaders) in REFUSED.items() if loader in loaders}
    for name, value in options.items():
        if name == "data" or name in NO_EFFECT:
            continue
        if name in refused:
            if value != _NEUTRAL.get(name):
                raise TypeError(f"{loader} takes no {name}: {refused[name]}")
            continue
        what = f"{loader} has no argument {name!r}"
        if name in _OTHER_NAMES:
            raise TypeError(f"{what}: use {_OTHER_NAMES[name]}")
        raise TypeError(what + _closest(name, {*known, *refused, *NO_EFFECT, "data"}))


def refuse_keywords(dataset: type, options: Iterable[str]) -> None:
    """Refuses keywords that a dataset of seeds does not have, such as those of PyG's loaders.

    Parameters
    ----------
    dataset : type
        Its class.
    options : iterable of str
        Names that are not in its signature.

    Raises
    ------
    TypeError
        That says which name it has here, or which names are close.
    """
    of_sampling = {field.name for field in fields(Sampling)}
    for name in options:
        if name in of_sampling:
            continue
        what = f"{dataset.__name__} has no argument {name!r}"
        if name in _OF_DATASETS:
            raise TypeError(
                f"{what}: use {_OF_DATASETS[name]} (gz.NeighborLoader and gz.LinkNeighborLoader "
                f"have PyG's names)"
            )
        own = set(inspect.signature(dataset).parameters) - {"options"}
        raise TypeError(what + _closest(name, own | of_sampling))


def _closest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known))
    return f": did you mean {' or '.join(close)}?" if close else ""


# --- tuned prefetch

# What may be available, as a share of what the trials had: a model, which these did not have, may
# take its memory before the loader is made or after.
_LEAST_MEMORY, _MOST_MEMORY = 0.75, 1.5
_PLENTY = 2  # times the dataset: more than that changes nothing


def prefetch_of(dataset: Dataset, given: Prefetch | None) -> tuple[Prefetch, str]:
    """The options of a loader.

    Parameters
    ----------
    dataset : Dataset
    given : Prefetch or None
        By the user.

    Returns
    -------
    Prefetch
    str
        Where they come from, or why the tuned ones are not used; empty without any.
    """
    if given is not None:
        return given, ""
    if dataset.tuning is None:
        why = dataset.tuning_mismatch
        return Prefetch(), f"{TUNING_NAME} is not used: {why}" if why else ""
    tuned = dataset.tuning
    try:
        prefetch = as_tuned(tuned)
    except (TypeError, ValueError) as error:
        warnings.warn(
            f"{tuned.path} is ignored: {error}; remove it, and run graphzero tune again",
            UserWarning,
            stacklevel=user_line(),
        )
        return Prefetch(), f"{TUNING_NAME} is not used: it is corrupt"
    size = sum(mapping.size for mapping in dataset.mappings)
    if note := memory_note(tuned.available, available_memory(), size):
        return Prefetch(), f"{TUNING_NAME} is not used: {note}"
    return prefetch, f"as tuned on {tuned.date[:10]} ({TUNING_NAME})"


def as_tuned(tuned: Tuning) -> Prefetch:
    """The options that were chosen.

    Raises
    ------
    TypeError, ValueError
        If these are none.
    """
    fields: dict[str, Any] = tuned.prefetch
    return Prefetch(**fields)


def suitable_memory(tuned: int, size: int) -> tuple[int, int | None]:
    """The least and the most available memory that options suit; None for any amount.

    Parameters
    ----------
    tuned : int
        Bytes that were available to the trials.
    size : int
        Bytes of the dataset: with more memory than twice that, all sizes are alike.
    """
    least, plenty = math.ceil(_LEAST_MEMORY * tuned), _PLENTY * size
    if tuned >= plenty:
        return min(least, plenty), None
    return least, math.floor(_MOST_MEMORY * tuned)


def memory_note(tuned: int, now: int, size: int) -> str:
    """Why options that were tuned with some memory do not suit what is available; empty if they do.

    Parameters
    ----------
    tuned, now : int
        Bytes that were available to the trials, and are to this process.
    size : int
        Bytes of the dataset.
    """
    least, most = suitable_memory(tuned, size)
    if least <= now and (most is None or now <= most):
        return ""
    return f"it is for {format_bytes(tuned)} of memory, and {format_bytes(now)} are available"
