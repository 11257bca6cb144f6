"""Checks of a table of the user's ids: what binary searches in it need."""

from __future__ import annotations

import numpy as np

from graphzero.report.checks.blocks import Check, CheckedFile, Group, Workers, run_group
from graphzero.report.checks.finding import Finding
from graphzero.store.format import DTYPES, FLAG_VECTOR, dtype_name
from graphzero.store.id_table import TEXT, first_bad_text, first_not_ascending

__all__ = ["check_id_table"]

_INTEGERS, _ENDS = ("<i8", "<u8"), ("<u8",)
_BLOCK = 1 << 12  # texts that are compared at a time: at most 16 MiB


def check_id_table(file: CheckedFile, workers: Workers) -> list[Finding]:
    """Checks every section: ids ascend, texts are valid UTF-8, and none is empty."""
    is_text = file.header.find(TEXT) is not None
    refused = _wrong_dtype(file, "rows", _ENDS if is_text else _INTEGERS)
    if refused is None and is_text:
        refused = _wrong_dtype(file, TEXT, ("|u1",))
    if refused is None and not file.header.flags & FLAG_VECTOR:
        refused = Finding(file.path, "rows", 0, "has no vector of ids: build it again")
    names = [section.name for section in file.header.sections]
    found: dict[str, Finding] = {}
    for name in names:
        checks = [_order_check(file)] if name == "rows" and refused is None else []
        found |= run_group(file, Group([name], checks), workers).findings
    if refused is None and is_text and not found:
        fault = _texts_fault(file, workers)
        if fault is not None:
            found[fault.section or TEXT] = fault
    findings = [found[name] for name in names if name in found]
    return findings if refused is None else [refused, *findings]


def _wrong_dtype(file: CheckedFile, name: str, wanted: tuple[str, ...]) -> Finding | None:
    section = file.header.find(name)
    assert section is not None
    dtype = DTYPES[section.dtype]
    if dtype.str in wanted:
        return None
    names = " or ".join(dtype_name(np.dtype(one)) for one in wanted)
    message = f"has ids of {dtype_name(dtype)}, not of {names}: build it again"
    return Finding(file.path, name, section.offset, message)


def _order_check(file: CheckedFile) -> Check:
    rows = file.array("rows")
    what = "the end of a text" if file.header.find(TEXT) is not None else "an id"
    return Check(
        "rows",
        lambda begin, end: first_not_ascending(rows, begin, end),
        lambda at: f"entry {at}, {what}, is {rows[at]}, which does not follow the entry before",
    )


def _texts_fault(file: CheckedFile, workers: Workers) -> Finding | None:
    """The first fault of the texts, where their ends ascend."""
    rows, text = file.array("rows"), file.array(TEXT)
    count, total = len(rows), len(text)
    last = int(rows[-1]) if count else 0
    if last != total or (count and int(rows[0]) == 0):
        entry = count - 1 if last != total else 0
        message = f"entry {entry} is {rows[entry] if count else 0}: the texts have {total} bytes"
        return file.finding("rows", max(0, entry), f"{message}, and none is empty: build it again")

    def check(begin: int, end: int) -> int:
        file.check_size()
        return first_bad_text(rows, text, begin, end)

    for _, _, at in workers.in_order(check, count, _BLOCK):
        if at >= 0:
            begin = int(rows[at - 1]) if at else 0
            message = f"the text of node {at} is no valid UTF-8, or not above that of node {at - 1}"
            return file.finding(TEXT, begin, f"{message}: build it again")
    return None
