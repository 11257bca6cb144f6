"""New nodes and edges: the dataset is that of one build of everything."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from itertools import pairwise

import files
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_changes import content

import graphzero as gz
from graphzero.cli import main
from graphzero.ingest import additions, append, append_dataset, build_dataset, insertion
from graphzero.store.manifest import read_manifest

NODES, EDGES = 40, 300
OLD_NODES = 30
LIMIT = "1MiB"
WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")
RNG = np.random.default_rng(0)
ROWS = {"x": RNG.random((NODES, 3), np.float32), "y": RNG.integers(0, 5, NODES)}
TIMES = RNG.integers(0, 9, NODES)


@pytest.fixture(scope="module", autouse=True)
def small_pieces():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(insertion, "_PIECE_BYTES", 200)
        for module in (additions, insertion):
            patch.setattr(module, "_SEARCHED", 16)
        for module in (additions, append, insertion):
            patch.setattr(module, "_CHUNK", 11)
        yield


def edges_of(cut, attributes, seed=0):
    """Edges of the positions in `cut`; the first 150 name stored nodes only."""
    rng = np.random.default_rng(seed)
    ends = np.hstack([rng.integers(0, OLD_NODES, (2, 150)), rng.integers(0, NODES, (2, 150))])
    found = {"edge_index": ends[:, cut]}
    values = {
        "edge_attr": rng.random((EDGES, 2)),
        "edge_weight": rng.random(EDGES, np.float32),
        "edge_time": rng.integers(-5, 50, EDGES),
    }
    return {**found, **{name: values[name][cut] for name in attributes}}


def rows_of(cut, names):
    return {**{name: ROWS[name][cut] for name in names}, "num_nodes": len(range(NODES)[cut])}


@settings(max_examples=60, deadline=None)
@given(
    cuts=st.lists(st.integers(150, EDGES), max_size=2).map(sorted),
    attributes=st.sets(st.sampled_from(["edge_attr", "edge_weight", "edge_time"])),
    names=st.sets(st.sampled_from(["x", "y"])),
    how=st.sampled_from([{}, {"directed": False}, {"neighbors": "both"}, {"neighbors": "out"}]),
    is_typed=st.booleans(),
    with_ids=st.booleans(),
    reverse=st.booleans(),
)
def test_appending_is_as_one_build(
    tmp_path_factory, cuts, attributes, names, how, is_typed, with_ids, reverse
):
    folder = tmp_path_factory.mktemp("append")
    how = {} if is_typed and how != {"neighbors": "out"} else how
    how |= {"order": "input", "memory_limit": LIMIT, "edge_ids": with_ids, "reverse": reverse}

    def given(edges, nodes):
        rows = rows_of(nodes, names)
        if not is_typed:
            return {"edges": edges_of(edges, attributes), "nodes": rows}
        authors = {"num_nodes": rows["num_nodes"]}
        other = edges_of(edges, attributes, 1)
        if edges.start:  # of one type only
            return {"edges": {CITES: other}, "nodes": {"paper": rows, "author": authors}}
        both = {WRITES: edges_of(edges, set()), CITES: other}
        return {"edges": both, "nodes": {"paper": rows, "author": authors}}

    def built(path, edges, nodes):
        values = given(edges, nodes)
        if not is_typed:
            values["num_nodes"] = values["nodes"].pop("num_nodes")
        build_dataset(path, **values, **how)

    built(folder / "data", slice(0, 150), slice(0, OLD_NODES))
    bounds = [150, *cuts, EDGES]
    for i, (begin, end) in enumerate(pairwise(bounds)):
        values = given(slice(begin, end), slice(OLD_NODES, NODES))
        if i:
            del values["nodes"]
        append_dataset(folder / "data", **values, memory_limit=LIMIT)
    if is_typed:
        values = given(slice(0, 150), slice(0, NODES))
        values["edges"][CITES] = edges_of(slice(0, EDGES), attributes, 1)
        build_dataset(folder / "whole", **values, **how)
    else:
        built(folder / "whole", slice(0, EDGES), slice(0, NODES))
    assert content(folder / "data") == content(folder / "whole")
    assert not gz.verify(folder / "data")


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 60), st.sets(st.integers(0, 149))), max_size=3),
    attributes=st.sets(st.sampled_from(["edge_attr", "edge_weight", "edge_time"])),
    how=st.sampled_from([{}, {"directed": False}, {"neighbors": "both"}]),
    is_typed=st.booleans(),
)
def test_removing_is_as_one_build_of_what_stays(tmp_path_factory, steps, attributes, how, is_typed):
    folder = tmp_path_factory.mktemp("remove")
    how = {"order": "input", "memory_limit": LIMIT, "edge_ids": True, **({} if is_typed else how)}
    nodes = {"paper": {"num_nodes": NODES}} if is_typed else {}
    how |= {} if is_typed else {"num_nodes": NODES}

    def typed(value):
        return {CITES: value} if is_typed else value

    def built(path, now, val):
        edge_splits = {"val": typed(val)}
        edges = typed(edges_of(now, attributes))
        build_dataset(path, edges, nodes=nodes, edge_splits=edge_splits, **how)

    now, val, end = np.arange(150), np.arange(0, 150, 7), 150
    built(folder / "data", now, val)
    for count, removed in steps:
        new = np.arange(end, min(end + count, EDGES))
        end += len(new)
        gone = np.array([each for each in removed if each < len(now)], int)
        edges = typed(edges_of(new, attributes)) if len(new) else None
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            gz.append(folder / "data", edges, remove_edges=typed(gone)).close()
        stays = np.delete(np.arange(len(now)), gone)
        assert gz.remap_edge_ids(stays, gone).tolist() == list(range(len(stays)))
        assert (gz.remap_edge_ids(gone, np.isin(np.arange(len(now)), gone)) == -1).all()
        val = gz.remap_edge_ids(val, gone)
        val = val[val >= 0]
        now = np.concatenate([now[stays], new])
    built(folder / "whole", now, val)
    assert content(folder / "data") == content(folder / "whole")
    assert not gz.verify(folder / "data")


@settings(max_examples=100, deadline=None)
@given(
    counts=st.lists(st.integers(1, 30), min_size=1, max_size=3),
    merges=st.booleans(),
    drops=st.booleans(),
    how=st.sampled_from([{"directed": False}, {"neighbors": "both"}, {"reverse": True}, "typed"]),
    most=st.sampled_from([2, 5, 12]),
    seed=st.integers(0, 999),
)
def test_what_was_merged_and_dropped_stays_so(
    tmp_path_factory, counts, merges, drops, how, most, seed
):
    folder, rng = tmp_path_factory.mktemp("merged"), np.random.default_rng(seed)
    ends = rng.integers(0, most, (2, 120))
    ends[:, 0] = 0, 12  # the only edge of this node, so that no list is symmetric
    values, is_typed = rng.random((120, 2)), how == "typed"
    how = {"order": "input", "edge_ids": True, **({} if is_typed else how)}
    how |= {"coalesce": merges, "drop_self_loops": drops, "memory_limit": LIMIT}
    how |= {"nodes": {"paper": {"num_nodes": 13}}} if is_typed else {"num_nodes": 13}

    def typed(value):
        return {CITES: value} if is_typed else value

    def edges_at(at):
        attributes = {} if merges else {"edge_attr": values[at]}
        return typed({"edge_index": ends[:, at], **attributes})

    now = np.arange(30)
    build_dataset(folder / "data", edges_at(now), **how)
    end = 30
    for count in counts:
        new, end = np.arange(end, end + count), end + count
        # 0 stays, and positions are not known where edges were merged
        gone = [] if merges else 1 + np.flatnonzero(rng.random(len(now) - 1) < 0.2)
        removed = None if merges else typed(gone)
        append_dataset(folder / "data", edges_at(new), remove_edges=removed)
        now = np.concatenate([np.delete(now, gone), new])
    build_dataset(folder / "whole", edges_at(now), **how)
    assert content(folder / "data") == content(folder / "whole")
    found, whole = (
        [(table.num_edges, table.num_input_edges, table.changes) for table in of.edges.values()]
        for of in (read_manifest(folder / name) for name in ("data", "whole"))
    )
    assert found == whole
    assert not gz.verify(folder / "data")


@pytest.mark.parametrize("attributes", [[], ["edge_attr", "edge_weight", "edge_time"]])
@pytest.mark.parametrize("how", [{"directed": False}, {"neighbors": "both"}, "typed"])
def test_all_edges_leave_and_others_come(tmp_path, attributes, how):
    is_typed = how == "typed"
    how = {"order": "input", "edge_ids": True, **({} if is_typed else how)}
    how |= {"nodes": {"paper": {"num_nodes": NODES}}} if is_typed else {"num_nodes": NODES}
    old, new = (edges_of(cut, attributes) for cut in (np.arange(150), np.arange(150, EDGES)))
    gone = np.arange(150)
    if is_typed:
        old, new, gone = {CITES: old}, {CITES: new}, {CITES: gone}
    gz.build(tmp_path / "data", old, **how).close()
    with gz.append(tmp_path / "data", remove_edges=gone) as ds:
        assert ds.num_edges == 0
    assert not gz.verify(tmp_path / "data")
    gz.append(tmp_path / "data", new).close()
    gz.build(tmp_path / "whole", new, **how).close()
    assert content(tmp_path / "data") == content(tmp_path / "whole")


def test_an_edge_that_leaves_and_comes_again(tmp_path):
    """Where edges are merged, it is not merged into the one that leaves, or into another list."""
    how = {"coalesce": True, "edge_ids": True, "order": "input"}
    old, new = [[0, 1], [1, 2], [2, 0], [3, 3]], [[0, 1], [2, 1], [1, 2], [1, 3]]
    gz.build(tmp_path / "data", old, **how).close()
    gz.append(tmp_path / "data", new, remove_edges=[0]).close()
    gz.build(tmp_path / "whole", [*old[1:], *new], **how).close()
    assert content(tmp_path / "data") == content(tmp_path / "whole")


def test_new_edges_that_are_symmetric(tmp_path):
    """They are stored as in one build, whose list is not."""
    old, new, how = [[0, 1], [1, 2], [2, 0]], [[3, 4], [4, 3]], {"directed": False}
    gz.build(tmp_path / "data", old, **how, num_nodes=5, order="input").close()
    gz.append(tmp_path / "data", {"edge_index": np.transpose(new)}).close()
    gz.build(tmp_path / "whole", [*old, *new], **how, order="input").close()
    assert content(tmp_path / "data") == content(tmp_path / "whole")


def hot(path, cut, nodes, **how):
    rows = {name: ROWS[name][nodes] for name in ROWS}
    return gz.build(path, edges_of(cut, ["edge_attr", "edge_weight"]), nodes=rows, **how)


@pytest.mark.parametrize("order", ["hot", "presample"])
@pytest.mark.parametrize("how", [{"neighbors": "both"}, {"directed": False}])
def test_new_nodes_stand_at_the_end_until_they_are_reordered(tmp_path, order, how):
    with hot(tmp_path / "data", slice(0, 150), slice(0, OLD_NODES), order=order, **how) as ds:
        before = ds.graph.node_ids.copy()
    more = edges_of(slice(150, EDGES), ["edge_attr", "edge_weight"])
    rows = {name: ROWS[name][OLD_NODES:] for name in ROWS}
    with gz.append(tmp_path / "data", more, nodes=rows) as ds:
        assert ds.graph.node_ids.tolist() == [*before.tolist(), *range(OLD_NODES, NODES)]
        assert ds.num_classes == ROWS["y"].max() + 1
        np.testing.assert_array_equal(ds.features[np.arange(NODES)], ROWS["x"])
    assert not gz.verify(tmp_path / "data")
    hot(tmp_path / "whole", slice(0, EDGES), slice(0, NODES), order="hot", **how).close()
    gz.reorder(tmp_path / "data", "hot").close()
    found, whole = content(tmp_path / "data"), content(tmp_path / "whole")
    found[0].pop("visits.gd", None)
    assert found == whole


def joined_of(folder, capsys):
    assert main(["info", str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["joined_since_order"]
    return found and [*found.values()]


@pytest.mark.parametrize("is_typed", [False, True])
def test_what_has_joined_since_the_nodes_were_ordered(tmp_path, is_typed, capsys):
    def typed(value):
        return {CITES: value} if is_typed else value

    nodes = {"nodes": {"paper": {}}} if is_typed else {}
    folder, how = tmp_path / "data", {"edge_ids": True, **nodes}
    gz.build(folder, typed([[0, 1], [1, 2], [2, 0]]), **how).close()
    assert joined_of(folder, capsys) is None
    gz.append(folder, typed([[2, 3], [3, 3], [1, 0], [3, 1], [3, 2]])).close()
    assert joined_of(folder, capsys) == [1, 0.25, 5, 5 / 8]
    gz.append(folder, typed([[3, 0]] * 3), remove_edges=typed([0, 2, 7])).close()
    assert joined_of(folder, capsys) == [1, 0.25, 7, 7 / 8]
    assert main(["info", str(folder)]) == 0
    assert (
        "joined_since_order: num_nodes=1, share_of_nodes=0.25, num_edges" in capsys.readouterr()[0]
    )
    gz.reorder(folder, "hot").close()
    assert joined_of(folder, capsys) is None
    edges = [[1, 2], [2, 3], [3, 3], [1, 0], [3, 1], [3, 0], [3, 0], [3, 0]]
    gz.build(tmp_path / "whole", typed(edges), **how).close()
    assert content(folder) == content(tmp_path / "whole")
    gz.append(folder, remove_edges=typed([0])).close()
    assert joined_of(folder, capsys) == [0, 0, 0, 0]
    gz.reorder(folder, "hot").close()
    gz.build(tmp_path / "whole", typed(edges[1:]), **how).close()
    assert content(folder) == content(tmp_path / "whole")
    gz.reorder(folder, "input").close()
    gz.append(folder, typed([[0, 1], [1, 4], [2, 0]])).close()
    assert joined_of(folder, capsys) is None


@pytest.mark.parametrize("neighbors", ["in", "out"])
def test_times_of_the_new_nodes(tmp_path, neighbors):
    how = {"time_attrs": "year", "neighbors": neighbors, "order": "input"}
    for target, cut, nodes in (("data", 150, OLD_NODES), ("whole", EDGES, NODES)):
        year = {"year": TIMES[:nodes]}
        gz.build(tmp_path / target, edges_of(slice(0, cut), []), nodes=year, **how).close()
    more = edges_of(slice(150, EDGES), [])
    gz.append(tmp_path / "data", more, nodes={"year": TIMES[OLD_NODES:]}).close()
    assert content(tmp_path / "data") == content(tmp_path / "whole")


def batches_of(loader):
    return [(batch.n_id.tolist(), batch.edge_index.tolist(), batch.x.tolist()) for batch in loader]


@pytest.mark.parametrize("workers", [0, 1])
def test_an_epoch_has_one_version(tmp_path, workers):
    """Workers that are spawned before and after the change, and copies, have what is open."""
    ds = hot(tmp_path / "data", slice(0, 150), slice(0, OLD_NODES))
    spawned = {"multiprocessing_context": "spawn", "prefetch_factor": 1} if workers else {}

    def loader(of, **options):
        return gz.NeighborLoader(of, [3], batch_size=2, seed=3, **options)

    expected = batches_of(loader(ds))
    running, content = loader(ds, num_workers=workers, **spawned), pickle.dumps(ds)
    batches = iter(running)
    found = batches_of([next(batches)])
    more = edges_of(slice(150, EDGES), ["edge_attr", "edge_weight"])
    nodes = {name: rows[OLD_NODES:] for name, rows in ROWS.items()}
    with gz.append(tmp_path / "data", more, nodes=nodes) as new:
        after = batches_of(loader(new))
    assert found + batches_of(batches) == expected
    running.set_epoch(0)
    assert batches_of(running) == expected
    with pickle.loads(content) as again, copy.deepcopy(ds) as copied:
        assert batches_of(loader(again)) == batches_of(loader(copied)) == expected
    with ds.reload() as new:
        assert batches_of(loader(new)) == after
    assert (len(after), ds.num_nodes) == (NODES // 2, OLD_NODES)
    del batches, running
    ds.close()
    with pytest.raises(gz.FormatError, match="was replaced by another file"):
        pickle.loads(content)
    with ds.reload() as new, gz.Dataset(gz.Graph(tmp_path / "data" / "graph.gl")) as single:
        assert new.num_nodes == NODES
        with pytest.raises(ValueError, match="made of single files"):
            single.reload()


POOLS = {
    "integers": [*range(-NODES, NODES, 2)],
    "huge": [*range(NODES // 2), *range(2**64 - NODES, 2**64 - NODES // 2)],
    "texts": [*"abcdefghi", *(f"node {i}" for i in range(20)), *(chr(230 + i) for i in range(11))],
}


def in_order(ids):
    return sorted(ids, key=lambda one: one.encode() if isinstance(one, str) else one)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(sorted(POOLS)),
    limits=st.lists(st.integers(2, NODES), min_size=2, max_size=4).map(sorted),
    has_rows=st.booleans(),
    is_typed=st.booleans(),
    order=st.sampled_from(["input", "hot"]),
    seed=st.integers(0, 99),
)
def test_new_ids_get_the_highest_numbers(
    tmp_path_factory, kind, limits, has_rows, is_typed, order, seed
):
    """The files are those of one build in which the nodes have these numbers."""
    folder, rng = tmp_path_factory.mktemp("learn"), np.random.default_rng(seed)
    pool = [POOLS[kind][i] for i in rng.permutation(NODES)]
    how = {"order": order, "memory_limit": LIMIT, "edge_ids": True}
    numbers, every, known = {}, [], 0
    years = dict(zip(pool, rng.integers(0, 2000, NODES).tolist(), strict=True))

    def given(ends, nodes):
        edges = {"edge_index": ends}
        if not is_typed:
            return {"edges": edges, "nodes": nodes}
        return {"edges": {CITES: edges}, "nodes": {"paper": nodes}}

    def as_array(ids):
        return ids if kind == "texts" else np.array(ids, "u8" if kind == "huge" else "i8")

    for i, limit in enumerate(limits):
        every.append(rng.integers(0, limit, (2, 30)))
        named = pool[known:limit] if has_rows else [pool[at] for at in every[-1].ravel()]
        new, known = [one for one in dict.fromkeys(named) if one not in numbers], limit
        numbers |= {one: len(numbers) + at for at, one in enumerate(in_order(new))}
        table = pa.table({"id": as_array(new), "year": [years[one] for one in new]})
        ends = as_array([[pool[at] for at in side] for side in every[-1].tolist()])
        values = given(ends, {"year": table} if has_rows and new else {})
        if i:
            append_dataset(folder / "data", **values, memory_limit=LIMIT)
        else:
            build_dataset(folder / "data", **values, ids="map", **how)
    if order == "hot":
        gz.reorder(folder / "data", "input").close()
    ends = [[numbers[pool[at]] for at in side] for side in np.hstack(every).tolist()]
    table = pa.table({"id": [*numbers.values()], "year": [years[one] for one in numbers]})
    values = given(ends, {"year": table} if has_rows else {})
    build_dataset(folder / "whole", **values, **how | {"order": "input"})
    found, whole = content(folder / "data"), content(folder / "whole")
    del found[0]["paper.id_map.gd" if is_typed else "id_map.gd"]
    assert found == whole
    with gz.open(folder / "data") as ds:
        nodes = ds.nodes["paper" if is_typed else ""]
        assert nodes.node_ids[np.arange(len(numbers))].tolist() == list(numbers)
        assert nodes.lookup(as_array([*numbers])).tolist() == [*range(len(numbers))]
        others = [one for one in pool if one not in numbers]
        assert not others or (nodes.lookup(as_array(others), missing=-1) == -1).all()
    assert not gz.verify(folder / "data")


def test_new_ids_that_are_refused(tmp_path):
    def rows(ids, name="year"):
        return {name: pa.table({"id": ids, name: [2] * len(ids)})}

    gz.build(tmp_path / "small", [[5, 1], [-1, 5], [1, 1]], ids="map").close()
    gz.build(tmp_path / "large", [[5, 1], [2**63, 5], [1, 1]], ids="map").close()
    both = {**rows(["b", "a"]), **rows(["a", "b"], "kind")}
    gz.build(tmp_path / "texts", {"edge_index": [["a"], ["b"]]}, nodes=both, ids="map").close()
    new = {**rows(["d", "c"]), **rows(["d"], "kind")}
    edges = {"edge_index": [["a"], ["c"]]}
    with pytest.raises(IndexError, match="c is the id of no node: nodes= gives the attr"):
        gz.append(tmp_path / "texts", edges)
    for message, folder, call in [
        ("no row for 1 of 2 new nodes, the first is node 'c'", "texts", {"nodes": new}),
        ("node 'a' is not new", "texts", {"nodes": {**new, **rows(["a", "d", "c"])}}),
        ("no new nodes: all ids in it are stored", "texts", {"nodes": both}),
        ("its rows have no node ids", "texts", {"nodes": {"year": np.ones(1), "kind": np.ones(1)}}),
        ("is for ids='dense': with ids='map', new", "small", {"nodes": {"num_nodes": 1}}),
        ("'a', which is no integer", "small", {"edges": edges}),
        ("fit no integer of 64 bits", "small", {"edges": [[2**63, 1], [1, 1], [1, 1]]}),
        ("fit no integer of 64 bits", "large", {"edges": [[-1, 1], [1, 1], [1, 1]]}),
    ]:
        before = {path: path.read_bytes() for path in (tmp_path / folder).iterdir()}
        with pytest.raises(ValueError, match=message):
            gz.append(tmp_path / folder, **call)
        assert {path: path.read_bytes() for path in (tmp_path / folder).iterdir()} == before


def test_nodes_that_only_edges_name(tmp_path):
    gz.build(tmp_path / "data", [[0, 1], [1, 2], [2, 0]]).close()
    gz.build(tmp_path / "again", [[0, 1], [1, 2], [2, 0]], edge_ids=True).close()
    with gz.append(tmp_path / "data", [[2, 5], [3, 4], [1, 0]]) as ds:
        assert (ds.num_nodes, ds.num_edges) == (6, 6)
        assert ds.graph.neighbors(0).tolist() == [1, 2]
    (tmp_path / "more.csv").write_text("src,dst,amount\n0,1,3\n")
    with pytest.warns(UserWarning, match="columns that are not used: amount") as told:
        gz.append(tmp_path / "data", tmp_path / "more.csv").close()
    assert told[0].filename == __file__
    with gz.append(tmp_path / "again", remove_edges=[1]) as ds:
        assert ds.num_edges == 2
    assert gz.remap_edge_ids([0, 1, 2], removed=[1]).tolist() == [0, -1, 1]
    with gz.append(tmp_path / "data", nodes={"num_nodes": 4}) as ds:
        assert (ds.num_nodes, ds.num_edges, len(ds.graph.neighbors(9))) == (10, 7, 0)


def test_what_cannot_be_appended(tmp_path):
    attributes = ["edge_attr", "edge_weight"]
    hot(tmp_path / "data", slice(0, 150), slice(0, OLD_NODES)).close()
    hot(tmp_path / "merged", slice(0, 150), slice(0, OLD_NODES), coalesce="first").close()
    gz.build(tmp_path / "bare", [[0, 1], [1, 0], [0, 0]]).close()
    typed = {CITES: {"edge_index": [[0], [1]]}}
    gz.build(tmp_path / "typed", typed, nodes={"paper": {}}).close()
    link = {"edge_splits": gz.LinkSplit(0.1)}
    gz.build(tmp_path / "split", edges_of(slice(0, 150), []), **link).close()
    more, few = edges_of(slice(150, EDGES), attributes), edges_of(slice(0, 9), attributes)
    with pytest.raises(IndexError, match="edge 150 is out of range for 150"):
        gz.append(tmp_path / "data", remove_edges=[150])
    for message, folder, call in [
        ("out of range for 30 nodes .30 are stored", "data", {"edges": more}),
        ("'y' is missing", "data", {"nodes": {"x": ROWS["x"][:2]}}),
        (
            "different numbers of new nodes: .2, 3.",
            "data",
            {"nodes": {"x": ROWS["x"][:2], "y": ROWS["y"][:3]}},
        ),
        ("'edge_attr' is missing", "data", {"edges": {**few, "edge_attr": None}}),
        ("'kind' is not stored", "data", {"edges": {**few, "kind": np.ones(9)}}),
        ("have weights, and these do not", "data", {"edges": {**few, "edge_weight": None}}),
        ("has 8 rows for 9 edges", "data", {"edges": {**few, "edge_attr": np.ones((8, 2))}}),
        (
            "rows of shape .3,., and those of shape .2,.",
            "data",
            {"edges": {**few, "edge_attr": np.ones((9, 3))}},
        ),
        ("with attributes, were merged", "merged", {"edges": few}),
        ("LinkSplit has held out edges", "split", {"edges": few["edge_index"]}),
        ("nothing to append", "data", {}),
        ("mask of 3 values for 150", "data", {"remove_edges": np.ones(3, bool)}),
        ("mask of integers", "data", {"remove_edges": [0, 1, 1] * 50}),
        ("must be positions", "data", {"remove_edges": [0.5]}),
        ("with edge_ids=True", "bare", {"remove_edges": [0]}),
        ("remove_edges= has no type", "typed", {"remove_edges": {"paper": [0]}}),
        ("edges= of a typed graph is a dict", "typed", {"edges": [[0, 1]]}),
        ("edges= has no type", "typed", {"edges": {"paper": few}}),
        ("nodes= has no type", "typed", {"nodes": {"book": {"num_nodes": 1}}}),
        ("has no new nodes", "data", {"nodes": {n: ROWS[n][:0] for n in ROWS}}),
        ("not an integer from 1", "bare", {"nodes": {"num_nodes": 0}}),
        ("too sparse", "bare", {"edges": [[0, 1 << 31], [1, 0], [0, 2]]}),
    ]:
        before = files.committed(tmp_path / folder)
        with pytest.raises(ValueError, match=message):
            gz.append(tmp_path / folder, **call)
        assert files.committed(tmp_path / folder) == before


def test_new_rows_by_their_ids(tmp_path):
    gz.build(tmp_path / "data", [[0, 1], [1, 2], [2, 0]], nodes={"year": [7, 8, 9]}).close()
    path = tmp_path / "more.csv"
    for ids, message in (
        ([3, 3], "line 3: node 3 is not new, or has a row already"),
        ([2, 3], "node 2 is not new, or has a row already"),
        ([3, 5], "no row for 1 of 3 new nodes, the first is node 4. Give each a row; only"),
    ):
        path.write_text("id,year\n" + "".join(f"{node},1\n" for node in ids))
        with pytest.raises(ValueError, match=message):
            gz.append(tmp_path / "data", nodes={"year": path})
    path.write_text("id,year\n4,1\n3,2\n")
    with gz.append(tmp_path / "data", nodes={"year": path}) as ds:
        assert ds.attributes["year"][np.arange(5)].tolist() == [7, 8, 9, 2, 1]


def test_damage_is_not_copied(tmp_path):
    hot(tmp_path / "data", slice(0, 150), slice(0, OLD_NODES)).close()
    path = tmp_path / "data" / "graph.gl"
    damaged = bytearray(path.read_bytes())
    damaged[4096] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(gz.FormatError, match=r"graph\.gl: section 'indptr' is corrupt"):
        gz.append(tmp_path / "data", edges_of(slice(0, 9), ["edge_attr", "edge_weight"]))


def test_the_command(tmp_path, capsys):
    np.save(tmp_path / "x.npy", ROWS["x"])
    np.save(tmp_path / "more.npy", ROWS["x"][:2])
    (tmp_path / "edges.csv").write_text("src,dst\n0,1\n1,2\n")
    (tmp_path / "new.csv").write_text("src,dst\n41,0\n0,40\n")
    (tmp_path / "more.json").write_text('{"edges": "edges.csv"}')
    gz.build(tmp_path / "data", tmp_path / "edges.csv", tmp_path / "x.npy").close()
    new = ["--edges", str(tmp_path / "new.csv"), "--node", f"x={tmp_path}/more.npy"]
    assert main(["append", str(tmp_path / "data"), *new]) == 0
    assert "42 nodes, 4 edges" in capsys.readouterr().out
    assert main(["append", str(tmp_path / "data"), "--from", str(tmp_path / "more.json")]) == 0
    assert "42 nodes, 6 edges" in capsys.readouterr().out
    both = ["--from", str(tmp_path / "more.json"), *new]
    assert main(["append", str(tmp_path / "data"), *both]) == 1
    np.save(tmp_path / "gone.npy", np.array([True, False]))
    gz.build(tmp_path / "data", tmp_path / "edges.csv", edge_ids=True).close()
    gone = ["--remove-edges", str(tmp_path / "gone.npy")]
    assert main(["append", str(tmp_path / "data"), *gone]) == 0
    assert "1 edges (1 in the edge list)" in capsys.readouterr().out
