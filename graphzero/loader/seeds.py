"""What users give as seeds of mini-batches, checked: nodes or edges, their times and weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.user_input import IdArray, Values, as_array, as_ids
from graphzero.store.manifest import EDGES, NODES, EdgeType
from graphzero.units import refuse_mask


def as_dataset(dataset: object) -> Dataset:
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


# --- nodes


@dataclass(frozen=True)
class SeedNodes:
    """Seed nodes that `as_seed_nodes` has checked.

    Attributes
    ----------
    node_type : str
        "" in a graph without types.
    ids : (num_seeds,) int64
        The user's ids.
    is_mask : bool
        Whether they were given as a mask, whose ``input_id`` are the ids of the nodes.
    """

    node_type: str
    ids: IdArray
    is_mask: bool = False


def as_seed_nodes(nodes: object, dataset: Dataset) -> SeedNodes:
    """Seed nodes: all, a split, ids or a mask; in a typed graph those of one type.

    Their ids are a copy: the caller may change theirs. What was checked before is returned as it
    is.

    Raises
    ------
    ValueError
        If a name is none of a split or node type; names those that exist.
    TypeError
        If a node type is named, and the dataset has none.
    """
    if isinstance(nodes, SeedNodes):
        return nodes
    node_type, chosen = _type_and_nodes(nodes, dataset)
    store = dataset.nodes[node_type]
    if chosen is None:
        return SeedNodes(node_type, np.arange(store.num_nodes, dtype=np.int64))
    if isinstance(chosen, str):
        if chosen not in store.splits:
            owner = f"the node type {node_type!r}" if dataset.is_typed else "the dataset"
            raise ValueError(f"{chosen!r} is no split of {owner}: there are {sorted(store.splits)}")
        chosen = store.splits[chosen]
    array, shape = as_array(chosen), (store.num_nodes,)
    if array.dtype != np.bool_:
        ids = as_ids(array, store.num_nodes, "seeds").copy()
        refuse_mask([ids], len(ids), store.num_nodes, "the list of seeds")
        return SeedNodes(node_type, ids)
    if array.shape != shape:
        raise ValueError(f"a seed mask must have shape {shape}, not {array.shape}")
    return SeedNodes(node_type, np.flatnonzero(array), is_mask=True)


def _type_and_nodes(nodes: object, dataset: Dataset) -> tuple[str, object]:
    """A node type and its seeds, None for all, or a split's name."""
    parts = nodes if isinstance(nodes, (tuple, list)) else ()
    name = parts[0] if parts else nodes
    if not dataset.is_typed:
        if parts and isinstance(name, str):
            raise TypeError(
                f"the seeds {name!r}, ... name a node type, and the dataset has none: give the ids "
                f"alone"
            )
        return NODES, nodes
    if isinstance(name, str) and name in dataset.nodes:
        if not parts:
            return name, None
        if len(parts) == 2:
            return name, parts[1]
    split = nodes if isinstance(nodes, str) else None
    splits = {kind: sorted(store.splits) for kind, store in dataset.nodes.items() if store.splits}
    having = [kind for kind, names in splits.items() if split in names]
    if len(having) == 1:
        return having[0], nodes
    if having:
        raise ValueError(
            f"{nodes!r} is a split of several node types: give one of "
            f"{[(kind, nodes) for kind in having]}"
        )
    named = f", not {name!r}" if isinstance(name, str) else ""
    raise ValueError(
        f"the seeds of a typed graph are of one node type: give (node type, ids or mask or the "
        f"name of a split), or the type alone for all of its nodes{named}; the node types are "
        f"{dataset.node_types}, their splits {splits}"
    )


def seeds_of_split(dataset: Dataset, split: str, node_type: str | None) -> SeedNodes:
    """Seeds as `NeighborDataset` takes them, from options of a command: "all" is no split."""
    nodes = None if split == "all" else split
    try:
        return as_seed_nodes(nodes if node_type is None else (node_type, nodes), dataset)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{error} (--split and --node-type say which)") from None


def as_input_ids(input_id: object, default: IdArray | None, num_seeds: int) -> Values | None:
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


# --- edges


@dataclass(frozen=True)
class SeedEdges:
    """Seed edges that `as_seed_edges` has checked.

    Attributes
    ----------
    edge_type : EdgeType
    edge_index : (2, num_edges) int64
        The user's ids of sources and destinations.
    other_order : str
        Where all edges are meant, and do not come in the order of the edge list: their order, and
        what to do about it; for messages.
    """

    edge_type: EdgeType
    edge_index: IdArray
    other_order: str = ""

    def require_order(self, name: str, values: object) -> None:
        """Refuses values in the order of the edge list, unless the edges come in this order.

        Raises
        ------
        ValueError
            If the values are not all the same.
        """
        if self.other_order and values is not None:
            array = np.atleast_1d(as_array(values))
            if (array != array[:1]).any():
                raise ValueError(
                    f"{name} has a value for each edge, and all edges are stored {self.other_order}"
                )


