"""`graphzero.pyg.from_data`: what of a graph is stored, kept or refused; batches of loaders."""

from __future__ import annotations

import copy
import pickle
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

import graphzero as gz

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric")

import torch_geometric.transforms as T  # noqa: E402
from torch_geometric.data import Batch, Data, HeteroData, InMemoryDataset  # noqa: E402

from graphzero import _core  # noqa: E402
from graphzero.pyg import LinkNeighborLoader, NeighborLoader, from_data  # noqa: E402

WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")

# The C code that these loaders reach is sanitized by the tests of their open form.
pytestmark = pytest.mark.no_asan


def make_data():
    torch.manual_seed(0)
    masks = torch.randint(0, 3, (60,))
    data = Data(x=torch.randn(60, 5), y=torch.randint(0, 4, (60,)))
    data.train_mask, data.val_mask, data.test_mask = masks == 0, masks == 1, masks == 2
    data.edge_index = torch.randint(0, 60, (2, 400))
    return data


def test_numbers_that_batches_have_are_left_out_or_refused(tmp_path):
    data = make_data()
    data.n_id, data.e_id = torch.arange(60), torch.arange(400)
    with pytest.warns(UserWarning, match="is left out: it counts the .* from 0") as warned:
        from_data(data, tmp_path / "store").close()
    assert [str(one.message).split()[0] for one in warned] == ["n_id", "e_id"]
    assert {one.filename for one in warned} == {__file__}
    data.e_id = data.e_id.flip(0)
    with (
        pytest.warns(UserWarning, match="n_id is left out"),
        pytest.raises(ValueError, match="e_id: a batch has numbers of its edges .* 'own_e_id'"),
    ):
        from_data(data, tmp_path / "store")
    with pytest.warns(UserWarning, match="left out: the graphs of a PyG Batch are stored as one"):
        from_data(Batch.from_data_list([make_data()] * 2), tmp_path / "store").close()


def test_seed_edges_stay_in_memory_however_many_they_are(tmp_path):
    """RandomLinkSplit of a directed graph trains with as many seed edges as it has edges."""
    train, _, _ = T.RandomLinkSplit(0.1, 0.1, add_negative_train_samples=False)(make_data())
    assert train.edge_label_index.shape == train.edge_index.shape
    with from_data(train, tmp_path / "store") as ds:
        assert torch.equal(ds.edge_label_index, train.edge_label_index)
        assert torch.equal(ds.edge_label, train.edge_label)
        assert not ds.edge_attributes


def test_what_moves_and_drives_is_named(tmp_path):
    data = make_data()
    data.when = torch.arange(400)
    with from_data(data, tmp_path / "store", time_attrs=["when"]) as ds:
        got = gz.NeighborSampler(ds.graph, [50]).sample(np.arange(60), seed_time=np.full(60, 100))
        assert set(got.e_id.tolist()) == set(range(101))
        assert ds.to("cpu", "x", "y") is ds
        with pytest.raises(ValueError, match=r"move batches, batch.to\('meta'\)"):
            ds.to("meta")
    with pytest.raises(ValueError, match="no attribute 'then'"):
        from_data(data, tmp_path / "store", time_attrs=["then"])


@pytest.mark.filterwarnings("ignore:Sparse")
def test_a_transposed_adjacency_matrix_is_read_with_its_values(tmp_path):
    edges = torch.unique(make_data().edge_index, dim=1)
    values = torch.arange(edges.shape[1]).float()
    # rows are targets
    matrix = torch.sparse_coo_tensor(edges.flip(0), values, (60, 60)).to_sparse_csr()
    data = Data(adj_t=matrix, num_nodes=60)
    with from_data(data, tmp_path / "store") as ds:
        assert torch.equal(ds.edge_index[:, ds.edge_weight.argsort()], edges)
    data.adj_t = torch.sparse_coo_tensor(edges, torch.ones(edges.shape[1], 2), (60, 60, 2))
    with from_data(data, tmp_path / "store") as ds:
        assert ds.edge_attr.shape == (edges.shape[1], 2)


def test_ids_of_splits_and_many_splits_at_once(tmp_path):
    data = make_data()
    ids = torch.tensor([5, 3, 8])
    del data.train_mask
    data.train_idx = ids
    data.valid_mask = data.val_mask
    del data.val_mask
    data.test_mask = torch.stack([data.test_mask, ~data.test_mask], dim=1)
    with pytest.warns(UserWarning, match="test_mask of shape .60, 2. is no split"):
        ds = from_data(data, tmp_path / "store")
    with ds:
        assert sorted(ds.splits) == ["train", "val"]
        assert ds.splits["train"].tolist() == ids.tolist()
        assert torch.equal(ds.test_mask[:, 1], data.test_mask[:, 1])
        assert torch.equal(ds.valid_mask, data.valid_mask)
    data.val_idx = data.valid_mask.nonzero().view(-1).flip(0)
    with pytest.warns(UserWarning, match="is no split"), from_data(data, tmp_path / "both") as ds:
        assert torch.equal(ds.val_idx.sort()[0], ds.valid_mask.nonzero().view(-1))
    data.val_idx = data.val_idx[1:]
    with pytest.raises(ValueError, match="valid_mask and val_idx both name the split 'val'"):
        from_data(data, tmp_path / "other")


