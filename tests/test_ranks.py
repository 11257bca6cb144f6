"""Which ranks share an epoch, how evenly, and when a rank is found."""

from __future__ import annotations

import copy
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from loaders import loader_of
from ranks_data import NODES, SEEDS, SIZE, write_data

import graphzero as gz
from graphzero.loader import ranks
from graphzero.sampling.order import Share, batch_ids
from graphzero.training.train_options import TrainOptions
from graphzero.training.trainer import train

if not torch.distributed.is_available():
    pytest.skip("this torch has no distributed", allow_module_level=True)
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.no_asan,  # what is tested is Python; its C code runs there in other tests
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("ranks") / "data")


def make(folder, count=SEEDS, **options):
    return gz.NeighborDataset(
        gz.open(folder), np.arange(count), [3], batch_size=SIZE, shuffle=True, **options
    )


def numbers_of(batches, loader=None):
    """Which batches of epoch 0 an iteration gives, by their seeds."""
    batches.set_epoch(0)
    order = [batches.request(0, b).positions.tolist() for b in range(batches.num_batches)]
    return [order.index(batch.input_id.tolist()) for batch in loader or loader_of(batches)]


@pytest.fixture
def two_ranks(monkeypatch):
    """This process is rank 1 of 2."""
    monkeypatch.setattr(ranks, "current_group", lambda: (1, 2))


# --- the deal


def of_workers(count, share, first, workers, **options):
    """The batches of a rank, as the DataLoader takes them from its workers in turn."""
    shares = [Share(share.rank, share.world_size, w, workers) for w in range(workers)]
    lists = [list(batch_ids(count, each, first, **options)) for each in shares]
    turns = max(map(len, lists))
    return [ids[turn] for turn in range(turns) for ids in lists if turn < len(ids)]


@given(
    count=st.integers(0, 30),
    done=st.integers(0, 30),
    world_size=st.integers(1, 9),
    workers=st.integers(1, 3),
    drop_last=st.booleans(),
)
def test_even_ranks_get_equally_many(count, done, world_size, workers, drop_last):
    first = min(done, count)
    of_ranks, dealt_once = [], []
    for rank in range(world_size):
        share = Share(rank, world_size)
        ids = of_workers(count, share, first, workers, even=True, drop_last=drop_last)
        assert ids == list(batch_ids(count, share, first, even=True, drop_last=drop_last))
        once = list(batch_ids(count, share, first))
        assert ids[: len(once)] == once[: len(ids)]  # then the repeated ones
        of_ranks.append(ids)
        dealt_once += once
    rounds = [list(ids) for ids in zip(*of_ranks, strict=True)]  # raises if they are not equal
    dealt = [number for ids in rounds for number in ids]
    left = list(range(first, count))
    assert sorted(dealt_once) == left
    if drop_last:
        assert dealt == left[: len(left) // world_size * world_size]
    else:
        assert dealt[: len(left)] == left
        assert 0 <= len(dealt) - len(left) < world_size
        repeated = dealt[len(left) :]
        assert repeated == [i % count for i in range(len(repeated))]  # from the epoch's start


# --- the options


def test_under_several_ranks_an_open_question_is_an_error(folder, two_ranks):
    batches = make(folder)  # no error: the ranks may come later
    for use in (iter, len, lambda b: next(iter(loader_of(b))), lambda b: len(loader_of(b))):
        with pytest.raises(
            ValueError, match=r"one of 2 ranks.*distributed=True.*distributed=False"
        ):
            use(batches)
    assert numbers_of(make(folder, distributed=False)) == list(range(7))
    assert len(make(folder, distributed=False)) == 7
    assert numbers_of(make(folder, distributed=True)) == [1, 3, 5, 0]
    assert numbers_of(make(folder, distributed=True, even=False)) == [1, 3, 5]
    assert numbers_of(make(folder, rank=2, world_size=3)) == [2, 5, 1]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"distributed": "no"}, "distributed must be True, False or None"),
        ({"even": None}, "even must be True or False"),
        ({"rank": 0}, "rank and world_size belong together"),
        ({"rank": 2, "world_size": 2}, "rank must be below world_size=2, not 2"),
        ({"rank": 0, "world_size": 2, "distributed": False}, "distributed=False gives this"),
    ],
)
def test_bad_options_are_refused(folder, options, part):
    with pytest.raises(ValueError, match=part):
        make(folder, **options)


