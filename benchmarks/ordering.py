"""Pages that a mini-batch touches in each order of nodes, by the resident share of the rows.

Makes an R-MAT graph in a temporary folder and prints the table of ``docs/ordering.md``. Pages are
counted, not timed: the figures do not depend on the machine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from mmap import PAGESIZE
from typing import Any

import numpy as np

import graphzero as gz
from benchmarks import timing
from benchmarks.inputs import IntArray, edge_chunk

SHARES = (0.0, 0.1, 0.3, 0.5)  # resident part of the nodes' rows
NODE_BATCHES = 8


def seed_sets(num_nodes: int, edges: IntArray, scrambled: IntArray) -> Iterator[Any]:
    """(name, training seeds): from the whole graph, and from nodes of low degree."""
    rng = np.random.default_rng(1)
    yield "20 % of the nodes", rng.permutation(num_nodes)[: num_nodes // 5]
    corner = np.unique(edges[edges[:, 1] >= num_nodes * 3 // 4, 1])
    yield "1 %, low degrees", scrambled[rng.permutation(corner)[: max(1, num_nodes // 100)]]


def node_pages(path: str, presample: gz.Presample, resident: list[int]) -> list[float]:
    """Distinct pages beyond the resident ones, on average over new mini-batches."""
    with gz.open(path) as ds:
        assert ds.features is not None
        row_bytes = ds.features.row_bytes
        sampler = gz.NeighborSampler(ds.graph, list(presample.fanouts), seed=presample.seed + 1)
        rng = np.random.default_rng(presample.seed + 1)
        found = np.zeros(len(resident))
        for batch in range(NODE_BATCHES):
            chosen = rng.permutation(ds.splits["train"])[: presample.batch_size]
            rows = sampler.sample(chosen, batch=batch).stored_id
            ends = [rows * row_bytes, (rows + 1) * row_bytes - 1]
            pages = np.unique(np.concatenate(ends) // PAGESIZE)
            found += [np.count_nonzero(pages >= first) for first in resident]
    return [float(pages) for pages in found / NODE_BATCHES]


def nodes_table(options: argparse.Namespace) -> list[list[str]]:
    """Pages of the nodes' rows, by seeds, order and resident share."""
    num_nodes = 1 << options.scale
    rng = np.random.default_rng(0)
    edges = edge_chunk(rng, options.scale, options.edges)
    scrambled = rng.permutation(num_nodes)
    features = np.zeros((num_nodes, options.dim), np.float32)
    total = -(-features.nbytes // PAGESIZE)
    resident = [int(total * share) for share in SHARES]
    presample = gz.Presample()
    rows = [["seeds", "order", *(f"{share:.0%}" for share in SHARES)]]
    for name, train in seed_sets(num_nodes, edges, scrambled):
        with tempfile.TemporaryDirectory(dir=options.data) as path:
            how: dict[str, Any] = {"splits": {"train": train}, "num_nodes": num_nodes}
            for order in ("presample", "hot", "input"):
                if order == "presample":
                    how |= {"order": order, "presample": presample}
                    gz.build(path, scrambled[edges], features, **how).close()
                else:
                    gz.reorder(path, order).close()
                pages = node_pages(path, presample, resident)
                rows.append([name, order, *(f"{count:,.0f}" for count in pages)])
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Counts and prints."""
    parser = timing.parser_of("benchmarks.ordering", __doc__, scale=19, edges=8e6)
    options = parser.parse_args(arguments)
    if options.quick:
        options.scale, options.edges = 12, 50_000
    timing.require_positive(parser, options, ["edges", "dim"])
    options.data.mkdir(parents=True, exist_ok=True)
    rows = nodes_table(options)
    print(timing.markdown(rows))
    timing.write_json(
        options, {"benchmark": "ordering", "settings": timing.settings(options), "pages": rows}
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
