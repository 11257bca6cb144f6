"""What tests of the ready-made loaders share: batches compared byte for byte."""

from __future__ import annotations

import torch

import graphzero as gz

OPTIONS = {"batch_size": 20, "seed": 5}
WORKERS = [(0, False), (2, False), (2, True)]  # and whether they are persistent


def values_of(batch):
    """The attributes of a mini-batch; with types, by type and name."""
    values = batch.to_dict()
    if isinstance(batch, gz.TypedMiniBatch):
        return {(kind, name): value for kind in values for name, value in values[kind].items()}
    return values


def same(batch, other):
    """Whether two mini-batches have the same attributes, bytes and dtypes."""
    values = values_of(batch)
    assert values.keys() == values_of(other).keys()
    for name, expected in values_of(other).items():
        value = values[name]
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


def loader_of(ds, input_nodes="train", workers=0, method="fork", **options):
    if workers:
        options.update(num_workers=workers, multiprocessing_context=method)
    return gz.NeighborLoader(ds, [4, 3], input_nodes, **{**OPTIONS, **options})


def reference(ds, seeds=None, **options):
    seeds = ds.splits["train"] if seeds is None else seeds
    return gz.NeighborDataset(ds, seeds, [4, 3], **{**OPTIONS, **options})
