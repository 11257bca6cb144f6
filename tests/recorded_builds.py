"""Checksums of the files that builds with all kinds of options write, as recorded on one day.

``python tests/recorded_builds.py`` records them anew, for a change that is meant to change bytes:
say in the change log what and why. The script uses the public interface alone, so that it runs on
any earlier version as well.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

import graphzero as gz

RECORD = Path(__file__).with_suffix(".json")
NODES, EDGES = 60, 500
ORDERS = ("input", "hot", "presample")
DIRECTIONS = {
    "in": {"neighbors": "in"},
    "out": {"neighbors": "out"},
    "both": {"neighbors": "both"},
    "undirected": {"directed": False},
}
MERGES: dict[str, Any] = {
    "parallel": False,
    "equal": True,
    **{how: how for how in ("sum", "mean", "min", "max", "first", "last")},
    "by name": {"edge_weight": "sum", "edge_time": "max", "edge_attr": "mean"},
}
CHANGES = {
    "as it is": {},
    "no loops": {"drop_self_loops": True},
    "reversed": {"reverse": True},
    "reversed, no loops": {"drop_self_loops": True, "reverse": True},
}
WRITES, CITES = ("author", "writes", "paper"), ("paper", "cites", "paper")
KNOWS = ("author", "knows", "author")


def manifest_of(folder: Path) -> str:
    """What ``dataset.json`` has, without the random parts of the staged names."""
    text = (folder / "dataset.json").read_text()
    text = re.sub(r"\.[0-9a-f]{12}\.gz-staged", ".gz-staged", text)
    return json.dumps(json.loads(text), sort_keys=True)


def of_folder(folder: str | Path) -> dict[str, str]:
    """A checksum of each file of a dataset, by its name."""
    folder = Path(folder)
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        data = manifest_of(folder).encode() if path.name == "dataset.json" else path.read_bytes()
        found[path.relative_to(folder).as_posix()] = hashlib.sha256(data).hexdigest()[:12]
    return found


def built(folder: Path, name: str, *args: Any, **options: Any) -> dict[str, str]:
    """The files of one build."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gz.build(folder / name, *args, **options).close()
    return of_folder(folder / name)


def presample(order: str) -> dict[str, Any]:
    """Options of a build in an order."""
    sampling = gz.Presample(fanouts=(3, 3), batch_size=16, min_batches=8)
    return {"order": order, **({"presample": sampling} if order == "presample" else {})}


def edge_list(seed: int = 0) -> np.ndarray[Any, Any]:
    """Edges with parallel ones, self-loops and mutual ones; (EDGES, 2)."""
    rng = np.random.default_rng(seed)
    edges = (rng.random((EDGES, 2)) ** 2 * NODES).astype(np.int64)
    edges[::50, 1] = edges[::50, 0]
    edges[1::25] = edges[2::25]
    edges[3::25] = edges[4::25, ::-1]
    return edges


def dtypes_of_edges() -> dict[str, Any]:
    """An attribute of the edges for each of several dtypes and shapes."""
    rng = np.random.default_rng(4)
    return {
        "tiny": rng.integers(-100, 100, EDGES).astype(np.int8),
        "small": rng.integers(0, 1 << 16, EDGES).astype(np.uint16),
        "int32": rng.integers(-(1 << 31), 1 << 31, EDGES).astype(np.int32),
        "huge": rng.integers(0, 1 << 64, EDGES, dtype=np.uint64),
        "half": rng.random(EDGES).astype(np.float16),
        "double": rng.random(EDGES),
        "vector": rng.random((EDGES, 3)).astype(np.float32),
        "matrix": rng.integers(0, 9, (EDGES, 2, 2)).astype(np.int16),
        "flag": rng.random(EDGES) < 0.5,
    }


def attributes_of_edges(equal: bool = False) -> dict[str, Any]:
    """A weight, a time and vectors of the edges; equal ones for equal pairs of ends."""
    rng = np.random.default_rng(3)
    edges = edge_list()
    low, high = edges.min(1), edges.max(1)
    key = (low * NODES + high) if equal else np.arange(EDGES)
    values = rng.integers(0, 100, (3, max(EDGES, NODES * NODES)))
    return {
        "edge_weight": (values[0, key] / 8).astype(np.float32),
        "edge_time": values[1, key],
        "edge_attr": np.stack([values[2, key], values[0, key]], axis=1).astype(np.float32),
    }


