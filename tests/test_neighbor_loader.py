"""`gz.NeighborLoader`: the batches of the open form, epochs, workers, seeds, kinds of sampling."""

from __future__ import annotations

import gc
import inspect
import multiprocessing
import threading
import weakref

import files
import numpy as np
import pytest
from ready_loaders import (
    OPTIONS,
    WORKERS,
    all_same,
    double,
    loader_of,
    open_form,
    reference,
    same,
)

import graphzero as gz

torch = pytest.importorskip("torch")

# The C code that these loaders reach is sanitized by the tests of their open form.
pytestmark = pytest.mark.no_asan


@pytest.fixture
def ds(dataset):
    with gz.open(dataset[0]) as opened:
        yield opened


def number_and_x(batch):
    return batch.batch_size, batch.x


class Doubling(gz.NeighborLoader):
    @staticmethod
    def _make_output(batch, dataset):
        return {"x": batch.x * 2}


@pytest.mark.parametrize(("workers", "persistent"), WORKERS)
def test_passes_are_those_of_the_open_form(ds, workers, persistent):
    loader = loader_of(ds, workers=workers, shuffle=True, persistent_workers=persistent)
    source = reference(ds, shuffle=True)
    for epoch in range(3):
        assert loader.epoch == epoch
        assert all_same(loader, open_form(source, epoch))


@pytest.mark.extended
@pytest.mark.parametrize("order", ["hot"], indirect=True)
@pytest.mark.parametrize("persistent", [False, True])
def test_spawned_workers(ds, persistent):
    loader = loader_of(
        ds, workers=2, method="spawn", shuffle=True, persistent_workers=persistent, transform=double
    )
    source = reference(ds, shuffle=True)
    for epoch in range(2):
        assert all_same(loader, map(double, open_form(source, epoch)))


def test_lengths_and_attributes(ds):
    loader = loader_of(ds, drop_last=True)
    assert isinstance(loader, torch.utils.data.DataLoader)
    assert (len(loader), len(loader.dataset)) == (10, 203)
    assert (loader.batch_size, loader.drop_last) == (20, True)
    assert len(list(loader)) == 10
    parameters = set(inspect.signature(gz.NeighborLoader).parameters) - {"other"}
    assert not {name for name in parameters if not hasattr(loader, name)}


@pytest.mark.parametrize(("workers", "persistent"), WORKERS)
def test_a_pass_that_is_left_counts_as_an_epoch(ds, workers, persistent):
    loader = loader_of(ds, workers=workers, shuffle=True, persistent_workers=persistent)
    for _ in loader:
        break
    assert all_same(loader, open_form(reference(ds, shuffle=True), 1))
    loader.set_epoch(7)
    assert all_same(loader, open_form(reference(ds, shuffle=True), 7))
    assert all_same(loader, open_form(reference(ds, shuffle=True), 8))


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
    second = iter(loader)  # at once: the workers may not have begun the first pass
    third = iter(loader)
    with pytest.raises(RuntimeError, match="persistent_workers=False"):
        next(first)
    with pytest.raises(RuntimeError, match="persistent_workers=False"):
        next(second)
    assert all_same(third, open_form(reference(ds, shuffle=True), 2))


def test_iterations_leave_no_threads(ds):
    loader = loader_of(ds)
    before = threading.active_count()
    held = iter(loader)
    next(held)
    assert threading.active_count() > before
    for _ in range(10):
        next(held)
    assert threading.active_count() == before  # after the last batch, before the loop asks again
    assert next(held, None) is None
    left = iter(loader)
    next(left)
    del left
    assert threading.active_count() == before


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


@pytest.mark.extended
@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_of_the_transform_reaches_the_loop(ds, workers):
    def fails(batch):
        if 7 in batch.input_id:
            raise KeyError("no such thing")
        return batch

    loader = loader_of(ds, workers=workers, transform=fails)
    with pytest.raises(KeyError, match="no such thing"):
        list(loader)
    loader.transform = None
    assert all_same(loader, open_form(reference(ds), 1))


def test_an_error_of_sampling_ends_the_pass(ds, monkeypatch):
    loader = loader_of(ds, num_threads=1)
    monkeypatch.setattr(gz.NeighborDataset, "sample", lambda *_, **__: 1 / 0)
    iterator = iter(loader)
    with pytest.raises(ZeroDivisionError):
        next(iterator)
    with pytest.raises(RuntimeError, match="ended with an error"):
        next(iterator)
    monkeypatch.undo()
    assert all_same(loader, open_form(reference(ds), 1))


def test_seeds(ds):
    train = np.array(ds.splits["train"])
    ids = loader_of(ds, torch.from_numpy(train))
    assert all_same(ids, loader_of(ds, "train"))
    assert all_same(loader_of(ds, train.tolist()), loader_of(ds, "train"))
    everything = loader_of(ds, None)
    assert len(everything.dataset) == 500
    assert torch.cat([batch.input_id for batch in everything]).tolist() == list(range(500))
    mask = np.zeros(500, bool)
    mask[train] = True
    for given in (mask, torch.from_numpy(mask)):
        by_mask = list(loader_of(ds, given))
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
    with pytest.raises(IndexError):
        loader_of(ds, [500])


