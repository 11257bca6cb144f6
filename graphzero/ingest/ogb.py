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
import gzip
import os
import re
import warnings
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.options import Source
from graphzero.ingest.sources.arrays import StoredArray, npz_arrays
from graphzero.ingest.sources.table import pieces_of


@dataclass(frozen=True)
class _Facts:
    """What the files of a dataset do not say.

    These are rows of https://github.com/snap-stanford/ogb, ``ogb/nodeproppred/master.csv`` and
    ``ogb/linkproppred/master.csv``, in release 1.3.6 of the package.
    """

    download: str  # name of the archive on OGB's server
    inverse: bool  # OGB's reader adds the inverse of each edge: the graph is undirected
    split: str  # the prescribed one
    classes: bool = False  # labels are the classes of one task
    binary: bool = False


_KNOWN = {
    "ogbn-arxiv": _Facts("arxiv", False, "time", classes=True),
    "ogbn-mag": _Facts("mag", False, "time", classes=True),
    "ogbn-papers100M": _Facts("papers100M-bin", False, "time", classes=True, binary=True),
    "ogbn-products": _Facts("products", True, "sales_ranking", classes=True),
    "ogbn-proteins": _Facts("proteins", True, "species"),
    "ogbl-biokg": _Facts("biokg", False, "random"),
    "ogbl-citation2": _Facts("citation-v2", False, "time"),
    "ogbl-collab": _Facts("collab", True, "time"),
    "ogbl-ddi": _Facts("ddi", True, "target"),
    "ogbl-ppa": _Facts("ppassoc", True, "throughput"),
    # Its list has both directions already: https://github.com/snap-stanford/ogb/issues/241
    "ogbl-vessel": _Facts("vessel", False, "spatial", binary=True),
    "ogbl-wikikg2": _Facts("wikikg-v2", False, "time"),
}
_NAME = re.compile(r"ogb[nl]-[A-Za-z0-9_-]+")
_SPLITS = {"train": "train", "valid": "val", "test": "test"}  # OGB's names, and ours
_ATTRIBUTES = {"node_feat": "x", "edge_feat": "edge_attr"}
_TYPED_ARRAYS = ("num_nodes_dict.npz", "num_edges_dict.npz", "edge_index_dict.npz")
_TYPED_FILES = ("triplet-type-list.csv.gz", "num-node-dict.csv.gz", "relations", *_TYPED_ARRAYS)
_MOST_LINES = 10_000  # of a file of counts or types
_LABELS_AT_ONCE = 1 << 18
_SEVERAL = "the folder has so many graphs, and a dataset folder has one"

Values = dict[str, Any]


