"""Another order of a dataset: the same content to its user, the same files as a build's."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import files
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from peak_memory import peak_of
from reference_merging import is_symmetric

import graphzero as gz
from graphzero.ingest import build_dataset, folder, reorder_dataset
from graphzero.store.atomic import is_staging_name
from graphzero.store.format import FileWriter, encode_header, read_file, read_header, verify_file
from graphzero.store.manifest import read_manifest

pytestmark = pytest.mark.no_asan  # the work is that of NumPy; the sort has C tests

ORDERS = ("input", "hot", "presample")
SMALL = gz.Presample(fanouts=(3, 2), batch_size=4, min_batches=3)


def lists_of(graph: gz.Graph) -> list[list[list[Any]]]:
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


def seen(path: Path) -> dict[str, Any]:
    """Everything that a dataset shows its user, in the user's ids."""
    manifest = read_manifest(path)
    nodes = manifest.nodes[""]
    names = [entry for entry in (*nodes.attributes.values(), nodes.visits) if entry]
    rows = {}
    for entry in names:
        with gz.FeatureStore(entry.resolve(path)) as store:
            array = store.gather(np.arange(manifest.num_nodes))
        rows[entry.name] = (array.dtype, array.shape, array.tobytes())
    with gz.open(path) as ds:
        return {
            "lists": lists_of(ds.graph),
            "rows": rows,
            "splits": {name: ids.tolist() for name, ids in ds.splits.items()},
            "directed": ds.graph.is_directed,
            "counts": (ds.num_nodes, ds.num_edges, ds.graph.num_input_edges, ds.num_classes),
        }


def sections(path: Path) -> dict[str, bytes]:
    """Every file of a dataset, whatever its name is now."""
    entries = read_manifest(path).entries()
    return {entry.name: entry.resolve(path).read_bytes() for entry in entries}


