"""Which nodes can be trained on, and how many classes there are."""

from __future__ import annotations

import numpy as np

from graphzero.graph.dataset import Dataset
from graphzero.graph.ids import MOST_COUNT, IdArray
from graphzero.store.format import dtype_name

__all__ = ["SPLIT_NAMES", "count_classes", "labelled_splits", "labels_of", "nodes_of_splits"]

SPLIT_NAMES = {"train": "train", "val": "val", "valid": "val", "test": "test"}


# A model may have some classes that no label names, but not mostly such classes.
_MOST_SPARSE_CLASSES = 10_000
_MOST_CLASSES_PER_LABEL = 10


def labels_of(ds: Dataset, seeds: IdArray) -> IdArray:
    """Classes of nodes, (n,) int64; -1 where the class is unknown.

    Raises
    ------
    ValueError
        If a label does not fit 63 bits.
    """
    assert ds.labels is not None
    labels = ds.labels.gather(seeds).reshape(-1)
    if labels.dtype == np.uint64 and labels.size and int(labels.max()) > MOST_COUNT:
        raise ValueError(
            f"label {labels.max()} of node {seeds[labels.argmax()]} does not fit 63 bits: "
            f"store labels in a signed dtype, with -1 for unknown"
        )
    return labels.astype(np.int64)


def nodes_of_splits(ds: Dataset) -> dict[str, IdArray]:
    """All nodes of every split, by the dataset's names; without splits, all nodes as "train"."""
    return dict(ds.splits) if ds.splits else {"train": np.arange(ds.num_nodes)}


def labelled_splits(ds: Dataset) -> dict[str, IdArray]:
    """Nodes whose label is known, of each of the splits train, val and test that there are.

    The split "valid" is called val here. A split without labelled nodes is left out. Without any
    split, all nodes are in "train".

    Raises
    ------
    ValueError
        If the dataset cannot be trained on; the message says why.
    """
    if ds.features is None:
        raise ValueError("the dataset has no features: build it with features to train on it")
    if ds.labels is None:
        raise ValueError("the dataset has no labels: build it with labels to train on it")
    if ds.labels.dtype.kind not in "iu" or ds.labels.feature_dim != 1:
        raise ValueError(
            f"labels are {dtype_name(ds.labels.dtype)} of shape {ds.labels.shape}: training needs "
            f"one integer class per node, from 0, or -1 for unknown"
        )
    nodes = nodes_of_splits(ds)
    named = {SPLIT_NAMES[name]: nodes[name] for name in nodes if name in SPLIT_NAMES}
    if "train" not in named:
        raise ValueError(f"there is no split 'train', only {sorted(ds.splits)}")
    labelled = {}
    for name, seeds in named.items():
        labels = labels_of(ds, seeds)
        if labels.size and labels.min() < -1:
            raise ValueError(f"label {labels.min()} in split {name!r}: classes start at 0")
        if (labels >= 0).any():
            labelled[name] = seeds[labels >= 0]
    if "train" not in labelled:
        raise ValueError("no node to train on has a known label")
    return labelled


def count_classes(ds: Dataset, splits: dict[str, IdArray]) -> int:
    """The dataset's number of classes; if it has none, the largest label + 1.

    Raises
    ------
    ValueError
        If a label is not below the dataset's number of classes, or the labels look like ids.
    """
    of_splits = [labels_of(ds, seeds) for seeds in splits.values()]
    largest = max(int(labels.max()) for labels in of_splits)
    if ds.num_classes is not None and largest >= ds.num_classes:
        raise ValueError(f"label {largest} is not below num_classes={ds.num_classes}")
    num_classes = ds.num_classes if ds.num_classes is not None else largest + 1
    if num_classes > _MOST_SPARSE_CLASSES:
        used = len(np.unique(np.concatenate(of_splits)))
        if num_classes > _MOST_CLASSES_PER_LABEL * used:
            raise ValueError(
                f"the labels would make a model of {num_classes:,} classes, but only {used:,} "
                f"different ones occur: if they are ids, number the classes from 0, as "
                f"numpy.unique(labels, return_inverse=True)[1] does, and build again"
            )
    return num_classes
