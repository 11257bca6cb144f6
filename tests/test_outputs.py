"""Output files: what is refused before the work, and that they appear whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import sys

import numpy as np
import pytest

import graphzero as gz
from graphzero.store.atomic import StagedFile, write_atomically
from graphzero.store.manifest import MANIFEST_NAME, finish_renames, read_manifest
from graphzero.store.outputs import Output, check_outputs, replaced_file

EDGES = np.array([[0, 1], [1, 2], [2, 0]])
ROWS = np.ones((3, 2), np.float32)
SPECIAL = "a folder, a device or another special file"


def make_special(path, kind):
    """A special file that only this test has; the device is a copy of /dev/null's node."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
        (path / "inside").write_text("precious")
    else:
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.stat("/dev/null").st_rdev)
        except PermissionError:
            pytest.skip("only root may make a device")


def what_is(path):
    found = os.lstat(path)
    return found.st_ino, found.st_mode, found.st_rdev


@pytest.fixture(params=["pipe", "device", "folder"])
def special(request, tmp_path):
    """A special file; the test must leave it as it was, and nothing beside it."""
    path = tmp_path / "special" / "out.gd"
    path.parent.mkdir()
    make_special(path, request.param)
    before = what_is(path)
    yield path
    assert what_is(path) == before
    assert os.listdir(path.parent) == ["out.gd"]
    if request.param == "folder":
        assert (path / "inside").read_text() == "precious"


@pytest.fixture
def csv(tmp_path):
    (tmp_path / "e.csv").write_text("0,1\n1,2\n")
    return tmp_path / "e.csv"


def refused(call, path):
    with pytest.raises(OSError, match=SPECIAL) as caught:
        call()
    assert caught.value.filename == str(path)


# --- before the work


def test_paths_that_can_be_written_are_left_as_they_were(tmp_path):
    (tmp_path / "earlier.json").write_text("of before")
    (tmp_path / "dangling").symlink_to(tmp_path / "missing")
    before = sorted(tmp_path.iterdir())
    for name in ("new.json", "earlier.json", "dangling"):
        check_outputs([Output("--json", tmp_path / name)])
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("path", "kind", "message"),
    [
        ("no/x", FileNotFoundError, "No such file or directory; choose another path"),
        ("file/x", NotADirectoryError, "Not a directory; choose another path"),
        ("folder", IsADirectoryError, "choose the path of a regular file"),
        ("pipe", OSError, "choose the path of a regular file"),
        ("link", OSError, "choose the path of a regular file"),
        ("x" * 250, OSError, "choose another path"),
    ],
)
def test_what_cannot_be_written_is_refused(tmp_path, monkeypatch, path, kind, message):
    monkeypatch.chdir(tmp_path)
    for special in ("pipe", "folder"):
        make_special(tmp_path / special, special)
    (tmp_path / "link").symlink_to("/dev/null")
    (tmp_path / "file").write_text("")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(kind, match="--json cannot be written: ") as caught:
        check_outputs([Output("--json", path)])
    assert message in caught.value.strerror
    assert caught.value.filename == path
    assert caught.value.errno
    assert sorted(tmp_path.iterdir()) == before


def test_a_file_that_is_read_only_is_not_replaced(tmp_path, monkeypatch):
    (tmp_path / "x").write_text("precious")
    monkeypatch.setattr(os, "access", lambda file, mode: False)  # root may write to every file
    with pytest.raises(PermissionError, match="exists and is read-only"):
        check_outputs([Output("--json", tmp_path / "x")])


def test_outputs_are_neither_the_same_file_nor_one_that_is_read(tmp_path):
    real, link = Output("--json", tmp_path / "x.json"), Output("--csv", tmp_path / "link")
    link.path.symlink_to(real.path)
    for _ in range(2):
        for outputs in ([real, real], [real, link], [link, real]):
            with pytest.raises(ValueError, match="would replace .*, which is --.* as well: choose"):
                check_outputs(outputs)
        real.path.write_text("{}")
    for output in (real, link):
        with pytest.raises(ValueError, match=f"{output.option} would replace .*, which is read"):
            check_outputs([output], [tmp_path / "other", real.path])


# --- after it


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
    with pytest.raises(OSError, match="No space") as caught, replaced_file(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(path))
    assert path.read_bytes() == b"new"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "x"]


# --- nothing replaces a device, a pipe, a socket, a folder or an open file

