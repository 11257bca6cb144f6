"""Builds that merge parallel edges, drop self-loops, reverse: as a naive twin, and bounded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import reference_merging as naive
from hypothesis import given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero.ingest import build_dataset, merge, sort
from graphzero.store.format import read_file
from graphzero.store.manifest import EdgeChanges, read_manifest

# the work is that of NumPy; what is told, tests/test_symmetric.py says
pytestmark = [pytest.mark.no_asan, pytest.mark.filterwarnings("ignore::UserWarning")]

HOW = ("sum", "mean", "min", "max", "first", "last")
INTEGERS = ("rating", "edge_time")
LIKES, KNOWS = ("user", "likes", "item"), ("user", "knows", "user")


@contextlib.contextmanager
def tiny_pieces() -> Iterator[None]:
    """Sorts and passes work on a few edges at a time, so that groups cross all boundaries."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merge, "_CHUNK", 3)
        patch.setattr(merge, "_WORK_BYTES", 1 << 29)
        patch.setattr(sort, "_PIECE", 3)
        patch.setattr(sort, "run_length", lambda dtypes, memory: 4)
        yield


def values_of(edges: np.ndarray[Any, Any], kind: str, rng: Any) -> dict[str, Any]:
    """Attributes of all kinds: of few values, so that some merged edges have equal ones."""
    count = len(edges)
    if kind == "by ends":  # equal for edges with the same ends, in either direction
        seeds = edges.min(axis=1, initial=0) * 100 + edges.max(axis=1, initial=0)
    else:
        seeds = rng.integers(0, 2 if kind == "few" else 1000, count)
    return {
        "edge_weight": (seeds * 0.1).astype(np.float32),
        "edge_time": seeds.astype(np.int64) - 3,
        "rating": (seeds % 40).astype(np.int16),
        "edge_attr": np.stack([seeds / 3, -seeds, seeds * 1e6], axis=1).astype(np.float64),
    }


def choice(coalesce: Any) -> tuple[bool, dict[str, str]]:
    """Whether edges are merged, and the aggregation of each attribute."""
    names = ("edge_weight", "edge_time", "rating", "edge_attr")
    if isinstance(coalesce, str):
        how = dict.fromkeys(names, coalesce)
        if coalesce in ("sum", "mean"):
            del how["edge_time"]  # times have none of these unless they are named
        return True, how
    return bool(coalesce), dict(coalesce) if isinstance(coalesce, dict) else {}


def assert_as_by_hand(folder: Path, hand: Path, merged: naive.Merged) -> None:
    """All sections are those of a build of the merged list, and edge ids are first positions."""
    _, found = read_file(folder / "graph.gl")
    _, expected = read_file(hand / "graph.gl")
    assert found.keys() == expected.keys()
    for section in expected.keys() - {"edge_ids"}:
        np.testing.assert_array_equal(found[section], expected[section], section)
        assert found[section].dtype == expected[section].dtype
    np.testing.assert_array_equal(found["edge_ids"], merged.positions[expected["edge_ids"]])
    for name in ("edge_rating.gd", "edge_edge_attr.gd"):
        assert (folder / name).read_bytes() == (hand / name).read_bytes(), name


CASES = st.builds(
    SimpleNamespace,
    num_nodes=st.integers(1, 6),
    kind=st.sampled_from(["by ends", "few", "many"]),
    coalesce=st.one_of(
        st.sampled_from([False, True, "sum", "min", "max", "first", "last"]),
        st.fixed_dictionaries(
            {"edge_weight": st.sampled_from(HOW), "edge_attr": st.sampled_from(HOW)},
            optional={
                name: st.sampled_from([how for how in HOW if how != "mean"]) for name in INTEGERS
            },
        ),
    ),
    edges_are=st.fixed_dictionaries({"drop_self_loops": st.booleans(), "reverse": st.booleans()}),
    options=st.fixed_dictionaries(
        {
            "directed": st.booleans(),
            "neighbors": st.sampled_from(["in", "out", "both"]),
            "order": st.sampled_from(["hot", "input"]),
        }
    ),
    mirror=st.booleans(),
    tiny=st.booleans(),
    seed=st.integers(0, 99),
)


