"""Batches of DataLoader workers in shared memory: the same, kept for as long as anyone has them."""

from __future__ import annotations

import errno
import multiprocessing
import os
import sys

import files
import numpy as np
import pytest
from loaders import loader_of
from others import keep
from ready_loaders import same, values_of

import graphzero as gz

torch = pytest.importorskip("torch")

from graphzero.loader import shared_blocks  # noqa: E402  (it imports torch)

# The C code that these loaders reach is sanitized by the tests of their open form.
pytestmark = pytest.mark.no_asan

NODES, MB = 20_000, 1 << 20
BATCH_SIZE = 500  # whose features take more than a megabyte
TYPES = [("user", "likes", "item"), ("item", "of", "user")]

lends = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems do not say who maps a file"
)


@pytest.fixture
def ds(tmp_path):
    features = np.random.default_rng(0).random((NODES, 64), np.float32)
    edges, labels = files.random_edges(NODES, 5 * NODES), np.arange(NODES) % 7
    with gz.build(tmp_path / "data", edges, features, labels, num_nodes=NODES) as opened:
        yield opened


@pytest.fixture
def typed(tmp_path):
    rng = np.random.default_rng(0)
    nodes = {name: {"x": rng.random((NODES, 32), np.float32)} for name in ("user", "item")}
    edges = {kind: files.random_edges(NODES, 3 * NODES, seed=len(kind[1])) for kind in TYPES}
    with gz.build(tmp_path / "typed", edges, nodes=nodes) as opened:
        yield opened


def batches_of(ds):
    seeds = ("user", np.arange(8 * BATCH_SIZE)) if ds.is_typed else np.arange(8 * BATCH_SIZE)
    return gz.NeighborDataset(ds, seeds, [4, 3], batch_size=BATCH_SIZE, seed=5)


def expected(batches):
    batches.set_epoch(0)
    return [gz.Collate(batches.dataset)(sampled) for sampled in batches]


def tensors_of(batch):
    return [value for value in values_of(batch).values() if isinstance(value, torch.Tensor)]


def file_of(tensor):
    """The number of the file in which a tensor is."""
    return os.fstat(tensor.untyped_storage()._share_fd_cpu_()[0]).st_ino


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("kind", ["ds", "typed"])
def test_batches_that_are_kept_stay_the_same(kind, method, request):
    """While others are made, and when the workers have ended."""
    batches = batches_of(request.getfixturevalue(kind))
    wanted = expected(batches)
    batches.set_epoch(0)
    kept = list(loader_of(batches, workers=2, method=method))
    assert len(kept) == len(wanted) == 8
    assert all(map(same, kept, wanted))
    assert all(tensor.is_shared() for batch in kept for tensor in tensors_of(batch))
    assert all(map(same, [batch.clone() for batch in kept], wanted))


def test_passes_with_persistent_workers_leave_kept_batches_alone(ds):
    batches = batches_of(ds)
    wanted = expected(batches)
    loader = loader_of(batches, workers=2, persistent_workers=True)
    kept = []
    for _ in range(4):
        batches.set_epoch(0)
        for number, batch in enumerate(loader):
            assert same(batch, wanted[number])
            if number % 3 == len(kept) % 3:
                kept.append((number, batch))
            batch = None
    del loader
    assert all(same(batch, wanted[number]) for number, batch in kept)


def test_other_sharing_of_torch(ds, monkeypatch):
    batches = batches_of(ds)
    wanted = expected(batches)
    batches.set_epoch(0)
    strategy = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy("file_system")
    try:
        kept = list(loader_of(batches, workers=2))
    finally:
        torch.multiprocessing.set_sharing_strategy(strategy)
    assert all(map(same, kept, wanted))


def test_small_tensors_have_one_storage_and_large_ones_their_own(ds):
    for batch in loader_of(batches_of(ds), workers=1):
        tensors = tensors_of(batch)
        small = {t.untyped_storage().data_ptr() for t in tensors if t.nbytes < MB}
        large = [t.untyped_storage().data_ptr() for t in tensors if t.nbytes >= MB]
        assert len(small) == 1
        assert len(large) == len({*large} - small) == 1
        assert batch.x.nbytes >= MB
        assert batch.y.untyped_storage().nbytes() < 2 * MB  # who keeps labels, keeps no features


