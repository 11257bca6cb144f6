"""A small memory limit gives the same files, and is kept."""

from __future__ import annotations

import json
import sys

import files
import numpy as np
import pytest
from peak_memory import peak_of

import graphzero as gz
from graphzero.ingest import build_dataset, reorder_dataset
from graphzero.store.manifest import read_manifest

IMPORTS = """
import json, warnings
import graphzero as gz
from graphzero.ingest import build_dataset, reorder_dataset
warnings.simplefilter("ignore")
"""
BUILD = """
build_dataset("data", memory_limit=int(sys.argv[1]), **json.loads(sys.argv[2]))
"""
REORDER = """
presample = gz.Presample(fanouts=(5, 2), batch_size=64) if sys.argv[2] == "presample" else None
reorder_dataset("data", sys.argv[2], presample=presample, memory_limit=int(sys.argv[1]))
"""
LIMIT = 12 << 20
SMALL = gz.Presample(fanouts=(3, 2), batch_size=4, min_batches=3)


def random_graph(num_nodes, num_edges):
    """Few hubs with most edges, many of them parallel, and some self-loops."""
    rng = np.random.default_rng(7)
    hubs = rng.integers(0, 3, num_edges)
    ends = rng.integers(0, num_nodes, (num_edges, 2))
    return np.where(rng.random((num_edges, 1)) < 0.5, np.stack([hubs, ends[:, 0] % 5], 1), ends)


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("payload", [True, False])
def test_many_runs_give_the_same_bytes(tmp_path, order, directed, payload):
    edges = random_graph(20_000, 150_000)
    np.save(tmp_path / "e.npy", edges)
    features, wide = np.random.default_rng(1).random((2, 20_000, 30), np.float32)
    np.save(tmp_path / "wide.npy", wide)
    options = {
        # picked in passes over an array, put in order in blocks of a file, and converted
        "nodes": {"wide": tmp_path / "wide.npy"},
        "feature_dtype": "bfloat16" if payload else None,
        "directed": directed,
        "neighbors": "both",
        "order": order,
        "splits": {"all": np.arange(20_000), "train": np.arange(64)},
        "labels": np.arange(20_000),
    }
    if payload:
        times = np.random.default_rng(2).integers(-50, 50, 150_000)
        options |= {"edge_ids": True, "weight": np.arange(150_000.0), "timestamp": times}
    limits = {"1MiB": tmp_path / "small", "1GiB": tmp_path / "large"}
    for limit, folder in limits.items():
        build_dataset(folder, tmp_path / "e.npy", features, memory_limit=limit, **options)
    assert files.contents(limits["1MiB"]) == files.contents(limits["1GiB"])
    other = "input" if order == "hot" else "presample"
    presample = SMALL if other == "presample" else None
    for limit, folder in limits.items():
        reorder_dataset(folder, other, presample=presample, memory_limit=limit)
    assert files.contents(limits["1MiB"]) == files.contents(limits["1GiB"])


def check_peak(folder, allowance, work, argument):
    """The peak is within the limit and what is not the build's own memory, far below the output."""
    peak = peak_of(folder, IMPORTS, work, LIMIT, argument)
    assert peak < LIMIT + allowance
    written = sum(path.stat().st_size for path in (folder / "data").glob("*.g[ld]"))
    assert written > 2 * (LIMIT + allowance)


BUILDS = {
    "csv": {"edges": "edges.csv", "directed": False},
    "npy": {"edges": "edges.npy", "timestamp": "times.npy", "directed": False},
    "bfloat16": {"edges": "edges.npy", "directed": False, "feature_dtype": "bfloat16"},
    "directed": {"edges": "edges.npy", "timestamp": "times.npy"},
}
MERGING = {
    "coalesce": {
        "edges": {"edge_index": "edges.npy", "edge_time": "times.npy", "vec": "vec.npy"},
        "coalesce": {"edge_time": "max", "vec": "sum"},
    },
    "symmetric": {"edges": "both.npy", "directed": False},
}


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.no_asan  # keeps freed memory in quarantine
@pytest.mark.parametrize("kind", BUILDS | MERGING)
def test_memory_stays_within_the_limit(tmp_path, kind):
    merges = kind in MERGING
    edges = random_graph(400_000, 1_000_000 if kind == "csv" or merges else 3_000_000)
    np.save(tmp_path / "features.npy", np.ones((400_000, 64), np.float32))
    if kind == "csv":
        np.savetxt(tmp_path / "edges.csv", edges, "%d", ",")
    np.save(tmp_path / "edges.npy", edges)
    np.save(tmp_path / "both.npy", np.concatenate([edges, edges[:, ::-1]]))
    np.save(tmp_path / "times.npy", np.random.default_rng(3).integers(0, 99, len(edges)))
    np.save(tmp_path / "vec.npy", np.ones((len(edges), 2), np.float32))
    options = {"features": "features.npy", "neighbors": "both", "edge_ids": True}
    options |= (BUILDS | MERGING)[kind]
    # pyarrow's blocks, and what the interpreter takes once
    check_peak(tmp_path, 24 << 20 if kind == "csv" else 4 << 20, BUILD, json.dumps(options))
    changes = read_manifest(tmp_path / "data").edges["", "", ""].changes
    assert (changes is not None) is merges


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
    check_peak(tmp_path, 4 << 20, REORDER, order)
    assert read_manifest(tmp_path / "data").order == order