def drawn_edges(data: st.DataObject, num_nodes: int, *, mirror: bool) -> np.ndarray[Any, Any]:
    node = st.integers(0, num_nodes - 1)
    edges = np.array(data.draw(st.lists(st.tuples(node, node), max_size=24)), np.int64)
    edges = edges.reshape(-1, 2)
    if mirror:
        edges = np.concatenate([edges, edges[:, ::-1]])
        edges = edges[np.array(data.draw(st.permutations(range(len(edges)))), np.int64)]
    return edges


def refused(error: Exception) -> str:
    """What the message must say."""
    if isinstance(error, OverflowError):
        return "does not fit"
    return "become one edge, and their"  # which pair comes first depends on the pieces


@settings(max_examples=80, deadline=None)
@given(data=st.data(), case=CASES)
def test_like_the_naive_twin(tmp_path_factory: Any, data: st.DataObject, case: Any) -> None:
    edges = drawn_edges(data, case.num_nodes, mirror=case.mirror)
    attrs = values_of(edges, case.kind, np.random.default_rng(case.seed))
    split = data.draw(st.lists(st.sampled_from(range(max(1, len(edges)))), max_size=12))
    is_like_a_mask = 2 < len(split) == len(edges) and max(split) <= 1  # which is refused
    split = split if len(edges) and not is_like_a_mask else []
    options = {"num_nodes": case.num_nodes, **case.options}
    directed = options["directed"]
    merges, how = choice(case.coalesce)
    folder, hand = tmp_path_factory.mktemp("d"), tmp_path_factory.mktemp("hand")

    def build() -> Any:
        with tiny_pieces() if case.tiny else contextlib.nullcontext():
            return build_dataset(
                folder,
                {"edge_index": edges.T, **attrs},
                coalesce=case.coalesce,
                edge_splits={"s": np.array(split, np.int64)},
                **case.edges_are,
                **options,
            )

    try:
        expected = naive.merge(
            edges, attrs, directed=directed, coalesce=merges, how=how, **case.edges_are
        )
    except (naive.Differ, OverflowError) as error:
        with pytest.raises(ValueError, match=refused(error)):
            build()
        return
    manifest = build()
    build_dataset(hand, {"edge_index": expected.edges.T, **expected.attributes}, **options)
    assert_as_by_hand(folder, hand, expected)
    if directed and options["neighbors"] == "both":
        for section in ("indptr", "indices", "weights", "times"):
            found = [read_file(one / "graph_out.gl")[1][section] for one in (folder, hand)]
            np.testing.assert_array_equal(*found)
    stored_split = read_file(folder / "edge_split_s.gd")[1]["rows"].tolist()
    assert stored_split == naive.remap(split, expected)
    assert manifest.edges["", "", ""].num_input_edges == len(edges)
    dropped = sum(kept is None for kept in expected.kept_of.values())
    changes = EdgeChanges(
        expected.num_merged if merges else None,
        dropped if case.edges_are["drop_self_loops"] else None,
        case.edges_are["reverse"],
        expected.symmetric,
    )
    assert manifest.edges["", "", ""].changes == (changes or None)
    assert read_manifest(folder) == manifest


def test_the_options_of_one_edge_type_leave_others_alone(tmp_path: Path) -> None:
    pairs = {"edge_index": [[0, 0, 2, 1], [1, 1, 2, 0]], "rating": [1, 2, 3, 4]}
    options: dict[str, Any] = {
        "nodes": {"user": {"num_nodes": 3}, "item": {"num_nodes": 3}},
        "coalesce": {KNOWS: "sum"},
        "drop_self_loops": True,  # of which an edge type between two node types has none
        "reverse": {LIKES: True},
        "edge_splits": {"s": {KNOWS: [3, 1, 0]}},
    }
    with pytest.warns(UserWarning, match="edge split 's': 1 of its positions name"):
        ds = gz.build(tmp_path, {LIKES: pairs, KNOWS: pairs}, **options)
    with ds:
        likes, knows = ds[LIKES], ds[KNOWS]
        assert likes.edge_index.T.tolist() == [[1, 0], [1, 0], [2, 2], [0, 1]]
        assert knows.edge_index.T.tolist() == [[0, 1], [1, 0]]
        assert knows.rating.tolist() == [3, 4]
        assert knows.splits["s"].tolist() == [3, 0]
        changes = {key: one.changes for key, one in read_manifest(tmp_path).edges.items()}
    assert changes == {LIKES: EdgeChanges(None, None, True), KNOWS: EdgeChanges(1, 1)}


