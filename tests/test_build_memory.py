"""A small memory limit gives the same files, and is kept."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from peak_memory import peak_of

from graphzero.ingest import build_dataset

IMPORTS = """
import numpy as np
from graphzero.ingest import build_dataset
"""
WORK = """
folder, kind, limit, dtype, directed = sys.argv[1:]
build_dataset(
    folder + "/data",
    f"{folder}/edges.{kind}",
    folder + "/features.npy",
    memory_limit=int(limit),
    timestamp=folder + "/times.npy" if kind == "npy" else None,
    directed=bool(directed),
    neighbors="both",
    edge_ids=True,
    feature_dtype=dtype or None,
)
"""


def random_graph(num_nodes: int, num_edges: int) -> np.ndarray:
    """Few hubs with most edges, many of them parallel, and some self-loops."""
    rng = np.random.default_rng(7)
    hubs = rng.integers(0, 3, num_edges)
    ends = rng.integers(0, num_nodes, (num_edges, 2))
    return np.where(rng.random((num_edges, 1)) < 0.5, np.stack([hubs, ends[:, 0] % 5], 1), ends)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("payload", [True, False])
def test_many_runs_give_the_same_bytes(
    tmp_path: Path, order: str, directed: bool, payload: bool
) -> None:
    edges = random_graph(20_000, 150_000)
    np.save(tmp_path / "e.npy", edges)
    features = np.random.default_rng(1).random((20_000, 30), np.float32)
    options = {
        "directed": directed,
        "neighbors": "both",
        "order": order,
        "edge_ids": payload,
        "weight": np.arange(150_000, dtype=np.float32) if payload else None,
        "timestamp": np.random.default_rng(2).integers(-50, 50, 150_000) if payload else None,
        "splits": {"all": np.arange(20_000)},
        "labels": np.arange(20_000),
    }
    small, large = tmp_path / "small", tmp_path / "large"
    build_dataset(small, tmp_path / "e.npy", features, memory_limit="1MiB", **options)
    build_dataset(large, tmp_path / "e.npy", features, memory_limit="1GiB", **options)
    names = ["graph.gl", "features.gd", "labels.gd", "split_all.gd"]
    for name in [*names, "graph_out.gl"] if directed else names:
        assert (small / name).read_bytes() == (large / name).read_bytes(), name


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.no_asan  # keeps freed memory in quarantine
@pytest.mark.parametrize(
    ("kind", "dtype", "directed"),
    [("csv", "", ""), ("npy", "", ""), ("npy", "bfloat16", ""), ("npy", "", "directed")],
)
def test_memory_stays_within_the_limit(
    tmp_path: Path, kind: str, dtype: str, directed: str
) -> None:
    limit = 12 << 20
    edges = random_graph(400_000, 3_000_000 if kind == "npy" else 1_000_000)
    np.save(tmp_path / "features.npy", np.ones((400_000, 64), np.float32))
    if kind == "npy":
        np.save(tmp_path / "edges.npy", edges)
        np.save(tmp_path / "times.npy", np.random.default_rng(3).integers(0, 99, len(edges)))
    else:
        rows = np.char.add(np.char.add(edges[:, 0].astype(str), ","), edges[:, 1].astype(str))
        (tmp_path / "edges.csv").write_text("\n".join(rows.tolist()))
    peak = peak_of(tmp_path, IMPORTS, WORK, tmp_path, kind, limit, dtype, directed)
    # pyarrow's blocks, and what the interpreter takes once, are not the build's own memory.
    allowance = 24 << 20 if kind == "csv" else 4 << 20
    print(f"{kind} {dtype}: {peak:,} bytes of {limit:,}")
    assert peak < limit + allowance
    written = sum(path.stat().st_size for path in (tmp_path / "data").glob("*.g[ld]"))
    assert written > 2 * (limit + allowance)
