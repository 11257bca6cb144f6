"""Pages that a mini-batch touches in each order of nodes, by the resident share of the rows.

Makes an R-MAT graph in a temporary folder and prints the table of ``docs/ordering.md``. Pages are
counted, not timed: the figures do not depend on the machine. With ``--shapes``, those of graphs in
the shapes of `SHAPES`, a thousandth and a hundredth as large, for ``docs/scale.md``; with
``--together``, those of seeds with neighbouring ids.
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
from benchmarks.inputs import IntArray, edge_chunk, write_edges

SHARES = (0.0, 0.1, 0.3, 0.5)  # resident part of the nodes' rows
NODE_BATCHES = 8
# Nodes, edges and bytes of a row: ogbn-papers100M (float32), the papers and citations of MAG240M
# (float16; both Hu et al., 2020 and 2021), IGB-full (float32; Khatua et al., 2023).
SHAPES = {
    "papers100M": (111_059_956, 1_615_685_872, 512),
    "MAG240M": (121_751_666, 1_297_748_926, 1536),
    "IGB-full": (269_346_174, 3_995_777_033, 4096),
}
MACHINES = (16, 64, 256)  # GB of memory
PARTS = (1000, 100)
PIECES = (1, 64, 1024)  # seeds with neighbouring ids
COMMUNITIES = ((512, 0.8), (4096, 0.9))  # nodes of one, and the share of the edges inside


def seed_sets(num_nodes: int, edges: IntArray, scrambled: IntArray) -> Iterator[Any]:
    """(name, training seeds): from the whole graph, and from nodes of low degree."""
    rng = np.random.default_rng(1)
    yield "20 % of the nodes", rng.permutation(num_nodes)[: num_nodes // 5]
    corner = np.unique(edges[edges[:, 1] >= num_nodes * 3 // 4, 1])
    yield "1 %, low degrees", scrambled[rng.permutation(corner)[: max(1, num_nodes // 100)]]


def node_pages(
    path: str, presample: gz.Presample, resident: list[int], row_bytes: int, piece: int = 1
) -> list[float]:
    """Distinct pages of rows beyond the resident ones, on average over new mini-batches."""
    with gz.open(path) as ds:
        sampler = gz.NeighborSampler(ds.graph, list(presample.fanouts), seed=presample.seed + 1)
        rng = np.random.default_rng(presample.seed + 1)
        found = np.zeros(len(resident))
        train = np.array(ds.splits["train"])
        if piece > 1:
            train.sort()
        for batch in range(NODE_BATCHES):
            begins = rng.permutation(len(train) // piece)[: max(presample.batch_size // piece, 1)]
            chosen = train[(begins[:, None] * piece + np.arange(piece)).ravel()]
            rows = sampler.sample(chosen, batch=batch).stored_id
            ends = [rows * row_bytes, (rows + 1) * row_bytes - 1]
            pages = np.unique(np.concatenate(ends) // PAGESIZE)
            found += [np.count_nonzero(pages >= first) for first in resident]
    return [float(pages) for pages in found / NODE_BATCHES]


def shapes_table(options: argparse.Namespace) -> list[list[str]]:
    """Pages of features that a mini-batch reads on machines of several sizes, all at one scale.

    Of a machine's memory, a tenth is left alone, and the topology is taken off.
    """
    rows = [["shape", "of it", *(f"{memory} GB" for memory in MACHINES), "nothing resident"]]
    for name, (whole_nodes, whole_edges, row_bytes) in SHAPES.items():
        for part in (one * options.smaller for one in PARTS):
            num_nodes, num_edges = whole_nodes // part, whole_edges // part
            topology, total = 8 * num_nodes + 4 * num_edges, row_bytes * num_nodes
            room = [int(0.9e9 * memory / part) - topology for memory in MACHINES]
            resident = [min(max(each, 0), total) // PAGESIZE for each in room]
            with tempfile.TemporaryDirectory(dir=options.data) as path:
                edges = write_edges(
                    f"{path}/edges.npy", num_nodes.bit_length(), num_edges, num_nodes=num_nodes
                )
                train = np.random.default_rng(1).permutation(num_nodes)[: num_nodes // 20]
                gz.build(path, edges, num_nodes=num_nodes, splits={"train": train}).close()
                pages = node_pages(path, gz.Presample(), [*resident, 0], row_bytes)
            rows.append([name, f"1/{part}", *(f"{count:,.0f}" for count in pages)])
            print(rows[-1], file=sys.stderr, flush=True)
    return rows


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
                pages = node_pages(path, presample, resident, features.itemsize * options.dim)
                rows.append([name, order, *(f"{count:,.0f}" for count in pages)])
    return rows


def communities(
    rng: np.random.Generator, options: argparse.Namespace, size: int, inside: float
) -> IntArray:
    """Edges from any node into its community or another, where some nodes are preferred."""
    num_nodes, shape = 1 << options.scale, options.edges
    source = rng.integers(0, num_nodes, shape)
    other = rng.integers(0, max(num_nodes // size, 1), shape)
    community = np.where(rng.random(shape) < inside, source // size, other)
    return np.stack(
        [source, community * size + (rng.random(shape) ** 2 * size).astype(np.int64)], 1
    )


def together_table(options: argparse.Namespace) -> list[list[str]]:
    """Pages of the nodes' rows in hot order, by how many seeds of a batch have neighbouring ids."""
    rng, num_nodes = np.random.default_rng(0), 1 << options.scale
    total, row_bytes = num_nodes * 4 * options.dim // PAGESIZE, 4 * options.dim
    graphs = {"R-MAT": edge_chunk(rng, options.scale, options.edges)}
    for size, inside in COMMUNITIES:
        graphs[f"communities of {size:,}, {inside:.0%} inside"] = communities(
            rng, options, min(size, num_nodes), inside
        )
    rows = [["graph", "seeds together", *(f"{share:.0%}" for share in SHARES)]]
    for name, edges in graphs.items():
        train = rng.permutation(num_nodes)[: num_nodes // 5]
        with tempfile.TemporaryDirectory(dir=options.data) as path:
            gz.build(path, edges, num_nodes=num_nodes, splits={"train": train}).close()
            for piece in PIECES:
                resident = [int(total * share) for share in SHARES]
                piece = min(piece, len(train))
                pages = node_pages(path, gz.Presample(), resident, row_bytes, piece)
                rows.append([name, str(piece), *(f"{count:,.0f}" for count in pages)])
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Counts and prints."""
    parser = timing.parser_of("benchmarks.ordering", __doc__, scale=19, edges=8e6)
    parser.add_argument("--shapes", action="store_true", help="of known graphs, much smaller")
    parser.add_argument("--together", action="store_true", help="for seeds of neighbouring ids")
    options = parser.parse_args(arguments)
    options.smaller = 1
    if options.quick:
        options.scale, options.edges, options.smaller = 12, 50_000, 100
    timing.require_positive(parser, options, ["edges", "dim"])
    options.data.mkdir(parents=True, exist_ok=True)
    table = shapes_table if options.shapes else together_table if options.together else nodes_table
    rows = table(options)
    print(timing.markdown(rows))
    timing.write_json(
        options, {"benchmark": "ordering", "settings": timing.settings(options), "pages": rows}
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