def test_one_batch_for_some_seeds(ds):
    loader = loader_of(ds, shuffle=True)
    state = loader.state_dict()
    batch = loader([4, 2, 4])
    train = ds.splits["train"]
    assert batch.n_id[:2].tolist() == train[[4, 2]].tolist()
    assert batch.input_id.tolist() == [4, 2, 4]
    assert same(batch, loader(torch.tensor([4, 2, 4])))
    assert loader.epoch == 0
    assert loader.state_dict() == state
    assert torch.equal(batch.x, torch.from_numpy(ds.features.gather(batch.n_id.numpy())))
    assert loader_of(ds, transform=number_and_x)([1])[0] == 1
    with pytest.raises(IndexError, match="index"):
        loader([203])


def test_outputs(ds):
    plain = list(loader_of(ds))
    for batch, (size, x) in zip(plain, loader_of(ds, transform=number_and_x), strict=True):
        assert size == batch.batch_size
        assert torch.equal(x, batch.x)
    made = Doubling(ds, [4, 3], "train", **OPTIONS, transform=lambda out: out["x"])
    for batch, x in zip(plain, made, strict=True):
        assert torch.equal(x, batch.x * 2)


@pytest.mark.extended
def test_parts_in_another_dataloader(ds, monkeypatch):
    """As accelerate makes one: it works in one process, and is refused in several."""
    loader = loader_of(ds)

    def other(**options):
        collate = loader.collate_fn
        return torch.utils.data.DataLoader(
            loader.dataset, **{"batch_size": None, "collate_fn": collate, **options}
        )

    assert all_same(other(), open_form(reference(ds), 0))
    with pytest.raises(RuntimeError, match="distributed=True"):
        next(iter(other(batch_size=20)))
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group=None: 2)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda group=None: 0)
    for workers in (0, 1):
        with pytest.raises(RuntimeError, match="keep it out of what the library prepares"):
            next(iter(other(num_workers=workers)))
    monkeypatch.undo()
    loader.set_epoch(1)
    assert all_same(loader, open_form(reference(ds), 1))


def test_weighted_seeds(ds):
    weights = np.zeros(203)
    weights[[3, 200]] = 1, 3
    loader = loader_of(ds, seed_weights=torch.from_numpy(weights))
    passes = [torch.cat([batch.input_id for batch in loader]) for _ in range(2)]
    assert not torch.equal(*passes)
    for drawn in passes:
        assert drawn.shape == (203,)
        assert set(drawn.tolist()) == {3, 200}
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
        with pytest.raises(ValueError, match="needs labels"):
            gz.NeighborLoader(plain, [1], seed_weights="balanced")


def test_times_and_weights(tmp_path):
    edges = files.random_edges(50, 900)
    rng = np.random.default_rng(0)
    gz.build(
        tmp_path / "d",
        np.asarray(edges).T,
        num_nodes=50,
        weight=rng.random(900),
        timestamp=rng.integers(0, 100, 900),
    ).close()
    with gz.open(tmp_path / "d") as ds:
        times = np.arange(50)
        timed = gz.NeighborLoader(
            ds,
            [5, 5],
            input_time=torch.from_numpy(times),
            time_attr="time",
            temporal_strategy="last",
            seed=1,
            batch_size=7,
        )
        source = gz.NeighborDataset(
            ds, None, [5, 5], input_time=times, temporal_strategy="last", seed=1, batch_size=7
        )
        assert all_same(timed, open_form(source))
        weighted = gz.NeighborLoader(ds, [5], weight_attr="edge_weight", seed=1, batch_size=7)
        source = gz.NeighborDataset(ds, None, [5], weighted=True, seed=1, batch_size=7)
        assert all_same(weighted, open_form(source))
        with pytest.raises(ValueError, match="give input_time"):
            gz.NeighborLoader(ds, [5], time_attr="time")
        for name in ("time_attr", "weight_attr"):
            with pytest.raises(ValueError, match=r"Unknown .* 'year'"):
                gz.NeighborLoader(ds, [5], **{name: "year"})


def test_kinds_of_sampling(ds):
    for options in (
        {"replace": True},
        {"disjoint": True},
        {"labor": True},
        {"subgraph_type": "induced"},
        {"batch_dependency": 2},
    ):
        assert all_same(loader_of(ds, **options), open_form(reference(ds, **options)))
    induced = open_form(reference(ds, subgraph_type="induced"))
    assert all_same(loader_of(ds, directed=False), induced)
    assert all_same(loader_of(ds, feature_dtype="float32", num_threads=1), open_form(reference(ds)))
    with pytest.raises(ValueError, match="bidirectional"):
        loader_of(ds, subgraph_type="bidirectional")
    with pytest.raises(ValueError, match=r"weights|weight="):
        loader_of(ds, weight_attr="edge_weight")
