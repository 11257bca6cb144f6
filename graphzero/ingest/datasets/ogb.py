"""OGB's datasets for nodes and links, without the ogb package.

The layouts are those that https://github.com/snap-stanford/ogb reads: ``ogb/io/read_graph_raw.py``
(``read_csv_graph_raw``, ``read_binary_graph_raw``, and those for graphs with types, which are in
`graphzero.ingest.datasets.ogb_typed`), ``ogb/nodeproppred/dataset.py`` (labels, splits) and
``ogb/linkproppred/dataset.py`` (splits).

As text: ``raw/edge.csv.gz`` with a source and a target a line, ``raw/num-node-list.csv.gz``,
``raw/num-edge-list.csv.gz``, ``raw/node-feat.csv.gz``, ``raw/edge-feat.csv.gz``, further
attributes in ``raw/node_*.csv.gz`` and ``raw/edge_*.csv.gz``, and ``raw/node-label.csv.gz``; no
file has a header. Binary: ``raw/data.npz`` with ``edge_index``, ``num_nodes_list``,
``num_edges_list``, ``node_*`` and ``edge_*``, and ``raw/node-label.npz`` with ``node_label``.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from graphzero.ingest.datasets.description import ClassLabels, FoundDataset, as_vector
from graphzero.ingest.datasets.ogb_folder import (
    OgbFolder,
    attribute_name,
    edge_values,
    find_folder,
    node_values,
)
from graphzero.ingest.datasets.ogb_splits import find_splits
from graphzero.ingest.datasets.ogb_typed import binary_typed_graph, is_typed, text_typed_graph
from graphzero.ingest.source import Source
from graphzero.ingest.sources.array_opening import open_array
from graphzero.ingest.sources.npz_file import NpzFile

__all__ = ["find_ogb"]


def find_ogb(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    directed: bool | None = None,
    split_type: str | None = None,
) -> FoundDataset:
    """What a folder of OGB holds, as arguments of a build; only small files are read.

    Parameters
    ----------
    path : path-like
        The folder that has ``raw`` and ``split``.
    name : str, optional
        Default: by the name of the folder, or the note of the release in it.
    directed : bool, optional
        Default: what OGB says of the dataset.
    split_type : str, optional
        Folder of the splits. Default: the one that OGB prescribes, or the only one.

    Raises
    ------
    OSError
        If a file is missing: which, and how to get it.
    ValueError
        If a file is damaged, or nothing says whether the graph is directed.
    """
    folder = find_folder(path, name)
    typed, binary = is_typed(folder), _is_binary(folder)
    if typed:
        found = binary_typed_graph(folder) if binary else text_typed_graph(folder)
    else:
        found = _binary_graph(folder) if binary else _text_graph(folder)
    found = replace(found, directed=_direction(folder, directed, binary=binary))
    node_types = list(found.nodes) if typed else None
    splits, seeds = find_splits(folder, split_type, node_types=node_types)
    return replace(found, splits=splits, seeds=seeds)


def _is_binary(folder: OgbFolder) -> bool:
    if any((folder.raw / name).exists() for name in ("edge.csv.gz", "relations")):
        return False
    prescribed = folder.facts is not None and folder.facts.binary
    names = ("data.npz", "edge_index_dict.npz")
    return prescribed or any((folder.raw / name).exists() for name in names)


def _direction(folder: OgbFolder, directed: bool | None, *, binary: bool) -> bool:
    if directed is not None:
        return directed
    if folder.facts is not None:
        return not folder.facts.inverse
    if binary:  # OGB's reader refuses add_inverse_edge for these: the list is whole
        return True
    what = f"{folder.name} is none of OGB's datasets" if folder.name else "its name is not known"
    raise ValueError(
        f"{folder.path}: {what}, and nothing in the folder says whether it is directed: give "
        f"directed=False if raw/edge.csv.gz has each undirected edge once (OGB's "
        f"add_inverse_edge), else directed=True; or name= for one of OGB's, such as 'ogbn-arxiv'"
    )


def _text_graph(folder: OgbFolder) -> FoundDataset:
    raw = folder.raw
    edges = Source(folder.require(raw / "edge.csv.gz"), src=0, dst=1, header=False)
    num_nodes = folder.count(raw / "num-node-list.csv.gz")
    folder.count(raw / "num-edge-list.csv.gz")  # one graph
    nodes: dict[str, Any] = dict(node_values(raw))
    species = raw / "species.csv.gz"  # of ogbn-proteins, which OGB renames as it reads it
    if species.exists():
        nodes["species"] = Source(species, header=False, id_column=False)
    label = raw / "node-label.csv.gz"
    if label.exists() or folder.name.startswith("ogbn-"):
        nodes["y"] = Source(folder.require(label), header=False, id_column=False)
    values = edge_values(raw)
    return FoundDataset({"edge_index": edges, **values}, nodes, num_nodes=num_nodes)


def _binary_graph(folder: OgbFolder) -> FoundDataset:
    data = folder.require(folder.raw / "data.npz")
    archive = NpzFile(data)
    for needed in ("edge_index", "num_nodes_list", "num_edges_list"):
        if needed not in archive.names:
            raise ValueError(f"{data} has no array {needed!r}; it has {', '.join(archive.names)}")
    nodes: dict[str, Any] = {}
    edges: dict[str, Any] = {"edge_index": f"{data}:edge_index"}
    for name in archive.names:
        if name.startswith(("node_", "edge_")) and name != "edge_index":
            values = nodes if name.startswith("node_") else edges
            values[attribute_name(name)] = _values(data, name)
        elif not name.startswith("num_") and name != "edge_index":
            raise ValueError(f"{data} has {name!r}, which is neither of nodes nor of edges")
    label = folder.raw / "node-label.npz"
    if label.exists() or folder.name.startswith("ogbn-"):
        nodes["y"] = _labels(folder, folder.require(label))
    return FoundDataset(edges, nodes, num_nodes=_count(archive))


def _values(path: Path, name: str) -> Any:
    """An attribute; one of a single column is a vector. Features stay rows."""
    if name in ("node_feat", "edge_feat"):
        return f"{path}:{name}"
    return as_vector(open_array(f"{path}:{name}", name))


def _labels(folder: OgbFolder, path: Path) -> Any:
    array = as_vector(open_array(f"{path}:node_label", "node_label"))
    classes = folder.facts is not None and folder.facts.classes
    if classes and array.ndim == 1 and array.dtype.kind == "f":
        return ClassLabels(f"{path}:node_label", array)
    return array


def _count(archive: NpzFile) -> int:
    counts = np.atleast_1d(archive.value("num_nodes_list"))
    if counts.shape != (1,) or counts.dtype.kind not in "iu":
        raise ValueError(
            f"{archive.path}:num_nodes_list has {len(counts):,} numbers: the folder holds so many "
            f"graphs, and a dataset folder holds one"
        )
    return int(counts[0])
