"""`WalkDataset` and `WalkLoader`: windows of random walks, and their negatives."""

from __future__ import annotations

import importlib.util
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import graphzero as gz

NODES, LENGTH, CONTEXT, WALKS = 60, 8, 3, 2
WINDOWS = LENGTH - CONTEXT + 1
OPTIONS = {"walk_length": LENGTH, "context_size": CONTEXT, "walks_per_node": WALKS, "seed": 3}
EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "node2vec.py"


@pytest.fixture(scope="module")
def edges():
    """Without outgoing edges of the last five nodes, and none at all of the first two."""
    rng = np.random.default_rng(1)
    return np.stack([rng.integers(2, NODES - 5, 300), rng.integers(2, NODES, 300)])


@pytest.fixture(scope="module", params=["hot", "input"])
def ds(request, edges, tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    options = {"num_nodes": NODES, "order": request.param, "progress": False}
    weights = (edges.sum(0) % 3).astype(np.float32)
    gz.build(folder, edges=edges, weight=weights, neighbors="both", **options)
    with gz.open(folder) as found:
        yield found


def batches_of(dataset, **options):
    return list(
        DataLoader(dataset, batch_size=None, collate_fn=gz.Collate(dataset.dataset), **options)
    )


def same(one, other):
    return len(one) == len(other) and all(
        torch.equal(a.pos_rw, b.pos_rw) and torch.equal(a.neg_rw, b.neg_rw)
        for a, b in zip(one, other, strict=True)
    )


def test_windows_are_those_of_walks_along_the_edges(ds, edges):
    known = set(map(tuple, edges.T.tolist()))
    sources = set(edges[0].tolist())
    seen = []
    for batch in batches_of(gz.WalkDataset(ds, batch_size=25, shuffle=True, **OPTIONS)):
        assert batch.pos_rw.shape == batch.neg_rw.shape == (batch.batch_size * WALKS * WINDOWS, 3)
        windows = batch.pos_rw.reshape(-1, WALKS, WINDOWS, CONTEXT)
        assert torch.equal(windows[:, :, 1:, :-1], windows[:, :, :-1, 1:])  # they overlap
        starts = windows[:, :, 0, 0]
        assert torch.equal(starts, batch.n_id[:, None].expand(-1, WALKS))
        for one, other in {pair for row in batch.pos_rw.tolist() for pair in pairwise(row)}:
            assert (one, other) in known if one in sources else one == other  # else a dead end
        seen += batch.n_id.tolist()
    assert sorted(seen) == list(range(NODES))
    assert seen != sorted(seen)


@pytest.mark.parametrize("how", [{}, {"p": 0.25, "q": 4.0}, {"weighted": True}])
def test_walks_are_those_of_the_graph(ds, how):
    """In one mini-batch of epoch 0, the draws are those of `Graph.random_walk`."""
    seeds = [40, 7, 7, 59]
    walks = gz.WalkDataset(ds, seeds, walk_length=LENGTH, walks_per_node=WALKS, seed=3, **how)
    [batch] = batches_of(walks)
    wanted = ds.graph.random_walk(seeds, LENGTH - 1, walks_per_node=WALKS, seed=3, **how)
    found = batch.pos_rw.numpy()
    ended = wanted < 0
    assert np.array_equal(found[~ended], wanted[~ended])
    assert np.array_equal(found[ended], found[:, :-1][ended[:, 1:]])
    assert ended.any()


@pytest.mark.parametrize("count", [0, 1, 9, 700, 3000])
@pytest.mark.parametrize("how", [{}, {"p": 0.25, "q": 4.0}, {"restart": 0.1}])
def test_more_threads_than_processors_draw_the_same_walks(ds, count, how):
    starts = np.arange(count) % NODES
    one, *others = (
        ds.graph.random_walk(starts, 5, num_threads=threads, **how) for threads in (1, 3, 64)
    )
    assert one.shape == (count, 6)
    assert np.array_equal(one[:, 0], starts)
    assert all(np.array_equal(one, other) for other in others)


def test_negatives_are_uniform_after_the_start(ds):
    walks = gz.WalkDataset(
        ds, walk_length=50, walks_per_node=20, num_negative_samples=2, batch_size=NODES
    )
    [batch] = batches_of(walks)
    assert batch.neg_rw.shape == (NODES * 20 * 2, 50)
    assert torch.equal(batch.neg_rw[:, 0], batch.n_id.repeat_interleave(40))
    counts = np.bincount(batch.neg_rw[:, 1:].reshape(-1), minlength=NODES)
    expected = counts.sum() / NODES
    assert len(counts) == NODES
    assert abs(counts - expected).max() < 6 * np.sqrt(expected)


def test_epochs_differ_and_workers_and_ranks_share_them(ds):
    walks = gz.WalkDataset(ds, batch_size=7, shuffle=True, **OPTIONS)
    first, second = batches_of(walks), batches_of(walks)
    assert not same(first, second)
    walks.set_epoch(0)
    assert same(batches_of(walks, num_workers=2), first)
    by_rank = []
    for rank in range(2):
        part = gz.WalkDataset(ds, batch_size=7, shuffle=True, rank=rank, world_size=2, **OPTIONS)
        by_rank.append(batches_of(part))
    dealt = [batch for pair in zip(*by_rank, strict=True) for batch in pair]
    assert same(dealt[: len(first)], first)
    walks.set_epoch(0)
    other = gz.WalkDataset(ds, batch_size=7, shuffle=True, **{**OPTIONS, "p": 0.5})
    with pytest.raises(ValueError, match=r"\bp\b"):  # states know how walks are drawn
        other.resume(walks.state_after(2))


@pytest.mark.parametrize("workers", [0, 2])
def test_loader_yields_pairs_as_pyg(ds, workers):
    loader = gz.WalkLoader(ds, batch_size=7, shuffle=True, num_workers=workers, **OPTIONS)
    found = list(loader)
    assert len(found) == len(loader) == 9
    assert all(isinstance(pair, tuple) and len(pair) == 2 for pair in found)
    assert same(found, batches_of(gz.WalkDataset(ds, batch_size=7, shuffle=True, **OPTIONS)))
    assert not same(list(loader), found)  # a pass of its own
    assert found[0].stats.num_seeds == 7


def test_seeds_and_transform(ds):
    mask = torch.zeros(NODES, dtype=torch.bool)
    mask[10:20] = True
    loader = gz.WalkLoader(ds, mask, walk_length=4, transform=lambda pair: pair.pos_rw[:, 0])
    assert torch.cat(list(loader)).tolist() == list(range(10, 20))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"walk_length": 1}, "walk_length"),
        ({"context_size": 9}, "context_size=9 is more than walk_length=8"),
        ({"p": 0}, "p must be a positive number"),
        ({"q": float("nan")}, "q must be a positive number"),
        ({"walks_per_node": 0}, "walks_per_node"),
        ({"seeds": [NODES]}, "out of range"),
        ({"fanouts": [2]}, "no argument 'fanouts'"),
        ({"walks_per_node": 10**12}, "memory"),
    ],
)
def test_refused_arguments(ds, wrong, message):
    kinds = (ValueError, TypeError, IndexError, MemoryError)
    with pytest.raises(kinds, match=message):
        batches_of(gz.WalkDataset(ds, **{**OPTIONS, **wrong}))


