"""Every row of docs/ingest.md is run as it is printed, on small files.

A row is a line of a table with code in its second cell: a command of graphzero, or Python.
`WRITERS` has a function for each row, by its first cell, which writes `EDGES`, and `X` as features,
to the files that the code names. A new row needs an entry there, and no more.
"""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import compressed
import numpy as np
import ogb_folders as ogb
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import torch

# the benchmarks are not installed with the package
sys.path.append(str(Path(__file__).parents[1]))

import graphzero
from benchmarks import inputs
from graphzero.cli import main

# Python and pyarrow only.
pytestmark = pytest.mark.no_asan

PAGE = Path(__file__).resolve().parents[1] / "docs" / "ingest.md"
TEXT, SECTION = PAGE.read_text().split("\n## Whole datasets\n")
NODES = 100
EDGES = np.random.default_rng(0).integers(0, NODES, (400, 2))
X = np.random.default_rng(1).random((NODES, 3), np.float32)
HALVES = (EDGES[:150], EDGES[150:])

Edges = np.ndarray[Any, Any]


def edge_text(edges: Edges, mark: str = ",", header: str = "src{}dst\n") -> bytes:
    return (header.format(mark) + "".join(f"{s}{mark}{t}\n" for s, t in edges.tolist())).encode()


def edge_table(edges: Edges) -> pa.Table:
    return pa.table({"dst": edges[:, 1], "src": edges[:, 0]})


def feature_table() -> pa.Table:
    return pa.table({"id": np.arange(NODES), **{f"f{i}": X[:, i] for i in range(3)}})


def feature_text() -> bytes:
    sink = pa.BufferOutputStream()
    pa.csv.write_csv(feature_table(), sink)
    return sink.getvalue().to_pybytes()


def csv() -> None:
    compressed.write(Path("edges.csv"), edge_text(EDGES))
    compressed.write(Path("features.csv"), feature_text())
    labels = "".join(f"{i}\t{i % 4}\n" for i in range(NODES))
    compressed.write(Path("labels.tsv"), f"id\tlabel\n{labels}".encode())


def compressed_text() -> None:
    compressed.write(Path("edges.csv.gz"), edge_text(EDGES))
    compressed.write(Path("features.csv.zst"), feature_text())


def snap() -> None:
    text = edge_text(EDGES, " \t ", "# Nodes: 100\n# FromNodeId\tToNodeId\n")
    compressed.write(Path("roadnet.txt"), text)


def spark_csv() -> None:
    Path("edges_csv").mkdir()
    for i, part in enumerate(HALVES):
        compressed.write(Path(f"edges_csv/part-0000{i}-c000.csv"), edge_text(part))
    Path("edges_csv/_SUCCESS").touch()


def pattern() -> None:
    for i, part in enumerate(HALVES):
        compressed.write(Path(f"part-{i}.csv.gz"), edge_text(part))


def list_of_files() -> None:
    for name, part in zip(("january", "february"), HALVES, strict=True):
        compressed.write(Path(f"{name}.csv"), edge_text(part))


def parquet() -> None:
    pq.write_table(edge_table(EDGES), "edges.parquet")
    pq.write_table(feature_table(), "features.parquet")


def parquet_folder() -> None:
    Path("edges_parquet").mkdir()
    for i, part in enumerate(HALVES):
        pq.write_table(edge_table(part), f"edges_parquet/part.{i}.parquet")


def partitions() -> None:
    for i, part in enumerate(HALVES):
        Path(f"by_year/year={2020 + i}").mkdir(parents=True)
        pq.write_table(edge_table(part), f"by_year/year={2020 + i}/data_0.parquet")


def vectors() -> None:
    parquet()
    pq.write_table(pa.table({"id": range(NODES), "x": X.tolist()}), "vectors.parquet")


def arrow() -> None:
    for name, table in (("edges.arrow", edge_table(EDGES)), ("features.ipc", feature_table())):
        new = pa.ipc.new_stream if name.endswith(".ipc") else pa.ipc.new_file
        with new(name, table.schema) as writer:
            writer.write_table(table)


def feather() -> None:
    pa.feather.write_feather(edge_table(EDGES), "edges.feather")


def npy() -> None:
    np.save("edges.npy", EDGES)
    np.save("x.npy", X)
    np.save("y.npy", np.arange(NODES) % 4)
    np.save("train.npy", np.arange(10))


def npz() -> None:
    np.savez_compressed("data.npz", edge_index=EDGES.T, node_feat=X)


