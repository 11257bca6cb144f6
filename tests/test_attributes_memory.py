"""Attributes larger than the memory limit: the same files, and the limit is kept."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from peak_memory import peak_of

from graphzero.ingest import build_dataset, reorder_dataset
from graphzero.store.format import BFLOAT16
from graphzero.store.manifest import read_manifest

# Long builds of what tests/test_attributes.py builds with the sanitizers.
pytestmark = pytest.mark.no_asan


def large_input(num_nodes: int, num_edges: int) -> dict[str, Any]:
    rng = np.random.default_rng(7)
    edges = (rng.random((num_edges, 2)) ** 2 * num_nodes).astype(np.int64)
    return {
        "edges": {
            "edge_index": edges,
            "edge_attr": rng.random((num_edges, 5, 2), np.float32),
            "kind": rng.integers(0, 99, num_edges).astype(np.uint8),
            "edge_weight": rng.random(num_edges),
            "pair": rng.integers(0, 99, (num_edges, 2)).astype(np.uint16).view(BFLOAT16),
        },
        "nodes": {"year": rng.integers(0, 99, num_nodes), "x": rng.random((num_nodes, 4))},
    }


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("time_attrs", [None, "year"])
def test_many_blocks_give_the_same_bytes(
    tmp_path: Path, directed: bool, time_attrs: str | None
) -> None:
    given_ = large_input(20_000, 120_000)
    options = {"directed": directed, "time_attrs": time_attrs, "nodes": given_["nodes"]}
    small, large = tmp_path / "small", tmp_path / "large"
    build_dataset(small, given_["edges"], memory_limit="1MiB", **options)
    build_dataset(large, given_["edges"], memory_limit="1GiB", **options)

    def compare() -> None:
        names = [entry.name for entry in read_manifest(small).entries()]
        assert {"edge_edge_attr.gd", "edge_kind.gd", "edge_pair.gd", "node_year.gd"} <= set(names)
        for name in names:
            assert (small / name).read_bytes() == (large / name).read_bytes(), name

    compare()
    # From random lists to other lists, where rows come in the order of the earlier ones.
    reorder_dataset(small, "input", neighbors="out", memory_limit="1MiB")
    build_dataset(large, given_["edges"], order="input", neighbors="out", **options)
    compare()


IMPORTS = """
import numpy as np
from graphzero.cli import main
from graphzero.ingest import build_dataset, reorder_dataset
"""
WORK = """
folder, limit, directed = sys.argv[1:]
edges = {"edge_index": folder + "/e.npy", "edge_attr": folder + "/a.npy"}
build_dataset(folder + "/data", edges, directed=bool(directed), memory_limit=int(limit))
reorder_dataset(folder + "/data", "input", memory_limit=int(limit))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.no_asan  # keeps freed memory in quarantine
@pytest.mark.parametrize("directed", ["", "directed"])
def test_memory_stays_within_the_limit(tmp_path: Path, directed: str) -> None:
    limit, num_edges = 12 << 20, 1_000_000
    edges = np.random.default_rng(0).integers(0, 100_000, (num_edges, 2))
    np.save(tmp_path / "e.npy", edges)
    np.save(tmp_path / "a.npy", np.ones((num_edges, 16), np.float32))
    peak = peak_of(tmp_path, IMPORTS, WORK, tmp_path, limit, directed)
    print(f"{directed}: {peak:,} bytes of {limit:,}")
    assert peak < limit + (4 << 20)
