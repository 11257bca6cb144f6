"""Checks of a ``.gd`` file: its rows against what they are for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.packs.pack_file import OFFSETS
from graphzero.report.checks.blocks import Check, CheckedFile, Group, Workers, run_group
from graphzero.report.checks.finding import Finding
from graphzero.report.checks.id_table import check_id_table
from graphzero.report.checks.inverse import check_inverse
from graphzero.report.checks.roles import RowsRole
from graphzero.store.format import DTYPES, FLAG_VECTOR, dtype_name

__all__ = ["check_rows"]

_IDS = ("<u4", "<u8")

Array = npt.NDArray[Any]


def check_rows(file: CheckedFile, role: RowsRole, workers: Workers) -> list[Finding]:
    """Checks every section of a file of rows whose header a reader accepts."""
    if role.is_id_table:
        return check_id_table(file, workers)
    found: dict[str, Finding] = {}
    refused = _wrong_dtype(file, role)
    names = [section.name for section in file.header.sections]
    if role.ids_of is not None and refused is None and "node_rank" in names:
        arrays = file.arrays(["rows", "node_rank"])
        what = f"the ids of node type {role.ids_of!r} are not in the order that 'node_rank' says"
        found |= check_inverse(file, arrays, workers, what)
    elif "node_rank" in names:
        arrays = file.arrays(["node_rank"])
        found |= check_inverse(file, arrays, workers, "the stored order of rows")
        found |= _check_values(file, role if refused is None else RowsRole(), workers)
    else:
        found |= _check_values(file, role if refused is None else RowsRole(), workers)
    for name in names:
        if name not in ("rows", "node_rank"):
            checks = [_offsets_check(file)] if name == OFFSETS else []
            found |= run_group(file, Group([name], checks), workers).findings
    findings = sorted(found.values(), key=lambda one: names.index(one.section or ""))
    return findings if refused is None else [refused, *findings]


def _wrong_dtype(file: CheckedFile, role: RowsRole) -> Finding | None:
    """Rows that cannot be what they are for."""
    section = file.header.find("rows")
    assert section is not None  # a reader has accepted the file
    dtype = DTYPES[section.dtype]
    wanted: tuple[str, ...] = ()
    if role.limit is not None:
        wanted = ("<i8",)
    elif role.most is not None or role.descending:
        wanted = ("<u4",)
    elif role.ids_of is not None:
        wanted = _IDS
    if not wanted or (dtype.str in wanted and file.header.flags & FLAG_VECTOR):
        return None
    names = " or ".join(dtype_name(np.dtype(name)) for name in wanted)
    shape = "a vector" if file.header.flags & FLAG_VECTOR else "rows"
    message = f"has {shape} of {dtype_name(dtype)}, not a vector of {names}: build it again"
    return Finding(file.path, "rows", section.offset, message)


def _check_values(file: CheckedFile, role: RowsRole, workers: Workers) -> dict[str, Finding]:
    rows = file.array("rows")
    checks = []
    if role.limit is not None:
        checks = [_ids_check(rows, role.limit)]
    elif role.most is not None or role.descending:
        checks = [_counts_check(rows, role)]
    elif (
        role.num_classes is not None and rows.dtype.kind in "iu" and file.header.flags & FLAG_VECTOR
    ):
        checks = [_labels_check(rows, role.num_classes)]
    return run_group(file, Group(["rows"], checks), workers).findings


def _ids_check(rows: Array, limit: int) -> Check:
    unsigned = rows.view("<u8")  # negative ids become large
    return Check(
        "rows",
        lambda i, j: _core.first_beyond(unsigned, limit, i, j),
        lambda at: f"entry {at} is {rows[at]}, out of range for {limit}",
    )


def _first_of(begin: int, bad: npt.NDArray[np.bool_]) -> int:
    return begin + int(bad.argmax()) if bad.any() else -1


def _labels_check(rows: Array, num_classes: int) -> Check:
    return Check(
        "rows",
        lambda i, j: _first_of(i, rows[i:j] >= num_classes),
        lambda at: f"entry {at} has the label {rows[at]}, but there are {num_classes} classes",
    )


def _counts_check(rows: Array, role: RowsRole) -> Check:
    most = 2**32 - 1 if role.most is None else role.most
    fault: Callable[[int, int], int] = lambda i, j: _first_of(i, rows[i:j] > most)  # noqa: E731

    def in_order(begin: int, end: int) -> int:
        bad = rows[begin:end] > most
        first = max(begin, 1)
        bad[first - begin :] |= rows[first:end] > rows[first - 1 : end - 1]
        return _first_of(begin, bad)

    return Check(
        "rows",
        in_order if role.descending else fault,
        lambda at: (
            f"entry {at} counts {rows[at]} visits, more than the entry before or than the "
            f"{most} mini-batches"
        ),
    )


def _offsets_check(file: CheckedFile) -> Check:
    """Of a pack: where batches begin."""
    offsets, num_rows = file.array(OFFSETS), file.header.num_nodes
    if offsets.dtype.str not in _IDS:  # which `open_pack` refuses
        return Check(OFFSETS, lambda i, j: -1, str)
    return Check(
        OFFSETS,
        lambda i, j: _core.first_descent(offsets, num_rows, i, j),
        lambda at: (
            f"entry {at} of '{OFFSETS}' is {offsets[at]}, below the entry before or above "
            f"{num_rows} rows"
        ),
    )
