"""Undirected lists that have both directions already; what is refused; what is told."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from reference_merging import is_symmetric

import graphzero as gz
from graphzero.cli import main
from graphzero.ingest import build_dataset
from graphzero.store.format import read_file
from graphzero.store.manifest import MANIFEST_NAME, Manifest, read_manifest

# the work is that of NumPy
pytestmark = [pytest.mark.no_asan, pytest.mark.filterwarnings("error::UserWarning")]

SYMMETRIC = "has both directions of every edge.*each pair was stored once. directed=True"
HALF = [[0, 1], [1, 2], [3, 3], [0, 1], [2, 4]]
BOTH = [*HALF, *([v, u] for u, v in HALF if u != v)]


def stored(manifest: Manifest) -> int:
    """Stored edges of a graph without types."""
    return manifest.edges["", "", ""].num_edges


def sections(folder: Path) -> dict[str, list[Any]]:
    return {name: array.tolist() for name, array in read_file(folder / "graph.gl")[1].items()}


def test_a_symmetric_list_stores_each_pair_once(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=SYMMETRIC):
        manifest = build_dataset(tmp_path / "both", BOTH, directed=False, edge_ids=True)
    build_dataset(tmp_path / "half", HALF, directed=False, edge_ids=True)
    assert sections(tmp_path / "both") == sections(tmp_path / "half")
    assert manifest.edges["", "", ""].changes is not None
    assert manifest.edges["", "", ""].changes.symmetric
    assert (manifest.edges["", "", ""].num_input_edges, stored(manifest)) == (9, 9)
    assert read_manifest(tmp_path / "half").edges["", "", ""].changes is None


def test_a_nearly_symmetric_list_is_stored_twice_and_told(tmp_path: Path) -> None:
    edges = [*BOTH, [5, 6]]
    with pytest.warns(UserWarning, match="about 85.7 % of the edges have their reverse") as told:
        manifest = build_dataset(tmp_path, edges, directed=False)
    assert stored(manifest) == 2 * 10 - 1
    assert manifest.edges["", "", ""].changes is None
    # Both ways out that the warning names.
    assert "coalesce=True" in str(told[0].message)
    assert "directed=True" in str(told[0].message)
    assert stored(build_dataset(tmp_path, edges, directed=False, coalesce=True)) == 9
    assert stored(build_dataset(tmp_path, edges, directed=True)) == 10
    few = [[0, 1], [1, 0], [1, 2], [2, 3], [3, 4]]  # are not told
    assert stored(build_dataset(tmp_path, few, directed=False)) == 10


@pytest.mark.parametrize("spoil", [None, "one more", "two turned"])
def test_large_lists_are_told_apart_exactly(tmp_path: Path, spoil: str | None) -> None:
    """The sample sees about 65,536 of 240,000 edges, the sort all of them."""
    half = np.random.default_rng(1).integers(0, 3000, (120_000, 2))
    half[:, 1] = (half[:, 0] + 1 + half[:, 1] % 2999) % 3000  # parallel edges, and no self-loops
    edges = np.concatenate([half, half[:, ::-1]])
    edges = edges[np.random.default_rng(2).permutation(len(edges))]
    if spoil == "one more":
        edges = np.concatenate([edges, edges[:1]])
    elif spoil == "two turned":  # as many up as down
        for way in (edges[:, 0] < edges[:, 1], edges[:, 0] > edges[:, 1]):
            edges[np.flatnonzero(way)[3]] = edges[np.flatnonzero(way)[3], ::-1].copy()
    assert is_symmetric(edges) is (spoil is None)
    about = SYMMETRIC if spoil is None else r"about 100 % of the edges have their reverse"
    with pytest.warns(UserWarning, match=about):
        manifest = build_dataset(
            tmp_path / "d", edges, directed=False, edge_ids=True, memory_limit="2MiB"
        )
    assert stored(manifest) == (2 * len(edges) if spoil else len(edges))
    if spoil is None:
        build_dataset(tmp_path / "half", half, directed=False)
        found, expected = sections(tmp_path / "d"), sections(tmp_path / "half")
        assert found["indptr"] == expected["indptr"]
        assert found["indices"] == expected["indices"]


def refusals() -> list[Any]:
    mirrored = {"edge_index": [[0, 1, 2, 2], [1, 0, 2, 2]], "edge_weight": [1.0, 2.0, 5.0, 6.0]}
    rated = {"edge_index": [[0, 1], [1, 0]], "rating": np.array([[1, 2], [1, 3]])}
    parallel = {"edge_index": [[0, 2, 0], [1, 1, 1]], "edge_time": [5, 6, 7]}
    return [
        (
            {"edges": mirrored, "directed": False},
            r"edge 0 \(edge 0\) and edge 1 \(edge 1\) become one edge.*'edge_weight' differs: "
            r"1.0 and 2.0.*coalesce=\{'edge_weight': 'first'\}.*directed=True",
            [{"directed": True}, {"coalesce": {"edge_weight": "mean"}}],
        ),
        (
            {"edges": rated, "directed": False},
            r"edge 0 .*and edge 1 .*'rating' differs: 2 and 3",
            [{"directed": True}, {"coalesce": "first"}, {"coalesce": {"rating": "max"}}],
        ),
        (
            {"edges": parallel, "coalesce": "sum"},
            r"edge 0 .*and edge 2 .*become one edge.*'edge_time' differs: 5 and 7.*'sum'.*"
            r"coalesce=False",
            [{"coalesce": {"edge_time": "min"}}, {"coalesce": False}],
        ),
        (
            {"edges": rated, "coalesce": "mean"},
            r"coalesce='mean' is not for int64: convert 'rating'.*coalesce=\{'rating': 'max'\}",
            [{"coalesce": {"rating": "sum"}}],
        ),
        (
            {"edges": parallel, "coalesce": {"edge_weight": "sum"}},
            "there is no edge attribute 'edge_weight'; there are edge_time",
            [{"coalesce": {"edge_time": "last"}}],
        ),
        ({"edges": HALF, "coalesce": "mul"}, "coalesce must be one of 'sum', .*'mul'", []),
        ({"edges": HALF, "coalesce": 3}, "coalesce=3 must be True or False, one of", []),
        ({"edges": HALF, "drop_self_loops": "yes"}, "drop_self_loops='yes' must be", []),
    ]


@pytest.mark.parametrize(("given", "message", "ways_out"), refusals())
def test_refused_with_a_way_out(
    tmp_path: Path, given: dict[str, Any], message: str, ways_out: list[dict[str, Any]]
) -> None:
    with pytest.raises(ValueError, match=message):
        build_dataset(tmp_path, **given)
    assert list(tmp_path.iterdir()) == []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for way_out in ways_out:
            build_dataset(tmp_path, **{**given, **way_out})


WRITES = ("author", "writes", "paper")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"coalesce": {("a", "b", "c"): True}}, r"coalesce names \('a', 'b', 'c'\), which is none"),
        ({"coalesce": True}, r"edge type \('author', .*\(edge 2\).*'year' differs: 1 and 3"),
    ],
)
def test_typed_refusals(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    edges = {WRITES: {"edge_index": [[0, 1, 0], [2, 0, 2]], "year": [1, 2, 3]}}
    with pytest.raises(ValueError, match=message):
        gz.build(tmp_path, edges, nodes={"paper": {}, "author": {}}, **given)


def test_reversed_typed_lists_have_the_bounds_of_their_types(tmp_path: Path) -> None:
    nodes = {"paper": {"num_nodes": 9}, "author": {"num_nodes": 2}}
    edges = {WRITES: [[8, 0, 8], [1, 0, 1]]}  # paper, author
    with pytest.raises(ValueError, match="out of range for 2 nodes"):
        gz.build(tmp_path, edges, nodes=nodes)
    with gz.build(tmp_path, edges, nodes=nodes, reverse={WRITES: True}) as ds:
        assert ds[WRITES].neighbors(8).tolist() == [1, 1]
    with gz.build(tmp_path, edges, nodes={"paper": {}, "author": {}}, reverse=True) as ds:
        assert (ds["paper"].num_nodes, ds["author"].num_nodes) == (9, 2)


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "e.csv").write_text("src,dst,weight\n0,1,2\n0,1,3\n2,2,1\n1,2,1\n")
    command = ["build", str(tmp_path / "d"), "--edges", str(tmp_path / "e.csv"), "--quiet"]
    merged = ["--coalesce", "edge_weight=sum", "--drop-self-loops", "--reverse"]
    assert main([*command, *merged]) == 0
    clauses = ["reversed", "self-loops dropped: 1", "parallel edges merged: 1"]
    assert "; ".join(clauses) in capsys.readouterr().out
    with gz.open(tmp_path / "d") as ds:
        assert ds.graph.neighbors(0).tolist() == [1]
        assert ds.edge_attributes["edge_weight"].get_tensor().tolist() in ([5, 1], [1, 5])
    assert main(["info", str(tmp_path / "d")]) == 0
    assert "changes: num_merged=1, num_self_loops_dropped=1, reversed=True" in (
        capsys.readouterr().out
    )
    assert main([*command, "--coalesce"]) == 1
    assert "line 2 (edge 0) and line 3" in capsys.readouterr().err
    assert main([*command, "--coalesce", "max"]) == 0


def test_a_reordering_keeps_what_was_done(tmp_path: Path) -> None:
    edges = {"edge_index": [[0, 0, 1], [1, 1, 2]], "rating": [1, 2, 3]}
    gz.build(tmp_path, edges, coalesce="sum").close()
    before = read_manifest(tmp_path).edges["", "", ""].changes
    with gz.reorder(tmp_path, "input", neighbors="out") as ds:
        assert ds.edge_attributes["rating"].get_tensor().tolist() == [3, 3]
        assert ds.graph.sample_neighbors([0, 1], -1).e_id.tolist() == [0, 2]
    assert before is not None
    assert read_manifest(tmp_path).edges["", "", ""].changes == before


def test_a_manifest_with_wrong_changes_is_refused(tmp_path: Path) -> None:
    gz.build(tmp_path, HALF, coalesce=True).close()
    path = tmp_path / MANIFEST_NAME
    content = json.loads(path.read_text())
    for changes in ({"num_merged": -1}, {"symmetric": 1}, {"reversed": None}, {"num_merged": "1"}):
        path.write_text(json.dumps({**content, "changes": {**content["changes"], **changes}}))
        with pytest.raises(gz.FormatError, match="corrupt"):
            read_manifest(tmp_path)