def scipy_file() -> None:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    scipy_sparse.save_npz("adj.npz", matrix())


def matrix() -> Any:
    scipy_sparse = pytest.importorskip("scipy.sparse")
    return scipy_sparse.coo_matrix((np.ones(len(EDGES)), EDGES.T), shape=(NODES, NODES))


def torch_file() -> None:
    torch.save({"edge_index": torch.tensor(EDGES.T.copy()), "x": torch.tensor(X)}, "tensors.pt")


def graph_file() -> None:
    data = pytest.importorskip("torch_geometric.data")
    Path("processed").mkdir()
    graph = data.Data(x=torch.tensor(X), edge_index=torch.tensor(EDGES.T.copy()))
    torch.save(graph, "processed/data.pt")


def safetensors() -> None:
    numpy = pytest.importorskip("safetensors.numpy")
    numpy.save_file({"edge_index": np.ascontiguousarray(EDGES.T), "x": X}, "g.safetensors")


def files_of_02() -> None:
    by_source = EDGES[np.argsort(EDGES[:, 0], kind="stable")]
    degrees = np.bincount(EDGES[:, 0], minlength=NODES)
    inputs.write_graph02("old.gl", degrees, by_source[:, 1])
    inputs.write_features02("features.gd", X)


def nothing() -> None:
    pass


def chunks() -> Iterator[tuple[Edges, Edges]]:
    yield from ((part[:, 0], part[:, 1]) for part in HALVES)


def chunks_of_rows() -> Iterator[Any]:
    yield from np.array_split(X, 3)


def tensor() -> Any:
    return torch.sparse_coo_tensor(
        torch.tensor(EDGES.T.copy()), torch.ones(len(EDGES)), (NODES, NODES)
    )


IN_MEMORY: dict[str, Callable[[], Any]] = {
    "edges": lambda: EDGES,
    "x": lambda: X,
    "y": lambda: np.arange(NODES) % 4,
    "matrix": matrix,
    "tensor": tensor,
    "chunks": lambda: chunks,
    "chunks_of_rows": lambda: chunks_of_rows,
}

WRITERS: dict[str, Callable[[], None]] = {
    "CSV, TSV": csv,
    "compressed text: `.gz`, `.zst`, `.bz2`, `.xz`": compressed_text,
    "columns between blanks, as SNAP's": snap,
    "a folder of text, as Spark writes it": spark_csv,
    "a pattern": pattern,
    "a list of files": list_of_files,
    "Parquet": parquet,
    "a Parquet folder, as Spark, Dask and DuckDB write it": parquet_folder,
    "Parquet in partitions": partitions,
    "vectors in a list column": vectors,
    "Arrow IPC, file or stream": arrow,
    "Feather": feather,
    "pandas": csv,
    "polars": csv,
    "pyarrow Table, RecordBatch": feather,
    "pyarrow Dataset, streamed": parquet_folder,
    "pyarrow RecordBatchReader, streamed": csv,
    "`.npy`": npy,
    "`.npz` of `numpy.savez`, also compressed": npz,
    "a sparse matrix in a `.npz` file of SciPy": scipy_file,
    "tensors in a `.pt` file of torch": torch_file,
    "a graph of PyG in a `.pt` file": graph_file,
    "`.safetensors`": safetensors,
    "`.gl` and `.gd` files of graphzero 0.2": files_of_02,
    "arrays and tensors": nothing,
    "a matrix of SciPy": nothing,
    "a matrix between two kinds of nodes": nothing,
    "a sparse tensor of torch": nothing,
    "chunks of edges": nothing,
    "chunks of edges with columns": nothing,
    "chunks of rows": nothing,
}


def write_nodes(folder: str) -> None:
    graph = ogb.random_graph()
    ogb.write_graph(Path(folder), graph, "node_feat", "node_year")
    ogb.write_node_splits(Path(folder), "time", ogb.random_splits())


def arxiv() -> None:
    write_nodes("dataset/ogbn_arxiv")


def collab() -> None:
    folder, graph = Path("dataset/ogbl_collab"), ogb.random_graph()
    ogb.write_graph(folder, graph, "node_feat", "edge_weight", "edge_year", label=False)
    ogb.write_link_splits(folder, "time", ogb.link_splits())