def test_loader_needs_walk_length_and_negatives(ds):
    with pytest.raises(TypeError, match="walk_length is missing"):
        gz.WalkLoader(ds)
    with pytest.raises(ValueError, match="num_negative_samples"):
        gz.WalkLoader(ds, walk_length=4, num_negative_samples=0)
    with pytest.raises(TypeError, match="num_neighbors"):
        gz.WalkLoader(ds, walk_length=4, num_neighbors=[2])


def test_graphs_without_out_neighbours_types_or_weights_are_refused(edges, tmp_path):
    def built(name, edges, **options):
        return gz.build(tmp_path / name, edges=edges, progress=False, **options)

    typed = {("user", "to", "user"): edges}
    both = np.concatenate([edges, edges[::-1]], axis=1)
    with (
        built("in", edges, num_nodes=NODES) as no_out,
        built("out", edges, num_nodes=NODES, neighbors="out") as out,
        built("typed", typed, nodes={"user": {"num_nodes": NODES}}) as with_types,
        built("both", both, num_nodes=NODES, weight=np.ones(both.shape[1])) as symmetric,
    ):
        with pytest.raises(ValueError, match="neighbors='out' or 'both'"):
            gz.WalkDataset(no_out, walk_length=4)
        for ds in (out, symmetric):
            assert len(batches_of(gz.WalkDataset(ds, walk_length=4))) == 1
        with pytest.raises(ValueError, match="neighbors='out' or 'both'"):
            gz.WalkDataset(symmetric, walk_length=4, weighted=True)
        with pytest.raises(ValueError, match="weights"):
            gz.WalkDataset(out, walk_length=4, weighted=True)
        with pytest.raises(ValueError, match="without types"):
            gz.WalkDataset(with_types, walk_length=4)


def test_example_learns_communities_with_the_loss_of_pyg(tmp_path):
    spec = importlib.util.spec_from_file_location("node2vec_example", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 50, (2, 1500)) + 50 * rng.integers(0, 2, 1500)  # two of 50 nodes
    with gz.build(tmp_path / "data", edges=ends, directed=False, progress=False) as ds:
        table = torch.nn.Embedding(ds.num_nodes, 8).double()  # 1 - sigmoid cancels in float32
        pos, neg = next(iter(gz.WalkLoader(ds, walk_length=10, batch_size=16, seed=0)))
        loss = example.skip_gram_loss(table, pos, neg, 4)
        windows = [pair.unfold(1, 4, 1).reshape(-1, 4) for pair in (pos, neg)]
        products = [(table(w[:, :1]) * table(w[:, 1:])).sum(-1) for w in windows]
        wanted = -(products[0].sigmoid().log().mean() + (1 - products[1].sigmoid()).log().mean())
        assert torch.allclose(loss, wanted, atol=1e-5)
        found = example.embed(ds, dim=8, context=4, epochs=5, walk_length=10, walks_per_node=5)
    found = torch.nn.functional.normalize(found - found.mean(0))
    near = (found @ found.T).numpy()
    own = np.arange(100)[:, None] // 50 == np.arange(100) // 50
    assert near[own].mean() > 0.3 > near[~own].mean()
