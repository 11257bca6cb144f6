"""Folders of OGB datasets, written as the ogb package reads them, from small random arrays.

The layouts are those of ``ogb/io/read_graph_raw.py``, ``ogb/nodeproppred/dataset.py`` and
``ogb/linkproppred/dataset.py`` in https://github.com/snap-stanford/ogb.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

Arrays = dict[str, Any]
NODES, EDGES = 30, 200
WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")


def write_text(path: Path, rows: Any, header: list[str] | None = None) -> None:
    """As ``pandas.DataFrame(rows).to_csv(path, index=False, header=header, compression="gzip")``"""
    path.parent.mkdir(parents=True, exist_ok=True)
    array = np.asarray(rows)
    lines = array.reshape(len(array), -1).tolist()
    with gzip.open(path, "wt") as file:
        if header is not None:
            file.write(",".join(header) + "\n")
        for line in lines:
            file.write(",".join(map(str, line)) + "\n")


def random_graph(seed: int = 1) -> Arrays:
    rng = np.random.default_rng(seed)
    return {
        "edge_index": rng.integers(0, NODES, (2, EDGES)),
        "node_feat": rng.random((NODES, 4), np.float32),
        "node_year": rng.integers(1990, 2020, (NODES, 1)),
        "label": rng.integers(0, 5, (NODES, 1)),
        "edge_feat": rng.random((EDGES, 3), np.float32),
        "edge_weight": rng.integers(1, 9, (EDGES, 1)),
        "edge_year": rng.integers(1990, 2020, (EDGES, 1)),
    }


def random_splits(count: int = NODES) -> Arrays:
    order = np.random.default_rng(9).permutation(count)
    return {"train": order[:10], "valid": order[10:15], "test": order[15:]}


def write_node_splits(folder: Path, kind: str, splits: Arrays) -> None:
    for name, ids in splits.items():
        write_text(folder / "split" / kind / f"{name}.csv.gz", ids)


def write_graph(folder: Path, graph: Arrays, *more: str, label: bool = True) -> None:
    """The text form; `more` are the attributes that it has besides edges."""
    raw = folder / "raw"
    write_text(raw / "edge.csv.gz", graph["edge_index"].T)
    write_text(raw / "num-node-list.csv.gz", [NODES])
    write_text(raw / "num-edge-list.csv.gz", [graph["edge_index"].shape[1]])
    for name in more:
        file = name.replace("_", "-") if name.endswith("_feat") else name
        write_text(raw / f"{file}.csv.gz", graph[name])
    if label:
        write_text(raw / "node-label.csv.gz", graph["label"])


def write_binary_graph(folder: Path, graph: Arrays, *more: str, label: bool = True) -> None:
    raw = folder / "raw"
    raw.mkdir(parents=True)
    arrays = {name: graph[name] for name in more}
    counts = {"num_nodes_list": np.array([NODES]), "num_edges_list": np.array([EDGES])}
    np.savez_compressed(raw / "data.npz", edge_index=graph["edge_index"], **counts, **arrays)
    if label:
        np.savez_compressed(raw / "node-label.npz", node_label=graph["label"])


def random_typed_graph() -> dict[str, Any]:
    """As ogbn-mag: two node types, two edge types; papers have features, years and labels."""
    rng = np.random.default_rng(3)
    counts = {"author": 12, "paper": 20}
    lists = {
        (s, r, d): np.stack([rng.integers(0, counts[s], 40), rng.integers(0, counts[d], 40)])
        for s, r, d in (WRITES, CITES)
    }
    return {
        "num_nodes": counts,
        "edge_index": lists,
        "edge_reltype": {key: rng.integers(0, 7, (40, 1)) for key in lists},
        "node_feat": {"paper": rng.random((20, 3), np.float32)},
        "node_year": {"paper": rng.integers(1990, 2020, (20, 1))},
        "label": {"paper": rng.integers(0, 4, (20, 1))},
    }


def write_typed_graph(folder: Path, graph: Mapping[str, Any]) -> None:
    raw, counts = folder / "raw", graph["num_nodes"]
    types = list(counts)
    write_text(raw / "num-node-dict.csv.gz", [list(counts.values())], types)
    write_text(raw / "triplet-type-list.csv.gz", list(graph["edge_index"]))
    for key, edges in graph["edge_index"].items():
        inside = raw / "relations" / "___".join(key)
        write_text(inside / "edge.csv.gz", edges.T)
        write_text(inside / "num-edge-list.csv.gz", [edges.shape[1]])
        if key in graph["edge_reltype"]:
            write_text(inside / "edge_reltype.csv.gz", graph["edge_reltype"][key])
    for kind, rows in graph["node_feat"].items():
        write_text(raw / "node-feat" / kind / "node-feat.csv.gz", rows)
    for kind, rows in graph["node_year"].items():
        write_text(raw / "node-feat" / kind / "node_year.csv.gz", rows)
    if graph["label"]:
        has = [[kind in graph["label"] for kind in types]]
        write_text(raw / "nodetype-has-label.csv.gz", has, types)
        for kind, rows in graph["label"].items():
            write_text(raw / "node-label" / kind / "node-label.csv.gz", rows)


def write_typed_splits(folder: Path, kind: str, splits: Arrays) -> None:
    path = folder / "split" / kind
    write_text(path / "nodetype-has-split.csv.gz", [[False, True]], ["author", "paper"])
    for name, ids in splits.items():
        write_text(path / "paper" / f"{name}.csv.gz", ids)


def write_binary_typed_graph(folder: Path, graph: Mapping[str, Any]) -> None:
    raw = folder / "raw"
    raw.mkdir(parents=True)
    files = {
        "edge_index_dict": graph["edge_index"],
        "num_edges_dict": {k: np.array([v.shape[1]]) for k, v in graph["edge_index"].items()},
        "num_nodes_dict": {k: np.array([v]) for k, v in graph["num_nodes"].items()},
        "edge_reltype": graph["edge_reltype"],
        "node_feat_dict": graph["node_feat"],
        "node_year": graph["node_year"],
        "node-label": graph["label"],
    }
    for name, arrays in files.items():
        named = {k if isinstance(k, str) else "___".join(k): v for k, v in arrays.items()}
        np.savez_compressed(raw / f"{name}.npz", **named)


def link_splits() -> dict[str, Arrays]:
    """What `get_edge_split` of ogbl-ppa, ogbl-ddi and ogbl-collab has."""
    rng = np.random.default_rng(7)
    found: dict[str, Arrays] = {}
    for split, count in (("train", 40), ("valid", 10), ("test", 12)):
        ids = rng.integers(0, NODES, (4, count))
        found[split] = {"edge": ids[:2].T.copy(), "weight": np.ones(count, np.float32)}
        if split != "train":
            found[split]["edge_neg"] = ids[2:].T.copy()
    return found


def write_link_splits(folder: Path, kind: str, splits: Mapping[str, Any], **how: Any) -> None:
    path = folder / "split" / kind
    path.mkdir(parents=True)
    for name, arrays in splits.items():
        torch.save(arrays, path / f"{name}.pt", **how)
