"""`graphzero.pyg.NeighborLoader` and `LinkNeighborLoader`: PyG's type and contract of batches."""

from __future__ import annotations

import subprocess
import sys

import pytest

import graphzero as gz

torch = pytest.importorskip("torch")
pyg = pytest.importorskip("torch_geometric")

from torch_geometric.data import Data  # noqa: E402

from graphzero.pyg import LinkNeighborLoader, NeighborLoader, from_data  # noqa: E402

# The C code that these loaders reach is sanitized by the tests of their open form.
pytestmark = pytest.mark.no_asan


@pytest.fixture
def data():
    data = Data(x=torch.rand(80, 6), edge_index=torch.randint(0, 80, (2, 600)))
    data.name = "made"
    return data


@pytest.fixture
def stored(data, tmp_path):
    with from_data(data, tmp_path / "store") as ds:
        yield ds


def test_no_rank_is_left_seeds_that_were_not_given_to_it(stored, monkeypatch):
    """As in PyG, each process has all the seeds that it was given, without being asked."""
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda group=None: 2)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda group=None: 1)
    loader = NeighborLoader(stored, [2], torch.arange(40), batch_size=8)
    assert sum(batch.batch_size for batch in loader) == 40
    dealt = NeighborLoader(
        stored, [2], torch.arange(40), batch_size=8, distributed=True, even=False, seed=0
    )
    assert sum(batch.batch_size for batch in dealt) == 16
    with pytest.raises(ValueError, match="distributed"):
        iter(gz.NeighborLoader(stored, [2], torch.arange(40), batch_size=8))


@pytest.mark.parametrize("loader", [NeighborLoader, LinkNeighborLoader])
def test_a_graph_in_memory_is_answered_with_the_line_to_add(data, loader):
    line = r"from graphzero.pyg import from_data; ds = from_data\(data, 'data/'\)"
    for arguments in ({"data": data}, {"dataset": data}, {"data": (data, data)}):
        with pytest.raises(TypeError, match=f"not .*Data.* is written once: {line}"):
            loader(**arguments, num_neighbors=[2])


def test_what_belongs_to_the_graph_does_not_hide_a_field_of_the_batch(data, tmp_path):
    data.edge_label_index = data.edge_index[:, :50]
    data.batch_size = 3
    with from_data(data, tmp_path / "links") as ds:
        (batch,) = LinkNeighborLoader(ds, [2], edge_label_index=ds.edge_label_index, batch_size=50)
        assert batch.edge_label_index.shape == (2, 50)
        assert batch.batch_size == 50
        around_nodes = next(iter(NeighborLoader(ds, [2], batch_size=5)))
        assert "edge_label_index" not in around_nodes


@pytest.mark.extended
def test_without_lightning_an_error_says_what_to_install(tmp_path):
    code = (
        "import sys, graphzero as gz, numpy as np\n"
        "for name in ('lightning', 'lightning.pytorch', 'pytorch_lightning'):\n"
        "    sys.modules[name] = None\n"
        "from graphzero.pyg import DataModule\n"
        "try:\n"
        "    DataModule(gz.build('d', np.zeros((1, 2), int)), num_neighbors=[2])\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "pip install lightning" in done.stdout
