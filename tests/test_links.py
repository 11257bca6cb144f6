"""Mini-batches around edges, and the negatives drawn for them."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path

import files
import numpy as np
import pytest
import reference
import reference_negatives
from hypothesis import given, settings
from hypothesis import strategies as st

import graphzero as gz

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.core,
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
]

MODES = [(None, 1), ("binary", 1), ("binary", 0.3), ("binary", 2.5), ("triplet", 1), ("triplet", 3)]


def batches(ds, edges, fanouts=(3, 2), **options):
    options = {"batch_size": 32, "seed": 5, **options}
    return gz.LinkNeighborDataset(ds, edges, fanouts, **options)


def open_graph(folder, edges, num_nodes, **options):
    naive = files.write_dataset(folder, edges, num_nodes, **options)
    return gz.open(folder), naive


def complete_but(num_nodes, missing):
    """Every pair of nodes as an edge, apart from self-loops and those missing."""
    every = [(u, v) for u in range(num_nodes) for v in range(num_nodes) if u != v]
    return np.array([pair for pair in every if pair not in missing], dtype=np.int64).reshape(-1, 2)


def pairs_of(batch):
    """The user's ids of the labelled pairs, (2, num_labels)."""
    return batch.n_id[batch.edge_label_index].numpy()


def triplets_of(batch):
    """The user's ids: sources, destinations, (batch_size, amount) negatives."""
    negatives = batch.dst_neg_index.reshape(batch.batch_size, -1)
    return [batch.n_id[ids].numpy() for ids in (batch.src_index, batch.dst_pos_index, negatives)]


# ---- what a batch is


@pytest.mark.parametrize(("mode", "amount"), MODES)
def test_batches_equal_the_naive_ones(tmp_path, order, mode, amount):
    rng = np.random.default_rng(1)
    features = rng.standard_normal((60, 5)).astype(np.float32)
    edges = files.random_edges(60, 1500)
    ds, naive = open_graph(tmp_path / "data", edges, 60, features=features, order=order)
    seeds = rng.integers(0, 60, (2, 75))
    loader = batches(ds, seeds, shuffle=True, neg_sampling=mode, amount=amount)
    loader.set_epoch(3)
    shuffled = reference.permutation(75, reference.key(reference.SHUFFLE, 5, 3, 0))
    for i, batch in enumerate(map(gz.Collate(ds), loader)):
        positions = shuffled[32 * i : 32 * i + 32]
        sources, targets = seeds[:, positions]
        draws = {"seed": 5, "epoch": 3, "batch": i}
        if mode == "triplet":
            drawn = reference_negatives.destinations(naive, sources, targets, amount, **draws)
            ends = [sources, targets, drawn]
            got = [batch.src_index, batch.dst_pos_index, batch.dst_neg_index.reshape(-1)]
            assert batch.dst_neg_index.shape == ((len(sources), 3)[:amount] or None)
            assert batch.edge_label_index is batch.edge_label is None
        else:
            count = math.ceil(len(sources) * amount) if mode else 0
            drawn = reference_negatives.pairs(naive, count, **draws)
            ends = [np.append(sources, drawn[0]), np.append(targets, drawn[1])]
            got = list(batch.edge_label_index)
            labels = [1.0] * len(sources) + [0.0] * count
            assert (None if mode is None else labels) == (
                batch.edge_label if mode is None else batch.edge_label.tolist()
            )
            assert batch.src_index is batch.dst_pos_index is batch.dst_neg_index is None
        nodes = sorted({int(node) for part in ends for node in part})
        assert [[nodes.index(node) for node in part] for part in ends] == [
            part.tolist() for part in got
        ]
        expected = reference.sample(naive, nodes, [3, 2], **draws)
        np.testing.assert_array_equal(batch.n_id, expected["n_id"])
        np.testing.assert_array_equal(batch.edge_index, expected["edge_index"])
        np.testing.assert_array_equal(batch.e_id, expected["e_id"])
        assert batch.num_sampled_nodes == expected["num_sampled_nodes"]
        np.testing.assert_array_equal(batch.x, features[batch.n_id.numpy()])
        assert batch.input_id.tolist() == positions.tolist()
        assert batch.batch_size == len(positions)
    assert i == 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (np.array([0, 2, 1]), [1, 3, 2, 0, 0, 0]),  # 0 is for negatives, as in PyG
        (np.array([1, 2, 7]), [1, 2, 7, 0, 0, 0]),
        (torch.tensor([[0.0, 4.0]] * 3), [[1.0, 5.0]] * 3 + [[0.0, 0.0]] * 3),
    ],
)
def test_labels_make_room_for_the_negatives(tmp_path, given, expected):
    ds, _ = open_graph(tmp_path / "data", [[0, 1], [1, 2], [2, 0]], 9)
    edges = [[0, 1, 2], [1, 2, 0]]
    (batch,) = map(gz.Collate(ds), batches(ds, edges, edge_label=given, neg_sampling="binary"))
    assert batch.edge_label.tolist() == expected
    (plain,) = map(gz.Collate(ds), batches(ds, edges, edge_label=given))
    assert plain.edge_label.tolist() == np.asarray(given).tolist()


