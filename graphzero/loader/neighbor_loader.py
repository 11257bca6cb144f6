"""`NeighborLoader`: the ready-made DataLoader around nodes, with PyG's argument names."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy.typing as npt
import torch

from graphzero.graph.dataset import Dataset
from graphzero.io.prefetch import Prefetch
from graphzero.loader.given import (
    as_fanouts_given,
    as_input_ids,
    as_seed_weights,
    dataset_options,
)
from graphzero.loader.given_seeds import as_seed_nodes, node_labels, seed_times
from graphzero.loader.neighbor_dataset import NeighborDataset
from graphzero.loader.seed_loader import SeedLoader

__all__ = ["NeighborLoader"]


class NeighborLoader(SeedLoader):
    """A DataLoader of mini-batches around nodes, with PyG's argument names.

    It is `NeighborDataset` with `Collate` in a ``torch.utils.data.DataLoader``, and yields the same
    batches, byte for byte. docs/loaders.md says what every argument of PyG's ``NeighborLoader``
    means here.

    Every pass is the next epoch, with another order and other draws, for any number of workers; the
    first pass is epoch 0. An epoch is decided when ``iter`` is called, in the process that calls
    it. `set_epoch` chooses another one. `state_dict` and `load_state_dict` resume an interrupted
    epoch; they count the batches that the training loop was given.

    Parameters
    ----------
    dataset : Dataset
        From `graphzero.open`; also as ``data=``.
    num_neighbors : sequence of int, or mapping
        Neighbours per node in each hop; -1 for all. In a typed graph also a list by edge type, or
        PyG's ``NumNeighbors``; the list of "default" is for the types that are not named.
    input_nodes : str, (num_seeds,) integers, (num_nodes,) bool, or pair, optional
        The seeds: the name of a split, ids, or a mask. Default: all nodes. Seeds without a label
        (-1 or NaN) stay seeds, as in PyG. In a typed graph a pair of a node type and these (or
        None), the node type alone for all of its nodes, or the name of a split that exactly one
        node type has.
    input_time : (num_seeds,) integers, optional
        A time for each seed: its tree has only edges up to it.
    input_id : (num_seeds,) integers, optional
        What ``batch.input_id`` has instead of positions in the seeds; for a mask, the default is
        the ids of the nodes.
    replace, disjoint, temporal_strategy, labor, strictly_before, batch_dependency : optional
        How neighbours are drawn: the fields of `Sampling`.
    subgraph_type : {"directional", "induced"}
        The edges that were drawn, or all edges between the nodes of the batch. PyG's enum too.
    time_attr : str, optional
        The name of the times that drive the sampling, which the build chooses. With times of nodes,
        seeds without `input_time` have those of their own nodes; with times of edges, `input_time`
        is required. In a graph without types "edge_time", "time" and "timestamp" name the times,
        whatever they are called.
    weight_attr : str, optional
        The name of the weights of edges by which neighbours are drawn, which the build chooses.
        Edges of types without it are drawn uniformly. In a graph without types also "edge_weight"
        and "weight".
    directed : bool
        False is PyG's former name of ``subgraph_type="induced"``.
    transform : callable, optional
        Gets the batch, in the worker, and returns what the training loop gets.
    batch_size : int
        Seeds in a batch.
    shuffle : bool
        Permute the seeds, anew in every pass.
    drop_last : bool
        Drop the last batch if it is short.
    seed : int, optional
        Order and draws are functions of (seed, epoch). Default: drawn from `generator`, or from
        torch's default generator, when the loader is made; so ``torch.manual_seed`` makes a run
        repeatable, and a loader that is made anew in every epoch does not repeat its batches.
    seed_weights : (num_seeds,) numbers or "balanced", optional
        The seeds of a pass are drawn in proportion to these, with replacement, in random order.
        "balanced": every label has the same share, and seeds without a label have none.
    prefetch : Prefetch, optional
        How pages are read ahead. Default: as `graphzero tune` has found (`Dataset.tuning`), else
        `Prefetch()`.
    feature_dtype : {None, "float32"}
        "float32" converts narrower (or wider) features on the way.
    num_threads : int, optional
        Threads that prepare batches. Default: one in a worker, otherwise all processors.
    distributed, rank, world_size, even : optional
        Which ranks share an epoch, and how evenly, as in `NeighborDataset`. Ranks that share an
        epoch need a `seed`.
    num_workers, pin_memory, persistent_workers, prefetch_factor, timeout, worker_init_fn : optional
        As in torch's DataLoader.
    multiprocessing_context, generator : optional
        As in torch's DataLoader.
    **other
        Further arguments of PyG's loader and torch's DataLoader that have no effect here, or are
        refused.

    Raises
    ------
    TypeError
        If an argument is unknown or refused; the message says what to use instead.
    ValueError, IndexError
        As in `NeighborDataset`; if there is no such split or node type; if an attribute cannot
        drive the sampling, or seeds have no times of their own; if ranks share the seeds, and no
        seed is given.
    """

    _kind = "NeighborLoader"

    def __init__(
        self,
        dataset: Dataset | None = None,
        num_neighbors: Any = None,
        input_nodes: Any = None,
        *,
        input_time: Any = None,
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
        given = as_seed_nodes(input_nodes, ds)
        source = NeighborDataset(
            ds,
            given.given,
            as_fanouts_given(num_neighbors, ds),
            input_time=seed_times(ds, given, time_attr, input_time),
            **dataset_options(arguments),
        )
        if seed_weights is not None:
            labels = partial(node_labels, ds, given.node_type, source.seeds)
            source.weigh_seeds(as_seed_weights(seed_weights, labels))
        nodes = source.seeds if given.is_mask else None
        self._set_up(source, as_input_ids(input_id, nodes, source.num_seeds), arguments)
