"""A small memory limit gives the same files, and is kept."""

from __future__ import annotations

import sys

import files
import numpy as np
import pytest
from peak_memory import peak_of

import graphzero as gz
from graphzero.ingest import build_dataset, reorder_dataset
from graphzero.store.manifest import read_manifest

IMPORTS = """
import numpy as np
import graphzero as gz
from graphzero.ingest import build_dataset, reorder_dataset
"""
BUILD = """
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
REORDER = """
folder, order, limit = sys.argv[1:]
presample = gz.Presample(fanouts=(5, 2), batch_size=64) if order == "presample" else None
reorder_dataset(folder, order, presample=presample, memory_limit=int(limit))
"""
LIMIT = 12 << 20
SMALL = gz.Presample(fanouts=(3, 2), batch_size=4, min_batches=3)


def random_graph(num_nodes, num_edges):
    """Few hubs with most edges, many of them parallel, and some self-loops."""
    rng = np.random.default_rng(7)
    hubs = rng.integers(0, 3, num_edges)
    ends = rng.integers(0, num_nodes, (num_edges, 2))
    return np.where(rng.random((num_edges, 1)) < 0.5, np.stack([hubs, ends[:, 0] % 5], 1), ends)


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*.g[ld]")}


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("payload", [True, False])
def test_many_runs_give_the_same_bytes(tmp_path, order, directed, payload):
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
        "splits": {"all": np.arange(20_000), "train": np.arange(64)},
        "labels": np.arange(20_000),
    }
    limits = {"1MiB": tmp_path / "small", "1GiB": tmp_path / "large"}
    for limit, folder in limits.items():
        build_dataset(folder, tmp_path / "e.npy", features, memory_limit=limit, **options)
    assert files_of(limits["1MiB"]) == files_of(limits["1GiB"])
    other = "input" if order == "hot" else "presample"
    presample = SMALL if other == "presample" else None
    for limit, folder in limits.items():
        reorder_dataset(folder, other, presample=presample, memory_limit=limit)
    assert files_of(limits["1MiB"]) == files_of(limits["1GiB"])


def check_peak(folder, allowance, work, *arguments):
    """The peak is within the limit and what is not the build's own memory, far below the output."""
    peak = peak_of(folder, IMPORTS, work, *arguments)
    assert peak < LIMIT + allowance
    written = sum(path.stat().st_size for path in (folder / "data").glob("*.g[ld]"))
    assert written > 2 * (LIMIT + allowance)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.no_asan  # keeps freed memory in quarantine
@pytest.mark.parametrize(
    ("kind", "dtype", "directed"),
    [("csv", "", ""), ("npy", "", ""), ("npy", "bfloat16", ""), ("npy", "", "directed")],
)
def test_memory_stays_within_the_limit(tmp_path, kind, dtype, directed):
    edges = random_graph(400_000, 3_000_000 if kind == "npy" else 1_000_000)
    np.save(tmp_path / "features.npy", np.ones((400_000, 64), np.float32))
    if kind == "npy":
        np.save(tmp_path / "edges.npy", edges)
        np.save(tmp_path / "times.npy", np.random.default_rng(3).integers(0, 99, len(edges)))
    else:
        np.savetxt(tmp_path / "edges.csv", edges, "%d", ",")
    # pyarrow's blocks, and what the interpreter takes once
    allowance = 24 << 20 if kind == "csv" else 4 << 20
    check_peak(tmp_path, allowance, BUILD, tmp_path, kind, LIMIT, dtype, directed)


@pytest.mark.extended
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.no_asan
@pytest.mark.parametrize("order", ["hot", "presample"])
def test_a_new_order_stays_within_the_limit(tmp_path, order):
    build_dataset(
        tmp_path / "data",
        files.random_edges(400_000, 2_000_000),
        np.ones((400_000, 64), np.float32),
        timestamp=np.random.default_rng(3).integers(0, 99, 2_000_000),
        edge_ids=True,
        directed=False,
        order="input",
        splits={"train": np.arange(2000)},
    )
    # a mini-batch of the sampler, and what the interpreter takes once
    check_peak(tmp_path, 4 << 20, REORDER, tmp_path / "data", order, LIMIT)
    assert read_manifest(tmp_path / "data").order == order
