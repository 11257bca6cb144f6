"""Edge lists and tables with columns of all kinds, and what datasets of them must hold."""

from __future__ import annotations

import numpy as np

EDGES = np.array([[0, 3], [1, 3], [2, 3], [0, 1], [4, 1], [3, 4]])
AMOUNTS = np.array([7, 8, 9, 10, 11, 12])
RATES = np.array([0.5, 1.5, 2.5, 3.5, 4.5, 5.5])
TIMES = np.array([60, 50, 40, 30, 20, 10])
ROWS = np.arange(10, dtype=np.float32).reshape(5, 2)


def write_csv(path, header, *columns):
    lines = [header] if header else []
    lines += [",".join(map(str, cells)) for cells in zip(*columns, strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def payments(folder, header="from,to,amount,rate,ts"):
    return write_csv(folder / "e.csv", header, EDGES[:, 0], EDGES[:, 1], AMOUNTS, RATES, TIMES)


def check_edge_values(ds, **expected):
    """Values of every edge: those of edge e belong to (EDGES[e]), in the lists of its target."""
    for name, values in expected.items():
        ids = ds.graph._view("edge_ids")
        stored = ds.edge_attributes[name].gather(np.arange(len(EDGES)))
        np.testing.assert_array_equal(stored, np.asarray(values)[ids])
        assert stored.dtype == np.asarray(values).dtype
