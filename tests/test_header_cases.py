"""What headers say: every table is read right or refused, and none is read wrong."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from header_cases import EDGE_CASES, HAND_CASES, NODE_CASES, Case

from graphzero.ingest.edges import open_edges
from graphzero.ingest.options import Source
from graphzero.ingest.rows import open_attribute

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


def write_text(case: Case, path: Path, kind: str) -> Path:
    with open(path, "w", encoding="utf-8-sig" if kind == "bom" else "utf-8", newline="") as out:
        quoting = csv.QUOTE_ALL if kind == "quoted" else csv.QUOTE_MINIMAL
        delimiter = "\t" if kind == "tab" else ","
        writer = csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator="\n")
        writer.writerows([case.names] if case.names is not None else [])
        writer.writerows(zip(*cells_of(case), strict=True))
    return path


def as_frame(case: Case, kind: str) -> Any:
    if kind == "arrow":
        columns = [pa.array(column) for column in cells_of(case)]
        return pa.table(columns, names=list(case.names or ()))
    frame = pytest.importorskip("pandas").DataFrame(dict(enumerate(cells_of(case))))
    return frame.set_axis(list(case.names or ()), axis=1)


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


TEXT_KINDS = ["plain", "tab", "bom", "quoted"]
KINDS = [*TEXT_KINDS, "arrow", "pandas"]


def check_kind(cases: list[Case], kind: str, path: Path, check: Callable[..., None]) -> None:
    """Checks cases as files or objects of a kind, and fails with all that is wrong."""
    if kind not in TEXT_KINDS:
        cases = [case for case in cases if case.names is not None and not case.text_only]
    wrong: dict[str, str] = {}
    for case in cases:
        options = dict(case.options)
        if kind in TEXT_KINDS:
            value = write_text(case, path, kind)
        else:
            value = as_frame(case, kind)
            options.pop("header", None)
        try:
            check(case, value, options)
        except (AssertionError, pytest.fail.Exception, ValueError) as error:
            wrong[str(case)] = str(error)[:300]
    assert not wrong


@pytest.mark.parametrize("kind", KINDS)
def test_edges_are_never_wrong(tmp_path: Path, kind: str) -> None:
    cases = HAND_CASES if kind in TEXT_KINDS and kind != "plain" else EDGE_CASES
    check_kind(cases, kind, tmp_path / "t.csv", check_edges)


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_are_never_wrong(tmp_path: Path, kind: str) -> None:
    check_kind(NODE_CASES, kind, tmp_path / "t.csv", check_labels)
