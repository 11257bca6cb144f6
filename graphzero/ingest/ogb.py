"""Folders of the Open Graph Benchmark as arguments of a build, without the ogb package.

The layouts are those that ``read_csv_graph_raw``, ``read_binary_graph_raw``,
``read_csv_heterograph_raw`` and ``read_binary_heterograph_raw`` of OGB read: compressed text
without headers in ``raw/*.csv.gz``, or arrays in ``raw/*.npz``; types as folders
``raw/relations/SOURCE___RELATION___TARGET/`` and ``raw/node-feat/TYPE/``, or as arrays named by
type. Splits of nodes are in ``split/KIND/train.csv.gz`` (``valid``, ``test``), by type in
``split/KIND/TYPE/``, or in ``split/KIND/split_dict.pt``.
"""

from __future__ import annotations

import csv
import errno
import gzip
import os
import re
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.options import Source
from graphzero.ingest.rows import open_attribute
from graphzero.ingest.sources.arrays import StoredArray, npz_arrays
from graphzero.ingest.sources.columns import Array, pieces_of, reading

# Whether the graph is directed (else OGB's reader adds the inverse of each edge), and the split
# that is prescribed: of https://github.com/snap-stanford/ogb, ``ogb/nodeproppred/master.csv`` and
# ``ogb/linkproppred/master.csv``, in release 1.3.6 of the package.
_KNOWN = {
    "ogbn-arxiv": (True, "time"),
    "ogbn-mag": (True, "time"),
    "ogbn-papers100M": (True, "time"),
    "ogbn-products": (False, "sales_ranking"),
    "ogbn-proteins": (False, "species"),
    "ogbl-biokg": (True, "random"),
    "ogbl-citation2": (True, "time"),
    "ogbl-collab": (False, "time"),
    "ogbl-ddi": (False, "target"),
    "ogbl-ppa": (False, "throughput"),
    # Its list has both directions already: https://github.com/snap-stanford/ogb/issues/241
    "ogbl-vessel": (True, "spatial"),
    "ogbl-wikikg2": (True, "time"),
}
_NAME = re.compile(r"ogb[nl]-[A-Za-z0-9_-]+")
_CLASSES_AS_FLOATS = "ogbn-papers100M"
_SPLITS = {"train": "train", "valid": "val", "test": "test"}  # OGB's names, and ours
_ATTRIBUTES = {"node_feat": "x", "node_label": "y", "edge_feat": "edge_attr"}
_LABELS_AT_ONCE = 1 << 18
_ROWS_AT_ONCE = 1 << 16

Values = dict[str, Any]
ByType = dict[Any, Values]  # "" in a graph without types


class _Folder:
    """The folder of a dataset, with its ``raw`` and ``split``."""

    def __init__(self, path: Path, name: str | None) -> None:
        if name is not None and _NAME.fullmatch(name) is None:
            raise ValueError(
                f"name={name!r} must be that of a dataset for nodes or links, such as "
                f"'ogbn-arxiv' or 'ogbl-collab'"
            )
        self.path = path = path.parent if path.name == "raw" else path
        by_folder = re.sub("_", "-", re.sub("_(pyg|dgl)$", "", path.resolve().name), count=1)
        self.name = name or self._name_by_files(by_folder)
        self.raw = self.require(path / "raw")
        self.is_typed = any(
            (self.raw / file).exists() for file in ("relations", "edge_index_dict.npz")
        )

    def _name_by_files(self, by_folder: str) -> str:
        for name in _KNOWN:
            if name.lower() == by_folder.lower():
                return name
        for note in sorted(self.path.glob("RELEASE_v*.txt")):
            for name in _NAME.findall(note.read_text("utf-8", "replace")[:1000]):
                return str(name)
        return by_folder

    def require(self, path: Path) -> Path:
        """The path of a file that must be there."""
        if path.exists():
            return path
        raise FileNotFoundError(
            errno.ENOENT,
            f"this file of the dataset is missing: get the complete folder, as the ogb package "
            f"does by NodePropPredDataset({self.name!r}) or LinkPropPredDataset({self.name!r})",
            str(path),
        )

    def lines(self, path: Path) -> list[list[str]]:
        """The lines of a small compressed file."""
        self.require(path)
        with reading(path, "file of OGB"), gzip.open(path, "rt", newline="") as file:
            return list(csv.reader(file))

    def by_type(self, path: Path) -> dict[str, str]:
        """The value of each node type, in a file of a header and one line."""
        lines = self.lines(path)
        with reading(path, "table of one line, of one graph"):
            types, values = lines
            return dict(zip(types, values, strict=True))


