"""Which way neighbour lists follow the edges: what is stored, sampled, walked and refused."""

from __future__ import annotations

import json
import pickle
import tempfile
from itertools import pairwise
from pathlib import Path

import files
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loaders import loader_of

import graphzero as gz
from graphzero import _core
from graphzero.store.manifest import read_manifest

pytestmark = pytest.mark.filterwarnings("error::UserWarning")

ORDERS = ("input", "hot", "presample")
SMALL = gz.Presample(fanouts=(3, 2), batch_size=4, min_batches=3)
CHAIN = [[0, 1], [0, 2], [2, 1], [3, 2]]


def built(folder, edges, order="hot", **options):
    """A dataset with edge ids."""
    how = {"presample": SMALL} if order == "presample" else {}
    edges = {"edge_index": np.asarray(edges).T}  # also of two edges
    return gz.build(folder, edges, order=order, edge_ids=True, **how, **options)


# ---- what a batch is

GRAPHS = st.integers(1, 12).flatmap(
    lambda count: st.tuples(
        st.just(count),
        st.lists(st.tuples(*[st.integers(0, count - 1)] * 2), min_size=1, max_size=60),
    )
)


@settings(max_examples=40, deadline=None)
@given(
    GRAPHS,
    st.sampled_from(("in", "out", "both")),
    st.sampled_from(ORDERS),
    st.sampled_from(("directional", "induced")),
    st.integers(0, 2**32),
)
def test_every_sampled_edge_is_an_edge_of_the_user(graph, neighbors, order, subgraph_type, seed):
    num_nodes, edges = graph
    how = {"num_nodes": num_nodes, "weight": np.arange(len(edges)) + 1.0}
    how["timestamp"] = np.arange(len(edges)) * 7
    with (
        tempfile.TemporaryDirectory() as folder,
        built(folder, edges, order, neighbors=neighbors, **how) as ds,
    ):
        sampler = gz.NeighborSampler(ds.graph, [3, 2], seed=seed, subgraph_type=subgraph_type)
        sub = sampler.sample(np.arange(num_nodes))
        found = sub.n_id[sub.edge_index]
        ends = np.asarray(edges)[sub.e_id].T  # those of the user, or swapped
        assert found.tolist() == (ends[::-1] if neighbors == "out" else ends).tolist()
        # A seed whose fanout is "all" has every one of its edges, once.
        whole = gz.NeighborSampler(ds.graph, [-1]).sample(np.arange(num_nodes))
        assert sorted(whole.e_id) == list(range(len(edges)))
        # Weights and times are those of the edge, whichever end lists it.
        ids = ds.graph._csr.edge_ids(np.arange(len(edges)))
        assert ds.graph.weights.tolist() == (ids + 1.0).tolist()
        assert ds.graph.times.tolist() == (ids * 7).tolist()
    assert _core.open_mappings() == 0


# ---- both


@pytest.mark.parametrize("order", ORDERS)
def test_both_is_in_and_the_lists_of_out_beside(tmp_path, order):
    edges, nodes = files.random_edges(50, 600), np.arange(50)
    with built(tmp_path, edges, order, neighbors="both") as both:
        for direction, column in (("in", 1), ("out", 0)):
            for node in nodes:
                found = both.graph.neighbors(node, direction)
                expected = np.sort(edges[edges[:, column] == node, 1 - column])
                np.testing.assert_array_equal(found, expected)
            degrees = np.bincount(edges[:, column], minlength=50)
            np.testing.assert_array_equal(both.graph.degree(nodes, direction), degrees)
        every = {tuple(edge) for edge in edges.tolist()}
        walks = both.graph.random_walk(nodes, 6, seed=3)
        steps = [pair for walk in walks.tolist() for pair in pairwise(walk)]
        assert all(pair in every for pair in steps if pair[1] >= 0)
        with pickle.loads(pickle.dumps(both)) as copied:
            np.testing.assert_array_equal(copied.graph.random_walk(nodes, 6, seed=3), walks)
    assert _core.open_mappings() == 0


def test_files_of_another_graph_are_refused(tmp_path):
    built(tmp_path / "a", CHAIN, neighbors="both").close()
    built(tmp_path / "b", [*CHAIN, [1, 3]], neighbors="both").close()
    (tmp_path / "b" / "graph_out.gl").replace(tmp_path / "a" / "graph_out.gl")
    files.forget_checksums(tmp_path / "a")
    with pytest.raises(gz.FormatError, match="not the in-neighbours and the out-neighbours"):
        gz.open(tmp_path / "a")
    assert _core.open_mappings() == 0


