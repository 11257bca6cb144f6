"""Checks and conversions of what users give to the ready-made loaders."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray
from graphzero.graph.sampling_options import as_seed
from graphzero.loader.seed_weights import balanced_weights
from graphzero.loader.tickets import Seeds

__all__ = [
    "as_array",
    "as_dataset",
    "as_fanout_list",
    "as_input_ids",
    "as_loader_seed",
    "as_negatives",
    "as_seed_edges",
    "as_seed_nodes",
    "as_seed_weights",
    "as_subgraph_type",
    "check_attribute",
    "dataset_options",
    "edge_labels",
    "node_labels",
]

_TIMES = ("edge_time", "time", "timestamp")
_WEIGHTS = ("edge_weight", "weight")


def as_array(values: Any) -> npt.NDArray[Any]:
    """A NumPy array of a tensor on any device, an array or a list."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
    return np.asarray(values)


def as_dataset(given: Any) -> Dataset:
    """The dataset that a loader is to sample.

    Raises
    ------
    TypeError
        If it is something else; says how to make a dataset of it.
    """
    if isinstance(given, Seeds):  # Lightning makes a loader anew from its attributes
        given = given.source.dataset
    if isinstance(given, Dataset):
        return given
    if given is None:
        raise TypeError("the first argument is missing: a Dataset, from gz.open('data/')")
    if isinstance(given, (str, os.PathLike)):
        raise TypeError(f"a loader takes an open dataset: gz.open({os.fspath(given)!r})")
    kind = type(given[0] if isinstance(given, tuple) and given else given)
    if kind.__module__.partition(".")[0] == "torch_geometric":
        raise TypeError(
            f"a loader reads a dataset from its files, not a {kind.__name__} in memory: write it "
            f"once with ds = graphzero.pyg.from_data(data, 'data/'), and open it with "
            f"gz.open('data/') from then on"
        )
    raise TypeError(f"the first argument must be a Dataset, from gz.open, not {type(given)}")


def as_fanout_list(num_neighbors: Any) -> Any:
    """The fanouts, one for each hop; `NeighborSampler` checks their values."""
    if num_neighbors is None:
        raise TypeError("num_neighbors is missing: neighbours per node in each hop, as [15, 10]")
    if isinstance(num_neighbors, Mapping) or hasattr(num_neighbors, "get_mapped_values"):
        raise TypeError(
            "num_neighbors by edge type needs a dataset with edge types, and this one has none: "
            "give a list, such as [15, 10]"
        )
    return as_array(num_neighbors).tolist()


def as_seed_nodes(input_nodes: Any, dataset: Dataset) -> tuple[Any, bool]:
    """The seeds, and whether they were a mask, whose ``input_id`` are the ids of the nodes.

    Raises
    ------
    ValueError
        If a name is none of a split; names those that exist.
    TypeError
        If a node type is named, and the dataset has none.
    """
    if input_nodes is None:
        return None, False
    if isinstance(input_nodes, str):
        if input_nodes not in dataset.splits:
            raise ValueError(
                f"input_nodes={input_nodes!r} is no split of the dataset: there are "
                f"{sorted(dataset.splits)}"
            )
        return dataset.splits[input_nodes], False
    if isinstance(input_nodes, tuple) and input_nodes and isinstance(input_nodes[0], str):
        raise TypeError(
            f"input_nodes={input_nodes[0]!r}, ... names a node type, and the dataset has none: "
            f"give the ids alone"
        )
    seeds = as_array(input_nodes)
    return seeds, seeds.dtype == np.bool_


def as_seed_edges(edge_label_index: Any, dataset: Dataset) -> npt.NDArray[Any]:
    """The seed edges, (2, n): as given, or all edges, in the order of the edge list if it is known.

    Raises
    ------
    TypeError
        If an edge type is named, and the dataset has none.
    """
    if edge_label_index is None:
        return _all_edges(dataset.graph)
    if isinstance(edge_label_index, tuple) and edge_label_index:
        first = edge_label_index[0]
        if isinstance(first, str) or (isinstance(first, tuple) and isinstance(first[0], str)):
            raise TypeError(
                f"edge_label_index names the edge type {first!r}, and the dataset has none: give "
                f"the (2, n) edges alone, or None for all"
            )
    if isinstance(edge_label_index, (tuple, list)):
        return np.stack([as_array(ends) for ends in edge_label_index])
    return as_array(edge_label_index)


def _all_edges(graph: Graph) -> IdArray:
    num_edges = graph.num_edges
    _core.require_memory(num_edges, 8 * 8, "seed edges")  # with what is made on the way
    lists = graph.sample_neighbors(np.arange(graph.num_nodes), -1)
    owners = np.repeat(np.arange(graph.num_nodes), np.diff(lists.indptr))
    out = graph.is_directed and not graph.is_incoming
    edges = np.stack([owners, lists.indices] if out else [lists.indices, owners])
    return edges if lists.e_id is None else edges[:, np.argsort(lists.e_id, kind="stable")]


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


