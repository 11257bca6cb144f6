"""The ready-made loaders: batches of the open form, epochs, workers, seeds, states, links."""

from __future__ import annotations

import copy
import functools
import gc
import importlib
import multiprocessing
import pickle
import weakref

import files
import numpy as np
import pytest
from ready_loaders import OPTIONS, WORKERS, all_same, loader_of, open_form, reference, same

import graphzero as gz

torch = pytest.importorskip("torch")

# The C code that these loaders reach is sanitized by the tests of their open form.
pytestmark = pytest.mark.no_asan


def test_lengths_and_attributes(ds):
    loader = loader_of(ds, drop_last=True)
    assert isinstance(loader, torch.utils.data.DataLoader)
    found = (len(loader), len(list(loader)), len(loader.dataset))
    assert (*found, loader.batch_size, loader.drop_last) == (10, 10, 203, 20, True)
    given = gz.NeighborLoader(ds, [3, 2], np.arange(5), labor=True, even=False, num_workers=2)
    for loader in (given, copy.copy(given), pickle.loads(pickle.dumps(given))):
        assert (loader.num_neighbors, loader.input_nodes.tolist()) == ([3, 2], [0, 1, 2, 3, 4])
        found = (loader.labor, loader.even, loader.replace, loader.subgraph_type, loader.rank)
        assert found == (True, False, False, "directional", None)
        assert not hasattr(loader, "fanouts")


def test_batches_are_made_before_the_loop_takes_them(ds):
    with torch.inference_mode():  # of this thread
        batches = list(loader_of(ds))
    assert all_same(batches, loader_of(ds))
    assert not any(batch.x.is_inference() for batch in batches)


def test_a_pass_takes_as_many_random_numbers_as_any_dataloader(ds):
    found = []
    for loader in (loader_of(ds), torch.utils.data.DataLoader(reference(ds), batch_size=None)):
        torch.manual_seed(3)
        assert len(list(loader)) > 0
        found.append(torch.rand(4))
    assert torch.equal(*found)


def test_an_error_of_a_batch_that_is_made_comes_in_its_place(ds, monkeypatch):
    loader = loader_of(ds)

    def fail(collate, sampled):
        if sampled.input_id[0] > 0:
            raise ArithmeticError("not of the first one")
        return make(collate, sampled)

    with monkeypatch.context() as patched:
        make = gz.Collate.__call__
        patched.setattr(gz.Collate, "__call__", fail)
        batches = iter(loader)
        next(batches)
        with pytest.raises(ArithmeticError, match="not of the first one"):
            next(batches)
    assert all_same(loader, open_form(reference(ds), 1))


@pytest.mark.parametrize(("workers", "persistent"), WORKERS)
def test_passes_are_those_of_the_open_form(ds, workers, persistent):
    loader = loader_of(ds, workers=workers, shuffle=True, persistent_workers=persistent)
    source = reference(ds, shuffle=True)
    assert all_same(loader, open_form(source, 0))
    for _ in loader:
        break
    assert loader.epoch == 2  # a pass that is left counts as an epoch
    assert all_same(loader, open_form(source, 2))
    loader.set_epoch(7)
    assert all_same(loader, open_form(source, 7))
    assert all_same(loader, open_form(source, 8))


@pytest.mark.parametrize("workers", [0, 2])
def test_two_live_iterators_have_the_epochs_in_which_they_began(ds, workers):
    loader = loader_of(ds, workers=workers, shuffle=True)
    first, second = iter(loader), iter(loader)
    batches = [[], []]
    batches[1].append(next(second))  # decided by iter, not by the first next
    for one, other in zip(first, second, strict=False):
        batches[0].append(one)
        batches[1].append(other)
    source = reference(ds, shuffle=True)
    assert all_same(batches[0][:10], open_form(source, 0)[:10])
    assert all_same(batches[1], open_form(source, 1))


def test_persistent_workers_serve_one_pass_at_a_time(ds):
    loader = loader_of(ds, workers=2, shuffle=True, persistent_workers=True)
    first = iter(loader)
    next(first)
    second = iter(loader)
    third = iter(loader)  # at once: the workers may not have begun the second pass
    for ended in (first, second):
        with pytest.raises(RuntimeError, match="persistent_workers=False"):
            next(ended)
    assert all_same(third, open_form(reference(ds, shuffle=True), 2))


def test_a_loader_that_is_dropped_is_gone(ds):
    gc.collect()
    gc.disable()
    try:
        loader = loader_of(ds, workers=2, persistent_workers=True)
        list(loader)
        alive, workers = weakref.ref(loader), multiprocessing.active_children()
        assert len(workers) == 2
        del loader
        assert alive() is None
        assert not multiprocessing.active_children()
    finally:
        gc.enable()


