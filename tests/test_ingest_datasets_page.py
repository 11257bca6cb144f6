"""The code of the section on whole datasets is run as it is printed, on small files."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import ogb_folders as ogb
import pandas
import pytest
import scipy.sparse

import graphzero
from graphzero.cli import main

# Python and pyarrow only.
pytestmark = pytest.mark.no_asan

TEXT = (Path(__file__).resolve().parents[1] / "docs" / "ingest.md").read_text()
SECTION = TEXT.split("## Whole datasets\n")[1].split("\n## ")[0]


def write_nodes(folder: str) -> None:
    graph = ogb.random_graph()
    ogb.write_graph(Path(folder), graph, "node_feat", "node_year")
    ogb.write_node_splits(Path(folder), "time", ogb.random_splits())


def arxiv() -> None:
    write_nodes("dataset/ogbn_arxiv")


def collab() -> None:
    folder, graph = Path("dataset/ogbl_collab"), ogb.random_graph()
    ogb.write_graph(folder, graph, "node_feat", "edge_weight", "edge_year", label=False)
    ogb.write_link_splits(folder, "time", ogb.link_splits("pairs"))


def graphbolt(name: str = "feat") -> None:
    graph, folder = ogb.random_graph(), Path("folder")
    folder.mkdir()
    np.savetxt(folder / "edges.csv", graph["edge_index"].T, "%d", ",")
    np.save(folder / "x.npy", graph["node_feat"])
    (folder / "metadata.yaml").write_text(
        f"graph: {{nodes: [{{num: {ogb.NODES}}}], edges: [{{format: csv, path: edges.csv}}]}}\n"
        f"feature_data: [{{domain: node, name: {name}, format: numpy, path: x.npy}}]\n"
    )


def scipy_matrix() -> None:
    graph = ogb.random_graph()
    entries = (np.ones(ogb.EDGES), tuple(graph["edge_index"]))
    matrix = scipy.sparse.coo_array(entries, shape=(ogb.NODES, ogb.NODES))
    scipy.sparse.save_npz("matrix.npz", matrix)
    np.save("features.npy", graph["node_feat"])


def pandas_frames() -> None:
    graph = ogb.random_graph()
    edges = pandas.DataFrame(graph["edge_index"].T, columns=["src", "dst"])
    edges.to_csv("edges.csv", index=False)
    papers = pandas.DataFrame({"id": range(ogb.NODES), "field": graph["label"][:, 0]})
    papers.to_csv("papers.csv", index=False)


WRITERS: dict[str, Callable[[], None]] = {
    "OGB, a dataset for nodes": arxiv,
    "OGB, in Python": arxiv,
    "OGB, a dataset for links": collab,
    "a graph in OGB's layout": lambda: write_nodes("my_graph"),
    "GraphBolt": graphbolt,
    "GraphBolt, in Python": lambda: graphbolt("title"),
    "a sparse matrix of SciPy": scipy_matrix,
    "frames of pandas": pandas_frames,
}
ROWS = dict(re.findall(r"^\| (.+?) \| `([^`]+)` \|$", SECTION.split("\n### ")[0], re.MULTILINE))
NAMES: dict[str, Any] = {"gz": graphzero, "pandas": pandas, "scipy": scipy}


def test_every_row_has_files_to_run_on() -> None:
    assert ROWS.keys() == WRITERS.keys()


@pytest.mark.parametrize("source", WRITERS)
def test_a_row_runs_as_it_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    if source.startswith("GraphBolt"):
        pytest.importorskip("yaml")
    monkeypatch.chdir(tmp_path)
    WRITERS[source]()
    code = ROWS[source]
    if code.startswith("graphzero "):
        assert main(shlex.split(code)[1:]) == 0
    else:
        exec(code, dict(NAMES))
    with graphzero.open("data") as ds:
        assert ds.num_nodes == ogb.NODES
        assert ds.graph.num_input_edges == ogb.EDGES
        has_splits = source != "OGB, a dataset for links" and "ogb" in code
        assert sorted(ds.splits) == (["test", "train", "val"] if has_splits else [])
        assert (ds.features is None) is (source == "frames of pandas")


def test_the_script_for_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    collab()
    (code,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    names = dict(NAMES)
    exec(code, names)
    splits = ogb.link_splits("pairs")
    found = [len(list(batch.edge_label_index[0])) for batch in names["negative"]]
    assert sum(found) == len(splits["valid"]["edge_neg"])
    assert sum(len(b.edge_label) for b in names["train"]) == 2 * len(splits["train"]["edge"])
    names["ds"].close()
