"""Packs that are corrupt, refused, interrupted; what they cost; the command."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time

import files
import numpy as np
import pytest
from cli_program import run
from packed_graphs import rewrite

import graphzero as gz
from graphzero import _core
from graphzero.loader import epochs
from graphzero.packs import packing
from graphzero.packs.pack_file import open_pack
from graphzero.store.atomic import is_staging_name
from graphzero.store.format import read_file

pytest.importorskip("torch")

NODES, DIM = 2000, 32
SEEDS = np.arange(0, NODES, 9)  # 223: six batches of 32, and a short one
SAMPLING = {"batch_size": 32, "shuffle": True, "seed": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("packs") / "data"
    files.write_dataset(
        folder,
        files.random_edges(NODES, 20_000),
        NODES,
        features=rng.standard_normal((NODES, DIM)).astype(np.float32),
        splits={"train": SEEDS},
        order="hot",
    )
    return folder


@pytest.fixture
def ds(folder):
    with gz.open(folder) as ds:
        yield ds


def make(ds, out, epochs=1, **options):
    return gz.pack(ds, out, SEEDS, [5, 3], epochs=epochs, **{**SAMPLING, **options})


def staged_in(folder):
    return [name for name in os.listdir(folder) if is_staging_name(name)]


# --- corrupt and foreign files


def test_files_that_are_no_packs(ds, folder, tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((999, 2)))
    for path, message in (
        (folder / "features.gd", "is not a pack: it lacks the section 'pack_options'"),
        (folder / "graph.gl", "is a graph file"),
        (tmp_path / "x.npy", "is not a pack"),
    ):
        before = _core.open_mappings()
        with pytest.raises(gz.FormatError, match=message) as caught:
            gz.PackedDataset(ds, path, SEEDS)
        assert _core.open_mappings() == before, caught
    with pytest.raises(FileNotFoundError):
        gz.PackedDataset(ds, tmp_path / "nothing", SEEDS)


def test_truncated_and_corrupt_packs(ds, tmp_path):
    whole = make(ds, tmp_path / "p.gd").read_bytes()
    sections = {section.name: section for section in read_file(tmp_path / "p.gd")[0].sections}
    bad = tmp_path / "bad.gd"
    for size in (0, 100, 5000, len(whole) - 1):
        bad.write_bytes(whole[:size])
        with pytest.raises(gz.FormatError):
            gz.PackedDataset(ds, bad, SEEDS)
    for at, message in (
        (30, "corrupt header"),
        (sections["pack_options"].offset + 3, "'pack_options' is corrupt"),
        (sections["batch_offsets"].offset + 8, "'batch_offsets' is corrupt"),
    ):
        bad.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(gz.FormatError, match=message):
            gz.PackedDataset(ds, bad, SEEDS)
    at = sections["rows"].offset + 5
    bad.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert run("verify", tmp_path / "p.gd") == 0
    assert run("verify", bad) == 1


def test_sections_that_contradict_each_other(ds, tmp_path):
    source, bad = make(ds, tmp_path / "p.gd", epochs=2, resident=0.3), tmp_path / "bad.gd"
    offsets = read_file(source)[1]["batch_offsets"]
    wrong = [offsets[:-1], np.append(offsets, offsets[-1]), offsets[::-1].copy()]
    for at, by in ((0, 1), (-1, 1), (3, 1 << 40), (3, 1 << 63)):
        other = offsets.copy()
        other[at] += np.uint64(by)
        wrong.append(other)
    for other in wrong:
        rewrite(source, bad, batch_offsets=other)
        with pytest.raises(gz.FormatError, match="'batch_offsets' does not fit"):
            gz.PackedDataset(ds, bad, SEEDS)
    shifted = offsets.copy()
    shifted[3] += np.uint64(1)
    rewrite(source, bad, batch_offsets=shifted)
    with pytest.raises(gz.FormatError, match=r"rows of batch 2 of epoch 0, which has .* pack"):
        list(gz.PackedDataset(ds, bad, SEEDS))
    rewrite(source, bad, batch_offsets=offsets.astype(np.uint32))
    with pytest.raises(gz.FormatError, match="'batch_offsets' is corrupt"):
        gz.PackedDataset(ds, bad, SEEDS)


# --- what is refused before the work


def test_nothing_is_replaced_unasked(ds, folder, tmp_path, monkeypatch):
    out = make(ds, tmp_path / "p.gd")
    before = out.read_bytes()
    with pytest.raises(FileExistsError, match=r"p\.gd"):
        make(ds, out, epochs=2)
    assert out.read_bytes() == before
    make(ds, out, epochs=2, overwrite=True)
    assert open_pack(out).info.epochs == 2
    monkeypatch.setattr(packing, "_RowsWriter", None)  # all is refused before the work
    with pytest.raises(IsADirectoryError):
        make(ds, tmp_path, overwrite=True)
    for target in (folder / "features.gd", folder / "dataset.json"):
        with pytest.raises(ValueError, match="would replace .* which is read"):
            make(ds, target, overwrite=True)
    with pytest.raises(FileNotFoundError):
        make(ds, tmp_path / "nowhere" / "p.gd")
    assert not staged_in(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"first_epoch": -1}, "first_epoch must be at least 0"),
        ({"resident": 1.5}, "fraction from 0 to 1"),
        ({"batch_size": 1000, "drop_last": True}, "no batches to pack"),
        ({"weighted": True}, "weights"),
    ],
)
def test_bad_choices_are_named(ds, tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        make(ds, tmp_path / "p.gd", **options)
    assert not list(tmp_path.iterdir())


# --- interrupted and killed


SCRIPT = """
import sys
import graphzero as gz
ds = gz.open(sys.argv[1])
print("ready", flush=True)
gz.pack(ds, sys.argv[2], None, [5, 3], epochs=200, batch_size=64, resident=0)
"""


def test_a_killed_packing_is_cleared_away_by_the_next(ds, folder, tmp_path, monkeypatch):
    script = tmp_path / "pack.py"
    script.write_text(SCRIPT)
    disk = tmp_path / "disk"
    disk.mkdir()
    out = make(ds, disk / "p.gd", resident=0)
    before = out.read_bytes()
    command = [sys.executable, str(script), str(folder), str(disk / "q.gd")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path)
    try:
        assert process.stdout.readline() == b"ready\n"
        deadline = time.monotonic() + 60
        while not staged_in(disk) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        (left,) = staged_in(disk)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    sealed = disk / ".q.gd.00.gz-staged"  # no leftover: it may be waiting for its name
    shutil.copy(out, sealed)
    other = disk / ".r.gd.00.gz-staged"
    other.write_bytes(bytes(5000))
    make(ds, disk / "q.gd", resident=0)
    assert sorted(os.listdir(disk)) == sorted([sealed.name, other.name, "p.gd", "q.gd"])
    assert (disk / "q.gd").read_bytes() == out.read_bytes() == before


def test_full_disk(ds, small_disk, monkeypatch):
    out = make(ds, small_disk / "p.gd", resident=0)
    before = out.read_bytes()

    def check_full(match):
        with pytest.raises(OSError, match=match) as caught:
            make(ds, out, epochs=20, resident=0, overwrite=True)
        assert caught.value.errno == errno.ENOSPC
        assert str(caught.value.filename).startswith(str(small_disk))
        assert out.read_bytes() == before
        assert os.listdir(small_disk) == ["p.gd"]

    check_full("No space left")
    begin = packing._RowsWriter.__init__
    monkeypatch.setattr(  # all batches seem to be smaller than they are
        packing._RowsWriter, "__init__", lambda *given: begin(*given[:4], 0, given[5])
    )
    check_full("No space left")


def test_all_batches_are_packed_by_any_rank(ds, tmp_path, monkeypatch):
    alone = make(ds, tmp_path / "a.gd").read_bytes()
    monkeypatch.setattr(epochs, "current_group", lambda: (1, 2))
    assert make(ds, tmp_path / "b.gd").read_bytes() == alone


# --- the command


def test_the_command(folder, tmp_path, capfd):
    out = tmp_path / "p.gd"
    words = ["pack", folder, out, "--epochs", 2, "--fanouts", "5,3", "--batch-size", 32]
    assert run(*words, "--seed", 5, "--resident", 0.25, "--first-epoch", 1) == 0
    assert capfd.readouterr().out.startswith(f"{out}: ")
    assert run("info", out) == 0
    text = capfd.readouterr().out
    assert "first_epoch=1, epochs=2" in text
    assert "batches=14, resident_bytes=64 kB" in text
    for part in ("batch_size=32", "fanouts=5,3"):
        assert part in text
    assert run("info", out, "--json") == 0
    assert json.loads(capfd.readouterr().out)["pack"]["resident_rows"] == NODES // 4
    assert run(*words) == 1
    assert "exists" in capfd.readouterr().err
    assert run(*words, "--split", "nope") == 1
    assert "'nope' is no split of the dataset: there are ['train']" in capfd.readouterr().err
    assert run(*words, "--overwrite", "--quiet", "--split", "all", "--no-shuffle") == 0
    options = open_pack(out).info.options
    assert (options["shuffle"], options["num_seeds"]) == (False, NODES)
