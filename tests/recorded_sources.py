"""Checksums of the files that builds write from every kind of source, as recorded on one day.

``python tests/recorded_sources.py`` records them anew, for a change that is meant to change bytes:
say in the change log what and why. The script uses the public interface alone, so that it runs on
any earlier version as well.
"""

from __future__ import annotations

import shutil
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import compressed
import numpy as np
import ogb_folders as ogb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import recorded_builds as builds
import safetensors.numpy
import scipy.sparse
import torch
from recorded_builds import EDGES, NODES, of_folder

import graphzero as gz

RECORD = Path(__file__).with_suffix(".json")
X = np.random.default_rng(1).random((NODES, 3)).astype(np.float32)
Y = np.arange(NODES) % 4
WEIGHT = (np.arange(EDGES) % 9 / 4).astype(np.float32)
TIME = np.arange(EDGES)[::-1].copy()
AMOUNT = np.arange(EDGES) * 3
FRAME = {
    "dst": builds.edge_list()[:, 1],
    "src": builds.edge_list()[:, 0],
    "weight": WEIGHT,
    "timestamp": TIME,
    "amount": AMOUNT,
}
ORDER = np.random.default_rng(2).permutation(NODES)


class Builds:
    """Builds of one kind, in a folder, and what they wrote, by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: dict[str, Any] = {}
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        """A path for an input."""
        path = self.folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def add(
        self, name: str, *args: Any, how: Callable[..., Any] = gz.build, **options: Any
    ) -> None:
        """Builds once."""
        out = self.folder / "out" / f"{len(self.found)}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if how is gz.build:
                gz.build(out, *args, **options).close()
            else:
                how(*args, out, **options).close()
        self.found[name] = of_folder(out)
        shutil.rmtree(out)


def lines(*columns: Any, mark: str = ",", header: str = "", end: str = "\n") -> bytes:
    """A text of some columns."""
    rows = [mark.join(map(str, row)) for row in zip(*columns, strict=True)]
    return "".join(line + end for line in ([header] if header else []) + rows).encode()


def table(*names: str) -> pa.Table:
    """A table of the edges, with all columns or some."""
    return pa.table({name: FRAME[name] for name in names or FRAME})


def tables(made: Builds, name: str, source: Any, **options: Any) -> None:
    """A table of edges; one that can be read only once gives no attributes."""
    once = {} if callable(source) else {"edge_attrs": ["amount"]}
    made.add(name, source() if callable(source) else source, **once, **options)


def record_text(made: Builds) -> None:
    """Delimiters, headers, compressions, comments, several files, features, labels, splits."""
    columns = [column.tolist() for column in FRAME.values()]
    pairs = [FRAME["src"].tolist(), FRAME["dst"].tolist()]
    full = "dst{0}src{0}weight{0}timestamp{0}amount"
    for ending, mark in ((".csv", ","), (".tsv", "\t"), (".txt", ";"), (".txt", " ")):
        path = made.path(f"all{ending}")
        path.write_bytes(lines(*columns, mark=mark, header=full.format(mark)))
        tables(made, f"{mark!r}", path)
        path.write_bytes(lines(*pairs, mark=mark))
        made.add(f"{mark!r}, no header", path)
    for suffix in compressed.COMPRESS:
        path = made.path(f"all.csv{suffix}")
        compressed.write(path, lines(*columns, header=full.format(",")))
        tables(made, suffix, path)
        halves = lines(*(c[:200] for c in columns), header=full.format(","))
        rest = lines(*(c[200:] for c in columns))
        path.write_bytes(compressed.COMPRESS[suffix](halves) + compressed.COMPRESS[suffix](rest))
        tables(made, f"{suffix}, members", path)
    snap = made.path("snap.txt")
    text = lines(*pairs, mark=" \t ", header="# Nodes: 60\n# FromNodeId\tToNodeId", end="  \r\n")
    snap.write_bytes(text + b"\n\n")
    made.add("blanks", snap)
    made.add("blanks, named", snap, delimiter="whitespace", header=False)
    unknown = made.path("unknown.csv")
    unknown.write_bytes(lines(*columns, header="a,b,c,d,e"))
    named: dict[str, Any] = {"src": "b", "dst": "a", "weight": "c", "timestamp": "d"}
    made.add("named columns", unknown, edge_attrs={"amount": "e"}, **named)
    positions: dict[str, Any] = {"src": 1, "dst": 0, "weight": 2, "timestamp": 3}
    made.add("columns by position", unknown, edge_attrs={"amount": 4}, **positions)
    made.add("no weight", made.path("all.csv"), weight=False, timestamp=False)
    quoted = made.path("quoted.csv")
    quoted.write_bytes(lines([f'"{i}"' for i in pairs[0]], pairs[1], header='"src","dst"'))
    made.add("quotes", quoted)
    floats = made.path("floats.csv")
    shares = np.random.default_rng(3).random(EDGES).tolist()
    floats.write_bytes(lines(*pairs, [f"{x:.17g}" for x in shares], header="src,dst,share"))
    made.add("floats", floats, edge_attrs=["share"])
    folder = made.path("parts/part-2.csv").parent
    for i, part in enumerate(np.array_split(np.arange(EDGES), 12)):
        chosen = [np.asarray(column)[part].tolist() for column in columns]
        (folder / f"part-{i}.csv").write_bytes(lines(*chosen, header=full.format(",")))
    tables(made, "a folder", folder)
    tables(made, "a pattern", str(folder / "part-*.csv"))
    tables(made, "a list", [folder / f"part-{i}.csv" for i in range(12)])
    tables(made, "a source", gz.Source(folder, delimiter=","))
    for i in range(2):
        path = made.path(f"years/year={2020 + i}/a.csv")
        path.write_bytes(lines(*pairs, header="src,dst"))
    made.add("partitions", made.path("years"), timestamp="year")
    nodes = made.path("nodes.csv")
    nodes.write_bytes(lines(ORDER, *X[ORDER].T.tolist(), header="id,a,b,c"))
    labels = made.path("labels.csv")
    labels.write_bytes(lines(Y.tolist(), header="label"))
    train = made.path("train.csv")
    train.write_bytes(lines(ORDER[:9].tolist()))
    made.add("nodes", builds.edge_list(), nodes, labels, {"train": train})
    made.add("some nodes", builds.edge_list(), labels=labels, nodes={"x": nodes})
    attributes = made.path("attributes.csv")
    attributes.write_bytes(lines(*X[:1].repeat(EDGES, 0).T.tolist(), AMOUNT, header="a,b,c,d"))
    made.add(
        "edge attributes",
        {"edge_index": builds.edge_list().T, "edge_attr": attributes},
        edge_ids=True,
    )


def record_arrow(made: Builds) -> None:
    """Parquet, IPC and Feather: files, folders, dictionaries, lists, partitions."""
    whole = table()
    parquet = made.path("e.parquet")
    pq.write_table(whole, parquet, row_group_size=77)
    tables(made, "parquet", parquet)
    made.add("parquet, as it is", parquet, edge_attrs=[])
    for name, version in (("snappy", "snappy"), ("zstd", "zstd"), ("none", "none")):
        pq.write_table(whole, parquet, compression=version, use_dictionary=name == "zstd")
        tables(made, f"parquet, {name}", parquet)
    for name, new in (("file", pa.ipc.new_file), ("stream", pa.ipc.new_stream)):
        path = made.path(f"e-{name}.arrow")
        with new(path, whole.schema) as writer:
            writer.write_table(whole, max_chunksize=100)
        tables(made, f"ipc, {name}", path)
    feather = made.path("e.feather")
    pa.feather.write_feather(whole, feather)
    tables(made, "feather", feather)
    folder = made.path("parts/x").parent
    for i in range(11):
        pq.write_table(whole.slice(i * 50, 50), folder / f"part-{i}.parquet")
    tables(made, "a folder", folder)
    for i in range(2):
        path = made.path(f"years/year={2020 + i}/a.parquet")
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table("src", "dst"), path)
    made.add("partitions", made.path("years"), timestamp="year")
    kinds = pa.table(
        {
            "src": pa.array(FRAME["src"].astype(np.uint8)),
            "dst": pa.array(FRAME["dst"]).dictionary_encode(),
            "half": pa.array(WEIGHT.astype(np.float16)),
            "flag": pa.array(WEIGHT > 1),
            "tiny": pa.array((AMOUNT % 100).astype(np.int8)),
            "list": pa.array(np.stack([WEIGHT, WEIGHT + 1], 1).tolist(), pa.list_(pa.float32())),
            "fixed": pa.FixedSizeListArray.from_arrays(pa.array(np.repeat(AMOUNT, 2)), 2),
        }
    )
    names = ["half", "flag", "tiny", "list", "fixed"]
    pq.write_table(kinds, parquet)
    made.add("kinds, parquet", parquet, edge_attrs=names)
    pa.feather.write_feather(kinds, feather, compression="uncompressed")
    made.add("kinds, feather", feather, edge_attrs=names)
    made.add("kinds, table", kinds, edge_attrs=names)
    nodes = made.path("n.parquet")
    pq.write_table(pa.table({"id": ORDER, "x": X[ORDER].tolist()}), nodes)
    labels = made.path("y.arrow")
    pa.feather.write_feather(pa.table({"y": Y}), labels)
    split = made.path("train.parquet")
    pq.write_table(pa.table({"id": ORDER[:9]}), split)
    made.add("nodes", builds.edge_list(), nodes, labels, {"train": split})
    pq.write_table(pa.table({"x": X.tolist()}), nodes)
    made.add("nodes in order", builds.edge_list(), nodes)
    pq.write_table(pa.table({"edge_attr": AMOUNT}), made.path("attributes.parquet"))
    edges = {"edge_index": builds.edge_list().T, "edge_attr": made.path("attributes.parquet")}
    made.add("edge attributes", edges)


def record_arrays(made: Builds) -> None:
    """Files of arrays: mapped, compressed, big-endian, in Fortran order, torch's and others'."""
    edges = builds.edge_list()
    for name, array in {
        "rows": edges,
        "columns": edges.T.copy(),
        "fortran": np.asfortranarray(edges),
        "big-endian": edges.astype(">i4"),
        "uint8": edges.astype(np.uint8),
    }.items():
        np.save(made.path(f"{name}.npy"), array)
        made.add(name, made.path(f"{name}.npy"), edge_ids=True)
    np.save(made.path("x.npy"), X)
    np.save(made.path("x0.npy"), X[:20])
    np.save(made.path("x1.npy"), X[20:])
    np.save(made.path("xf.npy"), np.asfortranarray(X.astype(">f8")))
    np.save(made.path("y.npy"), Y)
    np.save(made.path("mask.npy"), Y == 1)
    np.save(made.path("w.npy"), WEIGHT)
    np.save(made.path("t.npy"), TIME)
    splits = {"train": made.path("mask.npy"), "val": made.path("y.npy")}
    made.add("npy", edges, made.path("x.npy"), made.path("y.npy"), splits)
    made.add("npy, parts", edges, [made.path("x0.npy"), made.path("x1.npy")])
    made.add("npy, fortran", edges, made.path("xf.npy"))
    made.add("npy, cast", edges, made.path("xf.npy"), feature_dtype="float16")
    made.add("npy, weights", edges, weight=made.path("w.npy"), timestamp=str(made.path("t.npy")))
    arrays = {"edge_index": edges.T, "node_feat": X, "labels": Y, "edge_attr": X[:1].repeat(500, 0)}
    for name, save in (("npz", np.savez), ("npz, compressed", np.savez_compressed)):
        path = made.path("data.npz")
        save(path, **arrays)
        made.add(name, f"{path}:edge_index", f"{path}:node_feat", f"{path}:labels")
        whole = {"edge_index": path, "edge_attr": f"{path}:edge_attr", "other": f"{path}:edge_attr"}
        made.add(f"{name}, edges", whole)
    tensors = {name: torch.tensor(np.ascontiguousarray(a)) for name, a in arrays.items()}
    tensors["half"] = tensors["node_feat"].to(torch.bfloat16)
    for name, zipped in (("pt", True), ("pt, old", False)):
        path = made.path("data.pt")
        more = {"paper": {"x": tensors["node_feat"][:, 1:].t().contiguous().t()}}
        torch.save({**tensors, **more}, path, _use_new_zipfile_serialization=zipped)
        made.add(name, f"{path}:edge_index", f"{path}:node_feat", f"{path}:labels")
        made.add(f"{name}, nested", f"{path}:edge_index", f"{path}:paper/x")
        made.add(f"{name}, bfloat16", f"{path}:edge_index", f"{path}:half")
    torch.save(tensors["edge_index"], made.path("edges.pt"))
    made.add("pt, one tensor", made.path("edges.pt"))
    path = made.path("data.safetensors")
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    safetensors.numpy.save_file(arrays, path)
    made.add("safetensors", f"{path}:edge_index", f"{path}:node_feat", f"{path}:labels")
    sparse = scipy.sparse.coo_array((WEIGHT, edges.T), shape=(NODES, NODES))
    for kind in ("coo", "csr", "csc"):
        scipy.sparse.save_npz(made.path("a.npz"), scipy.sparse.coo_matrix(sparse).asformat(kind))
        made.add(f"scipy's {kind}", made.path("a.npz"))
        made.add(f"scipy's {kind}, no weights", made.path("a.npz"), weight=False)
    by_source = edges[np.argsort(edges[:, 0], kind="stable")]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(edges[:, 0], minlength=NODES))])
    begin = -(-(64 + indptr.nbytes) // 64) * 64
    sizes = (indptr.nbytes, 8 * len(edges), 64, begin, NODES, len(edges), 0)
    head = struct.pack("<8s7Q", b"graphlit", *sizes) + indptr.astype("<u8").tobytes()
    path, targets = made.path("old.gl"), by_source[:, 1].astype("<u8")
    path.write_bytes(head.ljust(begin, b"\0") + targets.tobytes())
    features = made.path("old.gd")
    features.write_bytes(struct.pack("<8sIIQQ", b"GZDATA26", 0, 2, *X.shape) + X.tobytes())
    made.add("0.2", path, features)


def record_memory(made: Builds) -> None:
    """Arrays, tensors, frames, Arrow's tables, matrices and iterators."""
    edges = builds.edge_list()
    whole = table()
    made.add("array", edges, X, Y, {"train": ORDER[:9], "val": Y == 2}, weight=WEIGHT)
    made.add("lists", edges.tolist(), X.tolist(), Y.tolist(), {"train": [3, 2, 1]})
    made.add(
        "tensors",
        torch.tensor(edges.T.copy()),
        torch.tensor(X),
        torch.tensor(Y),
        {"train": torch.tensor(Y == 1)},
        weight=torch.tensor(WEIGHT),
        timestamp=torch.tensor(TIME),
    )
    made.add("bfloat16", edges, torch.tensor(X).to(torch.bfloat16))
    made.add("strided", edges[:, ::-1][::2], X[::-1], Y[::-1], reverse=True)
    for name, source in {
        "pandas": pd.DataFrame(FRAME),
        "polars": pl.DataFrame(FRAME),
        "pyarrow": whole,
        "record batch": whole.to_batches()[0],
        "dataset": pa.dataset.dataset(whole),
        "reader": lambda: whole.to_reader(),
        "chunked": pa.concat_tables([whole.slice(0, 99), whole.slice(99)]),
        "chunks": lambda: (whole.slice(i, 90) for i in range(0, EDGES, 90)),
        "pandas chunks": lambda: (pd.DataFrame(FRAME).iloc[i : i + 90] for i in range(0, 500, 90)),
        "a function": lambda: lambda: (whole.slice(i, 90) for i in range(0, EDGES, 90)),
        "dicts": lambda: (
            {name: column[i : i + 90] for name, column in FRAME.items()} for i in range(0, 500, 90)
        ),
        "filtered": pd.DataFrame(FRAME)[AMOUNT % 2 == 0],
    }.items():
        tables(made, name, source)
    for name, kind in (("pandas", pd.DataFrame), ("polars", pl.DataFrame), ("arrow", pa.table)):
        columns = {"id": ORDER, **{f"f{i}": X[ORDER, i] for i in range(3)}}
        labels = {"node": ORDER, "y": Y[ORDER]}
        made.add(f"nodes, {name}", edges, kind(columns), kind(labels))
    made.add("nodes, series", edges, labels=pd.Series(Y), nodes={"z": pl.Series(Y.tolist())})
    made.add("pairs", ((edges[i : i + 70, 0], edges[i : i + 70, 1]) for i in range(0, 500, 70)))
    made.add("arrays", iter([tuple(part.T) for part in np.array_split(edges, 7)]))
    made.add("arrays, columns", lambda: (tuple(part.T) for part in np.array_split(edges, 7)))
    made.add(
        "iterators",
        {"edge_index": edges.T, "edge_attr": iter(np.array_split(WEIGHT, 3)), "t": iter([TIME])},
        iter(np.array_split(X, 4)),
        iter([Y[:7], Y[7:]]),
        {"train": iter([ORDER[:4], ORDER[4:9]]), "val": iter([Y == 1])},
    )
    made.add("functions", edges, lambda: iter(np.array_split(X, 4)), lambda: iter([Y]))
    made.add("cast iterators", edges, iter(np.array_split(X, 4)), feature_dtype="float16")
    made.add("parts", edges, [X[:20], X[20:40], X[40:]])
    sparse = scipy.sparse.coo_array((WEIGHT, edges.T), shape=(NODES, NODES))
    for kind in ("coo", "csr", "csc", "lil"):
        made.add(f"scipy's {kind}", sparse.asformat(kind))
    pairs, values = torch.tensor(edges.T.copy()), torch.tensor(WEIGHT)
    warnings.simplefilter("ignore")  # of torch, about matrices in general
    tensor = torch.sparse_coo_tensor(pairs, values, (NODES, NODES))
    made.add("torch's coo", tensor)
    made.add("torch's csr", tensor.coalesce().to_sparse_csr())
    made.add("torch's csc", tensor.coalesce().to_sparse_csc(), weight=False)
    kinds: dict[str, Any] = {
        "a matrix": scipy.sparse.coo_array((WEIGHT, edges.T), shape=(NODES, 70)),
        "a frame": pd.DataFrame({"src": edges[:, 0], "dst": edges[:, 1], "w": WEIGHT}),
        "a table": table("src", "dst", "weight"),
        "chunks": iter([table("src", "dst").slice(0, 90), table("src", "dst").slice(90)]),
    }
    for name, source in kinds.items():
        made.add(
            f"typed, {name}",
            {("user", "buys", "item"): source},
            nodes={"user": {"x": pd.DataFrame({"id": ORDER, "a": X[ORDER, 0]})}, "item": {}},
        )
    for name, value in {
        "pandas": pd.DataFrame(
            {"src": [f"s{i}" for i in edges[:, 0]], "dst": [f"{i}" for i in edges[:, 1]]}
        ),
        "polars": pl.DataFrame({"src": [f"s{i}" for i in edges[:, 0]], "dst": ["x"] * EDGES}),
        "large": pa.table(
            {
                "src": pa.array([f"{i}" for i in edges[:, 0]], pa.large_string()),
                "dst": pa.array([f"{i}" for i in edges[:, 1]], pa.string_view()),
            }
        ),
        "dictionary": pa.table(
            {
                "src": pa.array([f"n{i}" for i in edges[:, 0]]).dictionary_encode(),
                "dst": pa.array([f"n{i}" for i in edges[:, 1]]),
            }
        ),
    }.items():
        made.add(f"ids, {name}", value, ids="map")


