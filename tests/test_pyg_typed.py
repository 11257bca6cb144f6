"""`graphzero.pyg` for graphs with node types and edge types: batches, models, refusals."""

from __future__ import annotations

import pickle

import pytest

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric")

import torch_geometric.transforms as T  # noqa: E402
from torch_geometric.data import HeteroData  # noqa: E402

from graphzero.pyg import NeighborLoader, from_data  # noqa: E402

WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")
REV = ("paper", "rev_writes", "author")

# The C code that these loaders reach is sanitized by the tests of their open form.
pytestmark = pytest.mark.no_asan


def make_data():
    rng = torch.Generator().manual_seed(0)
    data = HeteroData()
    data["paper"].x = torch.rand(60, 6, generator=rng)
    data["paper"].y = torch.randint(0, 3, (60,), generator=rng)
    data["paper"].train_mask = torch.rand(60, generator=rng) < 0.5
    data["author"].x = torch.rand(25, 4, generator=rng)
    data[WRITES].edge_index = torch.stack(
        [torch.randint(0, 25, (150,), generator=rng), torch.randint(0, 60, (150,), generator=rng)]
    )
    data[WRITES].edge_attr = torch.rand(150, 2, generator=rng)
    data[WRITES].first = torch.rand(150, generator=rng) < 0.3
    data[CITES].edge_index = torch.randint(0, 60, (2, 300), generator=rng)
    data[CITES].edge_weight = torch.rand(300, generator=rng)
    data = T.ToUndirected(merge=False)(data)
    data.name = "papers"
    data["author"].country = "all"
    return data


@pytest.fixture
def data():
    return make_data()


@pytest.fixture
def stored(data, tmp_path):
    with from_data(data, tmp_path / "store") as ds:
        yield ds


def loader_of(stored, **options):
    given = {"num_neighbors": [4, 4], "input_nodes": ("paper", stored["paper"].train_mask)}
    return NeighborLoader(stored, **{**given, "batch_size": 8, **options})


def test_batches_are_what_pyg_makes_of_the_same_graph(data, stored):
    seeds = []
    loader = loader_of(stored, shuffle=True)
    for batch in loader:
        assert type(batch) is HeteroData
        assert batch.metadata() == data.metadata()
        size = batch["paper"].batch_size
        seeds += batch["paper"].n_id[:size].tolist()
        assert torch.equal(batch["paper"].input_id, batch["paper"].n_id[:size])
        for kind in data.node_types:
            for name in ("x", "y", "train_mask"):
                if name in data[kind]:
                    assert torch.equal(batch[kind][name], data[kind][name][batch[kind].n_id])
        for kind in data.edge_types:
            ends = torch.stack(
                [
                    batch[kind[end]].n_id[row]
                    for end, row in zip((0, 2), batch[kind].edge_index, strict=True)
                ]
            )
            assert torch.equal(ends, data[kind].edge_index[:, batch[kind].e_id])
            for name in ("edge_attr", "edge_weight", "first"):
                if name in data[kind]:
                    assert torch.equal(batch[kind][name], data[kind][name][batch[kind].e_id])
        assert batch[WRITES].first.dtype == torch.bool
        assert (batch.name, batch["author"].country) == ("papers", "all")
    assert sorted(seeds) == data["paper"].train_mask.nonzero().view(-1).tolist()
    assert len(loader.dataset) == len(seeds)


def test_the_result_answers_as_the_graph_did(data, stored):
    assert stored.metadata() == data.metadata()
    assert stored.num_features == data.num_features == {"paper": 6, "author": 4}
    assert stored["author"].num_features == 4
    assert stored["author"].num_nodes == 25
    assert stored[WRITES].num_edge_features == data[WRITES].num_edge_features == 2
    assert torch.equal(stored["author", "paper"].edge_index, data[WRITES].edge_index)
    assert torch.equal(stored[REV]["edge_attr"], data[REV].edge_attr)
    assert torch.equal(stored["paper"].train_mask, data["paper"].train_mask)
    assert stored["paper"].splits["train"].size == int(data["paper"].train_mask.sum())
    for name in ("x_dict", "edge_index_dict", "num_nodes_dict", "y_dict"):
        got, expected = getattr(stored, name), getattr(data, name)
        assert got.keys() == expected.keys()
        for key, value in expected.items():
            assert torch.equal(torch.as_tensor(got[key]), torch.as_tensor(value))
    assert stored.name == "papers"
    assert "x" in stored["paper"]
    assert "pos" not in stored["paper"]
    assert not hasattr(stored, "pos_dict")
    with pytest.raises(KeyError, match="pos"):
        stored["paper"]["pos"]
    with pytest.raises(AttributeError, match="no 'labels'; it has ds"):
        _ = stored.labels
    with pytest.raises(KeyError, match="no node type 'venue'"):
        stored["venue"]
    with pickle.loads(pickle.dumps(stored)) as copied:
        assert torch.equal(copied["paper"].train_mask, data["paper"].train_mask)
        assert torch.equal(copied[WRITES].first, data[WRITES].first)


def test_times_of_nodes_drive_sampling_without_being_named(data, tmp_path):
    """PyG's temporal loader of papers with years: nobody sees the future."""
    data["paper"].time = torch.arange(60)
    with from_data(data, tmp_path / "store") as ds:
        loader = loader_of(ds, time_attr="time")
        for batch in loader:
            paper = batch["paper"]
            assert (paper.time <= paper.time[: paper.batch_size][paper.batch]).all()
            assert batch[CITES].edge_weight.shape == batch[CITES].e_id.shape


def test_weights_that_float32_would_change_drive_nothing(data, tmp_path):
    weights = torch.rand(300, dtype=torch.float64)
    data[CITES].edge_weight = weights
    del data["paper", "rev_cites", "paper"]
    with from_data(data, tmp_path / "store") as ds:
        assert torch.equal(ds[CITES].edge_weight, weights)
        with pytest.raises(ValueError, match="weight_attr='edge_weight'.*weight_attrs"):
            loader_of(ds, weight_attr="edge_weight")
    with from_data(data, tmp_path / "store", weight_attrs="edge_weight") as ds:
        assert torch.equal(ds[CITES].edge_weight, weights.float())
        next(iter(loader_of(ds, weight_attr="edge_weight")))


def test_graphs_without_edges_or_nodes_of_a_type_are_refused(tmp_path):
    data = HeteroData()
    data["paper"].x = torch.ones(3, 1)
    with pytest.raises(ValueError, match="no edges: set edge_index of an edge type"):
        from_data(data, tmp_path / "store")
    data[WRITES].edge_index = torch.zeros(2, 1, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"no nodes of type 'author'.*data\['author'\]"):
        from_data(data, tmp_path / "store")
