"""Outputs that are no regular files: nothing replaces a device, a pipe, a socket or a folder."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import graphzero as gz
from graphzero.store.atomic import StagedFile, write_atomically
from graphzero.store.manifest import MANIFEST_NAME, finish_renames, read_manifest
from graphzero.store.outputs import replaced_file

EDGES = np.array([[0, 1], [1, 2], [2, 0]])
ROWS = np.ones((3, 2), np.float32)
KINDS = ("pipe", "socket", "device", "folder")


def make_special(path, kind):
    """A special file that only this test has; the device is a copy of /dev/null's node."""
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
        (path / "inside").write_text("precious")
    elif kind == "device":
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.stat("/dev/null").st_rdev)
        except PermissionError:
            pytest.skip("only root may make a device")
    else:
        here = Path.cwd()
        try:
            os.chdir(path.parent)  # absolute paths may be too long
            with socket.socket(socket.AF_UNIX) as listening:
                listening.bind(path.name)
        finally:
            os.chdir(here)


def what_is(path):
    found = os.lstat(path)
    return found.st_ino, found.st_mode, found.st_rdev


@pytest.fixture(params=KINDS)
def special(request, tmp_path):
    """A special file; the test must leave it as it was, and nothing beside it."""
    folder = tmp_path / "special"
    folder.mkdir()
    path = folder / "out.gd"
    make_special(path, request.param)
    before = what_is(path)
    yield path
    assert what_is(path) == before
    assert os.listdir(folder) == ["out.gd"]
    if request.param == "folder":
        assert (path / "inside").read_text() == "precious"


def refused(call, path):
    with pytest.raises(OSError, match=r"a (device or another special file|folder)") as caught:
        call()
    assert caught.value.filename == str(path)


@pytest.fixture
def csv(tmp_path):
    (tmp_path / "e.csv").write_text("0,1\n1,2\n")
    return tmp_path / "e.csv"


WRITERS = {
    "gl": lambda csv, out: gz.convert_csv_to_gl(csv, out),
    "gl_names": lambda csv, out: gz.convert_csv_to_gl(input_csv=csv, output_bin=out),
    "gd": lambda csv, out: gz.convert_csv_to_gd(csv, out, gz.DataType.FLOAT32),
    "staged": lambda _, out: StagedFile(out),
    "atomic": lambda _, out: write_atomically(out, b"x"),
    "replaced": lambda _, out: replaced_file(out).__enter__(),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_every_writer_refuses_them(special, csv, writer):
    refused(lambda: WRITERS[writer](csv, special), special)


@pytest.mark.parametrize("writer", ["gl", "gl_names", "gd", "replaced"])
def test_a_link_to_one_is_refused_too(special, csv, tmp_path, writer):
    (tmp_path / "link").symlink_to(special)
    with pytest.raises(OSError, match=r"a (device or another special file|folder)"):
        WRITERS[writer](csv, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("writer", ["staged", "atomic", "replaced", "gl"])
def test_an_open_file_is_not_replaced_by_its_descriptor(tmp_path, csv, writer):
    with open(tmp_path / "open", "w") as file:
        path = f"/proc/self/fd/{file.fileno()}"
        with pytest.raises(OSError, match="open file of a process") as caught:
            WRITERS[writer](csv, path)
    assert caught.value.filename == path
    assert (tmp_path / "open").read_text() == ""
    assert sorted(os.listdir(tmp_path)) == ["e.csv", "open"]


def test_one_that_appears_during_the_work_is_not_replaced(tmp_path):
    staged = StagedFile(tmp_path / "x")
    staged.seal()
    os.mkfifo(tmp_path / "x")
    refused(staged.publish, tmp_path / "x")
    assert stat.S_ISFIFO(os.stat(tmp_path / "x").st_mode)
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("writer", ["gl", "gd"])
def test_a_link_to_a_file_is_followed_and_stays_a_link(tmp_path, csv, writer):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "out", tmp_path / "link"
    link.symlink_to(target)
    for _ in range(2):  # first it leads nowhere
        WRITERS[writer](csv, link)
        assert link.is_symlink()
        assert os.listdir(tmp_path / "elsewhere") == ["out"]
        assert (gz.Graph if writer == "gl" else gz.FeatureStore)(link).num_nodes == 3 - (
            writer == "gd"
        )


@pytest.mark.parametrize("writer", ["gl", "gd"])
def test_the_input_is_not_replaced(csv, writer):
    with pytest.raises(ValueError, match="out_path would replace .* which is read"):
        WRITERS[writer](csv, csv)
    assert csv.read_text() == "0,1\n1,2\n"


FILES = ("graph.gl", "features.gd", "labels.gd", "split_train.gd", MANIFEST_NAME)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FILES)
def test_a_build_begins_no_work_where_it_could_not_end(tmp_path, name, kind):
    make_special(tmp_path / name, kind)
    before = what_is(tmp_path / name)
    (tmp_path / "edges.csv").write_text("no,numbers\nat,all\n")  # an error, if it were read
    options = {"features": ROWS, "labels": np.arange(3), "splits": {"train": [0]}}
    refused(lambda: gz.build(tmp_path, tmp_path / "edges.csv", **options), tmp_path / name)
    assert what_is(tmp_path / name) == before
    assert sorted(os.listdir(tmp_path)) == sorted([name, "edges.csv"])


def test_opening_a_folder_whose_manifest_is_a_pipe_does_not_wait_for_it(tmp_path):
    os.mkfifo(tmp_path / MANIFEST_NAME)
    code = f"import graphzero as gz; gz.open({str(tmp_path)!r})"
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=tmp_path,  # not in the source tree, whose uncompiled package would be imported
    )
    assert "FormatError" in found.stderr
    assert "not a regular file" in found.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_reordering_does_not_replace_one(tmp_path, kind):
    gz.build(tmp_path, EDGES, ROWS).close()
    make_special(tmp_path / "visits.gd", kind)
    before, files = what_is(tmp_path / "visits.gd"), sorted(os.listdir(tmp_path))
    presample = gz.Presample(fanouts=[1], batch_size=2)
    call = lambda: gz.reorder(tmp_path, "presample", presample=presample)  # noqa: E731
    refused(call, tmp_path / "visits.gd")
    assert what_is(tmp_path / "visits.gd") == before
    assert sorted(os.listdir(tmp_path)) == files
    gz.open(tmp_path).close()