def test_an_error_of_sampling_ends_the_pass(ds, monkeypatch):
    loader = loader_of(ds, num_threads=1)
    monkeypatch.setattr(gz.NeighborDataset, "seeds_of", lambda *_: 1 / 0)
    iterator = iter(loader)
    with pytest.raises(ZeroDivisionError):
        next(iterator)
    with pytest.raises(RuntimeError, match="ended with an error"):
        next(iterator)
    monkeypatch.undo()
    assert all_same(loader, open_form(reference(ds), 1))


def test_seeds(ds):
    train = np.array(ds.splits["train"])
    assert all_same(loader_of(ds, torch.from_numpy(train)), loader_of(ds, "train"))
    everything = loader_of(ds, None)
    assert torch.cat([batch.input_id for batch in everything]).tolist() == list(range(500))
    mask = np.zeros(500, bool)
    mask[train] = True
    by_mask = list(loader_of(ds, torch.from_numpy(mask)))
    assert torch.cat([b.input_id for b in by_mask]).tolist() == sorted(train)
    for batch in by_mask:
        assert torch.equal(batch.input_id, batch.n_id[: batch.batch_size])
    named = torch.arange(203) + 1000
    assert torch.equal(torch.cat([b.input_id for b in loader_of(ds, input_id=named)]), named)
    assert list(loader_of(ds, np.empty(0, np.int64))) == []
    assert gz.NeighborDataset(ds, "train").seeds.tolist() == train.tolist()  # the open form too
    with pytest.raises(ValueError, match=r"no split of the dataset.*'train', 'val'"):
        loader_of(ds, "test")
    with pytest.raises(TypeError, match="node type"):
        loader_of(ds, ("paper", train))
    with pytest.raises(ValueError, match="input_id"):
        loader_of(ds, input_id=named[1:])


def test_one_batch_for_some_seeds(ds):
    loader = loader_of(ds, shuffle=True)
    state = loader.state_dict()
    batch = loader([4, 2, 4])
    assert batch.n_id[:2].tolist() == ds.splits["train"][[4, 2]].tolist()
    assert batch.input_id.tolist() == [4, 2, 4]
    assert same(batch, loader(torch.tensor([4, 2, 4])))
    assert loader.state_dict() == state
    assert torch.equal(batch.x, torch.from_numpy(ds.features.gather(batch.n_id.numpy())))
    assert loader_of(ds, transform=lambda batch: batch.batch_size)([1]) == 1
    with pytest.raises(IndexError, match="index"):
        loader([203])


def test_weighted_seeds(ds):
    weights = np.zeros(203)
    weights[[3, 200]] = 1, 3
    loader = loader_of(ds, seed_weights=torch.from_numpy(weights))
    passes = [torch.cat([batch.input_id for batch in loader]) for _ in range(2)]
    assert not torch.equal(*passes)
    for drawn in passes:
        assert (drawn.shape, set(drawn.tolist())) == ((203,), {3, 200})
        assert 0.6 < (drawn == 200).float().mean() < 0.9
    loader.set_epoch(0)
    assert torch.equal(torch.cat([batch.input_id for batch in loader]), passes[0])
    state = loader.state_dict()
    with pytest.raises(ValueError, match="seed_weights"):
        loader_of(ds).load_state_dict(state)
    for wrong in (weights[1:], -weights, weights * 0, weights * np.nan, "classes"):
        with pytest.raises(ValueError, match="seed_weights"):
            loader_of(ds, seed_weights=wrong)


def test_balanced_seeds(tmp_path):
    labels = np.array([0] * 900 + [1] * 90 + [-1] * 10)
    files.write_dataset(tmp_path / "d", files.random_edges(1000, 3000), 1000, labels=labels)
    with gz.open(tmp_path / "d") as ds:
        loader = gz.NeighborLoader(ds, [1], seed=0, seed_weights="balanced", batch_size=100)
        drawn = labels[torch.cat([batch.input_id for batch in loader]).numpy()]
        assert set(drawn) == {0, 1}
        assert abs((drawn == 1).mean() - 0.5) < 0.08  # five standard deviations
        plain = gz.Dataset(ds.graph)
        with pytest.raises(ValueError, match="where there are labels"):
            gz.NeighborLoader(plain, [1], seed_weights="balanced")


def test_subgraph_types(ds):
    induced = open_form(reference(ds, subgraph_type="induced"))
    assert all_same(loader_of(ds, directed=False), induced)
    with pytest.raises(ValueError, match="bidirectional"):
        loader_of(ds, subgraph_type="bidirectional")


# --- states, seeds that are drawn, copies


