"""Attributes and splits that are set and dropped later: the files are those of one build."""

from __future__ import annotations

import files
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero.cli import main
from graphzero.ingest import Changes, build_dataset, change_dataset, merge
from graphzero.store.manifest import read_manifest

NODES, EDGES = 60, 400
RNG = np.random.default_rng(0)
PAIRS = RNG.integers(0, NODES, (2, EDGES))
WRITES = "author", "writes", "paper"

# What an attribute or a split can be, by type and name.
VALUES = {
    ("node", "attributes", "x"): RNG.random((NODES, 5), np.float32),
    ("node", "attributes", "y"): RNG.integers(0, 7, NODES),
    ("node", "attributes", "year"): RNG.integers(1900, 2000, NODES),
    ("node", "splits", "train"): RNG.permutation(NODES)[:20],
    ("node", "splits", "val"): np.arange(NODES) % 3 == 0,
    ("edge", "attributes", "edge_attr"): RNG.random((EDGES, 2, 3)),
    ("edge", "attributes", "kind"): RNG.integers(0, 3, EDGES).astype(np.int8),
    ("edge", "splits", "test"): RNG.permutation(EDGES)[:30],
}


def content(folder):
    """Every file but the manifest, and what the manifest says without the staged names."""
    manifest = read_manifest(folder)
    facts = {
        key: (sorted(table.attributes), sorted(table.splits), getattr(table, "num_classes", None))
        for key, table in (*manifest.nodes.items(), *manifest.edges.items())
    }
    found = {name: data for name, data in files.committed(folder).items() if name != "dataset.json"}
    return found, facts


def built(path, values, is_typed, **options):
    """One build of edges and of values by type, kind and name."""
    by_type = {"node": {}, "edge": {}}
    splits = {"node": {}, "edge": {}}
    for (of, kind, name), value in values.items():
        (by_type if kind == "attributes" else splits)[of][name] = value
    edges, nodes = {"edge_index": PAIRS, **by_type["edge"]}, {**by_type["node"], "num_nodes": NODES}
    if is_typed:
        for of, key in (("node", "paper"), ("edge", WRITES)):
            splits[of] = {name: {key: value} for name, value in splits[of].items()}
        nodes = {"nodes": {"author": {"num_nodes": NODES}, "paper": nodes}}
        edges = {WRITES: edges}
    else:
        nodes = {"num_nodes": nodes.pop("num_nodes"), "nodes": nodes}
    build_dataset(
        path, edges, splits=splits["node"], edge_splits=splits["edge"], **nodes, **options
    )


STEPS = st.lists(st.tuples(st.sampled_from(sorted(VALUES)), st.integers(0, 2)), max_size=8)


@settings(max_examples=40, deadline=None)
@given(
    STEPS,
    st.dictionaries(st.sampled_from(sorted(VALUES)), st.just(0)),
    st.booleans(),
    st.sampled_from([{}, {"directed": False}, {"neighbors": "both"}, {"order": "input"}]),
)
def test_any_changes_are_as_one_build(tmp_path_factory, steps, first, is_typed, how):
    folder, limit = tmp_path_factory.mktemp("changes"), "1MiB"
    how = {} if is_typed and how != {"order": "input"} else how
    now = {key: VALUES[key] for key in first}
    built(folder / "data", now, is_typed, edge_ids=True, memory_limit=limit, **how)
    for key, what in steps:
        of, kind, name = key
        typed = {"node": "paper", "edge": WRITES}[of] if is_typed else of
        if what == 2:  # drop it, or find that it is not there
            changes = Changes(typed, **{f"drop_{kind}": [name]})
            if key not in now:
                with pytest.raises(ValueError, match=f"no {kind[:-1]} '{name}' to drop"):
                    change_dataset(folder / "data", changes, limit)
                continue
            del now[key]
        else:
            now[key] = VALUES[key][::-1].copy() if what else VALUES[key]
            changes = Changes(typed, **{kind: {name: now[key]}})
        change_dataset(folder / "data", changes, limit)
    built(folder / "whole", now, is_typed, edge_ids=True, memory_limit=limit, **how)
    assert content(folder / "data") == content(folder / "whole")
    assert not gz.verify(folder / "data")


@pytest.fixture(params=["hot", "input"])
def data(tmp_path, request):
    build_dataset(tmp_path / "data", {"edge_index": PAIRS}, num_nodes=NODES, order=request.param)
    return tmp_path / "data"


