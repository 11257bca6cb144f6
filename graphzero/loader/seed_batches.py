"""`SeedBatches`: which mini-batches an epoch has, and how one of them is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.ids import IdArray, as_count, as_threads
from graphzero.io.prefetch import Prefetch
from graphzero.io.row_sources import RowKey, RowSource, row_sources
from graphzero.io.topology import TopologyFile, topology_files
from graphzero.loader.resume import GRAPH
from graphzero.loader.sampled_batch import SampledBatch
from graphzero.loader.tuned_prefetch import prefetch_of
from graphzero.sampling.hop_readahead import HopReadAhead
from graphzero.sampling.order import batch_positions, epoch_order, num_batches
from graphzero.sampling.sampler import NeighborSampler
from graphzero.sampling.typed_sampler import TypedNeighborSampler

__all__ = ["SeedBatches"]

AnySampler: TypeAlias = NeighborSampler | TypedNeighborSampler


def _as_feature_dtype(value: Any) -> np.dtype[Any] | None:
    float32 = np.dtype(np.float32)
    try:
        fits = value is None or np.dtype(value) == float32
    except TypeError:
        fits = False
    if not fits:
        raise ValueError(f"feature_dtype must be 'float32', or None for as stored, not {value!r}")
    return None if value is None else float32


def _name(key: RowKey) -> str:
    """Name of an attribute, without the type."""
    return key if isinstance(key, str) else key[1]


def _as_names(gather: Sequence[str] | None, dataset: Dataset) -> tuple[str, ...] | None:
    if gather is None:
        return None
    if isinstance(gather, str):
        raise ValueError(f"gather names several attributes: use [{gather!r}]")
    known = {"x", "y", *map(_name, row_sources(dataset))}
    unknown = sorted(set(gather) - known)
    if unknown:
        raise ValueError(f"gather names {unknown}, and the dataset has {sorted(known)}")
    return tuple(gather)


class SeedBatches:
    """The mini-batches of an epoch as a function of options; it holds no position and no thread.

    A subclass says how many seeds there are, and samples the mini-batch of some of them.

    Attributes
    ----------
    dataset : Dataset
    sampler : NeighborSampler or TypedNeighborSampler
    num_seeds, batch_size : int
    shuffle, drop_last : bool
    prefetch : Prefetch
    prefetch_note : str
        Whether it was tuned, or why not; empty if that was no question.
    gather : tuple of str, or None
        The attributes that mini-batches have; None for all.
    feature_dtype : numpy.dtype or None
    num_threads : int or None
    input_time : (num_seeds,) int64 or None
        The times of the seeds, in subclasses whose seeds have times.
    """

    input_time: IdArray | None = None
    translates_seeds = True  # for each mini-batch, into the graph's stored ids

    def __init__(
        self,
        dataset: Dataset,
        sampler: AnySampler,
        num_seeds: int,
        *,
        batch_size: int,
        shuffle: bool,
        drop_last: bool,
        prefetch: Prefetch | None,
        gather: Sequence[str] | None,
        feature_dtype: npt.DTypeLike | None,
        num_threads: int | None,
    ) -> None:
        super().__init__()
        dataset.warn_of_direction()
        self.dataset = dataset
        self.sampler = sampler
        self.num_seeds = num_seeds
        self.batch_size = as_count(batch_size, "batch_size")
        self.shuffle = bool(shuffle)
        self.drop_last = bool(drop_last)
        self.gather = _as_names(gather, dataset)
        self.feature_dtype = _as_feature_dtype(feature_dtype)
        self.prefetch, self.prefetch_note = prefetch_of(dataset, prefetch)
        self.num_threads = None if num_threads is None else as_threads(num_threads)

    def sample(
        self,
        positions: IdArray,
        *,
        epoch: int,
        batch: int,
        readahead: Sequence[HopReadAhead] | None = None,
    ) -> SampledBatch:
        """The mini-batch of the seeds at some positions, without rows; called in any thread.

        `readahead` is that of each file of `topology`.
        """
        raise NotImplementedError

    def with_rows(self, sampled: SampledBatch, num_threads: int) -> SampledBatch:
        """A mini-batch outside of an iteration, with its rows, gathered from the mapped files."""
        rows: dict[RowKey, npt.NDArray[Any]] = {}
        for name, source in self.row_sources(0).items():
            wanted = source.rows_of(0, sampled.subgraph)
            dtype = self.feature_dtype if source.is_converted else None
            rows[name] = source.store.gather_stored(wanted, None, num_threads, dtype=dtype)
        return replace(sampled, rows=rows)

    def seed_options(self) -> dict[str, Any]:
        """What distinguishes the seeds from others, in plain numbers and strings."""
        raise NotImplementedError

    def sampled_epoch(self, epoch: int) -> int:
        """The epoch whose order and draws an epoch has: itself, unless a subclass repeats some."""
        return epoch

    def row_sources(self, epoch: int) -> dict[RowKey, RowSource]:
        """Where the rows of an epoch's mini-batches are found, by the names of attributes."""
        del epoch
        found = row_sources(self.dataset)
        if self.gather is None:
            return found
        return {key: source for key, source in found.items() if _name(key) in self.gather}

    @property
    def mappings(self) -> list[_core.Mapping]:
        """A mapping of every file that is sampled or read: the dataset's, and those of a pack."""
        found = {mapping.path: mapping for mapping in self.dataset.mappings}
        for source in self.row_sources(0).values():
            found.setdefault(source.store.mapping.path, source.store.mapping)
        return list(found.values())

    @property
    def num_batches(self) -> int:
        """Mini-batches of an epoch, over all ranks."""
        return num_batches(self.num_seeds, self.batch_size, self.drop_last)

    @cached_property
    def options(self) -> dict[str, Any]:
        """All that the mini-batches of an epoch are a function of, in plain values."""
        return {
            "num_nodes": self.dataset.num_nodes,
            "num_edges": self.dataset.num_edges,
            "num_seeds": self.num_seeds,
            **self.seed_options(),
            "fanouts": self.sampler.fanout_options,
            "batch_size": self.batch_size,
            "shuffle": self.shuffle,
            "drop_last": self.drop_last,
            **asdict(self.sampler.sampling),
            "seed": self.sampler.seed,
        }

    @cached_property
    def state_options(self) -> dict[str, Any]:
        """`options`, and a fingerprint of the graph as far as the mini-batches depend on it."""
        prints = [
            file.graph.fingerprint({*file.sections} - {"node_rank"})  # the inverse of node_ids
            for file in self.topology
        ]
        return {**self.options, GRAPH: "-".join(prints)}

    @property
    def topology(self) -> list[TopologyFile]:
        """What sampling reads of the graph's files."""
        return topology_files(
            self.dataset,
            self.sampler.sampling,
            timed=self.input_time is not None,
            translates_seeds=self.translates_seeds,
        )

    def epoch_order(self, epoch: int) -> IdArray:
        """Positions in the seed array in the order of an epoch, (num_seeds,) int64."""
        return epoch_order(self.num_seeds, self.shuffle, self.sampler.seed, epoch)

    def positions(self, epoch: int, batch: int) -> IdArray:
        """Positions in the seed array of one mini-batch, (batch_size,) int64."""
        return batch_positions(self.epoch_order(epoch), batch, self.batch_size)
