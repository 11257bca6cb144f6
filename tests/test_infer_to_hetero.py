"""Models of `to_hetero` that `infer` streams: against PyG on the whole graph."""

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

pytest.importorskip("torch_geometric")

from torch_geometric.nn import GATConv, GraphConv, LayerNorm, Linear, SAGEConv, models, to_hetero

COUNTS = {"paper": 700, "author": 300, "field": 40}
KINDS = [
    ("paper", "cites", "paper"),
    ("author", "writes", "paper"),
    ("field", "of", "paper"),
    ("paper", "has", "field"),
    ("paper", "written_by", "author"),
]
RNG = np.random.default_rng(0)
EDGES = {
    kind: (RNG.random((2, 3000)) ** 3 * [[COUNTS[kind[0]]], [COUNTS[kind[2]]]]).astype(np.int64)
    for kind in KINDS
}
X = {
    kind: RNG.normal(size=(count, 4 + i)).astype(np.float32)
    for i, (kind, count) in enumerate(COUNTS.items())
}


def net(forward: Callable[..., Any], **modules: Any) -> Any:
    """A model of some modules."""
    model = type("Net", (torch.nn.Module,), {"forward": forward})()
    for name, module in modules.items():
        setattr(model, name, module)
    return model


def sage(dim: int = 8, **options: Any) -> Any:
    return SAGEConv((-1, -1), dim, **options)


def gat(dim: int, **options: Any) -> Any:
    return GATConv((-1, -1), dim, add_self_loops=False, **options)


def two(m: Any, x: Any, edge_index: Any) -> Any:
    return m.conv2(m.conv1(x, edge_index).relu(), edge_index)


def with_skips(m: Any, x: Any, edge_index: Any) -> Any:
    x = (m.conv1(x, edge_index) + m.lin1(x)).relu()
    return m.conv2(x, edge_index) + m.lin2(x)


def with_maps(m: Any, x: Any, edge_index: Any, edge_weight: Any = None) -> Any:
    x = m.norm(m.conv1(torch.tanh(m.lin(x)), edge_index, edge_weight))
    x = m.conv2(elu(m.dropout(x), alpha=0.7), edge_index).view(-1, 2, 3)
    return torch.cat([x.mean(dim=1), x[:, 0] * 2], dim=-1).softmax(dim=-1)


MODELS: dict[str, tuple[Callable[[], Any], str]] = {
    "SAGEConv": (lambda: net(two, conv1=sage(8), conv2=sage(3)), "sum"),
    "SAGEConv, max": (lambda: net(two, conv1=sage(3), conv2=sage(8, aggr="max")), "mean"),
    "GATConv": (
        lambda: net(
            with_skips, conv1=gat(6, heads=2), conv2=gat(3), lin1=Linear(-1, 12), lin2=Linear(-1, 3)
        ),
        "mean",
    ),
    "GATConv, GraphConv": (
        lambda: net(
            with_maps,
            conv1=gat(3, heads=3),
            conv2=GraphConv((-1, -1), 6, aggr="max"),
            lin=Linear(-1, 8),
            norm=LayerNorm(9, mode="node"),
            dropout=torch.nn.Dropout(),
        ),
        "max",
    ),
    "GraphSAGE": (lambda: models.GraphSAGE((-1, -1), 8, 3, 4, dropout=0.5, norm="batch"), "sum"),
    "GAT": (lambda: models.GAT((-1, -1), 8, 2, 4, add_self_loops=False, jk="cat"), "max"),
}


def build(folder: Path, edges: Any) -> gz.Dataset:
    return gz.build(folder, edges, nodes={kind: {"x": rows} for kind, rows in X.items()})


@pytest.fixture
def ds(tmp_path: Path) -> Iterator[gz.Dataset]:
    with build(tmp_path / "data", EDGES) as ds:
        yield ds
        gc.collect()  # the frames of an expected error have views of the files


def assert_like_pyg(model: Any, ds: gz.Dataset, edges: Any, out: Path) -> None:
    """Rows are equal to within 1e-5 of the largest number."""
    x_dict = {kind: torch.from_numpy(rows) for kind, rows in X.items()}
    with torch.no_grad():
        wanted = model.eval()(x_dict, {k: torch.from_numpy(both) for k, both in edges.items()})
    stores = gz.infer(model.train(), ds, out)
    assert model.training
    assert stores.keys() == {kind for kind, rows in wanted.items() if rows is not None}
    for kind, store in stores.items():
        with store:
            worst = np.abs(store[:] - wanted[kind].numpy()).max()
        assert worst <= 1e-5 * float(wanted[kind].abs().max())


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_those_of_the_whole_graph(
    name: str, ds: gz.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphzero.training.infer.OneLayer.rows", None)
    monkeypatch.setattr(stream, "_CHUNK_BYTES", 64 * 4 * 12)
    monkeypatch.setattr(stream.StreamedRows, "_memory", lambda *_: 40_000)
    torch.manual_seed(0)
    make, aggr = MODELS[name]
    model = to_hetero(make(), (list(COUNTS), KINDS), aggr=aggr)
    code = model.code
    assert_like_pyg(model, ds, EDGES, tmp_path / "h")
    assert model.code == code


def test_types_without_messages_have_no_rows(tmp_path: Path) -> None:
    edges = {kind: EDGES[kind] for kind in KINDS[:-1]}
    model = net(lambda m, x, edge_index: m.conv(x, edge_index), conv=sage())
    with pytest.warns(UserWarning, match="do not get updated"):
        model = to_hetero(model, (list(COUNTS), KINDS[:-1]))
    with build(tmp_path / "data", edges) as ds:
        assert_like_pyg(model, ds, edges, tmp_path / "h")
    assert not (tmp_path / "h" / "author.gd").exists()


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        (lambda m, x, edge_index: two(m, x, edge_index) + m.lin(x), "has rows of several depths"),
        (
            lambda m, x, edge_index: m.conv1(x, edge_index) + m.conv2(x, edge_index),
            "several convolutions of the same depth",
        ),
        (lambda m, x, edge_index: m.median(x, edge_index), "median__.* has not the form"),
        (lambda m, x, edge_index: m.conv1(x, edge_index.flip(0)), "flip__.* is no convolution"),
        (lambda m, x, edge_index, pos: m.conv1(x + pos, edge_index), "more arguments than x"),
        (lambda m, x, edge_index, edge_w: m.conv1(x, edge_index, edge_w), "without edge weights"),
        (lambda m, x, edge_index: (x, m.conv1(x, edge_index)), "does not return rows by node type"),
        (lambda m, x, edge_index: m.lin(x), "has no convolutions"),
    ],
)
def test_models_that_cannot_be_streamed(
    forward: Callable[..., Any], reason: str, ds: gz.Dataset, tmp_path: Path
) -> None:
    modules = dict(conv1=sage(), conv2=sage(), median=sage(aggr="median"), lin=Linear(-1, 8))
    model = to_hetero(net(forward, **modules), (["paper"], KINDS[:1]))
    with pytest.raises(TypeError, match=f"{reason}.*; give a list with a function for each layer"):
        gz.infer(model, ds, tmp_path / "h")
