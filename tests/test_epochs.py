"""Every pass over a dataset is the next epoch, whoever iterates, with whatever workers."""

from __future__ import annotations

import copy
import fcntl
import io
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading

import files
import numpy as np
import pytest
from loaders import loader_of, passes_of_rank, positions

import graphzero as gz
from graphzero.sampling.order import epoch_order

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.no_asan,  # what is tested is Python; its C code runs there in other tests
]

SEEDS, BATCHES = 60, 8
ORDERS = {tuple(epoch_order(SEEDS, True, 5, epoch).tolist()): epoch for epoch in range(30)}
KINDS = [
    (0, None, False),
    (1, "fork", False),
    (3, "fork", False),
    (2, "fork", True),
    (2, "spawn", False),
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
    assert found in ORDERS, "no whole epoch"
    return ORDERS[found]


def epoch_of_start(taken):
    """The epoch that begins with these batches."""
    start = positions(taken)
    found = {epoch for whole, epoch in ORDERS.items() if whole[: len(start)] == start}
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize(("workers", "method", "persistent"), KINDS)
def test_every_pass_is_the_next_epoch(folder, workers, method, persistent):
    batches = make(folder)
    loader = loader_of(batches, workers, method=method, persistent_workers=persistent)
    for epoch in range(3):
        assert batches.epoch == epoch
        torch.manual_seed(0)  # torch gives the workers of each pass the same seed
        assert epoch_of(loader) == epoch
    batches.set_epoch(9)
    assert [epoch_of(loader), epoch_of(loader)] == [9, 10]
    for _ in range(2):  # an epoch again
        batches.set_epoch(9)
        assert epoch_of(loader) == 9
    assert batches.epoch == 10


@pytest.mark.parametrize(("workers", "method", "persistent"), KINDS[:4])
def test_a_pass_that_is_broken_off_was_one(folder, workers, method, persistent):
    batches = make(folder)
    loader = loader_of(batches, workers, method=method, persistent_workers=persistent)
    for epoch in range(4):
        torch.manual_seed(0)
        iterator = iter(loader)
        assert epoch_of_start([next(iterator) for _ in range(epoch % 3 + 1)]) == epoch
    del iterator
    iter(loader)  # not a single batch
    assert epoch_of(loader) == 5


@pytest.mark.parametrize("workers", [0, 2, 3])
def test_live_iterators_have_an_epoch_each(folder, workers):
    batches = make(folder)
    loaders = [loader_of(batches, workers) for _ in range(2)]
    alive, taken = [], {}
    for turn in range(4):
        torch.manual_seed(0)
        alive.append(iter(loaders[turn % 2]))
    for _ in range(BATCHES):
        for number, iterator in enumerate(alive):
            taken.setdefault(number, []).append(next(iterator))
    # workers that are started at about the same time may ask in any order
    assert sorted(map(epoch_of, taken.values())) == [0, 1, 2, 3]
    if workers == 0:
        assert [epoch_of(taken[number]) for number in range(4)] == [0, 1, 2, 3]
    del alive
    assert epoch_of(loaders[0]) == 4


def test_other_numbers_of_workers_go_on_counting(folder):
    batches = make(folder)
    for epoch, workers in enumerate([0, 2, 1, 0, 3, 2]):
        assert epoch_of(loader_of(batches, workers)) == epoch
    kept = loader_of(batches, 2, persistent_workers=True)
    assert [epoch_of(kept), epoch_of(loader_of(batches)), epoch_of(kept)] == [6, 7, 8]


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


def test_workers_that_choose_differently_are_refused(folder):
    batches = make(folder)

    def agree(worker):
        torch.utils.data.get_worker_info().dataset.set_epoch(6)

    def disagree(worker):
        torch.utils.data.get_worker_info().dataset.set_epoch(worker)

    assert epoch_of(loader_of(batches, 2, worker_init_fn=agree)) == 6
    assert epoch_of(loader_of(batches, 2)) == 7
    with pytest.raises(RuntimeError, match="call set_epoch in all workers alike"):
        list(loader_of(batches, 2, worker_init_fn=disagree))


def test_threads_that_start_processes_meanwhile_do_not_mix_epochs(folder):
    """The workers of each thread's passes are started in between those of the others."""
    batches = make(folder)
    found = {}

    def train(number):
        loader = loader_of(batches, 3, generator=torch.Generator().manual_seed(0))
        found[number] = [epoch_of(loader) for _ in range(3)]

    threads = [threading.Thread(target=train, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(epoch for epochs in found.values() for epoch in epochs) == list(range(9))
    assert all(epochs == sorted(epochs) for epochs in found.values())


@pytest.mark.parametrize("workers", [0, 2])
def test_resuming_goes_on_with_the_next_epoch(folder, workers):
    batches = make(folder)
    loader = loader_of(batches, workers)
    assert epoch_of(loader) == 0
    iterator = iter(loader)
    begun = [next(iterator) for _ in range(3)]
    state = batches.state_after(3)  # of the pass that runs, not of the next one
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
    assert batches.state_after(2)["epoch"] == 0
    for epoch in range(2):
        list(batches)
        assert batches.state_after(8)["epoch"] == epoch
    batches.set_epoch(4)
    assert batches.state_after(0)["epoch"] == 4


@pytest.fixture
def stateful():
    return pytest.importorskip("torchdata.stateful_dataloader").StatefulDataLoader


@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
def test_stateful_data_loaders_go_on_with_the_next_epoch(folder, stateful, workers, persistent):
    batches = make(folder)
    how = {"kind": stateful, "persistent_workers": persistent}
    loader = loader_of(batches, workers, **how)
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


def test_packs_repeat_their_epochs(dataset, tmp_path):
    with gz.open(dataset[0]) as ds:
        train = ds.splits["train"][:SEEDS].copy()
        how = {"batch_size": 8, "shuffle": True, "seed": 5}
        pack = gz.pack(ds, tmp_path / "p.gd", train, [2], epochs=2, first_epoch=1, **how)
        for workers in (0, 2):
            loader = loader_of(gz.PackedDataset(ds, pack, train), workers)
            assert [epoch_of(loader) for _ in range(4)] == [2, 1, 2, 1]
        del loader


@pytest.mark.parametrize(("method", "workers"), [("fork", 0), ("fork", 2), ("spawn", 2)])
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
    assert epoch_of(batches) == 0
    other = copied(batches)
    loader = loader_of(other, 2, persistent_workers=True)
    assert epoch_of(loader) == 1
    other.set_epoch(6)
    assert [epoch_of(loader), epoch_of(loader)] == [6, 7]
    batches.set_epoch(11)
    assert (epoch_of(loader), epoch_of(batches), epoch_of(batches)) == (8, 11, 12)


def test_a_worker_that_is_killed_keeps_no_lock(folder):
    batches = make(folder)
    page = batches._epochs._page.descriptor
    held, hold = os.pipe()
    child = os.fork()
    if child == 0:
        fcntl.lockf(page, fcntl.LOCK_EX)
        os.write(hold, b"1")
        signal.pause()
    os.read(held, 1)
    os.kill(child, signal.SIGKILL)
    assert epoch_of(batches) == 0  # waits for it, and no longer
    os.waitpid(child, 0)
    os.close(held)
    os.close(hold)


def test_datasets_leave_no_descriptor_behind(folder):
    batches = make(folder)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        copy.copy(batches)
        copy.deepcopy(batches._epochs)
    assert len(os.listdir("/proc/self/fd")) == before


WITHOUT_ROOM = """
import os, resource, sys
import graphzero as gz
ds = gz.open(sys.argv[1])
batches = gz.NeighborDataset(ds, ds.splits["train"][:8], [2], batch_size=8)
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
# None at all: a forked child closes what it inherits and may not use.
resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
child = os.fork()
if child == 0:
    try:
        batches.set_epoch(5)
    except OSError as error:
        os._exit(0 if "ulimit -n" in str(error) else 1)
    os._exit(2)
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert batches.epoch == 0
"""


def test_a_process_without_room_for_its_epochs_does_not_share_those_of_another(folder, tmp_path):
    # In a process of its own: pyarrow opens a pipe in every forked child, or ends it.
    command = [sys.executable, "-c", WITHOUT_ROOM, str(folder)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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
    state, progress = hot.state_after(2), iter(hot).state_dict()
    again.resume(state)
    iter(again).load_state_dict(progress)
    for other in others:
        for load, bad in ((other.resume, state), (iter(other).load_state_dict, progress)):
            with pytest.raises(ValueError, match="taken on another graph: .* set_epoch"):
                load(bad)


def test_a_closed_descriptor_is_not_taken_for_another_file(folder, tmp_path):
    """A daemon closes all descriptors; files that are opened then get their numbers."""
    batches = make(folder)
    page = batches._epochs._page.descriptor
    with open(tmp_path / "precious", "w+b") as file:
        file.write(b"precious")
        file.flush()
        os.dup2(file.fileno(), page)
        with pytest.raises(RuntimeError, match="create the dataset after closing all files"):
            iter(batches)
        del batches
        assert os.pread(page, 8, 0) == b"precious"
        os.close(page)