def test_what_infer_returns_becomes_an_attribute(data, tmp_path):
    x = VALUES["node", "attributes", "x"]
    with gz.set_attribute(data, "x", x, dtype="float16") as ds:
        assert ds.features.dtype == np.float16
    with gz.set_attribute(data, "x", x) as ds:
        rows = gz.infer([lambda batch: 2 * batch.x[: batch.batch_size]], ds, tmp_path / "h.gd")
    for value in (rows, tmp_path / "h.gd", str(tmp_path / "h.gd")):
        with gz.set_attribute(data, "h", value) as ds:
            np.testing.assert_array_equal(ds.nodes[""].attributes["h"].gather(np.arange(60)), 2 * x)
    with gz.set_attribute(data, "h", rows, dtype="float16") as ds:
        assert ds.nodes[""].attributes["h"].dtype == np.float16
    rows.close()
    build_dataset(tmp_path / "other", PAIRS[:, :30], num_nodes=NODES)
    with pytest.raises(ValueError, match="has another order than the graph"):
        hot = gz.set_attribute(tmp_path / "other", "x", x)
        gz.set_attribute(data, "h", hot.features)


def test_ids_that_are_mapped(tmp_path):
    names = np.array([f"n{i:03}" for i in range(NODES)])[::-1]
    table = {"id": names, "year": np.arange(NODES)}
    frame = pytest.importorskip("pandas").DataFrame(table)
    ends = pytest.importorskip("pandas").DataFrame({"src": names[PAIRS[0]], "dst": names[PAIRS[1]]})
    for target, nodes, splits in (
        ("whole", {"year": frame}, {"train": list(names[:5])}),
        ("data", {}, {}),
    ):
        build_dataset(tmp_path / target, ends, ids="map", nodes=nodes, splits=splits)
    gz.set_attribute(tmp_path / "data", "year", frame).close()
    gz.set_split(tmp_path / "data", "train", list(names[:5])).close()
    assert content(tmp_path / "data") == content(tmp_path / "whole")
    with pytest.raises(ValueError, match="its rows have no node ids"):
        gz.set_attribute(tmp_path / "data", "year", np.arange(NODES))
    with pytest.raises(IndexError, match="'nobody' is the id of no node|nobody is the id of no"):
        gz.set_split(tmp_path / "data", "train", ["n001", "nobody"])


def test_what_a_dataset_does_not_allow(data, tmp_path):
    ones = np.ones(EDGES)
    for error, message, call in [
        (ValueError, "has 59 rows for 60 nodes", lambda: gz.set_attribute(data, "year", ones[:59])),
        (ValueError, "no types, so that", lambda: gz.set_attribute(data, "a", ones, of="paper")),
        (ValueError, "with edge_ids=True", lambda: gz.set_attribute(data, "a", ones, of="edge")),
        (ValueError, "with edge_ids=True", lambda: gz.set_split(data, "val", [0], of="edge")),
        (ValueError, "other characters", lambda: gz.set_split(data, "a b", [0])),
        (ValueError, "a mask of integers", lambda: gz.set_split(data, "val", [0, 1, 1] * 20)),
        (IndexError, "node 60 is out of range", lambda: gz.set_split(data, "val", [60])),
        (ValueError, "a name of edge attr", lambda: gz.set_attribute(data, "edge_attr", ones)),
        (ValueError, "at least 256MB", lambda: gz.set_attribute(data, "y", [0], memory_limit=9)),
        (FileNotFoundError, "no dataset here", lambda: gz.drop_attribute(tmp_path, "year")),
    ]:
        before = files.committed(data)
        with pytest.raises(error, match=message):
            call()
        assert files.committed(data) == before
    assert {path.name for path in data.iterdir()} == {"dataset.json", "graph.gl"}


@pytest.mark.parametrize("how", ["merged", "symmetric", "held out"])
def test_edges_whose_positions_mean_something_else(tmp_path, how):
    edges = {"edge_index": np.hstack([PAIRS, PAIRS[::-1], PAIRS])}
    if how == "symmetric":
        edges = {"edge_index": edges["edge_index"][:, : 2 * EDGES]}
    options = {
        "merged": {"coalesce": True},
        "symmetric": {"directed": False},
        "held out": {"edge_splits": gz.LinkSplit(0.1, 0.1)},
    }[how]
    build_dataset(tmp_path / "data", edges, edge_ids=True, **options)
    message = {"held out": "held out by a LinkSplit"}.get(how, "edges were merged")
    with pytest.raises(ValueError, match=message):
        gz.set_attribute(tmp_path / "data", "kind", np.ones(3 * EDGES), of="edge")


