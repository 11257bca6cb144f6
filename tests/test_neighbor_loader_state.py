"""`gz.NeighborLoader`: states, seeds that are drawn, ranks, copies."""

from __future__ import annotations

import copy
import pickle

import pytest
from ready_loaders import WORKERS, all_same, loader_of, open_form, reference

import graphzero as gz

torch = pytest.importorskip("torch")

# The C code that these loaders reach is sanitized by the tests of their open form.
pytestmark = pytest.mark.no_asan


@pytest.fixture
def ds(dataset):
    with gz.open(dataset[0]) as opened:
        yield opened


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
    loader = loader_of(ds, shuffle=True)
    list(loader)
    state = loader.state_dict()
    assert (state["epoch"], state["batches"]) == (1, 0)
    resumed = loader_of(ds, shuffle=True)
    resumed.load_state_dict(state)
    assert all_same(resumed, open_form(reference(ds, shuffle=True), 1))
    source = reference(ds, shuffle=True)
    list(source)
    resumed.load_state_dict(source.state_after(11))  # which says that nothing of it is left
    assert all_same(resumed, open_form(reference(ds, shuffle=True), 1))


def test_a_resumed_pass_is_resumed_again(ds):
    loader = loader_of(ds, shuffle=True)
    for _ in range(2):
        iterator = iter(loader)
        for _ in range(3):
            next(iterator)
        state = loader.state_dict()
        loader = loader_of(ds, shuffle=True)
        loader.load_state_dict(state)
    assert all_same(loader, open_form(reference(ds, shuffle=True), 0)[6:])


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
    generators = [torch.Generator().manual_seed(4) for _ in range(2)]
    first, second = (loader_of(ds, seed=None, generator=each) for each in generators)
    assert first.seed == second.seed
    assert loader_of(ds, seed=0, generator=generators[0]).seed == 0
    for ranks in ({"distributed": True}, {"rank": 0, "world_size": 2}):
        with pytest.raises(ValueError, match="same seed="):
            loader_of(ds, seed=None, **ranks)
    assert loader_of(ds, seed=None, distributed=False).seed >= 0


@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_share_an_epoch(ds, workers):
    shares = [
        list(loader_of(ds, workers=workers, rank=rank, world_size=2, even=False, shuffle=True))
        for rank in (0, 1)
    ]
    assert [len(share) for share in shares] == [6, 5]
    whole = open_form(reference(ds, shuffle=True))
    assert all_same(shares[0], whole[::2])
    assert all_same(shares[1], whole[1::2])
    loader = loader_of(ds, rank=1, world_size=2, shuffle=True)
    assert len(loader) == 6
    batches = list(loader)
    assert all_same(batches, [*whole[1::2], whole[0]])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_state_of_ranks_is_resumed_by_others(ds, workers):
    loader = loader_of(ds, rank=0, world_size=2, shuffle=True, workers=workers)
    iterator = iter(loader)
    next(iterator), next(iterator)
    resumed = loader_of(ds, shuffle=True)
    resumed.load_state_dict(loader.state_dict())
    assert all_same(resumed, open_form(reference(ds, shuffle=True))[4:])


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
@pytest.mark.parametrize(("workers", "persistent"), WORKERS)
def test_copies_count_for_themselves(ds, way, workers, persistent):
    loader = loader_of(
        ds,
        workers=workers,
        shuffle=True,
        persistent_workers=persistent,
        generator=torch.Generator(),
    )
    list(loader)
    next(iter(loader))
    copied = way(loader)
    source = reference(ds, shuffle=True)
    assert all_same(copied, open_form(source, 2))
    assert copied.epoch == 3
    assert loader.epoch == 2
    assert all_same(loader, open_form(source, 2))
    assert (len(copied), copied.batch_size, len(copied.dataset)) == (11, 20, 203)
