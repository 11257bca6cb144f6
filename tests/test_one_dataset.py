"""A folder that is opened again answers the names that the graph had, with the same values."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

pytest.importorskip("torch_geometric")

import files
import torch
from torch_geometric.data import Data, HeteroData

import graphzero as gz
from graphzero import _core
from graphzero.pyg import NeighborLoader, facade, from_data

NODES, EDGES = 60, 400
WRITES = ("author", "writes", "paper")


class Odd:
    """What no file holds."""


def homogeneous():
    torch.manual_seed(0)
    data = Data(x=torch.rand(NODES, 5), y=torch.randint(0, 4, (NODES,)))
    data.edge_index = torch.randint(0, NODES, (2, EDGES))
    data.edge_attr = torch.rand(EDGES, 2)
    data.half = torch.rand(NODES, 2).to(torch.bfloat16)
    data.flag, data.many = torch.rand(NODES) < 0.5, torch.rand(NODES, 10) < 0.1
    data.train_mask, data.valid_mask = torch.rand(NODES) < 0.3, torch.rand(NODES) < 0.3
    data.test_idx = torch.tensor([5, 3, 9])
    data.name, data.k, data.parts = "cora", 7, [torch.ones(2), {"a": None}]
    data.edge_label_index, data.edge_label = torch.randint(0, NODES, (2, 20)), torch.ones(20)
    return data


def typed():
    plain, data = homogeneous(), HeteroData(title="dblp")
    data["paper"].x, data["paper"].train_mask, data["paper"].k = plain.x, plain.train_mask, 3
    data["author"].num_nodes, data["author"].flag = NODES, plain.flag
    data[WRITES].edge_index, data[WRITES].edge_attr = plain.edge_index, plain.edge_attr
    data[WRITES].unit = "papers"
    return data


def same(one, other):
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and torch.equal(one, other)
    return str(one) == str(other)


def test_every_name_and_value_of_a_graph(tmp_path):
    data = homogeneous()
    with from_data(data, tmp_path) as first, gz.open(tmp_path) as again:
        assert set(first.keys()) == set(again.keys()) == set(data.keys())
        for name in data.keys():  # noqa: SIM118 (it is no dictionary)
            assert same(getattr(again, name), data[name]), name
            assert same(first[name], data[name])
            assert name in again
        for name in ("num_nodes", "num_features", "num_node_features", "num_edge_features"):
            assert getattr(again, name) == getattr(data, name)
        assert again.num_classes == 4
        assert torch.equal(again.val_mask, data.valid_mask)
        assert again.train_idx.tolist() == data.train_mask.nonzero().view(-1).tolist()
        assert again.pos is None
        for name, of in (("foo", "no 'foo'; it has x, y"), ("coalesce", "before `from_data`")):
            with pytest.raises(AttributeError, match=of):
                getattr(again, name)
        with pytest.raises(KeyError, match="no 'foo'"):
            again["foo"]


def test_every_name_and_value_of_a_typed_graph(tmp_path):
    data = typed()
    with from_data(data, tmp_path) as first, gz.open(tmp_path) as again:
        for ds in (first, again):
            assert ds.metadata() == data.metadata()
            assert ds.title == "dblp"
            for store in (*data.node_stores, *data.edge_stores):
                found = ds[store._key]
                assert set(found.keys()) == set(store.keys()) - {"num_nodes"}
                assert all(same(found[name], value) for name, value in found_in(store))
            for name in ("x_dict", "flag_dict", "edge_index_dict", "edge_attr_dict"):
                wanted = getattr(data, name)
                assert getattr(ds, name).keys() == wanted.keys()
                assert all(same(getattr(ds, name)[key], wanted[key]) for key in wanted)
            assert set(ds.keys()) == set(data.keys()) - {"num_nodes"}
            with pytest.raises(AttributeError, match="no 'to_dict'.*before `from_data`"):
                ds.to_dict()
            assert ds.num_features == {"paper": 5, "author": 0}
            batch = next(iter(NeighborLoader(ds, [3], ("paper", [4, 5]))))
            assert (batch.title, batch["paper"].k, batch[WRITES].unit) == ("dblp", 3, "papers")
            chosen = data["paper"].train_mask[batch["paper"].n_id]
            assert torch.equal(batch["paper"].train_mask, chosen)


def found_in(store):
    return [(name, value) for name, value in store.items() if name != "num_nodes"]


def test_batches_masks_and_copies(tmp_path):
    data = homogeneous()
    from_data(data, tmp_path).close()
    gz.reorder(tmp_path, "input").close()
    assert gz.verify(tmp_path) == []
    with gz.open(tmp_path) as ds:
        for batch in NeighborLoader(ds, [3], batch_size=25, shuffle=True):
            for name in ("train_mask", "valid_mask", "flag"):
                assert torch.equal(batch[name], data[name][batch.n_id])
            assert (batch.name, batch.k) == ("cora", 7)
            assert "edge_label_index" not in batch
        bare, with_y = (next(iter(NeighborLoader(ds, [3], gather=g))).keys() for g in ([], ["y"]))
        assert set(with_y) - set(bare) == {"y"}
        batch = next(iter(NeighborLoader(pickle.loads(pickle.dumps(ds)), [3], batch_size=8)))
        assert torch.equal(batch.train_mask, data.train_mask[batch.n_id])
        assert batch.k == 7
        ds.parts[0].zero_()  # batches in every process have edits of what belongs to the graph
        assert not pickle.loads(pickle.dumps(ds)).parts[0].any()
        with pytest.raises(TypeError, match="leave the index out"):
            ds[0]


def test_what_no_file_holds_is_named(tmp_path):
    data = homogeneous()
    data.odd = Odd()
    with pytest.warns(UserWarning, match="odd is a Odd, which is not stored"):
        first = from_data(data, tmp_path)
    with first, gz.open(tmp_path) as again:
        assert isinstance(first.odd, Odd)
        assert set(first.keys()) - set(again.keys()) == {"odd"}
        assert isinstance(next(iter(NeighborLoader(first, [2]))).odd, Odd)


def test_names_that_mean_something_else_here(tmp_path):
    data = homogeneous()
    data.features, data.num_classes = torch.rand(NODES, 3), 9
    with pytest.warns(
        UserWarning, match=r"data\.features of the result .*data\['features'\]"
    ) as told:
        ds = from_data(data, tmp_path)
    assert len(told) == 2
    with ds, gz.open(tmp_path) as again:
        assert torch.equal(again["features"], data.features)
        assert (again["num_classes"], ds.num_classes) == (9, 4)
        batch = next(iter(NeighborLoader(again, [2])))
        assert torch.equal(batch.features, data.features[batch.n_id])


def test_other_builds_have_the_names_too(tmp_path):
    rng = np.random.default_rng(0)
    ends, values = rng.integers(0, NODES, (2, EDGES)), np.arange(EDGES)
    options = {"num_nodes": NODES, "splits": {"train": [3, 1]}}
    with gz.build(tmp_path, {"edge_index": ends, "n": values}, **options) as ds:
        # in another order, without stored positions: each edge has its own value
        assert torch.equal(torch.from_numpy(ends)[:, ds.n], ds.edge_index)
        assert sorted(ds.n.tolist()) == values.tolist()
        assert (ds.train_mask.nonzero().view(-1).tolist(), ds.x) == ([1, 3], None)


def test_large_attributes_are_told(tmp_path, monkeypatch):
    with from_data(homogeneous(), tmp_path) as ds:
        monkeypatch.setattr(facade, "_LARGE", 1000)
        with pytest.warns(UserWarning, match=r"data\.x reads all of x from disk .* 1\.2 kB"):
            _ = ds.x


@pytest.mark.parametrize("make", [homogeneous, typed])
def test_attributes_that_do_not_fit_in_memory_are_refused(tmp_path, monkeypatch, make):
    with from_data(make(), tmp_path) as ds:
        papers = ds["paper"] if ds.is_typed else ds
        _core.trim_pool()
        room = SimpleNamespace(available=60 * (5 * 4 + 16))
        monkeypatch.setattr(psutil, "virtual_memory", lambda: room)
        with pytest.warns(UserWarning, match="x, 1.2 kB, is not kept"):
            assert papers.x.shape == (60, 5)
        room.available -= 1
        refused = r"data\.x .* 1\.2 kB, and .* available: .*loader.*data\.num_features"
        for read in (lambda: papers.x, lambda: papers["x"], lambda: ds.collect("x")):
            with pytest.raises(MemoryError, match=refused):
                read()
        with pytest.raises(MemoryError, match=r"data\.edge_index would read .* 6\.4 kB"):
            _ = (ds[WRITES] if ds.is_typed else ds).edge_index
        assert papers.num_features == 5


def test_a_damaged_file_of_these_values_is_named(tmp_path):
    from_data(homogeneous(), tmp_path).close()
    for value in (0, 7, 255):
        files.damage(tmp_path / "extras.gd", "rows", range(0, 400, 3), value)
        with gz.open(tmp_path) as ds, pytest.raises(gz.FormatError, match="extras.gd is corrupt"):
            _ = ds.k


def test_how_they_are_shown(tmp_path):
    with from_data(homogeneous(), tmp_path / "a") as ds:
        shown = repr(ds)
        for part in ("num_nodes=60", "edge_index=[2, 400]", "x=[60, 5] float32", "half=[60, 2] b"):
            assert part in shown
        assert "\n" not in shown
        assert {"x", "edge_index", "train_mask", "num_features", "splits", "k"} <= set(dir(ds))
        loader = NeighborLoader(ds, [3, 2], "train", batch_size=8, shuffle=True)
        assert repr(loader).startswith("NeighborLoader(num_neighbors=[3, 2], num_seeds=")
    with from_data(typed(), tmp_path / "b") as ds:
        assert "paper={ num_nodes=60, x=[60, 5] float32" in repr(ds)
        assert "(author, writes, paper)={ edge_index=[2, 400], edge_attr=[400, 2]" in repr(ds)
        assert "x" not in dir(ds)
        assert {"x", "train_mask", "num_nodes"} <= set(dir(ds["paper"]))
        for change in (lambda: setattr(ds["paper"], "x", 1), lambda: setattr(ds, "title", "")):
            with pytest.raises(AttributeError, match="cannot be set.*before from_data"):
                change()
