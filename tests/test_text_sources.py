"""Text, compressed in every way and with every kind of blanks between its columns."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import compressed
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphzero.ingest import build_dataset
from graphzero.ingest.sources.blanks import SingleBlanks, cells_between_blanks
from graphzero.ingest.sources.compression import open_binary
from graphzero.ingest.sources.csv_format import WHITESPACE, sniff_csv
from graphzero.store.format import read_file

# Python and pyarrow only.
pytestmark = pytest.mark.no_asan

SUFFIXES = ["", *compressed.COMPRESS]
# Larger than the buffers, and hard to compress.
LARGE = np.random.default_rng(0).integers(0, 10**6, (60_000, 2))
LARGE_TEXT = "".join(f"{a},{b}\n" for a, b in LARGE.tolist()).encode()


def edges_of(folder: Path) -> list[list[int]]:
    """The edges of a dataset in input order, sorted."""
    _, arrays = read_file(folder / "graph.gl")
    targets = np.repeat(np.arange(len(arrays["indptr"]) - 1), np.diff(arrays["indptr"]))
    return sorted(np.stack([arrays["indices"], targets], 1).tolist())


def read_back(tmp_path: Path, source: Any, **options: Any) -> list[list[int]]:
    build_dataset(tmp_path / "d", source, order="input", **options)
    return edges_of(tmp_path / "d")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_is_inside_is_read(tmp_path: Path, suffix: str) -> None:
    path = compressed.write(tmp_path / f"e.csv{suffix}", LARGE_TEXT)
    with open_binary(path) as file:
        assert file.read(5) == LARGE_TEXT[:5]
        assert file.read() == LARGE_TEXT[5:]
    assert read_back(tmp_path, path) == sorted(LARGE.tolist())


@pytest.mark.parametrize("suffix", compressed.COMPRESS)
def test_files_of_several_members(tmp_path: Path, suffix: str) -> None:
    compress = compressed.COMPRESS[suffix]
    path = tmp_path / f"e.csv{suffix}"
    parts = [compress(LARGE_TEXT), compress(b""), compress(b"7,8\n")]
    path.write_bytes(b"".join(parts))
    assert open_binary(path).read() == LARGE_TEXT + b"7,8\n"
    # Zeros between members are padding; zstd has frames for it, the magic number and a size.
    padding = bytes.fromhex("502a4d1804000000") + bytes(4) if suffix == ".zst" else bytes(8)
    path.write_bytes(parts[0] + padding + parts[2] + padding)
    assert open_binary(path).read() == LARGE_TEXT + b"7,8\n"


def damages(whole: bytes) -> dict[str, bytes]:
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    return {
        "cut in half": whole[: len(whole) // 2],
        "last byte missing": whole[:-1],
        "only the magic number": whole[:3],
        "another kind": b"src,dst\n0,1\n",
        "second member cut": whole + whole[:100],
        "something behind it": whole + b"something behind it",
        "changed": bytes(flipped),
    }


@pytest.mark.parametrize("damage", damages(b"x" * 200))
@pytest.mark.parametrize("suffix", compressed.COMPRESS)
def test_damaged_files_are_named(tmp_path: Path, suffix: str, damage: str) -> None:
    whole = compressed.COMPRESS[suffix](LARGE_TEXT)
    if (suffix, damage) == (".zst", "changed"):  # this writer adds no checksums
        whole = whole[:4] + b"\xff\xff" + whole[6:]
    path = tmp_path / f"e.csv{suffix}"
    path.write_bytes(damages(whole)[damage])
    message = rf"e\.csv{suffix} is not a complete {compressed.KIND[suffix]} file: .+ again"
    if damage == "changed":  # the checksum is at the end, and the text may be wrong before
        message = rf"{message}|e\.csv{suffix}(, line \d+: | has \d+ columns)"
    with pytest.raises(ValueError, match=message):
        build_dataset(tmp_path / "d", path)
    assert not list((tmp_path / "d").glob("*"))


@pytest.mark.parametrize("suffix", compressed.COMPRESS)
def test_missing_and_empty_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"e.csv{suffix}"
    with pytest.raises(FileNotFoundError, match=path.name):
        build_dataset(tmp_path / "d", path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=f"{path.name} is empty: it has no columns"):
        build_dataset(tmp_path / "d", path)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_bad_lines_are_found_in_compressed_text(tmp_path: Path, suffix: str) -> None:
    path = compressed.write(tmp_path / f"e.csv{suffix}", LARGE_TEXT + b"\n7,seven\n")
    with pytest.raises(ValueError, match=rf"e\.csv{suffix}, line 60002: 'seven' is not a target"):
        build_dataset(tmp_path / "d", path)
    compressed.write(path, LARGE_TEXT)
    out_of_range = int(np.flatnonzero(LARGE.max(1) > 999_990)[0]) + 1
    with pytest.raises(ValueError, match=rf"e\.csv{suffix}, line {out_of_range}: .* out of range"):
        build_dataset(tmp_path / "d", path, num_nodes=999_991)


@pytest.mark.parametrize("name", ["e.edges", "e.edgelist", "e.el", "E.TSV.XZ", "e.el.bz2"])
def test_names(tmp_path: Path, name: str) -> None:
    compress = compressed.COMPRESS.get(Path(name).suffix.lower(), bytes)
    (tmp_path / name).write_bytes(compress(b"0 1\n2 1\n"))
    assert read_back(tmp_path, tmp_path / name) == [[0, 1], [2, 1]]


@pytest.mark.parametrize(
    "text",
    [
        "0 1\n2 1\n",
        "0  1\n2 \t 1\n",
        "  0 1\n 2    1\n",
        "0 1 \n2 1   \n",
        "\t0\t1\n\t2\t1\n",
        "0\t1\t\n2\t1\t\n",
        "0\t\t1\n2\t\t1\n",
        "0\t\t1\n2\t1\n",
        " 0\t1\n2\t1 \n",
        " 0 1 \r\n 2 1 \r\n",
        "src dst\n0 1\n2 1",
        "  src   dst  \n  0     1  \n\n \n  2     1  ",
        "# Directed graph\n# FromNodeId\tToNodeId\n0\t1\n2\t1\n",
        "#\n  0 1\n2   1\n",
        "% asym unweighted\n% 2 3 3\n0 1 \n2 1 \n",
        '"0" "1"\n"2" "1"\n',
        " 0, 1\n2 ,1\n",
    ],
    ids=repr,
)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_blanks_and_comments(tmp_path: Path, text: str, suffix: str) -> None:
    path = compressed.write(tmp_path / f"e.txt{suffix}", text.encode())
    assert read_back(tmp_path, path) == [[0, 1], [2, 1]]


def test_columns_between_blanks(tmp_path: Path) -> None:
    path = tmp_path / "e.txt"
    path.write_text("  time  src dst\n   10   0   1\n  100   2   1\n")
    build_dataset(tmp_path / "d", path, order="input")
    _, arrays = read_file(tmp_path / "d" / "graph.gl")
    assert edges_of(tmp_path / "d") == [[0, 1], [2, 1]]
    assert arrays["times"].tolist() == [10, 100]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("0 1\n\n  2  x \n", {}, "line 3: 'x' is not a target id"),
        ("# c\n 0 1\n 2 \n", {}, "line 3: 1 columns, but the first record has 2: '2'"),
        ("0 1\n2  3  4\n", {}, "line 2: 3 columns, but the first record has 2: '2 3 4'"),
        ("0 1\n# c\n2 1\n", {}, "line 2: '#' is not a source id"),
        ("0 1\n 9 1\n", {"num_nodes": 4}, "line 2: source id 9 is out of range"),
        (
            "0  1\n2 1\n",
            {"delimiter": " ", "src": 0, "dst": 1},
            "line 1: an empty cell is not a target id",
        ),
        ("0,1\n2,1\n", {"delimiter": "whitespace"}, "one column"),
        ("%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 2\n", {}, "scipy.io.mmread"),
        ("0 1\n", {"delimiter": "blanks"}, "one character, 'whitespace' or 'auto'"),
    ],
)
def test_bad_text(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    path = tmp_path / "e.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        build_dataset(tmp_path / "d", path, **options)


def test_tabs_may_have_empty_cells_between_them(tmp_path: Path) -> None:
    path = tmp_path / "e.tsv"
    path.write_text("src\tnote\tdst\n0\t\t1\n2\ta b\t1\n")
    assert sniff_csv(path).delimiter == "\t"
    assert read_back(tmp_path, path) == [[0, 1], [2, 1]]
    path.write_text("0 1\n2 1\n")
    assert sniff_csv(path).delimiter == WHITESPACE
    assert sniff_csv(path, delimiter=" ").delimiter == " "


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(alphabet=" \t\n\r01", max_size=60),
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=5),
)
def test_single_blanks_in_pieces_of_any_size(text: str, sizes: list[int]) -> None:
    class Pieces(io.BytesIO):
        at = 0

        def read(self, size: int | None = -1) -> bytes:
            Pieces.at += 1
            return super().read(sizes[Pieces.at % len(sizes)])

    stream = SingleBlanks(Pieces(text.encode()))
    got = stream.read()
    lines = text.replace("\r", "\n").split("\n")
    expected = [" ".join(cells_between_blanks(line)) for line in lines]
    assert got.decode().replace("\r", "\n").split("\n") == expected
    assert stream.read() == b""
