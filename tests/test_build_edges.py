"""Edge lists become neighbour lists, from every kind of input."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import reference
from files import read_file
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference_merging import is_symmetric

from graphzero.ingest import build_dataset
from graphzero.store.format import Header, verify_file

EDGES = np.array([[0, 2], [2, 1], [0, 1], [3, 3], [0, 2], [1, 0]])


def graph_of(folder: Path) -> tuple[Header, dict[str, np.ndarray[Any, Any]]]:
    path = folder / "graph.gl"
    verify_file(path)
    return read_file(path)


EXTREMES = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 1]


CASES = st.builds(
    SimpleNamespace,
    seed=st.integers(0, 2**32),
    num_nodes=st.integers(1, 12),
    num_edges=st.one_of(st.integers(0, 250), st.integers(2000, 4000)),
    directed=st.booleans(),
    neighbors=st.sampled_from(["in", "out"]),
    order=st.sampled_from(["input", "hot"]),
    times=st.sampled_from([[-1, 0, 1], EXTREMES, range(1 << 20)]),
    memory=st.sampled_from([1, 1 << 30]),  # 1,024 entries are sorted at once, or all
)


@settings(max_examples=60, deadline=None)
@given(case=CASES)
def test_like_reference(tmp_path_factory: pytest.TempPathFactory, case: Any) -> None:
    """Lists and their parallel edges, also where these reach over several runs on the disk."""
    rng = np.random.default_rng(case.seed)
    edges = rng.integers(0, case.num_nodes, (case.num_edges, 2))
    # Of a symmetric list only one direction of each edge is stored: tests/test_coalesce.py.
    assume(case.directed or not is_symmetric(edges))
    of_edges: dict[str, Any] = {}
    if case.seed % 4:
        of_edges["weights"] = rng.random(len(edges)).astype(np.float32)
        of_edges["times"] = rng.choice(np.array(case.times, np.int64), len(edges))
    folder = tmp_path_factory.mktemp("d")
    how = {"directed": case.directed, "order": case.order}
    build_dataset(
        folder,
        {"edge_index": edges.T},
        num_nodes=case.num_nodes,
        neighbors=case.neighbors,
        weight=of_edges.get("weights"),
        timestamp=of_edges.get("times"),
        edge_ids=bool(of_edges),
        memory_limit=case.memory,
        **how,
    )
    incoming = case.directed and case.neighbors == "in"
    naive = reference.adjacency(edges, case.num_nodes, incoming=incoming, **how, **of_edges)
    expected = {"indptr": naive.indptr, "indices": naive.indices}
    if of_edges:
        expected |= {
            "edge_ids": naive.column(1, np.int64),
            "weights": naive.column(2, np.float32),
            "times": naive.column(3, np.int64),
            "time_order": naive.time_order,
        }
    if case.order == "hot":
        expected |= {"node_ids": naive.node_ids, "node_rank": naive.node_rank}
    _, arrays = graph_of(folder)
    assert arrays.keys() - {"cum_weights"} == expected.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(arrays[name], values, name)


def test_no_edges_but_nodes(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("# nothing\nsrc,dst")
    build_dataset(tmp_path / "d", tmp_path / "e.csv", num_nodes=3, directed=False)
    header, arrays = graph_of(tmp_path / "d")
    assert (header.num_nodes, header.width) == (3, 0)
    np.testing.assert_array_equal(arrays["indptr"], [0, 0, 0, 0])


def test_progress_is_one_line_a_phase(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "y.csv").write_text("id,y\n" + "".join(f"{i},{i}\n" for i in (2, 1, 3, 0)))
    build_dataset(tmp_path / "d", EDGES, np.zeros((4, 2)), tmp_path / "y.csv", progress=True)
    lines = [line.rsplit("\r", 1)[-1] for line in capsys.readouterr().err.strip().split("\n")]
    labels = [line.split(":")[0].strip() for line in lines]
    of_graph = ["reading edges", "ordering nodes", "sorting edges", "writing graph"]
    # rows of an array are read in the stored order
    assert labels == [*of_graph, "writing features", "reading labels", "writing labels"]
    build_dataset(tmp_path / "d", EDGES)
    assert capsys.readouterr().err == ""
