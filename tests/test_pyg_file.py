"""Graphs of PyG in files of ``torch.save``: the user reads them, mapped, in one line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from files import contents

import graphzero as gz
from graphzero.cli import main

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, HeteroData  # noqa: E402

from graphzero.ingest.sources.torch_file import load_torch  # noqa: E402
from graphzero.pyg import from_data  # noqa: E402

pytestmark = pytest.mark.no_asan

LINE = r"from_data\(torch\.load\(file, weights_only=False, mmap=True\), "


def make_data():
    rng = torch.Generator().manual_seed(0)
    return Data(
        x=torch.randn(30, 4, generator=rng),
        edge_index=torch.randint(0, 30, (2, 100), generator=rng),
        train_mask=torch.rand(30, generator=rng) < 0.5,
        name="a graph",
    )


def make_hetero():
    data = HeteroData()
    data["a"].x, data["b"].x = torch.rand(10, 3), torch.rand(8, 2)
    data["a", "to", "b"].edge_index = torch.randint(0, 8, (2, 40))
    return data


@pytest.mark.parametrize("make", [make_data, make_hetero])
def test_the_line_that_errors_show_stores_the_graph_in_the_file(tmp_path, make, capfd):
    data, file = make(), tmp_path / "g.pt"
    torch.save(data, file)
    with pytest.raises(TypeError, match=f"not {type(file).__name__}.*{LINE}"):
        from_data(file, tmp_path / "b")
    with pytest.raises(ValueError, match=f"g.pt has an object of .*{LINE}"):
        gz.build(tmp_path / "b", file)
    assert main(["build", str(tmp_path / "b"), "--edges", str(file)]) == 1
    assert "from_data(torch.load(file, weights_only=False, mmap=True), " in capfd.readouterr().err
    assert not (tmp_path / "b").exists()
    from_data(data, tmp_path / "p")
    from_data(torch.load(file, weights_only=False, mmap=True), tmp_path / "b")
    assert contents(tmp_path / "b") == contents(tmp_path / "p")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_its_tensors_are_mapped_and_not_loaded(tmp_path):
    path = tmp_path / "g.pt"
    torch.save({"x": torch.ones(1000, 64)}, path)
    x = load_torch(path)["x"]
    (mapped,) = [
        line for line in Path("/proc/self/maps").read_text().splitlines() if str(path) in line
    ]
    begin, end = (int(at, 16) for at in mapped.split()[0].split("-"))
    assert begin <= x.data_ptr() < end
