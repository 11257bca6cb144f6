"""Stores and folders that mean harm, stand still or know little: errors, soon, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from http_server import FolderServer, serving

import graphzero as gz
from graphzero.store import file_copy, remote, remote_files
from graphzero.store.atomic import is_staging_name
from graphzero.store.format import PAGE_BYTES, encode_header, read_header

pytest.importorskip("aiohttp")
pytestmark = pytest.mark.no_asan  # what is tested is Python


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_copy, "BLOCK_BYTES", 1 << 13)
    monkeypatch.setattr(remote_files, "FIRST_PAUSE", 0.001)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The folder of a published dataset."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 32)).astype(np.float32)
    folder = tmp_path / "store" / "data"
    gz.build(folder, rng.integers(0, 500, (3000, 2)), x, np.arange(500) % 5).close()
    return folder


@pytest.fixture
def server(store: Path) -> Iterator[FolderServer]:
    """Serves ``data``."""
    with serving(store.parent) as server:
        yield server


def edit(store: Path, key: str, **changes: Any) -> None:
    manifest = json.loads((store / "dataset.json").read_text())
    manifest[key] |= changes
    (store / "dataset.json").write_text(json.dumps(manifest))


# --- names


@pytest.mark.parametrize(
    "name",
    [
        "train.py",
        "fetched.json",
        "dataset.json",
        "../x.gd",
        "/x.gd",
        ".gd",
        ".x.gd",
        "a\0.gd",
        "gd",
    ],
)
def test_a_manifest_names_files_of_datasets_and_nothing_else(store, tmp_path, server, name):
    edit(store, "labels", name=name, staged=f".{name}.0123456789ab.gz-staged")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "train.py").write_text("mine")
    for url in (store, f"{server.url}/data"):
        with pytest.raises(gz.FormatError, match=r"is no name of a \.gl or \.gd file"):
            gz.fetch(url, tmp_path / "copy")
    assert os.listdir(tmp_path / "copy") == ["train.py"]
    with pytest.raises(gz.FormatError, match="corrupt"):
        gz.open(store)


@pytest.mark.parametrize(
    "staged", [".labels.gd", "labels.gd", ".x.0.gz-staged", ".labels.gd.gz-staged"]
)
def test_a_staged_name_is_that_of_its_file(store, staged):
    edit(store, "labels", staged=staged)
    with pytest.raises(gz.FormatError, match="is no staged name of 'labels.gd'"):
        gz.open(store)


def test_one_file_is_not_two(store):
    manifest = json.loads((store / "dataset.json").read_text())
    edit(store, "labels", **manifest["features"])
    with pytest.raises(gz.FormatError, match="'features.gd' is named twice"):
        gz.open(store)


# --- links in folders that others may write to


@pytest.mark.parametrize("is_hard", [False, True])
def test_what_a_fetch_writes_into_has_no_other_name(store, server, tmp_path, is_hard, monkeypatch):
    """A part, its journal, and a damaged file that is mended, each of somebody else's making."""
    monkeypatch.setattr(remote_files, "TRIES", 1)
    copy, begun, secret = tmp_path / "copy", tmp_path / "begun", tmp_path / "secret"
    server.left = 60_000
    with pytest.raises(OSError, match="fetch again"):
        gz.fetch(f"{server.url}/data", begun)
    server.left = None
    parts = list(filter(is_staging_name, os.listdir(begun)))
    assert len(parts) > 2
    for name in parts:
        shutil.copytree(begun, copy)
        secret.write_bytes(content := (copy / name).read_bytes())
        (copy / name).unlink()
        (os.link if is_hard else os.symlink)(secret, copy / name)
        with pytest.raises(OSError, match=r"is a link|another name"):
            gz.fetch(f"{server.url}/data", copy)
        assert secret.read_bytes() == content
        secret.unlink()
        shutil.rmtree(copy)
    gz.fetch(f"{server.url}/data", copy)
    damaged = bytearray((copy / "features.gd").read_bytes())
    damaged[PAGE_BYTES] ^= 1
    secret.write_bytes(damaged)
    (copy / "features.gd").unlink()
    (os.link if is_hard else os.symlink)(secret, copy / "features.gd")
    with pytest.raises(OSError, match=r"is a link|another name"):
        gz.fetch(f"{server.url}/data", copy)
    assert secret.read_bytes() == damaged


def test_a_link_in_a_cache_is_an_error(server, tmp_path):
    url, cache, elsewhere = f"{server.url}/data", tmp_path / "cache", tmp_path / "elsewhere"
    with gz.open(url, cache=cache) as ds:
        folder = Path(ds.paths[0]).parent
    os.rename(folder / "dataset.json", elsewhere)
    os.symlink(elsewhere, folder / "dataset.json")
    with pytest.raises(OSError, match="is a link"):
        gz.open(url, cache=cache)
    (folder / "dataset.json").unlink()
    elsewhere.unlink()
    folder.rename(elsewhere)
    os.symlink(elsewhere, folder)
    with pytest.raises(OSError, match="is a link"):
        gz.open(url, cache=cache)


# --- sizes


