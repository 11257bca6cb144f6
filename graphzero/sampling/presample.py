"""`Presample`: samples a few epochs, and counts how often each node is in a mini-batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray, as_count, as_threads
from graphzero.graph.sampling_options import as_fanouts, as_seed
from graphzero.sampling.order import batch_positions, epoch_order, num_batches
from graphzero.sampling.pipeline import Pipeline, Stage
from graphzero.sampling.sampler import NeighborSampler
from graphzero.store.manifest import Presampling

__all__ = ["Presample"]


@dataclass(frozen=True)
class Presample:
    """How mini-batches are sampled to count the visits of each node.

    The counts are right for training with the same options: give the fanouts and the batch size
    that you will train with.

    Attributes
    ----------
    fanouts : tuple of int
        Neighbours per node in each hop; -1 for all.
    batch_size : int
        Seeds in a mini-batch.
    epochs : int
    min_batches : int
        If the epochs have fewer mini-batches, more epochs are sampled: a few mini-batches say
        little.
    max_batches : int
        The most mini-batches to sample. If there are more seeds than these need, evenly spaced
        ones are used.
    seed : int
        Of the random draws. The same seed, and the same dataset in the same order, give the same
        counts.

    Raises
    ------
    ValueError
        If a number is not positive, or a fanout neither positive nor -1.
    """

    fanouts: tuple[int, ...] = (15, 10, 5)
    batch_size: int = 1024
    epochs: int = 2
    min_batches: int = 64
    max_batches: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "fanouts", tuple(as_fanouts(self.fanouts)))
        for name in ("batch_size", "epochs", "min_batches", "max_batches"):
            object.__setattr__(self, name, as_count(getattr(self, name), name))
        as_seed(self.seed)

    def num_batches(self, num_seeds: int) -> int:
        """How many mini-batches are sampled, given the number of seeds."""
        wanted = self.epochs * self._per_epoch(num_seeds)
        return min(max(wanted, self.min_batches), self.max_batches)

    def _per_epoch(self, num_seeds: int) -> int:
        # A short last batch would count as much as a full one, and tell less.
        return num_batches(num_seeds, self.batch_size, drop_last=num_seeds >= self.batch_size)

    def count_visits(
        self,
        graph: str | os.PathLike[str],
        seeds: npt.NDArray[np.int64] | None,
        visits: npt.NDArray[np.uint32],
        advance: Callable[[int], object] = lambda _: None,
    ) -> Presampling:
        """Adds to the count of each node the number of mini-batches that it is in.

        Parameters
        ----------
        graph : path-like
            A ``.gl`` file.
        seeds : (n,) int64 or None
            The user's ids; None for all nodes.
        visits : (num_nodes,) uint32
            Counts in stored order, which are added to.
        advance : callable
            Called with 1 after each mini-batch.

        Returns
        -------
        Presampling
            How visits were counted, as ``dataset.json`` records it.
        """
        with Graph(graph) as opened:
            sampler = NeighborSampler(opened, self.fanouts, seed=self.seed, num_threads=1)
            num_seeds = opened.num_nodes if seeds is None else len(seeds)
            batches = self._batches(seeds, num_seeds)

            def sample(item: tuple[int, int, IdArray]) -> IdArray:
                epoch, batch, chosen = item
                return sampler.sample(chosen, epoch=epoch, batch=batch).stored_id

            threads = as_threads(None)
            ahead = Pipeline([Stage(sample, threads)], batches, lookahead=threads)
            with closing(ahead):
                for nodes in ahead:
                    visits[nodes] += 1  # a repeated seed counts once
                    advance(1)
        return Presampling(
            batches=self.num_batches(num_seeds),
            batch_size=self.batch_size,
            fanouts=self.fanouts,
            num_seeds=num_seeds,
            seed=self.seed,
        )

    def _batches(
        self, seeds: npt.NDArray[np.int64] | None, num_seeds: int
    ) -> Iterator[tuple[int, int, IdArray]]:
        """Epoch, batch and seeds of each mini-batch."""
        # Evenly spaced: to shuffle all of very many seeds would take memory for all of them.
        used = min(num_seeds, self.max_batches * self.batch_size)
        per_epoch = self._per_epoch(used)
        for i in range(self.num_batches(num_seeds)):
            epoch, batch = divmod(i, per_epoch)
            if batch == 0:
                order = epoch_order(used, True, as_seed(self.seed), epoch)
            positions = batch_positions(order, batch, self.batch_size) * num_seeds // used
            chosen: Any = positions if seeds is None else seeds[positions]
            yield epoch, batch, np.asarray(chosen, dtype=np.int64)
