"""The graph that `benchmarks.typed` cuts: the same edges in every cut; no clock."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

# Last, so that the uncompiled graphzero/ beside tests/ does not shadow the installed package.
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import typed
from benchmarks.typed_inputs import Cut, Source, whole


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return Source(tmp_path_factory.mktemp("typed"), scale=8, num_edges=3000)


def keys_of(ends: np.ndarray) -> list[int]:
    return sorted((ends[0] * 2**8 + ends[1]).tolist())


@pytest.mark.parametrize("num_types", [1, 2, 4])
def test_a_cut_has_every_edge_once_between_the_types_of_its_ends(
    source: Source, num_types: int
) -> None:
    cut = Cut(source, num_types)
    nodes_of = {name: np.flatnonzero(cut.type_of == i) for i, name in enumerate(cut.node_types)}
    assert {name: len(nodes) for name, nodes in nodes_of.items()} == cut.num_nodes
    found = []
    lists = cut.lists()
    assert len(lists.graphs) == num_types**2
    for (owner, _, neighbor), graph in lists.graphs.items():
        with graph:
            degrees = np.diff(graph.indptr.astype(np.int64))
            sources = nodes_of[owner][np.repeat(np.arange(len(degrees)), degrees)]
            found.append(np.stack([sources, nodes_of[neighbor][graph.indices]]))
    assert keys_of(np.concatenate(found, axis=1)) == keys_of(source.edges.T)


def test_the_whole_graph_has_the_same_edges(source: Source) -> None:
    with whole(source) as graph:
        degrees = np.diff(graph.indptr.astype(np.int64))
        ends = np.stack([np.repeat(np.arange(2**8), degrees), graph.indices])
        assert keys_of(ends) == keys_of(source.edges.T)


def test_seeds_are_the_same_nodes_in_every_cut(source: Source) -> None:
    seeds = typed.seeds_of(source, np.arange(2**8), 3, 50)
    assert len(set(seeds.tolist())) == 50
    cut = Cut(source, 4)
    nodes = [
        np.flatnonzero(cut.type_of == i)[ids] for i, ids in enumerate(cut.seeds(seeds).values())
    ]
    assert sorted(np.concatenate(nodes).tolist()) == sorted(seeds.tolist())


def test_fanouts_are_divided_and_rounded_up() -> None:
    assert typed.divided([15, 10, 5], 4) == [4, 3, 2]
    assert typed.divided([15, 10, 5], 1) == [15, 10, 5]


def test_the_script_runs_and_says_what_it_has_no_peer_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(typed, "SHORTEST_RUN", 0.0)
    monkeypatch.setitem(sys.modules, "torch_sparse", None)
    words = "--scale 8 --edges 3000 --types 1 2 --batch-size 8 --runs 1 --pyg --fanouts 4 2"
    files = ["--data", str(tmp_path), "--json", str(tmp_path / "out.json")]
    assert typed.main([*words.split(), *files]) == 0
    out, err = capsys.readouterr()
    assert "| 4 edge types, [2, 1]" in out
    assert "without PyG: " in err
    assert len(json.loads((tmp_path / "out.json").read_text())) == 5
