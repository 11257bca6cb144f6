"""What headers say: every table is read right or refused, and none is read wrong."""

from __future__ import annotations

import csv
import gzip
import io
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from header_cases import EDGE_CASES, NODE_CASES, Case

from graphzero.ingest.edges import open_edges
from graphzero.ingest.options import Source
from graphzero.ingest.rows import open_attribute
from graphzero.ingest.sources.tables import is_table

pytestmark = pytest.mark.no_asan

# No column is another one, in no order, and all of them could be ids.
COLUMNS: dict[str, list[Any]] = {
    "s": [4, 1, 7, 4, 0, 2],
    "t": [5, 8, 3, 6, 9, 9],
    "w": [0.5, 1.5, 2.5, 3.5, 4.5, 5.5],
    "h": [60, 50, 40, 30, 20, 10],
    "n": [0, 1, 2, 3, 4, 5],
    "x": [11, 12, 13, 14, 15, 16],
    "a": ["ann", "bob", "cid", "dan", "eve", "fay"],
    "i": [3, 0, 5, 1, 4, 2],
}
VALUES = [[7, 1, 3, 9, 4, 8], [20, 21, 22, 23, 24, 25]]


def cells_of(case: Case) -> list[list[Any]]:
    """The columns of a case; each v is a vector of values of its own."""
    values = iter(VALUES)
    return [next(values) if letter == "v" else COLUMNS[letter] for letter in case.holds]


def text_of(case: Case, delimiter: str = ",", *, quoted: bool = False) -> str:
    out = io.StringIO()
    quoting = csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL
    writer = csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    if case.names is not None:
        writer.writerow(case.names)
    writer.writerows(zip(*cells_of(case), strict=True))
    return out.getvalue()


def write_text(case: Case, folder: Path, kind: str) -> Path:
    delimiter = {"tab": "\t", "semicolon": ";"}.get(kind, ",")
    text = text_of(case, delimiter, quoted=kind == "quoted")
    data = (("\ufeff" if kind == "bom" else "") + text).encode()
    path = folder / ("t.csv.gz" if kind == "gz" else "t.csv")
    path.write_bytes(gzip.compress(data, 1) if kind == "gz" else data)
    return path


def as_table(case: Case) -> pa.Table:
    return pa.table([pa.array(column) for column in cells_of(case)], names=list(case.names or ()))


def as_frame(case: Case, kind: str) -> Any:
    """The table as an object in memory, or None if there is no such object with these names."""
    table = as_table(case)
    if kind == "arrow":
        return table
    if kind == "pandas":
        return (
            pytest.importorskip("pandas")
            .DataFrame(dict(enumerate(cells_of(case))))
            .set_axis(list(case.names or ()), axis=1)
        )
    if len(set(case.names or ())) < len(case.names or ()):
        return None  # polars has no such frames
    return pytest.importorskip("polars").DataFrame(table.to_pydict())


def read_edges(value: Any, options: dict[str, Any]) -> tuple[Any, ...]:
    """Sources, targets, and weights and times or None."""
    edges = open_edges(Source(value, **options))
    chunks = list(edges.table.chunks(edges.columns, 1 << 10))
    columns = iter([np.concatenate(parts).tolist() for parts in zip(*chunks, strict=True)])
    return (
        next(columns),
        next(columns),
        next(columns) if edges.has_weights else None,
        next(columns) if edges.has_times else None,
    )


def check_edges(case: Case, value: Any, options: dict[str, Any]) -> None:
    if case.expect == "refused":
        with pytest.raises(ValueError, match=".") as refused:
            read_edges(value, options)
        check_message(case, str(refused.value))
        return
    assert case.expect == "right"
    of = dict(zip(case.holds, cells_of(case), strict=False))
    weights, times = (of[one] if one in case.reads else None for one in "wh")
    assert read_edges(value, options) == (of["s"], of["t"], weights, times)


def check_message(case: Case, message: str) -> None:
    """A refusal of names lists the columns and the option that helps; one of a cell, its line."""
    if case.text_only:
        assert "line 1:" in message or "line 2:" in message or "no header" in message
        return
    if case.names is not None and ("src" not in case.options or "dst" not in case.options):
        for name in case.names:
            assert name.strip() in message
    assert all(way in message for way in case.says), message
    ways = ["src=", "dst=", "delimiter="] + [f"for {name}" for name in case.options]
    ways += [f"give {name} as a position" for name in case.options]
    assert case.says or any(way in message for way in ways), message