def record_ids(made: Builds) -> None:
    """Ids of users in every kind of file."""
    edges = builds.edge_list()
    names = [f"käte/{i * 7919 % 60}" for i in range(NODES)]
    numbers = (np.arange(NODES) * 10**15 - 3 * 10**16).tolist()
    for kind, ids in (("texts", names), ("integers", numbers)):
        ends = [[ids[i] for i in edges[:, c]] for c in (0, 1)]
        csv = made.path(f"{kind}.csv")
        csv.write_bytes(lines(*ends, AMOUNT, header="src,dst,amount"))
        nodes = made.path(f"{kind} nodes.csv")
        nodes.write_bytes(lines([ids[i] for i in ORDER], *X[ORDER].T.tolist(), header="id,a,b,c"))
        labels = made.path(f"{kind} labels.parquet")
        pq.write_table(pa.table({"node_id": [ids[i] for i in ORDER], "y": Y[ORDER]}), labels)
        split = made.path(f"{kind} train.txt")
        split.write_bytes(lines([ids[i] for i in ORDER[:9]]))
        how: dict[str, Any] = {"ids": "map", "edge_attrs": ["amount"]}
        made.add(f"{kind}, csv", csv, nodes, labels, {"train": split}, **how)
        packed = made.path(f"{kind}.csv.gz")
        compressed.write(packed, csv.read_bytes())
        made.add(f"{kind}, gz", packed, nodes, labels, {"train": split}, **how)
        whole = pa.table({"src": ends[0], "dst": ends[1], "amount": AMOUNT})
        pq.write_table(whole, made.path(f"{kind}.parquet"))
        made.add(f"{kind}, parquet", made.path(f"{kind}.parquet"), nodes, **how)
        pa.feather.write_feather(whole, made.path(f"{kind}.feather"))
        made.add(f"{kind}, feather", made.path(f"{kind}.feather"), nodes, **how)
        made.add(f"{kind}, pandas", whole.to_pandas(), nodes, labels, **how)
        made.add(f"{kind}, polars", pl.from_arrow(whole), nodes, labels, **how)
        made.add(
            f"{kind}, typed",
            {("a", "to", "b"): csv, ("b", "to", "a"): made.path(f"{kind}.parquet")},
            nodes={"a": {"x": nodes}, "b": {"y": labels}},
            splits={"train": {"b": split}},
            ids="map",
        )


