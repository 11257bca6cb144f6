"""Pages that a mini-batch touches in each order of nodes, counted and predicted.

``python -m benchmarks.ordering`` makes an R-MAT graph in a temporary folder and prints the table of
``docs/ordering.md``. Pages are counted, not timed: the figures do not depend on the machine.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from mmap import PAGESIZE

import numpy as np
import numpy.typing as npt

import graphzero as gz
from benchmarks.rmat import edge_chunk
from graphzero.io.misses import predict_misses

SHARES = (0.0, 0.1, 0.3, 0.5)
BATCHES = 8

Ids = npt.NDArray[np.int64]


def counted_pages(
    path: str, presample: gz.Presample, resident: list[int]
) -> npt.NDArray[np.float64]:
    """Distinct pages beyond the resident ones, on average over new mini-batches."""
    with gz.open(path) as ds:
        assert ds.features is not None
        row_bytes = ds.features.row_bytes
        seeds = ds.splits["train"].copy()
        sampler = gz.NeighborSampler(ds.graph, presample.fanouts, seed=presample.seed + 1)
        rng = np.random.default_rng(presample.seed + 1)
        found = np.zeros(len(resident))
        for batch in range(BATCHES):
            chosen = rng.permutation(seeds)[: presample.batch_size]
            rows = sampler.sample(chosen, batch=batch).stored_id
            ends = [rows * row_bytes, (rows + 1) * row_bytes - 1]
            pages = np.unique(np.concatenate(ends) // PAGESIZE)
            found += [np.count_nonzero(pages >= first) for first in resident]
    return found / BATCHES


def seed_sets(num_nodes: int, edges: Ids, scrambled: Ids) -> Iterator[tuple[str, Ids]]:
    """Training seeds: from the whole graph, and from nodes of low degree."""
    rng = np.random.default_rng(1)
    yield "20 % of the nodes", rng.permutation(num_nodes)[: num_nodes // 5]
    corner = np.unique(edges[edges[:, 1] >= num_nodes * 3 // 4, 1])
    yield "1 %, low degrees", scrambled[rng.permutation(corner)[: num_nodes // 100]]


def run(scale: int, num_edges: int, dim: int) -> None:
    """Builds, counts, predicts, prints."""
    num_nodes = 1 << scale
    rng = np.random.default_rng(0)
    edges = edge_chunk(rng, scale, num_edges)
    scrambled = rng.permutation(num_nodes)
    features = np.zeros((num_nodes, dim), np.float32)
    total = -(-features.nbytes // PAGESIZE)
    resident = [int(total * share) for share in SHARES]
    presample = gz.Presample()
    print("| seeds | order |", " | ".join(f"{share:.0%}" for share in SHARES), "|")
    print("|---|---|" + "---|" * len(SHARES))
    for name, train in seed_sets(num_nodes, edges, scrambled):
        with tempfile.TemporaryDirectory() as path:
            options = {"splits": {"train": train}, "order": "presample", "presample": presample}
            gz.build(path, scrambled[edges], features, num_nodes=num_nodes, **options).close()
            for order in ("presample", "hot", "input"):
                if order != "presample":
                    gz.reorder(path, order).close()
                counted = counted_pages(path, presample, resident)
                told = [predict_misses(path, first * PAGESIZE).missing_pages for first in resident]
                cells = (
                    f"{real:,.0f} ({said:,.0f})" for real, said in zip(counted, told, strict=True)
                )
                print(f"| {name} | {order} |", " | ".join(cells), "|", flush=True)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=19, help="2^scale nodes")
    parser.add_argument("--edges", type=int, default=8_000_000)
    parser.add_argument("--dim", type=int, default=128, help="float32 features of a node")
    args = parser.parse_args()
    run(args.scale, args.edges, args.dim)


if __name__ == "__main__":
    main()
