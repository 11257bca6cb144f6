"""`gz.LinkNeighborLoader`: the batches of the open form, seed edges, negatives."""

from __future__ import annotations

import inspect
from types import SimpleNamespace

import files
import numpy as np
import pytest
from ready_loaders import all_same, open_form, same

import graphzero as gz

torch = pytest.importorskip("torch")

OPTIONS = {"batch_size": 16, "seed": 5}

# The C code that these loaders reach is sanitized by the tests of their open form.
pytestmark = pytest.mark.no_asan


@pytest.fixture
def ds(dataset):
    with gz.open(dataset[0]) as opened:
        yield opened


@pytest.fixture
def edges():
    return np.asarray(files.random_edges(500, 6000, seed=2)).T[:, :100]


def loader_of(ds, edges, workers=0, method="fork", **options):
    if workers:
        options.update(num_workers=workers, multiprocessing_context=method)
    return gz.LinkNeighborLoader(ds, [4, 3], edges, **{**OPTIONS, **options})


def reference(ds, edges, **options):
    return gz.LinkNeighborDataset(ds, edges, [4, 3], **{**OPTIONS, **options})


def mode(name, amount=1, **weights):
    """As PyG's NegativeSampling has them."""
    return SimpleNamespace(mode=SimpleNamespace(value=name), amount=amount, **weights)


def test_ways_to_say_which_negatives(ds, edges):
    binary = open_form(reference(ds, edges, neg_sampling="binary", amount=2.5))
    for way in (
        {"neg_sampling": ("binary", 2.5)},
        {"neg_sampling": {"mode": "binary", "amount": 2.5}},
        {"neg_sampling_ratio": 2.5},
        {"neg_sampling": SimpleNamespace(mode="binary", amount=2.5)},
    ):
        assert all_same(loader_of(ds, edges, **way), binary)
    triplets = open_form(reference(ds, edges, neg_sampling="triplet", amount=3))
    assert all_same(loader_of(ds, edges, neg_sampling=mode("triplet", 3)), triplets)
    plain = open_form(reference(ds, edges))
    assert all_same(loader_of(ds, edges, neg_sampling_ratio=0.0), plain)
    for wrong in ("trinary", {"ratio": 1}, {"amount": 1}, {"mode": "binary", "ratio": 1}, 0.5):
        with pytest.raises(ValueError, match="neg_sampling"):
            loader_of(ds, edges, neg_sampling=wrong)
    with pytest.raises(ValueError, match="not both"):
        loader_of(ds, edges, neg_sampling="binary", neg_sampling_ratio=1.0)


def test_labels_and_ids(ds, edges):
    labels = torch.arange(100) % 3
    loader = loader_of(ds, torch.from_numpy(edges), edge_label=labels, neg_sampling="binary")
    source = reference(ds, edges, edge_label=labels.numpy(), neg_sampling="binary")
    assert all_same(loader, open_form(source))
    assert all_same(loader_of(ds, tuple(edges)), open_form(reference(ds, edges)))
    named = loader_of(ds, edges, input_id=np.arange(100) * 2)
    assert torch.cat([b.input_id for b in named]).tolist() == list(range(0, 200, 2))
    assert same(loader([0, 5]), loader(np.array([0, 5])))
    assert loader([0, 5]).input_id.tolist() == [0, 5]
    with pytest.raises(TypeError, match="edge type"):
        loader_of(ds, (("paper", "cites", "paper"), edges))
    with pytest.raises(TypeError, match="edge type"):
        loader_of(ds, ("paper", "cites", "paper"))


def test_balanced_seed_edges(ds, edges):
    labels = np.array([1] * 95 + [2] * 5)
    loader = loader_of(
        ds, np.tile(edges, 10), edge_label=np.tile(labels, 10), seed_weights="balanced"
    )
    drawn = torch.cat([batch.edge_label for batch in loader])
    assert abs((drawn == 2).float().mean() - 0.5) < 0.08  # five standard deviations
    with pytest.raises(ValueError, match="edge_label"):
        loader_of(ds, edges, seed_weights="balanced")


@pytest.mark.parametrize("neighbors", ["in", "out", "both"])
@pytest.mark.parametrize("edge_ids", [False, True])
def test_all_edges_by_default(tmp_path, neighbors, edge_ids):
    edges = np.asarray(files.random_edges(40, 300)).T
    with gz.build(
        tmp_path / "d", edges, num_nodes=40, neighbors=neighbors, edge_ids=edge_ids
    ) as ds:
        seeds = gz.LinkNeighborLoader(ds, [2])._source.edge_label_index
        if edge_ids:
            assert np.array_equal(seeds, edges)  # in the order of the edge list
        assert sorted(map(tuple, seeds.T)) == sorted(map(tuple, edges.T))
    with gz.build(tmp_path / "u", edges, num_nodes=40, directed=False) as ds:
        seeds = gz.LinkNeighborLoader(ds, [2])._source.edge_label_index
        loops = edges[:, edges[0] == edges[1]]
        both = np.hstack([edges, edges[::-1][:, edges[0] != edges[1]]])
        assert seeds.shape[1] == both.shape[1] == ds.num_edges, loops
        assert sorted(map(tuple, seeds.T)) == sorted(map(tuple, both.T))


def test_state_and_attributes(ds, edges):
    loader = loader_of(ds, edges, shuffle=True, neg_sampling="binary", workers=2)
    iterator = iter(loader)
    next(iterator), next(iterator)
    resumed = loader_of(ds, edges, shuffle=True, neg_sampling="binary")
    resumed.load_state_dict(loader.state_dict())
    assert all_same(resumed, iterator)
    parameters = set(inspect.signature(gz.LinkNeighborLoader).parameters) - {"other"}
    assert not {name for name in parameters if not hasattr(loader, name)}


@pytest.mark.parametrize("directed", [True, False])
def test_edge_splits(tmp_path, directed):
    edges = np.asarray(files.random_edges(40, 300)).T
    positions = np.array([250, 3, 17])
    with gz.build(
        tmp_path / "d",
        nodes={"x": np.ones((40, 1))},
        edges={"edge_index": edges},
        edge_splits={"test": positions},
        directed=directed,
        order="hot",
    ) as ds:
        seeds = gz.LinkNeighborLoader(ds, [2], "test")._source.edge_label_index
        if directed:
            assert np.array_equal(seeds, edges[:, positions])
        assert np.array_equal(np.sort(seeds, axis=0), np.sort(edges[:, positions], axis=0))
        with pytest.raises(ValueError, match=r"no split of the edges of the dataset.*\['test'\]"):
            gz.LinkNeighborLoader(ds, [2], "train")