def find_ogb(
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    directed: bool | None = None,
    split_type: str | None = None,
) -> dict[str, Any]:
    """Keyword arguments of `graphzero.build` for a folder of OGB; see `graphzero.from_ogb`.

    Only small files are read.
    """
    folder = _Folder(Path(path), name)
    is_binary = any(folder.raw.glob("*.npz"))
    nodes, edges = (_binary_graph if is_binary else _text_graph)(folder)
    if directed is None and folder.name in _KNOWN:
        directed = _KNOWN[folder.name][0]
    if directed is None and not is_binary:  # OGB's reader adds no inverse edges to binary ones
        raise ValueError(
            f"{folder.path} is none of OGB's datasets, by its name, and nothing in it says whether "
            f"it is directed: give directed=False if raw/edge.csv.gz has each undirected edge once "
            f"(OGB's add_inverse_edge), else directed=True; or name= for one of OGB's, such as "
            f"'ogbn-arxiv'"
        )
    arguments: Values = {"nodes": nodes, "edges": edges, "directed": directed is not False}
    if not folder.is_typed:
        arguments["num_nodes"] = nodes[""].pop("num_nodes")
        arguments |= {"nodes": nodes[""], "edges": edges[""]}
    arguments["splits"] = _node_splits(folder, split_type)
    return arguments


def _attribute_name(stem: str) -> str:
    """The name of an attribute: "node_feat" is "x", "node_year" is "year", "edge_year" as it is."""
    stem = stem.replace("-", "_").removesuffix("_dict")
    return _ATTRIBUTES.get(stem, stem.removeprefix("node_"))


def _text_graph(folder: _Folder) -> tuple[ByType, ByType]:
    raw, label = folder.raw, "node-label.csv.gz"
    if folder.is_typed:
        counts = folder.by_type(raw / "num-node-dict.csv.gz")
        with reading(raw / "num-node-dict.csv.gz", "table of numbers of nodes"):
            nodes: ByType = {name: {"num_nodes": int(count)} for name, count in counts.items()}
        for name, values in nodes.items():
            for kind in ("node-feat", "node-label"):
                values.update(_text_values(raw / kind / name, "node"))
        types = map(tuple, sorted(folder.lines(raw / "triplet-type-list.csv.gz")))
        places: dict[Any, Path] = {key: raw / "relations" / "___".join(key) for key in types}
        labelled = _types_with(folder, raw / "nodetype-has-label.csv.gz")
        labels = [raw / "node-label" / name / label for name in labelled]
    else:
        counts_file = raw / "num-node-list.csv.gz"
        lines = folder.lines(counts_file)
        with reading(counts_file, "file of one number, of one graph"):
            ((count,),) = lines
            nodes = {"": {"num_nodes": int(count), **_text_values(raw, "node")}}
        places, labels = {"": raw}, [raw / label]
        if (raw / "species.csv.gz").exists():  # of ogbn-proteins, OGB renames it as it reads it
            nodes[""]["species"] = Source(raw / "species.csv.gz", header=False, id_column=False)
    if folder.name.startswith("ogbn-"):
        for path in labels:
            folder.require(path)
    edges = {
        key: {
            "edge_index": Source(folder.require(place / "edge.csv.gz"), src=0, dst=1, header=False),
            **_text_values(place, "edge"),
        }
        for key, place in places.items()
    }
    return nodes, edges


def _types_with(folder: _Folder, path: Path) -> list[str]:
    """The node types that have something, such as labels."""
    return [name for name, value in folder.by_type(path).items() if value.strip() == "True"]


def _text_values(folder: Path, of: str) -> Values:
    """Attributes in compressed text: ``node-feat.csv.gz``, ``node_year.csv.gz``."""
    id_column = False if of == "node" else None
    values: Values = {
        _attribute_name(path.name.removesuffix(".csv.gz")): Source(
            path, header=False, id_column=id_column
        )
        for path in sorted(folder.glob(f"{of}[-_]*.csv.gz"))
    }
    if "edge_attr" in values:
        values["edge_attr"] = partial(_in_float32, values["edge_attr"])
    return values


def _in_float32(source: Source) -> Iterator[Array]:
    """The rows of a table of edge features, in the dtype of OGB's reader."""
    rows = open_attribute(source, "edge_attr", np.dtype(np.float32), of="edge")
    return (values for _, values in rows.chunks(_ROWS_AT_ONCE))


