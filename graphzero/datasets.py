"""Builds from whole datasets: OGB's and GraphBolt's folders, SciPy matrices, pandas frames."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from graphzero.api import build, write_dataset
from graphzero.graph.dataset import Dataset
from graphzero.graph.opening import open_dataset
from graphzero.ingest.closing import Closing
from graphzero.ingest.datasets.description import FoundDataset
from graphzero.ingest.datasets.frames import edges_of_frame, nodes_of_frame
from graphzero.ingest.datasets.graphbolt import find_graphbolt
from graphzero.ingest.datasets.ogb import find_ogb
from graphzero.ingest.datasets.seed_files import discard, publish_seeds, stage_seeds

__all__ = ["from_graphbolt", "from_ogb", "from_pandas", "from_scipy", "write_found"]

# What the files say, so that it is no option.
_SAID = {
    *("edges", "features", "labels", "splits", "nodes", "edge_splits", "num_nodes", "src", "dst"),
    *("weight", "timestamp", "header", "delimiter", "edge_attrs", "id_column", "ids"),
}


def write_found(out: str | os.PathLike[str], found: FoundDataset, options: Any) -> Closing:
    """Builds what was found in a folder; the arrays of tasks on edges go to ``links/``.

    Raises
    ------
    TypeError
        If an option is one that the files decide.
    """
    for name in options:
        if name in _SAID:
            raise TypeError(f"{name}= is no option here: the files of the dataset say it")
    folder = Path(out)
    staged = stage_seeds(folder, found.seeds)
    try:
        closing = write_dataset(folder, **{**found.arguments(), **options})
        publish_seeds(folder, staged)
    except BaseException:
        discard(staged)
        raise
    return closing


def _build_found(
    out: str | os.PathLike[str], found: FoundDataset, options: dict[str, Any]
) -> Dataset:
    closing = write_found(out, found, options)
    for note in found.notes:
        warnings.warn(note, UserWarning, stacklevel=3)
    closing.tell(bool(options.get("progress", False)), stacklevel=3)
    return open_dataset(out)


def from_ogb(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    name: str | None = None,
    directed: bool | None = None,
    split_type: str | None = None,
    **options: Any,
) -> Dataset:
    """Builds a dataset folder from a folder of the Open Graph Benchmark, without the ogb package.

    It reads the raw files, as text or binary, of datasets for nodes (``ogbn-``) and links
    (``ogbl-``), with and without types. ``docs/ingest.md`` has what becomes of each file.

    Node features are "x", labels "y", features of edges "edge_attr"; ``node_year`` is "year", and
    ``edge_weight``, ``edge_year`` and ``edge_reltype`` keep their names. The splits are "train",
    "val" (OGB's ``valid``) and "test". Labels of one task are integers, -1 for nodes without a
    label, where OGB has NaN.

    Of a dataset for links, the graph has the edges that OGB's graph has, which are edges for
    training only. The arrays of OGB's ``get_edge_split`` are in ``out/links/train/``, ``val/`` and
    ``test/``, as ``.npy`` files under OGB's names and with its shapes.

    Parameters
    ----------
    path : path-like
        The folder that has ``raw`` and ``split``, such as ``dataset/ogbn_arxiv``.
    out : path-like
        Folder of the dataset, as in `build`.
    name : str, optional
        Such as "ogbn-arxiv". Default: by the name of the folder, or the note of the release in it.
    directed : bool, optional
        Default: what OGB says of the dataset. Of others, the folder does not say it, so that it
        must be given; edges in binary files are stored as they are.
    split_type : str, optional
        Folder in ``split``. Default: the one that OGB prescribes, or the only one.
    **options
        Of `build`: `neighbors`, `order`, `presample`, `weight_attrs`, `time_attrs`, `edge_ids`,
        `feature_dtype`, `memory_limit`, `progress`.

    Returns
    -------
    Dataset

    Raises
    ------
    OSError
        If a file is missing: which one, and how to get it.
    ValueError
        If a file is damaged, or it is not known whether the graph is directed.
    """
    found = find_ogb(path, name=name, directed=directed, split_type=split_type)
    return _build_found(out, found, options)


def from_graphbolt(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    task: str | int | None = None,
    names: Mapping[str, str] | None = None,
    directed: bool = True,
    **options: Any,
) -> Dataset:
    """Builds a dataset folder from a folder of GraphBolt's ``OnDiskDataset``, without DGL.

    The folder has a ``metadata.yaml``, which PyYAML reads. The files are those before DGL
    preprocesses them. ``docs/ingest.md`` has what becomes of each entry.

    The sets of a task on nodes are the splits "train", "val" and "test", and its labels are "y",
    with -1 (NaN among floats) for nodes that are in no set. The arrays of a task on edges are in
    ``out/links/train/``, ``val/`` and ``test/``, as ``.npy`` files under their names.

    Parameters
    ----------
    path : path-like
        The folder that has ``metadata.yaml``.
    out : path-like
        Folder of the dataset, as in `build`.
    task : str or int, optional
        The task whose sets to use, by name or by position. Default: the only one.
    names : dict of str to str, optional
        Names of attributes, for names of features, such as {"emb": "x"}, or {"node:emb": "x"}
        where edges have "emb" as well. Default: "feat" is "x" of nodes and "edge_attr" of edges;
        others keep their names, which must be Python identifiers.
    directed : bool
        As in `build`. GraphBolt stores edges as they are given.
    **options
        Of `build`: see `from_ogb`.

    Returns
    -------
    Dataset

    Raises
    ------
    ImportError
        If PyYAML is not installed.
    OSError
        If a file is missing.
    ValueError
        If ``metadata.yaml`` is not as documented, or has several tasks.
    """
    found = find_graphbolt(path, task=task, names=names, directed=directed)
    return _build_found(out, found, options)


def from_scipy(
    matrix: Any,
    out: str | os.PathLike[str],
    features: Any = None,
    labels: Any = None,
    splits: Mapping[str, Any] | None = None,
    **options: Any,
) -> Dataset:
    """Builds a dataset folder from a sparse matrix of SciPy.

    An entry in row i and column j is an edge from node i to node j. Its value is the weight of the
    edge, "edge_weight"; ``weight=False`` ignores the values. The matrix is square, and its size is
    the number of nodes. With ``directed=False``, it has each edge once, as in
    ``scipy.sparse.triu(matrix)``.

    Parameters
    ----------
    matrix : sparse matrix or array, or path of a ``.npz`` file of ``scipy.sparse.save_npz``
    out : path-like
        Folder of the dataset, as in `build`.
    features, labels, splits : optional
        As in `build`.
    **options
        All others of `build`.

    Returns
    -------
    Dataset

    Raises
    ------
    TypeError
        If it is no sparse matrix.
    ValueError
        If it is not square.
    """
    is_file = isinstance(matrix, str | os.PathLike)
    if not is_file and not hasattr(matrix, "tocoo"):
        raise TypeError(
            f"matrix is {type(matrix).__name__}, not a sparse matrix: scipy.sparse.csr_array(a) "
            f"makes one of a dense array; build() takes lists of edges"
        )
    return build(out, matrix, features, labels, splits, **options)


def from_pandas(
    edges: Any,
    out: str | os.PathLike[str],
    nodes: Any = None,
    *,
    features: Sequence[str] | None = None,
    labels: str | None = None,
    node_attrs: Sequence[str] | Mapping[str, str] | None = None,
    id_column: str | None = None,
    src: str | None = None,
    dst: str | None = None,
    weight: Any = None,
    timestamp: Any = None,
    edge_attrs: Sequence[str] | Mapping[str, str] | None = None,
    splits: Mapping[str, Any] | None = None,
    **options: Any,
) -> Dataset:
    """Builds a dataset folder from frames of pandas.

    Columns are found by their names as in files: see `build`. Node ids are integers from 0. The
    index of `edges` does not count.

    Parameters
    ----------
    edges : pandas.DataFrame
        A record for each edge.
    out : path-like
        Folder of the dataset, as in `build`.
    nodes : pandas.DataFrame, optional
        A record for each node, with ids in a column or in the index; the records may stand in any
        order. An index 0, 1, 2, ... without a name is the order of the nodes.
    features : list of str, optional
        Columns of `nodes` that are the features "x", in this order.
    labels : str, optional
        The column of `nodes` that is "y".
    node_attrs : list of str, or dict of str to str, optional
        Other columns of `nodes` that become attributes; a dictionary has the column for the name
        of each. Columns that are not named cause a `UserWarning`; an empty list says that they are
        not needed.
    id_column : str, optional
        The column of `nodes` that has the ids. Default: the one with a recognised name, such as id
        or node_id, or the index.
    src, dst, weight, timestamp, edge_attrs, splits : optional
        As in `build`.
    **options
        All others of `build`.

    Returns
    -------
    Dataset

    Raises
    ------
    TypeError
        If one is no frame.
    ValueError
        If a column is missing, nothing says which it is, or nodes have no record or several.
    """
    values: dict[str, Any] = {}
    if nodes is not None:
        values, unused = nodes_of_frame(
            nodes, features=features, labels=labels, node_attrs=node_attrs, id_column=id_column
        )
        if not values:
            options.setdefault("num_nodes", len(nodes))
        if options.get("ids") is not None:
            raise ValueError(
                "nodes= has a record for each of the nodes 0, 1, 2, ..., and ids= gives them "
                "other ids: write nodes to a Parquet file, and give its columns to build()"
            )
        if unused and node_attrs is None:
            warnings.warn(
                f"nodes has columns that are not used: {', '.join(unused)}; node_attrs={unused} "
                f"stores them, node_attrs=[] says that they are not needed",
                UserWarning,
                stacklevel=2,
            )
    elif features or labels or node_attrs or id_column:
        raise ValueError("features, labels, node_attrs and id_column name columns of nodes=")
    given = edges_of_frame(edges, edge_attrs)
    return build(
        out,
        given,
        splits=splits,
        nodes=values,
        src=src,
        dst=dst,
        weight=weight,
        timestamp=timestamp,
        edge_attrs=[] if edge_attrs is not None else None,
        **options,
    )
