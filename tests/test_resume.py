"""An epoch that was broken off goes on with exactly the batches that were left."""

from __future__ import annotations

import pickle
import shutil
import threading

import files
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loaders import loader_of, refused

import graphzero as gz
from graphzero.loader.states import Position, WorkerProgress, read_position
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


@pytest.mark.parametrize(("old", "new"), [(0, 1), (1, 3), (3, 0)])
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
    "num_seeds": {"seeds": [1, 2, 3]},
    "graph": {},
    "seeds_crc": {"seeds": np.arange(203)},
}


@pytest.mark.parametrize("name", CHANGES)
def test_other_options_are_named(dataset, tmp_path, name):
    batches = make(dataset[0])
    progress = iter(batches).state_dict()
    state = batches.state_after(1)
    folder = dataset[0]
    if name == "graph":  # the same edges in another order
        folder = tmp_path / "other"
        shutil.copytree(dataset[0], folder)
        make(folder).resume(state)  # it is still the same graph
        gz.reorder(folder, order="input")
    other = make(folder, **CHANGES[name])
    for load, bad in ((other.resume, state), (iter(other).load_state_dict, progress)):
        with refused(ValueError, match=rf"with other options: .*\b{name} \("):
            load(bad)


def test_other_times_are_named(tmp_path):
    edges = files.random_edges(500, 3000)
    files.write_dataset(tmp_path / "d", edges, 500, times=np.arange(3000) % 100)
    ds = gz.open(tmp_path / "d")
    of_times = [np.arange(50), np.arange(50), np.full(50, 5)]
    batches, same, other = (
        gz.NeighborDataset(ds, range(50), [3], input_time=times) for times in of_times
    )
    batches.set_epoch(0)
    same.resume(batches.state_after(1))
    with refused(ValueError, match="times_crc"):
        other.resume(batches.state_after(1))


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"version": 1}, r"version 1 cannot .* set_epoch\(4\)"),
        ({"batches": -1}, "batches of the state must be an integer from 0 to 13, not -1"),
        ({"batches": 14}, "must be an integer from 0 to 13, not 14"),
        ({"batches": True}, "must be an integer"),
        ({"epoch": "1"}, "epoch of the state must be"),
        ({"options": None}, "no state of these loaders"),
    ],
)
def test_bad_positions_are_refused(dataset, change, part):
    batches = make(dataset[0])
    batches.set_epoch(4)
    with refused(ValueError, match=part):
        batches.resume({**batches.state_after(2), **change})
    assert batches.position == Position(4, 0)  # as it was


@pytest.mark.parametrize("state", [{}, {"a": {"b": 1}}, None, [1]])
def test_what_is_no_state_is_refused(dataset, state):
    for load in (make(dataset[0]).resume, iter(make(dataset[0])).load_state_dict):
        with refused(ValueError, match="no state of these loaders: resume takes what"):
            load(state)


def test_iterators_refuse_the_state_of_another_share(dataset):
    state = iter(make(dataset[0])).state_dict()
    with refused(ValueError, match=r"to resume of the dataset.* anew with set_epoch\(0\)"):
        iter(make(dataset[0])).load_state_dict({**state, "num_workers": 2})
    with refused(ValueError, match=r"worker \(1, now 0\)"):
        iter(make(dataset[0])).load_state_dict({**state, "worker": 1})


@given(st.integers(0, 40), st.integers(1, 4), st.integers(1, 4), st.data())
def test_states_of_workers_say_how_far_all_ranks_in_step_are(count, ranks, workers, data):
    options = {"seed": 1}
    rounds = data.draw(st.integers(0, -(-count // ranks)))
    done, nested = set(batch_ids(count, Share(0, ranks))[:rounds]), {}
    for worker in range(workers):
        share = Share(0, ranks, worker, workers)
        progress = WorkerProgress(3, 0, len(done & {*batch_ids(count, share)}), share)
        nested[f"worker_{worker}"] = {"iterator": progress.state(options)}
    assert read_position(nested, options, count) == Position(3, min(count, rounds * ranks))
    nested["worker_0"] = {**nested["worker_0"]["iterator"], "num_workers": 1 << 62}
    with refused(ValueError, match="must hold all workers of one rank"):
        read_position(nested, options, count)


@pytest.mark.parametrize(("workers", "every"), [(0, 1), (1, 3), (3, 1), (3, 3)])
def test_stateful_data_loaders_go_on(whole, workers, every):
    folder, expected = whole
    kind = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    how = {"kind": kind, "snapshot_every_n_steps": every}
    batches = make(folder)
    batches.set_epoch(2)
    loader = loader_of(batches, workers, **how)
    assert taken_from(loader, 5) == expected[:5]
    state = pickle.loads(pickle.dumps(loader.state_dict()))

    resumed = make(folder)
    loader = loader_of(resumed, workers, **how)
    loader.load_state_dict(state)
    resumed.set_epoch(2)
    assert taken_from(loader, 3) == expected[5:8]
    loader.load_state_dict(loader.state_dict())
    assert fingerprints(loader) == expected[8:]
    for others in {0, 1, 3} - {workers}:  # with other workers, also from within a checkpoint
        changed = make(folder)
        changed.resume({"epoch": 7, "loader": state})
        assert fingerprints(loader_of(changed, others)) == expected[5:]
    if workers == 3:
        unchosen = make(folder)
        loader = loader_of(unchosen, workers, **how)
        taken_from(loader, 2)
        with refused(ValueError, match="call set_epoch before each pass"):
            unchosen.resume(loader.state_dict())
        loader.load_state_dict(loader.state_dict())
        with refused(ValueError, match="call set_epoch before each pass"):
            next(iter(loader))
        del state["_snapshot"]["_worker_snapshots"]["worker_1"]
        with refused(ValueError, match="must hold all workers of one rank"):
            make(folder).resume(state)
