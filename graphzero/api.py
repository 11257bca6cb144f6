"""`build`, `set_attribute`, `reorder` and others write a dataset, and open it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from graphzero.graph.dataset import Dataset, open_dataset
from graphzero.ingest.append import append_dataset
from graphzero.ingest.build import reorder_dataset, write_dataset
from graphzero.ingest.changes import Changes, change_dataset
from graphzero.ingest.insertion import positions_after, removed_positions
from graphzero.ingest.link_split import LinkSplit
from graphzero.ingest.ogb import find_ogb
from graphzero.ingest.options import BuildOptions, check_memory_limit
from graphzero.sampling.presample import Presample
from graphzero.store.folder import once
from graphzero.store.manifest import EdgeType, Neighbors

Order = Literal["hot", "input", "presample"]

# Of `build`, what a whole graph does not say: a folder of OGB, or a graph of PyG.
GRAPH_OPTIONS = {
    *("neighbors", "order", "presample", "weight_attrs", "time_attrs", "edge_ids"),
    *("edge_splits", "feature_dtype", "memory_limit", "progress"),
}


def build(
    path: str | os.PathLike[str],
    edges: Any,
    features: Any = None,
    labels: Any = None,
    splits: Mapping[str, Any] | None = None,
    *,
    nodes: Mapping[str, Any] | None = None,
    edge_splits: LinkSplit | Mapping[Any, Any] | None = None,
    weight_attrs: str | Iterable[str] | None = None,
    time_attrs: str | Iterable[str] | None = None,
    num_nodes: int | None = None,
    ids: Literal["dense", "map"] | None = "dense",
    directed: bool | None = None,
    neighbors: Neighbors = "in",
    order: Order = "hot",
    presample: Presample | None = None,
    src: str | int | None = None,
    dst: str | int | None = None,
    weight: Any = None,
    timestamp: Any = None,
    header: bool | Literal["auto"] = "auto",
    delimiter: str = "auto",
    edge_ids: bool = False,
    coalesce: bool | str | Mapping[Any, Any] = False,
    drop_self_loops: bool | Mapping[EdgeType, bool] = False,
    reverse: bool | Mapping[EdgeType, bool] = False,
    feature_dtype: Any = None,
    edge_attrs: Sequence[str] | Mapping[str, str | int] | None = None,
    id_column: str | int | Literal[False] | None = None,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> Dataset:
    """Builds a dataset folder from edges and attributes of nodes and edges, and opens it.

    An earlier dataset in the folder is replaced in one step, when the new one is complete. Files
    are read in pieces and are never modified. Where several ranks of ``torch.distributed`` or
    torchrun call this, one of them builds, and the others wait for it. ``docs/ingest.md`` describes
    every kind of input, ``docs/building.md`` every option.

    Parameters
    ----------
    path : path-like
        The folder.
    edges : path, array, tensor, table, sparse matrix, iterator or dict
        An edge list: a file or several, a folder or pattern, a table with a column for either end,
        an array of shape (E, 2) or (2, E). ``{"edge_index": ..., "edge_weight": ...}`` has
        attributes beside it. Of a typed graph, such values by (source type, relation, target type).
    features, labels : path, array, tensor or table, optional
        A row or a number for each node; `nodes` takes them as "x" and "y".
    splits, edge_splits : dict, optional
        Node ids, or positions in the edge list, or a boolean mask, by name. Of a typed graph, by
        name and by type. `edge_splits` is also a `LinkSplit`, which holds edges out of the graph;
        of a typed graph, by type.
    nodes : dict, optional
        Attributes of the nodes by name; of a typed graph, by node type and by name, with
        "num_nodes" for nodes that nothing else counts.
    weight_attrs, time_attrs : str or list of str, optional
        Attributes by which neighbours are sampled. Default: the edge attributes named edge_weight
        or weight, and edge_time, timestamp or time; an empty list for none.
    num_nodes : int, optional
        Default: the rows of an attribute, else the largest id + 1.
    ids : {"dense", "map"}
        "dense": ids are the numbers 0 to num_nodes - 1. "map": any integers of 64 bits or any
        texts; ``ds.node_ids`` and ``ds.lookup`` lead from one to the other.
    directed : bool, optional
        If True, edges are stored as the list has them. If False, each is stored in both directions,
        a self-loop once; a list that has both directions of every edge is recognised, with a
        warning. Default: as True, but a long list in which no edge has its reverse is warned of, as
        only you know which is meant.
    neighbors : {"in", "out", "both"}
        Which neighbours are sampled. Messages flow along the edges with "in"; random walks need
        "out" or "both".
    order : {"hot", "input", "presample"}
        How nodes are ordered in the files: by occurrences in neighbour lists, by id, or by visits
        in sampled mini-batches.
    presample : Presample, optional
        How to sample for order="presample".
    src, dst, weight, timestamp : str, int, False or array, optional
        Columns of the edge list, by name or position; weights and times also as arrays. Default:
        columns with recognised names; False ignores them.
    header, delimiter : bool or str
        Of text: whether it begins with names, and what stands between cells; "auto" looks.
    edge_ids : bool
        Whether to store the position of each edge in the edge list.
    coalesce : bool, str or dict
        Whether to merge parallel edges. True: their attributes must be equal. "sum", "mean", "min",
        "max", "first" or "last", also by attribute, merges these. Of a typed graph, also by type.
    drop_self_loops, reverse : bool or dict
        Whether to leave out self-loops; whether the edge list has the targets first.
    feature_dtype : dtype-like, optional
        To store features in, such as "float16" or "bfloat16". Default: float32 for those of tables,
        the dtype of an array.
    edge_attrs : list of str, or dict of str to column, optional
        Columns of the edge list that become attributes; an empty list for none, without a warning.
    id_column : str, int or False, optional
        The column of node ids in tables of attributes; False: records are in the order of the
        nodes. Default: the column named id, node_id, node, nid, vertex or vertex_id.
    memory_limit : int or str
        Bytes, or a text such as "2GB", at least 256MB. What does not fit is written to unnamed
        temporary files in the folder.
    progress : bool
        Whether to show progress and the columns that were read, on stderr.

    Raises
    ------
    ValueError
        Naming the file, the line and the wrong text; the array, chunk and position.
    IndexError
        If a split has a node that does not exist.
    OSError
        With errno and path: no file, no permission, no disk space, or the folder is in use.
    """
    options = BuildOptions(
        edges=edges,
        features=features,
        labels=labels,
        splits=splits,
        nodes=nodes,
        edge_splits=edge_splits,
        weight_attrs=weight_attrs,
        time_attrs=time_attrs,
        num_nodes=num_nodes,
        ids=ids,
        directed=directed,
        neighbors=neighbors,
        order=order,
        presample=presample,
        src=src,
        dst=dst,
        weight=weight,
        timestamp=timestamp,
        header=header,
        delimiter=delimiter,
        edge_ids=edge_ids,
        coalesce=coalesce,
        drop_self_loops=drop_self_loops,
        reverse=reverse,
        feature_dtype=feature_dtype,
        edge_attrs=edge_attrs,
        id_column=id_column,
        memory_limit=memory_limit,
        progress=progress,
    )
    return built_dataset(path, options)


def checked_options(options: BuildOptions) -> BuildOptions:
    """The options of a build as users may give them, with the default way to presample.

    Raises
    ------
    ValueError
        If the memory limit is too small.
    """
    check_memory_limit(options.memory_limit)
    if options.order == "presample" and options.presample is None:
        return replace(options, presample=Presample())
    return options


def built_dataset(path: str | os.PathLike[str], options: BuildOptions) -> Dataset:
    """Builds, or waits for the rank that does, and opens the dataset."""
    notes = once(path, partial(write_dataset, path, checked_options(options)))
    if notes is not None:
        notes.tell(options.progress, stacklevel=3)
    return open_dataset(path)


def reorder(
    path: str | os.PathLike[str],
    order: Order = "hot",
    *,
    neighbors: Neighbors | None = None,
    presample: Presample | None = None,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> Dataset:
    """Rewrites a dataset with its nodes in another order, and opens it.

    The dataset has the same content as before, in the user's own ids: neighbours, weights, times,
    edge ids, attributes and splits. Only random draws change: the same seed picks other
    neighbours. Every file is first checked against its checksums. The new files replace the old
    ones in one step; processes that have the dataset open keep the old files.

    Parameters
    ----------
    path : path-like
        Folder of the dataset. Its disk needs room for a second copy.
    order : {"hot", "input", "presample"}
        By occurrences in the neighbour lists, by id, or by visits in a few sampled epochs, as in
        `build`.
    neighbors : {"in", "out", "both"}, optional
        Which neighbours a directed graph is to store, as in `build`. Default: those that it has.
    presample : Presample, optional
        How to sample for order="presample".
    memory_limit : int or str
        Bytes, or a text such as "2GB", at least 256MB. Limits what this allocates, except for the
        mini-batches that presampling draws. What does not fit is written to unnamed temporary
        files in the folder.
    progress : bool
        Whether to show progress on stderr.

    Returns
    -------
    Dataset

    Raises
    ------
    FormatError
        If a file is damaged.
    FileNotFoundError
        If there is no dataset.
    OSError
        With errno and path: no permission, no disk space, or a build is writing to the folder.
    """
    check_memory_limit(memory_limit)
    if order == "presample" and presample is None:
        presample = Presample()
    reorder_dataset(
        path,
        order,
        neighbors=neighbors,
        presample=presample,
        memory_limit=memory_limit,
        progress=progress,
    )
    return open_dataset(path)


def set_attribute(
    path: str | os.PathLike[str],
    name: str,
    value: Any,
    *,
    of: str | EdgeType | None = None,
    dtype: Any = None,
    id_column: str | int | Literal[False] | None = None,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> Dataset:
    """Gives the nodes or edges of a dataset an attribute, without a build, and opens it.

    An earlier attribute of this name is replaced, in one step. One file is written, in the stored
    order; processes that have the dataset open keep what they have.

    Parameters
    ----------
    path : path-like
        Folder of the dataset.
    name : str
        "x" are the features of nodes, "y" their labels.
    value : path, array, tensor, table, iterator, Source or FeatureStore
        A row for each node in the user's ids, or for each edge of the edge list that was built.
        What `build` takes for attributes, and what `infer` returns, or its file.
    of : str or tuple, optional
        Of a typed graph: the node type or edge type. Of others, "node", the default, or "edge".
    dtype : dtype-like, optional
        To store it in, such as "float16". Default: as in `build`.
    id_column : str, int or False, optional
        Of a table of nodes, as in `build`.
    memory_limit : int or str
        As in `build`.
    progress : bool
        Whether to show progress on stderr.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If the value does not fit; if neighbours are sampled by the attribute, which takes a build;
        or if the edges of the edge list are not known: it was built without ``edge_ids=True``,
        edges were merged, or `LinkSplit` has held some out.
    OSError
        With errno and path: no dataset, no disk space, or a build is writing to the folder.
    """
    changes = Changes(of, attributes={name: value}, dtype=dtype, id_column=id_column)
    return change(path, changes, memory_limit=memory_limit, progress=progress)


def drop_attribute(
    path: str | os.PathLike[str], name: str, *, of: str | EdgeType | None = None
) -> Dataset:
    """Removes an attribute of nodes or edges, and opens the dataset; see `set_attribute`."""
    return change(path, Changes(of, drop_attributes=[name]))


def set_split(
    path: str | os.PathLike[str],
    name: str,
    value: Any,
    *,
    of: str | EdgeType | None = None,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> Dataset:
    """Sets a split of nodes or edges, or removes it if the value is None, and opens the dataset.

    Parameters
    ----------
    path, name, of, memory_limit, progress
        As in `set_attribute`.
    value : path, array, tensor, table, Source or None
        The user's ids of its nodes, positions in the edge list, or a mask, as in `build`.
        Self-loops that the build has dropped are left out, with a warning.

    Returns
    -------
    Dataset

    Raises
    ------
    IndexError
        If a node or an edge does not exist.
    ValueError, OSError
        As in `set_attribute`.
    """
    changes = Changes(of, splits={name: value})
    if value is None:
        changes = Changes(of, drop_splits=[name])
    return change(path, changes, memory_limit=memory_limit, progress=progress)


def change(
    path: str | os.PathLike[str],
    changes: Changes,
    *,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> Dataset:
    """Sets and drops what `changes` say in one step, or waits for the rank that does."""
    check_memory_limit(memory_limit)
    once(path, partial(change_dataset, path, changes, memory_limit, progress))
    return open_dataset(path)


def append(
    path: str | os.PathLike[str],
    edges: Any = None,
    *,
    nodes: Mapping[str, Any] | None = None,
    remove_edges: Any = None,
    memory_limit: int | str = "2GB",
    progress: bool = False,
) -> Dataset:
    """Adds edges and nodes to a dataset, or removes edges, and opens it.

    The dataset is then that of one build of all edges and nodes, earlier ones first, but for the
    order of nodes: new ones stand behind the others, until `reorder` puts them where they belong.
    Neighbour lists are copied, and what is new is put in between; nothing is sorted again. The new
    files replace the old ones in one step; what has the dataset open keeps the old files, until
    `Dataset.reload`.

    Parameters
    ----------
    path : path-like
        Folder of the dataset. Its disk needs room for a second copy of the files that change.
    edges : as in `build`, optional
        New edges with every attribute that the stored ones have, of a table in columns of these
        names unless ``gz.Source(..., edge_attrs=...)`` says otherwise; of a typed graph, by edge
        type. Their positions follow those of the stored edges.
    nodes : dict, optional
        Every attribute that the stored nodes have, with rows for new nodes, whose ids follow those
        of the stored ones; "num_nodes" says how many they are if there are no attributes. Of a
        typed graph, by node type. Default: nodes without attributes are counted by the edges. With
        ``ids="map"``, tables with ids, of which the new ones get the highest numbers. Features and
        labels may lack some nodes, as in `build`.
    remove_edges : (n,) integers or (num_edges,) bool, optional
        Positions in the edge list, or a mask of it; of a typed graph, by edge type. The edges that
        stay move up, as `remap_edge_ids` says, and splits of edges lose those that are removed.
    memory_limit : int or str
        As in `build`.
    progress : bool
        Whether to show progress on stderr.

    Returns
    -------
    Dataset

    Raises
    ------
    FormatError
        If a file is damaged.
    IndexError
        If an edge to remove does not exist.
    ValueError
        Naming the file, the line and the wrong text; if an attribute is missing, or is not stored;
        if positions of edges to remove are not stored (`build` with ``edge_ids=True``);
        or if edges with attributes or both directions of edges were merged, or `LinkSplit` has held
        some out.
    OSError
        With errno and path: no dataset, no disk space, or a build is writing to the folder.
    """
    check_memory_limit(memory_limit)
    work = partial(
        append_dataset,
        path,
        edges,
        nodes,
        remove_edges,
        memory_limit=memory_limit,
        progress=progress,
    )
    once(path, work)
    return open_dataset(path)


def remap_edge_ids(edge_ids: npt.ArrayLike, removed: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Positions of edges in the edge list after `append` has removed others.

    Parameters
    ----------
    edge_ids : (n,) integers
        Earlier positions, such as a batch's `e_id`.
    removed : (m,) integers or (num_edges,) bool
        The `remove_edges` of `append`; of a typed graph, those of the edge type.

    Returns
    -------
    (n,) int64
        -1 for edges that were removed.

    Raises
    ------
    IndexError
        If a position of a removed edge is negative.
    ValueError
        If `removed` is neither positions nor a mask.

    Examples
    --------
    >>> gz.remap_edge_ids([0, 1, 2, 3], removed=[1])
    array([ 0, -1,  1,  2])
    """
    return positions_after(removed_positions(removed), edge_ids)


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
    training only. The lists of edges that OGB's ``get_edge_split`` returns are not imported, and a
    `UserWarning` says so; ``docs/ingest.md`` shows how to load them.

    Parameters
    ----------
    path : path-like
        The folder that has ``raw`` and ``split``, such as ``dataset/ogbn_arxiv``.
    out : path-like
        Folder of the dataset, as in `build`.
    name : str, optional
        Such as "ogbn-arxiv". Default: by the name of the folder.
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
    TypeError
        If an option is one that the files decide.
    """
    allowed = GRAPH_OPTIONS | {"coalesce", "drop_self_loops", "reverse"}
    if unknown := sorted(options.keys() - allowed):
        raise TypeError(f"{unknown[0]}= is not an option here: there are {sorted(allowed)}")
    arguments = find_ogb(path, name=name, directed=directed, split_type=split_type)
    return built_dataset(out, BuildOptions(**{**arguments, **options}))
