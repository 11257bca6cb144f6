"""Text: compressed in every way, with every kind of blanks, by the compiled core or by pyarrow."""

from __future__ import annotations

import functools
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import compressed
import numpy as np
import pytest
from files import read_file
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphzero._core import PARSE_PADDING, parse_records
from graphzero.ingest import build_dataset
from graphzero.ingest.sources import text_table
from graphzero.ingest.sources.text_table import TextTable


def edges_of(folder: Path) -> list[list[int]]:
    """The edges of a dataset in input order, sorted."""
    _, arrays = read_file(folder / "graph.gl")
    targets = np.repeat(np.arange(len(arrays["indptr"]) - 1), np.diff(arrays["indptr"]))
    return sorted(np.stack([arrays["indices"], targets], 1).tolist())


def built(folder: Path, *args: Any, **options: Any) -> dict[str, bytes] | str:
    try:
        build_dataset(folder, *args, **options)
    except ValueError as error:
        return str(error)
    return {path.name: path.read_bytes() for path in folder.glob("*.g[ld]")}


# --- compressed files, blanks and comments

SUFFIXES = ["", *compressed.COMPRESS]
# Larger than the buffers, and hard to compress.
LARGE = np.random.default_rng(0).integers(0, 10**6, (60_000, 2))
LARGE_TEXT = "".join(f"{a},{b}\n" for a, b in LARGE.tolist()).encode()


@functools.cache
def large(suffix: str) -> bytes:
    """The text in a compression, of which the slowest takes seconds."""
    return compressed.COMPRESS[suffix](LARGE_TEXT)


def read_back(tmp_path: Path, source: Any, **options: Any) -> list[list[int]]:
    build_dataset(tmp_path / "d", source, order="input", **options)
    return edges_of(tmp_path / "d")


def test_zeros_between_members_of_xz_are_padding(tmp_path: Path) -> None:
    """Members in all compressions are recorded: tests/recorded_sources.py."""
    compress, path = compressed.COMPRESS[".xz"], tmp_path / "e.csv.xz"
    path.write_bytes(compress(b"0,1\n") + bytes(8) + compress(b"") + compress(b"2,1\n") + bytes(8))
    assert read_back(tmp_path, path) == [[0, 1], [2, 1]]


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
    whole = large(suffix)
    if (suffix, damage) == (".zst", "changed"):  # this writer adds no checksums
        whole = whole[:4] + b"\xff\xff" + whole[6:]
    path = tmp_path / f"e.csv{suffix}"
    path.write_bytes(damages(whole)[damage])
    message = rf"e\.csv{suffix} is not a complete {compressed.KIND[suffix]} file: .+: download"
    if damage == "changed":  # the checksum is at the end, and the text may be wrong before
        message = rf"{message}|e\.csv{suffix}(, line \d+: | has \d+ columns)"
    with pytest.raises(ValueError, match=message):
        build_dataset(tmp_path / "d", path)
    assert not list((tmp_path / "d").glob("*"))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_bad_lines_are_found_in_compressed_text(tmp_path: Path, suffix: str) -> None:
    path = compressed.write(tmp_path / f"e.csv{suffix}", LARGE_TEXT + b"\n7,seven\n")
    with pytest.raises(ValueError, match=rf"e\.csv{suffix}, line 60002: 'seven' is not a target"):
        build_dataset(tmp_path / "d", path)


