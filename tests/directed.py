"""Small directed graphs, as `gz.build` makes datasets of them."""

from __future__ import annotations

import numpy as np

import graphzero as gz

ORDERS = ("input", "hot", "presample")
SMALL = gz.Presample(fanouts=(3, 2), batch_size=4, min_batches=3)
CHAIN = [[0, 1], [0, 2], [2, 1], [3, 2]]


def built(folder, edges, order="hot", **options):
    """A dataset with edge ids."""
    how = {"presample": SMALL} if order == "presample" else {}
    edges = {"edge_index": np.asarray(edges).T}  # also of two edges
    return gz.build(folder, edges, order=order, edge_ids=True, **how, **options)