class _Folder:
    """The folder of a dataset, with its ``raw`` and ``split``."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.raw = path / "raw"
        self.name = name  # such as "ogbn-arxiv"; "" if it is not known
        self.facts = _KNOWN.get(name)
        self.is_link = name.startswith("ogbl-")

    def way(self) -> str:
        """How to get the dataset, for messages."""
        if self.facts is None:
            return "get the complete folder of the dataset"
        kind = "link" if self.is_link else "node"
        loader = f"{kind.capitalize()}PropPredDataset"
        return (
            f"unpack http://snap.stanford.edu/ogb/data/{kind}proppred/{self.facts.download}.zip, "
            f"or run python -c \"from ogb.{kind}proppred import {loader}; {loader}('{self.name}')\""
        )

    def require(self, path: Path) -> Path:
        """The path of a file that must be there."""
        if path.exists():
            return path
        raise FileNotFoundError(2, f"this file of the dataset is missing: {self.way()}", str(path))

    def table(self, path: Path) -> list[list[str]]:
        """The lines of a small compressed file."""
        self.require(path)
        try:
            with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
                reader = csv.reader(file)
                lines = [line for _, line in zip(range(_MOST_LINES), reader, strict=False)]
        except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{path} is damaged: {error}") from None
        if not lines or len(lines) == _MOST_LINES:
            raise ValueError(f"{path} has {len(lines)} lines or more: a few are expected")
        return lines

    def by_type(self, path: Path) -> list[tuple[str, str]]:
        """Node types and their values in a file of a header and one line."""
        lines = self.table(path)
        if len(lines) != 2 or len(lines[0]) != len(lines[1]):
            raise ValueError(
                f"{path} must have a header of node types and one line of values: further lines "
                f"are further graphs, and a dataset folder has one"
            )
        return list(zip(*lines, strict=True))

    def types_with(self, path: Path) -> list[str]:
        """The node types that have something, such as labels."""
        return [name for name, value in self.by_type(path) if value.strip() == "True"]

    def count(self, path: Path) -> int:
        """The one number of a file such as ``num-node-list.csv.gz``."""
        lines = self.table(path)
        if len(lines) > 1:
            raise ValueError(f"{path} has {len(lines):,} numbers: {_SEVERAL}")
        return _whole(lines[0][0], path)


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
    folder = _find_folder(Path(path), name)
    is_typed = any((folder.raw / name).exists() for name in _TYPED_FILES)
    is_binary = _is_binary(folder)
    if is_typed:
        found = _binary_typed_graph(folder) if is_binary else _text_typed_graph(folder)
    else:
        found = _binary_graph(folder) if is_binary else _text_graph(folder)
    found["directed"] = _direction(folder, directed, is_binary=is_binary)
    found["splits"] = _node_splits(folder, split_type, found["nodes"] if is_typed else None)
    return found


def _find_folder(path: Path, name: str | None) -> _Folder:
    if path.name == "raw" and not (path / "raw").exists():
        path = path.parent
    folder = _Folder(path, _dataset_name(path, name))
    if folder.raw.is_dir():
        return folder
    if not path.is_dir():
        raise FileNotFoundError(2, f"there is no such folder: {folder.way()}", str(path))
    inside = sorted(each.parent.name for each in path.glob("*/raw"))
    if inside:
        raise FileNotFoundError(
            2, f"this folder has datasets, name one of them: {', '.join(inside)}", str(path)
        )
    processed = sorted(path.glob("processed/*"))
    also = f"; {processed[0]} is made from it, and is not read" if processed else ""
    raise FileNotFoundError(2, f"the folder raw/ is missing{also}: {folder.way()}", str(path))


def _dataset_name(path: Path, name: str | None) -> str:
    """The name that is given, else by the folder, else by the note of the release in it."""
    if name is not None:
        if _NAME.fullmatch(name) is None:
            raise ValueError(
                f"name={name!r} must be that of a dataset for nodes or links, such as "
                f"'ogbn-arxiv' or 'ogbl-collab'"
            )
        return name
    by_folder = re.sub("_", "-", re.sub("_(pyg|dgl)$", "", path.resolve().name), count=1)
    for known in _KNOWN:
        if by_folder.lower() == known.lower():
            return known
    for note in sorted(path.glob("RELEASE_v*.txt")):
        with open(note, encoding="utf-8", errors="replace") as file:
            found = _NAME.search(file.read(1000))
        if found is not None:
            return found[0]
    return by_folder if _NAME.fullmatch(by_folder) else ""


def _is_binary(folder: _Folder) -> bool:
    if any((folder.raw / name).exists() for name in ("edge.csv.gz", "relations")):
        return False
    prescribed = folder.facts is not None and folder.facts.binary
    names = ("data.npz", "edge_index_dict.npz")
    return prescribed or any((folder.raw / name).exists() for name in names)


def _direction(folder: _Folder, directed: bool | None, *, is_binary: bool) -> bool:
    if directed is not None:
        return directed
    if folder.facts is not None:
        return not folder.facts.inverse
    if is_binary:  # OGB's reader refuses add_inverse_edge for these: the list is whole
        return True
    what = f"{folder.name} is none of OGB's datasets" if folder.name else "its name is not known"
    raise ValueError(
        f"{folder.path}: {what}, and nothing in the folder says whether it is directed: give "
        f"directed=False if raw/edge.csv.gz has each undirected edge once (OGB's "
        f"add_inverse_edge), else directed=True; or name= for one of OGB's, such as 'ogbn-arxiv'"
    )


def _text_graph(folder: _Folder) -> Values:
    raw = folder.raw
    edges = {"edge_index": _text_edges(folder, raw), **_text_values(raw, "edge")}
    num_nodes = folder.count(raw / "num-node-list.csv.gz")
    folder.count(raw / "num-edge-list.csv.gz")  # one graph
    nodes = _text_values(raw, "node", id_column=False)
    species = raw / "species.csv.gz"  # of ogbn-proteins, which OGB renames as it reads it
    if species.exists():
        nodes["species"] = Source(species, header=False, id_column=False)
    label = raw / "node-label.csv.gz"
    if label.exists() or folder.name.startswith("ogbn-"):
        nodes["y"] = Source(folder.require(label), header=False, id_column=False)
    return {"edges": edges, "nodes": nodes, "num_nodes": num_nodes}


def _text_typed_graph(folder: _Folder) -> Values:
    raw = folder.raw
    counts = raw / "num-node-dict.csv.gz"
    nodes: dict[str, Values] = {
        name: {"num_nodes": _whole(count, counts)} for name, count in folder.by_type(counts)
    }
    edges = {}
    triplets = raw / "triplet-type-list.csv.gz"
    for line in sorted(folder.table(triplets)):
        if len(line) != 3:
            raise ValueError(f"{triplets} has {line}: an edge type has three names")
        inside = raw / "relations" / "___".join(line)
        edge_index = _text_edges(folder, inside)
        edges[tuple(line)] = {"edge_index": edge_index, **_text_values(inside, "edge")}
    for name, values in nodes.items():
        values.update(_text_values(raw / "node-feat" / name, "node", id_column=False))
    has_label = raw / "nodetype-has-label.csv.gz"
    if has_label.exists() or folder.name.startswith("ogbn-"):
        for name in folder.types_with(has_label):
            label = folder.require(raw / "node-label" / name / "node-label.csv.gz")
            nodes[name]["y"] = Source(label, header=False, id_column=False)
    return {"edges": edges, "nodes": nodes}


def _text_edges(folder: _Folder, inside: Path) -> Source:
    return Source(folder.require(inside / "edge.csv.gz"), src=0, dst=1, header=False)


def _text_values(folder: Path, of: str, **options: Any) -> Values:
    """Attributes in compressed text: ``node-feat.csv.gz``, ``node_year.csv.gz``."""
    found = {}
    feat = folder / f"{of}-feat.csv.gz"
    if feat.exists():
        found[_ATTRIBUTES[f"{of}_feat"]] = Source(feat, header=False, **options)
    for path in sorted(folder.glob(f"{of}_*.csv.gz")):
        name = _attribute_name(path.name.removesuffix(".csv.gz"))
        found[name] = Source(path, header=False, **options)
    return found


def _attribute_name(stem: str) -> str:
    """The name of an attribute: "node_feat" is "x", "node_year" is "year", "edge_year" as it is."""
    stem = stem.removesuffix("_dict")
    return _ATTRIBUTES.get(stem, stem.removeprefix("node_"))


def _binary_graph(folder: _Folder) -> Values:
    data = folder.require(folder.raw / "data.npz")
    arrays = {one.name: one for one in npz_arrays(data)}
    for needed in ("edge_index", "num_nodes_list", "num_edges_list"):
        if needed not in arrays:
            raise ValueError(f"{data} has no array {needed!r}; it has {', '.join(arrays)}")
    nodes: Values = {}
    edges: Values = {"edge_index": f"{data}:edge_index"}
    for name, array in arrays.items():
        if name.startswith(("node_", "edge_")) and name != "edge_index":
            values = nodes if name.startswith("node_") else edges
            values[_attribute_name(name)] = _binary_values(array, name)
        elif not name.startswith("num_") and name != "edge_index":
            raise ValueError(f"{data} has {name!r}, which is neither of nodes nor of edges")
    label = folder.raw / "node-label.npz"
    if label.exists() or folder.name.startswith("ogbn-"):
        labels = {one.name: one for one in npz_arrays(folder.require(label))}
        nodes["y"] = _binary_labels(folder, labels["node_label"])
    return {"edges": edges, "nodes": nodes, "num_nodes": _binary_count(arrays["num_nodes_list"])}


def _binary_typed_graph(folder: _Folder) -> Values:
    numbers, _, lists = (folder.require(folder.raw / name) for name in _TYPED_ARRAYS)
    by_name = attrgetter("name")
    nodes: dict[Any, Values] = {
        one.name: {"num_nodes": _binary_count(one)}
        for one in sorted(npz_arrays(numbers), key=by_name)
    }
    edges: dict[Any, Values] = {
        _edge_type(one.name, lists): {"edge_index": one.label}
        for one in sorted(npz_arrays(lists), key=by_name)
    }
    for path in sorted(folder.raw.glob("*.npz")):
        if path.name in _TYPED_ARRAYS:
            continue
        stem = path.name.split(".")[0]
        if path.name != "node-label.npz" and not stem.startswith(("node_", "edge_")):
            raise ValueError(f"{path} is neither of nodes nor of edges, by its name")
        places = edges if stem.startswith("edge_") else nodes
        for array in npz_arrays(path):
            key = _edge_type(array.name, path) if places is edges else array.name
            if key not in places:
                raise ValueError(
                    f"{path} has values of {key!r}, which is none of the types of the graph"
                )
            if path.name == "node-label.npz":
                places[key]["y"] = _binary_labels(folder, array)
            else:
                places[key][_attribute_name(stem)] = _binary_values(array, stem)
    if folder.name.startswith("ogbn-"):
        folder.require(folder.raw / "node-label.npz")
    return {"edges": edges, "nodes": nodes}


def _edge_type(key: str, path: Path) -> tuple[str, ...]:
    parts = tuple(key.split("___"))
    if len(parts) != 3:
        raise ValueError(f"{path} has {key!r}, which is not SOURCE___RELATION___TARGET")
    return parts


def _binary_values(array: StoredArray, stem: str) -> Any:
    """An attribute; one of a single column is a vector, but features stay rows."""
    if _attribute_name(stem) in ("x", "edge_attr") or array.shape[1:] != (1,):
        return array.label
    return lambda: iter([array.read().reshape(-1)])


def _binary_labels(folder: _Folder, array: StoredArray) -> Any:
    classes = folder.facts is not None and folder.facts.classes
    if classes and array.dtype.kind == "f" and array.shape[1:] in ((), (1,)):
        return lambda: _classes(array.label, array.read().reshape(-1))
    return _binary_values(array, "node_label")


def _classes(name: str, array: Any) -> Iterator[npt.NDArray[np.int64]]:
    """Classes that are stored as floats, as integers: NaN becomes -1."""
    begin = 0
    for piece in pieces_of(array, _LABELS_AT_ONCE):
        known = np.where(np.isnan(piece), -1, piece)
        classes = known.astype(np.int64)
        wrong = np.flatnonzero(classes != known)
        if len(wrong):
            at = int(wrong[0])
            raise ValueError(
                f"{name}, row {begin + at}: {piece[at]} is not a class, which must be a whole "
                f"number or NaN"
            )
        yield classes
        begin += len(piece)


def _binary_count(array: StoredArray) -> int:
    counts = np.atleast_1d(array.read())
    if counts.shape != (1,) or counts.dtype.kind not in "iu":
        raise ValueError(f"{array.label} has {len(counts):,} numbers: {_SEVERAL}")
    return int(counts[0])


def _whole(text: str, path: Path) -> int:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if value < 0 or value != int(value):
        raise ValueError(f"{path} has {text!r}, which is not a number of nodes or edges")
    return int(value)


def _node_splits(
    folder: _Folder, split_type: str | None, node_types: Collection[str] | None
) -> Values:
    """Splits of nodes by our names; those of edges are not read."""
    path = _split_folder(folder, split_type)
    whole = path / "split_dict.pt"
    if folder.is_link or (path / "train.pt").exists():
        return _without_link_splits(path)
    if whole.exists():
        return _splits_in(whole, node_types)
    if node_types is None:
        return {
            ours: Source(folder.require(path / f"{name}.csv.gz"), header=False)
            for name, ours in _SPLITS.items()
        }
    types = folder.types_with(path / "nodetype-has-split.csv.gz")
    return {
        ours: {
            kind: Source(folder.require(path / kind / f"{name}.csv.gz"), header=False)
            for kind in types
        }
        for name, ours in _SPLITS.items()
    }


def _split_folder(folder: _Folder, split_type: str | None) -> Path:
    parent = folder.path / "split"
    there = sorted(path.name for path in parent.glob("*") if path.is_dir())
    prescribed = None if folder.facts is None else folder.facts.split
    if split_type is not None:
        if split_type not in there:
            raise ValueError(
                f"split_type={split_type!r}: {parent} has {', '.join(there) or 'nothing'}"
            )
        return parent / split_type
    if prescribed is not None and (prescribed in there or len(there) != 1):
        return folder.require(parent / prescribed)
    if len(there) == 1:
        return parent / there[0]
    if not there:
        return folder.require(parent)
    raise ValueError(f"{parent} has {', '.join(there)}: choose one of them with split_type=")


def _without_link_splits(path: Path) -> Values:
    warnings.warn(
        f"{path} has lists of edges for link prediction, which are not imported: "
        f"docs/ingest.md shows how to load them as seeds of a LinkNeighborLoader",
        UserWarning,
        stacklevel=4,
    )
    return {}


def _splits_in(path: Path, node_types: Collection[str] | None) -> Values:
    """``split_dict.pt``: node ids by split, or by split and node type."""
    from graphzero.ingest.sources.torch_file import load_torch

    found = load_torch(path)
    if not isinstance(found, dict) or set(found) != set(_SPLITS):
        has = ", ".join(map(str, found)) if isinstance(found, dict) else type(found).__name__
        raise ValueError(f"{path} must have train, valid and test; it has {has}")
    splits = {ours: found[name] for name, ours in _SPLITS.items()}
    of_types = [set(split) for split in splits.values() if isinstance(split, dict)]
    if of_types and not all(kinds <= set(node_types or ()) for kinds in of_types):
        return _without_link_splits(path)
    for split in splits.values():
        values = split.values() if isinstance(split, dict) else [split]
        if isinstance(split, dict) is (node_types is None) or not all(
            hasattr(value, "dtype") for value in values
        ):
            raise ValueError(f"{path} must have arrays of node ids, by type in a typed graph")
    return splits
