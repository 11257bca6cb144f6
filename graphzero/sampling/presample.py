"""`Presample`: how often nodes are visited, found by sampling a few epochs ahead of time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray, as_count, as_threads
from graphzero.graph.sampling_options import as_fanout, as_seed
from graphzero.sampling.order import batch_positions, epoch_order, num_batches
from graphzero.sampling.pipeline import Stage, run_ahead
from graphzero.sampling.sampler import NeighborSampler
from graphzero.store.manifest import Presampling

__all__ = ["Presample"]


@dataclass(frozen=True)
class Presample:
    """How mini-batches are sampled to count visits; the defaults are those of usual training.

    The counts hold for training like this: give the fanouts and the batch size of the training.

    Attributes
    ----------
    fanouts : tuple of int
    batch_size : int
    epochs : int
    min_batches : int
        More epochs are sampled until there are so many: a few mini-batches say little.
    max_batches : int
        The most to sample. Of more seeds than that needs, evenly spread ones are taken.
    seed : int
        Of the draws: the same seed, and the same dataset in the same order, give the same counts.

    Raises
    ------
    ValueError
        If a number is not positive (fanouts: nor -1).
    """

    fanouts: tuple[int, ...] = (15, 10, 5)
    batch_size: int = 1024
    epochs: int = 2
    min_batches: int = 64
    max_batches: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "fanouts", tuple(as_fanout(each) for each in self.fanouts))
        for name in ("batch_size", "epochs", "min_batches", "max_batches"):
            object.__setattr__(self, name, as_count(getattr(self, name), name))
        as_seed(self.seed)

    def num_batches(self, num_seeds: int) -> int:
        """Mini-batches that are sampled from so many seeds."""
        wanted = self.epochs * self._per_epoch(num_seeds)
        return min(max(wanted, self.min_batches), self.max_batches)

    def _per_epoch(self, num_seeds: int) -> int:
        # A short last one would count as much as a full one, and stand for less.
        return num_batches(num_seeds, self.batch_size, drop_last=num_seeds >= self.batch_size)

    def count_visits(
        self,
        graph: str | os.PathLike[str],
        seeds: npt.NDArray[np.int64] | None,
        visits: npt.NDArray[np.uint32],
        advance: Callable[[int], object] = lambda _: None,
    ) -> Presampling:
        """Adds to each stored node's count the mini-batches that it is in.

        Parameters
        ----------
        graph : path-like
            A ``.gl`` file.
        seeds : (n,) int64 or None
            The user's ids; None for all nodes.
        visits : (num_nodes,) uint32
            Added to, in the order of the file.
        advance : callable
            Called with 1 after each mini-batch.

        Returns
        -------
        Presampling
            How they were counted, as the dataset's ``dataset.json`` says it.
        """
        with Graph(graph) as opened:
            sampler = NeighborSampler(opened, self.fanouts, seed=self.seed, num_threads=1)
            num_seeds = opened.num_nodes if seeds is None else len(seeds)
            batches = self._batches(seeds, num_seeds)

            def sample(item: tuple[int, int, IdArray]) -> IdArray:
                epoch, batch, chosen = item
                return sampler.sample(chosen, epoch=epoch, batch=batch).stored_id

            threads = as_threads(None)
            for nodes in run_ahead([Stage(sample, threads)], batches, lookahead=threads):
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
        # Evenly spread, because shuffling all of very many seeds takes memory for all of them.
        used = min(num_seeds, self.max_batches * self.batch_size)
        per_epoch = self._per_epoch(used)
        for i in range(self.num_batches(num_seeds)):
            epoch, batch = divmod(i, per_epoch)
            if batch == 0:
                order = epoch_order(used, True, as_seed(self.seed), epoch)
            positions = batch_positions(order, batch, self.batch_size) * num_seeds // used
            chosen: Any = positions if seeds is None else seeds[positions]
            yield epoch, batch, np.asarray(chosen, dtype=np.int64)