def attributes_of_nodes() -> dict[str, Any]:
    """Features, labels and others of several dtypes."""
    rng = np.random.default_rng(5)
    return {
        "x": rng.random((NODES, 6)).astype(np.float32),
        "y": rng.integers(-1, 4, NODES),
        "year": rng.integers(1990, 2020, NODES).astype(np.int32),
        "pair": rng.integers(0, 255, (NODES, 2)).astype(np.uint8),
        "n16": rng.random((NODES, 2, 2)).astype(np.float16),
        "n64": rng.random(NODES),
    }


def splits() -> dict[str, Any]:
    """Splits of the nodes, as ids and as a mask."""
    rng = np.random.default_rng(6)
    return {"train": rng.permutation(NODES)[:25], "val": rng.random(NODES) < 0.3}


def edge_splits() -> dict[str, Any]:
    """Splits of the edges, as positions and as a mask."""
    rng = np.random.default_rng(7)
    return {"train": rng.permutation(EDGES)[:200], "val": rng.random(EDGES) < 0.1}


def record_merging(folder: Path) -> dict[str, Any]:
    """Every direction with every way to merge and to change edges, the orders in turn."""
    found = {}
    turn = 0
    for direction, how in DIRECTIONS.items():
        for merge, coalesce in MERGES.items():
            for change, changes in CHANGES.items():
                attributes = attributes_of_edges(equal=merge == "equal")
                if merge in ("sum", "mean"):  # times that drive the sampling have no sum
                    del attributes["edge_time"]
                options = {**how, **changes, **presample(ORDERS[turn % 3]), "coalesce": coalesce}
                if turn % 2:
                    options.update(edge_splits=edge_splits(), edge_ids=True)
                edges = {"edge_index": edge_list().T, **attributes}
                name = f"{direction}, {merge}, {change}"
                found[name] = built(folder, f"m{turn}", edges, num_nodes=NODES, **options)
                turn += 1
    return found


def record_plain(folder: Path) -> dict[str, Any]:
    """Attributes of many dtypes, each direction and order; undirected lists of several forms."""
    found = {}
    edges = {"edge_index": edge_list().T, **dtypes_of_edges()}
    for direction, how in DIRECTIONS.items():
        for order in ORDERS:
            name = f"{direction}, {order}"
            found[name] = built(
                folder,
                name,
                edges,
                nodes=attributes_of_nodes(),
                splits=splits(),
                edge_splits=edge_splits(),
                **how,
                **presample(order),
            )
    simple = np.unique(np.sort(edge_list(), axis=1), axis=0)
    simple = simple[simple[:, 0] != simple[:, 1]]
    both = np.concatenate([simple, simple[:, ::-1]])
    half = np.concatenate([both, [[1, 59], [2, 59]]])
    values = np.arange(len(simple), dtype=np.float32)
    twice = np.concatenate([values, values])
    for name, each, attributes in (
        ("both directions", both, {}),
        ("both directions, attributes", both, {"edge_weight": twice, "edge_attr": twice}),
        ("most directions", half, {}),
    ):
        edges = {"edge_index": each.T, **attributes}
        found[name] = built(folder, name, edges, directed=False, edge_ids=True)
        merged = {"directed": False, "coalesce": "first", "edge_ids": True}
        found[f"{name}, merged"] = built(folder, f"{name} merged", edges, **merged)
    for name, options in {
        "no nodes but those of edges": {},
        "edge ids": {"edge_ids": True},
        "float16": {"features": attributes_of_nodes()["x"], "feature_dtype": "float16"},
        "bfloat16": {"features": attributes_of_nodes()["x"], "feature_dtype": "bfloat16"},
        "another weight": {"edges": {"w": np.arange(EDGES)}, "weight_attrs": "w"},
        "another time": {"edges": {"t": np.arange(EDGES)[::-1]}, "time_attrs": ["t"]},
        "neither": {"edges": attributes_of_edges(), "weight_attrs": [], "time_attrs": []},
        "times of nodes": {"nodes": attributes_of_nodes(), "time_attrs": "year"},
        "masks": {"splits": {"m": np.ones(NODES, bool)}, "num_nodes": NODES},
        "isolated nodes": {"num_nodes": 100},
        "no edges": {"none": True, "num_nodes": 5},
    }.items():
        more = {**options}
        pairs = np.empty((0, 2), np.int64) if more.pop("none", False) else edge_list()
        edges = {"edge_index": pairs.T, **more.pop("edges", {})}
        found[name] = built(folder, name, edges, **more)
    found["columns"] = built(
        folder, "columns", edge_list(), weight=np.arange(EDGES), timestamp=np.arange(EDGES)[::-1]
    )
    return found