def record_ogb(made: Builds) -> None:
    """OGB's folders: text and binary, with and without types, node and link datasets."""
    directed, typed = ogb.random_graph(), ogb.random_typed_graph()
    folder = made.path("ogbn_arxiv")
    ogb.write_graph(folder, directed, "node_feat", "node_year")
    ogb.write_node_splits(folder, "time", ogb.random_splits())
    made.add("arxiv", folder, how=gz.from_ogb)
    made.add("arxiv, undirected", folder, how=gz.from_ogb, directed=False, feature_dtype="float16")
    for path in (folder / "split" / "time").glob("*.csv.gz"):
        path.unlink()
    torch.save(ogb.random_splits(), folder / "split" / "time" / "split_dict.pt")
    made.add("arxiv, split_dict", folder, how=gz.from_ogb)
    folder = made.path("ogbn_proteins")
    ogb.write_graph(folder, directed, "edge_feat", "node_feat")
    ogb.write_text(folder / "raw" / "species.csv.gz", directed["node_year"])
    ogb.write_node_splits(folder, "species", ogb.random_splits())
    made.add("proteins", folder, how=gz.from_ogb)
    folder = made.path("ogbn_papers100M")
    labels = np.where(directed["label"] < 2, np.nan, directed["label"]).astype(np.float32)
    ogb.write_binary_graph(folder, {**directed, "label": labels}, "node_feat", "node_year")
    ogb.write_node_splits(folder, "time", ogb.random_splits())
    made.add("papers100M", folder, how=gz.from_ogb, order="input")
    for name, write in (("text", ogb.write_typed_graph), ("binary", ogb.write_binary_typed_graph)):
        folder = made.path(f"{name}/ogbn_mag")
        write(folder, typed)
        ogb.write_typed_splits(folder, "time", ogb.random_splits(20))
        made.add(f"mag, {name}", folder, how=gz.from_ogb)


