"""An epoch that was broken off goes on with exactly the batches that were left."""

from __future__ import annotations

import pickle
import threading

import files
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loaders import loader_of

import graphzero as gz
from graphzero.loader.epochs import Position, read_position
from graphzero.sampling.order import Share, batch_ids

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.no_asan,  # what is tested is Python; its C code runs there in other tests
]

OPTIONS = {"fanouts": [4, 3], "batch_size": 16, "shuffle": True, "seed": 5, "num_threads": 2}


@pytest.fixture
def order():
    return "hot"


def make(folder, seeds=None, **options):
    ds = gz.open(folder)
    seeds = ds.splits["train"] if seeds is None else seeds
    return gz.NeighborDataset(ds, seeds, **{**OPTIONS, **options})


def fingerprint(batch):
    tensors = [batch.n_id, batch.edge_index, batch.e_id, batch.input_id, batch.x, batch.y]
    return b"".join(tensor.numpy().tobytes() for tensor in tensors)


def fingerprints(loader):
    return [fingerprint(batch) for batch in loader]


def taken_from(loader, count):
    iterator = iter(loader)
    return [fingerprint(next(iterator)) for _ in range(count)]


@pytest.fixture
def whole(dataset):
    """(folder, the 13 batches of epoch 2)."""
    batches = make(dataset[0])
    batches.set_epoch(2)
    return dataset[0], fingerprints(loader_of(batches))


layouts = st.tuples(st.integers(1, 4), st.integers(1, 4))


@given(count=st.integers(0, 40), data=st.data(), new=layouts)
def test_resumed_shares_partition_the_rest(count, data, new):
    """Whatever is done; with any ranks, each of whose workers take turns."""
    position = Position(3, data.draw(st.integers(0, count)))
    assert read_position(position.state({"seed": 1}), {"seed": 1}, count) == position

    ranks, workers = new
    left = []
    for rank in range(ranks):
        shares = [Share(rank, ranks, worker, workers) for worker in range(workers)]
        of_rank = [batch_ids(count, share, position.batches) for share in shares]
        turns = max(map(len, of_rank))
        in_turn = [ids[turn] for turn in range(turns) for ids in of_rank if turn < len(ids)]
        assert in_turn == list(batch_ids(count, Share(rank, ranks), position.batches))
        left += in_turn
    assert sorted(left) == list(range(position.batches, count))


@pytest.mark.parametrize("old", [0, 1, 3])
@pytest.mark.parametrize("new", [0, 1, 3])
def test_other_workers_go_on_byte_for_byte(whole, old, new):
    folder, expected = whole
    batches = make(folder, prefetch=gz.Prefetch(lookahead=4))
    batches.set_epoch(2)
    assert taken_from(loader_of(batches, old), 5) == expected[:5]
    state = pickle.loads(pickle.dumps(batches.state_after(5)))

    resumed = make(folder)
    resumed.resume(state)
    assert resumed.epoch == 2
    resumed.set_epoch(2)  # as every training loop does
    loader = loader_of(resumed, new)
    assert len(loader) == 13
    assert taken_from(loader, 3) == expected[5:8]
    again = resumed.state_after(3)
    assert again["batches"] == 8
    resumed.resume(again)
    assert fingerprints(loader) == expected[8:]


@pytest.mark.parametrize(("method", "persistent"), [("fork", False), ("spawn", True)])
def test_the_start_reaches_new_and_persistent_workers(whole, method, persistent):
    folder, expected = whole
    batches = make(folder)
    loader = loader_of(batches, 2, method=method, persistent_workers=persistent)
    batches.resume(Position(2, 7).state(batches.state_options))
    assert fingerprints(loader) == expected[7:]
    batches.set_epoch(1)  # any other epoch is whole, and so is this one after it
    assert len(fingerprints(loader)) == 13
    batches.set_epoch(2)
    assert fingerprints(loader) == expected


def test_the_iterator_counts_what_it_gave_not_what_it_prepared(whole):
    folder, expected = whole
    batches = make(folder, prefetch=gz.Prefetch(lookahead=8))
    batches.set_epoch(2)
    collate = gz.Collate(batches.dataset)
    iterator = iter(batches)
    assert iterator.state_dict()["taken"] == 0
    for _ in range(4):
        next(iterator)
    state = iterator.state_dict()
    assert (state["epoch"], state["first"], state["taken"]) == (2, 0, 4)
    list(iterator)
    assert iterator.state_dict()["taken"] == 13

    other = iter(make(folder))
    next(other)  # threads are at work: they are given up
    other.load_state_dict(state)
    assert [fingerprint(collate(batch)) for batch in other] == expected[4:]
    finished = iter(make(folder))
    finished.load_state_dict(iterator.state_dict())
    assert list(finished) == []
    assert not any(t.name.startswith("graphzero") for t in threading.enumerate())


