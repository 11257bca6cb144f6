"""Mini-batches of typed graphs: nodes and edges have their own attributes, however read."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import graphzero as gz

PAPERS, AUTHORS = 400, 150
WRITES, CITES, WRITTEN = (
    ("author", "writes", "paper"),
    ("paper", "cites", "paper"),
    ("paper", "written_by", "author"),
)


def graph_of(seed=0):
    """Attributes that name the node or edge that they belong to."""
    rng = np.random.default_rng(seed)
    writes = np.stack([rng.integers(0, AUTHORS, 1500), rng.integers(0, PAPERS, 1500)])
    cites = np.stack([rng.integers(0, PAPERS, 2500), rng.zipf(1.4, 2500) % PAPERS])
    nodes = {
        "paper": {
            "x": np.arange(PAPERS * 100, dtype=np.float32).reshape(PAPERS, 100),
            "y": np.arange(PAPERS) % 7,
            "year": 1990 + np.arange(PAPERS) % 30,
            "patches": np.arange(PAPERS * 12, dtype=np.int16).reshape(PAPERS, 3, 4),
        },
        "author": {"x": np.arange(AUTHORS * 5, dtype=np.float16).reshape(AUTHORS, 5) / 8},
        "venue": {"num_nodes": 3},
    }
    edges = {
        WRITES: {
            "edge_index": writes,
            "edge_attr": np.arange(1500 * 20, dtype=np.float32).reshape(1500, 20),
        },
        CITES: {"edge_index": cites, "edge_weight": np.arange(1, 2501, dtype=np.float32)},
        WRITTEN: writes[::-1],
    }
    return nodes, edges


@pytest.fixture(scope="module", params=["input", "hot"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("typed") / request.param
    nodes, edges = graph_of()
    splits = {"train": {"paper": np.arange(0, PAPERS, 3)}}
    gz.build(
        path, nodes=nodes, edges=edges, splits=splits, order=request.param, edge_ids=True
    ).close()
    return path


def batches_of(ds, workers=0, **options):
    batches = gz.NeighborDataset(
        ds,
        ("paper", ds["paper"].splits["train"]),
        {"default": [4, 3], WRITTEN: [2, 0]},
        batch_size=32,
        **options,
    )
    batches.set_epoch(0)
    loader = DataLoader(
        batches,
        batch_size=None,
        num_workers=workers,
        collate_fn=gz.Collate(ds),
        timeout=60 * bool(workers),
    )
    return list(loader)


def check(batch):
    """Every attribute is that of its node or edge in the input."""
    nodes, edges = graph_of()
    assert batch.node_types == list(nodes)
    assert batch.edge_types == list(edges)
    for kind, given in nodes.items():
        n_id = batch[kind].n_id.numpy()
        assert batch[kind].num_nodes == sum(batch[kind].num_sampled_nodes) == len(n_id)
        for name, array in given.items():
            if name != "num_nodes":
                np.testing.assert_array_equal(batch[kind][name].numpy(), array[n_id])
    for kind, given in edges.items():
        store, attributes = batch[kind], given if isinstance(given, dict) else {"edge_index": given}
        source, target = batch[kind[0]].n_id, batch[kind[2]].n_id
        ends = np.stack([source[store.edge_index[0]], target[store.edge_index[1]]])
        np.testing.assert_array_equal(ends, attributes["edge_index"][:, store.e_id])
        assert store.num_edges == sum(store.num_sampled_edges) == ends.shape[1]
        for name, array in attributes.items():
            if name != "edge_index":
                np.testing.assert_array_equal(store[name].numpy(), array[store.e_id])


@pytest.mark.parametrize("workers", [0, 2])
def test_everything_in_a_batch_is_that_of_the_input(folder, workers):
    with gz.open(folder) as ds:
        train = ds["paper"].splits["train"]
        batches = batches_of(ds, workers)
        seeds = torch.cat([batch["paper"].n_id[: batch.batch_size] for batch in batches])
        np.testing.assert_array_equal(seeds, train)
        for batch in batches:
            check(batch)
            np.testing.assert_array_equal(
                batch["paper"].n_id[: batch.batch_size], train[batch["paper"].input_id]
            )
            assert batch["venue"].num_nodes == 0
            # [2, 0]: authors of papers are reached by the first hop only
            assert batch[WRITTEN].num_sampled_edges[1] == 0
        assert sum(batch[WRITES].num_edges for batch in batches) > 500
        del train


def test_an_epoch_is_resumed(folder):
    with gz.open(folder) as ds:
        batches = gz.NeighborDataset(ds, "paper", [3], batch_size=50, shuffle=True)
        everything = [batch.subgraph.n_id["paper"].tolist() for batch in batches]
        again = gz.NeighborDataset(ds, "paper", [3], batch_size=50, shuffle=True)
        again.resume(batches.state_after(3) | {"epoch": 0})
        assert [batch.subgraph.n_id["paper"].tolist() for batch in again] == everything[3:]
        authors = gz.NeighborDataset(ds, ("author", range(PAPERS % AUTHORS)), [3], batch_size=50)
        with pytest.raises(ValueError, match="input_type|num_seeds"):
            authors.resume(batches.state_after(1))


def test_a_batch_behaves_as_hetero_data(folder):
    with gz.open(folder) as ds:
        batch = batches_of(ds)[0]
    assert set(batch.edge_index_dict) == {WRITES, CITES, WRITTEN}
    assert batch["author", "paper"] is batch[WRITES]
    assert batch.metadata() == (["paper", "author", "venue"], [WRITES, CITES, WRITTEN])
    assert ("paper" in batch, "pape" in batch) == (True, False)
    assert batch.input_type == "paper"
    batch["paper"].h = batch["paper"].x * 2
    batch["paper"]["h2"] = batch["paper"].h
    assert "h2" in batch["paper"]
    assert set(batch.h_dict) == {"paper"}
    copied = batch.clone()
    copied["paper"].x.zero_()
    assert batch["paper"].x.abs().sum() > 0
    moved = batch.to("meta")
    assert moved is batch
    assert batch["paper"].h.is_meta
    assert batch[WRITES].edge_attr.is_meta
    for wrong in ("papers", ("a", "b"), ("author", "reads", "paper")):
        with pytest.raises(KeyError, match="there are"):
            batch[wrong]
    for wrong in ("x", "nothing_dict"):
        with pytest.raises(AttributeError, match=r"x_dict|no type has"):
            getattr(batch, wrong)


def test_to_pyg(folder):
    hetero_data = pytest.importorskip("torch_geometric.data").HeteroData
    with gz.open(folder) as ds:
        batch = batches_of(ds)[0]
    data = batch.to_pyg()
    assert isinstance(data, hetero_data)
    assert data.metadata() == batch.metadata()
    assert data["paper"].num_nodes == batch["paper"].num_nodes
    assert data["venue"].num_nodes == 0
    assert data["paper"].x.data_ptr() == batch["paper"].x.data_ptr()
    assert data[CITES].edge_weight is batch[CITES].edge_weight
    assert data["paper"].batch_size == batch.batch_size
    data.validate()


def test_out_neighbours_are_refused(tmp_path):
    nodes, edges = graph_of()
    with (
        gz.build(tmp_path / "d", nodes=nodes, edges=edges, neighbors="out") as ds,
        pytest.raises(ValueError, match="neighbors='in'"),
    ):
        gz.NeighborDataset(ds, "paper", [2])


def test_what_a_graph_without_types_has_is_named(folder):
    with gz.open(folder) as ds:
        assert ds.is_typed
        for name in ("graph", "features", "labels", "splits"):
            with pytest.raises(AttributeError, match=r"it has ds\['paper'\]"):
                getattr(ds, name)
