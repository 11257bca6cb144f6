"""What users give to datasets and loaders: checked, and with PyG's names understood."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt

from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.user_input import IdArray, as_ids
from graphzero.io.prefetch import Prefetch
from graphzero.sampling.sampler import SamplingOptions
from graphzero.store.manifest import EDGES, NODES, EdgeType
from graphzero.units import refuse_mask


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
    raise TypeError(
        f"the first argument must be an open Dataset, as of gz.open('data/'), not {dataset!r:.80}. "
        f"A graph of PyG is written once: from graphzero.pyg import from_data; ds = "
        f"from_data(data, 'data/')"
    )


def as_num_neighbors(num_neighbors: Any) -> Any:
    """The fanouts, a list or by edge type; samplers check their values.

    Raises
    ------
    TypeError
        If they are missing.
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
            "the nodes of a batch, or torch_geometric.utils.to_undirected(batch.edge_index) for "
            "the sampled ones in both directions"
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
        neg_sampling = ("binary", ratio)
    if neg_sampling is None:
        return {"neg_sampling": None}
    names = ("mode", "amount", "src_weight", "dst_weight")
    if isinstance(neg_sampling, (str, tuple, list)):
        several = (neg_sampling,) if isinstance(neg_sampling, str) else neg_sampling
        neg_sampling = dict(zip(names, several, strict=False))
    elif not isinstance(neg_sampling, Mapping):
        neg_sampling = {name: getattr(neg_sampling, name, None) for name in names}
    found = {"amount": 1, **neg_sampling}
    mode, amount = found.pop("mode", None), found.pop("amount")
    if mode is None or not set(found) <= set(names):
        raise ValueError(
            f"neg_sampling must be 'binary', 'triplet', (mode, amount), a dict of {names}, or "
            f"PyG's NegativeSampling, not {neg_sampling!r}"
        )
    weights = {name: as_array(values) for name, values in found.items() if values is not None}
    return {"neg_sampling": getattr(mode, "value", mode), "amount": amount, **weights}


# --- seeds


def as_seed_nodes(nodes: Any, dataset: Dataset) -> tuple[str, IdArray, bool]:
    """Seed nodes: all, a split, ids or a mask; in a typed graph those of one type.

    Returns
    -------
    str
        Their type; "" in a graph without types.
    (num_seeds,) int64
        Their ids, a copy: the caller may change theirs.
    bool
        Whether they were given as a mask, whose ``input_id`` are the ids of the nodes.

    Raises
    ------
    ValueError
        If a name is none of a split or node type; names those that exist.
    TypeError
        If a node type is named, and the dataset has none.
    """
    kind, chosen = _type_and_nodes(nodes, dataset)
    store = dataset.nodes[kind]
    if chosen is None:
        return kind, np.arange(store.num_nodes, dtype=np.int64), False
    if isinstance(chosen, str):
        if chosen not in store.splits:
            owner = f"the node type {kind!r}" if dataset.is_typed else "the dataset"
            known = sorted(store.splits)
            raise ValueError(f"{chosen!r} is no split of {owner}: there are {known}")
        chosen = store.splits[chosen]
    array, shape = as_array(chosen), (store.num_nodes,)
    if array.dtype != np.bool_:
        ids = as_ids(array, store.num_nodes, "seeds").copy()
        refuse_mask([ids], len(ids), store.num_nodes, "the list of seeds")
        return kind, ids, False
    if array.shape != shape:
        raise ValueError(f"a seed mask must have shape {shape}, not {array.shape}")
    return kind, np.flatnonzero(array), True


def _type_and_nodes(given: Any, dataset: Dataset) -> tuple[str, Any]:
    """A node type and its seeds, None for all, or a split's name."""
    name = given[0] if isinstance(given, (tuple, list)) and len(given) > 0 else given
    if not dataset.is_typed:
        if name is not given and isinstance(name, str):
            raise TypeError(
                f"the seeds {name!r}, ... name a node type, and the dataset has none: give the ids "
                f"alone"
            )
        return NODES, given
    if isinstance(name, str) and name in dataset.nodes:
        if name is given:
            return name, None
        if len(given) == 2:
            return name, given[1]
    split = given if isinstance(given, str) else None
    having = [kind for kind, nodes in dataset.nodes.items() if split in nodes.splits]
    if len(having) == 1:
        return having[0], given
    if having:
        raise ValueError(
            f"{given!r} is a split of several node types: give one of "
            f"{[(kind, given) for kind in having]}"
        )
    splits = {kind: sorted(nodes.splits) for kind, nodes in dataset.nodes.items() if nodes.splits}
    named = f", not {name!r}" if isinstance(name, str) else ""
    raise ValueError(
        f"the seeds of a typed graph are of one node type: give (node type, ids or mask or the "
        f"name of a split), or the type alone for all of its nodes{named}; the node types are "
        f"{dataset.node_types}, their splits {splits}"
    )


