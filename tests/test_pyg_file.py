"""Graphs in files of PyG and of ``torch.save``: mapped, stored as the graphs in memory are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from files import contents

import graphzero as gz

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, HeteroData, InMemoryDataset  # noqa: E402

from graphzero.ingest.sources.torch_file import load_torch  # noqa: E402
from graphzero.pyg import from_data  # noqa: E402

pytestmark = pytest.mark.no_asan


def make_data(seed=0):
    rng = torch.Generator().manual_seed(seed)
    return Data(
        x=torch.randn(30, 4, generator=rng),
        edge_index=torch.randint(0, 30, (2, 100), generator=rng),
        edge_attr=torch.randn(100, 2, generator=rng),
        y=torch.randint(0, 3, (30,), generator=rng),
        train_mask=torch.rand(30, generator=rng) < 0.5,
        name="a graph",
    )


def make_hetero():
    data = HeteroData()
    data["a"].x, data["b"].x = torch.rand(10, 3), torch.rand(8, 2)
    data["a", "to", "b"].edge_index = torch.randint(0, 8, (2, 40))
    return data


class Processed(InMemoryDataset):
    def __init__(self, root, graphs):
        self.graphs = graphs
        super().__init__(root)

    @property
    def processed_file_names(self):
        return ["data.pt"]

    def process(self):
        self.save(self.graphs, self.processed_paths[0])


def written(folder, data, kind):
    """The file of a graph, as its users have it."""
    if kind == "processed":
        Processed(folder / "root", [data])
        return folder / "root" / "processed" / "data.pt"
    content = {
        "graph": data,
        "dictionary": data.to_dict(),
        "of an earlier PyG": (data, None),
        "of one graph with slices": (data.to_dict(), {"x": torch.tensor([0, 30])}, Data),
    }
    torch.save(content[kind], folder / "g.pt")
    return folder / "g.pt"


KINDS = ["processed", "graph", "dictionary", "of an earlier PyG", "of one graph with slices"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("typed", [False, True])
def test_a_file_is_stored_as_the_graph_in_it(tmp_path, kind, typed):
    data = make_hetero() if typed else make_data()
    path = written(tmp_path, data, kind)
    from_data(data, tmp_path / "p")
    from_data(str(path), tmp_path / "b")
    assert contents(tmp_path / "b") == contents(tmp_path / "p")


class Other:
    pass


def test_files_that_are_no_graph(tmp_path):
    Processed(tmp_path / "root", [make_data(), make_data(1)])
    with pytest.raises(ValueError, match=r"data\.pt holds 2 graphs, and a dataset folder holds"):
        from_data(tmp_path / "root" / "processed" / "data.pt", tmp_path / "b")
    path = tmp_path / "g.pt"
    for content, message in (
        (Data(x=Other()), "g.pt has an object of .*Other"),
        (torch.ones(3), "g.pt holds Tensor, and no graph"),
        ((make_data(),), "g.pt holds tuple, and no graph"),
    ):
        torch.save(content, path)
        with pytest.raises(ValueError, match=message):
            from_data(path, tmp_path / "b")
    torch.save(make_data(), path)
    with pytest.raises(ValueError, match=r"graphzero\.pyg\.from_data takes graphs of PyG"):
        gz.build(tmp_path / "b", path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"g\.pt is not a complete torch file"):
        from_data(path, tmp_path / "b")
    with pytest.raises(FileNotFoundError):
        from_data(tmp_path / "none.pt", tmp_path / "b")
    assert not (tmp_path / "b").exists()


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