def as_loader_seed(seed: Any, generator: torch.Generator | None, dealt: bool) -> int:
    """The seed of the order and the draws: as given, or drawn as torch's RandomSampler does.

    Raises
    ------
    ValueError
        If it would be another one on each rank.
    """
    if seed is not None:
        return as_seed(seed)
    if dealt:
        raise ValueError(
            "ranks that share the seeds need the same seed=: give a number, on all ranks alike"
        )
    return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())


def as_seed_weights(seed_weights: Any, labels: Callable[[], npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """The weights of the seeds: as given, or for "balanced", from their labels."""
    if not isinstance(seed_weights, str):
        return as_array(seed_weights)
    if seed_weights != "balanced":
        raise ValueError(
            f"seed_weights must be 'balanced' or a number for each seed, not {seed_weights!r}"
        )
    return balanced_weights(labels())


def node_labels(dataset: Dataset, seeds: IdArray) -> npt.NDArray[Any]:
    """The labels of seeds.

    Raises
    ------
    ValueError
        If the dataset has none.
    """
    if dataset.labels is None:
        raise ValueError("seed_weights='balanced' needs labels, and the dataset has none")
    return dataset.labels.gather(seeds)


def edge_labels(edge_label: Any) -> npt.NDArray[Any]:
    """The labels of seed edges, as given."""
    if edge_label is None:
        raise ValueError("seed_weights='balanced' needs edge_label: give it, or the weights")
    return as_array(edge_label)


def check_attribute(argument: str, name: Any, has: bool) -> bool:
    """Whether an attribute is to drive the sampling.

    Parameters
    ----------
    argument : {"time_attr", "weight_attr"}
    name : str or None
    has : bool
        Whether the graph has it.

    Raises
    ------
    ValueError
        If the graph does not have it, or an attribute of this name cannot drive the sampling.
    """
    if name is None:
        return False
    names, option = (_TIMES, "timestamp=") if argument == "time_attr" else (_WEIGHTS, "weight=")
    if name not in names:
        raise ValueError(
            f"{argument}={name!r} cannot drive the sampling of this dataset: it is "
            f"{names[0]!r}, that which the edges were built with ({option} of gz.build)"
        )
    if not has:
        raise ValueError(
            f"{argument}={name!r}: the edges were built without; build the dataset with {option}"
        )
    return True


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


def as_negatives(neg_sampling: Any, ratio: Any) -> tuple[Any, Any]:
    """Mode and amount of negatives, from any way in which PyG takes them.

    Raises
    ------
    ValueError
        If both are given, or no mode, or if negatives are to be drawn by weights.
    """
    if ratio is not None and ratio != 0:
        if neg_sampling is not None:
            raise ValueError("give neg_sampling or neg_sampling_ratio, not both")
        return "binary", ratio
    if neg_sampling is None:
        return None, 1
    if isinstance(neg_sampling, str):
        found: dict[str, Any] = {"mode": neg_sampling}
    elif isinstance(neg_sampling, Mapping):
        found = dict(neg_sampling)
    elif isinstance(neg_sampling, (tuple, list)):
        found = dict(
            zip(("mode", "amount", "src_weight", "dst_weight"), neg_sampling, strict=False)
        )
    else:
        names = ("mode", "amount", "src_weight", "dst_weight")
        found = {name: getattr(neg_sampling, name, None) for name in names}
    weights = [name for name in ("src_weight", "dst_weight") if found.pop(name, None) is not None]
    if weights:
        raise ValueError(
            f"neg_sampling draws uniformly from the pairs that are not edges: leave out "
            f"{' and '.join(weights)}"
        )
    mode, amount = found.pop("mode", None), found.pop("amount", 1)
    if mode is None:
        raise ValueError(
            f"neg_sampling must be 'binary', 'triplet', (mode, amount), a dict of these, or PyG's "
            f"NegativeSampling, not {neg_sampling!r}"
        )
    if found:
        raise ValueError(f"neg_sampling has a mode and an amount, not {sorted(found)}")
    return getattr(mode, "value", mode), amount


_SAME_NAMES = (
    *("replace", "disjoint", "temporal_strategy", "labor", "strictly_before", "batch_dependency"),
    *("batch_size", "drop_last", "seed", "prefetch", "feature_dtype", "num_threads"),
    *("distributed", "rank", "world_size", "even"),
)


def dataset_options(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `NeighborDataset` and `LinkNeighborDataset` alike."""
    has_weights = arguments["dataset"].graph.weights is not None
    return {
        **{name: arguments[name] for name in _SAME_NAMES},
        "shuffle": bool(arguments["shuffle"]),
        "weighted": check_attribute("weight_attr", arguments["weight_attr"], has_weights),
        "subgraph_type": as_subgraph_type(arguments["subgraph_type"], arguments["directed"]),
    }
