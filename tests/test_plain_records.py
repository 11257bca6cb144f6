"""Plain records, read by the compiled core: the same numbers as by Python and by pyarrow."""

from __future__ import annotations

import gzip
import io
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphzero._core import PARSE_PADDING, parse_records
from graphzero.ingest import build_dataset
from graphzero.ingest.sources import csv_table
from graphzero.ingest.sources.line_blocks import LineBlocks

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


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes(text: bytes) -> None:
    for delimiter in (ord(","), None, ord("\t")):
        _, stop = parsed(text + b"\n", delimiter)
        assert stop in (0, len(text) + 1) or (text + b"\n")[stop - 1 : stop] == b"\n"


@settings(max_examples=100, deadline=None)
@given(st.decimals(allow_nan=False, allow_infinity=False, places=12, min_value=0, max_value=99))
def test_decimal_numbers_are_rounded_once(number: Any) -> None:
    (_, _, weights), stop = parsed(f"1,{number},2\n".encode())
    if stop:
        assert weights[0] == nearest_float32(str(number))


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
    lines[50_000] = "1,x,2"
    text = "\n".join([*lines, ""]).encode()
    some, stop = parsed(text, threads=3)
    assert text[stop : stop + 5] == b"1,x,2"
    assert np.array_equal(some[0], np.delete(cells, 40_000)[:49_999])


def test_wrong_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="line feed"):
        parse_records(b"1,2,3" + bytes(8), 5, 44, 3, COLUMNS, 1)
    with pytest.raises(ValueError, match="padding"):
        parse_records(b"1,2,3\n" + bytes(7), 6, 44, 3, COLUMNS, 1)
    with pytest.raises(IndexError):
        parse_records(b"1,2\n" + bytes(8), 4, 44, 2, COLUMNS, 1)
    assert parse_records(bytes(8), 0, 44, 3, COLUMNS, 1) == ([], 0)


TEXTS = [
    b"",
    b"a",
    b"a\n",
    b"\xef\xbb\xbfa\nb",
    b"a\r\nbb\nccc",
    b"a\rb\r\nc\n" * 9,
    b"x" * 99,
    b"y\n" * 30,
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("skip", [0, 1, 3])
@pytest.mark.parametrize("size", [1, 17, 1000])
def test_blocks_hold_whole_lines(text: bytes, skip: int, size: int) -> None:
    plain = text.removeprefix(b"\xef\xbb\xbf")
    lines = io.StringIO(plain.decode(), newline="").readlines()[skip:]
    expected = "".join(lines).encode()
    if expected and not expected.endswith(b"\n"):
        expected += b"\n"
    blocks = LineBlocks(io.BytesIO(text), skip, size, numbered=True)
    got, begin = b"", blocks.line
    while end := blocks.fill():
        block = bytes(blocks.buffer[:end])
        assert block.endswith(b"\n")
        got += block
        blocks.take(end)
    assert got == expected
    assert blocks.line - begin == expected.count(b"\n")


@pytest.mark.parametrize("taken", [0, 4])
def test_the_rest_of_a_file(taken: int) -> None:
    text = b"1,2\n" * 1000
    blocks = LineBlocks(io.BytesIO(text), 0, 64)
    assert blocks.fill() >= taken
    blocks.take(taken)
    assert blocks.rest().read() == text[taken:]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.g[ld]")}


def built(folder: Path, *args: Any, **options: Any) -> dict[str, bytes] | str:
    try:
        build_dataset(folder, *args, **options)
    except ValueError as error:
        return str(error)
    return files(folder)


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
    BODY + "5,6,nan,7\n" + BODY,
    BODY + "5,6,1,7\0\n",
    BODY + "5,6,1,7\r5,6,1,7\n",
    BODY + '5,6,1,"7\n' + BODY,
    BODY + "5,6\n" + BODY,
]


@pytest.mark.parametrize("number", range(len(MIXED)))
@pytest.mark.parametrize("packed", [False, True])
def test_a_build_is_the_same_as_by_pyarrow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, packed: bool
) -> None:
    text = "src,dst,weight,time\n".replace(",", "\t" if number == 3 else ",") + MIXED[number]
    path = tmp_path / ("e.csv.gz" if packed else "e.csv")
    path.write_bytes(gzip.compress(text.encode(), 1) if packed else text.encode())
    monkeypatch.setattr(csv_table, "_LEAST_BYTES", 1000)
    monkeypatch.setattr(csv_table, "_BYTES_PER_RECORD", 0)
    plain = built(tmp_path / "plain", path)
    monkeypatch.setattr(csv_table, "is_plain", lambda *_: False)
    assert plain == built(tmp_path / "arrow", path)
    assert isinstance(plain, dict) == (number in {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15})


def test_plain_records_do_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unwanted(*_: Any) -> None:
        raise AssertionError("pyarrow reads plain records")

    monkeypatch.setattr(csv_table.CsvTable, "_others", unwanted)
    (tmp_path / "e.csv").write_text("src,dst,weight,time\n" + BODY)
    assert isinstance(built(tmp_path / "d", tmp_path / "e.csv"), dict)