def _binary_graph(folder: _Folder) -> tuple[ByType, ByType]:
    """The arrays of data.npz and node-label.npz; in typed graphs, a file has one for each type."""
    nodes: ByType = {}
    edges: ByType = {}
    data = "edge_index_dict.npz" if folder.is_typed else "data.npz"
    for needed in (data, *["node-label.npz"] * folder.name.startswith("ogbn-")):
        folder.require(folder.raw / needed)
    for path in sorted(folder.raw.glob("*.npz")):
        for array in npz_arrays(path):
            stem = path.name.split(".")[0] if folder.is_typed else array.name
            key: Any = array.name if folder.is_typed else ""
            name = _attribute_name(stem)
            if stem.startswith("num_nodes"):
                counts = np.atleast_1d(array.read())
                with reading(array.label, "number of nodes, of one graph"):
                    (nodes.setdefault(key, {})["num_nodes"],) = counts.tolist()
            elif stem.startswith("edge_"):
                key = tuple(key.split("___")) if key else key
                edges.setdefault(key, {})[name] = _binary_values(folder, array, name)
            elif stem.startswith("node"):
                nodes.setdefault(key, {})[name] = _binary_values(folder, array, name)
            elif not stem.startswith("num_"):
                raise ValueError(f"{array.label} is neither of nodes nor of edges, by its name")
    for key, values in nodes.items():
        if "num_nodes" not in values:
            raise ValueError(f"{folder.raw} does not say how many nodes {key or 'it'} has")
    return dict(sorted(nodes.items())), dict(sorted(edges.items()))


def _binary_values(folder: _Folder, array: StoredArray, name: str) -> Any:
    """An attribute; one of a single column is a vector, but features stay rows."""
    if name in ("edge_index", "x", "edge_attr") or array.shape[1:] != (1,):
        return array.label
    if name == "y" and folder.name == _CLASSES_AS_FLOATS and np.dtype(array.dtype).kind == "f":
        return lambda: _classes(array.label, array.read().reshape(-1))
    return lambda: iter([array.read().reshape(-1)])


def _classes(name: str, array: Array) -> Iterator[npt.NDArray[np.int64]]:
    """Classes that are stored as floats, as integers: NaN becomes -1."""
    begin = 0
    for piece in pieces_of(array, _LABELS_AT_ONCE):
        numbers = np.where(np.isnan(piece), -1, piece)
        classes = numbers.astype(np.int64)
        wrong = np.flatnonzero(classes != numbers)
        if len(wrong):
            at = int(wrong[0])
            raise ValueError(
                f"{name}, row {begin + at}: {piece[at]} is not a class, which must be a whole "
                f"number or NaN"
            )
        yield classes
        begin += len(piece)


def _node_splits(folder: _Folder, split_type: str | None) -> Values:
    """Splits of nodes by our names; those of edges are not read."""
    parent = folder.path / "split"
    kinds = sorted(path.name for path in parent.glob("*") if path.is_dir())
    prescribed = _KNOWN[folder.name][1] if folder.name in _KNOWN else ""
    chosen = split_type or (kinds[0] if len(kinds) == 1 else prescribed)
    if not chosen:
        raise ValueError(f"{parent} has {', '.join(kinds)}: choose one of them with split_type=")
    path = folder.require(parent / chosen)
    if folder.name.startswith("ogbl-") or (path / "train.pt").exists():
        warnings.warn(
            f"{path} has lists of edges for link prediction, which are not imported: "
            f"docs/ingest.md shows how to load them as seeds of a LinkNeighborLoader",
            UserWarning,
            stacklevel=4,
        )
        return {}
    whole = path / "split_dict.pt"
    if whole.exists():
        from graphzero.ingest.sources.torch_file import load_torch

        splits = load_torch(whole)
        with reading(whole, "split into train, valid and test"):
            return {ours: splits[name] for name, ours in _SPLITS.items()}
    if not folder.is_typed:
        files = {ours: path / f"{name}.csv.gz" for name, ours in _SPLITS.items()}
        return {ours: Source(folder.require(file), header=False) for ours, file in files.items()}
    types = _types_with(folder, path / "nodetype-has-split.csv.gz")
    return {
        ours: {
            kind: Source(folder.require(path / kind / f"{name}.csv.gz"), header=False)
            for kind in types
        }
        for name, ours in _SPLITS.items()
    }