def test_renames_of_a_committed_build_do_not_replace_one(tmp_path):
    gz.build(tmp_path, EDGES, ROWS).close()
    manifest = read_manifest(tmp_path)
    os.rename(tmp_path / "features.gd", tmp_path / manifest.nodes[""].attributes["x"].staged)
    os.mkfifo(tmp_path / "features.gd")
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


def test_a_pack_follows_a_link_and_refuses_special_files(special, tmp_path):
    with gz.build(tmp_path / "d", EDGES, ROWS) as ds:
        for overwrite in (False, True):
            refused(lambda o=overwrite: gz.pack(ds, special, epochs=1, overwrite=o), special)
        (tmp_path / "real").mkdir()
        (tmp_path / "link.gd").symlink_to(tmp_path / "real" / "p.gd")
        made = gz.pack(ds, tmp_path / "link.gd", epochs=1)
        assert made == tmp_path / "link.gd"
        assert made.is_symlink()
        assert os.listdir(tmp_path / "real") == ["p.gd"]
        assert gz.FeatureStore(made).feature_dim == 2


@pytest.mark.parametrize(
    ("name", "kind"), [*(("edges.csv", kind) for kind in KINDS), ("features.npy", "pipe")]
)
def test_the_demonstration_writes_into_none(tmp_path, name, kind):
    make_special(tmp_path / name, kind)
    before = what_is(tmp_path / name)
    words = ["demo", "--dir", str(tmp_path), "--nodes", "100", "--edges", "300"]
    found = subprocess.run(
        [sys.executable, "-m", "graphzero", *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert found.returncode == 1, found.stderr
    assert "special file" in found.stderr or "folder" in found.stderr
    assert what_is(tmp_path / name) == before


def test_the_saved_model_and_predictions_refuse_them(special):
    pytest.importorskip("torch")
    from graphzero.training.graphsage import SavedModel
    from graphzero.training.trainer import write_predictions

    model = SavedModel({}, {}, [1], "float32", 1, 0)
    refused(lambda: model.write(special), special)
    link = special.parent.parent / "p.csv"
    link.symlink_to(special)
    with pytest.raises(OSError, match=r"a (device or another special file|folder)"):
        write_predictions(link, {"a": np.zeros(1, np.int64)}, {"a": np.ones((1, 1), np.float32)})