@pytest.mark.parametrize(("workers", "persistent"), WORKERS)
@pytest.mark.parametrize("taken", [0, 1, 4])
def test_a_state_counts_what_the_loop_was_given(ds, workers, persistent, taken):
    loader = loader_of(ds, workers=workers, shuffle=True, persistent_workers=persistent)
    list(loader)
    iterator = iter(loader)
    for _ in range(taken):
        next(iterator)
    state = loader.state_dict()
    resumed = loader_of(ds, shuffle=True, workers=2 - workers)
    resumed.load_state_dict(state)
    assert resumed.state_dict() == state
    source = reference(ds, shuffle=True)
    assert all_same(resumed, open_form(source, 1)[taken:])
    assert all_same(resumed, open_form(source, 2))
    loader.load_state_dict(state)  # into the loader itself, whose pass still runs
    assert all_same(loader, open_form(source, 1)[taken:])


def test_a_state_at_the_end_of_an_epoch_is_the_beginning_of_the_next(ds):
    loader, source = loader_of(ds, shuffle=True), reference(ds, shuffle=True)
    list(loader)
    list(source)
    state = loader.state_dict()
    assert (state["epoch"], state["batches"]) == (1, 0)
    for ended in (state, source.state_after(11)):  # which says that nothing of it is left
        resumed = loader_of(ds, shuffle=True)
        resumed.load_state_dict(ended)
        assert all_same(resumed, open_form(reference(ds, shuffle=True), 1))


def test_a_drawn_seed_becomes_that_of_the_state(ds):
    loader = loader_of(ds, shuffle=True, seed=None)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    resumed = loader_of(ds, shuffle=True, seed=None, workers=2, persistent_workers=True)
    list(resumed)
    assert resumed.seed != loader.seed
    resumed.load_state_dict(state)
    assert resumed.seed == loader.seed
    assert all_same(resumed, iterator)
    fixed = loader_of(ds, shuffle=True)
    with pytest.raises(ValueError, match="seed"):
        fixed.load_state_dict(state)
    other = loader_of(ds, shuffle=True, seed=None, replace=True)
    before = other.seed
    with pytest.raises(ValueError, match="replace"):
        other.load_state_dict(state)
    assert other.seed == before


def test_the_seed_is_drawn_when_the_loader_is_made(ds):
    torch.manual_seed(3)
    one, other = (loader_of(ds, seed=None, shuffle=True) for _ in range(2))
    torch.manual_seed(3)
    again = loader_of(ds, seed=None, shuffle=True)
    assert one.seed == again.seed != other.seed
    assert all_same(one, again)
    generator = torch.Generator().manual_seed(4)
    first, second = (loader_of(ds, seed=None, generator=generator) for _ in range(2))
    assert first.seed == loader_of(ds, seed=None, generator=generator.manual_seed(4)).seed
    assert first.seed != second.seed
    for ranks in ({"distributed": True}, {"rank": 0, "world_size": 2}):
        with pytest.raises(ValueError, match="same seed="):
            loader_of(ds, seed=None, **ranks)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
@pytest.mark.parametrize(("workers", "persistent"), WORKERS)
def test_copies_count_for_themselves(ds, way, workers, persistent):
    how = {"persistent_workers": persistent, "generator": torch.Generator()}
    loader = loader_of(ds, workers=workers, shuffle=True, **how)
    list(loader)
    next(iter(loader))
    copied = way(loader)
    source = reference(ds, shuffle=True)
    for one in (copied, loader):
        assert one.epoch == 2
        assert all_same(one, open_form(source, 2))
    assert (len(copied), copied.batch_size, len(copied.dataset)) == (11, 20, 203)


# --- links


@pytest.fixture
def edges():
    return np.asarray(files.random_edges(500, 6000, seed=2)).T[:, :100]


def links_of(ds, edges, **options):
    return gz.LinkNeighborLoader(ds, [4, 3], edges, **{**OPTIONS, **options})


def links_source(ds, edges, **options):
    return gz.LinkNeighborDataset(ds, edges, [4, 3], **{**OPTIONS, **options})


def test_ways_to_say_which_negatives(ds, edges):
    binary = open_form(links_source(ds, edges, neg_sampling="binary", amount=2.5))
    for way in (
        {"neg_sampling": ("binary", 2.5)},
        {"neg_sampling": {"mode": "binary", "amount": 2.5}},
        {"neg_sampling_ratio": 2.5},
    ):
        assert all_same(links_of(ds, edges, **way), binary)
    plain = open_form(links_source(ds, edges))
    assert all_same(links_of(ds, edges, neg_sampling_ratio=0.0), plain)
    for wrong in ("trinary", {"amount": 1}, {"mode": "binary", "ratio": 1}, 0.5):
        with pytest.raises(ValueError, match="neg_sampling"):
            links_of(ds, edges, neg_sampling=wrong)
    with pytest.raises(ValueError, match="not both"):
        links_of(ds, edges, neg_sampling="binary", neg_sampling_ratio=1.0)


