"""The files of packs: corrupt, foreign, refused, replaced, interrupted; and the command."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_program import only_line, run
from files import read_file
from packed_graphs import (
    AUTHORS,
    CITES,
    PARTS,
    SEEDS,
    WRITES,
    build_typed,
    build_untyped,
    make,
    rewrite,
)

import graphzero as gz
from graphzero.loader import ranks
from graphzero.packs import packing
from graphzero.packs.pack_file import Pack
from graphzero.store import atomic
from graphzero.store.atomic import is_staging_name
from graphzero.store.format import FileWriter

pytest.importorskip("torch")

IDS = SEEDS["untyped"]  # 37: five batches of 7, and a short one


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_typed(tmp_path_factory.mktemp("graph") / "data")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_untyped(tmp_path_factory.mktemp("graph") / "data")


@pytest.fixture
def ds(folder: Path) -> Any:
    with gz.open(folder) as ds:
        yield ds


def staged_in(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if is_staging_name(name)]


def with_bit(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


# --- corrupt and foreign files


def test_files_that_are_no_packs(ds: Any, folder: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((999, 2)))
    for path, message in (
        (folder / "features.gd", "is not a pack: it lacks the section 'pack_options'"),
        (folder / "graph.gl", "is a graph file"),
        (tmp_path / "x.npy", "is not a pack"),
    ):
        with pytest.raises(gz.FormatError, match=message):
            gz.PackedDataset(ds, path, IDS)
    with pytest.raises(FileNotFoundError):
        gz.PackedDataset(ds, tmp_path / "nothing", IDS)


def test_truncated_and_corrupt_packs(ds: Any, tmp_path: Path) -> None:
    whole = make(ds, tmp_path / "p.gd", IDS, gather=["x"]).read_bytes()
    sections = {section.name: section for section in read_file(tmp_path / "p.gd")[0].sections}
    bad = tmp_path / "bad.gd"
    for content, message in (
        *((whole[:size], r"bad\.gd") for size in (0, 100, 5000, len(whole) - 1)),
        (with_bit(whole, 30), "corrupt header"),
        (with_bit(whole, sections["pack_options"].offset + 3), "'pack_options' is corrupt"),
        (with_bit(whole, sections["batch_offsets"].offset + 8), "'batch_offsets' is corrupt"),
    ):
        bad.write_bytes(content)
        with pytest.raises(gz.FormatError, match=message):
            gz.PackedDataset(ds, bad, IDS)
    bad.write_bytes(with_bit(whole, sections["rows"].offset + 5))
    assert run("verify", tmp_path / "p.gd") == 0
    assert run("verify", bad) == 1


def test_sections_that_contradict_each_other(ds: Any, tmp_path: Path) -> None:
    source = make(ds, tmp_path / "p.gd", IDS, resident=0.3, gather=["x"])
    bad = tmp_path / "bad.gd"
    offsets = read_file(source)[1]["batch_offsets"]
    wrong = [offsets[:-1], np.append(offsets, offsets[-1]), offsets[::-1].copy()]
    for at, by in ((0, 1), (-1, 1), (3, 1 << 40), (3, 1 << 63)):
        other = offsets.copy()
        other[at] += np.uint64(by)
        wrong.append(other)
    for other in wrong:
        rewrite(source, bad, batch_offsets=other)
        with pytest.raises(gz.FormatError, match="'batch_offsets' does not fit"):
            gz.PackedDataset(ds, bad, IDS)
    shifted = offsets.copy()
    shifted[3] += np.uint64(1)
    rewrite(source, bad, batch_offsets=shifted)
    with pytest.raises(gz.FormatError, match=r"rows of batch 2 of epoch 0, which has .* pack"):
        list(gz.PackedDataset(ds, bad, IDS))
    rewrite(source, bad, batch_offsets=offsets.astype(np.uint32))
    with pytest.raises(gz.FormatError, match="lacks the section 'batch_offsets' of uint64"):
        gz.PackedDataset(ds, bad, IDS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 3}, "version 3, this graphzero reads versions 1 and 2"),
        ({"options": {}}, "'num_seeds'"),
        ({"files": ["graph", "features"]}, ""),
        ({"resident_rows": "many"}, "resident_rows must be an integer"),
        ({"subgraph_type": "odd"}, "subgraph_type must be one of"),
        ({"parts": [["y", "../y.gd"]]}, "'../y.gd' is no file beside it"),
        ({"parts": 3}, ""),
        ({"parts": [[["a", 3, 4], "y.gd"]]}, "too many"),
        ({"parts": [[{}, "y.gd"]]}, ""),
        (None, ""),
    ],
)
def test_options_that_make_no_sense(ds: Any, tmp_path: Path, change: Any, message: str) -> None:
    out = make(ds, tmp_path / "p.gd", IDS)
    found = json.loads(read_file(out)[1]["pack_options"].tobytes())
    for name, value in (change or {}).items():
        (found["options"] if name in found["options"] else found)[name] = value
    text = json.dumps([] if change is None else found).encode()
    rewrite(out, out, pack_options=np.frombuffer(text, np.uint8))
    with pytest.raises(gz.FormatError, match=f"p.gd: .*'pack_options' .* a pack .*{message}"):
        gz.PackedDataset(ds, out, IDS)


# --- what does not belong together


def test_other_seeds_and_datasets_are_named(typed: Path, tmp_path: Path) -> None:
    with gz.open(typed) as ds:
        out = make(ds, tmp_path / "p.gd", SEEDS["typed"])
        for seeds, name in (
            (("paper", np.arange(4, 41)), "seeds_crc"),
            (("author", np.arange(5)), "input_type"),
        ):
            with pytest.raises(ValueError, match=rf"packed with other inputs: .*{name} \("):
                gz.PackedDataset(ds, out, seeds)
        papers = {name: ds["paper"][name] for name in ds["paper"].attributes}
        changed = {"edge_index": ds[WRITES].edge_index, "edge_attr": np.ones((300, 2), np.float32)}
        nodes = {"paper": papers, "author": {"x": ds["author"].x}}
        edges: Any = {WRITES: changed, CITES: ds[CITES].edge_index}
        gz.build(tmp_path / "data", nodes=nodes, edges=edges, time_attrs="y").close()
    message = r"with other inputs: author__writes__paper.edge_attr \([^,]*, now [^,]*\): give"
    with gz.open(tmp_path / "data") as other, pytest.raises(ValueError, match=message):
        gz.PackedDataset(other, out, SEEDS["typed"])
    gz.reorder(tmp_path / "data", "input").close()
    message = r"with other inputs: graph \("
    with gz.open(tmp_path / "data") as other, pytest.raises(ValueError, match=message):
        gz.PackedDataset(other, out, SEEDS["typed"])


def test_files_of_a_pack_stay_together(ds: Any, tmp_path: Path) -> None:
    out = make(ds, tmp_path / "p.gd", IDS)
    files = Pack(out).files
    assert sorted(files) == sorted(tmp_path.iterdir())
    assert len(files) == len(PARTS["untyped"])
    moved = tmp_path / "moved.gd"
    os.rename(out, moved)  # the first may have any name
    link = tmp_path / "link" / "l.gd"
    link.parent.mkdir()
    link.symlink_to(moved)
    assert list(gz.PackedDataset(ds, link, IDS)._packs) == PARTS["untyped"]
    assert list(gz.PackedDataset(ds, files[1], IDS)._packs) == PARTS["untyped"][1:2]
    os.rename(files[-1], tmp_path / "elsewhere.gd")
    with pytest.raises(FileNotFoundError, match=files[-1].name):
        gz.PackedDataset(ds, moved, IDS)
    make(ds, tmp_path / "q.gd", IDS)
    os.rename(Pack(tmp_path / "q.gd").files[-1], files[-1])
    with pytest.raises(gz.FormatError, match="is of another pack"):
        gz.PackedDataset(ds, moved, IDS)


# --- what is refused before the work


def test_nothing_is_replaced_unasked(
    ds: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make(ds, tmp_path / "p.q.gd", IDS)
    kept = Pack(other).files
    out = make(ds, tmp_path / "p.gd", IDS)
    first, before = Pack(out).files, out.read_bytes()
    (tmp_path / "p.note-01-x.gd").write_text("no part")
    with pytest.raises(FileExistsError, match=r"p\.gd"):
        make(ds, out, IDS)
    assert out.read_bytes() == before
    make(ds, out, IDS, epochs=1, overwrite=True)
    second = Pack(out).files
    assert Pack(out).info.epochs == 1
    assert not set(first[1:]) & set(second)
    assert sorted(tmp_path.iterdir()) == sorted([*kept, *second, tmp_path / "p.note-01-x.gd"])
    monkeypatch.setattr(packing, "_RowsWriter", None)  # all is refused before the work
    with pytest.raises(IsADirectoryError):
        make(ds, tmp_path, IDS, overwrite=True)
    for target in (folder / "features.gd", folder / "dataset.json"):
        with pytest.raises(ValueError, match="would replace .* which is read"):
            make(ds, target, IDS, overwrite=True)
    with pytest.raises(FileNotFoundError):
        make(ds, tmp_path / "nowhere" / "p.gd", IDS)
    assert not staged_in(tmp_path)


def test_bad_choices_are_named(ds: Any, tmp_path: Path) -> None:
    options: Any
    for options, message in (
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"first_epoch": -1}, "first_epoch must be at least 0"),
        ({"resident": 1.5}, "fraction from 0 to 1"),
        ({"batch_size": 1000, "drop_last": True}, "seeds for at least one batch"),
    ):
        with pytest.raises(ValueError, match=message):
            make(ds, tmp_path / "p.gd", IDS, **options)
    assert not list(tmp_path.iterdir())


# --- interrupted and killed


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.EIO, "bad disk")])
@pytest.mark.parametrize("where", [(FileWriter, "append"), (atomic, "replace_file")])
def test_an_interruption_leaves_the_old_pack(
    ds: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any, error: Any
) -> None:
    """In the middle, and at the last step, after which the new pack would be there."""
    out = make(ds, tmp_path / "p.gd", IDS)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    step, calls = getattr(*where), []

    def fails(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 12 or args[1] == out:
            raise error
        step(*args)

    with monkeypatch.context() as patch, pytest.raises((KeyboardInterrupt, OSError)):
        patch.setattr(*where, fails)
        make(ds, out, IDS, overwrite=True)
    assert len(calls) == (12 if where[1] == "append" else len(PARTS["untyped"]))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


SCRIPT = """
import sys
import graphzero as gz
ds = gz.open(sys.argv[1])
print("ready", flush=True)
gz.pack(ds, sys.argv[2], None, [5, 3], epochs=20000, batch_size=64, resident=0)
"""


def test_a_killed_packing_is_cleared_away_by_the_next(
    ds: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no file of one that runs, or of others."""
    script = tmp_path / "pack.py"
    script.write_text(SCRIPT)
    disk = tmp_path / "disk"
    disk.mkdir()
    out = make(ds, disk / "p.gd", IDS)
    command = [sys.executable, str(script), str(folder), str(out.with_name("q.gd"))]
    environment = {**os.environ, "PYTHONPATH": str(Path(gz.__file__).parents[1])}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path, env=environment)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        deadline = time.monotonic() + 60
        while len(staged_in(disk)) < 3 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(staged_in(disk)) == 3
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    orphan = disk / "q.0123abcd-01.gd"  # had its name, and the first file had not
    orphan.write_bytes(out.read_bytes())
    sealed = disk / ".q.gd.00.gz-staged"  # no leftover: it may be waiting for its name
    sealed.write_bytes(out.read_bytes())
    foreign = disk / ".r.0123abcd-02.gd.00aa.gz-staged"
    foreign.write_bytes(bytes(5000))
    append = packing._RowsWriter.append_batch

    def append_beside_another(writer: Any, rows: Any) -> None:
        packing.clear(disk / "q.gd", [])  # as another packing of this name does, when it begins
        append(writer, rows)

    monkeypatch.setattr(packing._RowsWriter, "append_batch", append_beside_another)
    packed = make(ds, disk / "q.gd", IDS)
    known = [*Pack(out).files, *Pack(packed).files, sealed, foreign]
    assert sorted(disk.iterdir()) == sorted(known)