CHANGES = {
    "seed": {"seed": 6},
    "batch_size": {"batch_size": 17},
    "shuffle": {"shuffle": False},
    "drop_last": {"drop_last": True},
    "fanouts": {"fanouts": [4, 2]},
    "replace": {"replace": True},
    "num_seeds": {"seeds": [1, 2, 3]},
    "seeds_crc": {"seeds": np.arange(203)},
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_options_are_named(dataset, name):
    batches = make(dataset[0])
    progress = iter(batches).state_dict()
    state = batches.state_after(1)
    other = make(dataset[0], **CHANGES[name])
    for load, bad in ((other.resume, state), (iter(other).load_state_dict, progress)):
        with pytest.raises(ValueError, match=rf"with other options: .*\b{name} \(") as caught:
            load(bad)
        if name not in ("num_seeds", "seeds_crc"):
            assert str(caught.value).count("now") == 1


def test_other_times_are_named(tmp_path):
    edges = files.random_edges(500, 3000)
    files.write_dataset(tmp_path / "d", edges, 500, times=np.arange(3000) % 100)
    with gz.open(tmp_path / "d") as ds:

        def timed(times, **options):
            return gz.NeighborDataset(ds, range(50), [3], input_time=times, **options)

        batches = timed(np.arange(50))
        batches.set_epoch(0)
        state = batches.state_after(1)
        timed(np.arange(50)).resume(state)
        for other, name in (
            (timed(np.full(50, 5)), "times_crc"),
            (timed(np.arange(50), temporal_strategy="last"), "temporal_strategy"),
        ):
            with pytest.raises(ValueError, match=name):
                other.resume(state)
        del batches, other


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"version": 3}, "version 3 cannot be resumed"),
        ({"version": 1}, r"version 1 cannot .* set_epoch\(4\)"),
        ({"batches": -1}, "batches of the state must be an integer from 0 to 13, not -1"),
        ({"batches": 14}, "must be an integer from 0 to 13, not 14"),
        ({"batches": True}, "must be an integer"),
        ({"epoch": "1"}, "epoch of the state must be"),
        ({"options": None}, "another kind"),
    ],
)
def test_bad_positions_are_refused(dataset, change, part):
    batches = make(dataset[0])
    batches.set_epoch(4)
    with pytest.raises(ValueError, match=part):
        batches.resume({**batches.state_after(2), **change})
    assert batches.position == Position(4, 0)  # as it was


@pytest.mark.parametrize("state", [{}, {"a": {"b": 1}}, None, [1]])
def test_what_is_no_state_is_refused(dataset, state):
    for load in (make(dataset[0]).resume, iter(make(dataset[0])).load_state_dict):
        with pytest.raises(ValueError, match="another kind: resume takes what state_after"):
            load(state)


def test_iterators_refuse_the_state_of_another_share(dataset):
    state = iter(make(dataset[0])).state_dict()
    with pytest.raises(ValueError, match=r"anew with set_epoch\(0\)"):
        iter(make(dataset[0])).load_state_dict({**state, "num_workers": 2})
    with pytest.raises(ValueError, match=r"worker \(1, now 0\)"):
        iter(make(dataset[0])).load_state_dict({**state, "worker": 1})


@pytest.fixture
def stateful():
    return pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("every", [1, 3])
def test_stateful_data_loaders_go_on(whole, stateful, workers, every):
    folder, expected = whole
    batches = make(folder)
    batches.set_epoch(2)
    loader = loader_of(batches, workers, kind=stateful, snapshot_every_n_steps=every)
    assert taken_from(loader, 5) == expected[:5]
    state = pickle.loads(pickle.dumps(loader.state_dict()))

    resumed = make(folder)
    loader = loader_of(resumed, workers, kind=stateful, snapshot_every_n_steps=every)
    loader.load_state_dict(state)
    resumed.set_epoch(2)
    assert taken_from(loader, 3) == expected[5:8]
    state = loader.state_dict()
    loader.load_state_dict(state)
    assert fingerprints(loader) == expected[8:]
    at_end = loader.state_dict()
    resumed.set_epoch(3)
    next_epoch = fingerprints(loader)
    assert len(next_epoch) == 13

    # a run that was stored between two epochs
    fresh = make(folder)
    loader = loader_of(fresh, workers, kind=stateful, snapshot_every_n_steps=every)
    loader.load_state_dict(at_end)
    fresh.set_epoch(3)
    assert fingerprints(loader) == next_epoch
    with pytest.raises(ValueError, match="a StatefulDataLoader's load_state_dict its own"):
        make(folder).resume(state)


def test_stateful_data_loaders_pass_refusals_on(dataset, stateful):
    loader = loader_of(make(dataset[0]), 0, kind=stateful)
    taken_from(loader, 1)
    state = loader.state_dict()
    other = loader_of(make(dataset[0], seed=9), 0, kind=stateful)
    other.load_state_dict(state)
    with pytest.raises(ValueError, match="other options: seed"):
        next(iter(other))
