"""`NeighborLoader`: the ready-made DataLoader around nodes, with PyG's argument names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy.typing as npt
import torch

from graphzero.io.prefetch import Prefetch
from graphzero.loader.given import (
    as_array,
    as_fanout_list,
    as_input_ids,
    as_seed_nodes,
    check_attribute,
    dataset_options,
)
from graphzero.loader.neighbor_dataset import NeighborDataset
from graphzero.loader.seed_loader import SeedLoader

__all__ = ["NeighborLoader"]


class NeighborLoader(SeedLoader):
    """A DataLoader of mini-batches around nodes, with the argument names of PyG's NeighborLoader."""

    def __init__(
        self,
        dataset: Any = None,
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
        timed = check_attribute("time_attr", time_attr, ds.graph.times is not None)
        if timed and input_time is None:
            raise ValueError(f"time_attr={time_attr!r} needs a time for each seed: give input_time")
        seeds, is_mask = as_seed_nodes(input_nodes, ds)
        source = NeighborDataset(
            ds,
            seeds,
            as_fanout_list(num_neighbors),
            input_time=None if input_time is None else as_array(input_time),
            **dataset_options(arguments),
        )
        self._set_up(
            source,
            as_input_ids(input_id, source.seeds if is_mask else None, len(source.seeds)),
            arguments,
        )
