"""Subgraphs of sets of nodes, and PyG's loaders that are made of them."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch_geometric")

import torch
import torch_geometric.loader
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import subgraph, to_undirected

import graphzero as gz
from graphzero import pyg
from graphzero.pyg import subgraph_loaders
from graphzero.pyg.subgraph_loaders import _CountedSets
from graphzero.sampling.walks import is_symmetric

NODES = 120
SAINT = {
    "node": (pyg.GraphSAINTNodeSampler, {}),
    "edge": (pyg.GraphSAINTEdgeSampler, {}),
    "walk": (pyg.GraphSAINTRandomWalkSampler, {"walk_length": 2}),
}


@pytest.fixture(scope="module")
def data():
    torch.manual_seed(0)
    edges = to_undirected(torch.randint(0, NODES - 5, (2, 400)))  # five nodes without edges
    data = Data(x=torch.arange(NODES).float().view(-1, 1), y=torch.arange(NODES) % 7)
    data.edge_index, data.edge_attr = edges, torch.arange(edges.shape[1])
    data.train_mask = torch.rand(NODES) < 0.5
    return data


@pytest.fixture(scope="module", params=["hot", pytest.param("input", marks=pytest.mark.extended)])
def ds(request, data, tmp_path_factory):
    with pyg.from_data(data, tmp_path_factory.mktemp("data"), order=request.param) as found:
        yield found


def check(batch, data, nodes):
    """All edges among some nodes, each with its own attribute."""
    assert sorted(batch.n_id.tolist()) == sorted(nodes.tolist())
    wanted, attributes = subgraph(nodes, data.edge_index, data.edge_attr, num_nodes=NODES)
    assert sorted(batch.e_id.tolist()) == sorted(attributes.tolist())
    assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
    assert torch.equal(batch.edge_attr, batch.e_id)
    assert torch.equal(batch.x[:, 0].long(), batch.n_id)
    assert wanted.shape == batch.edge_index.shape


def test_sets_of_nodes(ds, data):
    sets = [torch.randperm(NODES)[:size] for size in (30, 1, 0, 60, 7)]
    for batch, nodes in zip(gz.SubgraphLoader(ds, iter(sets)), sets, strict=True):
        check(batch, data, nodes)
        assert batch.n_id.tolist() == nodes.tolist()
        assert batch.batch_size == len(nodes)
    both = next(iter(gz.SubgraphLoader(ds, [[4, 5, 4], [5, 9]], batch_size=2)))
    assert (both.n_id.tolist(), both.input_id.tolist()) == ([4, 5, 9], [0, 0, 1])
    bare = next(iter(gz.SubgraphLoader(ds, sets, gather=[], transform=lambda batch: batch.keys())))
    assert not {"x", "y", "edge_attr"} & set(bare)


@pytest.mark.parametrize("workers", [0, 2])
def test_every_set_once_in_a_pass(ds, workers):
    sets = np.arange(NODES).reshape(-1, 10)
    loader = gz.SubgraphLoader(ds, sets, batch_size=3, shuffle=True, seed=4, num_workers=workers)
    passes = [[tuple(batch.n_id.tolist()) for batch in loader] for _ in range(2)]
    assert passes[0] != passes[1]
    assert all(sorted(sum(each, ())) == list(range(NODES)) for each in passes)
    again = gz.SubgraphLoader(ds, sets, batch_size=3, shuffle=True, seed=4)
    assert [[tuple(batch.n_id.tolist()) for batch in again] for _ in range(2)] == passes
    anew = gz.SubgraphLoader(again.dataset)  # as Lightning makes it to predict
    assert torch.cat([batch.n_id for batch in anew]).tolist() == list(range(NODES))
    next(iter(loader))  # an early end
    assert len(loader) == len(list(loader)) == 4


def test_what_is_no_set_is_named(ds, tmp_path):
    for sets, error, message in (
        ([[0], [NODES]], IndexError, rf"sets\[1\].*{NODES}"),
        ([[0.5]], ValueError, r"sets\[0\]"),
        ("train", TypeError, "iterable of arrays"),
    ):
        with pytest.raises(error, match=message):
            gz.SubgraphLoader(ds, sets)
    with pytest.raises(TypeError, match="num_neighbors"):
        gz.SubgraphLoader(ds, [[0]], num_neighbors=[3])
    graph = HeteroData()
    graph["a"].x, graph["a", "to", "a"].edge_index = torch.ones(4, 2), torch.tensor([[0], [1]])
    with pyg.from_data(graph, tmp_path) as typed, pytest.raises(ValueError, match="without types"):
        gz.SubgraphLoader(typed, [[0]])


def test_random_nodes(ds, data):
    theirs = torch_geometric.loader.RandomNodeLoader(data, num_parts=7)
    for batch, wanted in zip(pyg.RandomNodeLoader(ds, 7), theirs, strict=True):
        assert torch.equal(batch.x, wanted.x)
        assert torch.equal(batch.train_mask, wanted.train_mask)
        assert sorted(batch.edge_attr.tolist()) == sorted(wanted.edge_attr.tolist())
        assert "batch_size" not in batch
    with pytest.raises(TypeError, match="num_parts"):
        pyg.RandomNodeLoader(ds, 7, batch_size=3)
    loader = pyg.RandomNodeLoader(ds, num_parts=7, shuffle=True)
    parts = [[batch.n_id.tolist() for batch in loader] for _ in range(2)]
    assert parts[0] != parts[1]
    assert sorted(node for part in parts[0] for node in part) == list(range(NODES))


def test_clusters_that_are_given(ds, data, monkeypatch):
    cluster = torch.arange(NODES) * 7 % 8
    clusters = pyg.ClusterData(ds, cluster)
    for i, one in enumerate(clusters):
        check(one, data, (cluster == i).nonzero().view(-1))
    assert len(clusters) == clusters.num_parts == i + 1 == 8
    loader = pyg.ClusterLoader(clusters, batch_size=3, shuffle=True)
    nodes = torch.cat([batch.n_id for batch in loader])
    assert sorted(nodes.tolist()) == list(range(NODES))
    for batch in loader:
        check(batch, data, batch.n_id)
        assert torch.equal(batch.train_mask, data.train_mask[batch.n_id])
    monkeypatch.setitem(sys.modules, "pymetis", None)  # as if it were not installed
    for arguments, error, message in (
        ((ds, 8), ImportError, "pip install pymetis, use RandomNodeLoader, or give num_parts"),
        ((ds, cluster[1:]), ValueError, f"num_parts has {NODES - 1} of {NODES} nodes"),
        ((ds, cluster - 1), IndexError, "num_parts"),
        ((ds, 8, False, None, None, True, True), TypeError, "keep no edges to others"),
    ):
        with pytest.raises(error, match=message):
            pyg.ClusterData(*arguments)
    with pytest.raises(TypeError, match="ClusterData"):
        pyg.ClusterLoader(ds)


@pytest.mark.extended
@pytest.mark.parametrize("recursive", [False, True])
def test_clusters_of_metis(tmp_path, monkeypatch, recursive):
    pytest.importorskip("pymetis")
    ring = torch.randperm(NODES)
    edges = torch.cat([torch.stack([ring, ring.roll(1)]), torch.arange(NODES).expand(2, -1)], 1)
    graph = Data(edge_index=edges, num_nodes=NODES)  # one direction, and self-loops
    folder = str(tmp_path)
    with pyg.from_data(graph, tmp_path / "ring") as ds:
        clusters = list(pyg.ClusterData(ds, 6, recursive, folder))
        assert {len(one.n_id) for one in clusters} <= {19, 20, 21}
        assert sum(one.num_edges for one in clusters) > NODES + NODES * 2 / 3  # a sixth at random
        monkeypatch.setattr(subgraph_loaders, "available_memory", lambda: 1000)
        again = pyg.ClusterData(ds, 6, recursive, folder)
        assert [one.n_id.tolist() for one in clusters] == [one.n_id.tolist() for one in again]
        with pytest.raises(MemoryError, match="METIS takes .* 1.0 kB are .*: use RandomNodeLoader"):
            pyg.ClusterData(ds, 6, recursive)
        (name,) = (path.name for path in tmp_path.glob("*.pt"))
        with pytest.raises(ValueError, match="of another graph or of other options"):
            pyg.ClusterData(ds, 5, recursive, folder, name)
    graph.edge_index = edges[:, 1:]
    with (
        pyg.from_data(graph, tmp_path / "other") as ds,
        pytest.raises(ValueError, match="of another graph"),
    ):
        pyg.ClusterData(ds, 6, recursive, folder)


@pytest.mark.parametrize("kind", SAINT)
def test_saint_batches_and_their_normalization(ds, data, kind, monkeypatch):
    make, options = SAINT[kind]
    how = {"batch_size": 25, "num_steps": 40, "seed": 3, "log": False, **options}
    loader = make(ds, sample_coverage=150, **how)
    values, estimates = data.y.double() + 1, []
    for _ in range(10):
        for batch in loader:
            check(batch, data, batch.n_id)
            estimates.append((batch.node_norm * values[batch.n_id]).sum().item())
    reached = values if kind == "walk" else values[: NODES - 5]
    assert np.mean(estimates) == pytest.approx(reached.sum().item() / NODES, rel=0.03)
    # edges: how often their sources were sampled, over how often they were
    sets = loader._source
    draws = sets.draw, sets.num_words
    counted = _CountedSets(ds, 40, draws, replace(sets.batching, seed=~3, gather=()))
    nodes, edges, taken = torch.zeros(NODES), torch.zeros(data.num_edges), 0
    while taken < 150 * NODES:
        for sampled in counted:
            nodes[sampled.by_type.n_id[""]] += 1
            edges[sampled.by_type.e_id["", "", ""]] += 1
            taken += len(sampled.by_type.n_id[""])
    wanted = (nodes[data.edge_index[0]] / edges).clamp(0, 1e4)
    assert torch.allclose(batch.edge_norm, wanted[batch.e_id])
    same = make(ds, sample_coverage=150, num_workers=2, **how)
    assert [b.n_id.tolist() for b in same] == [b.n_id.tolist() for b in make(ds, **how)]
    assert "node_norm" not in next(iter(make(ds, **how)))
    monkeypatch.setattr(subgraph_loaders, "available_memory", lambda: 1000)
    with pytest.raises(MemoryError, match="1.0 kB are available: leave out sample_coverage"):
        make(ds, sample_coverage=1, **how)


def test_saint_needs_edges_and_a_way_to_draw(ds, tmp_path):
    with pytest.raises(NotImplementedError, match="use GraphSAINTNodeSampler"):
        pyg.GraphSAINTSampler(ds, 5)
    gz.build(tmp_path, np.empty((0, 2), int), num_nodes=3).close()
    with gz.open(tmp_path) as bare, pytest.raises(ValueError, match="the graph has none"):
        pyg.GraphSAINTNodeSampler(bare, 5)


def test_walks_of_saint_follow_the_edges(tmp_path):
    ring = torch.stack([torch.arange(50), (torch.arange(50) + 1) % 50])
    directed = Data(x=torch.ones(50, 1), edge_index=ring)
    how = {"batch_size": 1, "walk_length": 3}
    with pyg.from_data(directed, tmp_path / "a") as ds:
        assert not is_symmetric(ds.graph)
        with pytest.raises(ValueError, match="neighbors='out' or 'both'"):
            pyg.GraphSAINTRandomWalkSampler(ds, **how)
    with gz.reorder(tmp_path / "a", neighbors="both") as ds:
        for batch in pyg.GraphSAINTRandomWalkSampler(ds, num_steps=20, **how):
            assert batch.num_nodes == 4
            assert batch.num_edges == 3  # of one after the other
    directed.edge_index = to_undirected(ring)
    with pyg.from_data(directed, tmp_path / "b") as ds:
        assert is_symmetric(ds.graph)
        assert next(iter(pyg.GraphSAINTRandomWalkSampler(ds, **how))).num_nodes <= 4


def test_shadow(ds, data):
    how = {"depth": 2, "num_neighbors": 3, "batch_size": 4, "seed": 1}
    loader = pyg.ShaDowKHopSampler(ds, node_idx=data.train_mask, **how)
    roots = data.train_mask.nonzero().view(-1)
    at = 0
    for batch in loader:
        assert torch.equal(batch.n_id[batch.root_n_id], roots[at : at + 4])
        assert torch.equal(batch.y, data.y[batch.n_id[batch.root_n_id]])
        assert torch.equal(batch.batch, torch.repeat_interleave(batch.ptr.diff()))
        assert torch.equal(batch.train_mask, data.train_mask[batch.n_id])
        assert torch.equal(batch.n_id[batch.edge_index], data.edge_index[:, batch.e_id])
        for tree in range(len(batch.ptr) - 1):
            mine = batch.batch[batch.edge_index[0]] == tree
            assert (batch.batch[batch.edge_index[1, mine]] == tree).all()
            nodes = batch.n_id[batch.ptr[tree] : batch.ptr[tree + 1]]
            _, wanted = subgraph(nodes, data.edge_index, data.edge_attr, num_nodes=NODES)
            assert sorted(batch.e_id[mine].tolist()) == sorted(wanted.tolist())
        at += 4
    assert len(loader) == -(-len(roots) // 4)
    for names in ([], ["y"]):
        bare = next(iter(pyg.ShaDowKHopSampler(ds, node_idx=data.train_mask, gather=names, **how)))
        assert torch.equal(bare.n_id[bare.root_n_id], roots[:4])
        assert "train_mask" not in bare


def test_every_loader_of_pyg_is_here_or_says_what_comes_nearest():
    for name in torch_geometric.loader.__all__:
        if name not in pyg.__all__:
            with pytest.raises(ImportError, match=f"no {name}: what comes nearest is"):
                getattr(importlib.import_module("graphzero.pyg"), name)