@pytest.mark.parametrize(
    "text",
    [
        "0 1\n2 1\n",
        " 0 1 \r\n 2 1 \r\n",
        "  src   dst  \n  0     1  \n\n \n  2     1  ",
        " 0 \t 1 \r \t2  1\t\r\r",
        "# Directed graph\n# FromNodeId\tToNodeId\n0\t1\n2\t1\n",
        '"0" "1"\n"2" "1"\n',
        " 0, 1\n2 ,1\n",
        "src\tdst\tnote\n0\t1\t\n2\t1\ta b\n",
    ],
    ids=repr,
)
def test_blanks_and_comments(tmp_path: Path, text: str) -> None:
    path = compressed.write(tmp_path / "E.EL.gz", text.encode())
    assert read_back(tmp_path, path, edge_attrs=[]) == [[0, 1], [2, 1]]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("0 1\n\n  2  x \n", {}, "line 3: 'x' is not a target id"),
        ("# c\n 0 1\n 2 \n", {}, "line 3: 1 columns, but the first record has 2: '2'"),
        ("0 1\n# c\n2 1\n", {}, "line 2: '#' is not a source id"),
        ("0  1\n2 1\n", {"delimiter": " ", "src": 0, "dst": 1}, "line 1: an empty cell is not a"),
        ("0,1\n2,1\n", {"delimiter": "whitespace"}, "one column"),
        ("%%MatrixMarket matrix coordinate pattern general\n3 3 1\n1 2\n", {}, "scipy.io.mmread"),
    ],
)
def test_bad_text(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    path = tmp_path / "e.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        build_dataset(tmp_path / "d", path, **options)


# --- plain records, parsed by the core: the same numbers as by Python and by pyarrow

COLUMNS = [(0, np.dtype("<u4")), (2, np.dtype("<i8")), (1, np.dtype("<f4"))]
PLAIN = (r"[0-9]{1,9}", r"-?[0-9]{1,4}(\.[0-9]{1,3})?", r"-?[0-9]{1,18}")
CELLS = st.one_of(
    st.integers(-(2**65), 2**65).map(str),
    st.floats().map(repr),
    st.text("0123456789-+.eE \tx\"\r\0é", max_size=6),
)  # fmt: skip
LINES = st.lists(st.lists(CELLS, min_size=2, max_size=4).map(",".join), max_size=8)


def parsed(text: bytes, delimiter: int | None = ord(","), threads: int = 1) -> Any:
    """Values of the columns, and where the core stopped."""
    pieces, stop = parse_records(
        text + bytes(PARSE_PADDING), len(text), delimiter, 3, COLUMNS, threads
    )
    columns = [[piece[i] for piece in pieces] for i in range(3)]
    return [np.concatenate([np.empty(0, COLUMNS[i][1]), *columns[i]]) for i in range(3)], stop


def nearest_float32(text: str) -> np.float32:
    exact, guess = Fraction(text), np.float32(float(text))
    near = [np.nextafter(guess, np.float32(end)) for end in (-np.inf, np.inf)]
    found = min([guess, *near], key=lambda one: abs(Fraction(float(one)) - exact))
    even = [one for one in near if abs(Fraction(float(one)) - exact) == abs(
        Fraction(float(found)) - exact)]  # fmt: skip
    return found if not even or int(found.view(np.uint32)) % 2 == 0 else even[0]


@pytest.mark.core
@settings(max_examples=300, deadline=None)
@given(LINES)
@example(["1,16777217,3", "1,0.1,3"])
@example(["1,2.5,3\r", "\r", "", "4,5,6"])
def test_what_is_read_is_what_python_reads(lines: list[str]) -> None:
    text = "".join(line + "\n" for line in lines).encode()
    (ids, times, weights), stop = parsed(text)
    taken = [line for line in text[:stop].decode().split("\n")[:-1] if line.strip("\r")]
    assert len(taken) == len(ids)
    for i, line in enumerate(taken):
        cells = [cell.strip(" \t\r") for cell in line.split(",")]
        assert len(cells) == 3
        assert (int(cells[0]), int(cells[2])) == (ids[i], times[i])
        assert nearest_float32(cells[1]) == weights[i]
    rest = text[stop:].decode().split("\n")[0]
    if stop < len(text):
        assert not re.fullmatch(",".join(PLAIN) + "\r?", rest)


@pytest.mark.core
@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes(text: bytes) -> None:
    for delimiter in (ord(","), None, ord("\t")):
        _, stop = parsed(text + b"\n", delimiter)
        assert stop in (0, len(text) + 1) or (text + b"\n")[stop - 1 : stop] == b"\n"


@pytest.mark.core
def test_threads_read_the_same() -> None:
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 10 ** rng.integers(1, 9, 60_000))
    lines = [f"{a},{a % 7}.5,-{a}" for a in cells]
    lines[40_000] = ""  # leaves a gap in what a range has room for
    text = "\n".join([*lines, ""]).encode()
    one, _ = parsed(text)
    many, stop = parsed(text, threads=3)
    assert stop == len(text)
    assert np.array_equal(one[0], np.delete(cells, 40_000))
    for a, b in zip(one, many, strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.core
def test_wrong_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="line feed"):
        parse_records(b"1,2,3" + bytes(8), 5, 44, 3, COLUMNS, 1)
    with pytest.raises(ValueError, match="padding"):
        parse_records(b"1,2,3\n" + bytes(7), 6, 44, 3, COLUMNS, 1)
    with pytest.raises(IndexError):
        parse_records(b"1,2\n" + bytes(8), 4, 44, 2, COLUMNS, 1)
    assert parse_records(bytes(8), 0, 44, 3, COLUMNS, 1) == ([], 0)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("above", ["", "\ufeff", "# c{0}", "\ufeff# é{0}{0}% d{0}"])
def test_the_first_record_is_found(tmp_path: Path, end: str, above: str) -> None:
    for header in ("src,dst,note é{0}", ""):
        (tmp_path / "e.csv").write_bytes(f"{above}{header}0,1,é{{0}}2,1,x".format(end).encode())
        columns = {"src": 0, "dst": 1, "edge_attrs": []}
        assert read_back(tmp_path, tmp_path / "e.csv", **columns) == [[0, 1], [2, 1]]


BODY = "".join(f"{i},{i + 1},{i % 7}.25,{i * 10}\n" for i in range(3000))
MIXED = [
    BODY,
    BODY.replace("\n", "\r\n"),
    BODY.replace(",", ", "),
    BODY.replace(",", "\t"),
    BODY.replace("\n", "\n\n"),
    "\ufeff" + BODY,
    BODY.rstrip("\n"),
    BODY + '"5","6","0.5","7"\n' + BODY,
    BODY + "5,6,1e-40,7\n6,7,16777217,9\n" + BODY,
    BODY + "5,6,.5,7\n",
    BODY + "0x5,6,.5,7\n",
    BODY + "5,6,0." + "1" * 70_000 + ",7\n" + BODY,
    BODY + "5,-6,0,7\n" + BODY,
    BODY + "5,6,1,7\r5,6,1,7\n",
]


@pytest.mark.parametrize("number", range(len(MIXED)))
def test_a_build_is_the_same_as_by_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    text = "src,dst,weight,time\n".replace(",", "\t" if number == 3 else ",") + MIXED[number]
    path = tmp_path / "e.csv"
    path.write_bytes(text.encode())
    monkeypatch.setattr(text_table, "_LEAST_BYTES", 1000)
    monkeypatch.setattr(text_table, "_BYTES_PER_RECORD", 0)
    plain = built(tmp_path / "plain", path)
    monkeypatch.setattr(TextTable, "_is_plain", lambda *_: False)
    assert plain == built(tmp_path / "arrow", path)
    assert isinstance(plain, dict) == (number in {*range(12), 13})
