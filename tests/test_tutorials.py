"""The counterparts of PyG's tutorials, run as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

DOCS = Path(__file__).resolve().parents[1] / "docs"
# Minutes of training: what it uses is sanitized by the tests of its own.
pytestmark = [pytest.mark.no_asan, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the blocks of a tutorial, and returns the names that they leave."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)

    def run_blocks(page):
        names: dict[str, object] = {}
        text = (DOCS / f"tutorial-{page}.md").read_text()
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL)):
            exec(compile(block, f"block {number} of {page}", "exec"), names)
        return names

    return run_blocks


def test_creating_graph_datasets(run):
    names = run("datasets")
    table = np.loadtxt("people/raw/people.csv", np.int64, delimiter=",", skiprows=1)
    ds = names["ds"]
    np.testing.assert_array_equal(ds.x[:, 0], table[:, 1])
    np.testing.assert_array_equal(ds.y, table[:, 2])
    before = Path("people/processed/dataset.json").stat()
    assert names["people"]("people").num_edges == ds.num_edges  # opened, and not built again
    assert Path("people/processed/dataset.json").stat().st_mtime_ns == before.st_mtime_ns
    assert names["large"].num_edges == 40_000


def test_neighbour_sampling(run, capsys):
    names = run("sampling")
    assert float(re.search(r"test accuracy ([\d.]+)", capsys.readouterr().out)[1]) > 0.8
    batch, model = names["batch"], names["model"].eval()
    whole = model(batch.x, batch.edge_index)[: batch.batch_size]
    nodes, edges = batch.num_sampled_nodes, batch.num_sampled_edges
    trimmed = model(
        batch.x, batch.edge_index, num_sampled_nodes_per_hop=nodes, num_sampled_edges_per_hop=edges
    )[: batch.batch_size]
    torch.testing.assert_close(trimmed, whole)  # what the page leaves out was not needed


def test_heterogeneous_graph_learning(run, capsys):
    names = run("heterogeneous")
    losses = dict(re.findall(r"(\w+): ([\d.]+)", capsys.readouterr().out))
    assert list(losses) == ["to_hetero", "HeteroConv", "HGTConv"]
    assert max(map(float, losses.values())) < 0.9  # ln 3 is that of a model that knows nothing
    assert ("paper", "rev_writes", "author") in names["data"].edge_types
    assert names["rows"]["author"].shape == (90, 3)


def test_point_in_time_link_prediction(run, capsys):
    names = run("point-in-time")
    assert float(re.search(r"right about ([\d.]+)", capsys.readouterr().out)[1]) > 0.75
    edges = names["batch"][names["REV"]]
    assert edges.num_edges > 1000  # the page's check of days is one of edges