class Graphs(InMemoryDataset):
    def __init__(self, graphs):
        super().__init__()
        self.data, self.slices = self.collate(graphs)


def test_a_dataset_of_one_graph_is_that_graph(tmp_path):
    data = make_data()
    with from_data(Graphs([data]), tmp_path / "store") as ds:
        assert torch.equal(ds.x, data.x)
        assert isinstance(ds, gz.pyg.StoredData)  # as it was called
    with pytest.raises(ValueError, match=r"2 graphs.*from_data\(dataset\[0\], path\)"):
        from_data(Graphs([data, data]), tmp_path / "store")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("titles", ["a"] * 60, "titles .* is a list, which cannot be stored.*remove it"),
        ("codes", np.array(["a"] * 60), "codes .* is a ndarray, which cannot"),
        ("x", torch.eye(60).to_sparse(), "x is a sparse tensor.*to_dense"),
        ("x", torch.zeros(59, 2), "x of shape .59, 2. has not one row for each of the 60 nodes"),
        ("edge_attr", torch.zeros(3, 2), "edge_attr .* each of the 400 edges"),
        (
            "node_index",
            torch.zeros(2, 60),
            "node_index of shape .2, 60. has not one row .*transpose",
        ),
        ("edge_index", torch.zeros(3, 5, dtype=torch.int64), "edge_index must have shape"),
    ],
)
def test_what_cannot_be_stored_is_named(tmp_path, name, value, message):
    data = make_data()
    data.num_nodes = 60
    data[name] = value
    with pytest.raises(ValueError, match=message):
        from_data(data, tmp_path / "store")
    assert not (tmp_path / "store").exists()


def test_ids_out_of_range_and_foreign_objects_are_refused(tmp_path):
    data = make_data()
    data.edge_index[0, 7] = 60
    with pytest.raises(ValueError, match="edge 7: source id 60 is out of range for 60 nodes"):
        from_data(data, tmp_path / "store")
    with pytest.raises(TypeError, match="takes a torch_geometric.data.Data"):
        from_data(data.edge_index, tmp_path / "store")
    with pytest.raises(TypeError, match="no directed=.*both directions"):
        from_data(make_data(), tmp_path / "store", directed=False)
    for option in ("coalesce", "drop_self_loops", "reverse"):
        with pytest.raises(TypeError, match=f"no {option}=.*before"):
            from_data(make_data(), tmp_path / "store", **{option: True})
    with pytest.raises(ValueError, match="no edge_index"):
        from_data(Data(x=torch.ones(3, 2)), tmp_path / "store")


def test_edits_in_place_of_what_is_stored_are_an_error_and_copies_are_not(tmp_path):
    edits = {
        "x": lambda data: data.x.mul_(2),
        "y": lambda data: data.y.__setitem__(slice(None), 3),
        "edge_index": lambda data: data.edge_index.view(-1)[:2].zero_(),
        "train_mask": lambda data: data.train_mask.fill_(True),
        "flag": lambda data: data["flag"].logical_not_(),
    }
    graph = make_data()
    graph.flag = graph.y > 1
    for name, edit in edits.items():
        data = from_data(graph.clone(), tmp_path / name)
        loader = NeighborLoader(data, [2], "train", batch_size=20)
        for each in edits:
            getattr(data, each).clone().zero_()
        with torch.inference_mode():
            assert data.x.sum() != 0
        assert len(list(loader)) == len(loader)
        edit(data)
        with pytest.raises(ValueError, match=rf"data\.{name} was edited .*from_data.*\.clone"):
            list(loader)
        if name in ("x", "y", "flag"):  # mini-batches without it
            assert len(list(gz.NeighborDataset(data, [1, 2], [2], gather=[]))) == 1
        with pytest.raises(ValueError, match=f"{name} was edited"):
            list(gz.NeighborDataset(data, [1, 2], [2], gather=["x", "y", "flag"]))
        with pytest.raises(ValueError, match=f"{name} was edited"):  # for a worker that is spawned
            pickle.dumps(data)
        data.close()


