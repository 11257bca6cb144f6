"""Every row of docs/ingest.md is run as it is printed, on small files.

A row is a line of a table with code in its second cell: a command of graphzero, or Python. The
files that all rows name have `EDGES`, and `X` as features. A new row needs its file, and no more.
"""

from __future__ import annotations

import importlib
import re
import shlex
import shutil
import sys
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

for package in ("pandas", "polars", "scipy.sparse", "safetensors", "torch_geometric"):
    pytest.importorskip(package)
# Python and pyarrow only.
pytestmark = [pytest.mark.no_asan, pytest.mark.filterwarnings("ignore:.*not imported")]

PAGE = Path(__file__).resolve().parents[1] / "docs" / "ingest.md"
TEXT, SECTION = PAGE.read_text().split("\n## Whole datasets\n")
NODES = 100
EDGES = np.random.default_rng(0).integers(0, NODES, (400, 2))
X = np.random.default_rng(1).random((NODES, 3), np.float32)
# The code of each row, by the first cell.
ROWS = re.compile(r"^\| (.+?) \| `([^`]+)` \|$", re.MULTILINE)


def text_of(edges: Any, mark: str = ",", header: str = "src,dst\n") -> bytes:
    return (header + "".join(f"{s}{mark}{t}\n" for s, t in edges.tolist())).encode()


def table_of(edges: Any) -> pa.Table:
    return pa.table({"dst": edges[:, 1], "src": edges[:, 0]})


def write_text(features: pa.Table) -> None:
    compressed.write(Path("edges.csv"), text_of(EDGES))
    compressed.write(Path("edges.csv.gz"), text_of(EDGES))
    header = "# Nodes: 100\n# FromNodeId\tToNodeId\n"
    compressed.write(Path("roadnet.txt"), text_of(EDGES, " \t ", header))
    sink = pa.BufferOutputStream()
    pa.csv.write_csv(features, sink)
    for name in ("features.csv", "features.csv.zst"):
        compressed.write(Path(name), sink.getvalue().to_pybytes())
    labels = "".join(f"{i}\t{i % 4}\n" for i in range(NODES))
    compressed.write(Path("labels.tsv"), f"id\tlabel\n{labels}".encode())
    Path("edges_csv").mkdir()
    Path("edges_csv/_SUCCESS").touch()
    for i, part in enumerate((EDGES[:150], EDGES[150:])):
        for name in (f"edges_csv/part-0000{i}-c000.csv", f"part-{i}.csv.gz"):
            compressed.write(Path(name), text_of(part))
        compressed.write(Path(f"{('january', 'february')[i]}.csv"), text_of(part))


def write_arrow(features: pa.Table) -> None:
    edges = table_of(EDGES)
    pq.write_table(edges, "edges.parquet")
    pq.write_table(features, "features.parquet")
    pq.write_table(pa.table({"id": range(NODES), "x": X.tolist()}), "vectors.parquet")
    pa.feather.write_feather(edges, "edges.feather")
    with pa.ipc.new_file("edges.arrow", edges.schema) as writer:
        writer.write_table(edges)
    with pa.ipc.new_stream("features.ipc", features.schema) as writer:
        writer.write_table(features)
    for i, part in enumerate((EDGES[:150], EDGES[150:])):
        for name in (f"edges_parquet/part.{i}.parquet", f"by_year/year={i}/data_0.parquet"):
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(table_of(part), name)


def write_arrays(in_memory: dict[str, Any]) -> None:
    arrays = {"edges": EDGES, "x": X, "y": in_memory["y"], "train": np.arange(10)}
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    pairs = np.ascontiguousarray(EDGES.T)
    np.savez_compressed("data.npz", edge_index=pairs, node_feat=X)
    importlib.import_module("scipy.sparse").save_npz("adj.npz", in_memory["matrix"])
    tensors = {"edge_index": torch.tensor(pairs), "x": torch.tensor(X)}
    torch.save(tensors, "tensors.pt")
    torch.save(importlib.import_module("torch_geometric.data").Data(**tensors), "graph.pt")
    save_file = importlib.import_module("safetensors.numpy").save_file
    save_file({"edge_index": pairs, "x": X}, "g.safetensors")
    by_source = EDGES[np.argsort(EDGES[:, 0], kind="stable")]
    inputs.write_graph02("old.gl", np.bincount(EDGES[:, 0], minlength=NODES), by_source[:, 1])
    inputs.write_features02("features.gd", X)


