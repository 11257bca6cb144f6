"""Arrays of every dtype of the format, and what they are as float32."""

from __future__ import annotations

import numpy as np
import torch

from graphzero.store.format import BFLOAT16, DTYPES, dtype_name

NAMES = {dtype_name(dtype): dtype for dtype in DTYPES.values()}


def draw(dtype, shape, seed=0):
    """Random bits as numbers of a dtype: all kinds of them, but for NaN."""
    rng = np.random.default_rng(seed)
    most = 2 if dtype == np.bool_ else 256
    values = rng.integers(0, most, (*shape, dtype.itemsize), np.uint8).view(dtype)[..., 0]
    if dtype.kind in "fV":
        values[np.isnan(as_float32(values))] = np.zeros((), dtype)
    return values


def as_float32(values):
    """By NumPy, or torch, which knows bfloat16."""
    if values.dtype == BFLOAT16:
        return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16).float().numpy()
    with np.errstate(over="ignore", invalid="ignore"):
        return values.astype(np.float32)


def as_bits(tensor):
    """Bytes of a tensor or array, whatever the dtype."""
    if isinstance(tensor, torch.Tensor):
        tensor = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
        tensor = tensor.numpy()
    return np.ascontiguousarray(tensor).tobytes()
