"""The one-time build: from the user's files to a dataset folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from graphzero.format import FileWriter
from graphzero.ingest.columns import MAX_NODES
from graphzero.ingest.csr import graph_layout, sort_scratch, write_graph
from graphzero.ingest.edge_input import EdgeInput, open_edges
from graphzero.ingest.edges import EdgeList, read_edges
from graphzero.ingest.folder import commit, entry_of, folder_lock, recover
from graphzero.ingest.progress import Progress
from graphzero.ingest.rank import HotOrder, hot_order
from graphzero.ingest.row_input import Rows, count_classes, open_features, open_labels
from graphzero.ingest.rows import place_scratch, rows_layout, write_rows
from graphzero.ingest.sizes import parse_bytes, require_disk_space
from graphzero.ingest.splits import check_split_names, write_split
from graphzero.manifest import Manifest

__all__ = ["build_dataset"]


def _known_count(
    num_nodes: int | None, features: Rows | None, labels: Rows | None
) -> tuple[int | None, str]:
    """Number of nodes as far as the edges are not needed to tell, and how it is known."""
    known: list[tuple[int, str]] = []
    if num_nodes is not None:
        if isinstance(num_nodes, bool) or not 1 <= num_nodes <= MAX_NODES:
            raise ValueError(f"num_nodes={num_nodes!r} is not from 1 to 2^32")
        known.append((int(num_nodes), f"num_nodes={num_nodes}"))
    for rows in (features, labels):
        if rows is not None and rows.in_order:
            known.append((rows.count(), f"{rows.name} has {rows.count()} rows"))
    for count, why in known[1:]:
        if count != known[0][0]:
            raise ValueError(f"{known[0][1]}, but {why}: there must be one row for each node")
    return known[0] if known else (None, "")


def _final_count(
    known: int | None, edges: EdgeList, features: Rows | None, labels: Rows | None, name: str
) -> int:
    if known is not None:
        count = known
    else:
        keyed = [rows.count() for rows in (features, labels) if rows is not None]
        count = max([edges.max_id + 1, *keyed])
    if count == 0:
        raise ValueError(f"{name} has no edges: give num_nodes, or features, to build without")
    if count > MAX_NODES:
        raise ValueError(f"{count} nodes are more than the builder's 2^32: probably an id is wrong")
    return count


def _check_space(
    folder: Path,
    edges: EdgeList,
    tables: list[Rows],
    num_nodes: int,
    *,
    directed: bool,
    edge_ids: bool,
    hot: bool,
    limit: int,
) -> None:
    graph = graph_layout(edges, num_nodes, directed=directed, edge_ids=edge_ids, hot=hot)
    sorting = sort_scratch(edges, directed=directed, edge_ids=edge_ids, memory=_sort_memory(limit))
    placing = [
        place_scratch(rows, num_nodes, hot=hot, memory=_rows_memory(limit)) for rows in tables
    ]
    files = sum(rows_layout(rows, num_nodes, hot=hot).file_bytes for rows in tables)
    require_disk_space(folder, graph.file_bytes + files + max([sorting, *placing]))


# Shares of the memory limit. What is alive together: the edge columns, the hot order and a sort;
# later the hot order and the rows.
def _columns_memory(limit: int) -> int:
    return limit // 8


def _order_memory(limit: int) -> int:
    return limit // 4


def _sort_memory(limit: int) -> int:
    return limit * 9 // 16


def _rows_memory(limit: int) -> int:
    return limit // 2


def _write_all(
    folder: Path,
    source: EdgeInput,
    features: Rows | None,
    labels: Rows | None,
    splits: Mapping[str, Any],
    *,
    num_nodes: int | None,
    directed: bool,
    hot: bool,
    edge_ids: bool,
    limit: int,
    progress: Progress,
    staged: list[FileWriter],
) -> Manifest:
    known, why = _known_count(num_nodes, features, labels)
    edges = read_edges(
        source,
        folder,
        memory=_columns_memory(limit),
        bound=known,
        why=why,
        progress=progress,
    )
    num_input_edges = len(edges)
    count = _final_count(known, edges, features, labels, source.table.name)
    tables = [rows for rows in (features, labels) if rows is not None]
    _check_space(
        folder,
        edges,
        tables,
        count,
        directed=directed,
        edge_ids=edge_ids,
        hot=hot,
        limit=limit,
    )
    order: HotOrder | None = None
    if hot:
        memory = _order_memory(limit)
        with progress.phase("ordering nodes", None):
            order = hot_order(folder, count, edges.occurrences(directed, memory // 32), memory)
    graph = write_graph(
        folder / "graph.gl",
        edges,
        count,
        directed=directed,
        order=order,
        edge_ids=edge_ids,
        memory=_sort_memory(limit),
        progress=progress,
    )
    staged.append(graph)
    entries = {}
    for name, rows in (("features", features), ("labels", labels)):
        if rows is None:
            continue
        file = write_rows(
            folder / f"{name}.gd",
            rows,
            count,
            order=order,
            fill_missing=name == "features",
            memory=_rows_memory(limit),
            progress=progress,
        )
        staged.append(file)
        entries[name] = entry_of(file)
    lists = {}
    for name, value in splits.items():
        path = folder / f"split_{name}.gd"
        file = write_split(path, name, value, count, memory=_rows_memory(limit) // 4)
        staged.append(file)
        lists[name] = entry_of(file)
    return Manifest(
        num_nodes=count,
        num_edges=graph.header.width,
        num_input_edges=num_input_edges,
        directed=directed,
        order="hot" if hot else "input",
        num_classes=None if labels is None else count_classes(labels),
        graph=entry_of(graph),
        features=entries.get("features"),
        labels=entries.get("labels"),
        splits=lists,
    )


def _discard_all(files: list[FileWriter]) -> None:
    for file in files:
        file.discard()


def build_dataset(
    path: str | os.PathLike[str],
    edges: Any,
    features: Any = None,
    labels: Any = None,
    splits: Mapping[str, Any] | None = None,
    *,
    num_nodes: int | None = None,
    directed: bool = True,
    order: Literal["hot", "input"] = "hot",
    src: str | int | None = None,
    dst: str | int | None = None,
    weight: Any = None,
    timestamp: Any = None,
    header: bool | Literal["auto"] = "auto",
    delimiter: str = "auto",
    edge_ids: bool = False,
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
    order : {"hot", "input"}
        "hot" stores nodes by descending in-degree, equal ones by id; "input" by id.
    src, dst : str or int, optional
        Columns of the edge list by name or position. By default the columns named src and dst, or
        source and target, else the first two.
    weight, timestamp : str, int, False or array, optional
        Column by name or position, or for edges in an array an (E,) array or ``.npy`` path. By
        default the columns named weight, and timestamp or time, where there are; False for none.
        Weights become float32, timestamps int64.
    header : bool or "auto"
        Whether the edges' first row is a header; with "auto" it is if no cell is a number.
    delimiter : str
        Of the edges: one character, or "auto" for tab, semicolon, comma or space.
    edge_ids : bool
        Whether to store each entry's row in the edge list.
    memory_limit : int or str
        Bytes, or a text such as "2GB" or "512MiB". Bounds what the build itself allocates, beyond
        the interpreter and pyarrow's buffers; what does not fit goes to unnamed temporary files in
        the folder.
    progress : bool
        Whether to show progress on stderr.

    Returns
    -------
    Manifest

    Raises
    ------
    ValueError
        Naming the file, the line and the text that is wrong.
    IndexError
        If a split has a node that does not exist.
    OSError
        With errno and path: no such file, no permission, no disk space, another build at work.
    """
    if order not in ("hot", "input"):
        raise ValueError(f"order must be 'hot' or 'input', not {order!r}")
    limit = parse_bytes(memory_limit)
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
    feature_rows = None if features is None else open_features(features)
    label_rows = None if labels is None else open_labels(labels)
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    staged: list[FileWriter] = []
    with folder_lock(folder), ExitStack() as on_failure:
        earlier = recover(folder)
        on_failure.callback(_discard_all, staged)
        manifest = _write_all(
            folder,
            source,
            feature_rows,
            label_rows,
            named_splits,
            num_nodes=num_nodes,
            directed=directed,
            hot=order == "hot",
            edge_ids=edge_ids,
            limit=limit,
            progress=Progress(progress),
            staged=staged,
        )
        on_failure.pop_all()
        commit(folder, manifest, staged, earlier)
    return manifest
