"""Every pass over a dataset is the next epoch, whoever iterates, with whatever workers."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
from dataclasses import replace
from types import SimpleNamespace

import pytest
from loaders import loader_of, passes_of_rank, positions

import graphzero as gz
from graphzero.loader import epochs as epochs_module
from graphzero.loader.epochs import Epochs, Position, Progress
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


@pytest.mark.parametrize(("workers", "method", "persistent"), KINDS)
def test_a_choice_is_for_one_pass_of_workers(folder, workers, method, persistent):
    batches = make(folder)
    loader = loader_of(batches, workers, method=method, persistent_workers=persistent)
    for chosen in (0, 9, 9):  # an epoch again
        batches.set_epoch(chosen)
        assert epoch_of(loader) == chosen
        assert batches.epoch == chosen + 1
    if workers == 0:
        assert epoch_of(loader) == 10
    elif method == "fork":
        with pytest.raises(RuntimeError, match="Workers do not count: call set_epoch"):
            list(loader)


def test_passes_in_one_process_count_from_the_first(folder):
    batches = make(folder)
    assert [batches.epoch, epoch_of(loader_of(batches)), batches.epoch] == [0, 0, 1]
    next(iter(batches))
    iter(batches)  # not a single batch
    alive = [iter(batches) for _ in range(2)]
    passes = zip(*zip(*alive, strict=True), strict=True)
    assert [epoch_of(each) for each in passes] == [3, 4]


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


@pytest.mark.parametrize("workers", [2, 3])
def test_live_iterators_have_an_epoch_each(folder, workers):
    batches = make(folder)
    loaders = [loader_of(batches, workers) for _ in range(2)]
    alive = []
    for turn in range(4):
        batches.set_epoch(turn)
        alive.append(iter(loaders[turn % 2]))
    passes = zip(*zip(*alive, strict=True), strict=True)
    assert [epoch_of(each) for each in passes] == [0, 1, 2, 3]


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


def test_workers_that_disagree_are_refused(monkeypatch):
    """If an epoch is chosen while persistent workers begin a pass, or two passes begin at once."""
    epochs, unknown = Epochs(), Epochs()
    epochs.choose(HERE)
    worker = SimpleNamespace(seed=17, id=0)
    monkeypatch.setattr(epochs_module, "get_worker_info", lambda: worker)
    begun = epochs.begin(shared_by_ranks=True)
    epochs.check(begun)
    assert begun.position == HERE
    for wrong in (replace(begun, choice=0), epochs.begin(shared_by_ranks=True)):
        with pytest.raises(RuntimeError, match="call set_epoch before iter"):
            epochs.check(wrong)
    keys = {unknown.begin(shared_by_ranks=False).key for _ in range(3)}
    assert len(keys) == 3  # torch's seed is the same for all passes of persistent workers
    epochs.load(begun, Progress(3, 0, 0, Share()), True)
    with pytest.raises(RuntimeError, match="loaded states of the epochs 3 and 4"):
        epochs.load(begun, Progress(4, 0, 0, Share()), True)


@pytest.mark.parametrize("workers", [0, 2])
def test_resuming_goes_on_with_the_next_epoch(folder, workers):
    batches = make(folder)
    loader = loader_of(batches, workers)
    batches.set_epoch(1)
    iterator = iter(loader)
    begun = [next(iterator) for _ in range(3)]
    state = batches.state_after(3)
    assert (state["epoch"], state["batches"], batches.epoch) == (1, 3, 2)
    del iterator

    for keeps in (False, True):
        resumed = make(folder)
        loader = loader_of(resumed, workers, persistent_workers=workers > 0)
        resumed.set_epoch(0)
        assert epoch_of(loader) == 0
        resumed.resume(state)
        assert resumed.epoch == 1
        if keeps:
            resumed.set_epoch(1)
        assert epoch_of([*begun, *loader]) == 1
        assert resumed.state_after(5)["batches"] == BATCHES
        assert resumed.epoch == 2
        resumed.set_epoch(1)  # it is whole
        assert epoch_of(loader) == 1


def test_a_state_is_of_the_pass_that_began_last(folder):
    batches = make(folder)
    with pytest.raises(RuntimeError, match="Call set_epoch before"):
        batches.state_after(1)  # workers may have begun a pass
    for epoch in range(2):
        list(batches)
        assert batches.state_after(8)["epoch"] == epoch
    with pytest.raises(ValueError, match="taken must be at least 1"):
        batches.state_after(0)
    other = make(folder)
    list(other)
    list(loader_of(other, 2))
    with pytest.raises(RuntimeError, match="Call set_epoch before"):
        other.state_after(1)


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
def test_stateful_data_loaders_go_on_with_the_next_epoch(folder, workers, persistent):
    """Workers must be told which it is, or torch's seed tells them."""
    kind = pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader
    how = {"kind": kind, "persistent_workers": persistent}
    batches = make(folder)
    loader = loader_of(batches, workers, **how)
    batches.set_epoch(2)
    loader.state_dict()  # makes an iterator, which the first pass then uses
    assert epoch_of(loader) == 2
    at_end = pickle.loads(pickle.dumps(loader.state_dict()))

    for chosen in (None, 2, 12):  # also that of the state: as for an evaluation
        loader = loader_of(make(folder), workers, **how)
        loader.load_state_dict(at_end)
        if chosen is not None:
            loader.dataset.set_epoch(chosen)
        found = epoch_of(loader)
        assert found == (chosen or 3) if chosen or not workers else found not in range(30)


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
    assert found == [[3, 8], [3, 18]]
    for rank in ranks:
        rank.join()
    assert batches.epoch == 16  # theirs were not ours either


COPIES = {"copy": copy.copy, "pickle": lambda batches: pickle.loads(pickle.dumps(batches))}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_copies_have_epochs_of_their_own(folder, copied):
    batches = make(folder)
    batches.set_epoch(0)
    assert epoch_of(batches) == 0
    other = copied(batches)
    loader = loader_of(other, 2, persistent_workers=True)
    assert epoch_of(loader) == 1
    other.set_epoch(6)
    batches.set_epoch(11)
    assert (epoch_of(loader), epoch_of(batches), epoch_of(batches)) == (6, 11, 12)


def test_passes_of_this_process_go_on_counting_after_those_of_workers(folder):
    batches = make(folder)
    batches.set_epoch(0)
    for epoch, workers in enumerate([2, 0, 1, 0, 3, 0]):
        assert epoch_of(loader_of(batches, workers)) == epoch
    kept = loader_of(batches, 2, persistent_workers=True)
    assert [epoch_of(kept), epoch_of(loader_of(batches)), epoch_of(kept)] == [6, 7, 8]