def test_full_disk(ds: Any, small_disk: Path) -> None:
    out = make(ds, small_disk / "p.gd", IDS, gather=["x"])
    before = out.read_bytes()
    with pytest.raises(OSError, match="No space left") as caught:
        make(ds, out, IDS, epochs=20_000, overwrite=True)
    assert caught.value.errno == errno.ENOSPC
    assert str(caught.value.filename).startswith(str(small_disk))
    assert out.read_bytes() == before
    assert os.listdir(small_disk) == ["p.gd"]


def test_all_batches_are_packed_by_any_rank(
    ds: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = make(ds, tmp_path / "a.gd", IDS, gather=["x"]).read_bytes()
    monkeypatch.setattr(ranks, "current_group", lambda: (1, 2))
    assert make(ds, tmp_path / "b.gd", IDS, gather=["x"]).read_bytes() == alone


# --- the command


def test_the_command(typed: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "p.gd"
    words = ["pack", typed, out, "--epochs", 2, "--fanouts", "4,3", "--batch-size", 7]
    assert run(*words, "--seed", 5, "--resident", 0.25, "--first-epoch", 1) == 0  # split "train"
    assert capfd.readouterr().out.startswith(f"{out}: ")
    files = Pack(out).files
    assert run("verify", out) == 0
    assert capfd.readouterr().out.count("intact") == 3
    with open(files[2], "r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"\xff\x00\xff")
    assert run("verify", out) == 1
    assert files[2].name in capfd.readouterr().err
    assert run("info", out) == 0
    text = capfd.readouterr().out
    for part in (
        *("first_epoch=1, epochs=2", "batch_size=7"),
        *("fanouts: author__writes__paper=4,3", *(file.name for file in files)),
    ):
        assert part in text
    assert run("info", out, "--json") == 0
    assert json.loads(capfd.readouterr().out)["pack"]["resident_rows"] > 0
    assert run(*words) == 1
    assert "exists" in capfd.readouterr().err
    more = [*words, "--overwrite", "--quiet", "--split", "all", "--no-shuffle"]
    assert run(*more) == 1
    assert "(--split and --node-type say which)" in only_line(capfd.readouterr().err)
    assert run(*more, "--node-type", "author") == 0
    options = Pack(out).info.options
    assert (options["shuffle"], options["num_seeds"]) == (False, AUTHORS)