# ---- what is not stored


def test_what_is_not_stored_is_named(tmp_path):
    with built(tmp_path / "in", CHAIN) as ds:
        graph = ds.graph
        for call in (
            lambda: graph.random_walk([0], 2),
            lambda: graph.neighbors(0, "out"),
            lambda: graph.degree([0, 1], "out"),
        ):
            with pytest.raises(ValueError, match="in-neighbours only: .*neighbors='out' or 'both'"):
                call()
        assert graph.neighbors(1).tolist() == graph.neighbors(1, "in").tolist() == [0, 2]
        assert graph.degree(1) == graph.degree(1, "in") == 2
        with pytest.raises(ValueError, match="direction must be 'in' or 'out', not 'up'"):
            graph.degree(0, "up")
    with built(tmp_path / "out", CHAIN, neighbors="out") as ds:
        assert ds.graph.neighbors(0).tolist() == ds.graph.get_neighbours(0).tolist() == [1, 2]
        assert ds.graph.random_walk([3], 3).tolist() == [[3, 2, 1, -1]]
        with pytest.raises(ValueError, match="out-neighbours only: .*neighbors='in' or 'both'"):
            ds.graph.neighbors(0, "in")


@pytest.mark.parametrize("neighbors", ["in", "out"])
def test_an_undirected_graph_has_both_in_one_file(tmp_path, neighbors):
    with built(tmp_path, CHAIN, directed=False, neighbors=neighbors) as ds:
        assert ds.neighbors == ds.graph.stored_neighbors == "both"
        assert ds.graph.neighbors(0, "in").tolist() == ds.graph.neighbors(0).tolist() == [1, 2]
        assert ds.graph.random_walk([0], 3).min() >= 0
    assert {path.name for path in tmp_path.iterdir()} == {"dataset.json", "graph.gl"}
    gz.reorder(tmp_path, "hot", neighbors="in").close()
    assert read_manifest(tmp_path).neighbors == "both"


@pytest.mark.parametrize(("neighbors", "agrees"), [("in", True), ("both", True), ("out", False)])
def test_a_layer_of_pyg_computes_what_it_does_on_the_whole_graph(tmp_path, neighbors, agrees):
    torch = pytest.importorskip("torch")
    conv = pytest.importorskip("torch_geometric.nn").SAGEConv(8, 4)
    torch.manual_seed(0)
    edge_index, x = torch.randint(0, 300, (2, 2000)), torch.randn(300, 8)
    whole = conv(x, edge_index)
    with gz.build(tmp_path / "ds", edges=edge_index, features=x.numpy(), neighbors=neighbors) as ds:
        for batch in loader_of(gz.NeighborDataset(ds, torch.arange(300), [300], batch_size=50)):
            out = conv(batch.x, batch.edge_index)[: batch.batch_size]
            expected = whole[batch.n_id[: batch.batch_size]]
            assert torch.allclose(out, expected, atol=1e-5) == agrees


# ---- folders of version 1, and the command line


def test_a_folder_of_version_1_has_out_neighbours_and_warns_once(tmp_path):
    pytest.importorskip("torch")
    built(tmp_path, CHAIN, neighbors="out", features=np.eye(4)).close()
    path = tmp_path / "dataset.json"
    content = json.loads(path.read_text())
    del content["neighbors"], content["out_graph"]  # version 1 has no direction
    path.write_text(json.dumps({**content, "version": 1}))
    ds = gz.open(tmp_path)
    assert ds.neighbors == "out"
    assert ds.graph.random_walk([3], 2).tolist() == [[3, 2, 1]]
    with pytest.warns(UserWarning, match="against the edges.*'hot', neighbors='in'") as caught:
        gz.NeighborDataset(ds, [0], [2])
    assert Path(caught[0].filename) == Path(__file__)
    gz.NeighborDataset(ds, [0], [2])
    ds.close()
    assert json.loads((tmp_path / "dataset.json").read_text())["version"] == 1

    gz.reorder(tmp_path, "input").close()
    assert read_manifest(tmp_path).neighbors is None
    gz.reorder(tmp_path, "input", neighbors="out").close()  # the direction is chosen
    with gz.open(tmp_path) as ds:
        gz.NeighborDataset(ds, [0], [2])