def test_the_arrays_of_the_caller_are_copied(tmp_path):
    ds, _ = open_graph(tmp_path / "data", [[0, 1], [1, 2], [2, 0]], 9)
    edges, labels = np.array([[0, 1], [1, 2]]), np.array([3, 4])
    loader = batches(ds, edges, edge_label=labels)
    edges[:], labels[:] = 8, 9
    (batch,) = map(gz.Collate(ds), loader)
    assert pairs_of(batch).tolist() == [[0, 1], [1, 2]]
    assert batch.edge_label.tolist() == [3, 4]


def test_no_seed_edges_make_no_batches(tmp_path):
    ds, _ = open_graph(tmp_path / "data", complete_but(4, []), 4)
    for mode, amount in MODES:
        loader = batches(ds, [[], []], neg_sampling=mode, amount=amount)
        assert len(loader) == 0
        assert list(loader) == []


@pytest.mark.parametrize("subgraph_type", ["directional", "induced"])
@pytest.mark.parametrize(("neighbors", "directed"), [("in", True), ("out", True), ("both", False)])
def test_batches_without_seed_edges(tmp_path, neighbors, directed, subgraph_type):
    edges = np.random.default_rng(2).integers(0, 60, (2, 900))
    given = {"edge_index": edges, "place": np.arange(900)}
    with gz.build(tmp_path, given, neighbors=neighbors, directed=directed, edge_ids=True) as ds:
        how = {"fanouts": [4, -1], "subgraph_type": subgraph_type, "gather": ["place"]}
        seeds, collate = edges[:, :96], gz.Collate(ds)
        whole = map(collate, batches(ds, seeds, **how))
        others = map(collate, batches(ds, seeds, exclude_seed_edges=True, **how))
        for i, (before, after) in enumerate(zip(whole, others, strict=True)):
            pairs = seeds[:, 32 * i : 32 * i + 32].T.tolist()
            gone = {*map(tuple, pairs), *((v, u) for u, v in pairs)}
            ends = before.n_id[before.edge_index].T.tolist()
            keep = torch.tensor([(u, v) not in gone for u, v in ends])
            assert not keep.all()
            for name in ("edge_index", "e_id", "place"):
                assert torch.equal(after[name], before[name][..., keep])
            if subgraph_type == "directional":
                hops = keep.split(before.num_sampled_edges)
                assert after.num_sampled_edges == [int(hop.sum()) for hop in hops]
        plain = batches(ds, seeds, **how)
        plain.set_epoch(0)
        with pytest.raises(ValueError, match="excluded"):
            batches(ds, seeds, exclude_seed_edges=True, **how).resume(plain.state_after(1))


# ---- negatives


