"""Checks of tables of numbers, in which each number is once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.report.checks.blocks import Check, CheckedFile, Group, Workers, run_group
from graphzero.report.checks.finding import Finding

__all__ = ["check_inverse"]

Array = npt.NDArray[Any]


def check_inverse(
    file: CheckedFile, arrays: dict[str, Array], workers: Workers, what: str
) -> dict[str, Finding]:
    """Checks that a table of ids and one of ranks lead to each other.

    Which of the two is wrong is known where only one of them has each number once.

    Parameters
    ----------
    file : CheckedFile
    arrays : dict of str to array
        The ids by the name of their section, then the ranks. With one of them only: that it has
        each number once.
    workers : Workers
    what : str
        For messages.
    """
    if not arrays:
        return {}
    tables = list(arrays.items())
    count = len(tables[0][1])
    checks = []
    for (name, table), (other, inverse) in zip(tables, reversed(tables), strict=True):
        if len(tables) == 1:
            checks.append(_range_check(name, table, count, what))
        else:
            checks.append(_inverse_check(name, table, other, inverse, what))

    def totals(begin: int, end: int) -> tuple[int, ...]:
        sums = tuple(_core.sum_ids(table, begin, end) for _, table in tables)
        return (*sums, _core.sum_numbers(begin, end))

    outcome = run_group(file, Group(list(arrays), checks, totals), workers)
    found, (*sums, numbers) = outcome.findings, outcome.totals or (0,) * (len(tables) + 1)
    wrong = {name for (name, _), sum_ in zip(tables, sums, strict=True) if sum_ != numbers}
    if len(tables) == 1:
        (name,) = arrays
        if name in wrong and name not in found:
            message = f"{what}: '{name}' has a number twice: build the file again"
            found[name] = file.finding(name, _first_twice(tables[0][1]), message)
        return found
    corrupt = {name for name, finding in found.items() if "checksum" in finding.message}
    keep = corrupt or wrong or {tables[1][0]}
    return {name: finding for name, finding in found.items() if name in keep}


def _inverse_check(name: str, table: Array, other: str, inverse: Array, what: str) -> Check:
    return Check(
        name,
        lambda i, j: _core.first_not_inverse(table, inverse, i, j),
        lambda at: (
            f"{what}: entry {at} of '{name}' is {table[at]}, and '{other}' does not "
            f"lead back from there"
        ),
    )


def _range_check(name: str, table: Array, count: int, what: str) -> Check:
    return Check(
        name,
        lambda i, j: _core.first_beyond(table, count, i, j),
        lambda at: f"{what}: entry {at} of '{name}' is {table[at]}, out of range for {count}",
    )


def _first_twice(table: Array) -> int:
    """First entry with a number that an earlier entry has; takes a bit for each number."""
    seen = np.zeros(len(table), np.bool_)
    step = 1 << 20
    for begin in range(0, len(table), step):
        part = table[begin : begin + step]
        firsts = np.zeros(len(part), np.bool_)
        firsts[np.unique(part, return_index=True)[1]] = True
        again = np.flatnonzero(seen[part] | ~firsts)
        if len(again):
            return begin + int(again[0])
        seen[part] = True
    return 0
