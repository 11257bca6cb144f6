"""`time_attr` and `weight_attr`: attributes that drive sampling, by their names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.ids import IdArray
from graphzero.graph.typed_dataset import TypedDataset
from graphzero.store.schema import Driving

__all__ = ["driving_attribute", "node_times", "own_times", "time_level"]

# The field of `Driving`, the option of gz.build, and other names where there is one such attribute.
_ARGUMENTS = {
    "weight_attr": ("weight", "weight_attrs", ("edge_weight", "weight")),
    "time_attr": ("time", "time_attrs", ("edge_time", "time", "timestamp")),
}


def _drivers(dataset: Dataset) -> dict[Any, Driving]:
    """What drives the sampling along the edges of each type; the key is None without types."""
    if isinstance(dataset, TypedDataset):
        return {kind: edges.driving for kind, edges in dataset.edges.items()}
    graph, driving = dataset.graph, dataset.driving
    return {
        None: Driving(
            None if graph.weights is None else driving.weight,
            None if graph.times is None else driving.time,
            driving.time_level,
        )
    }


def _attribute_names(dataset: Dataset) -> tuple[set[str], set[str]]:
    """Names of the attributes of all nodes, and of all edges."""
    if isinstance(dataset, TypedDataset):
        nodes, edges = dataset.nodes.values(), dataset.edges.values()
        return {name for each in nodes for name in each}, {name for each in edges for name in each}
    return set(dataset.attributes), set(dataset.edge_attributes)


def driving_attribute(dataset: Dataset, argument: str, name: str | None) -> str | None:
    """The attribute that is to drive the sampling, by its name in the dataset.

    Parameters
    ----------
    dataset : Dataset
    argument : {"time_attr", "weight_attr"}
    name : str or None
        In a graph without types also "time", "timestamp", "edge_time", "weight" or "edge_weight",
        whatever the attribute is called.

    Returns
    -------
    str or None
        None if `name` is.

    Raises
    ------
    ValueError
        If there is no such attribute, if it does not drive sampling, if nodes and edges have it,
        or if edges of another type would be sampled by another attribute.
    """
    if name is None:
        return None
    field, option, aliases = _ARGUMENTS[argument]
    drivers: dict[Any, str | None] = {
        kind: getattr(each, field) for kind, each in _drivers(dataset).items()
    }
    of_nodes, of_edges = _attribute_names(dataset)
    names = sorted({each for each in drivers.values() if each is not None})
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
            f"{what} cannot drive the sampling: {_why(dataset, argument, name, names)}"
        )
    others = {kind: each for kind, each in drivers.items() if each not in (None, name)}
    if others:
        raise ValueError(
            f"{what}, but others would drive the sampling along other edges: {others}. Build the "
            f"dataset with {option}={name!r}, so that no others do"
        )
    return name


def _why(dataset: Dataset, argument: str, name: str, names: list[str]) -> str:
    """Why an attribute drives nothing, and what to do."""
    field, option, _ = _ARGUMENTS[argument]
    of_nodes, of_edges = _attribute_names(dataset)
    if name in of_edges or (name in of_nodes and argument == "time_attr"):
        return f"build the dataset with {option}={name!r}"
    missing = "weights are attributes of edges" if name in of_nodes else "there is none"
    if names:
        return f"{missing}, and those that can are {names}"
    return f"{missing}, and the dataset was built without {field}s; build it with {option}="


def time_level(dataset: Dataset, name: str) -> str:
    """Whether a time is one of "edge" or "node"."""
    levels = {each.time: each.time_level for each in _drivers(dataset).values()}
    return levels[name]


def own_times(
    dataset: Dataset, name: str, node_type: str | None, seeds: IdArray
) -> npt.NDArray[Any]:
    """The times of seed nodes themselves, as PyG takes them.

    Parameters
    ----------
    dataset : Dataset
    name : str
        From `driving_attribute`.
    node_type : str or None
    seeds : (n,) int64

    Raises
    ------
    ValueError
        If the times are those of edges, or of nodes of other types.
    """
    if time_level(dataset, name) == "edge":
        raise ValueError(
            f"time_attr={name!r} is a time of edges, so seeds have none of their own: "
            f"give input_time, a time for each seed"
        )
    stores = _stores(dataset, node_type)
    if name not in stores:
        raise ValueError(
            f"time_attr={name!r}: nodes of the type {node_type!r} do not have it: give input_time, "
            f"a time for each seed"
        )
    times: npt.NDArray[Any] = stores[name].gather(seeds)
    return times


def node_times(dataset: Dataset, node_type: str | None) -> tuple[FeatureStore, ...]:
    """The times of the nodes of a type, where nodes have the times that drive sampling."""
    stores = _stores(dataset, node_type)
    of_nodes = [each.time for each in _drivers(dataset).values() if each.time_level == "node"]
    names = [name for name in dict.fromkeys(of_nodes) if name is not None]
    return tuple(stores[name] for name in names if name in stores)


def _stores(dataset: Dataset, node_type: str | None) -> Mapping[str, FeatureStore]:
    """The attributes of the nodes of a type."""
    if isinstance(dataset, TypedDataset) and node_type is not None:
        return dataset.nodes[node_type]
    return dataset.attributes
