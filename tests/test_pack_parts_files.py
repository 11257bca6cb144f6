"""The files of packs of several row files: damage, replacing, interruptions; their commands."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cli_program import only_line, run
from packed_graphs import (
    AUTHORS,
    CITES,
    PAPERS,
    PARTS,
    SAMPLING,
    SEEDS,
    WRITES,
    build_typed,
    build_untyped,
    make,
    rows_of,
)

import graphzero as gz
from graphzero import _core
from graphzero.io.row_io import managed_bytes
from graphzero.packs import packing
from graphzero.packs.pack_file import open_pack, pack_files
from graphzero.store.format import FileWriter, layout, read_file

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning"),
    pytest.mark.no_asan,  # what is tested is Python; its C code runs there in other tests
]


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_typed(tmp_path_factory.mktemp("graph") / "data")


@pytest.fixture(scope="module")
def untyped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_untyped(tmp_path_factory.mktemp("graph") / "data")


@pytest.fixture(params=["typed", "untyped"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def ds(kind: str, request: pytest.FixtureRequest) -> Any:
    with gz.open(request.getfixturevalue(kind)) as ds:
        yield ds


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
        papers = {name: store.gather(np.arange(PAPERS)) for name, store in ds["paper"].items()}
        authors = {"x": ds["author"].x.gather(np.arange(AUTHORS))}
        changed = {
            "edge_index": ds[WRITES].edge_index(),
            "edge_attr": np.ones((300, 2), np.float32),
        }
        edges = {WRITES: changed, CITES: ds[CITES].edge_index()}
        arguments: Any = {"nodes": {"paper": papers, "author": authors}, "edges": edges}
    with gz.build(tmp_path / "data", **arguments) as other:
        with pytest.raises(
            ValueError, match=r"other inputs: author__writes__paper.edge_attr \("
        ) as caught:
            gz.PackedDataset(other, out, SEEDS["typed"])
        assert "graph (" not in str(caught.value)
    gz.reorder(tmp_path / "data", "input").close()
    with (
        gz.open(tmp_path / "data") as other,
        pytest.raises(ValueError, match=r"with other inputs: graph \("),
    ):
        gz.PackedDataset(other, out, SEEDS["typed"])


def test_files_of_a_pack_stay_together(ds: Any, kind: str, tmp_path: Path) -> None:
    out = make(ds, tmp_path / "p.gd", SEEDS[kind])
    files = pack_files(out)
    assert sorted(files) == sorted(tmp_path.iterdir())
    assert len(files) == len(PARTS[kind])
    moved = tmp_path / "moved.gd"
    os.rename(out, moved)  # the first may have any name
    link = tmp_path / "link" / "l.gd"
    link.parent.mkdir()
    link.symlink_to(moved)
    plain = gz.NeighborDataset(ds, SEEDS[kind], [4, 3], **SAMPLING)
    assert rows_of(gz.PackedDataset(ds, link, SEEDS[kind]), 0) == rows_of(plain, 0)
    os.rename(files[-1], tmp_path / "elsewhere.gd")
    before = _core.open_mappings()
    with pytest.raises(FileNotFoundError, match="a file of the pack .*moved.gd is missing: keep"):
        gz.PackedDataset(ds, moved, SEEDS[kind])
    assert _core.open_mappings() == before
    make(ds, tmp_path / "q.gd", SEEDS[kind])
    os.rename(pack_files(tmp_path / "q.gd")[-1], files[-1])
    with pytest.raises(gz.FormatError, match="is of another pack"):
        gz.PackedDataset(ds, moved, SEEDS[kind])
    assert _core.open_mappings() == before
    with pytest.raises(gz.FormatError, match="is a later file of a pack: give the first"):
        gz.PackedDataset(ds, files[1], SEEDS[kind])
    assert _core.open_mappings() == before


def rewritten(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """The same file with other options, and checksums that fit them."""
    header, arrays = read_file(path)
    found = change(json.loads(arrays["pack_options"].tobytes()))
    arrays["pack_options"] = np.frombuffer(json.dumps(found).encode(), np.uint8)
    names: list[Any] = [(name, array.dtype, array.size) for name, array in arrays.items()]
    new = layout(
        "features", names, num_nodes=header.num_nodes, width=header.width, flags=header.flags
    )
    with FileWriter(path, new) as writer:
        for name, array in arrays.items():
            writer.append(name, array)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parts": [["y", "../y.gd"]]}, "'../y.gd' is no file beside it"),
        ({"parts": [["y", 3]]}, "3 is no file beside it"),
        ({"parts": [["x", "y.gd"]]}, "an attribute is there twice"),
        ({"parts": 3}, "not the options of a pack"),
        ({"parts": [[["a", "b"], "y.gd"]]}, None),
        ({"parts": [[["a", 3], "y.gd"]]}, "is no attribute"),
        ({"parts": [[[["a", "b"], "c"], "y.gd"]]}, "is no attribute"),
        ({"source": ""}, "not"),
        ({"token": "../"}, "its token is none"),
        ({"token": 3}, "not the options of a pack"),
        ({"source": "y"}, "does not name graph and y"),
    ],
)
def test_options_that_make_no_sense(
    untyped: Path, tmp_path: Path, change: dict[str, Any], message: str | None
) -> None:
    with gz.open(untyped) as ds:
        out = make(ds, tmp_path / "p.gd", SEEDS["untyped"])
        rewritten(out, lambda found: {**found, **change})
        if message is None:
            with pytest.raises(FileNotFoundError, match="is missing"):
                gz.PackedDataset(ds, out, SEEDS["untyped"])
            return
        with pytest.raises(gz.FormatError, match=f"'pack_options': .*{message}"):
            gz.PackedDataset(ds, out, SEEDS["untyped"])


# --- replacing, interruptions


def test_replacing_a_pack_removes_its_files(ds: Any, kind: str, tmp_path: Path) -> None:
    other = make(ds, tmp_path / "p.q.gd", SEEDS[kind])
    kept = pack_files(other)
    out = make(ds, tmp_path / "p.gd", SEEDS[kind])
    first = pack_files(out)
    (tmp_path / "p.note-01-x.gd").write_text("no part")
    with pytest.raises(FileExistsError):
        make(ds, out, SEEDS[kind])
    make(ds, out, SEEDS[kind], epochs=1, overwrite=True)
    second = pack_files(out)
    assert not set(first[1:]) & set(second)
    assert sorted(tmp_path.iterdir()) == sorted([*kept, *second, tmp_path / "p.note-01-x.gd"])


def test_an_interruption_at_the_end_leaves_the_old_pack(
    ds: Any, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = make(ds, tmp_path / "p.gd", SEEDS[kind])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    publish = FileWriter.publish
    published: list[Path] = []

    def fails(self: FileWriter) -> None:
        if self.staged.path == out:
            raise KeyboardInterrupt
        publish(self)
        published.append(self.staged.path)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(FileWriter, "publish", fails)
        make(ds, out, SEEDS[kind], overwrite=True)
    assert len(published) == len(PARTS[kind]) - 1
    now = {path: path.read_bytes() for path in tmp_path.iterdir() if not path.name.startswith(".")}
    assert now == before


def test_what_a_killed_packing_left_is_cleared_by_the_next(
    ds: Any, kind: str, tmp_path: Path
) -> None:
    out = make(ds, tmp_path / "p.gd", SEEDS[kind])
    orphan = tmp_path / "p.0123abcd-01-x.gd"  # had its name, and the first file had not
    orphan.write_bytes(pack_files(out)[1].read_bytes())
    unfinished = tmp_path / ".p.0123abcd-02-paper.x.gd.00aa.gz-staged"
    unfinished.write_bytes(bytes(5000))
    foreign = tmp_path / ".q.0123abcd-02-x.gd.00aa.gz-staged"
    foreign.write_bytes(bytes(5000))
    make(ds, out, SEEDS[kind], overwrite=True)
    assert sorted(tmp_path.iterdir()) == sorted([*pack_files(out), foreign])


# --- costs, commands


def test_rows_that_are_not_packed_have_their_share_of_memory(
    untyped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights of edges, which stay in the graph file: training keeps a part of them as well."""
    with gz.open(untyped) as ds:
        plain = gz.NeighborDataset(ds, SEEDS["untyped"], [4, 3], **SAMPLING)
        managed = managed_bytes(plain.row_sources(0))
        plan = SimpleNamespace(resident=managed // 2)
        monkeypatch.setattr(packing, "plan_iteration", lambda *_: plan)
        todo = packing.Packing(ds, SEEDS["untyped"], [4, 3], epochs=1, **SAMPLING)
        packed = sum(one.source.num_bytes for one in todo.packed)
        row_bytes = sum(one.store.row_bytes for one in todo.packed)
        assert managed - packed == 4 * ds.num_edges > 2 * row_bytes
        assert abs(todo.resident_bytes - packed / 2) <= row_bytes
        del plain, todo


def test_the_command(typed: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "p.gd"
    words = ["pack", typed, out, "--epochs", 1, "--fanouts", "4,3", "--batch-size", 7, "--seed", 5]
    assert run(*words, "--split", "train", "--quiet") == 0  # one type has such a split
    with gz.open(typed) as ds:
        seeds = ("paper", ds["paper"].splits["train"].copy())
        plain = gz.NeighborDataset(ds, seeds, [4, 3], **SAMPLING)
        assert rows_of(gz.PackedDataset(ds, out, seeds), 0) == rows_of(plain, 0)
        files = pack_files(out)
        del plain
    assert run("verify", out) == 0
    assert capfd.readouterr().out.count("intact") == 3
    with open(files[2], "r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"\xff\x00\xff")
    assert run("verify", out) == 1
    assert files[2].name in capfd.readouterr().err
    assert run("info", out) == 0
    text = capfd.readouterr().out
    assert "packed    6 batches of epochs 0 to 0, 7 seeds each" in text
    assert "fanouts author__writes__paper 4,3; paper__cites__paper 4,3" in text
    for path in files:
        assert f"{path.name}: " in text
    assert "author.x" in text
    assert run("info", out, "--json") == 0
    content = json.loads(capfd.readouterr().out)
    assert [file["name"] for file in content["files"]] == [path.name for path in files]
    more = [*words, "--overwrite", "--quiet"]
    assert run(*more, "--split", "all") == 1
    assert "give --node-type" in only_line(capfd.readouterr().err)
    assert run(*more, "--split", "nope") == 1
    assert "no split 'nope'; there are ['odd', 'train']" in only_line(capfd.readouterr().err)
    assert run(*more, "--split", "train", "--node-type", "author") == 1
    assert "'author' has no split 'train'" in only_line(capfd.readouterr().err)
    assert run(*more, "--split", "all", "--node-type", "authors") == 1
    assert "no node type 'authors'; there are ['paper', 'author']" in only_line(
        capfd.readouterr().err
    )
    assert run(*more, "--split", "all", "--node-type", "author") == 0
    assert open_pack(out).info.options["num_seeds"] == AUTHORS


def test_training_on_a_pack_of_several_files(untyped: Path, tmp_path: Path) -> None:
    out, data = tmp_path / "p.gd", untyped
    shape = ["--fanouts", "4,3", "--batch-size", 16]
    assert run("pack", data, out, "--epochs", 1, *shape, "--quiet") == 0
    assert len(pack_files(out)) == 3
    assert run("train", data, "--pack", out, "--epochs", 1, "--quiet") == 0
    part = pack_files(out)[1]
    assert run("train", data, "--pack", out, "--epochs", 1, "--quiet", "--save", part) == 1


def test_reports_know_every_file_once(ds: Any, kind: str, tmp_path: Path) -> None:
    """Weights are rows of the graph file, which is mapped for them again."""
    folder = Path(ds.mappings[0].path).parent
    files = [path for path in folder.iterdir() if path.suffix in (".gl", ".gd")]
    size = sum(path.stat().st_size for path in files)
    assert gz.memory_report(ds).dataset == size
    out = make(ds, tmp_path / "p.gd", SEEDS[kind])
    packed = gz.PackedDataset(ds, out, SEEDS[kind])
    parts = sum(path.stat().st_size for path in pack_files(out))
    assert gz.memory_report(packed).dataset == size + parts
    assert gz.memory_report(gz.NeighborDataset(ds, SEEDS[kind], [4, 3])).dataset == size


def test_info_names_every_file(typed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run("reorder", typed, "--order", "presample", "--quiet") == 0
    capfd.readouterr()
    assert run("info", typed, "--json") == 0
    names = [file["name"] for file in json.loads(capfd.readouterr().out)["files"]]
    assert sorted(names) == sorted(path.name for path in typed.glob("*.g[ld]"))
    assert "paper.visits.gd" in names


def test_edge_types_with_one_name_are_refused(tmp_path: Path) -> None:
    """Their fanouts could not be told apart in the file."""
    nodes = {"a": {"x": np.ones((3, 2))}, "a__r": {}}
    edges = {("a", "r__s", "a"): [[0], [1]], ("a__r", "s", "a"): [[0], [1]]}
    with (
        gz.build(tmp_path / "data", nodes=nodes, edges=edges) as ds,
        pytest.raises(ValueError, match="two edge types have one name in a pack"),
    ):
        make(ds, tmp_path / "p.gd", "a")