def as_seed_edges(edges: object, dataset: Dataset) -> SeedEdges:
    """The seed edges: all, a split, or their ends; in a typed graph those of one type.

    All edges, and a split, come in the order of the edge list if it is known. What was checked
    before is returned as it is.

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
    if isinstance(edges, SeedEdges):
        return edges
    edge_type, chosen = _type_and_edges(edges, dataset)
    store = dataset.edges[edge_type]
    if chosen is None:
        return SeedEdges(edge_type, store.all_edges(), _other_order(dataset, edge_type))
    if isinstance(chosen, str):
        if chosen not in store.splits:
            owner = f"the edge type {edge_type}" if dataset.is_typed else "the dataset"
            raise ValueError(
                f"edge_label_index={chosen!r} is no split of the edges of {owner}: there are "
                f"{sorted(store.splits)}"
            )
        if not store.splits.stores[chosen].has_section("source"):
            return SeedEdges(edge_type, store.edges_at(store.splits[chosen]))
        chosen = store.splits.edge_index(chosen)
    ends = chosen if isinstance(chosen, (tuple, list)) else np.atleast_1d(as_array(chosen))
    shapes = {np.shape(nodes) for nodes in ends[:3]}
    if len(ends) != 2 or len(shapes) != 1 or len(next(iter(shapes))) != 1:
        shape = (len(ends), *shapes.pop()) if len(shapes) == 1 else f"ends of shapes {shapes}"
        raise ValueError(
            f"edge_label_index must have shape (2, n), sources above destinations, not {shape}"
        )
    counts = (store.source.num_nodes, store.target.num_nodes)
    ids = [as_ids(ends[i], counts[i], f"edge_label_index[{i}]") for i in (0, 1)]
    return SeedEdges(edge_type, np.stack(ids))


def _other_order(dataset: Dataset, edge_type: EdgeType) -> str:
    """How all edges are stored, if not in the order of the edge list: see `SeedEdges`."""
    graph = dataset.edges[edge_type].graph
    if graph.has_edge_ids and graph.is_directed:
        return ""
    order, instead = "with both directions of an edge side by side", ""
    if not graph.has_edge_ids:
        order = "without their positions in the edge list"
        instead = ", or build the dataset with edge_ids=True" if graph.is_directed else ""
    same = "ds.edge_index"
    if dataset.is_typed:
        same = f"(kind, ds[kind].edge_index) with kind={edge_type}"
    return (
        f"{order}, so that values in the order of the edge list would be those of other edges: "
        f"give the edges of the values, edge_label_index=(2, n){instead}. For values in the order "
        f"of {same}, give that"
    )


def _type_and_edges(edges: object, dataset: Dataset) -> tuple[EdgeType, object]:
    """An edge type and its seed edges, None for all, or a split's name."""
    parts = edges if isinstance(edges, (tuple, list)) else ()
    if not dataset.is_typed:
        if parts and _is_type_name(parts[0]):
            raise TypeError(
                f"edge_label_index names the edge type {parts[0]!r}, and the dataset has none: "
                f"give the (2, n) edges alone, or None for all"
            )
        return EDGES, edges
    candidates = [(edges, None)]
    if len(parts) == 2:
        candidates.append((parts[0], parts[1]))
    unknown = None
    for name, seeds in candidates:
        if _is_type_name(name):
            try:
                return dataset.edge_type_of(name), seeds
            except KeyError as error:
                unknown = error
    if unknown is not None:
        raise ValueError(f"edge_label_index: {unknown.args[0]}")
    raise ValueError(
        f"the seed edges of a typed graph are of one edge type: give (edge type, edges), or the "
        f"type alone for all of its edges; the edge types are {dataset.edge_types}"
    )


def _is_type_name(name: object) -> bool:
    """Whether it may be the name of an edge type: a text, or several."""
    if isinstance(name, (tuple, list)):
        return len(name) > 0 and all(isinstance(part, str) for part in name)
    return isinstance(name, str)


# --- weights and times


def as_seed_weights(seed_weights: object, labels: Callable[[], Values] | None) -> Values:
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
    is_labelled = (values != -1) & (values == values)  # NaN is not equal to itself
    _, classes, counts = np.unique(values[is_labelled], return_inverse=True, return_counts=True)
    weights = np.zeros(values.shape[0])
    weights[is_labelled] = 1 / counts[classes]
    return weights


def seed_times(
    dataset: Dataset, seeds: SeedNodes, time_attr: str | None, input_time: object
) -> Values | None:
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
    if name not in _times_of_nodes(dataset):
        raise ValueError(
            f"time_attr={name!r} is a time of edges, so seeds have none of their own: "
            f"give input_time, a time for each seed"
        )
    attributes = dataset.nodes[seeds.node_type].attributes
    if name not in attributes:
        raise ValueError(
            f"time_attr={name!r}: nodes of the type {seeds.node_type!r} do not have it: give "
            f"input_time, a time for each seed"
        )
    return attributes[name].gather(seeds.ids)


def node_times(dataset: Dataset, node_type: str) -> tuple[FeatureStore, ...]:
    """The times of the nodes of a type, where nodes have the times that drive sampling."""
    attributes = dataset.nodes[node_type].attributes
    return tuple(attributes[name] for name in _times_of_nodes(dataset) if name in attributes)


def _times_of_nodes(dataset: Dataset) -> list[str]:
    """Names of the times of nodes that drive sampling, each once."""
    drivers = [edges.sampled_by for edges in dataset.edges.values()]
    names = [driver.time for driver in drivers if driver.time and driver.time_level != "edge"]
    return list(dict.fromkeys(names))


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
    drivers: dict[EdgeType, str] = {
        edge_type: driver
        for edge_type, edges in dataset.edges.items()
        if (driver := getattr(edges.sampled_by, kind)) is not None
    }
    names = sorted(set(drivers.values()))
    of_nodes = {key for nodes in dataset.nodes.values() for key in nodes.attributes}
    of_edges = {key for edges in dataset.edges.values() for key in edges.attributes}
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
    others = {edge_type: driver for edge_type, driver in drivers.items() if driver != name}
    if others:
        raise ValueError(
            f"{what}, but others would drive the sampling along other edges: {others}. Build the "
            f"dataset with {option}={name!r}, so that no others do"
        )
    return name
