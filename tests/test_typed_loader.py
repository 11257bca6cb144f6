"""Loaders of typed graphs: attributes by type, seeds by type, fanouts by edge type."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from loaders import loader_of
from ready_loaders import all_same, open_form

import graphzero as gz
from graphzero.graph.user_input import as_typed_fanouts
from graphzero.loader import arguments

# What is tested is Python; its C code is sanitized by the tests of the sampler.
pytestmark = pytest.mark.no_asan

PAPERS, AUTHORS = 400, 150
WRITES = ("author", "writes", "paper")
CITES = ("paper", "cites", "paper")
WRITTEN = ("paper", "written_by", "author")
TRAIN = np.arange(0, PAPERS, 3)[::-1].copy()
FANOUTS = {WRITES: [4, 3], CITES: [3, 2], WRITTEN: [2, 2]}
OPTIONS = {"batch_size": 32, "seed": 3}


def graph_of():
    """Attributes that name the node or edge that they belong to."""
    rng = np.random.default_rng(0)
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
        WRITES: {"edge_index": writes, "edge_attr": np.arange(30_000.0).reshape(1500, 20)},
        CITES: {"edge_index": cites, "edge_weight": np.arange(1, 2501, dtype=np.float32)},
        WRITTEN: writes[::-1],
    }
    return nodes, edges


@pytest.fixture(scope="module", params=["input", "hot"])
def ds(request, tmp_path_factory):
    nodes, edges = graph_of()
    with gz.build(
        tmp_path_factory.mktemp("typed") / request.param,
        nodes=nodes,
        edges=edges,
        splits={
            "train": {"paper": TRAIN, "author": np.arange(5)},
            "val": {"paper": np.array([3, 1])},
            "paper": {"author": np.array([7])},
        },
        edge_splits={"test": {WRITES: np.array([400, 7, 107])}},
        order=request.param,
        edge_ids=True,
    ) as dataset:
        yield dataset


def batches_of(ds, workers=0):
    batches = gz.NeighborDataset(
        ds, ("paper", TRAIN), {"default": [4, 3], WRITTEN: [2, 0]}, **OPTIONS
    )
    batches.set_epoch(0)
    return list(loader_of(batches, workers))


def check(batch):
    """Every attribute is that of its node or edge in the input."""
    nodes, edges = graph_of()
    assert batch.node_types == list(nodes)
    assert batch.node_stores == [batch[kind] for kind in nodes]
    assert batch.edge_stores == [batch[kind] for kind in batch.edge_types]
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
def test_everything_in_a_batch_is_that_of_the_input(ds, workers):
    batches = batches_of(ds, workers)
    seeds = torch.cat([batch["paper"].n_id[: batch.batch_size] for batch in batches])
    np.testing.assert_array_equal(seeds, TRAIN)
    for batch in batches:
        check(batch)
        np.testing.assert_array_equal(
            batch["paper"].n_id[: batch.batch_size], TRAIN[batch["paper"].input_id]
        )
        assert batch["venue"].num_nodes == 0
        # [2, 0]: authors of papers are reached by the first hop only
        assert batch[WRITTEN].num_sampled_edges[1] == 0
    assert sum(batch[WRITES].num_edges for batch in batches) > 500


def test_a_batch_behaves_as_hetero_data(ds):
    batch = batches_of(ds)[0]
    assert set(batch.edge_index_dict) == {WRITES, CITES, WRITTEN}
    assert batch["author", "paper"] is batch[WRITES]
    assert batch.metadata() == (["paper", "author", "venue"], [WRITES, CITES, WRITTEN])
    assert ("paper" in batch, "pape" in batch) == (True, False)
    assert batch.input_type == "paper"
    batch["paper"].h = batch["paper"].x * 2
    batch["paper"]["h2"] = batch["paper"].h
    assert set(batch.h2_dict) == {"paper"}
    copied = batch.clone()
    copied["paper"].x.zero_()
    assert batch["paper"].x.abs().sum() > 0
    assert batch.to("meta") is batch
    assert (batch["paper"].h.is_meta, batch[WRITES].edge_attr.is_meta) == (True, True)
    for wrong in ("papers", ("a", "b"), ("author", "reads", "paper")):
        with pytest.raises(KeyError, match="there are"):
            batch[wrong]
    for wrong in ("x", "nothing_dict"):
        with pytest.raises(AttributeError, match=r"x_dict|no type has"):
            getattr(batch, wrong)


def test_out_neighbours_are_refused(tmp_path):
    nodes, edges = graph_of()
    ds = gz.build(tmp_path / "d", nodes=nodes, edges=edges, neighbors="out")
    with pytest.raises(ValueError, match="neighbors='in'"):
        gz.NeighborDataset(ds, "paper", [2])


def nodes_loader(ds, input_nodes=("paper", "train"), **options):
    return gz.NeighborLoader(ds, FANOUTS, input_nodes, **{**OPTIONS, **options})


def links_loader(ds, given=WRITES, **options):
    return gz.LinkNeighborLoader(ds, FANOUTS, given, **{**OPTIONS, **options})


def seeds_of(loader):
    kind = loader._source.input_type
    return kind, [
        int(node) for batch in loader for node in batch[kind].n_id[: batch[kind].batch_size]
    ]


def test_seeds_by_type(ds):
    mask = np.isin(np.arange(PAPERS), TRAIN)
    for given, kind, expected in (
        ("author", "author", range(AUTHORS)),
        (["author", [3, 1]], "author", [3, 1]),
        (("paper", torch.tensor([5, 2])), "paper", [5, 2]),
        (("paper", "train"), "paper", TRAIN),
        ("val", "paper", [3, 1]),
        ("paper", "paper", range(PAPERS)),  # also the name of a split of another type
        (("author", "paper"), "author", [7]),
        (("paper", torch.from_numpy(mask)), "paper", sorted(TRAIN)),
    ):
        assert seeds_of(nodes_loader(ds, given)) == (kind, list(expected))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, r"the node types are \['paper', 'author', 'venue'\], their splits {'paper'"),
        ([1, 2], "of one node type"),
        ("train", r"several node types.*\('paper', 'train'\), \('author', 'train'\)"),
        ("test", "not 'test'"),
        (("paper", "test"), r"no split of the node type 'paper': there are \['train', 'val'\]"),
        (("film", [1]), "not 'film'; the node types are"),
        (("paper", np.ones(3, bool)), "mask"),
    ],
)
def test_seeds_of_no_type(ds, given, message):
    with pytest.raises(ValueError, match=message):
        nodes_loader(ds, given)


def test_input_ids(ds):
    mask = np.isin(np.arange(PAPERS), TRAIN)
    for batch in nodes_loader(ds, ("paper", mask)):
        store = batch["paper"]
        assert torch.equal(store.input_id, store.n_id[: store.batch_size])
        assert store.batch_size == batch.batch_size == len(batch.input_id)
    ids = [batch[CITES].input_id for batch in links_loader(ds, CITES, input_id=range(2500))]
    assert torch.equal(torch.cat(ids), torch.arange(2500))


def as_num_neighbors(values, default=None):
    """As PyG's NumNeighbors has them."""
    return SimpleNamespace(values=values, default=default, get_mapped_values=None)


