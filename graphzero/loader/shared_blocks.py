"""`SharedBlocks`: the shared memory in which DataLoader workers send mini-batches, used again."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from mmap import PAGESIZE
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphzero import _core
from graphzero.graph.user_input import Values
from graphzero.io.memory import is_shared_memory_scarce, shared_memory_is_full
from graphzero.loader.host_blocks import room

# A storage costs the training process a message to the worker, about as long as copying this much.
# Who keeps one small tensor of a mini-batch keeps the other small ones, but no large one.
_LARGE_BYTES = 1 << 20
_MOST_IDLE_TURNS = 64  # others that are taken before a block that nobody needed is given back


class _Storages(Protocol):
    """What torch's class of storages does, which has no types."""

    def _new_shared(self, num_bytes: int) -> torch.UntypedStorage: ...
    def _new_shared_fd_cpu(self, descriptor: int, num_bytes: int) -> torch.UntypedStorage: ...


_STORAGES = cast(_Storages, torch.UntypedStorage)
_sharing_strategy = cast("Callable[[], str]", torch.multiprocessing.get_sharing_strategy)


class SharedArray:
    """Bytes of shared memory; NumPy arrays over them keep them.

    Attributes
    ----------
    written : UntypedStorage
        Mapped for as long as the block is used, so that writing meets no page faults.
    sent : UntypedStorage
        The same bytes, for tensors that go to another process; see `SharedBlocks`.
    """

    def __init__(self, written: torch.UntypedStorage, sent: torch.UntypedStorage) -> None:
        self.written = written
        self.sent = sent
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (written.nbytes(),),
            "data": (written.data_ptr(), False),
        }

    def array(self, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Values:
        """An array over the first bytes."""
        num_bytes = math.prod(shape) * dtype.itemsize
        return np.asarray(self)[:num_bytes].view(dtype).reshape(shape)

    def tensor(self, tensor: Tensor) -> Tensor:
        """What is to be sent for a tensor over `written`."""
        offset = tensor.data_ptr() - self.written.data_ptr()
        return _view(self.sent, tensor, offset)

    def place(self, tensor: Tensor, offset: int) -> Tensor:
        """What is to be sent for a tensor, which is copied."""
        tensor = tensor.contiguous()
        _view(self.written, tensor, offset).copy_(tensor)
        return _view(self.sent, tensor, offset)


def _view(storage: torch.UntypedStorage, tensor: Tensor, offset: int) -> Tensor:
    """A tensor over bytes of a storage, of the dtype and shape of another."""
    empty = torch.empty(0, dtype=tensor.dtype)
    first = offset // tensor.element_size()
    return empty.set_(storage, first, tensor.size(), tensor.stride())


def shared_memory_of(array: Values) -> SharedArray | None:
    """The shared memory that an array is over."""
    owner: object = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return owner if isinstance(owner, SharedArray) else None


@dataclass
class _Block:
    """Memory that is used again.

    Attributes
    ----------
    storage : UntypedStorage
    turn : int
        When it was last taken.
    """

    storage: torch.UntypedStorage
    turn: int = 0

    @property
    def num_bytes(self) -> int:
        return self.storage.nbytes()

    def is_free(self) -> bool:
        """Whether no process has what was lent."""
        descriptor = _descriptor(self.storage)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return True

    def lend(self) -> torch.UntypedStorage:
        """Another mapping of it. It is not free until this one and all that follow from it end."""
        again = os.open(f"/proc/self/fd/{_descriptor(self.storage)}", os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(again, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return _STORAGES._new_shared_fd_cpu(again, self.num_bytes)
        finally:
            os.close(again)


def _descriptor(storage: torch.UntypedStorage) -> int:
    """Of the file of a storage, which closes it."""
    return int(storage._share_fd_cpu_()[0])


@cache
def _is_lent_safely() -> bool:
    """Whether this system keeps the lock of a file that is only mapped, and ends it after that."""
    block = _Block(_STORAGES._new_shared(1))
    try:
        lent = block.lend()
        was_free = block.is_free()
        del lent
        return block.is_free() and not was_free
    except OSError:  # no /proc, or no such locks
        return False


class SharedBlocks:
    """Shared memory for the mini-batches of a worker, in blocks that are used again.

    A fresh block costs a page fault and zeroes for every 4 KiB. Tensors are sent over a file that
    was opened again and locked. The kernel ends this lock with the last mapping and descriptor of
    the opened file, in whatever process they are: one that got the tensors from the training
    process or was forked by it, or one that was killed. Only then the block is free.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Drops all blocks; in a forked child, where they are the parent's."""
        self._turns = threading.Lock()
        self._blocks: list[_Block] = []
        self._turn = 0

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Values:
        """``numpy.empty``, in shared memory where the array is large."""
        dtype = np.dtype(dtype)
        num_bytes = math.prod(shape) * dtype.itemsize
        if num_bytes < _LARGE_BYTES:
            return _core.empty(shape, dtype)
        return self.take(num_bytes).array(shape, dtype)

    def placed(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Tensors in shared memory: each large one by itself, the others in one storage."""
        small = [tensor for tensor in tensors if _is_small(tensor)]
        together = self.take(sum(room(tensor.nbytes) for tensor in small)) if small else None
        placed, offset = [], 0
        for tensor in tensors:
            if _is_shared(tensor):
                placed.append(tensor)
            elif together is not None and _is_small(tensor):
                placed.append(together.place(tensor, offset))
                offset += room(tensor.nbytes)
            else:
                placed.append(self.take(tensor.nbytes).place(tensor, 0))
        return placed

    def take(self, num_bytes: int) -> SharedArray:
        """Memory for so many bytes, or some more; at least one.

        Raises
        ------
        OSError
            With ``errno.ENOSPC``, if no shared memory is left.
        """
        with self._turns:
            self._turn += 1
            num_bytes = max(1, num_bytes)
            is_scarce = is_shared_memory_scarce()
            if is_scarce or _sharing_strategy() != "file_descriptor" or not _is_lent_safely():
                self._blocks = [block for block in self._blocks if not block.is_free()]
                storage = _new_storage(num_bytes)
                return SharedArray(storage, storage)
            block = self._idle(num_bytes)
            if block is None:
                block = _Block(_new_storage(_rounded(num_bytes)))
                self._blocks.append(block)
            block.turn = self._turn
            return SharedArray(block.storage, block.lend())

    def _idle(self, num_bytes: int) -> _Block | None:
        """The free block that fits best, and of these the last that was used.

        If none fits, one that is a little too small is dropped for the new one: mini-batches of
        varying size must not pile up blocks.
        """
        free = sorted((b for b in self._blocks if b.is_free()), key=lambda block: block.turn)
        fitting = [b for b in reversed(free) if num_bytes <= b.num_bytes <= 2 * num_bytes]
        chosen = min(fitting, key=lambda block: block.num_bytes, default=None)
        unused = [b for b in free if self._turn - b.turn > _MOST_IDLE_TURNS and b is not chosen]
        too_small = [b for b in free if b.num_bytes < num_bytes <= 2 * b.num_bytes]
        for block in unused or (too_small[:1] if chosen is None else []):
            self._blocks.remove(block)
        return chosen


def _new_storage(num_bytes: int) -> torch.UntypedStorage:
    try:
        return _STORAGES._new_shared(num_bytes)
    except RuntimeError as error:
        if os.strerror(errno.ENOSPC) not in str(error):
            raise
        raise shared_memory_is_full(num_bytes) from error


def _rounded(num_bytes: int) -> int:
    """Up to an eighth more, so that mini-batches of similar sizes have the same block."""
    step = max(PAGESIZE, 1 << max(0, num_bytes.bit_length() - 4))
    return -(-num_bytes // step) * step


def _is_shared(tensor: Tensor) -> bool:
    return tensor.is_shared()  # type: ignore[no-untyped-call, no-any-return]


def _is_small(tensor: Tensor) -> bool:
    return not _is_shared(tensor) and tensor.nbytes < _LARGE_BYTES


WORKER_BLOCKS = SharedBlocks()  # of this process, if it is a DataLoader worker
os.register_at_fork(after_in_child=WORKER_BLOCKS.clear)
