"""The scripts of examples/pyg, on graphzero as they are and on PyG with its lines put back."""

from __future__ import annotations

import importlib.util
import socket
import sys
from pathlib import Path

import others
import pytest

# the benchmarks are not installed with the package
sys.path.append(str(Path(__file__).parents[1]))

from benchmarks import pyg_scripts

pytest.importorskip("torch_geometric")

needs_lightning = pytest.mark.skipif(
    importlib.util.find_spec("lightning") is None, reason="lightning is not installed"
)

# Name, folder of the graph, arguments, and a lower bound of the last figure that is printed.
CASES = [
    pytest.param("node_classification", "cora", ["--conv", "sage", "--epochs", "4"], 0.7),
    pytest.param("node_classification", "cora", ["--conv", "gcn", "--epochs", "4"], 0.7),
    pytest.param("link_prediction", "cora", ["--epochs", "2"], 0.75),
    pytest.param("link_ranking", "cora", ["--epochs", "3"], 0.04),
    pytest.param("ddp", "cora", ["--epochs", "3"], 0.6),
    pytest.param(
        "lightning_nodes", "cora", ["--epochs", "4", "--devices", "2"], 0.7, marks=needs_lightning
    ),
    pytest.param("typed", "openflights", ["--epochs", "5"], 0.8),
    pytest.param("typed_links", "openflights", ["--epochs", "3"], 0.95),
    pytest.param("temporal", "cit_hepph", ["--epochs", "1"], 0.75),
]

# PyG's own examples, and bounds that chance does not reach where they are not 0.6.
PORTED = {path.stem for path in (pyg_scripts.FOLDER / "ported").glob("*.py")} - {"parts"}
LEAST = {"graph_sage_unsup": 0.4, "graph_sage_unsup_ppi": 0.25, "infomax_inductive": 0.5}
LEAST |= {"ogbn_proteins_deepgcn": 0.4, "recommender_system": 0.4, "lightning_graph_sage": 0.5}
# These need no extension of PyG.
IN_TORCH = ("ogbn_proteins_deepgcn", "rev_gnn")
WITH_METIS_OR_PYG_LIB = ("cluster_gcn_ppi", "cluster_gcn_reddit", "hierarchical_sage")
WITH_METIS_OR_PYG_LIB += ("hierarchical_sampling", "ogbn_train", "recommender_system")
WITH_METIS_OR_PYG_LIB += ("temporal_link_pred",)

# Minutes of training in scripts: what they use is sanitized by the tests of its own.
pytestmark = pytest.mark.no_asan


def _pyg_samples(name):
    """Whether PyG has the extension that samples for a script."""
    from torch_geometric import typing

    return typing.WITH_PYG_LIB or (typing.WITH_TORCH_SPARSE and name != "temporal")


def last_figure(script: Path, folder, arguments, cwd):
    folders = [pyg_scripts.FOLDER, pyg_scripts.FOLDER / "ported"]
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = str(free.getsockname()[1])
    if script.stem == "ddp":
        arguments = [*arguments, "--port", port]
    how = {"cwd": cwd, "folders": folders, "MASTER_ADDR": "localhost", "MASTER_PORT": port}
    return others.last_figure(script, folder, *arguments, **how)


@pytest.mark.extended
@pytest.mark.parametrize(("name", "graph", "arguments", "least"), CASES)
def test_scripts_learn_on_graphzero(real_data, tmp_path, name, graph, arguments, least):
    script = pyg_scripts.FOLDER / f"{name}.py"
    assert last_figure(script, real_data / graph, arguments, tmp_path) > least


@pytest.mark.extended
@pytest.mark.parametrize("name", sorted(PORTED))
def test_ported_examples_learn_on_graphzero(real_data, tmp_path, name):
    script = pyg_scripts.FOLDER / "ported" / f"{name}.py"
    if "lightning" in name:
        pytest.importorskip("lightning")
    ours = last_figure(script, real_data, [], tmp_path)
    assert ours > LEAST.get(name, 0.6)
    if name in IN_TORCH or (_pyg_samples(name) and name not in WITH_METIS_OR_PYG_LIB):
        theirs = tmp_path / f"{name}.py"
        theirs.write_text(pyg_scripts.on_pyg(f"ported/{name}"))
        assert abs(last_figure(theirs, real_data, [], tmp_path) - ours) < 0.15
