"""Arguments of datasets and loaders: their names, PyG's included, and options, checked."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from graphzero.graph.dataset import Dataset
from graphzero.graph.user_input import Fanouts, Sampling, SamplingOptions, as_array, as_threads
from graphzero.io.prefetch import Prefetch
from graphzero.io.row_io import row_sources
from graphzero.loader.padding import as_pad
from graphzero.loader.ranks import Ranks
from graphzero.loader.seeds import sampling_attribute
from graphzero.units import as_count

Options = TypeVar("Options")

# --- the names of options, by who has them


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

    pad: object


class DataLoaderOptions(TypedDict, total=False):
    """The options of torch's DataLoader that a ready-made loader has as well."""

    num_workers: int
    pin_memory: bool
    persistent_workers: bool
    prefetch_factor: int | None
    timeout: float
    worker_init_fn: Callable[[int], None] | None
    multiprocessing_context: object
    generator: object


class SeedLoaderOptions(SeedOptions, DataLoaderOptions, total=False):
    """Options of every ready-made loader; see `NeighborLoader`."""

    transform: Callable[[Any], object] | None
    device: object
    device_cache: object


class SampledLoaderOptions(SeedLoaderOptions, SamplingOptions, total=False):
    """Options of ready-made loaders of nodes and of edges; see `NeighborLoader`."""

    time_attr: str | None
    weight_attr: str | None
    directed: bool
    input_id: object
    seed_weights: object
    pad: object


class NeighborLoaderOptions(SampledLoaderOptions, total=False):
    """The options of `NeighborLoader`."""

    input_time: object


class LinkNeighborLoaderOptions(SampledLoaderOptions, total=False):
    """The options of `LinkNeighborLoader`."""

    edge_label_time: object
    neg_sampling: object
    neg_sampling_ratio: float | None
    exclude_seed_edges: bool | Sequence[object]


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


def check_loader_keywords(
    loader: type, keywords: Mapping[str, object], names: Iterable[str]
) -> None:
    """Refuses keywords that a ready-made loader does not have, or does not take.

    Raises
    ------
    TypeError
        That says what to use instead.
    """
    for name, value in keywords.items():
        if name in REFUSED and value is not None and (name, value) != ("in_order", True):
            raise TypeError(f"{loader.__name__} takes no {name}: {REFUSED[name]}")
    check_keywords(loader, keywords, {*names, *REFUSED, *NO_EFFECT, "data"})


def check_keywords(owner: type, keywords: Iterable[str], names: Iterable[str]) -> None:
    """Refuses keywords that a class does not have.

    Raises
    ------
    TypeError
        That says which names it has, the closest if there are any.
    """
    names = sorted({*names, *inspect.signature(owner).parameters} - {"options", "batching"})
    other_names = {name: other for pair in _TWO_NAMES for name, other in (pair, pair[::-1])}
    for name in keywords:
        if name not in names:
            other = other_names.get(name)
            close = [other] if other in names else difflib.get_close_matches(name, names)
            answer = f"did you mean {' or '.join(close)}?" if close else f"it has {names}"
            raise TypeError(f"{owner.__name__} has no argument {name!r}: {answer}")


# --- their values


@dataclass(frozen=True)
class Batching:
    """Which mini-batches an epoch has, and how they are prepared: options, checked.

    `NeighborDataset` describes them.

    Raises
    ------
    ValueError
        If one is invalid, or contradicts another.
    """

    sampling: Sampling = field(default_factory=Sampling)
    ranks: Ranks = field(default_factory=Ranks)
    batch_size: int = 1024
    shuffle: bool = False
    drop_last: bool = False
    seed: int = 0  # which the sampler checks
    prefetch: Prefetch = field(default_factory=Prefetch)
    gather: tuple[str, ...] | None = None
    feature_dtype: np.dtype[np.float32] | None = None
    num_threads: int | None = None
    pad: str | tuple[Mapping[str, Any], ...] | None = None

    @classmethod
    def of(cls, keywords: Mapping[str, object]) -> Batching:
        """Those among some keywords."""
        sampling, ranks = _options_of(Sampling, keywords), _options_of(Ranks, keywords)
        return _options_of(cls, {**keywords, "sampling": sampling, "ranks": ranks})

    def __post_init__(self) -> None:
        if isinstance(self.gather, str):
            raise ValueError(f"gather names several attributes: use [{self.gather!r}]")
        vars(self).update(
            batch_size=as_count(self.batch_size, "batch_size"),
            shuffle=bool(self.shuffle),
            drop_last=bool(self.drop_last),
            prefetch=self.prefetch or Prefetch(),
            gather=None if self.gather is None else tuple(self.gather),
            feature_dtype=_as_feature_dtype(self.feature_dtype),
            num_threads=None if self.num_threads is None else as_threads(self.num_threads),
            pad=as_pad(self.pad),
        )

    def values(self) -> dict[str, object]:
        """All options, by name."""
        return {**vars(self), **vars(self.sampling), **vars(self.ranks)}

    def check_gather(self, dataset: Dataset) -> None:
        """Refuses names of attributes that a dataset does not have.

        Raises
        ------
        ValueError
        """
        keys = row_sources(dataset)
        names = {"x", "y", *(key if isinstance(key, str) else key[1] for key in keys)}
        unknown = sorted(set(self.gather or ()) - names)
        if unknown:
            raise ValueError(f"gather names {unknown}, and the dataset has {sorted(names)}")


def _options_of(kind: type[Options], keywords: Mapping[str, Any]) -> Options:
    """An object of options, of those keywords that it has fields for."""
    names = [option.name for option in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: keywords[name] for name in names if name in keywords})


def _as_feature_dtype(value: Any) -> np.dtype[np.float32] | None:
    if value is None:
        return None
    with suppress(TypeError):
        if np.dtype(value) == np.float32:
            return np.dtype(np.float32)
    raise ValueError(f"feature_dtype must be 'float32', or None for as stored, not {value!r}")


@dataclass(frozen=True)
class LoaderArguments:
    """The arguments of a ready-made loader, whose names were checked.

    Attributes
    ----------
    dataset : Dataset
    values : dict
        All others by name, as they were given; None where they were not.
    """

    dataset: Dataset
    values: dict[str, Any]

    def get(self, name: str) -> Any:
        """The value of an argument; None if it has none."""
        return self.values.get(name)

    def options(self, names: Iterable[str]) -> dict[str, Any]:
        """Those of some options that were given."""
        return {name: self.values[name] for name in names if name in self.values}

    def batching(self) -> Batching:
        """The options of the dataset of seeds, of which PyG calls some by other names."""
        options = dict(self.values)
        if sampling_attribute(self.dataset, "weight_attr", self.get("weight_attr")) is not None:
            options["weighted"] = True
        subgraph_type = self.values.get("subgraph_type", "directional")
        options["subgraph_type"] = _as_subgraph_type(subgraph_type, self.get("directed"))
        return Batching.of(options)


def as_num_neighbors(num_neighbors: Any) -> Fanouts:
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
        hops: list[int] = as_array(num_neighbors).tolist()
        return hops
    return {name: as_array(hops).tolist() for name, hops in num_neighbors.items()}


def _as_subgraph_type(subgraph_type: Any, directed: object) -> Any:
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