def texts(numbers: Any) -> list[str]:
    """Names of some numbers, whose order is another one."""
    return [f"n{(int(i) * 7919) % 1000}/ä" if i % 3 else f"N{i}" for i in numbers]


def record_ids(folder: Path) -> dict[str, Any]:
    """Graphs whose nodes have names of their own: integers and texts."""
    import pyarrow as pa

    found = {}
    numbers = np.random.default_rng(8).permutation(10_000)[:NODES] * 1_000_003 - 5_000_000
    edges, nodes = edge_list(), attributes_of_nodes()
    kinds: dict[str, Any] = {
        "integers": numbers,
        "unsigned": (numbers.astype(np.uint64) + np.uint64(1 << 63)),
        "texts": np.array(texts(range(NODES)), dtype=object),
        "integers as texts": np.array([str(i) for i in numbers], dtype=object),
        "mixed texts": np.array([str(i) if i % 2 else f"0{i}" for i in range(NODES)], dtype=object),
    }
    for kind, names in kinds.items():
        listed = names.tolist()

        def column(values: Any, listed: list[Any] = listed, kind: str = kind) -> pa.Array:
            dtype = pa.uint64() if kind == "unsigned" else None
            return pa.array([listed[int(i)] for i in values], dtype)

        table = pa.table(
            {"src": column(edges[:, 0]), "dst": column(edges[:, 1]), "weight": np.arange(EDGES)}
        )
        order = np.random.default_rng(9).permutation(NODES)
        features = pa.table(
            {"id": column(order), "a": nodes["x"][order, 0], "b": nodes["x"][order, 1]}
        )
        labels = pa.table({"node_id": column(order), "y": nodes["y"][order]})
        ids = [listed[i] for i in order[:20]]
        split = names[order[:20]] if kind in ("integers", "unsigned") else ids
        directions = DIRECTIONS if kind in ("integers", "texts") else {"in": {}}
        for turn, (direction, how) in enumerate(directions.items()):
            for merge in (False, "sum"):
                found[f"{kind}, {direction}, {merge}"] = built(
                    folder,
                    f"{kind} {direction} {merge}",
                    table,
                    features,
                    labels,
                    {"train": split},
                    ids="map",
                    coalesce=merge,
                    edge_ids=not merge,
                    **how,
                    **presample(ORDERS[turn % 3]),
                )
        found[f"{kind}, edges only"] = built(
            folder, f"{kind} edges", table, ids="map", drop_self_loops=True
        )
        found[f"{kind}, typed"] = built(
            folder,
            f"{kind} typed",
            {
                ("a", "to", "b"): table,
                ("b", "back", "a"): pa.table({"src": table["dst"][:90], "dst": table["src"][:90]}),
                ("b", "to", "b"): table.slice(100, 60),
            },
            nodes={"a": {"x": features}, "b": {"y": labels}},
            splits={"train": {"b": split}},
            ids="map",
            reverse={("b", "back", "a"): kind == "texts"},
            **presample(ORDERS[len(kind) % 3]),
        )
    plain = {"edges": numbers[edges], "ids": "map", "splits": {"train": numbers[:9]}}
    found["an array"] = built(folder, "array", **plain)
    found["as strings"] = built(
        folder, "strings", np.array(texts(edges.ravel()), dtype=object).reshape(-1, 2).T, ids="map"
    )
    return found


def typed(**more: Any) -> dict[str, Any]:
    """Arguments for a typed graph with every kind of attribute."""
    rng = np.random.default_rng(11)
    authors = 40
    writes = np.stack([rng.integers(0, authors, EDGES), edge_list(1)[:, 1]])
    writes[:, 1::25] = writes[:, 2::25]
    knows = (rng.random((2, 200)) ** 2 * authors).astype(np.int64)
    cites = edge_list(2).T
    return {
        "nodes": {
            "paper": attributes_of_nodes(),
            "author": {"x": rng.random((authors, 3)), "age": rng.integers(0, 99, authors)},
        },
        "edges": {
            WRITES: {"edge_index": writes, **dtypes_of_edges()},
            CITES: {"edge_index": cites, "share": (np.arange(EDGES) % 7).astype(np.float32)},
            KNOWS: knows,
        },
        "splits": {**{name: {"paper": ids} for name, ids in splits().items()}},
        "edge_splits": {"train": {WRITES: edge_splits()["train"], CITES: edge_splits()["val"]}},
        **more,
    }


