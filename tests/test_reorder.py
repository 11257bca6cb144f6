"""Another order of a dataset: the same content to its user, the same files as a build's."""

from __future__ import annotations

import os

import files
import numpy as np
import pytest
from files import read_file
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from reference_merging import is_symmetric

import graphzero as gz
from graphzero.ingest import build_dataset, reorder_dataset
from graphzero.store.atomic import folder_lock
from graphzero.store.format import FileWriter, read_header, verify_file
from graphzero.store.manifest import read_manifest

pytestmark = pytest.mark.no_asan  # the work is that of NumPy; the sort has C tests

ORDERS = ("input", "hot", "presample")
SMALL = gz.Presample(fanouts=(3, 2), batch_size=4, min_batches=3)


def lists_of(graph):
    """Each node's neighbours, edge ids, weights and times, by the neighbour's id."""
    columns = [graph._view(name) for name in ("edge_ids", "weights", "times")]
    lists = []
    for node in range(graph.num_nodes):
        begin, end, ids = graph._stored_list(node)
        found = [ids, *(column[begin:end] for column in columns if column is not None)]
        # Parallel edges are in input order, whatever the order of the nodes: a stable sort.
        by_id = np.argsort(ids, kind="stable")
        lists.append([column[by_id].tolist() for column in found])
    return lists


def seen(path):
    """Everything that a dataset shows its user, in the user's ids."""
    manifest = read_manifest(path)
    nodes = manifest.nodes[""]
    names = [entry for entry in (*nodes.attributes.values(), nodes.visits) if entry]
    rows = {}
    for entry in names:
        with gz.FeatureStore(entry.resolve(path)) as store:
            array = store.gather(np.arange(manifest.nodes[""].num_nodes))
        rows[entry.name] = (array.dtype, array.shape, array.tobytes())
    with gz.open(path) as ds:
        return {
            "lists": lists_of(ds.graph),
            "rows": rows,
            "splits": {name: ids.tolist() for name, ids in ds.splits.items()},
            "directed": ds.graph.is_directed,
            "counts": (ds.num_nodes, ds.num_edges, ds.graph.num_input_edges, ds.num_classes),
        }


def presample_of(order):
    return SMALL if order == "presample" else None


@settings(max_examples=40, deadline=None)
@given(
    data=st.data(),
    num_nodes=st.integers(1, 12),
    directed=st.booleans(),
    payload=st.booleans(),
    dtype=st.sampled_from(["<f4", "<f2", "<i8", "|u1", "<f8"]),
    first=st.sampled_from(ORDERS),
    second=st.sampled_from(ORDERS),
)
def test_the_user_sees_the_same(
    tmp_path_factory, data, num_nodes, directed, payload, dtype, first, second
):
    node = st.integers(0, num_nodes - 1)
    edges = np.array(data.draw(st.lists(st.tuples(node, node), max_size=40)), np.int64)
    edges = edges.reshape(-1, 2)
    # Of a symmetric list only one direction of each edge is stored: tests/test_coalesce.py.
    assume(directed or not is_symmetric(edges))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=num_nodes, max_size=num_nodes)))
    mask[data.draw(node)] = True
    path = tmp_path_factory.mktemp("d")
    options = {
        "features": (np.arange(num_nodes * 3).reshape(-1, 3) * 1.5).astype(dtype),
        "labels": np.arange(num_nodes) % 3,
        "splits": {"train": mask, "odd": [0]},
        "num_nodes": num_nodes,
        "directed": directed,
        "edge_ids": payload,
        "weight": np.arange(len(edges), dtype=np.float32) if payload else None,
        "timestamp": 40 - np.arange(len(edges)) if payload else None,
    }
    by_name = {"edge_index": edges.T}
    build_dataset(path, by_name, order=first, presample=presample_of(first), **options)
    before = seen(path)
    gz.reorder(path, second, presample=presample_of(second)).close()
    after = seen(path)
    visits = before["rows"].pop("visits.gd", None), after["rows"].pop("visits.gd", None)
    assert after == before
    assert (visits[1] is None) is ("presample" not in (first, second))
    if second != "presample":
        assert visits[0] == visits[1]
        other = tmp_path_factory.mktemp("d")
        build_dataset(other, by_name, order=second, **options)
        assert {**files.committed(path), "visits.gd": b""} == {
            **files.committed(other),
            "visits.gd": b"",
        }
    for entry in read_manifest(path).entries():
        verify_file(entry.resolve(path))
    assert read_manifest(path).order == second


