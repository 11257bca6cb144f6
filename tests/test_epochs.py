"""Every pass over a dataset has an epoch of its own, whoever iterates, with whatever workers."""

from __future__ import annotations

import multiprocessing
import pickle

import pytest
from loaders import loader_of, positions, refused

import graphzero as gz
from graphzero.sampling.order import epoch_order

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.no_asan,  # what is tested is Python; its C code runs there in other tests
]

SEEDS, BATCHES = 60, 8
ORDERS = {tuple(epoch_order(SEEDS, True, 5, epoch).tolist()): epoch for epoch in range(30)}
DRAWN = "drawn"
KINDS = [
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


@pytest.fixture
def stateful():
    return pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader


def make(folder, kind=gz.NeighborDataset, **options):
    ds = gz.open(folder)
    defaults = {"fanouts": [2], "batch_size": 8, "shuffle": True, "seed": 5, "num_threads": 1}
    return kind(ds, ds.splits["train"][:SEEDS], **{**defaults, **options})


def order_of(taken):
    """The seeds of a whole pass."""
    order = positions(taken)
    assert sorted(order) == list(range(SEEDS)), "seeds twice or never"
    return order


def epoch_of(taken):
    """The epoch whose batches these are, all of them in their order."""
    return ORDERS.get(order_of(taken), DRAWN)


def epoch_of_start(taken):
    """The epoch that begins with these batches."""
    start = positions(taken)
    (epoch,) = {epoch for whole, epoch in ORDERS.items() if whole[: len(start)] == start}
    return epoch


@pytest.mark.parametrize(("workers", "method", "persistent"), KINDS)
def test_workers_have_the_epoch_that_was_chosen(folder, workers, method, persistent):
    batches = make(folder)
    loader = loader_of(batches, workers, method=method, persistent_workers=persistent)
    for chosen in (0, 9, 9):  # an epoch again
        batches.set_epoch(chosen)
        assert epoch_of(loader) == chosen
        assert batches.epoch == chosen + 1
    assert epoch_of(loader) == DRAWN
    assert epoch_of(batches) == 10


def test_passes_in_one_process_count(folder):
    batches = make(folder)
    assert [batches.epoch, epoch_of(loader_of(batches)), batches.epoch] == [0, 0, 1]
    iterator = iter(batches)
    assert epoch_of_start([next(iterator) for _ in range(3)]) == 1
    iter(batches)  # not a single batch
    first, second = iter(batches), iter(batches)
    taken = [(next(first), next(second)) for _ in range(BATCHES)]
    assert [epoch_of(of_pass) for of_pass in zip(*taken, strict=True)] == [3, 4]
    batches.set_epoch(9)
    assert [epoch_of(batches), epoch_of(batches), batches.epoch] == [9, 10, 11]


@pytest.mark.parametrize(("workers", "method", "persistent"), KINDS[:3])
def test_workers_without_a_choice_follow_the_seed_of_torch(folder, workers, method, persistent):
    """Other batches in every pass, each seed once, and the same again with the same seed."""
    runs = []
    for _ in range(2):
        loader = loader_of(make(folder), workers, method=method, persistent_workers=persistent)
        torch.manual_seed(7)
        runs.append([order_of(loader) for _ in range(3)])
        del loader
    assert runs[0] == runs[1]
    assert len(set(runs[0])) == 3


def test_ranks_with_workers_need_a_choice_for_each_pass(folder):
    first, second = (make(folder, rank=rank, world_size=2) for rank in (0, 1))
    taken = []
    for batches, workers in ((first, 2), (second, 3)):
        batches.set_epoch(4)
        taken += positions(loader_of(batches, workers))
        with refused(RuntimeError, match="call set_epoch before each pass, on all ranks"):
            next(iter(loader_of(batches, workers)))
    assert sorted(taken) == list(range(SEEDS))
    assert len(order_of(loader_of(make(folder, distributed=False), 2))) == SEEDS


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

    with refused(RuntimeError, match="call set_epoch in the process that iterates"):
        list(loader_of(make(folder), 1, worker_init_fn=choose))


class Delayed(gz.NeighborDataset):
    """The second worker begins its passes when it may."""

    may_begin = multiprocessing.get_context("fork").Event()

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        if worker is not None and worker.id == 1:
            self.may_begin.wait()
        return super().__iter__()


@pytest.mark.parametrize("chosen", [False, True])
def test_workers_that_read_different_epochs_are_refused(folder, chosen):
    batches = make(folder, Delayed)
    loader = loader_of(batches, 2, persistent_workers=True)
    batches.set_epoch(3)
    batches.may_begin.set()
    assert epoch_of(loader) == 3
    batches.may_begin.clear()
    if chosen:
        batches.set_epoch(4)
    iterator = iter(loader)
    next(iterator)  # of the first worker
    batches.set_epoch(7)
    batches.may_begin.set()
    with refused(RuntimeError, match="Call set_epoch before iter"):
        list(iterator)
    del iterator, loader


def test_workers_that_have_states_of_different_epochs_are_refused(folder, stateful):
    batches = make(folder)
    loader = loader_of(batches, 2, kind=stateful)
    states = []
    for epoch in (3, 4):
        batches.set_epoch(epoch)
        iterator = iter(loader)
        next(iterator)
        states.append(loader.state_dict())
    workers, others = (state["_snapshot"]["_worker_snapshots"] for state in states)
    workers["worker_1"] = others["worker_1"]
    loader.load_state_dict(states[0])
    with refused(RuntimeError, match="load the state of one DataLoader"):
        list(loader)
    del iterator, loader


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
        assert epoch_of([*begun, *loader_of(resumed, workers)]) == 1
        assert resumed.state_after(5)["batches"] == BATCHES
        assert [resumed.epoch, epoch_of(resumed)] == [2, 2]


def test_a_state_is_of_the_pass_that_began_last(folder):
    batches = make(folder)
    with refused(RuntimeError, match="Call set_epoch before"):
        batches.state_after(0)  # workers may have begun a pass
    for epoch in range(2):
        list(batches)
        assert batches.state_after(8)["epoch"] == epoch
    batches.set_epoch(4)
    assert batches.state_after(0)["epoch"] == 4
    list(loader_of(batches, 2))
    assert batches.state_after(8)["epoch"] == 4
    list(loader_of(batches, 2))
    with refused(RuntimeError, match="Call set_epoch before"):
        batches.state_after(1)


@pytest.mark.parametrize("workers", [0, 2])
def test_no_state_is_of_the_pass_before(folder, workers):
    """Where workers begin another pass after the state before its first batch was given."""
    batches = make(folder)
    batches.set_epoch(0)
    list(loader_of(batches, workers))
    may_begin = multiprocessing.get_context("fork").Event()
    iterator = iter(loader_of(batches, 1, worker_init_fn=lambda worker: may_begin.wait()))
    batches.state_after(0)
    may_begin.set()
    with refused(RuntimeError, match="Call set_epoch before each pass"):
        next(iterator)
    del iterator


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
def test_stateful_data_loaders_go_on_with_the_next_epoch(folder, stateful, workers, persistent):
    def make_loader():
        return loader_of(make(folder), workers, kind=stateful, persistent_workers=persistent)

    def epochs_of(loader, *epochs):
        """Of passes that begin with `set_epoch`; None for those without."""
        for epoch in epochs:
            if epoch is not None:
                loader.dataset.set_epoch(epoch)
            yield epoch_of(loader)

    loader = make_loader()
    loader.dataset.set_epoch(0)
    loader.state_dict()  # makes an iterator, which the first pass then uses
    assert list(epochs_of(loader, None, 1)) == [0, 1]
    loader.dataset.set_epoch(2)
    iterator = iter(loader)
    begun = [next(iterator) for _ in range(3)]
    midway = pickle.loads(pickle.dumps(loader.state_dict()))
    del iterator

    for chosen in (None, 2, 5):  # 5 is then still to come
        loader = make_loader()
        loader.load_state_dict(midway)
        if chosen is not None:
            loader.dataset.set_epoch(chosen)
        assert epoch_of([*begun, *loader]) == 2
        at_end = pickle.loads(pickle.dumps(loader.state_dict()))
        assert loader.dataset.epoch == (5 if chosen == 5 else 3)
        counted = 5 if chosen == 5 else 3 if workers == 0 else DRAWN
        assert epoch_of(loader) == counted

    for chosen in (2, 12):  # also that of the state: as for an evaluation that is to be the same
        loader = make_loader()
        loader.load_state_dict(at_end)
        assert list(epochs_of(loader, chosen, chosen + 1)) == [chosen, chosen + 1]
    loader = make_loader()
    loader.load_state_dict(at_end)
    assert list(epochs_of(loader, None)) == [DRAWN if workers else 3]