def record_typed(folder: Path) -> dict[str, Any]:
    """Typed graphs, whose options are those of each edge type."""
    found = {}
    cases: dict[str, dict[str, Any]] = {
        "as it is": {},
        "weight": {"weight_attrs": "share", "edge_ids": True},
        "time of nodes": {"time_attrs": "year"},
        "time of edges": {"time_attrs": ["int32"], "weight_attrs": ["half", "share"]},
        "coalesce": {"coalesce": "sum"},
        "coalesce some": {"coalesce": {WRITES: "last", KNOWS: True}},
        "coalesce by name": {
            "coalesce": {WRITES: {n: "max" for n in dtypes_of_edges()}, CITES: {"share": "mean"}}
        },
        "no loops": {"drop_self_loops": True},
        "no loops in some": {"drop_self_loops": {CITES: True, KNOWS: False}},
        "reversed": {"reverse": {CITES: True, KNOWS: True}},
        "all": {
            "coalesce": {CITES: "min", KNOWS: True},
            "drop_self_loops": True,
            "reverse": {CITES: True},
        },
        "float16": {"feature_dtype": "float16"},
    }
    turn = 0
    for name, options in cases.items():
        for neighbors in ("in", "out"):
            order = presample(ORDERS[turn % 3])
            arguments = typed(**options, neighbors=neighbors, **order)
            if name == "coalesce":  # booleans have no sum
                del arguments["edges"][WRITES]["flag"], arguments["edges"][WRITES]["huge"]
                del arguments["edges"][WRITES]["tiny"], arguments["edges"][WRITES]["small"]
                del arguments["edges"][WRITES]["int32"]
            found[f"{name}, {neighbors}"] = built(folder, f"t{turn}", **arguments)
            turn += 1
    for order in ORDERS:
        found[f"bare, {order}"] = built(
            folder,
            f"bare {order}",
            nodes={"a": {}, "b": {"num_nodes": 70}},
            edges={("a", "to", "b"): edge_list().T, ("b", "to", "a"): edge_list(1).T},
            **presample(order),
        )
    return found


def record_reordered(folder: Path) -> dict[str, Any]:
    """Datasets that were brought to other orders and other neighbours, with and without types."""
    found = {}
    for kind, arguments, ways in (
        (
            "plain",
            {
                "edges": {"edge_index": edge_list().T, **attributes_of_edges()},
                "nodes": attributes_of_nodes(),
                "splits": splits(),
                "edge_splits": edge_splits(),
            },
            ("both", "out", "in"),
        ),
        (
            "undirected",
            {"edges": edge_list(), "nodes": attributes_of_nodes(), "directed": False},
            (),
        ),
        ("typed", typed(weight_attrs="share", time_attrs="year"), ()),
        ("ids", {"edges": edge_list() * 1000, "ids": "map"}, ("out",)),
    ):
        path = folder / kind
        found[kind] = built(folder, kind, order="input", **arguments)
        for order in ("hot", "presample", "input"):
            gz.reorder(path, **presample(order)).close()
            found[f"{kind}, {order}"] = of_folder(path)
        for neighbors in ways:
            gz.reorder(path, "hot", neighbors=neighbors).close()
            found[f"{kind}, {neighbors}"] = of_folder(path)
    return found


RECORDERS = {
    "plain": record_plain,
    "merging": record_merging,
    "ids": record_ids,
    "typed": record_typed,
    "reordered": record_reordered,
}


def record(name: str, folder: Path) -> Any:
    """The checksums of one kind, made in a folder."""
    return RECORDERS[name](folder)


def main(path: Path, kinds: Iterable[str], record: Callable[[str, Path], Any]) -> None:
    """Records all kinds anew."""
    with tempfile.TemporaryDirectory() as scratch:
        found = {name: record(name, Path(scratch) / name) for name in kinds}
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(RECORD, RECORDERS, record)
