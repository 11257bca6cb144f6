"""What tests of the ready-made loaders share: batches compared byte for byte."""

from __future__ import annotations

import torch

import graphzero as gz


def same(batch, other):
    """Whether two mini-batches have the same attributes, bytes and dtypes."""
    assert batch.keys() == other.keys()
    for name in batch.keys():
        value, expected = batch[name], other[name]
        if isinstance(expected, torch.Tensor):
            assert value.dtype == expected.dtype
            assert torch.equal(value, expected), name
        else:
            assert value == expected, name
    return True


def all_same(batches, others):
    """Whether two sequences of mini-batches are the same, and not empty."""
    batches, others = list(batches), list(others)
    assert len(batches) == len(others) > 0
    return all(map(same, batches, others))


def open_form(source, epoch=None):
    """The mini-batches of one pass over a dataset of seeds, by `gz.Collate`."""
    if epoch is not None:
        source.set_epoch(epoch)
    return list(map(gz.Collate(source.dataset), source))
