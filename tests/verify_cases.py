"""Datasets, and values to change in them, for `test_verify`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import files
import numpy as np
import typed_inputs

import graphzero as gz

NODES, EDGES = 40, 300
Arrays = dict[str, np.ndarray]


def _edges(num_edges: int = EDGES) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    ends = files.random_edges(NODES, num_edges, seed=1)
    ends[:3] = [[5, 5], [0, 1], [1, 0]]
    return {
        "edge_index": ends.T,
        "edge_attr": rng.random((num_edges, 2), np.float32),
        "edge_weight": rng.random(num_edges, np.float32),
        "edge_time": rng.integers(0, 50, num_edges),
    }


def _nodes() -> dict[str, Any]:
    rng = np.random.default_rng(3)
    return {
        "x": rng.random((NODES, 3), np.float32),
        "y": np.arange(NODES) % 4 - 1,
        "box": rng.random((NODES, 2, 2), np.float32),
        "half": rng.random(NODES).astype(np.float16),
    }


def _untyped(folder: Path, **options: Any) -> None:
    splits, edge_splits = {"train": [3, 0, 39]}, {"some": [299, 0]}
    options = {"nodes": _nodes(), "splits": splits, "edge_splits": edge_splits, **options}
    gz.build(folder, _edges(), **options).close()


def _typed(folder: Path, **options: Any) -> None:
    rng = np.random.default_rng(4)
    edges = {
        ("author", "writes", "paper"): {
            "edge_index": [rng.integers(0, 9, 60), rng.integers(0, NODES, 60)],
            "weight": rng.random(60),
        },
        ("paper", "cites", "paper"): _edges(),
    }
    nodes = {"paper": _nodes(), "author": {"num_nodes": 9}}
    options = {"splits": {"train": {"paper": [0, 39]}}, **options}
    gz.build(folder, edges, nodes=nodes, **options).close()


def _mapped(folder: Path, ids: np.ndarray) -> None:
    gz.build(folder, ids[[[0, 1], [1, 2], [2, 0]]], splits={"train": ids[:1]}, ids="map").close()


def _learnt(folder: Path, ids: np.ndarray) -> None:
    _mapped(folder, ids[:3])
    gz.append(folder, ids[[[0, 3], [4, 1], [2, 0]]]).close()


SMALL = gz.Presample(fanouts=(3, 2), batch_size=4, min_batches=3)
DATASETS: dict[str, Callable[[Path], None]] = {
    "in": lambda folder: _untyped(folder, order="input"),
    "out": lambda folder: _untyped(folder, neighbors="out", edge_ids=True),
    "both": lambda folder: _untyped(folder, neighbors="both"),
    "undirected": lambda folder: _untyped(folder, directed=False),
    "presample": lambda folder: _untyped(folder, order="presample", presample=SMALL),
    "time of nodes": lambda folder: _untyped(
        folder, directed=False, nodes={**_nodes(), "year": np.arange(NODES)}, time_attrs="year"
    ),
    "time of nodes, both": lambda folder: _untyped(
        folder, neighbors="both", nodes={**_nodes(), "year": np.arange(NODES)}, time_attrs="year"
    ),
    "held out": lambda folder: _untyped(folder, edge_splits=gz.LinkSplit(val=0.1, test=0.1)),
    "bare": lambda folder: gz.build(folder, [[0, 1], [1, 2], [2, 0]], edge_ids=False).close(),
    "no edges": lambda folder: gz.build(
        folder, np.empty((0, 2), np.int64), num_nodes=3, neighbors="both"
    ).close(),
    "integers": lambda folder: _mapped(folder, np.array([5, -3, 1 << 62])),
    "unsigned": lambda folder: _mapped(folder, np.array([5, 3, 1 << 63], np.uint64)),
    "texts": lambda folder: _mapped(folder, np.array(["bc", "a", "ü"])),
    "new integers": lambda folder: _learnt(folder, np.array([5, -3, 9, 7, -8])),
    "new texts": lambda folder: _learnt(folder, np.array(["bc", "a", "ü", "b", "c"])),
    "typed, texts": lambda folder: gz.build(
        folder,
        {("a", "to", "b"): np.array([["x", "y"], ["y", "z"]])},
        nodes={"a": {}, "b": {}},
        ids="map",
    ).close(),
    "typed": _typed,
    "typed, input": lambda folder: _typed(folder, order="input", neighbors="out"),
    "typed, small": lambda folder: gz.build(folder, **typed_inputs.small()).close(),
}


def descent(arrays: Arrays) -> tuple[int, int]:
    """An entry of a list that would be below the one before, and 0 for it."""
    first = np.zeros(len(arrays["indices"]) + 1, np.bool_)
    first[arrays["indptr"]] = True
    above = np.flatnonzero(~first[1:-1] & (arrays["indices"][:-1] > 0)) + 1
    return int(above[-1]), 0


def at(entry: int, value: Any) -> Callable[[Arrays], tuple[int, Any]]:
    return lambda arrays: (entry, value)


def untimely(arrays: Arrays) -> tuple[int, int]:
    """The second entry of a list of time_order, and the first entry for it."""
    start = int(arrays["indptr"][np.flatnonzero(np.diff(arrays["indptr"].astype(int)) > 1)[0]])
    return start + 1, int(arrays["time_order"][start])


@dataclass(frozen=True)
class Case:
    """A value to change, and what must be found.

    `near`: the finding is at this entry instead; None: anywhere in the section.
    """

    dataset: str
    file: str
    section: str
    change: Callable[[Arrays], tuple[int, Any]]
    message: str
    near: int | str | None = "changed"
    found_in: str | None = None


WRITES = "author__writes__paper.gl"
CASES = [
    Case("in", "graph.gl", "indptr", at(1, 301), "entry 1 of 'indptr' is 301, below the entry"),
    Case("in", "graph.gl", "indptr", at(0, 1), "does not start at 0 and end at 300"),
    Case("in", "graph.gl", "indptr", at(40, 299), "does not start at 0 and end at 300", 0),
    Case("in", "graph.gl", "indptr", at(9, 0), "entry 9 of 'indptr' is 0, below the entry before"),
    Case("in", "graph.gl", "indices", descent, "not in ascending order"),
    Case("in", "graph.gl", "indices", at(299, NODES), "entry 299 of 'indices' is 40, not in"),
    Case("in", "graph.gl", "weights", at(5, np.nan), "entry 5 of 'weights' is nan"),
    Case("in", "graph.gl", "weights", at(6, -1), "negative or not finite"),
    Case("in", "graph.gl", "weights", at(6, np.inf), "negative or not finite"),
    Case("in", "graph.gl", "weights", at(299, 2), "not the sum", 299, "cum_weights"),
    Case("in", "graph.gl", "cum_weights", at(299, 7), "entry 299 of 'cum_weights' is 7.0"),
    Case("in", "graph.gl", "times", at(8, -1), "not in order of 'times'", None, "time_order"),
    Case("in", "graph.gl", "time_order", at(8, 300), "not in order of 'times'"),
    Case("in", "graph.gl", "time_order", at(9, 2**32 - 1), "not in order of 'times'"),
    Case("in", "graph.gl", "time_order", untimely, "not in order of 'times'"),
    Case("in", "graph.gl", "edge_ids", at(0, 300), "'edge_ids' is 300, out of range for 300"),
    Case("both", "graph.gl", "node_ids", at(4, 40), "entry 4 of 'node_ids' is 40"),
    Case("undirected", "graph.gl", "node_rank", at(3, 99), "not lead back", None, "node_ids"),
    Case("both", "features.gd", "node_rank", at(3, 40), "entry 3 of 'node_rank' is 40"),
    Case("in", "labels.gd", "rows", at(39, 3), "is 3, out of range for 3"),
    Case("in", "split_train.gd", "rows", at(1, 40), "entry 1 of 'rows' is 40, out of range for 40"),
    Case("in", "split_train.gd", "rows", at(0, -1), "entry 0 of 'rows' is -1, out of range"),
    Case("in", "edge_split_some.gd", "rows", at(1, 300), "is 300, out of range for 300"),
    Case("presample", "visits.gd", "rows", at(39, 99), "'rows' is 99, out of range for"),
    Case("in", "node_box.gd", "row_shape", at(0, 3), "does not fit rows of 4 numbers", 0),
    Case("integers", "id_map.gd", "rows", at(1, -3), "entry 1 of 'rows' is -3, not above"),
    Case("integers", "id_map.gd", "rows", at(2, 4), "is 4, not above the entry before"),
    Case("unsigned", "id_map.gd", "rows", at(0, 6), "entry 1 of 'rows' is 5", 1),
    Case("new integers", "id_map.gd", "rows", at(1, 8), "does not lead to its id"),
    Case("new integers", "id_map.gd", "by_id", at(1, 1), "not lead to its id", 0, "rows"),
    Case("new integers", "id_map.gd", "by_id", at(0, 5), "not lead to its id", 0, "rows"),
    Case("new texts", "id_map.gd", "by_id", at(1, 0), "not lead to its id", None, "rows"),
    Case("new texts", "id_map.gd", "by_id", at(2, -1), "not lead to its id", None, "rows"),
    Case("texts", "id_map.gd", "rows", at(1, 1), "entry 1 of 'rows' is 1, not above"),
    Case("typed", "paper__cites__paper.gl", "indices", descent, "not in ascending order"),
    Case("typed", WRITES, "indices", at(0, 9), "is 9, not in"),
    Case("typed", WRITES, "cum_weights", at(59, 9), "not the sum of 'weights'"),
    Case("typed", "paper.ids.gd", "rows", at(2, 40), "lead back from there (the user's ids"),
    Case("typed", "paper.ids.gd", "node_rank", at(2, 40), "not lead back", None, "rows"),
    Case("typed", "paper.split_train.gd", "rows", at(1, 40), "out of range for 40"),
    Case("typed", "paper.y.gd", "rows", at(1, 3), "is 3, out of range for 3"),
]