def test_labels_and_ids(ds, edges):
    how = {"edge_label": torch.arange(100) % 3, "neg_sampling": "binary"}
    loader = links_of(ds, tuple(torch.from_numpy(edges)), input_id=np.arange(100) * 2, **how)
    for batch, other in zip(loader, open_form(links_source(ds, edges, **how)), strict=True):
        assert torch.equal(batch.edge_label, other.edge_label)
        assert torch.equal(batch.input_id, other.input_id * 2)
    assert same(loader([0, 5]), loader(np.array([0, 5])))
    with pytest.raises(ValueError, match="edge_label"):
        links_of(ds, edges, seed_weights="balanced")
    for wrong in ((("paper", "cites", "paper"), edges), ("paper", "cites", "paper")):
        with pytest.raises(TypeError, match="edge type"):
            links_of(ds, wrong)


@pytest.mark.parametrize(("neighbors", "ids"), [("in", True), ("out", False), ("both", True)])
@pytest.mark.parametrize("directed", [True, False])
def test_all_edges_by_default(tmp_path, neighbors, ids, directed):
    edges = np.asarray(files.random_edges(40, 300)).T
    how = {"neighbors": neighbors, "edge_ids": ids, "directed": directed}
    with gz.build(tmp_path / "d", edges, num_nodes=40, **how) as ds:
        seeds = gz.LinkNeighborLoader(ds, [2])._source.edge_label_index
        if directed and ids:
            assert np.array_equal(seeds, edges)  # in the order of the edge list
        reverse = edges[::-1][:, (edges[0] != edges[1]) & (not directed)]
        expected = np.hstack([edges, reverse])
        assert sorted(map(tuple, seeds.T)) == sorted(map(tuple, expected.T))


def of_pyg():
    pytest.importorskip("torch_geometric")
    return importlib.import_module("graphzero.pyg").LinkNeighborLoader


@pytest.mark.parametrize("loader", [lambda: gz.LinkNeighborLoader, of_pyg])
@pytest.mark.parametrize("name", ["edge_label", "edge_label_time", "seed_weights", "input_id"])
@pytest.mark.parametrize(
    ("how", "way_out"),
    [
        ({}, r"edge_label_index=\(2, n\), or build .* edge_ids=True.* order of ds\.edge_index"),
        ({"is_typed": True}, r"edge_ids=True.* order of \(kind, ds\[kind\].edge_index\)"),
        ({"edge_ids": True, "directed": False}, "both directions .* ds\\.edge_index"),
        ({"edge_ids": True}, None),
        ({"edge_ids": True, "is_typed": True}, None),
    ],
)
def test_values_of_all_edges_need_their_order(tmp_path, loader, name, how, way_out):
    edges = {"edge_index": np.array([[3, 0, 2], [1, 2, 0]]), "edge_time": [7, 8, 9]}
    nodes, kind, how = {"num_nodes": 4}, None, {**how}
    if how.pop("is_typed", False):
        kind = ("n", "to", "n")
        edges, nodes = {kind: edges}, {"nodes": {"n": nodes}}
    with gz.build(tmp_path, edges, **nodes, **how) as ds:
        count, index = ds.num_edges, (ds[kind] if kind else ds).edge_index
        make = functools.partial(loader(), ds, [1])
        explicit = (kind, index) if kind else index
        make(edge_label_index=explicit, **{name: np.arange(1, count + 1)})
        make(edge_label_index=kind, **{name: torch.ones(count, dtype=torch.int64)})
        if way_out is None:
            source = make(edge_label_index=kind, **{name: torch.arange(1, count + 1)})._source
            assert source.edge_label_index.tolist() == [[3, 0, 2], [1, 2, 0]]
        else:
            with pytest.raises(ValueError, match=f"{name} has a value for each edge.*{way_out}"):
                make(edge_label_index=kind, **{name: torch.arange(1, count + 1)})


@pytest.mark.parametrize("directed", [True, False])
def test_edge_splits(tmp_path, directed):
    edges = np.asarray(files.random_edges(40, 300)).T
    positions = np.array([250, 3, 17])
    given = {"edges": {"edge_index": edges}, "edge_splits": {"test": positions}}
    with gz.build(tmp_path / "d", **given, num_nodes=40, directed=directed, order="hot") as ds:
        seeds = gz.LinkNeighborLoader(ds, [2], "test")._source.edge_label_index
        if directed:
            assert np.array_equal(seeds, edges[:, positions])
        assert np.array_equal(np.sort(seeds, axis=0), np.sort(edges[:, positions], axis=0))
        with pytest.raises(ValueError, match=r"no split of the edges of the dataset.*\['test'\]"):
            gz.LinkNeighborLoader(ds, [2], "train")
