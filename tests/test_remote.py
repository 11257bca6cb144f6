"""Datasets on remote stores: published, fetched whole, gone on with, mended, and never mixed."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from http_server import FolderServer, serving

import graphzero as gz
from graphzero.cli import main
from graphzero.store import file_copy, remote, remote_files
from graphzero.store.atomic import is_staging_name
from graphzero.store.format import read_header
from graphzero.store.manifest import MANIFEST_NAME

pytest.importorskip("aiohttp")
pytestmark = pytest.mark.no_asan  # what is tested is Python

BLOCK = 1 << 13
NODES = 3000


def build(folder: Path, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    edges, x = rng.integers(0, NODES, (20_000, 2)), rng.normal(size=(NODES, 32)).astype("f4")
    splits = {"train": np.arange(100)}
    gz.build(folder, edges, x, np.arange(NODES) % 5, splits, edge_ids=True).close()
    return folder


def content(folder: Path) -> dict[str, bytes]:
    """The files of a dataset; not where it comes from."""
    names = set(os.listdir(folder)) - {"fetched.json"}
    return {name: (folder / name).read_bytes() for name in names}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(file_copy, "BLOCK_BYTES", BLOCK)
    monkeypatch.setattr(remote_files, "FIRST_PAUSE", 0.001)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    return build(tmp_path_factory.mktemp("remote") / "data")


@pytest.fixture
def server(built, tmp_path) -> Iterator[FolderServer]:
    """Serves ``store/data``, which the published dataset is."""
    gz.publish(built, tmp_path / "store" / "data")
    with serving(tmp_path / "store") as one:
        yield one


# --- round trips


@pytest.mark.parametrize("store", ["path", "memory", "http", "query"])
def test_a_fetched_dataset_has_the_files_of_the_published_one(built, server, tmp_path, store):
    url = f"{server.url}/data/"
    if store == "path":
        url = str(tmp_path / "store" / "data")
    elif store == "memory":
        url = f"memory://{tmp_path.name}/data"
        gz.publish(built, url)
    elif store == "query":
        url = f"{server.url}/data?token=a%2Fb"
    gz.fetch(url, tmp_path / "copy")
    assert content(tmp_path / "copy") == content(built)
    with gz.open(url, cache=tmp_path / "cache") as ds, gz.open(built) as expected:
        assert Path(ds.paths[0]).parent.parent == tmp_path / "cache"
        batches = [next(iter(gz.NeighborLoader(d, [5], seed=1))) for d in (ds, expected)]
        assert batches[0].x.equal(batches[1].x)


def test_names_of_types_are_quoted(tmp_path):
    edges = {("a b", "100%", "ä/ö"): np.array([[0, 1], [1, 2]])}
    gz.build(tmp_path / "store" / "data", edges, nodes={"a b": {}, "ä/ö": {}}).close()
    with serving(tmp_path / "store") as server:
        ds = gz.open(f"{server.url}/data", cache=tmp_path / "cache")
    assert ds.edge_types == list(edges)
    assert any("%" in name for name in os.listdir(tmp_path / "store" / "data"))


def test_commands(built, tmp_path, capsys):
    store = f"memory://{tmp_path.name}/commands"
    assert main(["publish", str(built), store]) == 0
    assert main(["fetch", store, str(tmp_path / "copy")]) == 0
    assert "3,000 nodes" in capsys.readouterr().out
    assert content(tmp_path / "copy") == content(built)
    assert main(["info", store]) == 1
    assert "graphzero fetch URL DIR" in capsys.readouterr().err


# --- interrupted


def test_a_server_that_breaks_off_now_and_then_is_read_all_the_same(built, server, tmp_path):
    server.breaks = 2
    gz.fetch(f"{server.url}/data", tmp_path / "copy")
    assert content(tmp_path / "copy") == content(built)


def test_interrupted_at_thirty_moments_it_goes_on(built, server, tmp_path, monkeypatch):
    monkeypatch.setattr(remote_files, "TRIES", 1)
    size = sum(map(len, content(built).values()))
    failures = 0
    while True:
        server.left = size // 25 + 25_000  # each time, headers and manifest are read again
        try:
            gz.fetch(f"{server.url}/data", tmp_path / "copy")
            break
        except OSError:
            failures += 1
            assert failures < 60
        with pytest.raises(FileNotFoundError):
            gz.open(tmp_path / "copy")
    assert failures >= 10
    assert content(tmp_path / "copy") == content(built)
    again = failures * (remote_files.THREADS * BLOCK + 25_000)  # blocks on their way, and headers
    assert server.sent.total() <= size + again


def test_a_part_without_its_journal_is_checked(built, server, tmp_path, monkeypatch):
    monkeypatch.setattr(remote_files, "TRIES", 1)
    server.left = 200_000
    with pytest.raises(OSError, match="fetch again"):
        gz.fetch(f"{server.url}/data", tmp_path / "copy")
    server.left = None
    for journal in (tmp_path / "copy").glob(".*.blocks.gz-staged"):
        journal.write_bytes(b"")  # as a power failure may leave it
    folder = remote_files.RemoteFolder(f"{server.url}/data", None)
    remote._fetch(folder, tmp_path / "copy", False, check=False)
    assert content(tmp_path / "copy") == content(built)


def test_what_an_earlier_version_has_left_is_removed(server, tmp_path, monkeypatch):
    monkeypatch.setattr(remote_files, "TRIES", 1)
    server.left = 100_000
    with pytest.raises(OSError, match="fetch again"):
        gz.fetch(f"{server.url}/data", tmp_path / "copy")
    server.left = None
    left = set(filter(is_staging_name, os.listdir(tmp_path / "copy")))
    assert left
    expected = content(build(tmp_path / "store" / "data", seed=1))
    gz.fetch(f"{server.url}/data", tmp_path / "copy")
    assert content(tmp_path / "copy") == expected


# --- damaged


@pytest.mark.parametrize("at", [0, 4096 + 17, -5])
def test_a_changed_byte_of_the_copy_is_fetched_again(built, server, tmp_path, at):
    gz.fetch(f"{server.url}/data", tmp_path / "copy")
    file = tmp_path / "copy" / "features.gd"
    flip(file, at)
    server.sent.clear()
    gz.fetch(f"{server.url}/data", tmp_path / "copy")
    assert content(tmp_path / "copy") == content(built)
    assert server.sent["features.gd"] > 0
    assert server.sent["graph.gl"] <= 4096  # its header is compared


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


def test_a_changed_byte_on_the_store_is_an_error(server, tmp_path):
    flip(tmp_path / "store" / "data" / "features.gd", -5)  # in its last section
    with pytest.raises(gz.FormatError, match=r"features.gd: 'node_rank' is corrupt on the store"):
        gz.fetch(f"{server.url}/data", tmp_path / "copy")
    with pytest.raises(FileNotFoundError):
        gz.open(tmp_path / "copy")
    flip(tmp_path / "store" / "data" / "features.gd", 9)
    with pytest.raises(gz.FormatError, match=r"features.gd .* publish the dataset again"):
        gz.fetch(f"{server.url}/data", tmp_path / "copy")


def test_a_byte_that_changes_on_the_way_is_fetched_again(built, server, tmp_path):
    server.damages = "features.gd"
    gz.fetch(f"{server.url}/data", tmp_path / "copy")
    assert content(tmp_path / "copy") == content(built)
    assert server.sent["features.gd"] > 1.5 * (built / "features.gd").stat().st_size


# --- versions


def test_a_new_version_is_opened_and_only_what_is_new_is_fetched(built, server, tmp_path):
    url, cache = f"{server.url}/data", tmp_path / "cache"
    ds = gz.open(url, cache=cache)
    store = tmp_path / "store" / "data"
    gz.set_attribute(store, "year", np.arange(NODES)).close()
    gz.drop_attribute(store, "y").close()
    server.sent.clear()
    changed = gz.open(url, cache=cache)
    assert changed.attributes.keys() == {"x", "year"}
    assert server.sent["features.gd"] <= 4096
    assert server.sent["node_year.gd"] > NODES
    assert ds.y.tolist() == [i % 5 for i in range(NODES)]  # what is open stays as it was
    assert content(Path(changed.paths[0]).parent) == content(store)
    server.sent.clear()
    gz.open(url, cache=cache).close()
    assert server.sent.keys() == {MANIFEST_NAME}


def test_versions_are_not_mixed(server, tmp_path):
    """Another version is published while one is fetched: manifest and files belong together."""
    store, done = tmp_path / "store" / "data", []

    def publish(name: str, asked: int) -> None:
        if name == "features.gd" and asked == 5 and not done:
            done.append(build(tmp_path / "new", seed=1))
            gz.publish(tmp_path / "new", store)

    server.before = publish
    gz.fetch(f"{server.url}/data", tmp_path / "copy")
    assert done
    assert content(tmp_path / "copy") == content(tmp_path / "new")


def test_while_a_store_gets_another_version_it_has_none(built, tmp_path, monkeypatch):
    url = f"memory://{tmp_path.name}/versions"
    gz.publish(built, url)

    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    build(tmp_path / "new", seed=1)
    monkeypatch.setattr(type(remote_files.RemoteFolder(url, None).files), "put_file", stopped)
    with pytest.raises(KeyboardInterrupt):
        gz.publish(tmp_path / "new", url)
    with pytest.raises(FileNotFoundError, match="being published"):
        gz.fetch(url, tmp_path / "copy")
    monkeypatch.undo()
    gz.publish(tmp_path / "new", url)
    gz.fetch(url, tmp_path / "copy")
    assert content(tmp_path / "copy") == content(tmp_path / "new")


def test_publishing_copies_only_what_is_new(built, tmp_path, monkeypatch):
    store = remote_files.RemoteFolder(f"memory://{tmp_path.name}/again", None)
    copied: list[str] = []
    put = type(store.files).put_file
    monkeypatch.setattr(
        type(store.files),
        "put_file",
        lambda files, a, b, **k: (copied.append(Path(a).name), put(files, a, b, **k)),
    )
    data = build(tmp_path / "data")
    gz.publish(data, store.url)
    assert "features.gd" in copied
    copied.clear()
    gz.publish(data, store.url)
    assert copied == []
    gz.set_attribute(data, "year", np.arange(NODES)).close()
    gz.drop_attribute(data, "y").close()
    gz.publish(data, store.url)
    assert copied == ["node_year.gd"]
    assert not store.files.exists(store.path_of("labels.gd"))


# --- what is refused, and what serves


def test_a_dataset_that_was_made_here_is_not_replaced(built, server, tmp_path):
    own = build(tmp_path / "own", seed=1)
    with pytest.raises(FileExistsError, match="was built here"):
        gz.fetch(f"{server.url}/data", own)
    gz.fetch(f"{server.url}/data", tmp_path / "copy")
    gz.set_attribute(tmp_path / "copy", "year", np.arange(NODES)).close()
    with pytest.raises(FileExistsError, match=r"was changed here.*publish it"):
        gz.fetch(f"{server.url}/data", tmp_path / "copy")
    gz.publish(tmp_path / "copy", tmp_path / "store" / "data")
    build(tmp_path / "new", seed=2)
    gz.publish(tmp_path / "new", tmp_path / "store" / "data")
    gz.fetch(f"{server.url}/data", tmp_path / "copy")  # its changes are on the store, or were
    assert content(tmp_path / "copy") == content(tmp_path / "new")


def test_without_the_store_an_earlier_copy_serves_with_a_warning(built, tmp_path, monkeypatch):
    monkeypatch.setattr(remote_files, "TRIES", 1)
    with serving(built.parent) as server:
        url = f"{server.url}/data"
        gz.open(url, cache=tmp_path / "cache").close()
    with pytest.warns(UserWarning, match=r"cannot be read now.*which may be older"):
        ds = gz.open(url, cache=tmp_path / "cache")
    assert ds.num_nodes == NODES
    with pytest.raises(OSError, match="cannot be read"):
        gz.fetch(url, tmp_path / "copy")
    with pytest.raises(OSError, match="cannot be read"):
        gz.open(url, cache=tmp_path / "other")


@pytest.mark.parametrize(
    ("make", "error", "part"),
    [
        (lambda url, d: gz.open(url), ValueError, r"cache='/nvme/graphs'"),
        (lambda url, d: gz.build(url, np.array([[0, 1]])), ValueError, "publish DIR URL"),
        (lambda url, d: gz.fetch(url, "s3://b/data"), ValueError, "local disk"),
        (lambda url, d: gz.open(url, cache="s3://b"), ValueError, "local disk"),
        (lambda url, d: gz.fetch(f"{url}/none", d), FileNotFoundError, "no dataset here"),
        (lambda url, d: gz.publish(d, url), ValueError, "cannot be written to"),
        (lambda url, d: gz.publish(d / "none", d / "s"), FileNotFoundError, "no such folder"),
        (lambda url, d: gz.publish(d, d / "s"), FileNotFoundError, r"no dataset \("),
        (lambda url, d: gz.fetch("s3://a/b?c", d), ValueError, "storage_options"),
        (lambda url, d: gz.fetch("nosuch://a/b", d), ValueError, "nosuch"),
    ],
)
def test_errors(server, tmp_path, make, error, part):
    (tmp_path / "folder").mkdir()
    with pytest.raises(error, match=part):
        make(f"{server.url}/data", tmp_path / "folder")


def test_only_sound_files_are_published_and_only_over_a_dataset(built, tmp_path):
    data = build(tmp_path / "data")
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / MANIFEST_NAME).write_text("{}")
    with pytest.raises(gz.FormatError, match="not a graphzero dataset"):
        gz.publish(data, tmp_path / "store")
    flip(data / "graph.gl", read_header(data / "graph.gl").sections[-1].offset)
    with pytest.raises(gz.FormatError, match=r"graph.gl.*corrupt"):
        gz.publish(data, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_tables_are_read_from_addresses(tmp_path):
    edges = np.random.default_rng(3).integers(0, 50, (400, 2))
    np.savetxt(tmp_path / "edges.csv", edges, "%d", ",", header="src,dst", comments="")
    with serving(tmp_path) as server:
        ds = gz.build(tmp_path / "data", f"{server.url}/edges.csv", order="input")
    expected = gz.build(tmp_path / "expected", edges, order="input")
    assert ds.edge_index.equal(expected.edge_index)


# --- several processes


def test_of_the_ranks_of_a_machine_one_fetches(built, server, tmp_path):
    program = f"""
