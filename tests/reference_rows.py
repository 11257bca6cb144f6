"""The naive twins of what reads rows."""

from __future__ import annotations

import numpy as np


def gather(rows, nodes):
    """Row of each node, one at a time."""
    out = np.empty((len(nodes), *rows.shape[1:]), dtype=rows.dtype)
    for i, node in enumerate(nodes):
        out[i] = rows[node]
    return out


def page_runs(rows, origin, row_bytes, gap, file_bytes, page=4096):
    """[(offset, length)] of the merged pages of ascending rows."""
    pages = set()
    for row in rows:
        begin = origin + row * row_bytes
        pages.update(range(begin // page, (begin + row_bytes - 1) // page + 1))
    runs = []
    for number in sorted(pages):
        if runs and number - runs[-1][1] <= gap:
            runs[-1][1] = number + 1
        else:
            runs.append([number, number + 1])
    return [(a * page, min(b * page, file_bytes) - a * page) for a, b in runs]
