"""`infer` against models on the whole graph."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphzero as gz
from graphzero.training import infer

pytest.importorskip("torch_geometric")

from torch_geometric.nn import GATConv, GCNConv, HeteroConv, SAGEConv, models

NODES, EDGES, DIM = 300, 3000, 8
RNG = np.random.default_rng(0)
EDGE_INDEX = (RNG.random((2, EDGES)) ** 2 * NODES).astype(np.int64)  # hubs, loops, parallel edges
X = RNG.normal(size=(NODES, DIM)).astype(np.float32)
TYPES = {"author": 120, "paper": NODES}
TYPED = {
    kind: np.stack(
        [RNG.random(2000) ** 2 * TYPES[kind[0]], RNG.random(2000) ** 2 * TYPES[kind[2]]]
    ).astype(np.int64)
    for kind in (("author", "writes", "paper"), ("paper", "cites", "paper"))
}
TYPED["paper", "by", "author"] = TYPED["author", "writes", "paper"][::-1].copy()
TYPED_X = {kind: RNG.normal(size=(count, DIM)).astype(np.float32) for kind, count in TYPES.items()}
BATCH_EDGES = 60  # fewer than hubs have

MODELS: dict[str, Callable[[], Any]] = {
    "GraphSAGE": lambda: models.GraphSAGE(DIM, 16, 3, 5, dropout=0.5, norm="batch"),
    "GraphSAGE, max": lambda: models.GraphSAGE(DIM, 16, 2, 5, aggr="max", jk="last"),
    "GCN": lambda: models.GCN(DIM, 16, 2, 5, dropout=0.5),
    "GCN, norm": lambda: models.GCN(DIM, 9, 2, 5, norm="layer_norm", norm_kwargs={"mode": "node"}),
    "GAT": lambda: models.GAT(DIM, 16, 2, 5, heads=2, act="elu"),
    "GIN": lambda: models.GIN(DIM, 16, 2, 5),
}


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mini-batches of so few edges that hubs are alone."""
    monkeypatch.setattr(infer.OneLayer, "_fitting", lambda *_: BATCH_EDGES)


@pytest.fixture
def ds(tmp_path: Path) -> Iterator[gz.Dataset]:
    with gz.build(tmp_path / "data", EDGE_INDEX, X) as ds:
        yield ds
        gc.collect()  # the frames of an expected error have views of the files


def whole(model: Any, edge_index: Any = EDGE_INDEX) -> torch.Tensor:
    """What a model computes on the whole graph."""
    model.eval()
    with torch.no_grad():
        rows: torch.Tensor = model(torch.from_numpy(X), torch.from_numpy(edge_index))
    return rows