def test_what_neighbours_are_sampled_by_takes_a_build(tmp_path):
    edges = {"edge_index": PAIRS, "weight": np.ones(EDGES), "kind": np.ones(EDGES)}
    nodes = {"year": np.arange(NODES)}
    build_dataset(tmp_path / "data", edges, nodes=nodes, num_nodes=NODES, time_attrs="year")
    for name, of in (("weight", "edge"), ("year", "node")):
        with pytest.raises(ValueError, match=f"neighbours are sampled by '{name}'"):
            gz.set_attribute(tmp_path / "data", name, np.ones(EDGES), of=of)
        with pytest.raises(ValueError, match=f"neighbours are sampled by '{name}'"):
            gz.drop_attribute(tmp_path / "data", name, of=of)
    with pytest.raises(ValueError, match="nodes and edges would both have an attribute 'kind'"):
        gz.set_attribute(tmp_path / "data", "kind", np.ones(NODES))
    gz.drop_attribute(tmp_path / "data", "kind", of="edge").close()
    with gz.set_attribute(tmp_path / "data", "kind", np.arange(NODES)) as ds:
        loader = gz.NeighborLoader(ds, [3], batch_size=8, weighted=True)
        assert all((batch.kind == batch.n_id).all() for batch in loader)


def test_the_command(data, tmp_path, capsys):
    np.save(tmp_path / "year.npy", np.arange(NODES))
    np.save(tmp_path / "train.npy", np.arange(5))
    pairs = ["--attribute", f"year={tmp_path}/year.npy", "--split", f"train={tmp_path}/train.npy"]
    assert main(["set", str(data), *pairs, "--attribute", f"old={tmp_path}/year.npy"]) == 0
    assert main(["set", str(data), "--drop-attribute", "old", "--of", "node"]) == 0
    assert "60 nodes" in capsys.readouterr().out
    with gz.open(data) as ds:
        assert sorted(ds.nodes[""].attributes) == ["year"]
        assert ds.splits["train"].tolist() == list(range(5))
    assert main(["set", str(data)]) == 1
    assert main(["set", str(data), "--drop-split", "old"]) == 1
    assert "no split 'old' to drop; there are 'train'" in capsys.readouterr().err


@pytest.mark.parametrize("how", [{}, {"directed": False}, {"reverse": True}, {"is_typed": True}])
@pytest.mark.parametrize("as_mask", [False, True])
def test_a_split_lacks_the_self_loops_that_were_dropped(tmp_path, how, as_mask):
    edges, split = np.array([[0, 3, 1, 2, 3, 2], [1, 3, 2, 2, 0, 3]]), np.array([4, 1, 2, 3])
    if as_mask:
        split = np.isin(np.arange(6), split)
    how = {"drop_self_loops": True, "edge_ids": True, "memory_limit": "1MiB", **how}
    of, told = "edge", r"edge split 's': 0 of its positions .*; 2 name self-loops"
    given = {"edges": {"edge_index": edges}, "num_nodes": 4, "edge_splits": {"s": split}}
    if how.pop("is_typed", False):
        of = ("n", "to", "n")
        given = {"edges": {of: edges}, "nodes": {"n": {"num_nodes": 4}}}
        given["edge_splits"] = {"s": {of: split}}
    with pytest.warns(UserWarning, match=told):
        build_dataset(tmp_path / "whole", **given, **how)
    del given["edge_splits"]
    build_dataset(tmp_path / "data", **given, **how)
    with pytest.warns(UserWarning, match=told), gz.set_split(tmp_path / "data", "s", split, of=of):
        assert content(tmp_path / "data") == content(tmp_path / "whole")


def test_a_split_of_before_that_names_a_dropped_edge_is_refused(tmp_path, monkeypatch):
    how = {"drop_self_loops": True, "edge_ids": True}
    build_dataset(tmp_path, np.array([[0, 3, 1], [1, 3, 2]]), **how)
    monkeypatch.setattr(merge.MergedEdges, "remap", lambda _, positions, *__: positions)
    ds = gz.set_split(tmp_path, "s", [0, 1], of="edge")
    with pytest.raises(ValueError, match=r"edge at position 1 .*set_split"):
        gz.LinkNeighborLoader(ds, [1], "s")
