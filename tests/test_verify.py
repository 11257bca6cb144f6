"""`verify`: sound files have no finding; one changed value has the right one, at the right byte."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import files
import numpy as np
import pytest
from cli_program import only_line, run
from files import read_file
from verify_cases import CASES, DATASETS

import graphzero as gz
from graphzero.report import verify as module
from graphzero.store.format import DTYPES, read_header


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """Folder of a dataset, built once."""
    root, built = tmp_path_factory.mktemp("sound"), {}

    def folder(name):
        if name not in built:
            built[name] = root / name.replace(" ", "_")
            DATASETS[name](built[name])
        return built[name]

    return folder


@pytest.fixture
def copied(sound, tmp_path):
    """A copy of a dataset, to be changed."""
    return lambda name: shutil.copytree(sound(name), tmp_path / "data")


@pytest.mark.parametrize("block_bytes", [4 << 20, 100])
@pytest.mark.parametrize("name", DATASETS)
def test_sound_datasets_have_no_finding(sound, name, block_bytes, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_BYTES", block_bytes)
    assert gz.verify(sound(name)) == []
    for path in sound(name).glob("*.g[ld]"):
        assert gz.verify(path, num_threads=1) == []


# ---- one changed value, under right checksums


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.file}-{case.section}")
def test_one_changed_value_has_one_finding(copied, case, threads, monkeypatch):
    monkeypatch.setattr(module, "_BLOCK_BYTES", 4 << 20 if threads == 1 else 200)
    folder = copied(case.dataset)
    path = folder / case.file
    entry, value = case.change(read_file(path)[1])
    byte = files.damage(path, case.section, entry, value)
    (found,) = gz.verify(folder, num_threads=threads)
    assert case.message in found.message
    section = read_header(path).find(case.found_in or case.section)
    assert section is not None
    assert (found.path, found.section) == (str(path), section.name)
    width = DTYPES[section.dtype].itemsize
    if case.near == "changed":
        assert found.offset == byte
    elif case.near is None:
        assert section.offset <= found.offset < section.offset + section.length
        assert (found.offset - section.offset) % width == 0
    else:
        assert found.offset == section.offset + width * case.near


# ---- checksums and headers


@pytest.mark.no_asan
@pytest.mark.parametrize("name", ["both", "undirected", "presample", "typed"])
def test_every_section_has_its_checksum(copied, name):
    folder = copied(name)
    for path in sorted(folder.glob("*.g[ld]")):
        whole = path.read_bytes()
        for section in read_header(path).sections:
            content = bytearray(whole)
            content[section.offset + section.length - 1] ^= 1
            path.write_bytes(content)
            found = [one for one in gz.verify(path) if one.section == section.name]
            assert len(found) == 1, (path, section)
            assert f"section '{section.name}' is corrupt" in found[0].message
            assert section.offset <= found[0].offset < section.offset + section.length
        path.write_bytes(whole)


def test_a_corrupt_entry_is_named_beside_its_checksum(copied):
    path = copied("in") / "graph.gl"
    section = read_header(path).find("indices")
    content = bytearray(path.read_bytes())
    content[section.offset + 4 * 77 + 3] = 255
    path.write_bytes(content)
    (found,) = gz.verify(path)
    assert "'indices' is corrupt (checksum mismatch), and entry 77 of" in found.message
    assert found.offset == section.offset + 4 * 77


def _write(name, rows):
    return lambda folder: files.write_rows(folder / name, rows)


SPLIT = ("split_train.gd", 4096)
COUNTS = (b'"num_input_edges": 300', b'"num_input_edges": 301')


def _edit(name, change):
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def _cut(size):
    return _edit("features.gd", lambda content: content[:size])


def _replace(old, new):
    return _edit("dataset.json", lambda content: content.replace(old, new))


@pytest.mark.no_asan
@pytest.mark.parametrize(
    ("change", "file", "offset", "message"),
    [
        (_replace(*COUNTS), "graph.gl", 0, "has 300 input edges, but dataset.json says 301"),
        (_write("features.gd", np.ones((39, 3))), "", 0, "39 rows"),
        (_write("split_train.gd", np.zeros((3, 1), np.int64)), *SPLIT, "is not a vector of int64"),
        (_write("split_train.gd", np.zeros(3, np.uint32)), *SPLIT, "is not a vector of int64"),
        (_cut(0), "features.gd", 0, ""),
        (_cut(4100), "features.gd", 4100, "truncated"),
        (_cut(-1), "features.gd", 4096 + 479, "truncated"),
        (lambda f: (f / "features.gd").unlink(), "features.gd", 0, "is missing, but dataset.json"),
        (lambda f: shutil.copy(f / "graph.gl", f / "labels.gd"), *("", 0, "labels.gd")),
        (_replace(b"{", b"["), "dataset.json", 0, "is not a graphzero dataset"),
        (_replace(b'"version": 2', b'"version": 9'), "dataset.json", 0, "has version 9"),
        (_replace(b'"num_nodes": 40', b'"num_nodes": -4'), "dataset.json", 0, "num_nodes is -4"),
    ],
)
def test_files_that_are_not_those_of_the_manifest(copied, change, file, offset, message):
    folder = copied("in")
    files.forget_checksums(folder)  # a folder of before: those of today have a test of their own
    change(folder)
    (found,) = gz.verify(folder)
    assert (found.path, found.offset) == (str(folder / file), offset)
    assert message in found.message


@pytest.mark.no_asan
@pytest.mark.parametrize("dtype", ["<i4", "<f8", "two columns"])
@pytest.mark.parametrize("name", ["in", "held out", "new integers", "typed, texts", "typed"])
def test_ids_and_splits_have_one_dtype_and_shape(copied, name, dtype):
    folder = copied(name)
    for path in [each for each in folder.glob("*.gd") if re.search("split|ids|id_map", each.name)]:
        content = path.read_bytes()
        if dtype == "two columns":
            files.change_section(path, "rows", lambda rows: rows.repeat(2), width=2, flags=0)
        else:
            files.change_section(path, "rows", lambda rows: rows.astype(dtype))
        assert {found.path for found in gz.verify(folder)} == {str(path)}
        with pytest.raises(gz.FormatError, match=re.escape(str(path))):
            gz.open(folder)
        path.write_bytes(content)


@pytest.mark.no_asan
@pytest.mark.parametrize(
    ("name", "file", "section"),
    [
        ("texts", "id_map.gd", "text"),
        ("new integers", "id_map.gd", "by_id"),
        ("held out", "edge_split_val.gd", "source"),
    ],
)
def test_a_section_without_entries(copied, name, file, section):
    path = copied(name) / file
    files.change_section(path, section, lambda entries: entries[:0])
    gz.verify(path)  # raises nothing
    assert {found.path for found in gz.verify(path.parent)} == {str(path)}


@pytest.mark.no_asan
def test_files_that_do_not_belong_together(copied, sound):
    """Sound files, of the right counts, whose nodes have another order."""
    folder = copied("typed")
    shutil.copy(sound("typed, input") / "paper.x.gd", folder / "paper.x.gd")
    (found,) = gz.verify(folder)
    assert found.path == str(folder / "paper.x.gd")
    assert "is not the file that dataset.json describes" in found.message
    files.forget_checksums(folder)
    (found,) = gz.verify(folder)
    assert "does not have the nodes of the type 'paper' in the order" in found.message


# ---- packs


@pytest.mark.no_asan
def test_packs(copied, tmp_path):
    pytest.importorskip("torch")
    with gz.open(copied("both")) as ds:
        gz.pack(ds, tmp_path / "p.gd", [0, 1, 2], [2], epochs=1, batch_size=2)
    path = tmp_path / "p.gd"
    assert gz.verify(path) == []
    offsets = read_file(path)[1]["batch_offsets"]
    byte = files.damage(path, "batch_offsets", 1, offsets[-1] + 1)
    (found,) = gz.verify(path)
    assert (found.section, found.offset) == ("batch_offsets", byte - 8)
    files.damage(path, "batch_offsets", 1, offsets[1])
    files.damage(
        path, "batch_offsets", 0, offsets[0] + 1
    )  # ascending, but not from the resident rows
    (found,) = gz.verify(path)
    assert "'batch_offsets' does not fit its batches" in found.message
    files.damage(path, "batch_offsets", 0, offsets[0])
    files.damage(path, "pack_options", 0, ord("["))
    (found,) = gz.verify(path)
    assert found.section == "pack_options"


# ---- the command


@pytest.mark.no_asan
def test_json(copied, capfd):
    folder = copied("in")
    assert run("verify", folder, "--json") == 0
    out, err = capfd.readouterr()
    content = json.loads(out)
    assert err == ""
    assert (content["ok"], content["findings"]) == (True, [])
    assert content["files"] == {str(path): path.stat().st_size for path in folder.glob("*.g[ld]")}
    byte = files.damage(folder / "graph.gl", "weights", 5, np.nan)
    assert run("verify", folder, "--json") == 1
    content = json.loads(capfd.readouterr().out)
    assert not content["ok"]
    (found,) = content["findings"]
    path = str(folder / "graph.gl")
    assert (found["path"], found["section"], found["offset"]) == (path, "weights", byte)


@pytest.mark.no_asan
def test_lines(copied, capfd):
    folder = copied("bare")
    (folder / "mine.txt").write_text("")
    assert run("verify", folder) == 0
    out, err = capfd.readouterr()
    assert out.startswith(f"{folder / 'graph.gl'}: intact, ")
    assert err == ""
    assert run("verify", folder, "--quiet") == 0
    assert capfd.readouterr() == ("", "")
    byte = files.damage(folder / "graph.gl", "indices", 0, 3)
    assert run("verify", folder, "--quiet") == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert only_line(err).endswith(f"(byte {byte})")


# ---- files that change


@pytest.mark.parametrize("path", ["graph.gl", "features.gd"])
def test_a_file_that_becomes_shorter_is_a_finding(copied, path, monkeypatch):
    """To read on in the mapping would end the process."""
    file = copied("in") / path
    monkeypatch.setattr(module, "_BLOCK_BYTES", 100)
    check_size = module._File.check_size

    def truncate(checked):
        os.truncate(file, 4096)
        check_size(checked)

    monkeypatch.setattr(module._File, "check_size", truncate)
    (found,) = gz.verify(file, num_threads=1)
    assert "was truncated while it was being checked" in found.message


def test_relative_paths_are_kept(copied, monkeypatch):
    monkeypatch.chdir(copied("in"))
    files.damage(Path("graph.gl"), "indptr", 0, 1)
    (found,) = gz.verify("graph.gl")
    assert str(found) == "graph.gl: 'indptr' does not start at 0 and end at 300 (byte 4096)"
