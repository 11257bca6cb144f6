"""Output files: what is refused before the work, and that they appear whole or not at all."""

from __future__ import annotations

import errno
import os
import socket
import sys

import numpy as np
import pytest

import graphzero as gz
from graphzero.store.atomic import StagedFile, replace_file, write_atomically
from graphzero.store.outputs import (
    Output,
    check_outputs,
    files_of_dataset,
    replaced_file,
    writing,
)


def refused(kind, path, *, inputs=(), num_bytes=0):
    with pytest.raises(kind) as caught:
        check_outputs([Output("--json", path, num_bytes)], inputs)
    return caught.value


def test_paths_that_can_be_written_are_left_as_they_were(tmp_path):
    earlier = tmp_path / "earlier.json"
    earlier.write_text("of before")
    (tmp_path / "link").symlink_to(earlier)
    (tmp_path / "dangling").symlink_to(tmp_path / "missing")
    before = sorted(tmp_path.iterdir())
    for name in ("new.json", "earlier.json", "link", "dangling"):
        check_outputs([Output("--json", tmp_path / name, num_bytes=100_000)])
    assert sorted(tmp_path.iterdir()) == before
    assert earlier.read_text() == "of before"


def test_the_folder_must_exist(tmp_path):
    error = refused(FileNotFoundError, tmp_path / "no" / "x.json")
    assert error.filename == str(tmp_path / "no" / "x.json")
    assert error.strerror.startswith("--json cannot be written: the folder ")
    assert error.strerror.endswith("does not exist; make it, or choose another path")
    (tmp_path / "file").write_text("")
    error = refused(NotADirectoryError, tmp_path / "file" / "x.json")
    assert "is not a folder" in error.strerror


@pytest.mark.parametrize("path", ["folder", "new/", "."])
def test_a_folder_is_no_output(tmp_path, path, monkeypatch):
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path)
    assert "add the name of a file" in refused(IsADirectoryError, path).strerror


def test_special_files_are_no_outputs(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(tmp_path / "socket"))  # absolute paths may be too long
        for path in ("/dev/null", tmp_path / "pipe", tmp_path / "link", tmp_path / "socket"):
            error = refused(OSError, path)
            assert error.errno == errno.EINVAL
            assert error.filename == str(path)
            assert "choose the path of a regular file" in error.strerror


OPEN_FILES = ["/dev/stdout", "/dev/fd/{0}", "/proc/self/fd/{0}", "/proc/thread-self/fd/{0}"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("name", OPEN_FILES)
@pytest.mark.parametrize("is_linked", [False, True], ids=["itself", "by a link"])
def test_an_open_file_is_not_replaced_under_its_writer(tmp_path, name, is_linked):
    """Also where it is a regular file, as standard output is after "> file"."""
    with open(tmp_path / "open", "w") as file:
        path = name.format(file.fileno())
        if is_linked:
            (tmp_path / "link").symlink_to(path)
            path = str(tmp_path / "link")
        error = refused(OSError, path)
        assert error.filename == path
        assert "--json cannot be written: this is an open file of a process" in error.strerror
        with pytest.raises(OSError, match="open file of a process") as caught:
            replaced_file(path).__enter__()
        assert caught.value.filename == path
        with pytest.raises(OSError, match="open file of a process"):
            StagedFile(path)
        file.write("goes on")
    assert (tmp_path / "open").read_text() == "goes on"
    assert len(list(tmp_path.iterdir())) == 1 + is_linked


def test_a_file_that_is_read_only_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    path.write_text("precious")
    monkeypatch.setattr(os, "access", lambda file, mode: False)  # root may write to every file
    assert "exists and is read-only" in refused(PermissionError, path).strerror


def test_a_folder_that_takes_no_files_is_refused_with_the_users_path():
    error = refused(OSError, "/proc/x.json")  # not even root may make one there
    assert error.filename == "/proc/x.json"
    assert error.errno
    assert "choose another path" in error.strerror


def test_names_that_are_too_long_for_the_disk(tmp_path):
    error = refused(OSError, tmp_path / ("x" * 250))
    assert error.errno == errno.ENAMETOOLONG


def test_too_little_space_is_found(tmp_path, monkeypatch):
    requested = []

    def full(descriptor, offset, size):
        requested.append(size)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    error = refused(OSError, tmp_path / "x.npz", num_bytes=5_000_000)
    assert requested == [5_000_000]
    assert error.errno == errno.ENOSPC
    assert "there is no space for 5,000,000 bytes" in error.strerror
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="macOS reserves otherwise")
def test_space_is_reserved_for_all_outputs_at_the_same_time(tmp_path, monkeypatch):
    files = []
    reserve = os.posix_fallocate
    monkeypatch.setattr(
        os,
        "posix_fallocate",
        lambda fd, offset, size: (reserve(fd, offset, size), files.append(os.listdir(tmp_path))),
    )
    check_outputs([Output("--a", tmp_path / "a", 9000), Output("--b", tmp_path / "b", 9000)])
    assert [len(names) for names in files] == [1, 2]
    assert list(tmp_path.iterdir()) == []