def seeds_of_split(dataset: Dataset, split: str, node_type: str | None) -> Any:
    """Seeds as `NeighborDataset` takes them, from options of a command: "all" is no split."""
    nodes = None if split == "all" else split
    try:
        kind, ids, _ = as_seed_nodes(nodes if node_type is None else (node_type, nodes), dataset)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{error} (--split and --node-type say which)") from None
    return (kind, ids) if dataset.is_typed else ids


def seed_times(
    dataset: Dataset, kind: str, seeds: IdArray, time_attr: str | None, input_time: Any
) -> npt.NDArray[Any] | None:
    """The times of seed nodes: as given, or with `time_attr` their own; None if they have none.

    Raises
    ------
    ValueError
        If `time_attr` does not drive the sampling; if seeds have no times of their own, because
        the times are those of edges, or of nodes of other types.
    """
    name = sampling_attribute(dataset, "time_attr", time_attr)
    if input_time is not None:
        return as_array(input_time)
    if name is None:
        return None
    sampled_by = [edges.sampled_by for edges in dataset.edges.values()]
    if {each.time: each.time_level for each in sampled_by}[name] == "edge":
        raise ValueError(
            f"time_attr={name!r} is a time of edges, so seeds have none of their own: "
            f"give input_time, a time for each seed"
        )
    if name not in dataset.nodes[kind].attributes:
        raise ValueError(
            f"time_attr={name!r}: nodes of the type {kind!r} do not have it: give input_time, a "
            f"time for each seed"
        )
    return dataset.nodes[kind].attributes[name].gather(seeds)


def node_times(dataset: Dataset, node_type: str) -> tuple[FeatureStore, ...]:
    """The times of the nodes of a type, where nodes have the times that drive sampling."""
    sampled_by = [edges.sampled_by for edges in dataset.edges.values()]
    names = dict.fromkeys(each.time for each in sampled_by if each.time_level == "node")
    found = dataset.nodes[node_type].attributes
    return tuple(found[name] for name in names if name and name in found)


def as_seed_edges(given: Any, dataset: Dataset) -> tuple[EdgeType, IdArray]:
    """The edge type of the seed edges, and these, (2, n) int64.

    All edges, and a split, come in the order of the edge list if it is known.

    Raises
    ------
    TypeError
        If an edge type is named, and the dataset has none.
    ValueError
        If there is no such split or edge type; if a typed graph's have no edge type; if they have
        another shape.
    IndexError
        If an end is out of range.
    """
    kind, edges = _type_and_edges(given, dataset)
    store = dataset.edges[kind]
    if edges is None:
        return kind, store.all_edges()
    if isinstance(edges, str):
        if edges not in store.splits:
            owner = f"the edge type {kind}" if dataset.is_typed else "the dataset"
            raise ValueError(
                f"edge_label_index={edges!r} is no split of the edges of {owner}: there are "
                f"{sorted(store.splits)}"
            )
        if not store.splits.stores[edges].has_section("source"):
            return kind, store.edges_at(store.splits[edges])
        edges = store.splits.edge_index(edges)
    if not isinstance(edges, (tuple, list)):
        edges = np.atleast_1d(as_array(edges))
    shapes = {np.shape(each) for each in edges[:3]}
    if len(edges) != 2 or len(shapes) != 1 or len(next(iter(shapes))) != 1:
        shape = (len(edges), *shapes.pop()) if len(shapes) == 1 else f"ends of shapes {shapes}"
        raise ValueError(
            f"edge_label_index must have shape (2, n), sources above destinations, not {shape}"
        )
    counts = (store.source.num_nodes, store.target.num_nodes)
    return kind, np.stack(
        [as_ids(as_array(edges[i]), counts[i], f"edge_label_index[{i}]") for i in (0, 1)]
    )


