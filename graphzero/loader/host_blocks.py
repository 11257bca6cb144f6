"""`HostBlock`: memory in which all arrays of a mini-batch lie, so that one copy sends them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graphzero import _core
from graphzero.graph.user_input import Values

_ALIGNMENT = 64  # bytes; a view of the block as any dtype begins at a multiple of it


def room(num_bytes: int) -> int:
    """Bytes of a block that an array of so many bytes takes."""
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT


@dataclass(frozen=True)
class RowPlaces:
    """Which rows of a mini-batch are on the device, and which are sent.

    Attributes
    ----------
    missing_at : (n,) int32 or int64
        Places of the rows that are sent.
    resident_at, resident_ids : (m,) int32 or int64
        Places of the others, and their numbers among the rows on the device.
    """

    missing_at: Values
    resident_at: Values
    resident_ids: Values


class HostBlock:
    """Memory for the arrays of one mini-batch, one after the other.

    Whoever has an array or a tensor over it keeps the memory. Page-locked memory comes from torch's
    allocator, which lends it again once it is free and was copied; other memory from the pool.

    Parameters
    ----------
    num_bytes : int
    pinned : bool
        Whether it is page-locked.

    Attributes
    ----------
    memory : (num_bytes,) uint8 tensor
    """

    def __init__(self, num_bytes: int, *, pinned: bool) -> None:
        num_bytes = room(max(1, num_bytes))
        if pinned:
            self.memory = torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True)
        else:
            self.memory = torch.from_numpy(_core.empty((num_bytes,), np.uint8))
        self._bytes = self.memory.numpy()
        self._used = 0

    def empty(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> Values:
        """``numpy.empty``, in the next bytes of the block.

        Raises
        ------
        MemoryError
            If the block has no room for it.
        """
        dtype = np.dtype(dtype)
        num_bytes = math.prod(shape) * dtype.itemsize
        begin = self._take(num_bytes)
        if begin is None:
            raise MemoryError(f"no room for {num_bytes:,} bytes in a block of {len(self._bytes):,}")
        return self._bytes[begin : begin + num_bytes].view(dtype).reshape(shape)

    def _take(self, num_bytes: int) -> int | None:
        """Where the next bytes begin; None if there are not so many."""
        begin = self._used
        if begin + room(num_bytes) > len(self._bytes):
            return None
        self._used += room(num_bytes)
        return begin

    def place(self, tensor: Tensor) -> int | None:
        """Where the elements of a tensor begin in the block; they are copied if need be.

        None if there is no room for them.
        """
        begin = tensor.data_ptr() - self.memory.data_ptr()
        if 0 <= begin < self._used and tensor.is_contiguous():
            return begin
        place = self._take(tensor.nbytes)
        if place is not None:
            view_of(self.memory, place, tensor).copy_(tensor)
        return place

    def hold(self, tensor: Tensor) -> Tensor:
        """A tensor, over the block or, where that has no room, in page-locked memory of its own."""
        if tensor.numel() == 0:
            return tensor
        begin = self.place(tensor)
        return tensor.pin_memory() if begin is None else view_of(self.memory, begin, tensor)

    @property
    def used(self) -> Tensor:
        """The bytes that have arrays, from the first one on."""
        is_full = self._used == len(self._bytes)
        return self.memory if is_full else self.memory[: self._used]


def view_of(memory: Tensor, begin: int, tensor: Tensor) -> Tensor:
    """A tensor over bytes of some memory, of the dtype and shape of another."""
    return memory[begin : begin + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
