"""`LinkNeighborLoader`: the ready-made DataLoader around edges, with PyG's argument names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy.typing as npt
import torch

from graphzero.graph.dataset import Dataset
from graphzero.io.prefetch import Prefetch
from graphzero.loader.driving import driving_attribute
from graphzero.loader.given import (
    as_array,
    as_fanouts_given,
    as_input_ids,
    as_negatives,
    as_seed_weights,
    dataset_options,
)
from graphzero.loader.given_seeds import as_seed_edges, edge_labels
from graphzero.loader.link_neighbor_dataset import LinkNeighborDataset
from graphzero.loader.seed_loader import SeedLoader

__all__ = ["LinkNeighborLoader"]


class LinkNeighborLoader(SeedLoader):
    """A DataLoader of mini-batches around edges, with PyG's argument names.

    It is `LinkNeighborDataset` in a ``torch.utils.data.DataLoader``, and yields its batches byte
    for byte. What all arguments of PyG's ``LinkNeighborLoader`` mean here is in docs/loaders.md.
    Passes, seeds, workers, ranks and resuming are those of `NeighborLoader`.

    Parameters
    ----------
    dataset : Dataset
        From `graphzero.open`; also as ``data=``.
    num_neighbors : sequence of int, or mapping
        Neighbours per node in each hop, as in `NeighborLoader`; -1 for all.
    edge_label_index : (2, num_edges) integers, str, or pair, optional
        Seed edges: sources, destinations; or the name of an edge split. Default: all edges of the
        graph, both directions of an undirected edge. They take 16 bytes of memory each. In a typed
        graph a pair of an edge type and these (or None), or the edge type alone for all of its
        edges.
    edge_label : (num_edges, ...) numbers, optional
        Labels of the seed edges; see `LinkNeighborDataset`.
    edge_label_time : (num_edges,) integers, optional
        A time for each seed edge, whose trees have only edges up to it; `time_attr` needs it.
    neg_sampling : str, tuple, dict or object, optional
        "binary" or "triplet"; with an amount of negatives for each seed edge and weights of the
        nodes, (mode, amount, src_weight, dst_weight), a dict of these, or PyG's
        ``NegativeSampling``.
    neg_sampling_ratio : float, optional
        The same as ``("binary", ratio)``.
    input_id : (num_edges,) integers, optional
        What ``batch.input_id`` has instead of positions of the seed edges.
    seed_weights : (num_edges,) numbers, optional
        Seed edges are drawn in proportion, with replacement, anew in every pass. "balanced" needs
        `edge_label`, and gives each of its values the same share.
    **options
        All others as in `NeighborLoader`.

    Raises
    ------
    TypeError
        If an argument is unknown or refused; the message says what to use instead.
    ValueError, IndexError
        As in `LinkNeighborDataset`; if an attribute cannot drive the sampling; if ranks share the
        seeds, and no seed is given.
    """

    _kind = "LinkNeighborLoader"

    def __init__(
        self,
        dataset: Dataset | None = None,
        num_neighbors: Any = None,
        edge_label_index: Any = None,
        edge_label: Any = None,
        *,
        edge_label_time: Any = None,
        neg_sampling: Any = None,
        neg_sampling_ratio: float | None = None,
        input_id: Any = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: Literal["uniform", "last"] = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        directed: bool = True,
        labor: bool = False,
        strictly_before: bool = False,
        batch_dependency: int = 1,
        transform: Callable[[Any], Any] | None = None,
        batch_size: int = 1,
        shuffle: bool | None = False,
        drop_last: bool = False,
        seed: int | None = None,
        seed_weights: Any = None,
        prefetch: Prefetch | None = None,
        feature_dtype: npt.DTypeLike | None = None,
        num_threads: int | None = None,
        distributed: bool | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        even: bool = True,
        num_workers: int = 0,
        pin_memory: bool = False,
        persistent_workers: bool = False,
        prefetch_factor: int | None = None,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: torch.Generator | None = None,
        **other: Any,
    ) -> None:
        arguments = self._take(locals())
        ds = arguments["dataset"]
        if driving_attribute(ds, "time_attr", time_attr) and edge_label_time is None:
            raise ValueError(
                f"time_attr={time_attr!r} needs a time for each seed edge: give edge_label_time"
            )
        source = LinkNeighborDataset(
            ds,
            as_seed_edges(edge_label_index, ds),
            as_fanouts_given(num_neighbors, ds),
            edge_label=None if edge_label is None else as_array(edge_label),
            edge_label_time=None if edge_label_time is None else as_array(edge_label_time),
            **as_negatives(neg_sampling, neg_sampling_ratio),
            **dataset_options(arguments),
        )
        if seed_weights is not None:
            source.weigh_seeds(as_seed_weights(seed_weights, partial(edge_labels, edge_label)))
        self._set_up(source, as_input_ids(input_id, None, source.num_seeds), arguments)