def test_the_group_is_missed_under_torchrun(folder, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "x")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(
        ValueError, match="torchrun has started 2 processes: call init_process_grou"
    ):
        iter(make(folder, distributed=True))
    with pytest.raises(ValueError, match="one of 2 ranks"):
        len(make(folder))
    assert len(make(folder, distributed=False)) == 7
    assert len(make(folder, rank=0, world_size=7)) == 1
    monkeypatch.setenv("WORLD_SIZE", "1")
    assert len(make(folder, distributed=True)) == len(make(folder)) == 7


# --- even rounds


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize(
    ("drop_last", "expected"),
    [(False, [[0, 2, 4, 6], [1, 3, 5, 0]]), (True, [[0, 2, 4], [1, 3, 5]])],
)
@pytest.mark.filterwarnings("ignore:an epoch has:UserWarning")
def test_even_ranks_and_their_length(folder, workers, drop_last, expected):
    for rank in range(2):
        options = {"drop_last": drop_last, "rank": rank, "world_size": 2}
        batches = make(folder, 112 if drop_last else SEEDS, **options)
        loader = loader_of(batches, workers)
        assert len(loader) == len(expected[rank])
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "Length of IterableDataset")
            assert numbers_of(batches, loader) == expected[rank]


@pytest.mark.filterwarnings("ignore:an epoch has:UserWarning")
def test_fewer_batches_than_ranks(folder):
    of_ranks = [numbers_of(make(folder, 40, rank=rank, world_size=8)) for rank in range(8)]
    assert of_ranks == [[0], [1], [2], [0], [1], [2], [0], [1]]
    assert numbers_of(make(folder, 0, rank=1, world_size=2)) == []
    for use in (iter, len):
        with pytest.raises(ValueError, match=r"leaves no batch: an epoch has 2 full .* 8 ranks"):
            use(make(folder, 40, rank=1, world_size=8, drop_last=True))
    assert len(make(folder, 40, rank=1, world_size=8, drop_last=True, even=False)) == 1


def warnings_of(batches, passes=3):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(passes):
            iter(batches).close()
            len(batches)
    return [str(each.message) for each in caught]


@pytest.mark.parametrize(
    ("count", "options", "expected"),
    [
        (97, {}, ["an epoch has 7 batches, and 2 ranks get 4 each: even=True repeats 1 (14%)"]),
        (112, {"drop_last": True}, ["ranks get 3 each: even=True leaves out 1 (14%)"]),
        (16, {}, ["an epoch has 1 batches, and 2 ranks get 1 each: even=True repeats 1 (100%)"]),
        (97, {"even": False}, []),
        (19 * SIZE, {}, ["repeats 1 (5%)"]),  # 1 / 19 > 0.05
        (21 * SIZE, {}, []),
    ],
)
def test_much_that_is_repeated_or_lost_is_said_once(folder, count, options, expected):
    how = {"batch_size": SIZE, "rank": 0, "world_size": 2, **options}
    batches = gz.NeighborDataset(gz.open(folder), np.arange(count) % NODES, [3], **how)
    found = warnings_of(batches)
    assert len(found) == len(expected)
    assert all(part in text for part, text in zip(expected, found, strict=True))


# --- when the rank is found


def test_no_pickle_or_copy_holds_a_rank(folder, monkeypatch):
    monkeypatch.setattr(ranks, "current_group", lambda: (1, 2))
    batches = make(folder, distributed=True)
    pickled = pickle.dumps(batches)
    copies = [pickle.loads(pickled), copy.deepcopy(batches), batches]
    monkeypatch.setattr(ranks, "current_group", lambda: (2, 3))
    for each in copies:
        assert each.rank_and_size == (2, 3)
        assert numbers_of(each) == [2, 5, 1]
        assert numbers_of(each, loader_of(each, 2)) == [2, 5, 1]  # in forked workers
    monkeypatch.setattr(ranks, "current_group", lambda: None)
    assert numbers_of(pickle.loads(pickled)) == list(range(7))


# --- resuming


@pytest.mark.filterwarnings("ignore:an epoch has:UserWarning")
def test_the_filled_round_is_resumed(folder):
    """A state counts the first batches of the epoch's order; repeated ones do not count."""

    def left(state, rank, world_size, **options):
        batches = make(folder, rank=rank, world_size=world_size, **options)
        batches.resume(state)
        return numbers_of(batches)

    batches = make(folder, rank=1, world_size=2)
    batches.set_epoch(0)
    states = {taken: batches.state_after(taken) for taken in range(1, 5)}
    assert [state["batches"] for state in states.values()] == [2, 4, 6, 7]
    assert [left(states[2], rank, 2) for rank in range(2)] == [[4, 6], [5, 0]]
    assert [left(states[3], rank, 2) for rank in range(2)] == [[6], [0]]
    assert [left(states[4], rank, 2) for rank in range(2)] == [[], []]
    assert [left(states[2], rank, 1) for rank in range(1)] == [[4, 5, 6]]
    assert [left(states[3], rank, 3) for rank in range(3)] == [[6], [0], [1]]
    assert [left(states[2], rank, 2, even=False) for rank in range(2)] == [[4, 6], [5]]


