"""The one-time build: from the user's files to a dataset folder."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from graphzero.ingest.columns import MAX_NODES
from graphzero.ingest.csr import graph_layout, sort_scratch, write_graph
from graphzero.ingest.edge_input import EdgeInput, open_edges
from graphzero.ingest.edges import EdgeList, read_edges
from graphzero.ingest.folder import entry_of, folder_lock, recover, replace_dataset
from graphzero.ingest.presampling import Presampler, Visits, presample_order
from graphzero.ingest.progress import Progress
from graphzero.ingest.rank import NodeOrder, hot_order
from graphzero.ingest.reorder import check_order, rewrite_graph, split_seeds
from graphzero.ingest.row_input import count_classes, open_features, open_labels
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.rows import place_scratch, rows_layout, write_rows
from graphzero.ingest.sizes import parse_bytes, require_disk_space
from graphzero.ingest.splits import check_split_names, write_split
from graphzero.ingest.stored import open_stored_graph
from graphzero.store.filewriter import FileWriter
from graphzero.store.format import as_dtype
from graphzero.store.manifest import FileEntry, Manifest

__all__ = ["build_dataset"]


# Shares of the memory limit, in sixteenths. Alive together are the edge columns, the hot order and
# the sort; later a part of the hot order and the rows.
_COLUMNS_SHARE = 2
_ORDER_SHARE = 4
_SORT_SHARE = 9
_ROWS_SHARE = 8


@dataclass(frozen=True)
class _Options:
    directed: bool
    order: str
    presampler: Presampler | None
    edge_ids: bool
    limit: int
    progress: Progress

    @property
    def hot(self) -> bool:
        """Whether the graph is first written in hot order."""
        return self.order != "input"

    def share(self, sixteenths: int) -> int:
        return self.limit * sixteenths // 16


def _known_count(num_nodes: int | None, tables: Iterable[Rows]) -> tuple[int | None, str]:
    """Number of nodes as far as the edges are not needed to tell, and how it is known."""
    known: list[tuple[int, str]] = []
    if num_nodes is not None:
        known.append((num_nodes, f"num_nodes={num_nodes}"))
    for rows in tables:
        if rows.in_order:
            count = rows.count()
            known.append((count, f"{rows.name} has {count} rows"))
    for count, why in known[1:]:
        if count != known[0][0]:
            raise ValueError(f"{known[0][1]}, but {why}: there must be one row for each node")
    return known[0] if known else (None, "")


def _final_count(known: int | None, edges: EdgeList, tables: Iterable[Rows], name: str) -> int:
    count = max([edges.max_id + 1, *(rows.count() for rows in tables)]) if known is None else known
    if count == 0:
        raise ValueError(f"{name} has no edges: give num_nodes, or features, to build without")
    if count > MAX_NODES:
        raise ValueError(f"{count} nodes are more than the builder's 2^32: probably an id is wrong")
    return count


def _check_space(
    folder: Path, edges: EdgeList, tables: Iterable[Rows], num_nodes: int, options: _Options
) -> None:
    hot, directed, edge_ids = options.hot, options.directed, options.edge_ids
    graph = graph_layout(edges, num_nodes, directed=directed, edge_ids=edge_ids, hot=hot)
    scratch = sort_scratch(
        edges, directed=directed, edge_ids=edge_ids, memory=options.share(_SORT_SHARE)
    )
    needed = graph.file_bytes
    for rows in tables:
        needed += rows_layout(rows, num_nodes, hot=hot).file_bytes
        placing = place_scratch(rows, num_nodes, hot=hot, memory=options.share(_ROWS_SHARE))
        scratch = max(scratch, placing)
    if options.presampler is not None:
        needed += graph.file_bytes  # sampled from, and then replaced
    require_disk_space(folder, needed + scratch)


def _build_graph(
    folder: Path,
    source: EdgeInput,
    tables: Mapping[str, Rows],
    num_nodes: int | None,
    options: _Options,
) -> tuple[FileWriter, NodeOrder | None]:
    known, why = _known_count(num_nodes, tables.values())
    edges = read_edges(
        source,
        folder,
        memory=options.share(_COLUMNS_SHARE),
        bound=known,
        why=why,
        progress=options.progress,
    )
    try:
        count = _final_count(known, edges, tables.values(), source.table.name)
        _check_space(folder, edges, tables.values(), count, options)
        order: NodeOrder | None = None
        if options.hot:
            # Presampling needs the rest for the visits and for the order that comes of them.
            memory = options.share(_ORDER_SHARE) // (1 if options.presampler is None else 4)
            occurrences = edges.occurrences(options.directed, memory // 32)
            with options.progress.phase("ordering nodes", None):
                order = hot_order(folder, count, occurrences, memory)
        graph = write_graph(
            folder / "graph.gl",
            edges,
            count,
            directed=options.directed,
            order=order,
            edge_ids=options.edge_ids,
            memory=options.share(_SORT_SHARE),
            progress=options.progress,
        )
    finally:
        edges.close()
    return graph, order


def _presampled(
    folder: Path,
    hot_graph: FileWriter,
    train: FileEntry | None,
    hot: NodeOrder,
    presampler: Presampler,
    options: _Options,
) -> tuple[FileWriter, NodeOrder, Visits]:
    """The graph in presample order, made from one in hot order."""
    graph = open_stored_graph(hot_graph.staged.staged_path)
    seeds = None if train is None else split_seeds(train.resolve(folder))
    memory, progress = options.share(_ORDER_SHARE), options.progress
    order, visits = presample_order(graph, seeds, presampler, hot, memory, progress)
    del hot
    file = rewrite_graph(
        graph, folder / "graph.gl", order, memory=options.share(_SORT_SHARE), progress=progress
    )
    return file, order, visits


def _build_files(
    folder: Path,
    source: EdgeInput,
    tables: Mapping[str, Rows],
    splits: Mapping[str, Any],
    num_nodes: int | None,
    options: _Options,
    staged: list[FileWriter],
) -> Manifest:
    """Stages every file, noting it in `staged`, and says what they make up."""
    graph, order = _build_graph(folder, source, tables, num_nodes, options)
    staged.append(graph)
    count = graph.header.num_nodes
    lists: dict[str, FileEntry] = {}
    for name, value in splits.items():
        path = folder / f"split_{name}.gd"
        file = write_split(path, name, value, count, memory=options.share(_COLUMNS_SHARE))
        staged.append(file)
        lists[name] = entry_of(file)
    rows_of: dict[str, Rows] = dict(tables)
    visits: Visits | None = None
    if options.presampler is not None and order is not None:
        hot_graph = graph
        graph, order, visits = _presampled(
            folder, hot_graph, lists.get("train"), order, options.presampler, options
        )
        staged.append(graph)
        hot_graph.discard()
        rows_of["visits"] = visits.rows()
    entries: dict[str, FileEntry] = {}
    for name, rows in rows_of.items():
        file = write_rows(
            folder / f"{name}.gd",
            rows,
            count,
            order=order,
            fill_missing=name == "features",
            memory=options.share(_ROWS_SHARE),
            progress=options.progress,
        )
        staged.append(file)
        entries[name] = entry_of(file)
    return Manifest(
        num_nodes=count,
        num_edges=graph.header.width,
        num_input_edges=graph.header.num_input_edges,
        directed=options.directed,
        order=options.order,
        num_classes=count_classes(tables["labels"]) if "labels" in tables else None,
        graph=entry_of(graph),
        features=entries.get("features"),
        labels=entries.get("labels"),
        splits=lists,
        visits=entries.get("visits"),
        presampling=None if visits is None else visits.presampling,
    )


def _checked_count(num_nodes: Any) -> int:
    try:
        count = operator.index(num_nodes)
    except TypeError:
        count = 0
    if isinstance(num_nodes, bool) or not 1 <= count <= MAX_NODES:
        raise ValueError(f"num_nodes={num_nodes!r} is not an integer from 1 to 2^32")
    return count


def build_dataset(
    path: str | os.PathLike[str],
    edges: Any,
    features: Any = None,
    labels: Any = None,
    splits: Mapping[str, Any] | None = None,
    *,
    num_nodes: int | None = None,
    directed: bool = True,
    order: Literal["hot", "input", "presample"] = "hot",
    presample: Any = None,
    src: str | int | None = None,
    dst: str | int | None = None,
    weight: Any = None,
    timestamp: Any = None,
    header: bool | Literal["auto"] = "auto",
    delimiter: str = "auto",
    edge_ids: bool = False,
    feature_dtype: Any = None,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> Manifest:
    """Builds a dataset folder from edges, features, labels and splits.

    The folder appears whole or not at all: until the last step an earlier dataset in it stays as
    it was, and what a killed build left is cleared by the next. Other files in it are not touched.
    Parallel edges are kept.

    Parameters
    ----------
    path : path-like
        Folder; made if it does not exist.
    edges : path, array or tensor
        ``.csv``, ``.tsv`` or ``.txt`` (also with ``.gz``), ``.parquet``, ``.npy``, or integers in
        memory, of shape (E, 2) or (2, E). Comment lines (``#``) at the top of a text file and
        blank lines are skipped. A row (s, d) makes d a neighbour of s.
    features : path, array or tensor, optional
        ``.npy`` or array of shape (num_nodes, dim) or (num_nodes,), or a CSV or Parquet file whose
        first column is the node id, rows in any order; nodes without a row get zeros and a
        `UserWarning` counts them. CSV values become float32, others keep their dtype.
    labels : path, array or tensor, optional
        As features; a CSV or Parquet file of one column holds them in the order of the nodes.
        Every node needs one: -1 is usual for none.
    splits : mapping of str to path, array or tensor, optional
        Node ids, or a boolean mask over all nodes.
    num_nodes : int, optional
        By default the rows of features or labels, else the largest id + 1.
    directed : bool
        If False each row is stored in both directions, a self-loop once.
    order : {"hot", "input", "presample"}
        "hot" stores nodes by descending in-degree, equal ones by id; "input" by id; "presample" by
        descending number of visits in a few sampled epochs from the split "train" (all nodes, if
        there is none), equal ones by in-degree, then id. Visit counts are kept in the dataset.
    presample : Presample, optional
        How to sample, for order="presample".
    src, dst : str or int, optional
        Columns of the edge list by name or position. By default the columns named src and dst, or
        source and target, else the first two.
    weight, timestamp : str, int, False or array, optional
        Column by name or position, or for edges in an array an (E,) array or ``.npy`` path. By
        default the columns named weight, and timestamp or time, where there are; False for none.
        Weights become float32, and must not be negative; timestamps int64.
    header : bool or "auto"
        Whether the edges' first row is a header; with "auto" it is if no cell is a number.
    delimiter : str
        Of the edges: one character, or "auto" for tab, semicolon, comma or space.
    edge_ids : bool
        Whether to store each entry's row in the edge list.
    feature_dtype : str or dtype-like, optional
        What features are stored as: "float16", "bfloat16", ..., any of ``docs/format.md``. Floats
        are rounded to nearest, ties to even; a number that does not fit is an error. A ``.npy``
        file of dtype ``|V2``, which ml_dtypes' bfloat16 is saved as, needs "bfloat16". Default: as
        they come.
    memory_limit : int or str
        Bytes, or a text such as "2GB" or "512MiB". Bounds what the build itself allocates, beyond
        the interpreter and pyarrow's buffers (some 20 MB, whatever the size of the input); what
        does not fit goes to unnamed temporary files in the folder.
    progress : bool
        Whether to show progress on stderr.

    Returns
    -------
    Dataset
        `graphzero.build` opens what was built; this function returns its `Manifest`.

    Raises
    ------
    ValueError
        Naming the file, the line and the text that is wrong.
    IndexError
        If a split has a node that does not exist.
    OSError
        With errno and path: no such file, no permission, no disk space, another build at work.
    """
    check_order(order, presample)
    if num_nodes is not None:
        num_nodes = _checked_count(num_nodes)
    options = _Options(
        directed=directed,
        order=order,
        presampler=presample,
        edge_ids=edge_ids,
        limit=parse_bytes(memory_limit),
        progress=Progress(progress),
    )
    named_splits = dict(splits or {})
    check_split_names(named_splits)
    source = open_edges(
        edges,
        src=src,
        dst=dst,
        weight=weight,
        timestamp=timestamp,
        header=header,
        delimiter=delimiter,
    )
    tables: dict[str, Rows] = {}
    if features is not None:
        stored_as = None if feature_dtype is None else as_dtype(feature_dtype)
        tables["features"] = open_features(features, stored_as)
    elif feature_dtype is not None:
        raise ValueError("feature_dtype is for features, and there are none")
    if labels is not None:
        tables["labels"] = open_labels(labels)
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    with folder_lock(folder):
        earlier = recover(folder)
        write = partial(_build_files, folder, source, tables, named_splits, num_nodes, options)
        return replace_dataset(folder, earlier, write)
