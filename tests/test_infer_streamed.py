"""Layers that `infer` streams: against PyG on whole graphs, in any memory, by any threads."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import elu

import graphzero as gz
from graphzero.training import stream
from graphzero.training.layer_files import RowsFile

pytest.importorskip("torch_geometric")

from torch_geometric.nn import GATConv, GINConv, GraphConv, HeteroConv, SAGEConv, models
from torch_geometric.utils import scatter

NODES, DIM = 900, 8
RNG = np.random.default_rng(0)
EDGE_INDEX = (RNG.random((2, 9000)) ** 3 * NODES).astype(np.int64)  # hubs, loops, parallel edges
X = RNG.normal(size=(NODES, DIM)).astype(np.float32)
WEIGHT = RNG.random(EDGE_INDEX.shape[1]).astype(np.float32)

MODELS: dict[str, Callable[[int], Any]] = {
    "mean": lambda dim: models.GraphSAGE(dim, 12, 2, 5),
    "max": lambda dim: models.GraphSAGE(dim, 12, 2, 5, aggr="max"),
    "min": lambda dim: models.GraphSAGE(dim, 12, 2, 5, aggr="min", project=True, normalize=True),
    "GCN": lambda dim: models.GCN(dim, 12, 2, 5, norm="batch"),
    "GIN": lambda dim: models.GIN(dim, 12, 2, 5, train_eps=True),
    "GAT": lambda dim: models.GAT(dim, 12, 2, 5, heads=3, residual=True),
    "GAT without loops": lambda dim: models.GAT(dim, 12, 2, 4, heads=2, add_self_loops=False),
}


def rows_of(model: Any, x: np.ndarray, edge_index: np.ndarray) -> torch.Tensor:
    """What a model computes on the whole graph."""
    with torch.no_grad():
        rows: torch.Tensor = model.eval()(torch.from_numpy(x), torch.from_numpy(edge_index))
    return rows


def assert_near(store: gz.FeatureStore, wanted: torch.Tensor) -> None:
    """Rows are equal to within 1e-5 of the largest number."""
    with store:
        rows = torch.from_numpy(store[:])
    assert rows.shape == wanted.shape
    assert float((rows - wanted).abs().max()) <= 1e-5 * float(wanted.abs().max())


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and windows of 64 nodes, and sums in float64 from 20 edges on."""
    monkeypatch.setattr(stream, "_CHUNK_BYTES", 64 * 4 * 12)
    monkeypatch.setattr(stream, "_WIDE_FROM", 20)
    monkeypatch.setattr(stream.StreamedRows, "_memory", lambda *_: 40_000)


@pytest.fixture
def ds(tmp_path: Path) -> Iterator[gz.Dataset]:
    with gz.build(tmp_path / "data", EDGE_INDEX, X) as ds:
        yield ds
        gc.collect()  # the frames of an expected error have views of the files