def test_what_is_read_is_kept_up_to_a_tenth_of_the_available_memory(tmp_path, monkeypatch):
    with from_data(make_data(), tmp_path / "store") as data:
        labels = data.y
        assert labels is data["y"] is copy.copy(data).y
        assert pickle.loads(pickle.dumps(data)).y is not labels
        monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=12_000))
        _core.trim_pool()  # idle memory of other tests is available, too
        with pytest.warns(UserWarning, match="data.x, 1.2 kB, is not kept.*edits of it are not se"):
            assert data.x is not data.x
        assert data.train_mask is data.train_mask
        data.x.zero_()
        assert data.x.any()
        list(NeighborLoader(data, [2], [1]))
        data.y[0] = 7
        assert labels[0] == 7
        with pytest.raises(ValueError, match="data.y was edited"):
            list(NeighborLoader(data, [2], [1]))


def test_what_belongs_to_the_graph_does_not_hide_a_field_of_the_batch(tmp_path):
    data = make_data()
    data.edge_label_index, data.batch_size, data.name = data.edge_index[:, :50], 3, "made"
    with from_data(data, tmp_path / "links") as ds:
        (batch,) = LinkNeighborLoader(ds, [2], edge_label_index=ds.edge_label_index, batch_size=50)
        assert batch.edge_label_index.shape == (2, 50)
        assert (batch.batch_size, batch.name) == (50, "made")
        assert "edge_label_index" not in next(iter(NeighborLoader(ds, [2], batch_size=5)))


def test_no_rank_is_left_seeds_that_were_not_given_to_it(tmp_path, monkeypatch):
    """As in PyG, each process has all the seeds that it was given, without being asked."""
    with from_data(make_data(), tmp_path / "store") as ds:
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda group=None: 2)
        monkeypatch.setattr(torch.distributed, "get_rank", lambda group=None: 1)
        how = {"num_neighbors": [2], "input_nodes": torch.arange(40), "batch_size": 8}
        assert sum(batch.batch_size for batch in NeighborLoader(ds, **how)) == 40
        dealt = NeighborLoader(ds, **how, distributed=True, even=False, seed=0)
        assert sum(batch.batch_size for batch in dealt) == 16
        with pytest.raises(ValueError, match="distributed"):
            iter(gz.NeighborLoader(ds, **how))


# --- graphs with types


@pytest.fixture
def typed():
    data = HeteroData()
    data["paper"].x, data["paper"].train_mask = torch.rand(60, 6), torch.rand(60) < 0.5
    data[CITES].edge_index, data[CITES].edge_weight = (
        torch.randint(0, 60, (2, 300)),
        torch.rand(300),
    )
    return data


def test_edits_of_one_type_are_named(typed, tmp_path):
    with from_data(typed, tmp_path / "store") as data:
        loader = NeighborLoader(data, [2], "paper", batch_size=2)
        assert len(list(loader)) == 30
        data.x_dict["paper"][0] = 7
        with pytest.raises(ValueError, match=r"data\['paper'\]\.x was edited"):
            list(loader)


def test_times_of_nodes_drive_sampling_without_being_named(typed, tmp_path):
    """PyG's temporal loader of papers with years: nobody sees the future."""
    typed["paper"].time, seeds = torch.arange(60), ("paper", typed["paper"].train_mask)
    with from_data(typed, tmp_path / "store") as ds:
        loader = NeighborLoader(ds, [4, 4], seeds, time_attr="time")
        for batch in loader:
            paper = batch["paper"]
            assert (paper.time <= paper.time[: paper.batch_size][paper.batch]).all()
            assert batch[CITES].edge_weight.shape == batch[CITES].e_id.shape


@pytest.mark.parametrize("weights", [torch.rand(300, dtype=torch.float64), -torch.ones(300)])
def test_weights_that_cannot_be_drawn_by_drive_nothing(typed, tmp_path, weights):
    typed[CITES].edge_weight = weights
    with from_data(typed, tmp_path / "store") as ds:
        assert torch.equal(ds[CITES].edge_weight, weights)
        with pytest.raises(ValueError, match="weight_attr='edge_weight'.*weight_attrs"):
            NeighborLoader(ds, [4, 4], "paper", weight_attr="edge_weight")
    if weights[0] >= 0:
        with from_data(typed, tmp_path / "store", weight_attrs="edge_weight") as ds:
            assert torch.equal(ds[CITES].edge_weight, weights.float())
            next(iter(NeighborLoader(ds, [4, 4], "paper", weight_attr="edge_weight")))


def test_graphs_without_edges_or_nodes_of_a_type_are_refused(tmp_path):
    data = HeteroData()
    with pytest.raises(ValueError, match="no edges: set edge_index of an edge type"):
        from_data(data, tmp_path / "store")
    data[WRITES].edge_index = torch.zeros(2, 1, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"no nodes of type 'author'.*data\['author'\]"):
        from_data(data, tmp_path / "store")
    data["paper"].title = "none"
    with pytest.raises(ValueError, match="paper: no number of nodes: set its num_nodes"):
        from_data(data, tmp_path / "store")
