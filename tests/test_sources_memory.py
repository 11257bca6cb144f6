"""Tables and attributes larger than the memory limit: the limit is kept, the files are the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import compressed
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from peak_memory import peak_of

pytestmark = pytest.mark.no_asan  # keeps freed memory in quarantine

LIMIT = 12 << 20
# pyarrow has 8 MiB of pages and batches at once; what its allocators keep varies by 26 MiB.
ALLOWANCE = 46 << 20
NODES = 1 << 18
WIDTH = 64
IMPORTS = """
import pyarrow.csv, pyarrow.parquet
import numpy as np
from graphzero.ingest import build_dataset, reorder_dataset
"""
WORK = """
folder, what, name = sys.argv[1:4]
value = folder + "/" + name
edges = np.zeros((1, 2), np.int64) if what == "rows" else value
rows = value if what == "rows" else None
if what == "attributes":
    edges = {"edge_index": folder + "/e.npy", "edge_attr": value}
build_dataset(folder + "/data", edges, rows, memory_limit=12 << 20, directed=name != "b.npy")
if what == "attributes":
    reorder_dataset(folder + "/data", "input", memory_limit=12 << 20)
"""


def edges() -> pa.Table:
    ends = np.random.default_rng(0).integers(0, NODES, (2, 5_000_000))
    return pa.table({"src": ends[0], "dst": ends[1]})


def rows() -> pa.Table:
    values = np.random.default_rng(0).random(NODES * WIDTH, np.float32)
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values), WIDTH)
    return pa.table({"id": np.arange(NODES), "x": lists})


def one_row_group(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path, row_group_size=len(table), compression="zstd")


def text(path: Path, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pa.csv.write_csv(table.slice(0, 1_500_000), sink)
    compressed.write(path, sink.getvalue().to_pybytes())


def feather(path: Path, table: pa.Table) -> None:
    pa.feather.write_feather(table, str(path), compression="zstd", chunksize=1 << 14)


def attributes(path: Path, _: pa.Table) -> None:
    np.save(path.with_name("e.npy"), np.random.default_rng(0).integers(0, 100_000, (1_000_000, 2)))
    np.save(path, np.ones((1_000_000, 16), np.float32))


def deflated(path: Path, table: pa.Table) -> None:
    np.savez_compressed(path, edges=np.stack([table["src"], table["dst"]]))


CASES: list[tuple[str, str, Callable[[Path, pa.Table], None]]] = [
    ("edges", "e.csv.zst", text),
    ("edges", "e.npz", deflated),
    ("rows", "x.parquet", one_row_group),
    ("rows", "x.feather", feather),
    ("attributes", "a.npy", attributes),
    ("attributes", "b.npy", attributes),  # of an undirected graph
]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(("what", "name", "write"), CASES, ids=[case[1] for case in CASES])
def test_memory_stays_within_the_limit(tmp_path: Path, what: str, name: str, write: Any) -> None:
    table = rows() if what == "rows" else edges()
    write(tmp_path / name, table)
    peak = peak_of(tmp_path, IMPORTS, WORK, tmp_path, what, name)
    print(f"{what} {name}: {peak:,} bytes beside {LIMIT:,}; the table has {table.nbytes:,}")
    assert peak < LIMIT + (4 << 20 if what == "attributes" else ALLOWANCE)