def require_edge_order(edge_label_index: Any, dataset: Dataset, **values: Any) -> None:
    """Refuses values of all edges, unless these come in the order of the edge list.

    Parameters
    ----------
    edge_label_index : object
        As the user has given it.
    dataset : Dataset
    **values
        One for each edge, by the names of their arguments; None where they are not given.

    Raises
    ------
    ValueError
        Naming the first of the values that are not all the same.
    """
    kind, edges = _type_and_edges(edge_label_index, dataset)
    graph = dataset.edges[kind].graph
    if edges is not None or (graph.has_edge_ids and graph.is_directed):
        return
    order, instead = "with both directions of an edge side by side", ""
    if not graph.has_edge_ids:
        order = "without their positions in the edge list"
        instead = ", or build the dataset with edge_ids=True" if graph.is_directed else ""
    same = f"(kind, ds[kind].edge_index) with kind={kind}" if dataset.is_typed else "ds.edge_index"
    for name, value in values.items():
        array = np.atleast_1d(as_array(value))
        if value is not None and (array != array[:1]).any():
            raise ValueError(
                f"{name} has a value for each edge, and all edges are stored {order}, so that "
                f"values in the order of the edge list would be those of other edges: give the "
                f"edges of the values, edge_label_index=(2, n){instead}. For values in the order "
                f"of {same}, give that"
            )


def _type_and_edges(given: Any, dataset: Dataset) -> tuple[EdgeType, Any]:
    """An edge type and its seed edges, None for all, or a split's name."""
    is_pair = isinstance(given, (tuple, list)) and len(given) > 0
    if not dataset.is_typed:
        if is_pair and _is_name(given[0]):
            raise TypeError(
                f"edge_label_index names the edge type {given[0]!r}, and the dataset has none: "
                f"give the (2, n) edges alone, or None for all"
            )
        return EDGES, given
    unknown = None
    for name, edges in [(given, None), *([tuple(given)] if is_pair and len(given) == 2 else [])]:
        if _is_name(name):
            try:
                return dataset.edge_type_of(name), edges
            except KeyError as error:
                unknown = error
    if unknown is not None:
        raise ValueError(f"edge_label_index: {unknown.args[0]}")
    raise ValueError(
        f"the seed edges of a typed graph are of one edge type: give (edge type, edges), or the "
        f"type alone for all of its edges; the edge types are {dataset.edge_types}"
    )


def _is_name(given: Any) -> bool:
    """Whether it may be the name of an edge type: a text, or several."""
    several = isinstance(given, (tuple, list)) and len(given) > 0
    return isinstance(given, str) or (several and all(isinstance(part, str) for part in given))


