"""Every pass over a dataset is the next epoch, whoever iterates, with whatever workers."""

from __future__ import annotations

import copy
import io
import multiprocessing
import os
import pickle
import resource

import files
import numpy as np
import pytest
from loaders import loader_of, passes_of_rank, positions

import graphzero as gz
from graphzero.loader.epochs import Epochs, Pass, Position, Progress, _place
from graphzero.sampling.order import Share, epoch_order

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.no_asan,  # what is tested is Python; its C code runs there in other tests
]

SEEDS, BATCHES, HERE = 60, 8, Position(3, 0)
ORDERS = {tuple(epoch_order(SEEDS, True, 5, epoch).tolist()): epoch for epoch in range(30)}
KINDS = [
    (0, None, False),
    (1, "fork", False),
    (3, "fork", False),
    (2, "fork", True),
    pytest.param(2, "spawn", False, marks=pytest.mark.extended),
    (2, "spawn", True),
]


@pytest.fixture
def order():
    return "hot"


@pytest.fixture
def folder(dataset):
    return dataset[0]


def make(folder, **options):
    ds = gz.open(folder)
    how = {"fanouts": [2], "batch_size": 8, "shuffle": True, "seed": 5, "num_threads": 1}
    return gz.NeighborDataset(ds, ds.splits["train"][:SEEDS], **{**how, **options})


def epoch_of(taken):
    """The epoch whose batches these are, all of them in their order."""
    found = positions(taken)
    assert sorted(found) == list(range(SEEDS)), "seeds twice or never"
    return ORDERS.get(found, found)  # of workers that only torch's seed tells: not a number


def epoch_of_start(taken):
    """The epoch that begins with these batches."""
    start = positions(taken)
    found = {epoch for whole, epoch in ORDERS.items() if whole[: len(start)] == start}
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize(("workers", "method", "persistent"), KINDS)
def test_passes_after_a_choice_count(folder, workers, method, persistent):
    batches = make(folder)
    loader = loader_of(batches, workers, method=method, persistent_workers=persistent)
    for chosen in (0, 9, 9):  # an epoch again
        batches.set_epoch(chosen)
        assert [epoch_of(loader), epoch_of(loader)] == [chosen, chosen + 1]
    assert batches.epoch == 11


def test_passes_in_one_process_count_from_the_first(folder):
    batches = make(folder)
    assert [batches.epoch, epoch_of(loader_of(batches)), batches.epoch] == [0, 0, 1]
    iterator = iter(batches)
    assert epoch_of_start([next(iterator) for _ in range(3)]) == 1
    iter(batches)  # not a single batch
    alive = [iter(batches) for _ in range(2)]
    taken = [[next(one), next(other)] for one, other in [alive] for _ in range(BATCHES)]
    assert [epoch_of(each) for each in zip(*taken, strict=True)] == [3, 4]


@pytest.mark.parametrize(("workers", "method", "persistent"), KINDS[1:])
def test_workers_without_a_choice_follow_the_seed_of_torch(folder, workers, method, persistent):
    """Other batches in every pass, each seed once, and the same again with the same seed."""
    found = []
    for _ in range(2):
        loader = loader_of(make(folder), workers, method=method, persistent_workers=persistent)
        torch.manual_seed(7)
        found.append([epoch_of(loader) for _ in range(3)])
        del loader
    assert found[0] == found[1]
    assert len(set(found[0])) == 3


def test_ranks_with_workers_need_a_choice(folder):
    batches = make(folder, rank=0, world_size=2)
    with pytest.raises(RuntimeError, match="call set_epoch before each pass, on all ranks"):
        next(iter(loader_of(batches, 2)))
    batches.set_epoch(4)
    first = positions(loader_of(batches, 2))
    batches = make(folder, rank=1, world_size=2)
    batches.set_epoch(4)
    both = sorted(first + positions(loader_of(batches, 3)))
    assert both == list(range(SEEDS))
    alone = make(folder, distributed=False)
    assert len(positions(loader_of(alone, 2))) == SEEDS


@pytest.mark.parametrize("workers", [2, 3])
def test_live_iterators_have_an_epoch_each(folder, workers):
    batches = make(folder)
    loaders = [loader_of(batches, workers) for _ in range(2)]
    alive, taken = [], {}
    for turn in range(4):
        batches.set_epoch(turn)
        alive.append(iter(loaders[turn % 2]))
    for _ in range(BATCHES):
        for number, iterator in enumerate(alive):
            taken.setdefault(number, []).append(next(iterator))
    assert [epoch_of(taken[number]) for number in range(4)] == [0, 1, 2, 3]


def test_an_epoch_that_is_chosen_later_is_not_for_workers_that_have_been_started(folder):
    """However late they wake up."""
    batches = make(folder)
    may_begin = multiprocessing.get_context("fork").Event()
    loader = loader_of(batches, 2, worker_init_fn=lambda worker: may_begin.wait())
    batches.set_epoch(3)
    iterator = iter(loader)
    batches.set_epoch(7)
    may_begin.set()
    assert epoch_of(iterator) == 3
    assert epoch_of(loader) == 7


