"""Builds that merge parallel edges, pair symmetric ones, drop self-loops, reverse."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import reference_merging as naive
from files import read_file
from hypothesis import given, settings
from hypothesis import strategies as st
from reference_merging import is_symmetric

import graphzero as gz
from graphzero.cli import main
from graphzero.ingest import build_dataset, merge, sort
from graphzero.store.manifest import EdgeChanges, Manifest, read_manifest

pytestmark = pytest.mark.no_asan  # the work is that of NumPy
quiet = pytest.mark.filterwarnings("error::UserWarning")

HOW = ("sum", "mean", "min", "max", "first", "last")
INTEGERS = ("rating", "edge_time")
LIKES, KNOWS = ("user", "likes", "item"), ("user", "knows", "user")
WRITES = ("author", "writes", "paper")


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
    is_overflow = isinstance(error, OverflowError)
    return "does not fit" if is_overflow else "become one edge, and their .* differs"


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
        "edge_splits": {"s": {KNOWS: [3, 1, 0, 2]}},
    }
    with pytest.warns(UserWarning, match="'s': 1 of its positions .*; 1 name self-loops"):
        ds = gz.build(tmp_path, {LIKES: pairs, KNOWS: pairs}, **options)
    with ds:
        likes, knows = ds[LIKES], ds[KNOWS]
        assert likes.edge_index.T.tolist() == [[1, 0], [1, 0], [2, 2], [0, 1]]
        assert knows.edge_index.T.tolist() == [[0, 1], [1, 0]]
        assert knows.rating.tolist() == [3, 4]
        assert knows.splits["s"].tolist() == [3, 0]
        changes = {key: one.changes for key, one in read_manifest(tmp_path).edges.items()}
    assert changes == {LIKES: EdgeChanges(None, None, True), KNOWS: EdgeChanges(1, 1)}


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


# --- undirected lists that have both directions already; what is refused; what is told

SYMMETRIC = "has both directions of every edge.*each pair was stored once. directed=True"
HALF = [[0, 1], [1, 2], [3, 3], [0, 1], [2, 4]]
BOTH = [*HALF, *([v, u] for u, v in HALF if u != v)]


def stored(manifest: Manifest) -> int:
    """Stored edges of a graph without types."""
    return manifest.edges["", "", ""].num_edges


def sections(folder: Path) -> dict[str, list[Any]]:
    return {name: array.tolist() for name, array in read_file(folder / "graph.gl")[1].items()}


@quiet
def test_a_symmetric_list_stores_each_pair_once(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match=SYMMETRIC):
        manifest = build_dataset(tmp_path / "both", BOTH, directed=False, edge_ids=True)
    build_dataset(tmp_path / "half", HALF, directed=False, edge_ids=True)
    assert sections(tmp_path / "both") == sections(tmp_path / "half")
    assert manifest.edges["", "", ""].changes is not None
    assert manifest.edges["", "", ""].changes.symmetric
    assert (manifest.edges["", "", ""].num_input_edges, stored(manifest)) == (9, 9)
    assert read_manifest(tmp_path / "half").edges["", "", ""].changes is None


@quiet
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
        for name in ("indptr", "indices"):
            assert sections(tmp_path / "d")[name] == sections(tmp_path / "half")[name]


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


def test_typed_refusals(tmp_path: Path) -> None:
    edges = {WRITES: {"edge_index": [[0, 1, 0], [2, 0, 2]], "year": [1, 2, 3]}}
    for coalesce, message in (
        ({("a", "b", "c"): True}, r"coalesce= has no type \('a', 'b', 'c'\) here"),
        (True, r"edge type \('author', .*\(edge 2\).*'year' differs: 1 and 3"),
    ):
        with pytest.raises(ValueError, match=message):
            gz.build(tmp_path, edges, nodes={"paper": {}, "author": {}}, coalesce=coalesce)


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
    assert main(["info", str(tmp_path / "d")]) == 0
    changes = "changes: num_merged=1, num_self_loops_dropped=1, reversed=True"
    assert changes in capsys.readouterr().out
    assert main([*command, "--coalesce"]) == 1
    assert "line 2 (edge 0) and line 3" in capsys.readouterr().err


def test_a_reordering_keeps_what_was_done(tmp_path: Path) -> None:
    edges = {"edge_index": [[0, 0, 1], [1, 1, 2]], "rating": [1, 2, 3]}
    gz.build(tmp_path, edges, coalesce="sum").close()
    before = read_manifest(tmp_path).edges["", "", ""].changes
    with gz.reorder(tmp_path, "input", neighbors="out") as ds:
        assert ds.edge_attributes["rating"].get_tensor().tolist() == [3, 3]
        assert ds.graph.sample_neighbors([0, 1], -1).e_id.tolist() == [0, 2]
    assert before is not None
    assert read_manifest(tmp_path).edges["", "", ""].changes == before
