"""Where the draws of a case come from: the library, or the naive versions that stand for it."""

from __future__ import annotations

from dataclasses import dataclass

import reference
import reference_negatives

import graphzero as gz
from graphzero.sampling.order import epoch_order


@dataclass(frozen=True)
class Library:
    """graphzero itself: walks (n, length + 1), pairs that are no edges (count, 2), destinations
    that the source of each edge has no edge to (edges, amount), and permutations (count,).
    """

    ds: gz.Dataset

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

    def walk(self, start, length, **options):
        return reference.walk(self.graph, start, length, **options)

    def pairs(self, count):
        return reference_negatives.pairs(self.graph, count).T

    def destinations(self, edges, amount):
        return reference_negatives.destinations(self.graph, *edges, amount).reshape(-1, amount)

    def order(self, count, *, epoch):
        return reference.permutation(count, reference.key(reference.SHUFFLE, 0, epoch, 0))
