"""The times of nodes, by the user's ids: where these are the times of the edges to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from graphzero.ingest.row_stream import Rows
from graphzero.ingest.spill import temp_array

__all__ = ["read_node_times"]

_CHUNK = 1 << 16


def read_node_times(folder: Path, rows: Rows, num_nodes: int, memory: int) -> npt.NDArray[np.int64]:
    """One time for each node, in memory up to this size, else mapped from an unnamed file.

    Nodes without a row get 0 here: that they lack one is found when the attribute is written.

    Parameters
    ----------
    folder : pathlib.Path
    rows : Rows
        A vector of integers.
    num_nodes : int
    memory : int
        Bytes.

    Raises
    ------
    ValueError
        If an id is out of range, or a time does not fit int64.
    """
    times = temp_array(folder, num_nodes, np.int64, memory)
    most = np.iinfo(np.int64).max
    row = 0
    for ids, chunk in rows.chunks(_CHUNK):
        values = chunk[:, 0]
        bad = np.flatnonzero((ids >= num_nodes) | (values > most))
        if len(bad):
            at = int(bad[0])
            raise ValueError(
                f"{rows.name}, {rows.locate(row + at)}: node {ids[at]} with time {values[at]}: ids "
                f"go up to {num_nodes - 1}, times up to {most}"
            )
        times[ids] = values
        row += len(ids)
    return times
