"""What scripts for graphzero 0.2 use: two converters, methods of `Graph`, names of arguments.

They keep working and are documented here, but no page has them.

Differences from 0.2, all of them bug fixes: a walk that reaches a dead end repeats its last node
in every later column, a fanout is padded with valid ids, ids out of range raise `IndexError`.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.store.atomic import folder_lock
from graphzero.store.outputs import Output, check_outputs
from graphzero.units import as_count, by_either_name

if TYPE_CHECKING:
    from graphzero.ingest.edges import EdgeInput

PathLike = str | os.PathLike[str]

_MEMORY = 1 << 30
_ENDS: tuple[tuple[str | int, str | int], ...] = (("src", "dst"), ("source", "target"))
_TIMES = ("timestamp", "time")


_Graph = Any  # `graphzero.Graph`, which stands above
_Ids = npt.NDArray[np.int64]


class GraphMethods02:
    """The methods that `Graph` had in 0.2. They take no seed: a graph draws a fixed sequence."""

    _calls02 = 0

    def _next_seed(self) -> int:
        self._calls02 += 1
        return self._calls02

    def get_degree(self: _Graph, node_id: int) -> int:
        """`Graph.degree` of one node: of its out-neighbours, as in all methods of 0.2."""
        return int(self.degree(node_id, "out"))

    def get_neighbours(self: _Graph, node_id: int) -> _Ids:
        """`Graph.neighbors`, the out-neighbours."""
        neighbors: _Ids = self.neighbors(node_id, "out")
        return neighbors

    @property
    def has_weights(self: _Graph) -> bool:
        """Whether the file has edge weights."""
        return self.weights is not None

    def get_weights(self: _Graph, node_id: int) -> npt.NDArray[np.float32]:
        """Weights of one node's edges, in the order of `get_neighbours`, (degree,) float32."""
        lists = self.lists_of("out", "these weights are of edges to")
        if lists.weights is None:
            raise ValueError(f"{self.path} has no edge weights")
        begin, end, neighbors = lists._stored_list(node_id)
        weights: npt.NDArray[np.float32] = lists.weights[begin:end]
        return weights[np.argsort(neighbors, kind="stable")]

    def sample_neighbours(self: _Graph, start_node: int, K: int) -> _Ids:
        """Up to K distinct neighbours of one node, (min(K, degree),) int64."""
        lists = self.lists_of("out", "this samples")
        drawn = lists.sample_neighbors([start_node], as_count(K, "K"), seed=self._next_seed())
        neighbors: _Ids = drawn.indices
        return neighbors

    def batch_random_walk(
        self: _Graph, start_nodes: npt.ArrayLike, walk_length: int, p: float = 1.0, q: float = 1.0
    ) -> _Ids:
        """Walks of walk_length nodes, the start included, (n, walk_length) int64.

        After a dead end the last node is repeated.
        """
        length = as_count(walk_length, "walk_length")
        steps = max(1, length - 1)  # of a walk of one node, too, a step is drawn
        walks = self.random_walk(start_nodes, steps, p=p, q=q, seed=self._next_seed())[:, :length]
        ended_at = np.where(walks >= 0, np.arange(length), 0)
        return np.take_along_axis(walks, np.maximum.accumulate(ended_at, axis=1), axis=1)

    batch_random_walk_uniform = batch_random_walk

    def batch_random_fanout(self: _Graph, start_nodes: npt.ArrayLike, K: int) -> _Ids:
        """K neighbours of each node, (n, K) int64.

        Without replacement if the degree is at least K. With a smaller degree, all neighbours, and
        then some drawn with replacement; without neighbours, the node itself.
        """
        K = as_count(K, "K")
        lists, seed = self.lists_of("out", "this samples"), self._next_seed()
        # the result, and the columns that are compared with each node's count
        what = f"neighbours (K={K}: use a smaller K, or fewer nodes in a call)"
        _core.require_memory((np.size(start_nodes) + 1) * K, 2 * 8, what)
        sampled = lists.sample_neighbors(start_nodes, K, seed=seed, _by_seed=True)
        counts = np.diff(sampled.indptr)
        start = np.asarray(start_nodes, dtype=np.int64)
        out = np.repeat(start[:, np.newaxis], K, axis=1)
        column = np.arange(K)
        out[column < counts[:, np.newaxis]] = sampled.indices
        short = np.flatnonzero((counts > 0) & (counts < K))
        # another seed: the same one would draw the same neighbours in the same places
        redrawn = lists.sample_neighbors(start[short], K, replace=True, seed=~seed, _by_seed=True)
        missing = column >= counts[short, np.newaxis]
        out[short] = np.where(missing, redrawn.indices.reshape(-1, K), out[short])
        return out


