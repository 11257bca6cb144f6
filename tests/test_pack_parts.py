"""Packs of several row files have the batches of the loader, byte for byte."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_program import only_line, run
from hypothesis import example, given, settings
from hypothesis import strategies as st
from packed_graphs import (
    AUTHORS,
    CITES,
    PARTS,
    SAMPLING,
    SEEDS,
    WRITES,
    build_typed,
    build_untyped,
    content_of,
    make,
    rewrite,
    rows_of,
)

import graphzero as gz
from graphzero import _core
from graphzero.packs import packing
from graphzero.packs.pack_file import open_pack, open_parts, pack_files
from graphzero.store import atomic
from graphzero.store.format import FileWriter, read_file, read_header

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")


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


def random_typed(seed: int, num_types: int, num_edge_types: int) -> dict[str, Any]:
    """Arguments of a build: attributes of any dtype and shape, some large enough to be packed."""
    rng = np.random.default_rng(seed)
    counts = {f"type {i}": int(rng.integers(5, 50)) for i in range(num_types)}
    nodes: dict[str, Any] = {}
    for i, (name, count) in enumerate(counts.items()):
        nodes[name] = {"num_nodes": count}
        if i % 2 == 0:
            nodes[name] |= {
                "x": rng.random((count, int(rng.integers(1, 40))), np.float32),
                "y": rng.integers(-1, 5, count),
                "image": rng.integers(0, 255, (count, 8, 3, 4), np.uint8),
                "wide": rng.random((count, 20)).astype(np.float16),
            }
    edges: dict[Any, Any] = {}
    for i in range(num_edge_types):
        source, target = map(str, rng.choice(list(counts), 2))
        number = int(rng.integers(0, 200)) * int(rng.random() < 0.9)
        ends = [rng.integers(0, counts[end], number) for end in (source, target)]
        content: dict[str, Any] = {"edge_index": np.stack(ends)}
        if i % 2 == 0:
            content |= {"w": rng.random(number), "edge_attr": rng.random((number, 3), np.float32)}
        if i % 3 == 0:
            content["matrix"] = rng.integers(0, 9, (number, 2, 2))
        edges[source, f"relation {i}", target] = content
    attrs = ["w"] if any("w" in content for content in edges.values()) else []
    return {"nodes": nodes, "edges": edges, "weight_attrs": attrs}


@settings(max_examples=15, deadline=None)
@example(0, 3, 6, "hot", 0.4, False, "pread")
@example(3, 1, 2, "input", 0, True, "willneed")
@given(
    st.integers(0, 10_000),
    st.integers(1, 4),
    st.integers(1, 6),
    st.sampled_from(["hot", "input"]),
    st.sampled_from([0, 0.4, 1.0]),
    st.booleans(),
    st.sampled_from(["none", "willneed", "pread", "auto"]),
)
def test_packed_batches_of_typed_graphs_are_those_of_the_loader(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    num_types: int,
    num_edge_types: int,
    order: Any,
    resident: float,
    weighted: bool,
    strategy: str,
) -> None:
    folder = tmp_path_factory.mktemp("typed")
    arguments = random_typed(seed, num_types, num_edge_types)
    with gz.build(folder / "data", order=order, **arguments) as ds:
        given = ("type 0", np.random.default_rng(seed).integers(0, ds["type 0"].num_nodes, 20))
        options: dict[str, Any] = {"weighted": weighted and bool(arguments["weight_attrs"])}
        fanouts: Any = {next(iter(ds.edges)): [3, 0], "default": [2, 2]}
        plain = gz.NeighborDataset(ds, given, fanouts, **SAMPLING, **options)
        out = gz.pack(
            ds, folder / "p.gd", given, fanouts, epochs=2, first_epoch=1, resident=resident,
            **SAMPLING, **options,
        )  # fmt: skip
        packed = gz.PackedDataset(ds, out, given, prefetch=gz.Prefetch(strategy))
        large = {
            key
            for key, source in plain.row_sources(0).items()
            if source.num_bytes
            and (key[0] in ds.edges or source.store.row_bytes >= 64 or key[1] == "x")
            if key[1] != "w"  # is in the graph file
        }
        assert set(packed._packs) == large
        for epoch in (1, 2):
            assert rows_of(packed, epoch) == rows_of(plain, epoch)
        for path in pack_files(out):
            assert run("verify", path, "--quiet") == 0
        del plain, packed


def loaded(batches: Any, workers: int = 0, method: str = "fork") -> list[dict[str, Any]]:
    """Batches of epoch 0, or of the epoch that was chosen, as DataLoader workers make them."""
    if batches.epoch == 0:
        batches.set_epoch(0)
    context = method if workers else None
    options: Any = {"num_workers": workers, "multiprocessing_context": context}
    loader = torch.utils.data.DataLoader(batches, None, collate_fn=content_of, **options)
    return list(loader)


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_ranks_and_resuming(ds: Any, kind: str, tmp_path: Path, workers: int) -> None:
    """The worker that resumes is spawned."""
    seeds = SEEDS[kind]
    out = make(ds, tmp_path / "p.gd", seeds, resident=0.3)
    plain = gz.NeighborDataset(ds, seeds, [4, 3], **SAMPLING)
    packed = gz.PackedDataset(ds, out, seeds)
    assert list(packed._packs) == PARTS[kind]
    expected = loaded(plain)
    assert len(expected) == 6
    assert loaded(packed, workers) == expected
    for rank in range(2):
        of_rank = gz.PackedDataset(ds, out, seeds, rank=rank, world_size=2, even=False)
        assert loaded(of_rank, workers) == expected[rank::2]
    packed.set_epoch(2)  # packed epoch 0
    iterator = iter(packed)
    for _ in range(2):
        next(iterator)
    state = json.loads(json.dumps(packed.state_after(2)))
    again = gz.PackedDataset(ds, out, seeds)
    again.resume(state)
    assert again.epoch == 2
    assert loaded(again, workers // 2, "spawn") == expected[2:]
    with pytest.raises(ValueError, match=r"other options: packed_epochs \(\[0, 2\], now None\)"):
        plain.resume(state)  # its epoch 2 would be another


def test_every_row_comes_from_the_pack(ds: Any, kind: str, tmp_path: Path) -> None:
    """Marked rows: of the resident prefix once, of the batches as often as they occur."""
    out = make(ds, tmp_path / "p.gd", SEEDS[kind], resident=0.3)
    packs = open_parts(open_pack(out))
    residents = {key: pack.info.resident_rows for key, pack in packs.items()}
    assert any(residents.values())
    for path in pack_files(out):
        section = read_header(path).find("rows")
        assert section is not None
        with open(path, "r+b") as file:
            file.seek(section.offset)
            file.write(b"\x01" * section.length)
    plain = gz.NeighborDataset(ds, SEEDS[kind], [4, 3], **SAMPLING)
    packed = gz.PackedDataset(ds, out, SEEDS[kind], prefetch=gz.Prefetch("pread"))
    for before, now in zip(plain, packed, strict=True):
        for key, rows in now.rows.items():
            if key in packs:
                assert set(rows.tobytes()) <= {1}
            else:
                np.testing.assert_array_equal(rows, before.rows[key])
    small = {"typed": {("paper", "y")}, "untyped": {"y", "edge_weight"}}[kind]
    assert set(now.rows) - set(packs) == small


def test_gather_chooses_what_is_packed_and_what_is_read(ds: Any, kind: str, tmp_path: Path) -> None:
    out = make(ds, tmp_path / "p.gd", SEEDS[kind], gather=["edge_attr", "y"])
    assert [path.name for path in tmp_path.iterdir()] == ["p.gd"]
    packed = gz.PackedDataset(ds, out, SEEDS[kind])
    assert list(packed._packs) == [PARTS[kind][-1]]
    plain = gz.NeighborDataset(ds, SEEDS[kind], [4, 3], **SAMPLING)
    assert rows_of(packed, 1) == rows_of(plain, 1)
    few = gz.PackedDataset(ds, out, SEEDS[kind], gather=["x"])
    for sampled in few:
        assert {key if kind == "untyped" else key[1] for key in sampled.rows} == {"x"}
    with pytest.raises(ValueError, match="no features to pack, nor other attributes"):
        make(ds, tmp_path / "q.gd", SEEDS[kind], gather=["y"])


def test_times_of_typed_seeds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    nodes = {"a": {"x": rng.random((50, 4), np.float32), "year": rng.integers(0, 9, 50)}}
    edges = {
        ("a", "r", "a"): {
            "edge_index": rng.integers(0, 50, (2, 300)),
            "edge_attr": np.ones((300, 2)),
        }
    }
    with gz.build(tmp_path / "data", nodes=nodes, edges=edges, time_attrs="year") as ds:
        seeds, times = ("a", np.arange(50)), rng.integers(0, 9, 50)
        out = make(ds, tmp_path / "p.gd", seeds, input_time=times)
        plain = gz.NeighborDataset(ds, seeds, [4, 3], input_time=times, **SAMPLING)
        packed = gz.PackedDataset(ds, out, seeds, input_time=times)
        assert rows_of(packed, 1) == rows_of(plain, 1)
        with pytest.raises(ValueError, match="packed with other inputs: times_crc"):
            gz.PackedDataset(ds, out, seeds)
        del plain, packed


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
        authors = {"x": ds["author"].x}
        changed = {
            "edge_index": ds[WRITES].edge_index,
            "edge_attr": np.ones((300, 2), np.float32),
        }
        edges = {WRITES: changed, CITES: ds[CITES].edge_index}
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 3}, "version 3, this graphzero reads versions 1 and 2"),
        ({"options": {}}, "not the options of a pack .'num_seeds'"),
        ({"files": ["graph", "features"]}, "not the options of a pack"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"resident_rows": "many"}, "resident_rows must be an integer"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"num_seeds": 1.5}, "num_seeds must be an integer"),
        ({"seed": "x"}, "seed must be an integer"),
        ({"subgraph_type": "odd"}, "subgraph_type must be one of"),
        ({"parts": [["y", "../y.gd"]]}, "'../y.gd' is no file beside it"),
        ({"parts": 3}, "not the options of a pack"),
        ({"parts": [[["a", 3, 4], "y.gd"]]}, "too many"),
        ({"parts": [[{}, "y.gd"]]}, "not the options of a pack"),
        (None, "not the options of a pack"),
    ],
)
def test_options_that_make_no_sense(
    untyped: Path, tmp_path: Path, change: dict[str, Any] | None, message: str
) -> None:
    with gz.open(untyped) as ds:
        out = make(ds, tmp_path / "p.gd", SEEDS["untyped"])
        found = json.loads(read_file(out)[1]["pack_options"].tobytes())
        for name, value in (change or {}).items():
            (found["options"] if name in found["options"] else found)[name] = value
        text = json.dumps([] if change is None else found).encode()
        rewrite(out, out, pack_options=np.frombuffer(text, np.uint8))
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


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.EIO, "bad disk")])
@pytest.mark.parametrize("where", [(FileWriter, "append"), (atomic, "replace_file")])
def test_an_interruption_leaves_the_old_pack(
    ds: Any, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any, error: Any
) -> None:
    """In the middle, and at the last step, after which the new pack would be there."""
    out = make(ds, tmp_path / "p.gd", SEEDS[kind])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    step, calls = getattr(*where), []

    def fails(*args: Any) -> None:
        calls.append(args)
        if len(calls) == 12 or args[1] == out:
            raise error
        step(*args)

    with monkeypatch.context() as patch, pytest.raises((KeyboardInterrupt, OSError)):
        patch.setattr(*where, fails)
        make(ds, out, SEEDS[kind], overwrite=True)
    assert len(calls) == (12 if where[1] == "append" else len(PARTS[kind]))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_what_a_killed_packing_left_is_cleared_by_the_next_and_no_file_of_a_running_one(
    ds: Any, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = make(ds, tmp_path / "p.gd", SEEDS[kind])
    orphan = tmp_path / "p.0123abcd-01-x.gd"  # had its name, and the first file had not
    orphan.write_bytes(pack_files(out)[1].read_bytes())
    unfinished = tmp_path / ".p.0123abcd-02-paper.x.gd.00aa.gz-staged"
    unfinished.write_bytes(bytes(5000))
    foreign = tmp_path / ".q.0123abcd-02-x.gd.00aa.gz-staged"
    foreign.write_bytes(bytes(5000))
    append = packing._RowsWriter.append_batch

    def append_beside_another(writer: Any, rows: Any) -> None:
        packing.clear(out)  # as another packing of this name does, when it begins
        append(writer, rows)

    monkeypatch.setattr(packing._RowsWriter, "append_batch", append_beside_another)
    make(ds, out, SEEDS[kind], overwrite=True)
    assert sorted(tmp_path.iterdir()) == sorted([*pack_files(out), foreign])


# --- the command
def test_the_command(typed: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "p.gd"
    words = ["pack", typed, out, "--epochs", 1, "--fanouts", "4,3", "--batch-size", 7, "--quiet"]
    assert run(*words, "--split", "train") == 0  # one type has such a split
    files = pack_files(out)
    assert run("verify", out) == 0
    assert capfd.readouterr().out.count("intact") == 3
    with open(files[2], "r+b") as file:
        file.seek(-3, os.SEEK_END)
        file.write(b"\xff\x00\xff")
    assert run("verify", out) == 1
    assert files[2].name in capfd.readouterr().err
    assert run("info", out) == 0
    text = capfd.readouterr().out
    for part in ("fanouts: author__writes__paper=4,3", "author.x", *(f.name for f in files)):
        assert part in text
    more = [*words, "--overwrite", "--split", "all"]
    assert run(*more) == 1
    assert "(--split and --node-type say which)" in only_line(capfd.readouterr().err)
    assert run(*more, "--node-type", "author") == 0
    assert open_pack(out).info.options["num_seeds"] == AUTHORS
