"""Files of several versions of a dataset never come as one, whoever is killed and when."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import files
import killed
import numpy as np
import pytest
from http_server import serving

import graphzero as gz
from graphzero.ingest import writer
from graphzero.store import folder as folder_module
from graphzero.store import remote, remote_files
from graphzero.store.atomic import is_staging_name
from graphzero.store.manifest import read_manifest

pytest.importorskip("aiohttp")

pytestmark = pytest.mark.no_asan  # what is tested is Python

NODES, EDGES = 60, 200


def build(folder: Path, version: int) -> Path:
    """Every file has the number of its version; each version has a split that no other has."""
    rng = np.random.default_rng(version)
    gz.build(
        folder,
        rng.integers(0, NODES, (EDGES, 2)),
        np.full((NODES, 3), version, np.float32),
        np.full(NODES, version),
        {"train": [version], f"of_{version}": [version]},
    ).close()
    return folder


def version_of(folder: Path) -> int:
    """The version on which all files agree."""
    with gz.open(folder) as ds:
        (version,) = {
            int(ds.features.gather([0])[0, 0]),
            int(ds.labels.gather([0])[0]),
            int(ds.splits["train"][0]),
            int(ds.splits[f"of_{ds.num_classes - 1}"][0]),
        }
        targets = np.random.default_rng(version).integers(0, NODES, (EDGES, 2))[:, 1]
        expected = np.bincount(targets, minlength=NODES)
        np.testing.assert_array_equal(ds.graph.degree(np.arange(NODES), "in"), expected)
    return version


@pytest.fixture(scope="module")
def versions(tmp_path_factory: Any) -> list[Path]:
    """Three versions of a dataset."""
    folder = tmp_path_factory.mktemp("versions")
    return [build(folder / str(version), version) for version in (1, 2, 3)]


@pytest.fixture(autouse=True)
def few_tries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_files, "TRIES", 1)


# --- files that somebody has put there


@pytest.mark.parametrize("name", ["features.gd", "labels.gd", "split_train.gd", "graph.gl"])
def test_a_file_of_another_version_is_refused_by_all_who_read_it(versions, tmp_path, name):
    data = shutil.copytree(versions[0], tmp_path / "data")
    shutil.copy(versions[1] / name, data / name)
    message = rf"{name} is not the file that dataset.json describes.*fetch.*or build it again"
    for read in (
        lambda: gz.open(data),
        lambda: gz.set_attribute(data, "year", np.arange(NODES)),
        lambda: gz.append(data, [[0, 1]]),
        lambda: gz.reorder(data, "input"),
        lambda: gz.publish(data, tmp_path / "store"),
        lambda: gz.fetch(data, tmp_path / "copy"),
        lambda: gz.open(data, cache=tmp_path / "cache"),
    ):
        with pytest.raises(gz.FormatError, match=message):
            read()
    (found,) = gz.verify(data)
    assert found.path == str(data / name)
    build(data, 2)  # a build replaces all
    assert version_of(data) == 2


def test_a_dataset_of_before_has_no_checksums_and_opens(versions, tmp_path):
    data = shutil.copytree(versions[0], tmp_path / "data")
    files.forget_checksums(data)
    assert version_of(data) == 1
    assert gz.verify(data) == []
    gz.set_attribute(data, "year", np.arange(NODES)).close()
    gz.publish(data, tmp_path / "store")
    gz.fetch(tmp_path / "store", tmp_path / "copy")
    assert version_of(tmp_path / "copy") == 1
    for name, value in (("name", '"labels.gd"'), ("checksum", "-1"), ("checksum", '"1"')):
        text = (versions[0] / "dataset.json").read_text()
        lines = (
            f'"{name}": {value},' if f'"{name}"' in line else line for line in text.split("\n")
        )
        (data / "dataset.json").write_text("\n".join(lines).replace(",\n    }", "\n    }"))
        with pytest.raises(gz.FormatError, match="corrupt"):
            gz.open(data)


# --- kills


def by_fetch(folder: Path, source: Path) -> None:
    remote._fetch(remote_files.RemoteFolder(source, None), folder, False, check=False)


def by_publish(folder: Path, source: Path) -> None:
    gz.publish(source, folder)


def by_build(folder: Path, source: Path) -> None:
    build(folder, int(source.name))


def counted_from_commit(work: Callable[[], object]) -> None:
    """Calls `work` in a child, whose system calls count from the commit."""

    def committing(*arguments: Any) -> None:
        killed.begin_counting()
        commit(*arguments)

    commit = folder_module.commit
    remote.commit = writer.commit = committing  # type: ignore[attr-defined]
    work()


def counted_from_the_start(work: Callable[[], object]) -> None:
    """Calls `work` in a child, whose system calls count from its beginning."""
    killed.begin_counting()
    work()


@pytest.mark.extended
@pytest.mark.parametrize("way", [by_fetch, by_publish, by_build])
@pytest.mark.parametrize(
    ("counted", "step"), [(counted_from_commit, 1), (counted_from_the_start, 3)]
)
def test_a_kill_between_any_two_system_calls_leaves_one_version(
    versions, tmp_path, monkeypatch, way, counted, step
):
    """Opened, copied, and after another writer has begun and failed: version 1, or version 2."""
    first, second, third = versions
    start, data, copy = tmp_path / "start", tmp_path / "data", tmp_path / "copy"
    by_fetch(start, first) if way is by_fetch else gz.publish(first, start)
    kills, found = 0, set()
    for call in itertools.count(1, step):
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(start, data)
        if not killed.killed_at(call, lambda: counted(lambda: way(data, second))):
            break
        kills += 1
        found.add(version := version_of(data))
        assert not gz.verify(data)
        gz.fetch(data, copy)
        assert version_of(copy) == version
        shutil.rmtree(copy)
        with monkeypatch.context() as patch, pytest.raises(OSError, match="no more"):
            patch.setattr(remote_files.RemoteFolder, "read", fail)
            (by_fetch if way is by_fetch else by_publish)(data, third)
        assert version_of(data) == version
        way(data, second)
        assert version_of(data) == 2
        assert not list(filter(is_staging_name, os.listdir(data)))
    print(f"{kills} kills")
    assert found == {1, 2}
    assert kills > 25
    assert version_of(data) == 2


def fail(*_: object) -> bytes:
    raise OSError("no more")


# --- stores


@pytest.mark.parametrize("has_checksums", [True, False])
def test_a_folder_whose_build_was_killed_after_its_commit_is_copied_rightly(
    versions, tmp_path, has_checksums
):
    data = shutil.copytree(versions[0], tmp_path / "data")
    for entry in read_manifest(versions[1]).entries():
        shutil.copy(versions[1] / entry.name, data / entry.staged)
    shutil.copy(versions[1] / "dataset.json", data)
    if not has_checksums:
        files.forget_checksums(data)
    assert version_of(data) == 2
    gz.fetch(data, tmp_path / "by path")
    assert version_of(tmp_path / "by path") == 2
    with serving(tmp_path) as server:
        gz.fetch(f"{server.url}/data", tmp_path / "by http")
    assert version_of(tmp_path / "by http") == 2


def test_who_has_a_folder_open_keeps_the_version_while_another_is_published(versions, tmp_path):
    data = tmp_path / "data"
    gz.publish(versions[0], data)
    with gz.open(data) as ds:
        gz.publish(versions[1], data)
        assert (ds.features.gather([0])[0, 0], ds.labels.gather([0])[0]) == (1, 1)
    assert version_of(data) == 2
    with pytest.raises(ValueError, match="cannot be published to itself"):
        gz.publish(data, data)


def test_two_publish_to_one_address_at_once(versions, tmp_path, monkeypatch):
    """On a store without locks, the second one publishes in the middle of the first."""
    url = f"memory://{tmp_path.name}/data"
    gz.publish(versions[2], url)
    store = type(remote_files.RemoteFolder(url, None).files)
    put, begun = store.put_file, []

    def putting(files: Any, source: str, target: str, **options: Any) -> None:
        put(files, source, target, **options)
        if "/1/features.gd" in source and not begun:
            begun.append(source)
            gz.publish(versions[1], url)

    monkeypatch.setattr(store, "put_file", putting)
    gz.publish(versions[0], url)
    assert begun
    gz.fetch(url, tmp_path / "copy")
    assert version_of(tmp_path / "copy") == 1
    # files of another one below a manifest: nobody takes them for a dataset
    put(
        remote_files.RemoteFolder(url, None).files,
        str(versions[1] / "labels.gd"),
        f"{url}/labels.gd",
    )
    with pytest.raises(gz.FormatError, match=r"labels.gd is not the file that"):
        gz.fetch(url, tmp_path / "other")


def test_two_publish_to_one_folder_at_once(versions, tmp_path):
    with ThreadPoolExecutor() as pool:
        for _ in range(10):
            list(pool.map(lambda version: gz.publish(version, tmp_path / "data"), versions))
            assert version_of(tmp_path / "data") in (1, 2, 3)


def test_addresses_that_differ_by_query_or_options_have_copies_of_their_own(versions, tmp_path):
    cache = tmp_path / "cache"
    with serving(versions[0].parent) as server:
        gz.open(f"{server.url}/1?ds=A", cache=cache).close()
    with pytest.raises(OSError, match="cannot be read"):
        gz.open(f"{server.url}/1?ds=B", cache=cache)
    with pytest.raises(OSError, match="cannot be read"):
        gz.open(f"{server.url}/1?ds=A", cache=cache, storage_options={"client_kwargs": {"a": 1}})
    with pytest.warns(UserWarning, match="cannot be read now"):
        gz.open(f"{server.url}/1?ds=A", cache=cache).close()


def test_wrong_arguments_are_no_reason_to_use_a_copy(versions, tmp_path):
    url, cache = f"memory://{tmp_path.name}/data", tmp_path / "cache"
    gz.publish(versions[0], url)
    gz.open(url, cache=cache).close()
    with pytest.raises(ValueError, match="has a '\\?'"):
        gz.open(f"{url}?x=1", cache=cache)
    with pytest.raises(ValueError, match="topology must be"):
        gz.open(url, cache=cache, topology="x")  # type: ignore[arg-type]