@pytest.mark.parametrize("directed", [True, False])
def test_little_memory_gives_the_same_bytes(tmp_path: Path, directed: bool) -> None:
    rng = np.random.default_rng(5)
    edges = rng.integers(0, 90, (60_000, 2)) ** 2 // 90
    drawn = edges[:, 0] * 100 + edges[:, 1] if directed else rng.integers(0, 1 << 30, len(edges))
    given_ = {
        "edge_index": edges.T,
        "edge_weight": (drawn % 1000 / 7).astype(np.float32),
        "edge_time": drawn,
        "vec": np.stack([drawn / 3, drawn * 2.0], axis=1).astype(np.float32),
    }
    found = []
    for limit in ("1MiB", "1GiB"):
        build_dataset(
            tmp_path / limit,
            given_,
            directed=directed,
            coalesce=directed or {"edge_weight": "sum", "edge_time": "max", "vec": "mean"},
            drop_self_loops=True,
            edge_splits={"s": np.arange(50_000) * 7 % 60_000},
            memory_limit=limit,
        )
        names = ["graph.gl", "edge_vec.gd", "edge_split_s.gd"]
        found.append([(tmp_path / limit / name).read_bytes() for name in names])
    assert found[0] == found[1]


def test_a_node_of_dropped_self_loops_stays(tmp_path: Path) -> None:
    with gz.build(tmp_path, [[0, 1], [5, 5], [3, 3]], drop_self_loops=True) as ds:
        assert (ds.num_nodes, ds.num_edges) == (6, 1)


@pytest.mark.parametrize(
    ("dtype", "parts", "most"),
    [(np.uint64, [(1 << 63) + 1, 5], (1 << 64) - 1), (np.int64, [-(1 << 62), -(1 << 62)], -1)],
)
def test_integers_of_64_bits_are_added_exactly(
    tmp_path: Path, dtype: Any, parts: list[int], most: int
) -> None:
    edges = {"edge_index": [[0, 0, 1], [1, 1, 0]], "big": np.array([*parts, 7], dtype)}
    with gz.build(tmp_path, edges, coalesce="sum", order="input") as ds:
        found = ds.edge_attributes["big"].get_tensor().tolist()
        assert sorted(found) == sorted([sum(parts), 7])
    edges["big"] = np.array([parts[0], most if most > 0 else parts[1] - 1, 7], dtype)
    with pytest.raises(ValueError, match="sum of 'big' over edge 0 .* does not fit"):
        gz.build(tmp_path, edges, coalesce="sum")


@pytest.mark.parametrize("how", ["sum", "min", "max", "last", "mean"])
def test_bfloat16_and_nan(tmp_path: Path, how: str) -> None:
    bits = np.array([0x3F80, 0x4000, 0x7FC0, 0x7FC0], np.uint16).view(gz.BFLOAT16)  # 1, 2, NaN, NaN
    edges = {"edge_index": [[0, 0, 1, 1], [1, 1, 0, 0]], "half": bits}
    with gz.build(tmp_path, edges, coalesce=how, order="input", neighbors="out") as ds:
        found = ds.edge_attributes["half"].get_tensor().view(np.uint16).tolist()
    one = {"sum": 0x4040, "min": 0x3F80, "max": 0x4000, "last": 0x4000, "mean": 0x3FC0}[how]
    assert found == [one, 0x7FC0]
    with pytest.raises(ValueError, match=r"\(edge 1\) become .* 'half' differs: 1.0 and 2.0"):
        gz.build(tmp_path, edges, coalesce=True)
