"""Where the draws of a case come from: the library, or the naive versions that stand for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import reference
import reference_negatives

import graphzero as gz
from graphzero.sampling.order import epoch_order

Ids = npt.NDArray[np.int64]


class Source(Protocol):
    """All ids are the user's."""

    def hop(self, seeds: Any, fanout: int, **options: Any) -> Ids:
        """Neighbours that were drawn for all seeds, one seed after the other."""

    def hops(self, seeds: Any, fanouts: list[int], *, batches: int) -> list[Ids]:
        """The same for each of so many batches, one hop after the other."""

    def edges(self, seeds: Any, fanout: int, *, batch: int, times: Any, **options: Any) -> Ids:
        """(target, its number in the batch, neighbour) of each edge of a one-hop batch, (n, 3)."""

    def walk(self, start: Any, length: int, **options: Any) -> Ids:
        """Walks, (n, length + 1)."""

    def pairs(self, count: int) -> Ids:
        """Pairs that are no edges, (count, 2)."""

    def destinations(self, edges: Any, amount: int) -> Ids:
        """Nodes that the source of each edge has no edge to, (edges, amount)."""

    def order(self, count: int, *, epoch: int) -> Ids:
        """A permutation, (count,)."""


def _edges(n_id: Ids, edge_index: Ids) -> Ids:
    return np.stack([n_id[edge_index[1]], edge_index[1], n_id[edge_index[0]]], axis=1)


@dataclass(frozen=True)
class Library:
    """graphzero itself."""

    ds: gz.Dataset

    def hop(self, seeds, fanout, **options):
        return self.ds.graph.sample_neighbors(seeds, fanout, num_threads=1, **options).indices

    def hops(self, seeds, fanouts, *, batches):
        sampler = gz.NeighborSampler(self.ds.graph, fanouts, num_threads=1)
        drawn = [sampler.sample(seeds, batch=batch) for batch in range(batches)]
        return [subgraph.n_id[subgraph.edge_index[0]] for subgraph in drawn]

    def edges(self, seeds, fanout, *, batch=0, times=None, **options):
        sampler = gz.NeighborSampler(self.ds.graph, [fanout], num_threads=1, **options)
        got = sampler.sample(seeds, seed_time=times, batch=batch)
        return _edges(got.n_id, got.edge_index)

    def walk(self, start, length, **options):
        return self.ds.graph.random_walk(start, length, num_threads=1, **options)

    def _links(self, edges, mode, amount):
        batches = gz.LinkNeighborDataset(
            self.ds, edges, [1], neg_sampling=mode, amount=amount, num_threads=1
        )
        (batch,) = map(gz.Collate(self.ds), batches)
        return batch

    def pairs(self, count):
        batch = self._links([[0], [1]], "binary", count)
        return batch.n_id[batch.edge_label_index[:, 1:]].numpy().T

    def destinations(self, edges, amount):
        batch = self._links(edges, "triplet", amount)
        return batch.n_id[batch.dst_neg_index].numpy()

    def order(self, count, *, epoch):
        return epoch_order(count, True, 0, epoch)


@dataclass(frozen=True)
class Twin:
    """The naive versions, which draw the same numbers for the same purposes."""

    graph: reference.Adjacency

    def hop(self, seeds, fanout, **options):
        drawn = reference.sample(self.graph, seeds, [fanout], **options)
        return drawn["n_id"][drawn["edge_index"][0]]

    def hops(self, seeds, fanouts, *, batches):
        drawn = [reference.sample(self.graph, seeds, fanouts, batch=b) for b in range(batches)]
        return [subgraph["n_id"][subgraph["edge_index"][0]] for subgraph in drawn]

    def edges(self, seeds, fanout, **options):
        got = reference.sample(self.graph, seeds, [fanout], **options)
        return _edges(got["n_id"], got["edge_index"])

    def walk(self, start, length, **options):
        return reference.walk(self.graph, start, length, **options)

    def pairs(self, count):
        return reference_negatives.pairs(self.graph, count).T

    def destinations(self, edges, amount):
        return reference_negatives.destinations(self.graph, *edges, amount).reshape(-1, amount)

    def order(self, count, *, epoch):
        return reference.permutation(count, reference.key(reference.SHUFFLE, 0, epoch, 0))
