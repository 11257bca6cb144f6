"""Speed of `graphzero verify` on files in the page cache, beside a plain read of the same files.

``python -m benchmarks.verify`` builds datasets of R-MAT graphs in a temporary folder (or in
``--folder``), and prints the table of ``docs/benchmarks.md``: GB (10^9 bytes) per second, medians
of five runs, which alternate between the two contestants.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import graphzero as gz
from benchmarks.options import count
from benchmarks.report import markdown
from benchmarks.rmat import edge_chunk

RUNS = 5
_BUFFER = bytearray(4 << 20)


def _options(rng: np.random.Generator, num_edges: int) -> dict[str, dict[str, Any]]:
    weights = rng.random(num_edges, np.float32)
    times = rng.integers(0, 2**40, num_edges)
    return {
        "lists of in-neighbours": {},
        "and edge ids": {"edge_ids": True},
        "both directions": {"neighbors": "both", "edge_ids": True},
        "undirected": {"directed": False},
        "weights and times": {"weight": weights, "timestamp": times},
    }


def read_through(files: list[Path]) -> None:
    """Reads files into a buffer, one thread."""
    for path in files:
        with path.open("rb", buffering=0) as file:
            while file.readinto(_BUFFER):
                pass


def check(folder: Path) -> None:
    """`gz.verify`, which must find nothing."""
    found = gz.verify(folder)
    assert not found, found


def rate(do: Callable[[], None], num_bytes: int) -> float:
    """GB per second of one run."""
    start = time.perf_counter()
    do()
    return num_bytes / (time.perf_counter() - start) / 1e9


def measure(folder: Path) -> list[str]:
    """Size, rates and their ratio, for one dataset."""
    files = [path for path in folder.iterdir() if path.suffix in (".gl", ".gd")]
    num_bytes = sum(path.stat().st_size for path in files)
    read_through(files)
    checks, reads = [], []
    for _ in range(RUNS):
        checks.append(rate(lambda: check(folder), num_bytes))
        reads.append(rate(lambda: read_through(files), num_bytes))
    rates = [f"{median(found):.3g}" for found in (checks, reads)]
    return [f"{num_bytes / 1e6:,.0f} MB", *rates, f"{median(checks) / median(reads):.2f}"]


def run(scale: int, num_edges: int, dim: int, folder: Path) -> None:
    """Builds, measures and prints."""
    rng = np.random.default_rng(0)
    edges = edge_chunk(rng, scale, num_edges)
    table = [["dataset", "size", "verify, GB/s", "plain read, GB/s", "ratio"]]
    for number, (name, options) in enumerate(_options(rng, num_edges).items()):
        gz.build(folder / str(number), edges, num_nodes=1 << scale, **options).close()
        table.append([name, *measure(folder / str(number))])
    features = rng.standard_normal((1 << scale, dim), np.float32)
    gz.build(folder / "rows", edges[:1000], features).close()
    table.append([f"rows of {dim} float32", *measure(folder / "rows")])
    print(markdown(table))


def main() -> None:
    """Runs the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=20, help="the graph has 2^SCALE nodes")
    parser.add_argument("--edges", type=count, default=16_000_000, help="such as 32e6")
    parser.add_argument("--dim", type=int, default=128, help="float32 columns of the rows")
    parser.add_argument("--folder", help="where to make the temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        run(options.scale, options.edges, options.dim, Path(folder))


if __name__ == "__main__":
    main()