# --- training


def test_ranks_in_step_have_one_state(folder):
    how = {"batch_size": SIZE, "seed": 0, "world_size": 2, "even": False}
    with gz.open(folder) as ds:
        loaders = [gz.NeighborLoader(ds, [3], np.arange(SEEDS), rank=r, **how) for r in (0, 1)]
        passes = [iter(loader) for loader in loaders]
        for number in range(1, 5):
            assert [next(each, None) is None for each in passes] == [False, number == 4]
            first, second = (loader.state_dict() for loader in loaders)
            assert first == second
            assert (first["epoch"], first["batches"]) == (
                (1, 0) if number == 4 else (0, 2 * number)
            )
        del passes


def test_one_rank_may_train_alone(folder, two_ranks):
    """`train` is the work of one process: it takes all seeds, to train and to evaluate."""
    report = train(gz.open(folder), TrainOptions(epochs=1, fanouts=[3], batch_size=SIZE))
    assert report.epochs[0].batches == 7
    found = {name: split.num_nodes for name, split in report.splits.items()}
    assert found == {"train": 97, "val": 77, "test": 89}


# --- several processes


def run(*command):
    """Runs a program; if it does not end, its processes say where they are."""
    process = subprocess.Popen(
        [sys.executable, *map(str, command)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"},
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True},
        start_new_session=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGABRT)
        stacks = process.communicate()[1]
        pytest.fail(f"it has not ended:\n{stacks}")
    assert process.returncode == 0, stderr
    return SimpleNamespace(stdout=stdout, stderr=stderr)


@pytest.mark.filterwarnings("error:an epoch has:UserWarning")
def test_workers_say_it_once(folder):
    batches = make(folder, rank=0, world_size=2)
    batches.set_epoch(0)  # which workers of several ranks need
    with pytest.raises(UserWarning, match="an epoch has 7 batches"):
        list(loader_of(batches, 2))  # by either worker
    assert len(numbers_of(batches, loader_of(batches, 2))) == 4


SCRIPT_COMPARED = """
import itertools, json, sys
import numpy as np
import torch.distributed as dist
import torch.multiprocessing as mp
import graphzero as gz

folder, twin, features, edges, out = sys.argv[1:]
DIST, SEEDS = {"distributed": True, "batch_size": 16, "seed": 0, "shuffle": True}, np.arange(97)

def loader(path=folder, fanouts=[2], seeds=SEEDS, kind=gz.NeighborLoader, **options):
    return kind(gz.open(path), fanouts, seeds, **{**DIST, **options})

def of(*by_rank, name):
    return lambda rank: list(loader(**{name: by_rank[rank]}))

def open_form(rank):
    batches = gz.NeighborDataset(gz.open(folder), SEEDS, [2], **{**DIST, "seed": rank})
    batches.set_epoch(0)

def alone(rank):
    if rank == 0:
        len(loader())
        list(gz.NeighborLoader(gz.open(folder), [2], SEEDS[:9], **DIST))
    list(loader(seeds=SEEDS[:60]))
    list(loader())

def breaks_off(rank):
    batches = loader()
    for _ in range(2 - rank):
        next(iter(batches))

def looks_first(rank):
    batches = loader()
    if rank == 0:
        next(iter(batches))
    for epoch in range(3):
        batches.set_epoch(epoch)
        list(batches)

def resumes(rank, passes=0):
    batches = loader()
    for _ in range(passes):
        list(batches)
    state = batches.state_dict()
    if rank == 0:
        batches.load_state_dict({**state, "epoch": 4 if passes else 0, "batches": 2})
    list(batches)

def many(rank):
    batches = loader(num_threads=1)
    for _ in range(200):
        iter(batches)
    keys = dist.distributed_c10d._get_default_store().num_keys()
    assert keys < 120, keys

CASES = {
    "seed": of(0, 1, name="seed"),
    "batch_size": of(16, 8, name="batch_size"),
    "shuffle": of(True, False, name="shuffle"),
    "even": of(True, False, name="even"),
    "fanouts": of([2], [3], name="fanouts"),
    "num_seeds": of(SEEDS, SEEDS[1:], name="seeds"),
    "seeds_crc": of(SEEDS, SEEDS + 1, name="seeds"),
    "x": of(folder, features, name="path"),
    "edges": of(folder, edges, name="path"),
    "epoch": lambda rank: loader().set_epoch(rank),
    "epoch (1": lambda rank: resumes(1 - rank, passes=1),
    "amount": lambda rank: list(gz.LinkNeighborLoader(
        gz.open(folder), [2], neg_sampling=("binary", 1 + rank), **DIST)),
    "seed (0 on": open_form,
    "seed (": lambda rank: list(loader(distributed=None, rank=rank, world_size=2, seed=rank)),
    "same content": of(folder, twin, name="path"),
    "each rank alone": lambda rank: list(loader(distributed=False, seed=rank)),
    "another group": lambda rank: list(
        loader(distributed=None, rank=rank, world_size=4, seed=rank)),
    "not even": lambda rank: list(loader(even=False, drop_last=True)),
    "other attributes": of(["x"], [], name="gather"),
    "threads and workers": of(0, 1, name="num_workers"),
    "a loader of one rank": alone,
    "breaks off": breaks_off,
    "looks first": looks_first,
    "resumes in the middle": resumes,
    "many passes": many,
}

def run(rank):
    found = {}
    for group in range(2):  # the second group has a store of its own
        dist.init_process_group("gloo", init_method=f"file://{out}{group}", rank=rank, world_size=2)
        for name, case in CASES.items():
            for turn in range(2):
                dist.barrier()
                if rank == turn:
                    try:
                        case(rank)
                        found[f"{name} {group}"] = ""
                    except ValueError as error:
                        found[f"{name} {group}"] = str(error)
        dist.destroy_process_group()
    with open(f"{out}.{rank}", "w") as file:
        json.dump(found, file)

if __name__ == "__main__":
    mp.start_processes(run, nprocs=2, start_method="fork")
"""