def graphbolt() -> None:
    graph, folder = ogb.random_graph(), Path("folder")
    (folder / "set").mkdir(parents=True)
    np.savetxt(folder / "edges.csv", graph["edge_index"].T, "%d", ",")
    np.save(folder / "node-feat.npy", graph["node_feat"])
    for name, ids in ogb.random_splits().items():
        name = "val" if name == "valid" else name
        np.save(folder / "set" / f"{name}-seeds.npy", ids)
        np.save(folder / "set" / f"{name}-labels.npy", graph["label"][ids, 0])


WHOLE: dict[str, Callable[[], None]] = {
    "OGB, a dataset for nodes": arxiv,
    "OGB, in Python": arxiv,
    "OGB, a dataset for links": collab,
    "a graph in OGB's layout": lambda: write_nodes("my_graph"),
}


def rows_of(text: str) -> dict[str, str]:
    """The code of each row, by the first cell."""
    return dict(re.findall(r"^\| (.+?) \| `([^`]+)` \|$", text, re.MULTILINE))


def run(code: str) -> None:
    if code.startswith("graphzero "):
        assert main(shlex.split(code)[1:]) == 0
        return
    names: dict[str, Any] = {"gz": graphzero, "pyarrow": pa}
    for package in ("pandas", "polars"):
        if f"{package}." in code:
            names[package] = pytest.importorskip(package)
    for name, value in IN_MEMORY.items():
        if re.search(rf"\b{name}\b(?!=|\.)", code):
            names[name] = value()
    names["graphzero"] = graphzero
    if "graphzero.pyg" in code:
        pytest.importorskip("torch_geometric")
        importlib.import_module("graphzero.pyg")
    exec(code, names)


def test_every_row_has_files_to_run_on() -> None:
    lines = [line for line in TEXT.splitlines() if line.startswith("| ")]
    rows = rows_of(TEXT)
    assert len(rows) == sum(line != "| source | code |" for line in lines)
    assert rows.keys() == WRITERS.keys()
    assert rows_of(SECTION.split("\n### ")[0]).keys() == WHOLE.keys()


@pytest.mark.parametrize("source", WRITERS)
def test_a_row_runs_as_it_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    WRITERS[source]()
    code = rows_of(TEXT)[source]
    run(code)
    with graphzero.open("data") as ds:
        num_nodes = 2 * NODES if ds.is_typed else EDGES.max() + 1
        assert (ds.num_nodes, ds.num_edges) == (num_nodes, len(EDGES))
        if ds.is_typed:
            return
        neighbors = [sorted(ds.graph.neighbors(node)) for node in range(5)]
        assert neighbors == [sorted(EDGES[EDGES[:, 1] == node, 0].tolist()) for node in range(5)]
        assert (ds.features is not None) is ("features" in code or "from_data" in code)
        if ds.features is not None:
            np.testing.assert_array_equal(ds.features.gather(range(NODES)), X)
        assert (ds.labels is not None) is ("labels" in code)
        assert ("edge_time" in ds.edge_attributes) is ("timestamp" in code)


# --- whole datasets


@pytest.mark.filterwarnings("ignore:.*not imported")
@pytest.mark.parametrize("source", WHOLE)
def test_a_dataset_is_imported_as_it_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    monkeypatch.chdir(tmp_path)
    WHOLE[source]()
    run(rows_of(SECTION)[source])
    with graphzero.open("data") as ds:
        assert (ds.num_nodes, ds.graph.num_input_edges) == (ogb.NODES, ogb.EDGES)
        assert sorted(ds.splits) == ([] if "links" in source else ["test", "train", "val"])


@pytest.mark.filterwarnings("ignore:.*not imported")
def test_the_scripts_for_links_and_graphbolt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    links, bolt = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    collab()
    names: dict[str, Any] = {"gz": graphzero}
    exec(links, names)
    splits = ogb.link_splits()
    found = [len(list(batch.edge_label_index[0])) for batch in names["negative"]]
    assert sum(found) == len(splits["valid"]["edge_neg"])
    assert sum(len(b.edge_label) for b in names["train"]) == 2 * len(splits["train"]["edge"])
    names["ds"].close()
    graphbolt()
    exec(bolt, {"gz": graphzero})
    graph = ogb.random_graph()
    with graphzero.open("data") as ds:
        assert ds.num_edges == ogb.EDGES
        assert ds.splits["val"].tolist() == ogb.random_splits()["valid"].tolist()
        labels = ds.labels.gather(range(ogb.NODES)).reshape(-1)
        assert (labels == graph["label"][:, 0]).all()