def test_two_outputs_are_two_files(tmp_path):
    real = tmp_path / "x.json"
    (tmp_path / "link").symlink_to(real)
    for other in (real, tmp_path / "." / "x.json", tmp_path / "link"):
        for content in (None, "{}"):
            if content is not None:
                real.write_text(content)
            with pytest.raises(ValueError, match="^--json and --save are the same file, "):
                check_outputs([Output("--json", real), Output("--save", other)])
        real.unlink()


def test_no_file_that_is_read_is_an_output(tmp_path):
    used = tmp_path / "edges.csv"
    used.write_text("0,1")
    os.link(used, tmp_path / "same")
    for path in (used, tmp_path / "same"):
        error = refused(ValueError, path, inputs=[tmp_path / "other", used])
        assert "--json would replace" in str(error)
        assert str(used) in str(error)


def test_files_of_a_dataset_are_those_that_its_manifest_names(tmp_path):
    edges, rows = np.array([[0, 1], [1, 2]]), np.ones((3, 2), np.float32)
    options = {"order": "presample", "presample": gz.Presample(fanouts=[1], batch_size=2)}
    with gz.build(tmp_path / "d", edges, rows, splits={"train": [0]}, **options) as ds:
        found = files_of_dataset(ds.paths)
    assert {path.name for path in found} == {
        "dataset.json", "graph.gl", "features.gd", "split_train.gd", "visits.gd"
    }  # fmt: skip
    assert all(path.exists() for path in found)
    np.save(tmp_path / "x.npy", rows)
    assert files_of_dataset([tmp_path / "x.npy"]) == [tmp_path / "x.npy"]


def test_a_file_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"of before")
    (tmp_path / "link").symlink_to(path)
    with replaced_file(tmp_path / "link") as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"of before"
    assert path.read_bytes() == b"new"
    assert (tmp_path / "link").is_symlink()
    with pytest.raises(KeyboardInterrupt), replaced_file(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"new"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "x"]


def test_a_full_disk_is_named_by_the_users_path(tmp_path):
    with pytest.raises(OSError, match="No space") as caught, replaced_file(tmp_path / "x"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(tmp_path / "x"))
    assert list(tmp_path.iterdir()) == []


def test_an_error_names_the_file_and_not_its_unfinished_one(tmp_path):
    path = tmp_path / "gone" / "x.json"
    with pytest.raises(FileNotFoundError) as caught:
        write_atomically(path, b"")
    assert caught.value.filename == str(path)
    with pytest.raises(FileNotFoundError) as caught:
        replace_file(tmp_path / "staged", path)
    assert (caught.value.filename, caught.value.filename2) == (str(path), None)


@pytest.mark.parametrize(
    ("code", "advice"),
    [(errno.ENOSPC, "free some, or choose another path"), (errno.EIO, "choose another path")],
)
def test_a_failure_after_the_work_names_the_option(tmp_path, code, advice):
    path = str(tmp_path / "x.json")
    with pytest.raises(OSError, match="--json") as caught, writing(Output("--json", path)):
        raise OSError(code, os.strerror(code))
    expected = f"{os.strerror(code)}: --json was not written; {advice}"
    assert (caught.value.strerror, caught.value.filename) == (expected, path)