def test_there_are_many_cases_of_both_kinds() -> None:
    for cases, right, refused in ((EDGE_CASES, 350, 250), (NODE_CASES, 90, 25)):
        counts = Counter(case.expect for case in cases)
        assert set(counts) == {"right", "refused"}
        assert counts["right"] >= right
        assert counts["refused"] >= refused
        assert all(len(c.names) == len(c.holds) for c in cases if c.names is not None)


def check_all(cases: Iterable[Case], check: Callable[[Case], None]) -> None:
    """Checks every case before it fails, with all that is wrong."""
    wrong: dict[str, str] = {}
    for case in cases:
        try:
            check(case)
        except (AssertionError, pytest.fail.Exception, ValueError) as error:
            wrong[str(case)] = str(error)[:300]
    assert not wrong


@pytest.mark.parametrize(
    ("mark", "delimiter"), [("#", ","), ("# ", "\t"), ("## header\n#", " "), ("# ", ",")]
)
def test_a_comment_may_name_the_columns(tmp_path: Path, mark: str, delimiter: str) -> None:
    path = tmp_path / "t.txt"
    records = "".join(f"{delimiter.join(map(str, pair))}\n" for pair in ((4, 5), (1, 8)))
    for names in (("FromNodeId", "ToNodeId"), ("a", "b"), ("b", "a"), ("Edges:", "2")):
        path.write_text(f"{mark}{delimiter.join(names)}\n{records}")
        assert read_edges(path, {})[:2] == ([4, 1], [5, 8])
    path.write_text(f"{mark}{delimiter.join(('dst', 'src'))}\n{records}")
    with pytest.raises(ValueError, match="names the columns dst, src: .*such as src=1, dst=0"):
        read_edges(path, {})
    assert read_edges(path, {"src": 1, "dst": 0})[:2] == ([5, 8], [4, 1])


def read_labels(value: Any, options: dict[str, Any]) -> tuple[list[int], Any]:
    rows = open_attribute(Source(value, **options), "y", of="node", label="labels")
    chunks = list(rows.chunks(1 << 10))
    ids = np.concatenate([ids for ids, _ in chunks]).tolist()
    return ids, np.concatenate([values for _, values in chunks]).T.tolist()


def check_labels(case: Case, value: Any, options: dict[str, Any]) -> None:
    if case.expect == "refused":
        with pytest.raises(ValueError, match=".") as refused:
            read_labels(value, options)
        message = str(refused.value)
        assert case.text_only or any(name in message for name in ("id_column", "columns"))
        assert not case.text_only or "line " in message or "id_column=" in message
        assert all(way in message for way in case.says), message
        if case.says == ("id_column=0", "id_column=False") and case.names is not None:
            assert all(name in message for name in case.names)
        return
    columns = list(zip(case.holds, cells_of(case), strict=True))
    ids = next((cells for letter, cells in columns if letter == "i"), [0, 1, 2, 3, 4, 5])
    assert read_labels(value, options) == (
        ids,
        [cells for letter, cells in columns if letter == "v"],
    )


TEXT_KINDS = ["plain", "tab", "semicolon", "bom", "quoted", "gz"]
KINDS = [*TEXT_KINDS, "parquet", "arrow", "pandas", "polars"]


def check_kind(cases: list[Case], kind: str, folder: Path, check: Callable[..., None]) -> None:
    """Checks cases as files or objects of a kind."""

    def one(case: Case) -> None:
        if kind in TEXT_KINDS:
            check(case, write_text(case, folder, kind), case.options)
            return
        options = {name: value for name, value in case.options.items() if name != "header"}
        if kind == "parquet":
            pq.write_table(as_table(case), folder / "t.parquet")
            check(case, folder / "t.parquet", options)
            return
        frame = as_frame(case, kind)
        if frame is not None:
            assert is_table(frame)
            check(case, frame, options)

    if kind not in TEXT_KINDS:
        cases = [case for case in cases if case.names is not None and not case.text_only]
    check_all(cases, one)


@pytest.mark.parametrize("kind", KINDS)
def test_edges_are_never_wrong(tmp_path: Path, kind: str) -> None:
    # The last cases are written by hand.
    other_text = kind in TEXT_KINDS and kind != "plain"
    cases = EDGE_CASES[-120:] if other_text else EDGE_CASES
    check_kind(cases, kind, tmp_path, check_edges)


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_are_never_wrong(tmp_path: Path, kind: str) -> None:
    check_kind(NODE_CASES, kind, tmp_path, check_labels)