def record_pyg(made: Builds) -> None:
    """Graphs of PyG, with and without types."""
    from torch_geometric.data import Data, HeteroData

    from graphzero.pyg import from_data

    edges = torch.tensor(builds.edge_list().T.copy())
    data = Data(
        x=torch.tensor(X),
        y=torch.tensor(Y),
        edge_index=edges,
        edge_attr=torch.tensor(WEIGHT),
        edge_weight=torch.tensor(WEIGHT),
        train_mask=torch.tensor(Y == 1),
        year=torch.tensor(Y + 2000),
    )
    torch.save(data, made.path("data.pt"))
    mapped = torch.load(made.path("data.pt"), weights_only=False, mmap=True)
    made.add("a file", mapped, how=from_data)
    made.add("data", data, how=from_data)
    both = torch.cat([edges, edges.flip(0)], 1)
    made.add("both directions", Data(x=data.x, edge_index=both), how=from_data)
    hetero = HeteroData()
    hetero["paper"].x, hetero["paper"].y = data.x, data.y
    hetero["paper"].train_mask = data.train_mask
    hetero["author"].num_nodes = 70
    hetero["author", "writes", "paper"].edge_index = edges
    hetero["author", "writes", "paper"].edge_attr = torch.tensor(WEIGHT)
    hetero["paper", "cites", "paper"].edge_index = edges.flip(0)
    hetero["paper", "cites", "paper"].time = torch.tensor(TIME)
    made.add("hetero", hetero, how=from_data)


RECORDERS = {
    "text": record_text,
    "arrow": record_arrow,
    "arrays": record_arrays,
    "memory": record_memory,
    "ids": record_ids,
    "ogb": record_ogb,
    "pyg": record_pyg,
}


def record(name: str, folder: Path) -> dict[str, Any]:
    """The checksums of one kind, made in a folder."""
    made = Builds(folder)
    RECORDERS[name](made)
    return made.found


if __name__ == "__main__":
    builds.main(RECORD, RECORDERS, record)