@lends
def test_a_batch_that_nobody_has_leaves_its_memory_to_another(ds):
    loader = loader_of(batches_of(ds), workers=1)
    assert len({file_of(batch.x) for batch in list(loader)}) == 8
    used = []
    for batch in loader:
        used.append(file_of(batch.x))
        batch = None
    assert len(set(used)) < len(used) == 8


def take(blocks, num_bytes=MB):
    """A tensor as it is sent."""
    return blocks.placed([torch.zeros(num_bytes, dtype=torch.uint8)])[0]


@lends
def test_memory_is_used_again_once_it_is_free():
    blocks = shared_blocks.SharedBlocks()
    first = take(blocks)
    other, held = take(blocks), [first[5:7]]
    numbers = [file_of(first), file_of(other)]
    first = None
    assert file_of(take(blocks)) not in numbers  # of what is held
    array = blocks.empty((MB,), np.uint8)
    assert file_of(gz.loader.mini_batch.as_tensor(array)) not in numbers
    held.clear()
    again = take(blocks)
    assert file_of(again) == numbers[0]
    assert file_of(take(blocks, 8 * MB)) not in numbers
    assert file_of(blocks.placed([torch.zeros(3)])[0]) not in numbers


@lends
@pytest.mark.parametrize("end", ["exits", "is killed"])
def test_memory_that_a_forked_process_has_is_not_used_again(end):
    blocks = shared_blocks.SharedBlocks()
    sent = take(blocks)
    number = file_of(sent)
    waits, wakes = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(wakes)
        os.read(waits, 1)
        os._exit(int(sent.any()))
    sent = None
    others = [take(blocks).fill_(1) for _ in range(3)]
    assert number not in map(file_of, others)
    if end == "is killed":
        os.kill(process, 9)
    os.write(wakes, b"!")
    _, status = os.waitpid(process, 0)
    assert status == (9 if end == "is killed" else 0)
    assert file_of(take(blocks)) == number
    os.close(waits)
    os.close(wakes)


@lends
def test_memory_that_another_process_was_sent_is_not_used_again():
    blocks, context = shared_blocks.SharedBlocks(), torch.multiprocessing.get_context("spawn")
    queue, answers = context.Queue(), multiprocessing.get_context("spawn").Queue()
    process = context.Process(target=keep, args=(queue, answers))
    process.start()
    sent = take(blocks)
    number = file_of(sent)
    queue.put(sent)
    sent = None
    assert answers.get(timeout=60) == "has it"
    others = [take(blocks).fill_(1) for _ in range(3)]
    assert number not in map(file_of, others)
    queue.put("show it")
    assert answers.get(timeout=60) == 0
    process.join()
    assert file_of(take(blocks)) == number


def test_a_forked_child_has_no_blocks():
    blocks = shared_blocks.WORKER_BLOCKS
    number = file_of(take(blocks))
    process = os.fork()
    if process == 0:
        os._exit(int(file_of(take(blocks)) == number))
    assert os.waitpid(process, 0)[1] == 0
    blocks.clear()


@lends
def test_scarce_memory_is_not_kept(monkeypatch):
    blocks = shared_blocks.SharedBlocks()
    number, kept = file_of(take(blocks)), take(blocks, 3 * MB)
    monkeypatch.setattr(shared_blocks, "is_shared_memory_scarce", lambda: True)
    assert file_of(take(blocks)) != number
    monkeypatch.undo()
    assert file_of(take(blocks)) != number
    assert not kept.any()


def test_full_shared_memory_is_an_error_with_a_remedy(monkeypatch):
    class Full:
        def _new_shared(self, num_bytes):
            raise RuntimeError(f"unable to allocate: {os.strerror(errno.ENOSPC)} (28)")

    monkeypatch.setattr(shared_blocks, "is_shared_memory_scarce", lambda: True)
    monkeypatch.setattr(shared_blocks, "_STORAGES", Full())
    with pytest.raises(OSError, match=r"mini-batch of 2\.1 MB does not fit .*num_wor") as refused:
        shared_blocks.SharedBlocks().empty((2 * MB,), np.uint8)
    assert (refused.value.errno, refused.value.filename) == (errno.ENOSPC, "/dev/shm")