@pytest.fixture
def no_gathering(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphzero.training.infer.OneLayer.rows", None)


@pytest.mark.parametrize("name", MODELS)
def test_memory_and_threads_change_no_byte(
    name: str, ds: gz.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_gathering: None
) -> None:
    monkeypatch.setattr(stream, "_CHUNK_BYTES", 64 * 4 * 12)
    monkeypatch.setattr(stream, "_WIDE_FROM", 20)
    torch.manual_seed(0)
    model = MODELS[name](DIM)
    contents = set()
    for memory, threads in ((1 << 30, 2), (1 << 30, 1), (200_000, 2), (40_000, 1)):
        monkeypatch.setattr(stream.StreamedRows, "_memory", lambda *_, m=memory: m)
        monkeypatch.setattr(stream, "_num_threads", lambda n=threads: n)
        assert_near(gz.infer(model, ds, tmp_path / "h.gd"), rows_of(model, X, EDGE_INDEX))
        contents.add((tmp_path / "h.gd").read_bytes())
    assert len(contents) == 1


@pytest.mark.parametrize("graph", ["cora", "tolokers", "openflights"])
def test_real_graphs(
    graph: str, real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges, features = real_data / graph / "edges.csv", real_data / graph / "features.npy"
    x = np.load(features).astype(np.float32)
    edge_index = np.loadtxt(edges, np.int64, delimiter=",", skiprows=1, usecols=(0, 1)).T.copy()
    monkeypatch.setattr(stream.StreamedRows, "_memory", lambda *_: 2_000_000)
    with gz.build(tmp_path / "data", edge_index, x) as ds:
        for name in ("mean", "max", "GCN", "GIN", "GAT"):
            torch.manual_seed(0)
            model = MODELS[name](x.shape[1])
            assert_near(gz.infer(model, ds, tmp_path / "h.gd"), rows_of(model, x, edge_index))


def test_typed_layers(small: None, no_gathering: None, tmp_path: Path) -> None:
    counts = {"author": 300, "paper": NODES}
    types = [("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "by", "author")]
    edges = {
        kind: np.stack([RNG.random(4000) ** 3 * counts[kind[i]] for i in (0, 2)]).astype(np.int64)
        for kind in types
    }
    x = {k: RNG.normal(size=(n, DIM)).astype(np.float32) for k, n in counts.items()}
    ds = gz.build(tmp_path / "data", edges, nodes={k: {"x": rows} for k, rows in x.items()})
    mlp = torch.nn.Sequential(torch.nn.Linear(DIM, 12), torch.nn.Dropout()).eval()
    first = HeteroConv(
        {
            types[0]: SAGEConv((DIM, DIM), 12),
            types[1]: GINConv(mlp),
            types[2]: GraphConv((DIM, DIM), 12, aggr="max"),
        },
        aggr="max",
    )
    second = HeteroConv(
        {
            types[0]: GATConv((12, 12), 5, heads=2, add_self_loops=False),
            types[1]: GATConv(12, 5, heads=2),
        }
    )
    with torch.no_grad():
        edge_index = {kind: torch.from_numpy(both) for kind, both in edges.items()}
        hidden = first({k: torch.from_numpy(rows) for k, rows in x.items()}, edge_index)
        wanted = second({k: elu(rows) for k, rows in hidden.items()}, edge_index)
    mlp.train()
    stores = gz.infer([gz.StreamedLayer.of(first, elu), second], ds, tmp_path / "h")
    assert stores.keys() == wanted.keys() == {"paper"}
    assert_near(stores["paper"], wanted["paper"])


def test_a_layer_of_ones_own_with_weights_of_edges(small: None, tmp_path: Path) -> None:
    edges = {"edge_index": EDGE_INDEX, "edge_weight": WEIGHT}
    ds = gz.build(tmp_path / "data", edges, X.astype(np.float16), weight_attrs=[])
    x, (source, target), weight = map(torch.from_numpy, (X, EDGE_INDEX, WEIGHT))
    x = x.half().float()
    layers = [
        gz.StreamedLayer(
            messages=gz.Messages(reduce=reduce, transform=torch.sin, edge_weight="edge_weight"),
            update=lambda sums, x: torch.cat([sums, x], dim=1),
        )
        for reduce in ("sum", "mean", "min")
    ]
    for layer in layers:
        rows = gz.infer([layer], ds, tmp_path / "h.gd")
        reduce = layer.messages.reduce
        sums = scatter(x.sin()[source] * weight[:, None], target, 0, NODES, reduce=reduce)
        assert_near(rows, torch.cat([sums, x], dim=1))
    with pytest.raises(ValueError, match="edges have no 'other'"):
        messages = gz.Messages(edge_weight="other")
        layer = gz.StreamedLayer(messages=messages, update=lambda sums, x: sums)
        gz.infer([layer], ds, tmp_path / "h.gd")


@pytest.mark.parametrize("is_hub_source", [False, True])
def test_a_star_is_streamed_in_little_memory(is_hub_source: bool, tmp_path: Path) -> None:
    leaves = 1_000_000
    ends = np.stack([np.arange(1, leaves + 1), np.zeros(leaves, np.int64)])
    x = RNG.random((leaves + 1, 20), dtype=np.float32)  # 80 MB
    with gz.build(tmp_path / "data", ends[::-1] if is_hub_source else ends, x) as ds:
        layer = gz.StreamedLayer(messages=gz.Messages(), update=lambda sums, x: sums - x)
        with gz.infer([layer], ds, tmp_path / "h.gd", memory_limit=1 << 26) as rows:
            sums = rows[:] + x
    wanted = np.zeros_like(x)
    wanted[slice(1, None) if is_hub_source else 0] = (
        x[0] if is_hub_source else x[1:].astype(np.float64).sum(axis=0)
    )
    np.testing.assert_allclose(sums, wanted, rtol=2e-7, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_files_have_the_dtype_that_is_asked_for(dtype: str, ds: gz.Dataset, tmp_path: Path) -> None:
    model = MODELS["mean"](DIM)
    rows = gz.infer(model, ds, tmp_path / "h.gd", dtype=dtype)
    assert rows.dtype == (gz.BFLOAT16 if dtype == "bfloat16" else np.float16)
    numbers = torch.from_numpy(rows[:].view(np.int16)).view(getattr(torch, dtype)).float()
    torch.testing.assert_close(numbers, rows_of(model, X, EDGE_INDEX), rtol=0.05, atol=0.02)
    assert gz.verify(tmp_path / "h.gd") == []
    with pytest.raises(ValueError, match="dtype must be one of"):
        gz.infer(model, ds, tmp_path / "h.gd", dtype="float64")


def test_an_interrupted_layer_goes_on_where_it_was(
    small: None, ds: gz.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphzero.training.layer_files._RECORD_EVERY", 0.0)
    model, append, count = MODELS["GAT"](DIM), RowsFile.append, [0]
    gz.infer(model, ds, tmp_path / "whole.gd")

    def interrupted(file: RowsFile, rows: Any) -> None:
        count[0] += 1
        if count[0] == 20:
            raise KeyboardInterrupt
        append(file, rows)

    monkeypatch.setattr(RowsFile, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gz.infer(model, ds, tmp_path / "h.gd")
    gz.infer(model, ds, tmp_path / "h.gd", resume=True)
    assert 19 < count[0] - 20 + 19 <= 34  # not what was there
    assert (tmp_path / "h.gd").read_bytes() == (tmp_path / "whole.gd").read_bytes()


@pytest.mark.parametrize("entry", [0, 1 << 31])
def test_corrupt_lists_are_refused(entry: int, small: None, ds: gz.Dataset, tmp_path: Path) -> None:
    section = ds.graph._sections["indices"]
    with open(ds.graph.path, "r+b") as file:
        file.seek(section.offset + 4 * (int(ds.graph.indptr[1]) - 1))  # the last of node 0
        file.write(np.uint32(entry).tobytes())
    with pytest.raises(gz.FormatError, match="corrupt|out of range"):
        gz.infer(MODELS["mean"](DIM), ds, tmp_path / "h.gd")


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (dict(update=lambda sums, x: x - x.mean(0)), "use norms of a node alone"),
        (dict(update=lambda sums, x: sums[:1]), "must return a row for each"),
        (dict(update={}), "by type in a typed graph, only"),
        (
            dict(messages=gz.Messages(transform=lambda x: x / x.sum()), update=lambda s, x: s),
            "more than the neighbours",
        ),
    ],
)
def test_refused_layers(layer: Any, text: str, ds: gz.Dataset, tmp_path: Path) -> None:
    layer.setdefault("messages", gz.Messages())
    with pytest.raises(ValueError, match=text):
        gz.infer([gz.StreamedLayer(**layer)], ds, tmp_path / "h.gd")
    assert {path.name for path in tmp_path.iterdir()} == {"data"}


def test_refused_messages() -> None:
    for options in (
        dict(reduce="median"),
        dict(reduce="max", self_loop=True),
        dict(degree_norm=True),
        dict(reduce="attention"),
        dict(self_loop=True, edge_weight="w"),
    ):
        with pytest.raises(ValueError, match="reduce|self_loop|scores"):
            gz.Messages(**options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="cannot be streamed"):
        gz.StreamedLayer.of(SAGEConv(DIM, 4, aggr="lstm"))