@given(
    num_nodes=st.integers(3, 9),
    density=st.floats(0, 1),
    directed=st.booleans(),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_negatives_are_never_edges(num_nodes, density, directed, seed):
    rng = np.random.default_rng(seed)
    dense = rng.random((num_nodes, num_nodes)) < density
    edges = np.argwhere(dense)
    positive = dense if directed else dense | dense.T
    negatives = ~positive & ~np.eye(num_nodes, dtype=bool)
    seeds = rng.integers(0, num_nodes, (2, 20))
    has_others = negatives.sum(axis=1)[seeds[0]] > negatives[seeds[0], seeds[1]]
    seeds = seeds[:, has_others]
    with tempfile.TemporaryDirectory() as name:
        ds, _ = open_graph(Path(name) / "data", edges, num_nodes, directed=directed, order="hot")
        with ds.graph:
            if negatives.any():
                for batch in map(gz.Collate(ds), batches(ds, seeds, neg_sampling="binary")):
                    sources, targets = pairs_of(batch)[:, batch.batch_size :]
                    assert negatives[sources, targets].all()
            loader = batches(ds, seeds, neg_sampling="triplet", amount=4)
            for batch in map(gz.Collate(ds), loader):
                sources, targets, drawn = triplets_of(batch)
                assert sources.tolist() == seeds[0].tolist()
                assert negatives[sources[:, None], drawn].all()
                assert (drawn != targets[:, None]).all()


def test_the_last_negatives_of_a_nearly_complete_graph_are_found(tmp_path, order):
    """Of 200 * 199 pairs 3 are free: few draws are lucky, and most negatives are exact."""
    free = {(0, 7), (0, 9), (5, 0)}
    edges = complete_but(200, free)
    ds, naive = open_graph(tmp_path / "data", edges, 200, order=order)
    seeds = np.array([[0, 0, 5, 0], [1, 7, 3, 9]])
    (batch,) = map(gz.Collate(ds), batches(ds, seeds, neg_sampling="triplet", amount=40))
    _, _, drawn = triplets_of(batch)
    assert [set(row.tolist()) for row in drawn] == [{7, 9}, {9}, {0}, {7}]
    expected = reference_negatives.destinations(naive, seeds[0], seeds[1], 40, seed=5)
    np.testing.assert_array_equal(drawn.reshape(-1), expected)
    (batch,) = map(gz.Collate(ds), batches(ds, seeds, neg_sampling="binary", amount=100))
    drawn = pairs_of(batch)[:, 4:]
    assert set(map(tuple, drawn.T.tolist())) == free
    np.testing.assert_array_equal(drawn, reference_negatives.pairs(naive, 400, seed=5))


# ---- bad input

GOOD = [[0, 1], [1, 2]]
BINARY = {"neg_sampling": "binary"}
LABELS_NAN = {"edge_label": np.array([0, np.nan]), **BINARY}
LABELS_63 = {"edge_label": np.array([2**63 - 1, 0]), **BINARY}
LABELS_INF = {"edge_label": np.array([0, np.inf], np.float32), **BINARY}
LABELS_2D = {"edge_label": np.array([[1, 0], [2, 255]], np.uint8), **BINARY}


@pytest.mark.parametrize(
    ("edges", "options", "error", "part"),
    [
        ([0, 1], {}, ValueError, r"shape \(2, n\).*not \(2,\)"),
        ([[0, 1], [2, 500]], {}, IndexError, r"edge_label_index\[1\]\[1\] = 500"),
        (GOOD, {"neg_sampling": "both"}, ValueError, "neg_sampling must be None, 'binary'"),
        (GOOD, {"neg_sampling": "binary", "amount": 0}, ValueError, "amount must be a positive"),
        (GOOD, {"neg_sampling": "binary", "amount": math.nan}, ValueError, "amount must be a"),
        (GOOD, {"neg_sampling": "binary", "amount": True}, ValueError, "amount must be a"),
        (GOOD, {"neg_sampling": "triplet", "amount": 0.5}, ValueError, "amount must be an integer"),
        (GOOD, {"edge_label": [1, 2, 3]}, ValueError, "for each of the 2 edges.*shape"),
        (GOOD, {"edge_label": ["a", "b"]}, ValueError, "a number for each"),
        (GOOD, {"edge_label": [1, -2], **BINARY}, ValueError, r"\[1\] = -2: .* of at least 0"),
        (GOOD, LABELS_NAN, ValueError, r"edge_label\[1\] = nan: .*must be numbers"),
        (GOOD, LABELS_63, ValueError, r"edge_label\[0\] = 9223372036854775807: .*int64"),
        (GOOD, LABELS_INF, ValueError, r"edge_label\[1\] = inf: .*float32"),
        (GOOD, LABELS_2D, ValueError, r"edge_label\[1, 1\] = 255: .*uint8"),
        (GOOD, {"edge_label": [1, 1], "neg_sampling": "triplet"}, ValueError, "have no labels"),
    ],
)
def test_bad_options_are_named(dataset, edges, options, error, part):
    with pytest.raises(error, match=part):
        batches(gz.open(dataset[0]), edges, **options)


def test_a_source_without_negatives_is_named(tmp_path, order):
    edges = [[2, 0], [2, 1], [2, 3], [0, 1], [0, 2]]
    ds, _ = open_graph(tmp_path / "data", edges, 4, order=order)
    for seeds, node in (([[1, 2], [0, 1]], r"\[0\]\[1\] = 2"), ([[0], [3]], r"\[0\]\[0\] = 0")):
        with pytest.raises(ValueError, match=rf"edge_label_index{node} has every node"):
            batches(ds, seeds, neg_sampling="triplet")
    (batch,) = map(gz.Collate(ds), batches(ds, [[0], [1]], neg_sampling="triplet"))
    assert triplets_of(batch)[2].tolist() == [[3]]


def test_a_complete_graph_has_no_binary_negatives(tmp_path):
    ds, _ = open_graph(tmp_path / "data", complete_but(4, []), 4)
    with pytest.raises(ValueError, match="every pair of nodes is an edge"):
        batches(ds, [[0], [1]], neg_sampling="binary")
