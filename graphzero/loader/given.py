"""Checks and conversions of what users give to the ready-made loaders."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from graphzero.graph.dataset import Dataset
from graphzero.graph.ids import IdArray
from graphzero.graph.sampling_options import as_seed
from graphzero.loader.driving import driving_attribute
from graphzero.loader.seed_weights import balanced_weights
from graphzero.loader.tickets import Seeds

__all__ = [
    "as_array",
    "as_dataset",
    "as_fanouts_given",
    "as_input_ids",
    "as_loader_seed",
    "as_negatives",
    "as_seed_weights",
    "as_subgraph_type",
    "dataset_options",
]


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


def as_fanouts_given(num_neighbors: Any, dataset: Dataset) -> Any:
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


_SAME_NAMES = (
    *("replace", "disjoint", "temporal_strategy", "labor", "strictly_before", "batch_dependency"),
    *("batch_size", "drop_last", "seed", "prefetch", "feature_dtype", "num_threads"),
    *("distributed", "rank", "world_size", "even"),
)


def dataset_options(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of `NeighborDataset` and `LinkNeighborDataset` alike."""
    weight = driving_attribute(arguments["dataset"], "weight_attr", arguments["weight_attr"])
    return {
        **{name: arguments[name] for name in _SAME_NAMES},
        "shuffle": bool(arguments["shuffle"]),
        "weighted": weight is not None,
        "subgraph_type": as_subgraph_type(arguments["subgraph_type"], arguments["directed"]),
    }