def test_workers_may_not_choose(folder):
    def choose(worker):
        torch.utils.data.get_worker_info().dataset.set_epoch(6)

    with pytest.raises(RuntimeError, match="call set_epoch in the process that iterates"):
        list(loader_of(make(folder), 1, worker_init_fn=choose))


def test_workers_that_disagree_are_refused(folder):
    """If an epoch is chosen while persistent workers begin a pass, or two passes begin at once."""
    for of_same, choice, number in ((True, 2, 1), (False, 1, 0)):
        epochs = Epochs()
        epochs.choose(HERE)
        begun = Pass(HERE, 1, 0, 17)
        epochs._own[_place(0)] = begun.written
        epochs.check(begun)
        other = Pass(HERE, choice, number, begun.key + (not of_same))
        epochs._own[_place(number)] = other.written
        with pytest.raises(RuntimeError, match="Call set_epoch before iter"):
            epochs.check(begun)


def test_workers_that_have_states_of_different_epochs_are_refused():
    epochs = Epochs()
    epochs.choose(HERE)
    begun = epochs.begin(shared_by_ranks=False)
    epochs.load(begun, Progress(3, 0, 0, Share()), True)
    with pytest.raises(RuntimeError, match="loaded states of the epochs 3 and 4"):
        epochs.load(begun, Progress(4, 0, 0, Share()), True)


@pytest.mark.parametrize("workers", [0, 2])
def test_resuming_goes_on_with_the_next_epoch(folder, workers):
    batches = make(folder)
    loader = loader_of(batches, workers)
    batches.set_epoch(1)
    iterator = iter(loader)
    assert batches.state_after(0)["epoch"] == 1  # of this pass, at once
    begun = [next(iterator) for _ in range(3)]
    state = batches.state_after(3)
    assert (state["epoch"], state["batches"], batches.epoch) == (1, 3, 2)
    del iterator

    for keeps in (False, True):
        resumed = make(folder)
        resumed.resume(state)
        assert resumed.epoch == 1
        if keeps:
            resumed.set_epoch(1)
        loader = loader_of(resumed, workers)
        assert epoch_of([*begun, *loader]) == 1
        assert resumed.state_after(5)["batches"] == BATCHES
        assert [epoch_of(loader), epoch_of(loader)] == [2, 3]


def test_a_state_is_of_the_pass_that_began_last(folder):
    batches = make(folder)
    with pytest.raises(RuntimeError, match="Call set_epoch before"):
        batches.state_after(0)  # workers may have begun a pass
    for epoch in range(2):
        list(batches)
        assert batches.state_after(8)["epoch"] == epoch
    batches.set_epoch(4)
    assert batches.state_after(0)["epoch"] == 4
    other = make(folder)
    list(other)
    list(loader_of(other, 2))
    with pytest.raises(RuntimeError, match="Call set_epoch before"):
        other.state_after(1)


@pytest.mark.parametrize("chosen", [True, False])
def test_no_state_is_of_the_pass_before(folder, chosen):
    """Where workers begin another pass after the state before its first batch was given."""
    batches = make(folder)
    if chosen:
        batches.set_epoch(0)
    list(batches)
    list(loader_of(batches, 2 * chosen))
    may_begin = multiprocessing.get_context("fork").Event()
    iterator = iter(loader_of(batches, 1, worker_init_fn=lambda worker: may_begin.wait()))
    batches.state_after(0)
    may_begin.set()
    with pytest.raises(RuntimeError, match="Call set_epoch before each pass"):
        next(iterator)


@pytest.fixture
def stateful():
    return pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
def test_stateful_data_loaders_go_on_with_the_next_epoch(folder, stateful, workers, persistent):
    batches = make(folder)
    how = {"kind": stateful, "persistent_workers": persistent}
    loader = loader_of(batches, workers, **how)
    batches.set_epoch(0)
    loader.state_dict()  # makes an iterator, which the first pass then uses
    assert [epoch_of(loader), epoch_of(loader)] == [0, 1]
    iterator = iter(loader)
    begun = [next(iterator) for _ in range(3)]
    midway = pickle.loads(pickle.dumps(loader.state_dict()))
    del iterator

    loader = loader_of(make(folder), workers, **how)
    loader.load_state_dict(midway)
    rest = list(loader)
    assert epoch_of([*begun, *rest]) == 2
    at_end = pickle.loads(pickle.dumps(loader.state_dict()))
    assert [epoch_of(loader), epoch_of(loader)] == [3, 4]

    loader = loader_of(make(folder), workers, **how)
    loader.load_state_dict(at_end)
    assert [epoch_of(loader), epoch_of(loader)] == [3, 4]

    for chosen in (2, 12):  # also that of the state: as for an evaluation that is to be the same
        loader = loader_of(make(folder), workers, **how)
        loader.load_state_dict(at_end)
        loader.dataset.set_epoch(chosen)
        assert [epoch_of(loader), epoch_of(loader)] == [chosen, chosen + 1]


