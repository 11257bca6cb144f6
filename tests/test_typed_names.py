"""Files of typed graphs: no two names of types and attributes share one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

import graphzero as gz
from graphzero.ingest.typed_names import edge_file, graph_file, ids_file, node_file, split_file

NAMES = st.text(st.sampled_from("a_.%é-/"), min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@example("a__b", ("a", "b_", "_c"), "ids")
@example("a", ("a_", "b", "c"), "split_train")
@given(NAMES, st.tuples(NAMES, NAMES, NAMES), st.sampled_from(["ids", "x", "split_x", "visits"]))
def test_no_two_files_have_one_name(name: str, edge_type: Any, attribute: str) -> None:
    """Each name can be read back, so no two names are the same."""
    files = [node_file(name, attribute), ids_file(name), split_file(name, "x")]
    files += [edge_file(edge_type, attribute), graph_file(edge_type), split_file(edge_type, "x")]
    assert len(set(files)) == len(files)
    for file in files:
        assert set(file) <= set("abcdefghijklmnopqrstuvwxyzABCDEF0123456789%_-.")
        types = file.split(".")[0].split("__")
        decoded = [bytes(decode(part)).decode() for part in types]
        assert decoded == ([name] if len(types) == 1 else list(edge_type))


def decode(part: str) -> list[int]:
    codes, at = [], 0
    while at < len(part):
        step = 3 if part[at] == "%" else 1
        codes.append(int(part[at + 1 : at + 3], 16) if step == 3 else ord(part[at]))
        at += step
    return codes


def test_types_of_any_name(tmp_path: Path) -> None:
    names = ["a/b", "ids", "a__b", "ü .", "."]
    edges = {(one, "->", two): [[0], [1]] for one in names for two in names}
    nodes = {name: {"ids": [i, i + 1]} for i, name in enumerate(names)}
    with gz.build(tmp_path, edges, nodes=nodes) as ds:
        assert ds.node_types == names
        for i, name in enumerate(names):
            assert ds[name]["ids"].gather([1, 0]).tolist() == [i + 1, i]
        assert ds["ü .", "->", "a/b"].neighbors(1).tolist() == [0]
