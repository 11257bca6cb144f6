"""Mini-batches around the seed edges of one edge type, with negatives and times."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import graphzero as gz

USERS, FILMS, EDGES = 40, 25, 300
RATES = ("user", "rates", "film")
LIKED = ("film", "rev_rates", "user")
KNOWS = ("user", "knows", "user")


def inputs(seed=0):
    rng = np.random.default_rng(seed)
    rates = np.stack([rng.integers(0, USERS, EDGES), rng.integers(0, FILMS, EDGES)])
    knows = rng.integers(0, USERS, (2, EDGES))
    return rates, knows, np.arange(EDGES)


@pytest.fixture(scope="module", params=["input", "hot"])
def ds(request, tmp_path_factory):
    rates, knows, times = inputs()
    with gz.build(
        tmp_path_factory.mktemp("links") / "d",
        nodes={
            "user": {"x": np.arange(USERS * 2.0).reshape(USERS, 2)},
            "film": {"x": np.arange(FILMS * 3.0).reshape(FILMS, 3)},
        },
        edges={
            RATES: {"edge_index": rates, "time": times},
            LIKED: {"edge_index": rates[::-1].copy(), "time": times},
            KNOWS: knows,
        },
        time_attrs="time",
        order=request.param,
        edge_ids=True,
    ) as dataset:
        yield dataset


def batches_of(ds, seeds, **options):
    batches = gz.LinkNeighborDataset(ds, seeds, [3, 2], batch_size=64, **options)
    return list(DataLoader(batches, batch_size=None, collate_fn=gz.Collate(ds)))


def ends_of(batch, kind, sources, destinations):
    return batch[kind[0]].n_id[sources], batch[kind[2]].n_id[destinations]


@pytest.mark.parametrize("kind", [RATES, KNOWS])
@pytest.mark.parametrize("mode", [None, "binary"])
def test_labels_lead_to_the_seed_edges(ds, kind, mode):
    rates, knows, _ = inputs()
    edges = rates if kind == RATES else knows
    existing = set(zip(*edges.tolist(), strict=True))
    seen = []
    for batch in batches_of(ds, (kind, edges[:, ::2]), neg_sampling=mode, amount=1.5):
        store = batch[kind]
        assert batch.input_type == kind
        assert store.batch_size == batch.batch_size == len(store.input_id)
        sources, destinations = ends_of(batch, kind, *store.edge_label_index)
        pairs = list(zip(sources.tolist(), destinations.tolist(), strict=True))
        positives, negatives = pairs[: batch.batch_size], pairs[batch.batch_size :]
        assert positives == list(zip(*edges[:, ::2][:, store.input_id].tolist(), strict=True))
        seen += positives
        if mode is None:
            assert not negatives
            assert "edge_label" not in store
        else:
            assert len(negatives) == -(-3 * batch.batch_size // 2)
            assert not existing & set(negatives)
            assert store.edge_label.tolist() == [1] * len(positives) + [0] * len(negatives)
            if kind == KNOWS:  # a user and a film of equal ids are two nodes
                assert all(source != destination for source, destination in negatives)
    assert seen == list(zip(*edges[:, ::2].tolist(), strict=True))


@pytest.mark.parametrize("mode", [None, "binary", "triplet"])
@pytest.mark.parametrize("kind", [RATES, KNOWS])
def test_trees_of_seed_edges_have_no_later_edges(ds, kind, mode):
    rates, knows, _ = inputs()
    edges = rates if kind == RATES else knows
    existing = set(zip(*edges.tolist(), strict=True))
    times = np.arange(EDGES) % 7 * 40
    for batch in batches_of(ds, (kind, edges), edge_label_time=times, neg_sampling=mode):
        of_links = times[batch[kind].input_id]
        for each in (RATES, LIKED):
            store = batch[each]
            source = batch[each[0]].batch[store.edge_index[0]]
            target = batch[each[2]].batch[store.edge_index[1]]
            assert torch.equal(source, target)
            assert (store.time <= torch.from_numpy(of_links)[target]).all()
        if mode == "triplet":
            ends = batch[kind[0]].src_index, batch[kind[2]].dst_pos_index
            np.testing.assert_array_equal(batch[kind[0]].seed_time, of_links)
            pairs = np.stack(ends_of(batch, kind, *ends))
            np.testing.assert_array_equal(pairs, edges[:, batch[kind].input_id])
            negatives = batch[kind[2]].dst_neg_index
            assert batch[kind[2]].batch[negatives].tolist() == list(range(len(of_links)))
            drawn = batch[kind[2]].n_id[negatives].tolist()
            assert not existing & set(zip(pairs[0].tolist(), drawn, strict=True))
        else:
            ends = batch[kind].edge_label_index
            np.testing.assert_array_equal(
                batch[kind].edge_label_time, np.resize(of_links, ends.shape[1])
            )
        for end, local in zip((kind[0], kind[2]), ends, strict=True):
            links = np.resize(np.arange(len(of_links)), len(local))
            assert batch[end].batch[local].tolist() == links.tolist()


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize(
    ("seeds", "excluded", "directions"),  # of unwanted edges, by type
    [(RATES, True, {RATES: [1], LIKED: [-1]}), (KNOWS, True, {KNOWS: [1, -1]}), (KNOWS, False, {})],
)
def test_batches_without_seed_edges(ds, seeds, excluded, directions, disjoint):
    edges = ds[seeds].edge_index[:, :128]
    options = {"disjoint": disjoint, "seed": 3, "neg_sampling": "binary"}
    whole = batches_of(ds, (seeds, edges), **options)
    others = batches_of(ds, (seeds, edges), exclude_seed_edges=excluded, **options)
    gone = 0
    for i, (full, batch) in enumerate(zip(whole, others, strict=True)):
        pairs = edges[:, 64 * i : 64 * i + 64].T.tolist()
        for kind in ds.edge_types:
            before, after = full[kind], batch[kind]
            unwanted = {tuple(pair[::step]) for pair in pairs for step in directions.get(kind, [])}
            ends = np.stack(ends_of(full, kind, *before.edge_index)).T.tolist()
            keep = torch.tensor([tuple(pair) not in unwanted for pair in ends])
            gone += int((~keep).sum())
            assert torch.equal(after.edge_index, before.edge_index[:, keep])
            assert torch.equal(after.e_id, before.e_id[keep])
            hops = keep.split(before.num_sampled_edges)
            assert after.num_sampled_edges == [int(hop.sum()) for hop in hops]
    assert gone > 20 or not directions


def test_excluded_types_are_checked(ds):
    for excluded, message in ("rates", "a list of edge types"), ([KNOWS], "not between the nodes"):
        with pytest.raises(ValueError, match=message):
            batches_of(ds, RATES, exclude_seed_edges=excluded)
