"""`build` and `reorder`: they write a dataset with `graphzero.ingest`, and open it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from graphzero.graph.dataset import Dataset
from graphzero.graph.opening import open_dataset
from graphzero.ingest.attributes import is_typed_input
from graphzero.ingest.build import build_dataset
from graphzero.ingest.closing import Closing
from graphzero.ingest.reorder import reorder_dataset
from graphzero.ingest.typed_build import build_typed_dataset
from graphzero.sampling.presample import Presample
from graphzero.store.manifest import EdgeType, Neighbors

__all__ = ["build", "reorder", "write_dataset"]

Order = Literal["hot", "input", "presample"]


def _presampler(order: str, presample: Presample | None) -> Presample | None:
    return Presample() if order == "presample" and presample is None else presample


def build(
    path: str | os.PathLike[str],
    edges: Any,
    features: Any = None,
    labels: Any = None,
    splits: Mapping[str, Any] | None = None,
    *,
    nodes: Mapping[str, Any] | None = None,
    edge_splits: Mapping[str, Any] | None = None,
    weight_attrs: str | Iterable[str] | None = None,
    time_attrs: str | Iterable[str] | None = None,
    num_nodes: int | None = None,
    ids: Literal["dense", "map", "integer", "string"] | None = "dense",
    directed: bool = True,
    neighbors: Neighbors = "in",
    order: Order = "hot",
    presample: Presample | None = None,
    src: str | int | None = None,
    dst: str | int | None = None,
    weight: Any = None,
    timestamp: Any = None,
    header: bool | Literal["auto"] = "auto",
    delimiter: str = "auto",
    on_bad_rows: Literal["raise", "skip"] = "raise",
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

    The dataset appears in one step, when all files are complete; until then, an earlier dataset
    in the folder is unchanged. Temporary files of an interrupted build are removed by the next
    build. Other files in the folder are not touched. Parallel edges are kept,
    unless `coalesce` merges them.

    Columns of tables are never guessed: their names say what they are (``docs/building.md`` lists
    those that are recognised), or options do, or the table is refused. Wherever a path can stand, a
    `Source` can, which has reading options of its own.

    Parameters
    ----------
    path : path-like
        Folder of the dataset; created if it does not exist.
    edges : path, array or tensor, or dict
        The edge list: text such as ``.csv`` or ``.txt`` (also with ``.gz``, ``.zst``, ``.bz2`` or
        ``.xz``), Parquet, Arrow IPC or Feather, in one file or as a list, a pattern or a folder of
        files; a table of pandas, polars or pyarrow; a file of arrays, or integers in memory, of
        shape (E, 2) or (2, E). Comment lines (``#``, ``%``) at the top of a text file and blank
        lines are skipped. An edge (s, d) leads from s to d.

        Files of arrays, here and for all other arguments, are ``.npy``, ``.npz``, ``.safetensors``
        and torch's ``.pt``. They are mapped, or streamed where they are compressed, and never
        loaded. ``"data.npz:edge_index"`` names one of several arrays; without a name there must be
        one array, or one with a usual name, such as edge_index, x or node_feat, y or labels, or
        that of the attribute or split. Of a ``.pt`` file only tensors are read, and no code in it
        is executed; "paper/x" is a tensor in a dictionary or graph within it.

        Or a sparse matrix: of SciPy or torch in memory, a ``.npz`` file of
        ``scipy.sparse.save_npz``, or a ``.gl`` file of graphzero 0.2. The entry (i, j) is the edge
        from i to j, explicit zeros and duplicates included. Its values are the weights, unless
        ``weight=False``. Its shape is the number of nodes.

        Or an iterator of chunks, or a function that returns one: pairs of vectors (sources,
        targets), arrays of shape (2, n) or (n, 2), or dictionaries of vectors by the names of the
        columns, such as {"src": ..., "dst": ..., "weight": ...}. It is read once. Features, labels,
        attributes and splits may be iterators as well, of arrays of rows; these are kept in an
        unnamed temporary file in the folder until the build ends. Errors that an iterator raises
        pass unchanged.

        Or a dictionary with the edge list as "edge_index", where an array of two edges is (2, E),
        and attributes of the edges under their names: arrays or files of arrays, (E, ...),
        CSV or Parquet files with a record for each edge and values in all columns, in the order of
        the edge list. Attributes keep their dtype and shape; of CSV files, "edge_attr" becomes
        float32, and the first record decides whether others are int64 or float32.

        Of a typed graph: a dictionary by edge type, (source type, relation, target type), of edge
        lists or of such dictionaries. An array of two edges is (2, E).

        Columns of a table that are not used cause a `UserWarning` that names them.
    features : path, array or tensor, optional
        A file of arrays (or a ``.gd`` file of graphzero 0.2), an array or an iterator of arrays,
        of shape (num_nodes, dim), (num_nodes,) or with more dimensions.
        Or a table, as `edges` may be one, with node ids in any order (see `id_column`); nodes that
        it does not name get zeros, and a `UserWarning` counts them. Values of text become float32,
        others keep their dtype. Columns of lists of one length are vectors; one without a node id
        beside it is in the order of the nodes. A list of files, or of matrices, has the rows one
        after the other, as that of any attribute.
    labels : path, array or tensor, optional
        As `features`: a number or a row of numbers for each node. A CSV or Parquet file of one
        column holds the labels in the order of the nodes. Every node needs a label; -1, or NaN
        among floats, is the usual value for "no label".
    splits : mapping of str to path, array or tensor, optional
        Node ids, or a boolean mask over all nodes. Of a typed graph, dictionaries of these by node
        type; of `edge_splits`, by edge type.
    nodes : dict, optional
        Attributes of the nodes by name, each as `labels`; "x" is another way to give `features`,
        and "y" to give `labels`. Names are Python identifiers, different for nodes and edges, and
        not those of what a mini-batch has besides, such as "n_id" or "to".

        Of a typed graph: such dictionaries by node type, for every type that edges lead from or to;
        {} for nodes without attributes, with "num_nodes" if the edges do not name all of them.
        `features`, `labels`, `num_nodes`, `src`, `dst`, `edge_attrs`, ``directed=False`` and
        ``neighbors="both"`` are for graphs without types.
    edge_splits : mapping of str to path, array or tensor, optional
        Positions in the edge list, or a boolean mask over it.
    weight_attrs : str or list of str, optional
        The edge attribute that is the weight of edges in weighted sampling: a vector of finite
        numbers that are not negative, stored as float32. Default: "edge_weight" or "weight", if
        the edges have an attribute of that name; an empty list for none.
    time_attrs : str or list of str, optional
        The attribute by whose times edges are sampled: a vector of integers. If it is one of the
        edges, it is stored as int64. If it is one of the nodes, the time of an edge is that of the
        sampled neighbour. Default: "edge_time", "timestamp" or "time", if the edges have an
        attribute of that name; an empty list for none.
    num_nodes : int, optional
        Default: the number of rows of a node attribute; without any, the largest id + 1.
    ids : {"dense", "map", "integer", "string"}
        What names the nodes in edges, splits and tables with a column of node ids. "dense", or
        None: their numbers, 0 to num_nodes - 1. "map": any integers of 64 bits, or any texts. Node
        i is then the one with the i-th smallest of all ids of edges and tables; ids of splits must
        be among them. ``ds.node_ids`` has the user's id of each node, ``ds.lookup(ids)`` the node
        of each id; everything else, seeds and ``batch.n_id`` included, has the numbers of nodes.
        A typed graph has ids of its own for each node type.

        With "map", the ids of a node type are integers if all of them are, in arrays and columns
        of integers and as the text of an integer as Python writes it; else all are texts. So "007"
        and "7" are two nodes. "integer" reads every text as an integer, and refuses others;
        "string" leaves them texts. Texts are sorted by UTF-8 bytes; empty ones, those of more than
        4096 bytes and those that begin or end with a blank are refused. Attributes of nodes need a
        column of ids (see `id_column`), splits ids rather than a mask; `num_nodes`, sparse matrices
        and iterators that can be read only once are refused, and so is ``on_bad_rows="skip"``. A
        split that is a list of str has ids; ``gz.Source([...])`` has files.
    directed : bool
        If False, each edge is stored in both directions, a self-loop once. An edge list that has
        both directions of every edge already (as PyG's ``edge_index`` does) is recognised: each
        pair is stored as one edge, and a `UserWarning` says so. Both directions must then have the
        same attributes. If only a part of the edges, at least half, have their reverse, all are
        stored, and a `UserWarning` says how many.
    neighbors : {"in", "out", "both"}
        Which neighbours of a node are stored, and sampled. "in": the sources of its incoming edges,
        so that messages flow along the edges, as in PyG, DGL and GraphBolt. "out": the targets of
        its outgoing edges, which random walks need; messages then flow against the edges. "both":
        "in" is what is sampled, and walks have a second file. An undirected graph has both in one
        file, whatever is chosen.
    order : {"hot", "input", "presample"}
        How nodes are ordered in the files. "hot": by how often a node stands in the neighbour lists
        that are sampled, descending, ties by id. "input": by id. "presample": by descending number
        of visits in a few sampled epochs, ties as in "hot"; the seeds are the split "train", or all
        nodes if there is none. The visit counts are stored in the dataset. Of a typed graph, each
        node type has an order of its own, and the seeds are the splits "train" of the node types
        that have one, or all nodes of all types.
    presample : Presample, optional
        How to sample for order="presample".
    src, dst : str or int, optional
        Columns of the edge list, by name, or by position from 0. Default: the one pair of columns
        whose names are recognised, such as src and dst, source and target, or from and to; of a
        table of two columns whose names say nothing, the first and the second.
    weight, timestamp : str, int, False or array, optional
        A column by name or position; for edges in an array, an (E,) array or the path of a
        file of arrays. Default: the column with a recognised name, such as weight, edge_weight,
        timestamp or time, if there is one; False ignores it. Weights become float32, and must not
        be negative; timestamps become int64. They are the attributes "edge_weight" and "edge_time".
    header : bool or "auto"
        Whether the edge list begins with a header; "auto" takes the first line for a header if
        none of its cells is a number.
    delimiter : str
        Of the edge list: one character, "whitespace" for any number of blanks and tabs, or "auto"
        for tab, semicolon, comma or whitespace.
    on_bad_rows : {"raise", "skip"}
        What becomes of records of an edge list in text files that cannot be read: with another
        number of columns, with a cell that is empty or no number, with an id or a weight that is
        out of range. "raise": a `ValueError` names the file and the line of the first one. "skip":
        they are left out, and a `UserWarning` counts them and shows the first ten. The position of
        an edge is then its number among those that were kept, so that `edge_splits` and attributes
        of edges, which belong to edges by their positions, are refused.
    edge_ids : bool
        Whether to store each edge's position in the edge list. Always stored with `edge_splits`
        and with edge attributes that do not drive sampling.
    coalesce : bool, str or dict
        Whether to merge parallel edges: those with the same source and target; of an undirected
        graph, with the same two ends. With True, the attributes of merged edges must be equal, else
        an error names the two edges. "sum", "mean", "min", "max", "first" and "last" (of the edge
        list) merge the attributes, and a dictionary names the aggregation of some of them:
        ``{"edge_weight": "sum"}``. Results have the dtype of the attribute: sums of integers are
        exact, sums and means of floats are made in float64, a result that does not fit is an error,
        and integers have no mean. "sum" and "mean" for all attributes leave out the times that
        drive sampling, which must be equal or named. The position of a merged edge (``e_id``) is
        that of the first of its edges; positions in `edge_splits` become that one, once.
        Of a typed graph, for all edge types, or a dictionary of these by edge type.
    drop_self_loops : bool or dict
        Whether to leave out edges from a node to itself; positions of them in `edge_splits` are
        left out as well. Of a typed graph, for all edge types whose ends have one type, or a
        dictionary by edge type.
    reverse : bool or dict
        Whether to exchange the source and the target of every edge. Of a typed graph, a dictionary
        by edge type: the targets come first in these lists.
    feature_dtype : str or dtype-like, optional
        Dtype to store features in: "float16", "bfloat16", or another of ``docs/format.md``.
        Floats are rounded to nearest, ties to even; a number that does not fit is an error. A
        ``.npy`` or ``.npz`` file of dtype ``|V2``, as NumPy saves ml_dtypes' bfloat16, needs
        "bfloat16". Default: the dtype of the input.
    edge_attrs : list of str, or dict of str to str or int, optional
        Columns of the edge list that become attributes of the edges, under their names; or a
        dictionary with the column, by name or position, for the name of each attribute. Columns of
        Parquet keep their dtype; of CSV files, the first record decides between int64 and float32.
        An empty list says that the columns that are not used are not needed: no warning.
    id_column : str, int or False, optional
        The column of node ids in CSV and Parquet files of features, labels and other attributes of
        nodes, by name or position. False: there is none, and the records are in the order of the
        nodes. Default: the column named id, node_id, node, nid, vertex or vertex_id; without one,
        only a file of one column is accepted, whose records are in the order of the nodes.
    memory_limit : int or str
        Bytes, or a text such as "2GB" or "512MiB". Limits what the build itself allocates, besides
        the interpreter and pyarrow's buffers (some 20 MB, whatever the size of the input). What
        does not fit is written to unnamed temporary files in the folder.
    progress : bool
        Whether to show progress on stderr, and at the end which columns were read and which were
        not.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        Naming the file, the line and the wrong text; the array, chunk and position.
    IndexError
        If a split has a node that does not exist.
    OSError
        With errno and path: no such file, no permission, no disk space, or another build or
        a measurement (``graphzero tune``) uses the folder.
    """
    options: dict[str, Any] = {
        "nodes": nodes,
        "edge_splits": edge_splits,
        "weight_attrs": weight_attrs,
        "time_attrs": time_attrs,
        "num_nodes": num_nodes,
        "ids": ids,
        "directed": directed,
        "neighbors": neighbors,
        "order": order,
        "presample": presample,
        "src": src,
        "dst": dst,
        "weight": weight,
        "timestamp": timestamp,
        "header": header,
        "delimiter": delimiter,
        "on_bad_rows": on_bad_rows,
        "edge_ids": edge_ids,
        "coalesce": coalesce,
        "drop_self_loops": drop_self_loops,
        "reverse": reverse,
        "feature_dtype": feature_dtype,
        "edge_attrs": edge_attrs,
        "id_column": id_column,
        "memory_limit": memory_limit,
        "progress": progress,
    }
    closing = write_dataset(path, edges, features, labels, splits, **options)
    closing.tell(progress, stacklevel=2)
    return open_dataset(path)


def write_dataset(
    path: str | os.PathLike[str],
    edges: Any,
    features: Any = None,
    labels: Any = None,
    splits: Mapping[str, Any] | None = None,
    *,
    nodes: Mapping[str, Any] | None = None,
    presample: Presample | None = None,
    order: Order = "hot",
    **options: Any,
) -> Closing:
    """As `build`, but returns what is to be said at the end, and neither says it nor opens it."""
    closing = Closing()
    options = {**options, "order": order, "presample": _presampler(order, presample)}
    write = build_typed_dataset if is_typed_input(nodes, edges) else build_dataset
    write(path, edges, features, labels, splits, nodes=nodes, closing=closing, **options)
    return closing


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
        Bytes, or a text such as "2GB". Limits what this allocates, except for the mini-batches
        that presampling draws. What does not fit is written to unnamed temporary files in the
        folder.
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
    presampler = _presampler(order, presample)
    reorder_dataset(
        path,
        order,
        neighbors=neighbors,
        presample=presampler,
        memory_limit=memory_limit,
        progress=progress,
    )
    return open_dataset(path)
