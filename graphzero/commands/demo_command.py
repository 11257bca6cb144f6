"""``graphzero demo``, and its synthetic graph, whose neighbours tell the labels."""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm

from graphzero.commands.parsing import Command, add_option, shows_progress
from graphzero.commands.train_commands import (
    add_training_options,
    report_of,
    train_and_print,
    training_options,
)
from graphzero.store.outputs import check_outputs
from graphzero.units import as_count, print_lines

_BLOCK = 1 << 16
_FILES = ("edges.csv", "features.npy", "labels.npy")
_SPLITS = ("train", "val", "test")
_INSIDE = 0.7  # share of the edges whose ends are in the same community
_SIGNAL = 0.6  # norm of a class's mean feature vector; the noise has deviation 1 in every column
_SKEW = 2  # of the degrees: the exponent of their power law is 3

Ints = npt.NDArray[np.int64]


def _add_demo_options(parser: argparse.ArgumentParser) -> None:
    add = partial(add_option, parser)
    add("--nodes N", "number of nodes", default=200_000, dest="num_nodes")
    add("--edges N", "number of edges", default=3_000_000, dest="num_edges")
    add("--dim N", "features of a node", default=128)
    text = "number of classes; each is a community"
    add("--classes N", text, default=16, dest="num_classes")
    add(
        "--dir DIR",
        "write all files to this folder, created if needed, and keep them (default: a temporary "
        "folder, deleted at the end)",
    )
    add_training_options(parser)
    parser.set_defaults(epochs=2)


def _demo(args: argparse.Namespace) -> None:
    """Generate a synthetic graph, build a dataset from its files, and train on it.

    graphzero demo
    graphzero demo --nodes 1000000 --edges 20000000 --dir demo/
    """
    from graphzero.api import build  # pyarrow takes long to import

    def tell(text: str) -> None:
        if not args.quiet:
            print_lines(text)

    training_options(args)  # wrong options are errors before anything is generated
    temporary = partial(tempfile.TemporaryDirectory, None, "graphzero-demo-", None, True)
    with nullcontext(args.dir) if args.dir else temporary() as name:
        folder = Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        check_outputs(report_of(args))
        tell(f"generating {args.num_nodes:,} nodes and {args.num_edges:,} edges in {folder}")
        progress = shows_progress(args)
        files = write_demo(
            folder,
            num_nodes=args.num_nodes,
            num_edges=args.num_edges,
            dim=args.dim,
            num_classes=args.num_classes,
            seed=args.seed,
            progress=progress,
        )
        tell("building a dataset from edges.csv and the .npy files")
        with build(folder / "dataset", **files, directed=False, progress=progress) as ds:
            tell(f"training on {ds.num_nodes:,} nodes and {ds.num_edges:,} edges")
            train_and_print(ds, args)


# --- the graph


def _edge_blocks(
    rng: np.random.Generator, members: Ints, num_classes: int, count: int
) -> Iterator[Ints]:
    """Blocks of `count` edges, (n, 2): degrees follow a power law, most ends share a community.

    Each node of `members` is likelier than the next to be an end, and of the next community.
    """
    for begin in range(0, count, _BLOCK):
        size = min(_BLOCK, count - begin)
        source, target = (members.size * rng.random((2, size)) ** _SKEW).astype(np.int64)
        same = target - (target - source) % num_classes  # the nearest of the same community
        same += np.where(same < 0, num_classes, 0)
        target = np.where(rng.random(size) < _INSIDE, same, target)
        yield members[np.stack([source, target], axis=1)]


def write_demo(
    folder: str | os.PathLike[str],
    *,
    num_nodes: int = 200_000,
    num_edges: int = 3_000_000,
    dim: int = 128,
    num_classes: int = 16,
    seed: int = 0,
    progress: bool = False,
) -> dict[str, Any]:
    """Writes ``edges.csv`` and ``.npy`` files of a synthetic graph with communities.

    A node's class is its community. The degrees follow a power law, and seven of ten edges stay
    within a community. A feature row is the mean of the class plus noise. There is so much noise
    that a node's own features say little about its class; those of its neighbours say more.

    Parameters
    ----------
    folder : path-like
        Created if it does not exist.
    num_nodes, num_edges : int
    dim : int
        Features of a node.
    num_classes : int
    seed : int
    progress : bool
        Show a bar on stderr.

    Returns
    -------
    dict
        Arguments of `graphzero.build`: the paths of edges, features, labels and splits.

    Raises
    ------
    ValueError
        If a size is not positive, or there are more classes than nodes.
    """
    for name, value in (("num_nodes", num_nodes), ("num_edges", num_edges), ("dim", dim)):
        as_count(value, name)
    as_count(num_classes, "num_classes", 2, num_nodes)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    edges, features, of_labels = (folder / name for name in _FILES)
    splits = [folder / f"{split}.npy" for split in _SPLITS]
    rng = np.random.default_rng(seed)
    members = rng.permutation(num_nodes)
    labels = np.empty(num_nodes, np.int64)
    labels[members] = np.arange(num_nodes) % num_classes
    with open(edges, "w") as file:
        file.write("src,dst\n")
        with tqdm(None, "edges", num_edges, unit_scale=True, disable=not progress) as bar:
            for pairs in _edge_blocks(rng, members, num_classes, num_edges):
                file.write("".join(map("%d,%d\n".__mod__, map(tuple, pairs.tolist()))))
                bar.update(len(pairs))
    means = rng.standard_normal((num_classes, dim))
    means *= _SIGNAL / np.linalg.norm(means, axis=1, keepdims=True)
    rows = np.lib.format.open_memmap(features, "w+", np.dtype(np.float32), (num_nodes, dim))
    for begin in range(0, num_nodes, _BLOCK):
        part = labels[begin : begin + _BLOCK]
        noise = rng.standard_normal((part.size, dim), dtype=np.float32)
        rows[begin : begin + part.size] = means[part] + noise
    rows.flush()
    np.save(of_labels, labels)
    parts = np.split(rng.permutation(num_nodes), [num_nodes * 6 // 10, num_nodes * 8 // 10])
    for path, nodes in zip(splits, parts, strict=True):
        np.save(path, np.sort(nodes))
    by_name = dict(zip(_SPLITS, splits, strict=True))
    return {"edges": edges, "features": features, "labels": of_labels, "splits": by_name}


DEMO = Command("demo", _add_demo_options, _demo)
