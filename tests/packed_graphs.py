"""Small graphs with several row files, and their packs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from files import read_file

import graphzero as gz
from graphzero.store.format import FileWriter, layout

SAMPLING: dict[str, Any] = {"batch_size": 7, "shuffle": True, "seed": 5}
PAPERS, AUTHORS = 60, 25
WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")


def build_typed(folder: Path) -> Path:
    rng = np.random.default_rng(0)
    gz.build(
        folder,
        nodes={
            "paper": {"x": rng.random((PAPERS, 30), np.float32), "y": rng.integers(0, 3, PAPERS)},
            "author": {"x": rng.random((AUTHORS, 5), np.float32)},
        },
        edges={
            WRITES: {
                "edge_index": [rng.integers(0, AUTHORS, 300), rng.integers(0, PAPERS, 300)],
                "edge_attr": rng.random((300, 2), np.float32),
            },
            CITES: rng.integers(0, PAPERS, (2, 400)),
        },
        splits={"train": {"paper": rng.permutation(PAPERS)[:40]}, "odd": {"author": [1, 2]}},
        time_attrs="y",
    ).close()
    return folder


def build_untyped(folder: Path) -> Path:
    rng = np.random.default_rng(1)
    gz.build(
        folder,
        {
            "edge_index": rng.integers(0, PAPERS, (2, 500)),
            "edge_weight": rng.random(500, np.float32),
            "edge_attr": rng.random((500, 3, 2), np.float32),
        },
        nodes={
            "x": rng.random((PAPERS, 6), np.float32),
            "y": rng.integers(0, 3, PAPERS),
            "image": rng.integers(0, 255, (PAPERS, 10, 10), np.uint8),
        },
        splits={"train": rng.permutation(PAPERS)[:40]},
        directed=False,
    ).close()
    return folder


SEEDS: dict[str, Any] = {"typed": ("paper", np.arange(3, 40)), "untyped": np.arange(3, 40)}
PARTS = {
    "typed": [("paper", "x"), ("author", "x"), (WRITES, "edge_attr")],
    "untyped": ["x", "image", "edge_attr"],
}


def make(ds: Any, out: Path, seeds: Any, **options: Any) -> Path:
    return gz.pack(ds, out, seeds, [4, 3], **{"epochs": 2, **SAMPLING, **options})


def rows_of(batches: Any, epoch: int) -> list[Any]:
    """Everything that the mini-batches of an epoch have, as bytes."""
    batches.set_epoch(epoch)
    return [content_of(sampled) for sampled in batches]


def content_of(sampled: Any) -> dict[str, Any]:
    found = {str(key): (rows.shape, rows.tobytes()) for key, rows in sampled.rows.items()}
    for name in ("n_id", "edge_index", "e_id"):
        for kind, ids in getattr(sampled.by_type, name).items():
            found[f"{name} {kind}"] = None if ids is None else ids.tobytes()
    return {**found, "input_id": sampled.input_id.tobytes()}


def rewrite(source: Path, out: Path, **changed: Any) -> None:
    """The same file with other sections, and checksums that fit them."""
    header, arrays = read_file(source)
    arrays.update(changed)
    names: list[Any] = [(name, array.dtype, array.size) for name, array in arrays.items()]
    new = layout(
        "features", names, num_nodes=header.num_nodes, width=header.width, flags=header.flags
    )
    with FileWriter(out, new) as writer:
        for name, array in arrays.items():
            writer.append(name, array)