def presample_of(order: str) -> gz.Presample | None:
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
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    num_nodes: int,
    directed: bool,
    payload: bool,
    dtype: str,
    first: str,
    second: str,
) -> None:
    node = st.integers(0, num_nodes - 1)
    edges = np.array(data.draw(st.lists(st.tuples(node, node), max_size=40)), np.int64)
    edges = edges.reshape(-1, 2)
    # Of a symmetric list only one direction of each edge is stored: tests/test_symmetric.py.
    assume(directed or not is_symmetric(edges))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=num_nodes, max_size=num_nodes)))
    mask[data.draw(node)] = True
    path = tmp_path_factory.mktemp("d")
    options: dict[str, Any] = {
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
        assert {**sections(path), "visits.gd": b""} == {**sections(other), "visits.gd": b""}
    for entry in read_manifest(path).entries():
        verify_file(entry.resolve(path))
    assert read_manifest(path).order == second


@pytest.mark.extended
@pytest.mark.parametrize("order", ORDERS)
def test_many_runs_give_the_same_bytes(tmp_path: Path, order: str) -> None:
    edges = files.random_edges(20_000, 150_000)
    features = np.random.default_rng(1).random((20_000, 30), np.float32)
    for name in ("small", "large"):
        build_dataset(
            tmp_path / name,
            edges,
            features,
            weight=np.arange(len(edges), dtype=np.float32),
            timestamp=np.arange(len(edges))[::-1] // 7,
            edge_ids=True,
            directed=False,
            order="hot" if order == "input" else "input",
            splits={"train": np.arange(64)},
        )
        limit = {"small": "1MiB", "large": "1GiB"}[name]
        reorder_dataset(tmp_path / name, order, presample=presample_of(order), memory_limit=limit)
    assert sections(tmp_path / "small") == sections(tmp_path / "large")


def test_the_same_order_again_writes_nothing(tmp_path: Path) -> None:
    build_dataset(tmp_path, [[0, 1], [1, 2], [2, 0]])
    before = {name: os.stat(tmp_path / name).st_mtime_ns for name in os.listdir(tmp_path)}
    reorder_dataset(tmp_path, "hot")
    assert {n: os.stat(tmp_path / n).st_mtime_ns for n in os.listdir(tmp_path)} == before


def test_an_open_dataset_goes_on(tmp_path: Path) -> None:
    edges = files.random_edges(300, 3000)
    build_dataset(tmp_path, edges, np.arange(300.0))
    with gz.open(tmp_path) as ds:
        before = ds.graph.neighbors(7), ds.features[np.arange(300)]
        reorder_dataset(tmp_path, "input")
        np.testing.assert_array_equal(ds.graph.neighbors(7), before[0])
        np.testing.assert_array_equal(ds.features[np.arange(300)], before[1])


# --- what goes wrong


class Stop(BaseException):
    """Stands for a kill: nothing that the package does may catch it for good."""


@pytest.mark.parametrize("step", ["first seal", "last seal", "before the manifest", "after it"])
def test_stop_at_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    edges = files.random_edges(200, 2000)
    build_dataset(tmp_path, edges, np.arange(200.0), np.arange(200) % 3, {"train": [1, 2]})
    before = seen(tmp_path)
    seals = []

    def seal(self: FileWriter) -> None:
        seals.append(self)
        if len(seals) == {"first seal": 1, "last seal": 4}.get(step):
            raise Stop
        original_seal(self)

    def write(path: Path, manifest: Any) -> None:
        if step == "before the manifest":
            raise Stop
        original_write(path, manifest)
        if step == "after it":
            raise Stop

    original_seal, original_write = FileWriter.seal, folder.write_manifest
    monkeypatch.setattr(FileWriter, "seal", seal)
    monkeypatch.setattr(folder, "write_manifest", write)
    with pytest.raises(Stop):
        reorder_dataset(tmp_path, "presample", presample=SMALL)
    monkeypatch.undo()
    after = seen(tmp_path)
    assert ("visits.gd" in after["rows"]) is (step == "after it")
    after["rows"].pop("visits.gd", None)
    assert after == before
    assert read_manifest(tmp_path).order == ("presample" if step == "after it" else "hot")
    if step != "after it":
        assert not [name for name in os.listdir(tmp_path) if is_staging_name(name)]
    reorder_dataset(tmp_path, "input")
    assert read_manifest(tmp_path).order == "input"
    assert not [name for name in os.listdir(tmp_path) if is_staging_name(name)]


SCRIPT = """
import sys
import graphzero as gz
from graphzero.ingest import reorder_dataset

print("ready", flush=True)
while True:
    for order in ("input", "presample", "hot"):
        presample = gz.Presample() if order == "presample" else None
        reorder_dataset(sys.argv[1], order, presample=presample, memory_limit="1MiB")
"""


@pytest.mark.extended
def test_kill_at_random_moments(tmp_path: Path) -> None:
    target = tmp_path / "data"
    features = np.random.default_rng(0).random((3000, 8), np.float32)
    build_dataset(target, files.random_edges(3000, 20_000), features, splits={"train": [1, 2]})
    before = seen(target)
    script = tmp_path / "reorder.py"
    script.write_text(SCRIPT)
    rng = random.Random(0)
    staged = kills = 0
    while kills < 6 or (staged == 0 and kills < 60):  # between two orders, none is half done
        kills += 1
        process = subprocess.Popen(
            [sys.executable, str(script), str(target)], stdout=subprocess.PIPE, cwd=tmp_path
        )
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"ready\n"
            time.sleep(rng.uniform(0.3, 1.0))
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        for entry in read_manifest(target).entries():
            verify_file(entry.resolve(target))
        after = seen(target)
        after["rows"].pop("visits.gd", None)
        assert after == before
        staged += sum(is_staging_name(name) for name in os.listdir(target))
    assert staged, "no kill came in the middle"
    reorder_dataset(target, "input")
    reorder_dataset(target, "hot")
    assert not [name for name in os.listdir(target) if is_staging_name(name)]


@pytest.mark.parametrize("name", ["graph.gl", "features.gd", "split_train.gd"])
def test_damage_is_not_given_new_checksums(tmp_path: Path, name: str) -> None:
    build_dataset(tmp_path, files.random_edges(50, 300), np.arange(50.0), splits={"train": [1]})
    last = read_header(tmp_path / name).sections[-1]
    content = bytearray((tmp_path / name).read_bytes())
    content[last.offset] ^= 1
    (tmp_path / name).write_bytes(content)
    with pytest.raises(gz.FormatError, match=f"{name}: section '{last.name}' is corrupt"):
        reorder_dataset(tmp_path, "input")
    assert (tmp_path / name).read_bytes() == content
    assert read_manifest(tmp_path).order == "hot"


def write_arrays(path: Path, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    """Replaces the sections of a file, with the checksums that they then have."""
    header = read_header(path)
    with FileWriter(path, header) as writer:
        for name, array in arrays.items():
            writer.append(name, array)
    assert encode_header(read_header(path))


@pytest.mark.parametrize("order", ["input", "hot"])
def test_ids_out_of_range_with_right_checksums(tmp_path: Path, order: str) -> None:
    build_dataset(tmp_path, files.random_edges(50, 300), order=order)
    _, arrays = read_file(tmp_path / "graph.gl")
    arrays["indices"][7] = 50
    write_arrays(tmp_path / "graph.gl", arrays)
    with pytest.raises(gz.FormatError, match="ids out of range"):
        reorder_dataset(tmp_path, "hot" if order == "input" else "input")


def test_rows_of_another_order_than_the_graph(tmp_path: Path) -> None:
    build_dataset(tmp_path, files.random_edges(50, 300), np.arange(50.0))
    _, arrays = read_file(tmp_path / "features.gd")
    arrays["node_rank"] = arrays["node_rank"][::-1]
    write_arrays(tmp_path / "features.gd", arrays)
    with pytest.raises(gz.FormatError, match=r"features.gd has another order than the graph"):
        reorder_dataset(tmp_path, "input")


def test_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no dataset here"):
        gz.reorder(tmp_path / "nowhere", "hot")
    build_dataset(tmp_path, [[0, 1]], splits={"train": np.empty(0, int)})
    with pytest.raises(ValueError, match="order must be 'hot', 'input' or 'presample', not 'cold'"):
        gz.reorder(tmp_path, "cold")
    with pytest.raises(ValueError, match="presample= is for order='presample', not 'hot'"):
        gz.reorder(tmp_path, "hot", presample=SMALL)
    with pytest.raises(ValueError, match="needs something that samples"):
        reorder_dataset(tmp_path, "presample")
    with pytest.raises(ValueError, match="training split has no nodes"):
        gz.reorder(tmp_path, "presample")
    with folder.folder_lock(tmp_path), pytest.raises(BlockingIOError, match="another build"):
        gz.reorder(tmp_path, "input")
    assert read_manifest(tmp_path).order == "hot"


def test_a_disk_without_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_dataset(tmp_path, files.random_edges(5000, 30_000), np.ones((5000, 8)))
    needed = sum(path.stat().st_size for path in tmp_path.glob("*.g[ld]"))
    usage = type("Usage", (), {"free": needed // 2})
    monkeypatch.setattr("graphzero.store.atomic.shutil.disk_usage", lambda _: usage)
    before = set(os.listdir(tmp_path))
    with pytest.raises(OSError, match="bytes of disk space") as caught:
        reorder_dataset(tmp_path, "input")
    assert caught.value.errno == errno.ENOSPC
    assert set(os.listdir(tmp_path)) == before


# --- memory

IMPORTS = """
import graphzero as gz
from graphzero.ingest import reorder_dataset
"""
WORK = """
folder, order, limit = sys.argv[1:]
presample = gz.Presample(fanouts=(5, 2), batch_size=64) if order == "presample" else None
reorder_dataset(folder, order, presample=presample, memory_limit=int(limit))
"""


@pytest.mark.extended
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.no_asan  # keeps freed memory in quarantine
@pytest.mark.parametrize("order", ["hot", "presample"])
def test_memory_stays_within_the_limit(tmp_path: Path, order: str) -> None:
    limit = 12 << 20
    build_dataset(
        tmp_path / "data",
        files.random_edges(400_000, 2_000_000),
        np.ones((400_000, 64), np.float32),
        timestamp=np.random.default_rng(3).integers(0, 99, 2_000_000),
        edge_ids=True,
        directed=False,
        order="input",
        splits={"train": np.arange(2000)},
    )
    peak = peak_of(tmp_path, IMPORTS, WORK, tmp_path / "data", order, limit)
    # A mini-batch of the sampler, and what the interpreter takes once.
    allowance = 4 << 20
    print(f"{order}: {peak:,} bytes of {limit:,}")
    assert peak < limit + allowance
    assert read_manifest(tmp_path / "data").order == order
    written = sum(path.stat().st_size for path in (tmp_path / "data").glob("*.g[ld]"))
    assert written > 5 * (limit + allowance)
