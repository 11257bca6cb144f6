"""Named attributes: every node and edge keeps its own, whatever is built and reordered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import files
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference_merging import is_symmetric

import graphzero as gz
from graphzero.ingest import build_dataset, reorder_dataset
from graphzero.store.format import DTYPES
from graphzero.store.manifest import read_manifest

EDGES = np.array([[0, 1], [1, 2], [2, 0], [3, 1], [2, 2], [0, 1]])
ORDERS = ("input", "hot", "presample")
SMALL = gz.Presample(fanouts=(3, 2), batch_size=4, min_batches=3)


def numbers(shape: tuple[int, ...], dtype: np.dtype, seed: int = 0) -> np.ndarray:
    """Any bits that are numbers of a dtype, NaN among them for floats of the format."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2 if dtype == np.bool_ else 256, (*shape, dtype.itemsize), np.uint8)
    return bits.view(dtype).reshape(shape)


def ends(ds: gz.Dataset) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Source, target and position in the edge list of every stored edge."""
    graph = ds.graph
    owners = np.repeat(np.arange(ds.num_nodes), np.diff(graph.indptr.astype(np.int64)))
    neighbors = graph.indices.astype(np.int64)
    if graph.node_ids is not None:
        owners, neighbors = graph.node_ids[owners], graph.node_ids[neighbors]
    pair = (neighbors, owners) if graph.is_incoming else (owners, neighbors)
    ids = graph._view("edge_ids")
    assert ids is not None
    return *pair, ids.astype(np.int64)


def assert_edges(
    ds: gz.Dataset, edges: np.ndarray, attributes: dict[str, np.ndarray], *, directed: bool
) -> None:
    """Every stored edge is one of the edge list, each is there, and has its own attributes."""
    source, target, ids = ends(ds)
    same = (edges[ids] == np.stack([source, target], 1)).all(axis=1)
    turned = (edges[ids] == np.stack([target, source], 1)).all(axis=1)
    assert (same if directed else same | turned).all()
    is_parallel = (source[1:] == source[:-1]) & (target[1:] == target[:-1])
    assert (np.diff(ids)[is_parallel] > 0).all()  # in input order
    copies = np.where(directed | (edges[:, 0] == edges[:, 1]), 1, 2)
    np.testing.assert_array_equal(np.bincount(ids, minlength=len(edges)), copies)
    if not directed:
        assert np.count_nonzero(turned & ~same) == np.count_nonzero(same & ~turned)
    assert sorted(ds.edge_attributes) == sorted(attributes)
    for name, values in attributes.items():
        stored = ds.edge_attributes[name].get_tensor()
        assert (stored.dtype, stored.shape) == (values.dtype, (len(ids), *values.shape[1:]))
        assert stored.tobytes() == values[ids].tobytes(), name


def assert_nodes(ds: gz.Dataset, attributes: dict[str, np.ndarray]) -> None:
    assert sorted(ds.attributes) == sorted(attributes)
    for name, values in attributes.items():
        found = ds.attributes[name].gather(np.arange(ds.num_nodes))
        assert (found.dtype, found.shape) == (values.dtype, values.shape)
        assert found.tobytes() == values.tobytes(), name


SHAPES: list[tuple[int, ...]] = [(), (1,), (5,), (4, 8), (2, 1, 3)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("directed", [True, False])
def test_every_dtype_and_shape(tmp_path: Path, shape: tuple[int, ...], directed: bool) -> None:
    of_edges = {f"e{i}": numbers((6, *shape), dtype, i) for i, dtype in DTYPES.items()}
    of_nodes = {f"v{i}": numbers((4, *shape), dtype, i) for i, dtype in DTYPES.items()}
    of_nodes |= {"x": numbers((4, *shape), np.dtype("<f4")), "y": np.arange(4.0)}
    edges = {"edge_index": EDGES.T, **of_edges}
    build_dataset(tmp_path, edges, nodes=of_nodes, directed=directed)
    for order, neighbors in (("hot", "in"), ("input", "out"), ("hot", "both")):
        reorder_dataset(tmp_path, order, neighbors=neighbors)
        with gz.open(tmp_path) as ds:
            assert_nodes(ds, of_nodes)
            assert_edges(ds, EDGES, of_edges, directed=directed)
            assert ds.features is ds.attributes["x"]
            assert ds.features.shape == (4, *shape)


TIMES = ([-1, 0, 1], [-(2**63), -(2**63) + 1, 2**63 - 1], range(-99, 99))


@settings(max_examples=60, deadline=None)
@given(
    data=st.data(),
    num_nodes=st.integers(1, 12),
    directed=st.booleans(),
    time_level=st.sampled_from(["edge", "node"]),
    times=st.sampled_from(TIMES),
    neighbors=st.sampled_from(["in", "out", "both"]),
    order=st.sampled_from(ORDERS),
    memory_limit=st.sampled_from([1 << 8, 1 << 30]),  # many blocks, and one
)
def test_every_edge_keeps_its_attributes(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    num_nodes: int,
    directed: bool,
    time_level: str,
    times: Any,
    neighbors: str,
    order: str,
    memory_limit: int,
) -> None:
    """Also after it gets other orders and directions, when its files are those of one build."""
    node = st.integers(0, num_nodes - 1)
    edges = np.array(data.draw(st.lists(st.tuples(node, node), max_size=40)), np.int64)
    edges = edges.reshape(-1, 2)
    # Of a symmetric list only one direction of each edge is stored: tests/test_coalesce.py.
    assume(directed or not is_symmetric(edges))
    rng = np.random.default_rng(1)
    attrs: dict[str, np.ndarray] = {
        "edge_attr": rng.random((len(edges), 3), np.float32),
        "edge_weight": rng.random(len(edges), np.float32),
    }
    labels = np.arange(num_nodes) % 3
    nodes = {"year": rng.choice(times, num_nodes), "x": np.ones(num_nodes), "y": labels}
    if time_level == "edge":
        attrs["edge_time"] = rng.choice(times, len(edges))

    def build(name: str, order: str, neighbors: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        build_dataset(
            folder,
            {"edge_index": edges.T, **attrs},
            nodes=nodes,
            splits={"train": [num_nodes - 1, 0]},
            time_attrs="year" if time_level == "node" else None,
            directed=directed,
            neighbors=neighbors,
            order=order,
            presample=SMALL if order == "presample" else None,
            memory_limit=memory_limit,
        )
        return folder

    def check() -> None:
        with gz.open(folder) as ds:
            assert_nodes(ds, nodes)
            assert_edges(ds, edges, attrs, directed=directed)
            assert ds.splits["train"].tolist() == [num_nodes - 1, 0]
            assert ds.num_classes == min(num_nodes, 3)
            assert ds.sampled_by.weight == "edge_weight"
            assert (ds.sampled_by.time, ds.sampled_by.time_level) == (
                ("edge_time", "edge") if time_level == "edge" else ("year", "node")
            )
            if time_level == "node":
                assert_times_of_neighbors(ds, nodes["year"])
        assert read_manifest(folder).order == order
        assert gz.verify(folder) == []

    folder = build("data", order, neighbors)
    check()
    for _ in range(2):
        order = data.draw(st.sampled_from(ORDERS))
        presample = SMALL if order == "presample" else None
        turned = data.draw(st.sampled_from([None, "in", "out", "both"]))
        how = {"neighbors": turned, "presample": presample, "memory_limit": memory_limit}
        reorder_dataset(folder, order, **how)
        neighbors = turned or neighbors
        check()
    if order != "presample":
        found = files.committed(folder)
        found.pop("visits.gd", None)  # of an order before
        assert found == files.committed(build("whole", order, neighbors))


def assert_times_of_neighbors(ds: gz.Dataset, times: np.ndarray) -> None:
    """Each stored edge, in either file, has the time of the node that stands in the list."""
    graphs = [ds.graph]
    if ds.neighbors == "both" and ds.graph.is_directed:
        graphs.append(ds.graph.lists_of("out", "the test reads"))
    for graph in graphs:
        listed = graph.indices if graph.node_ids is None else graph.node_ids[graph.indices]
        np.testing.assert_array_equal(graph.times, times[listed])


def test_the_default_attributes_that_drive_sampling(tmp_path: Path) -> None:
    times, weights = np.arange(6) - 3, np.arange(6) / 2
    for weight, time in (("edge_weight", "edge_time"), ("weight", "timestamp")):
        build_dataset(tmp_path, {"edge_index": EDGES.T, time: times, weight: weights})
        with gz.open(tmp_path) as ds:
            assert (ds.sampled_by.weight, ds.sampled_by.time) == (weight, time)
    edges = {"edge_index": EDGES.T, "weight": -weights, "cost": times + 3, "time": weights}
    build_dataset(tmp_path, edges, weight_attrs="cost", time_attrs=[])
    with gz.open(tmp_path) as ds:
        assert (ds.sampled_by.weight, ds.sampled_by.time) == ("cost", None)
        as_stored = {"weight": -weights, "cost": (times + 3).astype(np.float32), "time": weights}
        assert_edges(ds, EDGES, as_stored, directed=True)
    names = {entry.name for entry in read_manifest(tmp_path).entries()}
    assert names == {"graph.gl", "edge_weight.gd", "edge_time.gd"}


def test_a_column_of_the_edge_list_drives_sampling_as_ever(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("src,dst,weight,time\n" + "".join(f"{s},{t},2.5,7\n" for s, t in EDGES))
    rows = np.arange(6)
    build_dataset(tmp_path / "d", {"edge_index": path, "kind": rows}, weight_attrs="edge_weight")
    with gz.open(tmp_path / "d") as ds:
        assert ds.sampled_by == gz.graph.dataset.SampledBy("edge_weight", "edge_time", "edge")
        expected = {"edge_weight": np.full(6, 2.5, "<f4"), "edge_time": np.full(6, 7), "kind": rows}
        assert_edges(ds, EDGES, expected, directed=True)
    for name, option in (("cost", "weight_attrs"), ("when", "time_attrs")):
        with pytest.raises(ValueError, match=f"by '{name}' and by a column of the edge list"):
            build_dataset(tmp_path / "d", {"edge_index": path, name: rows}, **{option: [name]})
    build_dataset(tmp_path / "d", {"edge_index": path, "edge_weight": rows}, weight=False)
    with gz.open(tmp_path / "d") as ds:
        np.testing.assert_array_equal(np.sort(ds.graph.weights), rows)


def test_two_edges_as_edge_index(tmp_path: Path) -> None:
    """[[0, 1], [2, 3]] is read as PyG does under that name, and of a tensor; else it is refused."""
    two, torch = np.array([[0, 1], [2, 3]]), pytest.importorskip("torch")
    for value in ({"edge_index": two}, torch.from_numpy(two)):
        with gz.build(tmp_path / "a", value) as ds:
            assert ds.graph.neighbors(2).tolist() == [0]
    for ambiguous in (two, two.tolist(), tuple(two)):
        with pytest.raises(ValueError, match=r"\(2, 2\).*{'edge_index': edges}.*edges\.T}"):
            build_dataset(tmp_path / "c", ambiguous)


def test_edge_splits(tmp_path: Path) -> None:
    mask = np.array([True, False, True, False, False, False])
    splits = {"train": mask, "val": [5, 3], "none": np.empty(0, np.int64)}
    build_dataset(tmp_path, EDGES, splits={"train": [1]}, edge_splits=splits)
    for _ in range(2):
        with gz.open(tmp_path) as ds:
            found = {name: ids.tolist() for name, ids in ds.edge_splits.items()}
            assert found == {"train": [0, 2], "val": [5, 3], "none": []}
            assert ds.splits["train"].tolist() == [1]
            assert_edges(ds, EDGES, {}, directed=True)  # with ids, which the splits are about
        reorder_dataset(tmp_path, "input")