def test_ways_to_give_fanouts(ds):
    expected = open_form(gz.NeighborDataset(ds, ("paper", TRAIN), FANOUTS, **OPTIONS))
    words = {"__".join(kind): hops for kind, hops in FANOUTS.items()}
    for given in (
        words,
        as_num_neighbors(words),
        {WRITES: [4, 3], CITES: [3, 2], "default": [2, 2]},
        as_num_neighbors({k: v for k, v in words.items() if "_by" not in k}, [2, 2]),
    ):
        assert all_same(gz.NeighborLoader(ds, given, ("paper", "train"), **OPTIONS), expected)
    alike = open_form(gz.NeighborDataset(ds, ("paper", TRAIN), [2, 2], **OPTIONS))
    for given in ([2, 2], as_num_neighbors([2, 2])):
        loader = gz.NeighborLoader(ds, given, ("paper", "train"), **OPTIONS)
        assert all_same(loader, alike)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([5] * 65, "at most 64 hops"),
        ([5, -2], "positive integer, or -1"),
        ({WRITES: 5, "default": [1]}, r"fanouts\[\('author', 'writes', 'paper'\)\] must be a list"),
        ({WRITES: [5]}, r"lack the edge types \[.*'cites'.*\]: name them, .*'default': \[0\]"),
        ({WRITES: [5], "default": [1, 2]}, "the same number of hops, not author__writes__paper: 1"),
        ({WRITES: [5], "author__writes__paper": [5], "default": [1]}, "twice"),
        (as_num_neighbors({"author__reads__paper": [2]}, [1]), "name one of"),
    ],
)
def test_fanouts_that_are_refused_by_name(ds, given, message):
    with pytest.raises(ValueError, match=message):
        gz.NeighborDataset(ds, "paper", arguments.as_num_neighbors(given))


def test_names_that_stand_for_two_edge_types_are_refused():
    types = [("a__b", "c", "d"), ("a", "b__c", "d")]
    with pytest.raises(ValueError, match="'a__b__c__d', but the edge types are"):
        as_typed_fanouts({"a__b__c__d": [1], "default": [2]}, types)


def test_seed_edges_by_type(ds):
    _, edges = graph_of()
    writes, cites = edges[WRITES]["edge_index"], edges[CITES]["edge_index"]
    for given, kind, expected in (
        (WRITES, WRITES, writes),
        ("author__writes__paper", WRITES, writes),
        ((CITES, tuple(torch.from_numpy(cites[:, :9]))), CITES, cites[:, :9]),
        (("author__writes__paper", "test"), WRITES, writes[:, [400, 7, 107]]),
        ([["author", "paper"], "test"], WRITES, writes[:, [400, 7, 107]]),
        (("author", "paper"), WRITES, writes),
        ([list(CITES), cites.tolist()], CITES, cites),
    ):
        source = links_loader(ds, given)._source
        assert source.edge_type == kind
        np.testing.assert_array_equal(source.edge_label_index, expected)
    for given, message in (
        (None, "of one edge type"),
        (writes, "of one edge type"),
        ((CITES, "test"), r"no split of the edges of the edge type .*: there are \[\]"),
        ((("author", "reads", "paper"), None), "no edge type"),
        ((("author", "reads", "paper"), "test"), "edge type"),
        (tuple(writes), "of one edge type"),
        ((CITES, cites.T), r"shape \(2, n\)"),
        ((WRITES, [[0], [PAPERS]]), r"edge_label_index\[1\]"),
    ):
        with pytest.raises((ValueError, IndexError), match=message):
            links_loader(ds, given)
