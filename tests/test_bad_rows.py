"""``on_bad_rows="skip"``: bad records are left out, counted, and shown with file and line."""

from __future__ import annotations

import bz2
import gzip
import lzma
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from graphzero.api import write_dataset
from graphzero.cli import main
from graphzero.ingest import build_dataset
from graphzero.ingest.sources import csv_table
from graphzero.ingest.typed_options import check_typed_options

pytestmark = pytest.mark.no_asan  # pure Python and pyarrow beside a parser that has C tests


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.g[ld]")}


def skipped(folder: Path, edges: Any, **options: Any) -> str:
    """What the build says that it has left out; nothing if it says nothing."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build_dataset(folder, edges, on_bad_rows="skip", **options)
    return "\n".join(str(one.message) for one in caught)


GOOD = ["0,1,0.5", "1,2,0.1", "2,0,16777217", "3,1,1e-3"]
BAD = [
    ("2", "1 columns, but the first record has 3"),
    ("1,2,3,4", "4 columns, but the first record has 3"),
    ("1,x,1", "'x' is not a target id"),
    ("x,1,1", "'x' is not a source id"),
    (",2,1", "an empty cell is not a source id"),
    ("1, ,1", "an empty cell is not a target id"),
    ("-1,2,1", "'-1' is not a source id"),
    ("1,1.0,1", "'1.0' is not a target id"),
    ("1,4294967296,1", "'4294967296' is not a target id"),
    ("1," + "9" * 5000 + ",1", "999...' is not a target id"),
    ("1,2,heavy", "'heavy' is not a number for the weight"),
    ("1,2,nan", "weight nan is not a finite"),
    ("1,2,-inf", "weight -inf is not a finite"),
    ("1,2,-1", "weight -1.0 is negative"),
    ("1,2,1e39", "weight inf is not a finite"),
    ("1,4,1", "target id 4 is out of range for 4 nodes"),
    ('1,"2,1', "2 columns, but the first record has 3"),
    ("   ", "1 columns, but the first record has 3"),
]


@pytest.mark.parametrize(("bad", "why"), BAD)
def test_each_kind_of_bad_record(tmp_path: Path, bad: str, why: str) -> None:
    header = "src,dst,weight"
    (tmp_path / "good.csv").write_text("\n".join([header, *GOOD]))
    (tmp_path / "e.csv").write_text("\n".join([header, *GOOD[:2], bad, *GOOD[2:3], "", *GOOD[3:]]))
    said = skipped(tmp_path / "a", tmp_path / "e.csv", num_nodes=4, edge_ids=True)
    assert said.startswith("1 bad record skipped:\n")
    assert "e.csv, line 4: " in said
    assert why in said
    assert skipped(tmp_path / "b", tmp_path / "good.csv", num_nodes=4, edge_ids=True) == ""
    assert files(tmp_path / "a") == files(tmp_path / "b")


def many(tmp_path: Path) -> tuple[list[str], list[int]]:
    """Lines with bad ones among them, and the numbers of these."""
    rng = np.random.default_rng(3)
    lines = [f"{a},{b}" for a, b in rng.integers(0, 500, (6_000, 2))]
    bad = sorted(rng.choice(len(lines), 90, replace=False).tolist())
    for i, at in enumerate(bad):
        lines[at] = ["7", "a,b", "1,2,3", '"3","x"', "1,700", "1,2\0"][i % 6]
    return lines, [at + 1 for at in bad]


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


@pytest.mark.parametrize("kind", PACKED)
def test_many_bad_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    lines, numbers = many(tmp_path)
    bad = set(numbers)
    good = [line for number, line in enumerate(lines, 1) if number not in bad]
    (tmp_path / "good.csv").write_text("\n".join(good))
    path = tmp_path / f"e.csv{kind}"
    path.write_bytes(PACKED[kind]("\n".join(lines).encode()))
    monkeypatch.setattr(csv_table, "_LEAST_BYTES", 4000)
    monkeypatch.setattr(csv_table, "_BYTES_PER_RECORD", 0)
    said = skipped(tmp_path / "a", path, num_nodes=500).splitlines()
    assert said[0] == "90 bad records skipped:"
    assert [int(line.split("line ")[1].split(":")[0]) for line in said[1:]] == numbers[:10]
    assert all(path.name in line for line in said[1:])
    build_dataset(tmp_path / "b", tmp_path / "good.csv", num_nodes=500)
    assert files(tmp_path / "a") == files(tmp_path / "b")


@pytest.mark.parametrize(
    "body",
    [
        "0\t1\n\n1\t2\r\n2,0\n3\t1",
        "0;1\r1;2\rx\r3;1\r",
        '"0","1"\n"1","2"\n"x","0"\n"3","1"\n',
        "0x1x1x1\n",
    ],
)
def test_what_the_core_does_not_read_is_read_one_by_one(tmp_path: Path, body: str) -> None:
    (tmp_path / "e.csv").write_bytes(body.encode())
    if body.startswith("0x"):
        options = {"delimiter": "x", "src": 0, "dst": 1, "on_bad_rows": "skip"}
        build_dataset(tmp_path / "a", tmp_path / "e.csv", **options)
        return
    said = skipped(tmp_path / "a", tmp_path / "e.csv")
    assert said.startswith("1 bad record skipped:")
    assert ("line 4:" if "\n\n" in body else "line 3:") in said
    build_dataset(tmp_path / "b", np.array([[0, 1], [1, 2], [3, 1]]))
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_weights_are_rounded_as_without_bad_records(tmp_path: Path) -> None:
    weights = ["1.00000017881393432617187499", "16777217", ".5", "1e-44", "7.5"]
    lines = [f"{i},{i + 1},{weight}" for i, weight in enumerate(weights)]
    (tmp_path / "good.csv").write_text("\n".join(["src,dst,weight", *lines]))
    (tmp_path / "e.csv").write_text("\n".join(["src,dst,weight", "bad", *lines]))
    assert "1 bad record" in skipped(tmp_path / "a", tmp_path / "e.csv")
    build_dataset(tmp_path / "b", tmp_path / "good.csv")
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_what_would_be_found_by_shifted_positions_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("0,1\n1,2\n")
    for options, name in (
        ({"edges": {"edge_index": path, "kind": [1, 2]}}, "kind"),
        ({"edges": path, "edge_splits": {"train": [0]}}, r"edge_splits\['train'\]"),
    ):
        with pytest.raises(ValueError, match=f"shifts the positions of the edges.*{name}"):
            build_dataset(tmp_path / "d", **options, on_bad_rows="skip")  # type: ignore[arg-type]
    for edges in (np.array([[0, 1], [1, 2]]), tmp_path / "e.npy"):
        np.save(tmp_path / "e.npy", [[0, 1]])
        with pytest.raises(ValueError, match=r"on_bad_rows='skip' is for records in text files"):
            build_dataset(tmp_path / "d", edges, on_bad_rows="skip")
    with pytest.raises(ValueError, match="on_bad_rows must be 'raise' or 'skip', not 'drop'"):
        build_dataset(tmp_path / "d", path, on_bad_rows="drop")
    assert not (tmp_path / "d").exists()


def test_damage_is_no_bad_record(tmp_path: Path) -> None:
    packed = gzip.compress(b"0,1\n1,2\n" * 50_000)
    (tmp_path / "e.csv.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(ValueError, match="is not a complete gzip file"):
        build_dataset(tmp_path / "d", tmp_path / "e.csv.gz", on_bad_rows="skip")


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "e.csv").write_text("0,1\n1,x\n1,2\n")
    command = ["build", str(tmp_path / "d"), "--edges", str(tmp_path / "e.csv")]
    assert main([*command, "--on-bad-rows", "skip"]) == 0
    assert "e.csv, line 2: 'x' is not a target id" in capsys.readouterr().err
    assert main(command) != 0


def test_typed_graphs_refuse_it() -> None:
    with pytest.raises(ValueError, match="on_bad_rows='skip' is for graphs without types"):
        check_typed_options(on_bad_rows="skip")


def test_several_files_are_named_in_one_count(tmp_path: Path) -> None:
    folder = tmp_path / "edges"
    folder.mkdir()
    (folder / "part-0.csv").write_text("src,dst\n0,1\nx,1\n1,2\n")
    (folder / "part-1.csv.gz").write_bytes(gzip.compress(b"src,dst\n2,0\n3\n\n-1,0\n3,1\n"))
    said = skipped(tmp_path / "a", folder)
    assert said.startswith("3 bad records skipped:")
    places = [line.split(": ")[0].strip() for line in said.splitlines()[1:]]
    names = [("part-0.csv", 3), ("part-1.csv.gz", 3), ("part-1.csv.gz", 5)]
    assert places == [f"{folder / name}, line {line}" for name, line in names]
    build_dataset(tmp_path / "b", np.array([[0, 1], [1, 2], [2, 0], [3, 1]]))
    assert files(tmp_path / "a") == files(tmp_path / "b")


def test_skipped_records_are_in_the_closing_line(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("src,dst\n0,1\nx,1\n")
    with pytest.warns(UserWarning, match="1 bad record skipped"):
        closing = write_dataset(tmp_path / "a", tmp_path / "e.csv", on_bad_rows="skip")
    assert closing.lines() == [
        "read src=src, dst=dst; in-neighbours; directed; skipped 1 bad record"
    ]


def test_columns_as_attributes_are_refused_beside_skipping(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("src,dst,amount\n0,1,2\n")
    with pytest.raises(ValueError, match="amount would belong to other edges"):
        write_dataset(tmp_path / "a", tmp_path / "e.csv", edge_attrs=["amount"], on_bad_rows="skip")
