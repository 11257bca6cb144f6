"""Attributes that cannot be stored: each is refused by name, and the earlier dataset stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphzero.ingest import build, build_dataset, rows
from graphzero.ingest.rows import ArrayPart, Rows

EDGES = np.array([[0, 1], [1, 2], [2, 0], [3, 1], [2, 2], [0, 1]])

BAD_NAMES = ["n_id", "to", "keys", "num_nodes", "stats", "_private", "a b", "class", "ä", "", 3]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_names_that_cannot_be(tmp_path: Path, name: Any) -> None:
    with pytest.raises(ValueError, match=f"node attribute {name!r}: "):
        build_dataset(tmp_path, EDGES, nodes={name: np.ones(4)})
    with pytest.raises(ValueError, match=f"edge attribute {name!r}: "):
        build_dataset(tmp_path, {"edge_index": EDGES, name: np.ones(6)})


def test_no_attribute_hides_what_a_mini_batch_or_data_has() -> None:
    """What these have that is not reserved is the name of an attribute that PyG knows."""
    from graphzero.loader.mini_batch import MiniBatch

    known = {"x", "y", "pos", "time", "edge_attr", "edge_weight", "edge_time"}
    fields = {*dir(MiniBatch), *MiniBatch.__dataclass_fields__}
    assert {name for name in fields if name[0] != "_"} <= rows.RESERVED | known
    data = pytest.importorskip("torch_geometric.data")
    for kind in (data.Data, data.HeteroData):
        names = {name for name in dir(kind) if name[0] != "_"}
        assert names <= rows.RESERVED | known


BAD: list[tuple[dict[str, Any], str]] = [
    ({"nodes": {"year": np.ones(3)}}, "num_nodes=4, but node attribute 'year' has 3 rows"),
    ({"nodes": [1]}, "nodes must be a dictionary of attributes by name"),
    ({"nodes": {"edge_attr": np.ones(4)}}, "this is a name of edge attributes"),
    ({"nodes": {"tag": np.array(["a"] * 4)}}, "node attribute 'tag' has dtype <U1"),
    ({"nodes": {"tag": np.array([None] * 4)}}, "node attribute 'tag' has dtype object"),
    ({"nodes": {"tag": np.ones(4) * 1j}}, "node attribute 'tag' has dtype complex128"),
    ({"nodes": {"tag": 7}}, r"node attribute 'tag' has shape \(\)"),
    ({"edges": {"edge_attr": np.ones(6)}}, "edges has no 'edge_index'.* it has 'edge_attr'"),
    ({"w": np.ones(5)}, "edge attribute 'w' has 5 rows for 6 edges"),
    ({"w": np.ones(7)}, "edge attribute 'w' has 7 rows for 6 edges"),
    ({"w": [[1, 2], [3]]}, "inhomogeneous"),
    ({"x": np.ones(6)}, "edge attribute 'x': this is a name of node attributes"),
    ({"w": [np.ones((3, 2)), np.ones((3, 1))]}, r"'w'\[1\] has rows of shape \(1,\)"),
    ({"weight": np.array([1, 1, 1, np.nan, 1, 1])}, "edge 3: value of 'weight' nan is not a fin"),
    ({"weight": np.array([1, 1, -1, 1, 1, 1])}, "edge 2: .*-1.0 is negative.*weight_attrs=\\[\\]"),
    ({"weight": np.full(6, 1e300)}, "edge 0: value of 'weight' inf is not a finite"),
    ({"weight": np.ones(6), "edge_weight": np.ones(6)}, "'edge_weight' and 'weight' would both be"),
    ({"weight": np.ones((6, 1))}, r"'weight' has rows of shape \(1,\).*vectors of numbers"),
    ({"time": np.ones(6)}, "'time' has rows of shape .* float64.*vectors of integers.*time_attrs="),
    ({"time": np.full(6, 2**63, np.uint64)}, "9223372036854775808 is not a value of 'time'"),
    ({"time": np.arange(6), "timestamp": np.arange(6)}, "'timestamp' and 'time' would both be"),
    ({"w": np.ones(6), "weight_attrs": ["cost"]}, "no edge attribute 'cost'; there are w"),
    ({"nodes": {"v": np.ones(4)}, "weight_attrs": "v"}, "'v': it is one of the nodes"),
    ({"weight_attrs": ["v"]}, "no edge attribute 'v'; there are none"),
    ({"time_attrs": ["when"]}, "no attribute 'when' of edges or nodes; there are none"),
    (
        {"w": np.ones(6), "weight_attrs": "w", "time_attrs": "w"},
        "in weight_attrs and in time_attrs",
    ),
    ({"w": np.ones(6), "weight_attrs": ["w", "w"]}, "has a name twice"),
    ({"weight_attrs": [1]}, "must be a list of names"),
    (
        {"nodes": {"t": np.arange(4)}, "u": np.arange(6), "time_attrs": ["t", "u"]},
        "'u' and 't' wou",
    ),
    ({"nodes": {"t": np.ones((4, 2), int)}, "time_attrs": "t"}, "vectors of integers"),
    ({"nodes": {"t": np.full(4, 2**63, np.uint64)}, "time_attrs": "t"}, "node 0 with time 9223372"),
    ({"nodes": {"w": np.ones(4)}, "w": np.ones(6)}, "nodes and edges both have an attribute 'w'"),
    ({"split_a": np.ones(6), "edge_splits": {"a": [0]}}, "both be stored in edge_split_a.gd"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input(tmp_path: Path, arguments: dict[str, Any], message: str) -> None:
    options = ("nodes", "edges", "edge_splits", "weight_attrs", "time_attrs")
    given = {name: arguments[name] for name in options if name in arguments}
    attributes = {name: value for name, value in arguments.items() if name not in options}
    given.setdefault("edges", {"edge_index": EDGES, **attributes})
    build_dataset(tmp_path, EDGES, np.ones((4, 2)))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ValueError, match=message):
        build_dataset(tmp_path, num_nodes=4, **given)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_wrong_number_of_records(tmp_path: Path) -> None:
    """Where the number of edges is known only when all are read."""
    (tmp_path / "e.csv").write_text("".join(f"{s},{t}\n" for s, t in EDGES))
    for count in (5, 7):
        (tmp_path / "a.csv").write_text("1\n" * count)
        for name in ("weight", "kind"):
            edges = {"edge_index": tmp_path / "e.csv", name: tmp_path / "a.csv"}
            with pytest.raises(ValueError, match=r"a\.csv has .* rows for .*6 edges: every edge"):
                build_dataset(tmp_path / "d", edges)


def test_a_wrong_count_is_found_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "read_edges", lambda *_, **__: pytest.fail("the work has begun"))
    with pytest.raises(ValueError, match="edge attribute 'kind' has 5 rows for 6 edges"):
        build_dataset(tmp_path, {"edge_index": EDGES, "kind": np.ones(5)})


def test_parts_must_be_alike() -> None:
    one = ArrayPart("a", np.ones((2, 3)))
    for other in (np.ones((2, 4)), np.ones((2, 3), np.float32), np.ones((2, 3, 1))):
        with pytest.raises(ValueError, match="the parts of one attribute must be alike"):
            Rows("both", [one, ArrayPart("b", other)])
    parts = Rows("both", [one, ArrayPart("b", np.zeros((5, 3)))])
    chunks = list(parts.chunks(2))
    assert parts.count() == 7
    assert np.concatenate([ids for ids, _ in chunks]).tolist() == list(range(7))
    assert np.concatenate([rows for _, rows in chunks]).sum() == 6