WRITERS = {
    "gl": lambda csv, out: gz.convert_csv_to_gl(csv, out),
    "gd": lambda csv, out: gz.convert_csv_to_gd(csv, out, gz.DataType.FLOAT32),
    "staged": lambda _, out: StagedFile(out),
    "atomic": lambda _, out: write_atomically(out, b"x"),
    "replaced": lambda _, out: replaced_file(out).__enter__(),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_every_writer_refuses_special_files_and_links_to_them(special, csv, tmp_path, writer):
    refused(lambda: WRITERS[writer](csv, special), special)
    if writer not in ("staged", "atomic"):  # these get the target of a link
        (tmp_path / "link").symlink_to(special)
        with pytest.raises(OSError, match=SPECIAL):
            WRITERS[writer](csv, tmp_path / "link")
        assert (tmp_path / "link").is_symlink()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("is_linked", [False, True], ids=["itself", "by a link"])
@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/{0}", "/proc/self/fd/{0}"])
def test_an_open_file_is_not_replaced_under_its_writer(tmp_path, csv, name, is_linked):
    """Also where it is a regular file, as standard output is after "> file"."""
    with open(tmp_path / "open", "w") as file:
        path = name.format(file.fileno())
        if is_linked:
            (tmp_path / "link").symlink_to(path)
            path = str(tmp_path / "link")
        for write in (*WRITERS.values(), lambda _, out: check_outputs([Output("--json", out)])):
            with pytest.raises(OSError, match="an open file of a process"):
                write(csv, path)
        file.write("goes on")
    assert (tmp_path / "open").read_text() == "goes on"
    assert len(list(tmp_path.iterdir())) == 2 + is_linked


def test_one_that_appears_during_the_work_is_not_replaced(tmp_path):
    staged = StagedFile(tmp_path / "x")
    staged.seal()
    os.mkfifo(tmp_path / "x")
    refused(staged.publish, tmp_path / "x")
    assert stat.S_ISFIFO(os.stat(tmp_path / "x").st_mode)
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("writer", ["gl", "gd"])
def test_a_link_to_a_file_is_followed_and_the_input_is_not_replaced(tmp_path, csv, writer):
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere" / "out")
    for _ in range(2):  # first it leads nowhere
        WRITERS[writer](csv, link)
        assert link.is_symlink()
        assert os.listdir(tmp_path / "elsewhere") == ["out"]
        opened, count = (gz.Graph, 3) if writer == "gl" else (gz.FeatureStore, 2)
        assert opened(link).num_nodes == count
    with pytest.raises(ValueError, match="out_path would replace .* which is read"):
        WRITERS[writer](csv, csv)
    assert csv.read_text() == "0,1\n1,2\n"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("graph.gl", "device"), ("features.gd", "pipe"), ("labels.gd", "folder")),
        *(("split_train.gd", "pipe"), (MANIFEST_NAME, "folder")),
    ],
)
def test_a_build_replaces_none_and_leaves_nothing_beside_it(tmp_path, name, kind):
    make_special(tmp_path / name, kind)
    before = what_is(tmp_path / name)
    options = {"features": ROWS, "labels": np.arange(3), "splits": {"train": [0]}}
    refused(lambda: gz.build(tmp_path, EDGES, **options), tmp_path / name)
    assert what_is(tmp_path / name) == before
    assert os.listdir(tmp_path) == [name]


def test_opening_a_folder_whose_manifest_is_a_pipe_does_not_wait_for_it(tmp_path):
    os.mkfifo(tmp_path / MANIFEST_NAME)
    with pytest.raises(gz.FormatError, match="not a regular file"):
        gz.open(tmp_path)


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_pending_renames_do_not_replace_one(tmp_path, kind):
    gz.build(tmp_path, EDGES, ROWS).close()
    manifest = read_manifest(tmp_path)
    os.rename(tmp_path / "features.gd", tmp_path / manifest.nodes[""].attributes["x"].staged)
    make_special(tmp_path / "features.gd", kind)
    refused(lambda: finish_renames(tmp_path, manifest), tmp_path / "features.gd")
    gz.open(tmp_path).close()


def test_a_file_of_a_dataset_that_is_a_link_is_replaced_and_its_target_left(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "elsewhere").write_text("precious")
    (tmp_path / "d" / "features.gd").symlink_to(tmp_path / "elsewhere")
    with gz.build(tmp_path / "d", EDGES, ROWS) as ds:
        assert ds.features.shape == (3, 2)
    assert not (tmp_path / "d" / "features.gd").is_symlink()
    assert (tmp_path / "elsewhere").read_text() == "precious"


def test_packs_refuse_special_files_and_follow_links(special, tmp_path):
    pytest.importorskip("torch")
    with gz.build(tmp_path / "d", EDGES, ROWS) as ds:
        refused(lambda: gz.pack(ds, special, epochs=1, overwrite=True), special)
        (tmp_path / "real").mkdir()
        (tmp_path / "link.gd").symlink_to(tmp_path / "real" / "p.gd")
        assert gz.pack(ds, tmp_path / "link.gd", epochs=1).is_symlink()
    assert os.listdir(tmp_path / "real") == ["p.gd"]
