"""The converters of graphzero 0.2: each converts one CSV file to one file, in input order."""

from __future__ import annotations

import enum
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from graphzero.ingest.csr import write_graph
from graphzero.ingest.edge_input import EdgeInput, edges_of_table
from graphzero.ingest.edges import IdBound, read_edges
from graphzero.ingest.folder import folder_lock
from graphzero.ingest.progress import Progress
from graphzero.ingest.row_input import features_of_table
from graphzero.ingest.rows import write_rows
from graphzero.ingest.sources.csv_format import is_number, sniff_csv
from graphzero.ingest.sources.csv_table import CsvTable
from graphzero.store.outputs import Output, check_outputs

__all__ = ["DataType", "convert_csv_to_gd", "convert_csv_to_gl"]

_MEMORY = 1 << 30
_ENDS: tuple[tuple[str | int, str | int], ...] = (("src", "dst"), ("source", "target"))
_TIMES = ("timestamp", "time")

PathLike = str | os.PathLike[str]


class DataType(enum.Enum):
    """Dtype of the values in a feature file."""

    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"


def _one_of(value: PathLike | None, other: PathLike | None, name: str, other_name: str) -> Path:
    if (value is None) == (other is None):
        raise TypeError(f"give {name}, or {other_name} instead")
    return Path(value if value is not None else other)  # type: ignore[arg-type]


def _checked_target(out_path: PathLike, source: Path) -> Path:
    """The file to write, where `out_path` is a link to it; refused before the work if it cannot be.

    Raises
    ------
    OSError
        With errno and path.
    ValueError
        If it is the source.
    """
    output = Output("out_path", out_path)
    check_outputs([output], [source])
    return output.target


def _edges(path: Path) -> EdgeInput:
    """The edges by the rules of 0.2: src and dst, source and target, else the first two columns."""
    table = CsvTable(sniff_csv(path, strict=True))
    names, cells = list(table.names or ()), table.source.first_record or ()
    if table.width < 2:
        return edges_of_table(table)  # an error
    pairs = [pair for pair in _ENDS if all(name in names for name in pair)]
    src, dst = pairs[0] if pairs else (0, 1)
    taken = pairs[0] if pairs else names[:2]
    others = [name for name in names if names.count(name) == 1 and name not in taken]
    weight: str | int | bool = "weight" if "weight" in others else False
    times = [name for name in _TIMES if name in others]
    third = len(cells) > 2 and is_number(cells[2])
    if "weight" not in names and third and not (names and names[2] in _TIMES):
        weight = 2
    return edges_of_table(
        table, src=src, dst=dst, weight=weight, timestamp=times[0] if times else False
    )


def convert_csv_to_gl(
    csv_path: PathLike | None = None,
    out_path: PathLike | None = None,
    directed: bool = False,
    *,
    input_csv: PathLike | None = None,
    output_bin: PathLike | None = None,
) -> None:
    """Converts an edge list to a ``.gl`` file.

    Parameters
    ----------
    csv_path : path-like
        Columns: source, target and, optionally, the weight as a third numeric column.
    out_path : path-like
        Replaced in one step when it is complete; where it is a symbolic link, the file that the
        link leads to.
    directed : bool
        If False, each edge is stored in both directions, a self-loop once.
    input_csv, output_bin : path-like
        Other names of `csv_path` and `out_path`.

    Raises
    ------
    ValueError
        Naming the file, the line and the wrong text.
    OSError
        With errno and path; also if the output is a folder, a device or another special file.
    """
    source = _one_of(csv_path, input_csv, "csv_path", "input_csv")
    target = _checked_target(_one_of(out_path, output_bin, "out_path", "output_bin"), source)
    progress = Progress()
    with folder_lock(target.parent, shared=True):
        edges = read_edges(
            replace(_edges(source), directed=directed),
            target.parent,
            memory=_MEMORY // 8,
            bounds=(IdBound(), IdBound()),
            progress=progress,
        )
        if not len(edges):
            raise ValueError(f"{source} has no edges")
        file = write_graph(
            target,
            edges,
            edges.max_id + 1,
            order=None,
            memory=_MEMORY // 2,
            progress=progress,
        )
        file.publish()


def convert_csv_to_gd(csv_path: PathLike, out_path: PathLike, dtype: DataType) -> None:
    """Converts a table of features to a ``.gd`` file.

    Parameters
    ----------
    csv_path : path-like
        The first column is the node id, in any order. Nodes that it does not name get zeros, and
        a `UserWarning` counts them.
    out_path : path-like
        Replaced in one step when it is complete; where it is a symbolic link, the file that the
        link leads to.
    dtype : DataType

    Raises
    ------
    ValueError
        Naming the file, the line and the text that is wrong or does not fit the dtype.
    OSError
        With errno and path.
    """
    source = Path(csv_path)
    target = _checked_target(out_path, source)
    stored = np.dtype(DataType(dtype).value)
    with folder_lock(target.parent, shared=True):
        rows = features_of_table(CsvTable(sniff_csv(source)), stored)
        num_nodes = rows.count()
        if not num_nodes:
            raise ValueError(f"{source} has no records")
        file = write_rows(
            target,
            rows,
            num_nodes,
            order=None,
            fill_missing=True,
            memory=_MEMORY // 2,
            progress=Progress(),
        )
        file.publish()