@pytest.mark.parametrize(("method", "workers"), [("fork", 0), ("spawn", 2)])
def test_other_processes_have_epochs_of_their_own(folder, method, workers):
    """Ranks: each of them counts, and its own workers follow it."""
    batches = make(folder)
    batches.set_epoch(3)
    context = multiprocessing.get_context(method)
    results = context.Queue()
    ranks = []
    for rank in range(2):
        arguments = (batches, workers, 8 + 10 * rank, results)
        ranks.append(context.Process(target=passes_of_rank, args=arguments))
        ranks[-1].start()
    batches.set_epoch(15)  # not theirs
    assert epoch_of(batches) == 15
    passes = [results.get(timeout=120) for _ in ranks]
    found = sorted([ORDERS[each] for each in of_rank] for of_rank in passes)
    assert found == [[3, 4, 8, 9], [3, 4, 18, 19]]
    for rank in ranks:
        rank.join()
    assert batches.epoch == 16  # theirs were not ours either


def through_torch(batches):
    stored = io.BytesIO()
    torch.save(batches, stored)
    stored.seek(0)
    return torch.load(stored, weights_only=False)


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda batches: pickle.loads(pickle.dumps(batches)),
    "torch.save": through_torch,
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_copies_have_epochs_of_their_own(folder, copied):
    batches = make(folder)
    batches.set_epoch(0)
    assert epoch_of(batches) == 0
    other = copied(batches)
    loader = loader_of(other, 2, persistent_workers=True)
    assert epoch_of(loader) == 1
    other.set_epoch(6)
    assert [epoch_of(loader), epoch_of(loader)] == [6, 7]
    batches.set_epoch(11)
    assert (epoch_of(loader), epoch_of(batches), epoch_of(batches)) == (8, 11, 12)


def test_datasets_leave_no_descriptor_behind(folder):
    batches = make(folder)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        copy.copy(batches)
        copy.deepcopy(batches._epochs)
    assert len(os.listdir("/proc/self/fd")) == before


def test_states_name_a_graph_of_another_order(tmp_path):
    def build(name, order, edges):
        features = np.zeros((500, 2), np.float32)
        splits = {"train": np.arange(203)}
        files.write_dataset(
            tmp_path / name, edges, 500, features=features, splits=splits, order=order
        )
        return make(tmp_path / name)

    edges = files.random_edges(500, 6000, seed=2)
    hot = build("hot", "hot", edges)
    again = build("again", "hot", edges)
    others = [
        build("input", "input", edges),
        build("edges", "hot", files.random_edges(500, 6000, seed=3)),
    ]
    progress, state = iter(hot).state_dict(), hot.state_after(2)
    again.resume(state)
    iter(again).load_state_dict(progress)
    for other in others:
        for load, bad in ((other.resume, state), (iter(other).load_state_dict, progress)):
            with pytest.raises(ValueError, match="other options: graph .* set_epoch"):
                load(bad)


def test_other_numbers_of_workers_go_on_counting(folder):
    batches = make(folder)
    batches.set_epoch(0)
    for epoch, workers in enumerate([2, 0, 1, 0, 3, 2]):
        assert epoch_of(loader_of(batches, workers)) == epoch
    kept = loader_of(batches, 2, persistent_workers=True)
    assert [epoch_of(kept), epoch_of(loader_of(batches)), epoch_of(kept)] == [6, 7, 8]


def test_datasets_that_could_not_be_made_do_not_part_the_workers_of_others(folder):
    """The error of one is kept, another is half made in a thread, and many are alive."""
    others = [make(folder)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 300, hard))
    try:
        with pytest.raises(RuntimeError, match="Too many open files") as kept:
            for _ in range(1000):
                others.append(copy.copy(others[0]))
        half = Epochs.__new__(Epochs)  # as in another thread
        del others[-200:]  # their descriptors are for the workers
        batches = others[-1]
        batches.set_epoch(2)
        loader = loader_of(batches, 3)
        assert [epoch_of(loader), epoch_of(loader)] == [2, 3]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    del half, kept


def test_packs_repeat_their_epochs(dataset, tmp_path):
    with gz.open(dataset[0]) as ds:
        train = ds.splits["train"][:SEEDS].copy()
        how = {"batch_size": 8, "shuffle": True, "seed": 5}
        pack = gz.pack(ds, tmp_path / "p.gd", train, [2], epochs=2, first_epoch=1, **how)
        for workers in (0, 2):
            batches = gz.PackedDataset(ds, pack, train)
            batches.set_epoch(0)
            loader = loader_of(batches, workers)
            assert [epoch_of(loader) for _ in range(4)] == [2, 1, 2, 1]
        del loader
