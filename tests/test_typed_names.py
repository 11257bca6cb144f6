"""Files of typed graphs: no two names of types and attributes share one."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphzero.store.manifest import Layout

NAMES = st.text(st.sampled_from("a_.%é-/"), min_size=1, max_size=4)


@settings(max_examples=300, deadline=None)
@example("a__b", ("a", "b_", "_c"), "ids")
@example("a", ("a_", "b", "c"), "split_train")
@given(NAMES, st.tuples(NAMES, NAMES, NAMES), st.sampled_from(["ids", "x", "split_x", "visits"]))
def test_no_two_files_have_one_name(name: str, edge_type: Any, attribute: str) -> None:
    """Each name can be read back, so no two names are the same."""
    layout = Layout(is_typed=True)
    files = [layout.node_rows(name, attribute), layout.ids(name), layout.split(name, "x")]
    files += [layout.edge_rows(edge_type, attribute), layout.graph(edge_type)]
    files.append(layout.split(edge_type, "x"))
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