import graphzero as gz
ds = gz.open({f"{server.url}/data"!r}, cache={str(tmp_path / "cache")!r})
print(ds.num_nodes)
"""
    ranks: list[Any] = [
        subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=tmp_path
        )
        for _ in range(3)
    ]
    assert [rank.communicate()[0] for rank in ranks] == [f"{NODES}\n"] * 3
    size = (built / "features.gd").stat().st_size
    assert server.sent["features.gd"] <= size + 4096


# --- an object store in a process of its own


@pytest.fixture
def object_store(monkeypatch) -> Iterator[dict[str, Any]]:
    """A bucket named "graphs"; options with which fsspec finds it."""
    pytest.importorskip("moto")
    pytest.importorskip("s3fs")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    argv = ["from moto.server import main; main()", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen([sys.executable, "-c", *argv], stderr=subprocess.DEVNULL)
    endpoint = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            with suppress(OSError):
                put = urllib.request.Request(f"{endpoint}/graphs", method="PUT")
                urllib.request.urlopen(put).close()
                break
            time.sleep(0.1)
        yield {"endpoint_url": endpoint}
    finally:
        server.kill()
        server.wait()


KILLED = """
import json, sys
from graphzero.store import file_copy, remote
file_copy.BLOCK_BYTES = 1 << 14
begin = remote._bring
remote._bring = lambda *all: (print("begin", flush=True), begin(*all))[1]
remote.fetch("s3://graphs/data", sys.argv[1], storage_options=json.loads(sys.argv[2]))
"""


@pytest.mark.extended
def test_a_fetch_from_an_object_store_is_killed_at_thirty_moments(tmp_path, object_store):
    rng, copy = np.random.default_rng(4), tmp_path / "copy"
    edges, x = rng.integers(0, 30_000, (400_000, 2)), rng.random((30_000, 100), np.float32)
    gz.build(tmp_path / "data", edges, x).close()
    gz.publish(tmp_path / "data", "s3://graphs/data", storage_options=object_store)
    argv = [sys.executable, "-c", KILLED, str(copy), json.dumps(object_store)]
    there, kills = [0], 0
    while kills < 30:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=tmp_path)
        assert process.stdout is not None
        assert process.stdout.readline() == b"begin\n"
        time.sleep(random.Random(kills).random() * 0.3)
        process.kill()
        process.communicate()
        kills += process.returncode == -9
        if process.returncode == 0:  # it was whole: once more
            gz.open(copy).close()
            for file in copy.iterdir():
                file.unlink()
        journals = copy.glob(".*.blocks.gz-staged")
        there.append(sum(journal.read_bytes().count(1) for journal in journals))
        assert there[-1] >= there[-2] or there[-1] == 0
    assert max(there) > 20
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL, cwd=tmp_path)
    assert content(copy) == content(tmp_path / "data")
    gz.open("s3://graphs/data", cache=tmp_path / "cache", storage_options=object_store).close()
