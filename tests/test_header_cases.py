"""What headers say: every table is read right or refused, and none is read wrong.

A case says what every column holds, by a letter: s sources, t targets, w weights, h times, n the
number of the record, x other numbers, a text; in node tables i ids, v values. `expect` is "right"
or "refused". If it is "right", the edges are those of s and t, the weights and times those that
`reads` names, and no others are read.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from graphzero.ingest.edges import open_edges
from graphzero.ingest.options import Source
from graphzero.ingest.rows import open_attribute

pytestmark = pytest.mark.no_asan


@dataclass(frozen=True)
class Case:
    """One table.

    Attributes
    ----------
    names : tuple of str or None
        The header; None without one.
    holds : str
        A letter for each column.
    expect : {"right", "refused"}
    reads : str
        Of "wh": which of weights and times are read.
    options : dict
        Of `Source`.
    says : tuple of str
        Further texts in the message.
    text_only : bool
        Whether the case is about text files.
    """

    names: tuple[str, ...] | None
    holds: str
    expect: str
    reads: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    says: tuple[str, ...] = ()
    text_only: bool = False

    def __str__(self) -> str:
        names = "no header" if self.names is None else ",".join(self.names)
        return f"{names} {self.options or ''}{self.expect}"


# Written out here, so that the list in the library cannot change unseen.
PAIRS = [
    ("src", "dst"),
    ("src", "dest"),
    ("source", "target"),
    ("source", "destination"),
    ("from", "to"),
    ("head", "tail"),
    ("u", "v"),
    ("src_id", "dst_id"),
    ("source_id", "target_id"),
    ("from_id", "to_id"),
    ("head_id", "tail_id"),
    ("source_node", "target_node"),
    ("from_node_id", "to_node_id"),
]


def _camel(name: str) -> str:
    return "".join(part.title() for part in name.split("_"))


SPELLINGS = [
    lambda name: name,
    str.upper,
    lambda name: f" {name} ",
    lambda name: name.replace("_", "-"),
    lambda name: name.replace("_", "."),
    _camel,
]


def _of(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def _pairs_in_all_spellings() -> list[Case]:
    found = []
    for pair in PAIRS:
        for s, t in dict.fromkeys(tuple(map(spell, pair)) for spell in SPELLINGS):
            found.append(Case((s, t), "st", "right"))
            found.append(Case((t, s), "ts", "right"))
            found.append(Case(("id", t, "amount", s), "ntxs", "right"))
            found.append(Case((s, "Weight", t, "time"), "swth", "right", "wh"))
        s, t = pair
        found.append(Case((s.upper(), t), "st", "right"))
    return found


def _mixed() -> list[Case]:
    """A source of one convention with a target of another, and two pairs."""
    found = []
    for one, other in itertools.permutations(PAIRS, 2):
        if (one[0], other[1]) not in PAIRS:
            found.append(Case((one[0], other[1]), "st", "refused"))
    for one, other in itertools.combinations(PAIRS, 2):
        if not set(one) & set(other):
            found.append(Case((*one, *other), "stxx", "refused"))
    return found


def _wrong_pairs() -> list[Case]:
    found = []
    for s, t in PAIRS:
        for names, holds in (((s, t, t), "stx"), ((s, "a"), "st"), ((t, "a"), "ts")):
            found.append(Case(names, holds, "refused"))
        found.append(Case((s, t, s), "xts", "right", options={"src": 2, "dst": 1}, text_only=True))
    return found


_SAY = {"src": "p", "dst": "q"}
# What each column holds, in capitals where weights and times are read. Some were silent mistakes.
_RIGHT = {
    "id,from,to": "nst",
    "from,to,ts,amount": "stHx",
    "a,b": "st",
    ",src,dst": "nst",
    "__index_level_0__,to,from": "nts",
    "src,dst,source": "stx",
    "time,dst,weight,src": "HtWs",
    "src,dst,": "stn",
}
_REFUSED = {
    "b,a": "ts",
    "v10,v9": "ts",
    "a,b,c": "stx",
    "id,target": "nt",
    "a,weight": "sw",
    ",a": "ns",
    ",a,b": "nst",
}


def _plain(expect: str, cases: dict[str, str]) -> list[Case]:
    return [
        Case(_of(names), holds.lower(), expect, "".join(filter(str.isupper, holds)).lower())
        for names, holds in cases.items()
    ]


HAND_CASES = [
    *_plain("right", _RIGHT),
    *_plain("refused", _REFUSED),
    Case(_of("0,1"), "st", "right", options={"header": True}),
    # weights and times
    Case(_of("src,dst,weight,edge_weight"), "stwx", "refused", says=("weight=",)),
    Case(_of("src,dst,weight,edge_weight"), "stxw", "right", "w", {"weight": "edge_weight"}),
    Case(_of("src,dst,weight,edge_weight"), "stxx", "right", "", {"weight": False}),
    Case(_of("src,dst,weight"), "sth", "right", "h", {"timestamp": "weight"}),
    Case(_of("src,dst,a"), "stx", "refused", "", {"weight": "a", "timestamp": "a"}, ("twice: a",)),
    # options say what names do not
    Case(_of("p,q,weight"), "stw", "right", "w", _SAY),
    Case(_of("src,dst,from,to"), "xxst", "right", options={"src": "from", "dst": "to"}),
    Case(_of("a,b,c"), "xts", "right", options={"src": 2, "dst": 1}),
    Case(_of("a,b"), "ts", "right", options={"src": "b"}),
    Case(_of("a,b"), "ts", "right", options={"dst": "a"}),
    Case(_of("a,b,c"), "stx", "refused", options={"src": "a"}),
    Case(_of("weight,b"), "ws", "refused", options={"src": "b"}),
    Case(_of("src,dst"), "st", "refused", options={"src": "dst"}),
    Case(None, "ts", "right", options={"dst": 0}),
    Case(_of("p,q"), "st", "refused", options={"src": "p", "dst": "p"}),
    Case(_of("p,q,p"), "stx", "refused", options={**_SAY}),
    # no header
    Case(None, "st", "right"),
    Case(None, "stw", "right", "w", {"src": 0, "dst": 1, "weight": 2}),
    Case(None, "xhts", "right", "h", {"src": 3, "dst": 2, "timestamp": 1}),
    Case(None, "st", "refused", options={"src": "src", "dst": "dst"}),
    # a header that looks like a record, and the reverse
    Case(_of("src,dst,2020"), "stx", "refused", text_only=True),
    Case(_of("src,dst,2020"), "stx", "right", options={"header": True}),
    Case(_of("1_000,2_000"), "st", "refused", text_only=True),
    Case(_of("alice,bob"), "aa", "refused", text_only=True),
    Case(_of("src,dst"), "st", "refused", options={"header": False}, text_only=True),
]

EDGE_CASES = [*_pairs_in_all_spellings(), *_mixed(), *_wrong_pairs(), *HAND_CASES]

_BOTH = ("id_column=0", "id_column=False")


def _recognised_ids() -> list[Case]:
    found = []
    for name in ("id", "node_id", "node", "nid", "vertex", "vertex_id"):
        for one in (name, name.upper(), _camel(name), f" {name} ", name.replace("_", "-")):
            found += [Case((one, "a", "b"), "ivv", "right"), Case(("a", "b", one), "vvi", "right")]
    return found


_NO_IDS = {"a,b": "iv", "paper_id,a": "iv", ",a,b": "ivv", "Unnamed: 0,a,b": "ivv"}
NODE_CASES = [
    *_recognised_ids(),
    *(Case(_of(names), holds, "refused", says=_BOTH) for names, holds in _NO_IDS.items()),
    Case(None, "ivv", "refused", says=_BOTH),
    Case(_of("id,node_id,a"), "ivv", "refused", says=("id_column=",)),
    Case(_of(",id,a"), "niv", "refused", says=("columns=",)),
    Case(_of("id"), "v", "refused", says=("id_column=False",)),
    Case(_of("a"), "v", "right"),
    Case(_of("a,b"), "iv", "right", options={"id_column": 0}),
    Case(_of("a,b"), "vv", "right", options={"id_column": False}),
    Case(_of(",a,b"), "nvv", "right", options={"id_column": False, "columns": ["a", "b"]}),
    Case(_of("key,id,a"), "inv", "refused", options={"id_column": "key"}, says=("columns=",)),
    Case(None, "ivv", "right", options={"id_column": 0}),
    Case(None, "ivv", "refused", options={"id_column": "id"}, says=("position",)),
    Case(_of("id,a,b"), "ivv", "refused", options={"columns": ["a", "nothing"]}),
    Case(_of("id,a,b"), "ivv", "refused", options={"columns": []}),
    Case(_of("a,b"), "vv", "refused", options={"columns": ["a", "b"]}, says=_BOTH),
    Case(_of("id,a"), "iv", "refused", options={"id_column": 5}),
    Case(_of("id,0,1"), "ivv", "right", text_only=True),
]


# --- the tables of cases, and what is made of them

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


def write_text(case: Case, path: Path) -> Path:
    with open(path, "w", encoding="utf-8-sig", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
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
        assert any(name in message for name in ("id_column", "columns"))
        assert all(way in message for way in case.says), message
        return
    columns = list(zip(case.holds, cells_of(case), strict=True))
    ids = next((cells for letter, cells in columns if letter == "i"), [0, 1, 2, 3, 4, 5])
    assert read_labels(value, options) == (
        ids,
        [cells for letter, cells in columns if letter == "v"],
    )


KINDS = ["text", "arrow", "pandas"]


def check_kind(cases: list[Case], kind: str, path: Path, check: Callable[..., None]) -> None:
    """Checks cases as files or objects of a kind, and fails with all that is wrong."""
    if kind != "text":
        cases = [case for case in cases if case.names is not None and not case.text_only]
    wrong: dict[str, str] = {}
    for case in cases:
        options = dict(case.options)
        if kind == "text":
            value = write_text(case, path)
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
    check_kind(EDGE_CASES, kind, tmp_path / "t.csv", check_edges)


@pytest.mark.parametrize("kind", KINDS)
def test_nodes_are_never_wrong(tmp_path: Path, kind: str) -> None:
    check_kind(NODE_CASES, kind, tmp_path / "t.csv", check_labels)