def as_seed_weights(
    seed_weights: Any, labels: Callable[[], npt.NDArray[Any]] | None
) -> npt.NDArray[Any]:
    """The weights of the seeds: as given, or for "balanced", from their labels.

    With "balanced", every label has the same share; seeds without one (-1 or NaN) have none.

    Raises
    ------
    ValueError
        If it is another text, or a seed has no label or several.
    """
    if not isinstance(seed_weights, str):
        return as_array(seed_weights)
    if seed_weights != "balanced" or labels is None:
        raise ValueError(
            f"seed_weights must be a number for each seed, or 'balanced' where there are labels (y "
            f"of the nodes, or edge_label): {seed_weights!r} is not possible here"
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

# The field of `SampledBy`, the option of gz.build, and other names where there is only one.
_SAMPLED_BY = {
    "weight_attr": ("weight", "weight_attrs", ("edge_weight", "weight")),
    "time_attr": ("time", "time_attrs", ("edge_time", "time", "timestamp")),
}


def sampling_attribute(dataset: Dataset, argument: str, name: str | None) -> str | None:
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
    kind, option, aliases = _SAMPLED_BY[argument]
    drivers = {key: getattr(edges.sampled_by, kind) for key, edges in dataset.edges.items()}
    names: list[str] = sorted({each for each in drivers.values() if each is not None})
    of_nodes = {each for nodes in dataset.nodes.values() for each in nodes.attributes}
    of_edges = {each for edges in dataset.edges.values() for each in edges.attributes}
    if not dataset.is_typed and name in aliases and names and name not in of_nodes | of_edges:
        return names[0]
    what = f"{argument}={name!r}"
    if argument == "time_attr" and name in of_nodes and name in of_edges:
        raise ValueError(
            f"{what} is an attribute of nodes and of edges: build the dataset with another name "
            f"for the times of either, so that it is clear which of them are meant"
        )
    if name not in names:
        raise ValueError(
            f"{what} is none of the {kind}s that drive the sampling, {names}: build the dataset "
            f"with {option}={name!r}"
        )
    others = {each: other for each, other in drivers.items() if other not in (None, name)}
    if others:
        raise ValueError(
            f"{what}, but others would drive the sampling along other edges: {others}. Build the "
            f"dataset with {option}={name!r}, so that no others do"
        )
    return name


# --- names of arguments

# Arguments of PyG's loaders and of torch's DataLoader that have no effect here, and why.
NO_EFFECT = {
    "is_sorted": "neighbour lists are sorted when they are built",
    "filter_per_worker": "rows are always gathered where the batch was sampled",
    "pin_memory_device": "deprecated in torch, which uses the current accelerator",
}
# Those that are refused, and what to use instead.
REFUSED = {
    "transform_sampler_output": (
        "use transform, which gets the batch with its n_id, edge_index and e_id"
    ),
    "neighbor_sampler": "the dataset brings its own sampler: leave it out",
    "node_sampler": "the dataset brings its own sampler: leave it out",
    "link_sampler": "the dataset brings its own sampler: leave it out",
    "custom_cls": "use transform, which may return an object of any class",
    "sampler": (
        "use input_nodes or edge_label_index with shuffle, seed_weights=, or distributed=True"
    ),
    "batch_sampler": "use batch_size, shuffle and drop_last",
    "collate_fn": (
        "use transform, which gets the batch; for your own collate function, the open form: "
        "gz.NeighborDataset in a DataLoader"
    ),
    "in_order": "batches come in their order, which makes them repeatable: leave it out",
}
# Arguments that the two forms, ready-made loaders and datasets, call by different names.
_TWO_NAMES = (
    ("num_neighbors", "fanouts"),
    ("input_nodes", "seeds"),
    ("time_attr", "input_time"),
    ("weight_attr", "weighted"),
)


class SeedOptions(TypedDict, total=False):
    """The options of every dataset of seeds; see `NeighborDataset`."""

    batch_size: int
    shuffle: bool
    drop_last: bool
    seed: int
    prefetch: Prefetch | None
    gather: Sequence[str] | None
    feature_dtype: npt.DTypeLike | None
    num_threads: int | None
    distributed: bool | None
    rank: int | None
    world_size: int | None
    even: bool


class DatasetOptions(SamplingOptions, SeedOptions, total=False):
    """The options that datasets of nodes and of edges share; see `NeighborDataset`."""


class DataLoaderOptions(TypedDict, total=False):
    """The options of torch's DataLoader that a ready-made loader has as well."""

    num_workers: int
    pin_memory: bool
    persistent_workers: bool
    prefetch_factor: int | None
    timeout: float
    worker_init_fn: Callable[[int], None] | None
    multiprocessing_context: Any
    generator: Any


class LoaderOptions(DatasetOptions, DataLoaderOptions, total=False):
    """Options of ready-made loaders of nodes and of edges; see `NeighborLoader`."""

    time_attr: str | None
    weight_attr: str | None
    directed: bool
    input_id: Any
    seed_weights: Any
    transform: Callable[[Any], Any] | None


class NeighborLoaderOptions(LoaderOptions, total=False):
    """The options of `NeighborLoader`."""

    input_time: Any


class LinkNeighborLoaderOptions(LoaderOptions, total=False):
    """The options of `LinkNeighborLoader`."""

    edge_label_time: Any
    neg_sampling: Any
    neg_sampling_ratio: float | None
    exclude_seed_edges: bool | Sequence[Any]


def check_loader_keywords(loader: type, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuses keywords that a ready-made loader does not have, or does not take.

    Raises
    ------
    TypeError
        That says what to use instead.
    """
    for name, value in given.items():
        if name in REFUSED and value is not None and (name, value) != ("in_order", True):
            raise TypeError(f"{loader.__name__} takes no {name}: {REFUSED[name]}")
    check_keywords(loader, given, {*known, *REFUSED, *NO_EFFECT, "data"})


def check_keywords(owner: type, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuses keywords that a class does not have.

    Raises
    ------
    TypeError
        That says which names it has, the closest if there are any.
    """
    known = sorted({*known, *inspect.signature(owner).parameters} - {"options"})
    for name in given:
        if name not in known:
            other = {one: two for pair in _TWO_NAMES for one, two in (pair, pair[::-1])}.get(name)
            close = [other] if other in known else difflib.get_close_matches(name, known)
            answer = f"did you mean {' or '.join(close)}?" if close else f"it has {known}"
            raise TypeError(f"{owner.__name__} has no argument {name!r}: {answer}")