@pytest.fixture(scope="module")
def compared(folder, tmp_path_factory):
    """What each case of the script has raised, by rank."""
    place = tmp_path_factory.mktemp("compared")
    twin, features, edges = (write_data(place / name) for name in ("twin", "x", "edges"))
    gz.set_attribute(features, "x", np.ones((NODES, 4), np.float32)).close()
    gz.append(edges, [[1, 2]]).close()
    (place / "script.py").write_text(SCRIPT_COMPARED)
    run(place / "script.py", folder, twin, features, edges, place / "out")
    return [json.loads((place / f"out.{rank}").read_text()) for rank in range(2)]


DIFFERENT = ["seed", "batch_size", "shuffle", "even", "fanouts", "num_seeds", "seeds_crc"]
DIFFERENT += ["edges", "epoch", "epoch (1", "x", "amount", "seed (0 on", "seed ("]
ALIKE = ["same content", "each rank alone", "another group", "not even", "other attributes"]
ALIKE += ["threads and workers", "a loader of one rank", "breaks off", "looks first"]
ALIKE += ["resumes in the middle", "many passes"]


@pytest.mark.parametrize("group", [0, 1])
@pytest.mark.parametrize("case", DIFFERENT)
def test_a_rank_that_shares_an_epoch_with_something_else_is_told(compared, case, group):
    first, second = (of_rank[f"{case} {group}"] for of_rank in compared)
    assert first == ""
    what = f"the content of the dataset ({case})" if case in ("x", "edges") else case
    assert re.match(r"ranks 0 and 1 share the epochs of a loader .*distributed=False$", second)
    assert what in second


@pytest.mark.parametrize("case", ALIKE)
def test_ranks_that_may_differ_are_not_told(compared, case):
    found = [of_rank[f"{case} {group}"] for group in range(2) for of_rank in compared]
    assert found == [""] * 4


@pytest.mark.extended
@pytest.mark.parametrize("drop_last", [False, True])
def test_two_ranks_train_and_evaluate(folder, tmp_path, drop_last):
    """3 epochs of 7 batches; ranks that wait for each other would run into the timeout."""
    ds = gz.open(folder)
    size = 13 if drop_last else SIZE  # 7 full batches, or 6 and a short one
    program = Path(__file__).resolve().parents[1] / "examples" / "train_ddp.py"
    done = run(
        *("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, program, folder),
        *("--epochs", 3, "--fanouts", 4, 3, "--predictions", tmp_path / "p.npz"),
        *("--batch-size", size, *(["--drop-last"] if drop_last else [])),
    )
    found = sorted(re.findall(r"rank (\d): epoch (\d): (\d) batches", done.stdout))
    count = "3" if drop_last else "4"
    assert found == [(rank, epoch, count) for rank in "01" for epoch in "123"]
    with np.load(tmp_path / "p.npz") as file:
        assert sorted(file["node_id"].tolist()) == sorted(ds.splits["test"].tolist())
    assert f"of {len(ds.splits['test'])} nodes" in done.stdout