@pytest.mark.parametrize("file_bytes", [1 << 50, (1 << 63) - 1, 5 << 20])
@pytest.mark.parametrize("says_size", [True, False])
def test_a_header_that_claims_more_than_there_is(store, server, tmp_path, file_bytes, says_size):
    path = store / "features.gd"
    header = read_header(path)
    page = encode_header(replace(header, file_bytes=file_bytes))
    path.write_bytes(page + path.read_bytes()[PAGE_BYTES:])
    text = (store / "dataset.json").read_text()
    (store / "dataset.json").write_text(text.replace('"checksum"', '"of_before"'))
    server.says_size = says_size
    began = time.monotonic()
    with pytest.raises((gz.FormatError, OSError), match=r"features.gd|disk space|fetch again"):
        gz.fetch(f"{server.url}/data", tmp_path / "copy")
    assert time.monotonic() - began < 20
    assert sum(file.stat().st_size for file in (tmp_path / "copy").iterdir()) < 20 << 20


# --- servers that stall


@pytest.fixture
def stalled() -> Iterator[str]:
    """The address of a server that takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_a_block_that_brings_nothing_is_asked_for_again(store, server, tmp_path, monkeypatch):
    monkeypatch.setattr(remote_files, "STALL_SECONDS", 0.5)
    stalls = []

    def stall_once(name: str, _: int) -> None:
        if name == "features.gd" and len(stalls) < 3:
            stalls.append(name)
            time.sleep(3)

    server.before = stall_once
    gz.fetch(f"{server.url}/data", tmp_path / "copy")
    assert len(stalls) == 3
    assert (tmp_path / "copy" / "features.gd").read_bytes() == (store / "features.gd").read_bytes()


@pytest.mark.parametrize(
    "at", ["dataset.json", pytest.param("features.gd", marks=pytest.mark.extended)]
)
def test_where_the_store_stalls_a_copy_serves(store, server, tmp_path, monkeypatch, at):
    monkeypatch.setattr(remote, "_MOST_WAIT", 1)
    url, cache, is_over = f"{server.url}/data", tmp_path / "cache", threading.Event()
    gz.open(url, cache=cache).close()
    gz.set_attribute(store, "x", np.ones((500, 2), np.float32)).close()
    server.before = lambda name, _: name == at and is_over.wait(60)
    began = time.monotonic()
    with pytest.warns(UserWarning, match=r"sent nothing for .* its copy in .* is used"):
        ds = gz.open(url, cache=cache)
    assert time.monotonic() - began < 30  # far from the 60 seconds of the server
    assert ds.num_features == 32
    is_over.set()


@pytest.mark.parametrize(
    "stalls_at", ["features.gd", pytest.param("connection", marks=pytest.mark.extended)]
)
def test_ctrl_c_ends_a_command_whose_store_stalls(server, stalled, tmp_path, stalls_at):
    is_over = threading.Event()
    server.before = lambda name, _: name == stalls_at and is_over.wait(60)
    url = stalled if stalls_at == "connection" else f"{server.url}/data"
    argv = [sys.executable, "-m", "graphzero", "fetch", url, str(tmp_path / "copy")]
    process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    while not (tmp_path / "copy").exists():
        time.sleep(0.05)
        assert process.poll() is None
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    process.communicate(timeout=30)
    assert time.monotonic() - began < 5  # what the command promises
    assert process.returncode != 0
    is_over.set()


# --- servers of whole files


def test_a_server_that_sends_whole_files_only_sends_each_once(store, server, tmp_path):
    server.ranges, url = False, f"{server.url}/data"
    with pytest.warns(UserWarning, match="sends whole files only") as warned:
        gz.fetch(url, tmp_path / "copy")
    assert len(warned) == 1
    names = server.asked.keys() - {"dataset.json"}
    assert names == {"features.gd", "graph.gl", "labels.gd"}
    assert all(server.asked[name] == 1 for name in names)
    with pytest.warns(UserWarning, match="sends whole files only"):
        gz.fetch(url, tmp_path / "copy")  # checked, and nothing is missing
    assert all(
        (tmp_path / "copy" / name).read_bytes() == (store / name).read_bytes() for name in names
    )


def test_a_whole_file_is_read_again_from_its_beginning(store, server, tmp_path):
    server.ranges, server.breaks, server.damages = False, 2, "features.gd"
    with pytest.warns(UserWarning, match="sends whole files only"):
        gz.fetch(f"{server.url}/data", tmp_path / "copy")
    assert (tmp_path / "copy" / "features.gd").read_bytes() == (store / "features.gd").read_bytes()


# --- what a copy notes of its origin


@pytest.mark.parametrize("text", ["", "{", "[]", '{"manifests": 3}', "null"])
def test_a_damaged_note_of_the_origin_is_reported_and_written_anew(store, server, tmp_path, text):
    url, cache = f"{server.url}/data", tmp_path / "cache"
    with gz.open(url, cache=cache) as ds:
        folder = Path(ds.paths[0]).parent
    (folder / "fetched.json").write_text(text)
    gz.set_attribute(store, "year", np.arange(500)).close()
    with pytest.warns(UserWarning, match=r"fetched.json is damaged: the dataset is fetched anew"):
        ds = gz.open(url, cache=cache)
    assert "year" in ds.attributes
    gz.set_attribute(store, "year", np.arange(500)[::-1].copy()).close()
    assert gz.open(url, cache=cache).year[0] == 499