class DataType(enum.Enum):
    """Dtype of the values in a feature file."""

    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"


@contextmanager
def _target(out_path: PathLike, source: Path) -> Iterator[Path]:
    """The file to write, where `out_path` is a link to it; its folder is locked.

    Raises
    ------
    OSError
        With errno and path: it cannot be written.
    ValueError
        If it is the source.
    """
    output = Output("out_path", out_path)
    check_outputs([output], [source])
    with folder_lock(output.target.parent, shared=True):
        yield output.target


def _edges_02(path: Path, *, directed: bool) -> EdgeInput:
    """The edges by the rules of 0.2: src and dst, source and target, else the first two columns."""
    from graphzero.ingest.edges import EdgeInput, edges_of_table
    from graphzero.ingest.options import Source
    from graphzero.ingest.sources.text_table import HeaderRule, TextTable, is_number

    table = TextTable(path, rule=HeaderRule(only_texts=True))
    names, cells = list(table.names or ()), table.first_record or ()
    src, dst = next((pair for pair in _ENDS if {*pair} <= {*names}), (0, 1))
    taken = names[:2] if src == 0 else [src, dst]
    others = [name for name in names if names.count(name) == 1 and name not in taken]
    weight: str | int | bool = "weight" if "weight" in others else False
    timestamp = next((name for name in _TIMES if name in others), False)
    if "weight" not in names and not {*names[2:3]} & {*_TIMES}:
        weight = 2 if len(cells) > 2 and is_number(cells[2]) else weight
    source = Source(path, src=src, dst=dst, weight=weight, timestamp=timestamp)
    return EdgeInput(edges_of_table(table, source), directed=directed)


def convert_csv_to_gl(
    csv_path: PathLike | None = None,
    out_path: PathLike | None = None,
    directed: bool = False,
    *,
    input_csv: PathLike | None = None,
    output_bin: PathLike | None = None,
) -> None:
    """Converts an edge list to a ``.gl`` file, in input order.

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
    from graphzero.ingest.edges import read_edges  # ingest imports pyarrow
    from graphzero.ingest.lists import NodeOrder, write_graph
    from graphzero.ingest.options import Progress, WriteOptions

    source = Path(by_either_name("csv_path", csv_path, input_csv))
    options = WriteOptions("input", None, _MEMORY, Progress())
    with _target(by_either_name("out_path", out_path, output_bin), source) as target:
        edges = read_edges(_edges_02(source, directed=directed), target.parent, options)
        if not len(edges):
            raise ValueError(f"{source} has no edges")
        order = NodeOrder(max(edges.max_ids) + 1)
        write_graph(target, edges, order, None, options).publish()


def convert_csv_to_gd(csv_path: PathLike, out_path: PathLike, dtype: DataType) -> None:
    """Converts a table of features to a ``.gd`` file, in input order.

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
    from graphzero.ingest.lists import NodeOrder
    from graphzero.ingest.options import Progress, WriteOptions
    from graphzero.ingest.row_files import write_rows
    from graphzero.ingest.rows import ValueColumns, rows_of_table
    from graphzero.ingest.sources.text_table import TextTable

    source, stored = Path(csv_path), np.dtype(DataType(dtype).value)
    with _target(out_path, source) as target:
        table = TextTable(source)
        if table.width < 2:
            raise ValueError(f"{table.name} has one column: features need a node id and values")
        columns = ValueColumns(tuple(range(1, table.width)), 0)
        rows = rows_of_table(table, columns, "x", stored)
        num_nodes = rows.count()
        if not num_nodes:
            raise ValueError(f"{source} has no records")
        options = WriteOptions("input", None, _MEMORY, Progress())
        write_rows(target, rows, NodeOrder(num_nodes), options, fill=0).publish()
