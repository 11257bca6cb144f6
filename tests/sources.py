"""Where the draws of a case come from."""

from __future__ import annotations

from dataclasses import dataclass

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
