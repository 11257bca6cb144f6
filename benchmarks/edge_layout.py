"""Pages that the edge rows of a mini-batch touch, by the order in which the file has them.

``python -m benchmarks.edge_layout`` makes an R-MAT graph in a temporary folder and prints the table
of ``docs/ordering.md``. Pages are counted, not timed: the figures do not depend on the machine.

Order of the lists: row i belongs to the stored edge i. Order of the input: row i belongs to edge i
of the edge list, so that both directions of an undirected edge share a row; the edges are in random
order, or sorted by source or by target.
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
from graphzero.store.format import read_file

FANOUTS = ((10, 5), (15, 10, 5))
ROW_BYTES = (256, 64)
LAYOUTS = ("lists", "random", "by source", "by target")
RESIDENT = (0.1, 0.3)  # memory, as a share of the file in the order of the lists
WARM, COUNTED = 24, 8  # batches that choose the resident pages, and batches that are counted
BATCH_SIZE = 1024

Ids = npt.NDArray[np.int64]


class Places:
    """Where the stored edges of a graph are in its lists."""

    def __init__(self, graph: gz.Graph) -> None:
        edge_ids = read_file(graph.path)[1]["edge_ids"].astype(np.int64)
        self.owners = np.repeat(np.arange(graph.num_nodes), np.diff(graph.indptr.astype(np.int64)))
        # An undirected edge has two places, a directed one twice the same.
        self._first = np.empty(graph.num_input_edges, np.int64)
        self._last = np.empty(graph.num_input_edges, np.int64)
        places = np.arange(len(edge_ids))
        self._last[edge_ids] = places
        self._first[edge_ids[::-1]] = places[::-1]

    def of(self, batch: gz.Subgraph) -> Ids:
        """The places of the sampled edges."""
        assert batch.e_id is not None
        first, last = self._first[batch.e_id], self._last[batch.e_id]
        owner = batch.stored_id[batch.edge_index[1]]
        found: Ids = np.where(self.owners[first] == owner, first, last)
        assert (self.owners[found] == owner).all()
        return found


def input_places(edges: Ids) -> dict[str, Ids]:
    """The row of each edge of a random edge list, in the orders of input."""
    found = {"random": np.arange(len(edges))}
    for name, keys in (("by source", (0, 1)), ("by target", (1, 0))):
        order = np.lexsort((edges[:, keys[1]], edges[:, keys[0]]))
        place = np.empty(len(edges), np.int64)
        place[order] = np.arange(len(edges))
        found[name] = place
    return found


def batches(ds: gz.Dataset, fanouts: tuple[int, ...]) -> Iterator[gz.Subgraph]:
    """Mini-batches of random seeds."""
    sampler = gz.NeighborSampler(ds.graph, fanouts, seed=1)
    rng = np.random.default_rng(1)
    for batch in range(WARM + COUNTED):
        yield sampler.sample(rng.permutation(ds.num_nodes)[:BATCH_SIZE], batch=batch)


def touched(rows: Ids, row_bytes: int) -> Ids:
    """Distinct pages of some rows, which do not cross pages."""
    return np.unique(rows * row_bytes // PAGESIZE)


def count(rows_of_batches: list[Ids], row_bytes: int, memories: list[int]) -> list[float]:
    """Pages of a batch, and for each size of memory those of them that are not resident.

    The pages that earlier batches touched most often are resident, as many as fit in the memory.
    """
    pages = [touched(rows, row_bytes) for rows in rows_of_batches]
    visits = np.bincount(np.concatenate(pages[:WARM]))
    hottest = np.argsort(-visits, kind="stable")
    counted = pages[WARM:]
    found = [float(np.mean([len(part) for part in counted]))]
    for memory in memories:
        cold = np.ones(max(len(visits), max(int(part.max()) for part in pages) + 1), bool)
        cold[hottest[: memory // PAGESIZE]] = False
        found.append(float(np.mean([np.count_nonzero(cold[part]) for part in counted])))
    return found


def run(scale: int, num_edges: int) -> None:
    """Builds, samples, counts, prints."""
    rng = np.random.default_rng(0)
    edges = rng.permutation(1 << scale)[edge_chunk(rng, scale, num_edges)]
    inputs = input_places(edges)
    print("| edges | fanouts | row |", " | ".join(LAYOUTS), "|")
    print("|---|---|---|" + "---|" * len(LAYOUTS))
    for directed in (True, False):
        kind = "directed" if directed else "undirected"
        options = {"num_nodes": 1 << scale, "directed": directed, "edge_ids": True}
        with tempfile.TemporaryDirectory() as path, gz.build(path, edges, **options) as ds:
            places = Places(ds.graph)
            for fanouts in FANOUTS:
                sampled = [(batch.e_id, places.of(batch)) for batch in batches(ds, fanouts)]
                rows = {"lists": [place for _, place in sampled]}
                for name, place in inputs.items():
                    rows[name] = [place[e_id] for e_id, _ in sampled]
                for row_bytes in ROW_BYTES:
                    memories = [int(share * ds.num_edges * row_bytes) for share in RESIDENT]
                    found = [count(rows[name], row_bytes, memories) for name in LAYOUTS]
                    cells = (" / ".join(f"{pages:,.0f}" for pages in one) for one in found)
                    row = f"{kind} | {list(fanouts)} | {row_bytes} B"
                    print(f"| {row} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=int, default=19, help="2^scale nodes")
    parser.add_argument("--edges", type=int, default=8_000_000)
    args = parser.parse_args()
    run(args.scale, args.edges)


if __name__ == "__main__":
    main()