def test_the_same_order_again_writes_nothing(tmp_path):
    build_dataset(tmp_path, [[0, 1], [1, 2], [2, 0]])
    before = {name: os.stat(tmp_path / name).st_mtime_ns for name in os.listdir(tmp_path)}
    reorder_dataset(tmp_path, "hot")
    assert {n: os.stat(tmp_path / n).st_mtime_ns for n in os.listdir(tmp_path)} == before


# --- what goes wrong


@pytest.mark.parametrize("name", ["graph.gl", "graph_out.gl", "features.gd", "split_train.gd"])
def test_damage_is_not_given_new_checksums(tmp_path, name):
    edges, options = files.random_edges(50, 300), {"splits": {"train": [1]}, "neighbors": "both"}
    build_dataset(tmp_path, edges, np.arange(50.0), **options)
    last = read_header(tmp_path / name).sections[-1]
    content = bytearray((tmp_path / name).read_bytes())
    content[last.offset] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(gz.FormatError, match=f"{name}: section '{last.name}' is corrupt"):
        reorder_dataset(tmp_path, "input")
    assert (tmp_path / name).read_bytes() == content
    assert read_manifest(tmp_path).order == "hot"


@pytest.mark.parametrize(
    ("name", "order"), [("graph.gl", "input"), ("graph.gl", "hot"), ("features.gd", "hot")]
)
def test_wrong_numbers_with_right_checksums(tmp_path, name, order):
    build_dataset(tmp_path, files.random_edges(50, 300), np.arange(50.0), order=order)
    header, arrays = read_file(tmp_path / name)
    message = "ids out of range"
    if name == "graph.gl":
        arrays["indices"].put(7, 50)
    else:
        arrays["node_rank"], message = arrays["node_rank"][::-1], "another order than the graph"
    with FileWriter(tmp_path / name, header) as writer:
        for section, array in arrays.items():
            writer.append(section, array)
    with pytest.raises(gz.FormatError, match="not the file that dataset.json describes"):
        reorder_dataset(tmp_path, "hot" if order == "input" else "input")
    files.note_checksums(tmp_path)
    with pytest.raises(gz.FormatError, match=f"{name} has {message}"):
        reorder_dataset(tmp_path, "hot" if order == "input" else "input")


def test_wrong_use(tmp_path):
    with pytest.raises(FileNotFoundError, match="no dataset here"):
        gz.reorder(tmp_path / "nowhere", "hot")
    build_dataset(tmp_path, [[0, 1]], splits={"train": np.empty(0, int)})
    for order, options, message in (
        ("cold", {}, "order must be 'hot', 'input' or 'presample', not 'cold'"),
        ("hot", {"neighbors": "up"}, "neighbors must be 'in', 'out' or 'both', not 'up'"),
        ("hot", {"presample": SMALL}, "presample= is for order='presample', not 'hot'"),
        ("presample", {}, "training split has no nodes"),
    ):
        with pytest.raises(ValueError, match=message):
            gz.reorder(tmp_path, order, **options)
    with pytest.raises(ValueError, match="needs something that samples"):
        reorder_dataset(tmp_path, "presample")
    with folder_lock(tmp_path), pytest.raises(BlockingIOError, match="another build"):
        gz.reorder(tmp_path, "input")
    assert read_manifest(tmp_path).order == "hot"