def write_datasets() -> None:
    graph, splits = ogb.random_graph(), ogb.random_splits()
    for folder in (Path("dataset/ogbn_arxiv"), Path("my_graph")):
        ogb.write_graph(folder, graph, "node_feat", "node_year")
        ogb.write_node_splits(folder, "time", splits)
    folder = Path("dataset/ogbl_collab")
    ogb.write_graph(folder, graph, "node_feat", "edge_weight", "edge_year", label=False)
    ogb.write_link_splits(folder, "time", ogb.link_splits())
    Path("folder/set").mkdir(parents=True)
    np.savetxt("folder/edges.csv", graph["edge_index"].T, "%d", ",")
    np.save("folder/node-feat.npy", graph["node_feat"])
    for name, ids in splits.items():
        name = "val" if name == "valid" else name
        np.save(f"folder/set/{name}-seeds.npy", ids)
        np.save(f"folder/set/{name}-labels.npy", graph["label"][ids, 0])


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the code of rows names, in a folder with the files that it names."""
    ends, ones = torch.tensor(EDGES.T.copy()), np.ones(len(EDGES))
    coo_matrix = importlib.import_module("scipy.sparse").coo_matrix
    found = {
        "gz": graphzero,
        "graphzero": importlib.import_module("graphzero.pyg") and graphzero,
        "numpy": np,
        "pyarrow": pa,
        "torch": torch,
        "edges": EDGES,
        "x": X,
        "y": np.arange(NODES) % 4,
        "matrix": coo_matrix((ones, EDGES.T), shape=(NODES, NODES)),
        "tensor": torch.sparse_coo_tensor(ends, torch.tensor(ones), (NODES, NODES)),
        "chunks": lambda: ((part[:, 0], part[:, 1]) for part in np.array_split(EDGES, 3)),
        "chunks_of_rows": lambda: np.array_split(X, 3),
        **{name: importlib.import_module(name) for name in ("pandas", "polars")},
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("inputs"))
        features = {"id": np.arange(NODES), **{f"f{i}": X[:, i] for i in range(3)}}
        write_text(pa.table(features))
        write_arrow(pa.table(features))
        write_arrays(found)
        write_datasets()
        yield found


def run(code: str, names: dict[str, Any]) -> None:
    shutil.rmtree("data", ignore_errors=True)
    if code.startswith("graphzero "):
        assert main(shlex.split(code)[1:]) == 0
    else:
        exec(code, dict(names))


@pytest.mark.parametrize(("source", "code"), ROWS.findall(TEXT))
def test_a_row_runs_as_it_is_printed(names: dict[str, Any], source: str, code: str) -> None:
    run(code, names)
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


@pytest.mark.parametrize(("source", "code"), ROWS.findall(SECTION.split("\n### ")[0]))
def test_a_dataset_is_imported_as_it_is_printed(
    names: dict[str, Any], source: str, code: str
) -> None:
    run(code, names)
    with graphzero.open("data") as ds:
        assert (ds.num_nodes, ds.graph.num_input_edges) == (ogb.NODES, ogb.EDGES)
        assert sorted(ds.splits) == ([] if "links" in source else ["test", "train", "val"])


def test_every_row_is_run() -> None:
    lines = [line for line in TEXT.splitlines() if line.startswith("| ")]
    assert len(ROWS.findall(TEXT)) == sum(line != "| source | code |" for line in lines) > 20
    assert len(ROWS.findall(SECTION.split("\n### ")[0])) == 4


def test_the_scripts_for_links_and_graphbolt(names: dict[str, Any]) -> None:
    links, bolt = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    found = dict(names)
    exec(links, found)
    splits = ogb.link_splits()
    edges = [len(list(batch.edge_label_index[0])) for batch in found["negative"]]
    assert sum(edges) == len(splits["valid"]["edge_neg"])
    assert sum(len(b.edge_label) for b in found["train"]) == 2 * len(splits["train"]["edge"])
    found["ds"].close()
    run(bolt, names)
    graph = ogb.random_graph()
    with graphzero.open("data") as ds:
        assert ds.num_edges == ogb.EDGES
        assert ds.splits["val"].tolist() == ogb.random_splits()["valid"].tolist()
        labels = ds.labels.gather(range(ogb.NODES)).reshape(-1)
        assert (labels == graph["label"][:, 0]).all()