def check(store: gz.FeatureStore, wanted: torch.Tensor) -> None:
    """Compares rows, and closes their file."""
    with store:
        rows = torch.from_numpy(store[:])
    torch.testing.assert_close(rows, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_models_of_pyg_equal_their_forward_on_the_whole_graph(
    name: str, ds: gz.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    model = MODELS[name]()
    wanted = whole(model)
    model.train()
    check(gz.infer(model, ds, tmp_path / "h.gd"), wanted)
    monkeypatch.setattr(infer.OneLayer, "_fitting", lambda *_: BATCH_EDGES)
    check(gz.infer(model, ds, tmp_path / "h.gd"), wanted)
    assert model.training
    assert {path.name for path in tmp_path.iterdir()} == {"data", "h.gd"}
    assert gz.verify(tmp_path / "h.gd") == []


@pytest.mark.parametrize("order", ["input", "hot"])
def test_undirected_graphs_and_the_own_model(
    order: Any, tmp_path: Path, small_batches: None
) -> None:
    simple = np.unique(np.sort(EDGE_INDEX, axis=0), axis=1)
    is_loop = simple[0] == simple[1]
    both = np.concatenate([simple, simple[::-1, ~is_loop]], axis=1)
    both = both[:, np.argsort(both[1], kind="stable")]  # as in batches
    ds = gz.build(tmp_path / "data", simple, X, directed=False, order=order)
    model = models.GCN(DIM, 16, 2, 5)
    check(gz.infer(model, ds, tmp_path / "h.gd"), whole(model, both))
    own = gz.GraphSAGE(DIM, 16, 5, 2)
    with torch.no_grad():
        wanted = own.eval()(torch.from_numpy(X), torch.from_numpy(both))
    check(gz.infer(own, ds, tmp_path / "h.gd"), wanted)


@pytest.mark.parametrize("are_small", [False, True])
def test_typed_graphs_by_functions(
    are_small: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if are_small:
        request.getfixturevalue("small_batches")
    ds = gz.build(tmp_path / "data", TYPED, nodes={kind: {"x": x} for kind, x in TYPED_X.items()})
    first = HeteroConv({kind: SAGEConv((DIM, DIM), 16) for kind in TYPED})
    second = HeteroConv(
        {
            ("author", "writes", "paper"): GATConv((16, 16), 5, heads=2, add_self_loops=False),
            ("paper", "cites", "paper"): GATConv(16, 5, heads=2),
        }
    )
    functions = [
        lambda batch: first(batch.x_dict, batch.edge_index_dict),
        lambda batch: second(batch.x_dict, batch.edge_index_dict),
    ]
    with torch.no_grad():
        edges = {kind: torch.from_numpy(each) for kind, each in TYPED.items()}
        wanted = second(first({k: torch.from_numpy(x) for k, x in TYPED_X.items()}, edges), edges)
    (tmp_path / "h").mkdir()
    (tmp_path / "h" / "author.gd").write_bytes(b"of an earlier inference")
    with pytest.raises(ValueError, match="whole models .* without types only"):
        gz.infer(models.GCN(DIM, 8, 1, 5), ds, tmp_path / "h")
    found = gz.infer(functions, ds, tmp_path / "h")
    assert {path.name for path in (tmp_path / "h").iterdir()} == {"paper.gd"}
    assert found.keys() == wanted.keys() == {"paper"}  # the last layer has nothing of authors
    check(found["paper"], wanted["paper"])


def test_attributes_of_edges_are_in_batches(tmp_path: Path, small_batches: None) -> None:
    weight = RNG.random(EDGES).astype(np.float32)
    edges = {"edge_index": EDGE_INDEX, "edge_weight": weight}
    ds = gz.build(tmp_path / "data", edges, X, weight_attrs=[])
    conv = GCNConv(DIM, 5, normalize=False, add_self_loops=False)
    rows = gz.infer(
        [lambda batch: conv(batch.x, batch.edge_index, batch.edge_weight)],
        *(ds, tmp_path / "h.gd"),
        gather=["x", "edge_weight"],
    )
    with torch.no_grad():
        x, index, each = map(torch.from_numpy, (X, EDGE_INDEX, weight))
        torch.testing.assert_close(torch.from_numpy(rows[:]), conv(x, index, each))
    again = gz.Dataset(ds.graph, features=rows)  # the rows are features of the same nodes
    batch = gz.NeighborLoader(again, [2], None, batch_size=4)([7, 1])
    assert torch.equal(batch.x, torch.from_numpy(rows[batch.n_id.numpy()]))


def test_a_node_with_more_neighbors_than_memory_is_refused(
    ds: gz.Dataset, tmp_path: Path, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions = conv_of(SAGEConv(DIM, 4))
    monkeypatch.setattr(infer, "available_memory", lambda: 10_000)
    with pytest.raises(ValueError, match=r"node \d+ has \d+ .* graphzero\.StreamedLayer"):
        gz.infer(functions, ds, tmp_path / "h.gd")


def conv_of(conv: Any) -> list[Any]:
    return [lambda batch: conv(batch.x, batch.edge_index)]


@pytest.mark.parametrize(
    ("model", "error", "text"),
    [
        (lambda: torch.nn.Linear(DIM, 2), TypeError, "a function for each layer"),
        (lambda: models.GCN(DIM, 8, 2, 5, jk="cat"), ValueError, "jk='cat'"),
        (lambda: conv_of(GCNConv(DIM, 4)), ValueError, "more than the neighbours"),
        (lambda: [lambda b: b.x[:, :2] * torch.rand(1)], ValueError, "more than the neighbours"),
        (lambda: [lambda b: b.x - b.x.mean(0)], ValueError, "use norms of a node alone"),
        (lambda: models.GAT(DIM, 8, 2, 5, edge_dim=3), ValueError, "has edge_dim"),
        (lambda: conv_of(torch.nn.Bilinear(1, 1, 1)), RuntimeError, "dtype"),
        (lambda: [lambda b: b.x[:1]], ValueError, "a row for each seed"),
    ],
)
def test_refused_models(
    model: Any,
    error: type[Exception],
    text: str,
    ds: gz.Dataset,
    tmp_path: Path,
    small_batches: Any,
) -> None:
    with pytest.raises(error, match=text):
        gz.infer(model(), ds, tmp_path / "h.gd")
    assert {path.name for path in tmp_path.iterdir()} <= {"data"}


@pytest.mark.parametrize("norm", ["graph_norm", "instance_norm", "pair_norm", "layer_norm"])
@pytest.mark.parametrize("num_edges", [EDGES, 1])  # of one edge, all nodes but one have no list
def test_norms_over_all_nodes_are_refused(norm: str, num_edges: int, tmp_path: Path) -> None:
    ds = gz.build(tmp_path / "data", EDGE_INDEX[:, :num_edges], X)
    of_pyg = models.GraphSAGE(DIM, 16, 2, 5, norm=norm)
    conv, over_nodes = of_pyg.convs[0], of_pyg.norms[0]
    for model in (of_pyg, [lambda b: over_nodes(conv(b.x, b.edge_index)[: b.batch_size])]):
        with pytest.raises(ValueError, match="norms over all nodes"):
            gz.infer(model, ds, tmp_path / "h.gd")


def test_whole_models_refuse_attributes_of_edges(tmp_path: Path) -> None:
    edges = {"edge_index": EDGE_INDEX, "edge_weight": np.ones(EDGES, np.float32)}
    ds = gz.build(tmp_path / "data", edges, X)
    for model in (models.GCN(DIM, 8, 2, 5), gz.GraphSAGE(DIM, 8, 5, 2)):
        with pytest.raises(ValueError, match="leave edge_weight out of gather"):
            gz.infer(model, ds, tmp_path / "h.gd", gather=("x", "edge_weight"))


def test_refused_datasets_and_outputs(ds: gz.Dataset, tmp_path: Path) -> None:
    model = models.GraphSAGE(DIM, 8, 1, 5)
    with pytest.raises(ValueError, match="which is read"):
        gz.infer(model, ds, tmp_path / "data" / "features.gd")
    with pytest.raises(ValueError, match="no attribute 'x'"):
        gz.infer(model, gz.Dataset(ds.graph), tmp_path / "h.gd")
    with pytest.raises(ValueError, match="in-neighbours"):
        gz.infer(model, gz.build(tmp_path / "out", EDGE_INDEX, X, neighbors="out"), tmp_path / "h")
    with pytest.raises(ValueError, match="memory_limit must be at least"):
        gz.infer(model, ds, tmp_path / "h.gd", memory_limit="1MB")
    edited = ds.x.mul_(2)
    with pytest.raises(ValueError, match="edited in place"):
        gz.infer(model, ds, tmp_path / "h.gd")
    del edited


def test_an_interrupted_inference_is_resumed(
    ds: gz.Dataset, tmp_path: Path, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphzero.training.layer_files._RECORD_EVERY", 0.0)
    first, second = SAGEConv(DIM, 16), SAGEConv(16, 5)
    calls, stop = [0, 0], [40]

    def counted(i: int, conv: Any) -> Any:
        def layer(batch: Any) -> Any:
            calls[i] += 1
            if i == 1 and calls[1] == stop[0]:
                raise KeyboardInterrupt
            return conv(batch.x, batch.edge_index)

        return layer

    functions = [counted(0, first), counted(1, second)]
    path = tmp_path / "h.gd"
    with pytest.raises(KeyboardInterrupt):
        gz.infer(functions, ds, path)
    assert not path.exists()
    whole_calls = calls[0]
    with pytest.raises(ValueError, match="resume=True continues it"):
        gz.infer(functions, ds, path)
    other = gz.build(tmp_path / "other", EDGE_INDEX[:, 1:], X)
    with pytest.raises(ValueError, match=r"another one: .*graph \("):
        gz.infer(functions, other, path, resume=True)
    record = tmp_path / "h.gd.unfinished" / "progress.json"
    intact = record.read_bytes()
    for damaged in (b"", b"{", b"[0, {}]", b"[" * 100_000, intact.replace(b"2", b"3")):
        record.write_bytes(damaged)
        with pytest.raises(gz.FormatError, match=r"progress\.json is damaged.*resume=False"):
            gz.infer(functions, ds, path, resume=True)
    record.write_bytes(intact)
    gz.infer(functions, ds, path, resume=True)
    assert calls[0] == whole_calls
    resumed = path.read_bytes()
    stop[0] = calls[1] = 0
    gz.infer(functions, ds, path, resume=False)
    assert calls[1] > 45  # of which 40 were not repeated above
    assert path.read_bytes() == resumed


@pytest.mark.extended
def test_kills_at_many_moments_leave_the_same_rows(
    ds: gz.Dataset, tmp_path: Path, small_batches: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphzero.training.layer_files._RECORD_EVERY", 0.01)
    model = models.GraphSAGE(DIM, 16, 3, 5)
    gz.infer(model, ds, tmp_path / "whole.gd")

    def killed(after: float) -> bool:
        child = os.fork()
        if child == 0:
            threading.Timer(after, os._exit, [9]).start()
            gz.infer(model, ds, tmp_path / "h.gd", resume=True)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9

    delays = np.sort(np.random.default_rng(1).uniform(0.002, 0.4, 20))  # one may finish
    assert any([killed(float(delay)) for delay in delays])
    gz.infer(model, ds, tmp_path / "h.gd", resume=True)
    assert (tmp_path / "h.gd").read_bytes() == (tmp_path / "whole.gd").read_bytes()


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_a_model_that_torch_has_saved_infers_rows_of_every_dtype(
    dtype: str, tmp_path: Path
) -> None:
    x = (X * 40 + 128).clip(0, 255).astype(dtype)
    torch.save(gz.GraphSAGE(DIM, 8, 2, 2).state_dict(), tmp_path / "model.pt")
    model = gz.GraphSAGE(DIM, 8, 2, 2).eval()
    model.load_state_dict(torch.load(tmp_path / "model.pt", weights_only=True))
    with gz.build(tmp_path / "data", EDGE_INDEX, x) as narrow:
        scores = gz.infer(model, narrow, tmp_path / "scores.gd")[:]
    with torch.no_grad():
        wanted = model(torch.from_numpy(x).float(), torch.from_numpy(EDGE_INDEX)).numpy()
    np.testing.assert_allclose(scores, wanted, rtol=1e-4, atol=1e-4)
