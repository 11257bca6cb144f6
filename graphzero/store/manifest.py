"""``dataset.json``: which files make up a dataset, and the commit point of a build.

A build first writes every file under a staged name, then replaces ``dataset.json``, then renames
the staged files. Readers of the manifest prefer a staged name if that file still exists. So a
build that is killed before it replaces ``dataset.json`` leaves the earlier dataset, and a build
that is killed later leaves the new one. An entry has the checksum of its file's header: a file of
another version is refused, whoever put it there.

A graph without types is the graph with the one node type `NODES` and the one edge type `EDGES`.
`Layout` knows in what the folders of the two kinds differ.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from graphzero.errors import FormatError
from graphzero.store.atomic import replace_file, sync_folder
from graphzero.store.format import PAGE_BYTES, header_checksum
from graphzero.units import MOST_COUNT

MANIFEST_NAME = "dataset.json"

Neighbors = Literal["in", "out", "both"]
# Whether the time by which edges are sampled is the edge's own, or that of the sampled neighbour.
TimeLevel = Literal["edge", "node"]
EdgeType = tuple[str, str, str]  # source type, relation, target type

# The only node type and the only edge type of a graph without types.
NODES: str = ""
EDGES: EdgeType = ("", "", "")

# What edge attributes without a name of their own are called in mini-batches, as in PyG.
EDGE_WEIGHT, EDGE_TIME = "edge_weight", "edge_time"

_FORMAT = "graphzero-dataset"
# Version 1 does not say which neighbours are stored; where it cannot, it is written again.
_VERSIONS = (1, 2)
_MOST_TRIES = 100  # a rebuild, and each file that it renames, can fail one of them
# What numbers can be, if not counts: classes are one more than the largest label, visits of some.
_BOUNDS = {"num_classes": (0, 1 << 64), "seed": (0, (1 << 64) - 1), "batches": (1, MOST_COUNT)}
# What json, and the checks of its content, may raise.
_WRONG = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)

_T = TypeVar("_T")


@dataclass(frozen=True)
class FileEntry:
    """A file of a dataset.

    Attributes
    ----------
    name, staged : str
        Its final name, and its name during the build.
    checksum : int or None
        CRC-32 of its header, which has those of its sections: two files with the same one have the
        same content. None in manifests that were written before there was one.
    """

    name: str
    staged: str
    checksum: int | None = None

    def resolve(self, folder: Path) -> Path:
        """Where the file is now."""
        staged = folder / self.staged
        return staged if staged.exists() else folder / self.name

    def describes(self, header_page: bytes | memoryview) -> bool:
        """Whether a file with this first page is the one that was built."""
        return self.checksum in (None, header_checksum(header_page))

    def check(self, folder: Path) -> None:
        """Raises a `FormatError` if the file in a folder is not the one that was built."""
        path = self.resolve(folder)
        with open(path, "rb") as file:
            self.require_described(file.read(PAGE_BYTES), path)

    def require_described(self, header_page: bytes | memoryview, path: object) -> None:
        """Raises a `FormatError` unless a file with this first page is the one that was built."""
        if not self.describes(header_page):
            raise FormatError(
                f"{path} is not the file that {MANIFEST_NAME} describes, but one of another "
                f"version of the dataset: fetch the dataset again, or build it again"
            )


@dataclass(frozen=True)
class Presampling:
    """How visits were counted.

    Attributes
    ----------
    batches : int
        Mini-batches that were sampled: the maximum of the visits of a node.
    batch_size : int
    fanouts : tuple of int, or dict of str to tuple of int
        Of a typed graph also by edge type, "source__relation__target".
    num_seeds : int
        Seeds of an epoch.
    seed : int
        Of the random draws.
    """

    batches: int
    batch_size: int
    fanouts: tuple[int, ...] | dict[str, tuple[int, ...]]
    num_seeds: int
    seed: int


@dataclass(frozen=True)
class EdgeChanges:
    """What a build did to an edge list.

    Attributes
    ----------
    num_merged : int or None
        Edges that were merged into an earlier one with the same ends; None if parallel edges were
        not to be merged.
    num_self_loops_dropped : int or None
        None if self-loops were to be kept.
    reversed : bool
        Whether source and target were exchanged.
    symmetric : bool
        Whether the list had both directions of every edge, for an undirected graph. Each pair of
        directions is then stored as one edge.
    """

    num_merged: int | None = None
    num_self_loops_dropped: int | None = None
    reversed: bool = False
    symmetric: bool = False

    def __bool__(self) -> bool:
        return self != EdgeChanges()


def describe_changes(changes: EdgeChanges) -> list[str]:
    """A clause for each of the changes."""
    loops, merged = changes.num_self_loops_dropped, changes.num_merged
    clauses = {
        "reversed": changes.reversed,
        f"self-loops dropped: {loops}": loops is not None,
        "the list was symmetric: each pair stored once": changes.symmetric,
        f"parallel edges merged: {merged}": merged is not None,
    }
    return [clause for clause, holds in clauses.items() if holds]


@dataclass(frozen=True)
class SampledBy:
    """The attributes that drive sampling, by name.

    Attributes
    ----------
    weight, time : str or None
    time_level : {"edge", "node"}
        Whether `time` is an attribute of the edges, or of the neighbours that are sampled.
    """

    weight: str | None = None
    time: str | None = None
    time_level: TimeLevel = "edge"


@dataclass(frozen=True)
class NodeTable:
    """The nodes of one type.

    Attributes
    ----------
    num_nodes : int
    attributes : dict of str to FileEntry
        Rows of the nodes, by name: "x" and "y" among them.
    splits : dict of str to FileEntry
        The user's ids.
    num_classes : int or None
        Largest label + 1, where "y" has integers.
    ids : FileEntry or None
        The user's id of each stored node, with the table of ranks; None in input order, and without
        types, where the graph file has them.
    visits : FileEntry or None
        In how many sampled mini-batches each node was.
    id_map : FileEntry or None
        The user's id of each node, where the build took these ids to 0...N-1.
    num_ordered_nodes : int or None
        Those that were there when the nodes were ordered, before the others; None if all were.
    classes : dict of str to list of str, or None
        Of attributes that were texts: the name of each class.
    """

    num_nodes: int
    attributes: dict[str, FileEntry] = field(default_factory=dict)
    splits: dict[str, FileEntry] = field(default_factory=dict)
    num_classes: int | None = None
    ids: FileEntry | None = None
    visits: FileEntry | None = None
    id_map: FileEntry | None = None
    num_ordered_nodes: int | None = None
    classes: dict[str, list[str]] | None = None


@dataclass(frozen=True)
class EdgeTable:
    """The edges of one type.

    Attributes
    ----------
    num_edges : int
        Stored edges: both directions of an undirected edge.
    num_input_edges : int
        Edges of the edge list.
    graph : FileEntry
        The lists that are sampled: of the target type, or of the source type with neighbors="out".
    attributes : dict of str to FileEntry
        Rows of the edges, by name, in the order of the lists.
    splits : dict of str to FileEntry
        Positions in the edge list.
    weight, time : str or None
        Names of the attributes that are stored in the graph file, because they drive sampling.
    time_level : {"edge", "node"}
        Whether `time` is an attribute of the edges, or of the nodes that are sampled.
    changes : EdgeChanges or None
        How the stored edges differ from the edge list; None if they do not.
    num_ordered_edges : int or None
        Those of the edge list that were there when the nodes were ordered; None if no edge has
        joined or left since.
    classes : dict of str to list of str, or None
        As of nodes.
    """

    num_edges: int
    num_input_edges: int
    graph: FileEntry
    attributes: dict[str, FileEntry] = field(default_factory=dict)
    splits: dict[str, FileEntry] = field(default_factory=dict)
    weight: str | None = None
    time: str | None = None
    time_level: TimeLevel = "edge"
    changes: EdgeChanges | None = None
    num_ordered_edges: int | None = None
    classes: dict[str, list[str]] | None = None


@dataclass(frozen=True)
class Manifest:
    """The content of ``dataset.json``, for graphs with and without types.

    Attributes
    ----------
    nodes : dict of str to NodeTable
        By node type; of a graph without types, that of `NODES`.
    edges : dict of (str, str, str) to EdgeTable
        By edge type; of a graph without types, that of `EDGES`. The order decides which random
        draws an edge type has.
    neighbors : {"in", "out", "both"} or None
        Which neighbours of a node are stored: the sources of its incoming edges, the targets of its
        outgoing ones, or both; "both" for an undirected graph. None for a directed graph of a
        folder of version 1, which has out-neighbours and nobody who chose them. Of a graph with
        types, "in" or "out" for all edge types.
    order : {"input", "hot", "presample"}
    presampling : Presampling or None
        How visits were counted.
    directed : bool
        Graphs with types are.
    out_graph : FileEntry or None
        The out-neighbours of a directed graph without types that has both.
    extras : FileEntry or None
        What of a graph of PyG has no row for each node or edge.
    """

    nodes: dict[str, NodeTable]
    edges: dict[EdgeType, EdgeTable]
    neighbors: Neighbors | None
    order: str
    presampling: Presampling | None = None
    directed: bool = True
    out_graph: FileEntry | None = None
    extras: FileEntry | None = None

    @property
    def is_typed(self) -> bool:
        """Whether the graph has node types and edge types of its own."""
        return NODES not in self.nodes

    @property
    def layout(self) -> Layout:
        """How the folder is laid out."""
        return Layout(self.is_typed)

    @property
    def incoming(self) -> bool:
        """Whether the lists that are sampled have the sources of incoming edges."""
        return self.directed and self.neighbors in ("in", "both")

    @property
    def has_drifted(self) -> bool:
        """Whether nodes or edges have joined or left since the nodes were ordered."""
        nodes = (table.num_ordered_nodes for table in self.nodes.values())
        edges = (table.num_ordered_edges for table in self.edges.values())
        return any(count is not None for count in (*nodes, *edges))

    def entries(self) -> list[FileEntry]:
        """Every file of the dataset."""
        values: list[object] = []
        for table in (*self.nodes.values(), *self.edges.values()):
            for value in vars(table).values():
                values += value.values() if isinstance(value, dict) else [value]
        values += [self.out_graph, self.extras]
        return [value for value in values if isinstance(value, FileEntry)]


# A file name has at most 255 bytes, of which its name during the build needs 24.
_MOST_STAGED_BYTES = 255
_MOST_NAME_BYTES = 231
# No folder, and nothing that is hidden: files of a dataset are all that a manifest may name.
_FILE_NAME = re.compile(r"[^./\0][^/\0]*\.g[ld]", re.DOTALL)
_STAGED_END = re.compile(r"[^./\0]+\.gz-staged")
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
# Underscores that could be taken for those between the names of an edge type.
_AMBIGUOUS = re.compile("^_|_$|_(?=_)|(?<=_)_")


def reverse_types(edge_type: EdgeType, types: Iterable[EdgeType]) -> list[EdgeType]:
    """Which of some types are the reverse of a type: "rev_" and its name, or the same name."""
    source, relation, target = edge_type
    names = {relation, f"rev_{relation}", relation.removeprefix("rev_")}
    return [kind for kind in types if kind in {(target, name, source) for name in names}]


# What the files of nodes and edges besides attributes are called.
_RESERVED = re.compile("ids|id_map|visits|split_.*", re.DOTALL)


@dataclass(frozen=True)
class Layout:
    """In what folders of graphs with and without types differ: names of files, and the manifest."""

    is_typed: bool
    out_graph = "graph_out.gl"  # of the out-neighbours beside in-neighbours
    extras = "extras.gd"  # of what has no row for each node or edge

    def graph(self, edge_type: EdgeType = EDGES) -> str:
        """File of the neighbour lists: "graph.gl", or "author__writes__paper.gl"."""
        return self._file(edge_type, "gl") if self.is_typed else "graph.gl"

    def node_rows(self, node_type: str, attribute: str) -> str:
        """File of an attribute of nodes: "features.gd", "node_year.gd", or "paper.x.gd"."""
        name = {"x": "features", "y": "labels"}.get(attribute, f"node_{attribute}")
        if self.is_typed:
            name = _attribute_part(attribute)
        return self._file([node_type], f"{name}.gd")

    def edge_rows(self, edge_type: EdgeType, attribute: str) -> str:
        """File of an attribute of edges: "edge_kind.gd", or "author__writes__paper.kind.gd"."""
        name = _attribute_part(attribute) if self.is_typed else f"edge_{attribute}"
        return self._file(edge_type, f"{name}.gd")

    def split(self, types: str | EdgeType, split: str) -> str:
        """File of a split of nodes or edges: "split_train.gd", or "paper.split_train.gd"."""
        if isinstance(types, str):
            return self._file([types], f"split_{split}.gd")
        return self._file(types, f"{'' if self.is_typed else 'edge_'}split_{split}.gd")

    def of_nodes(self, node_type: str, what: Literal["ids", "visits", "id_map"]) -> str:
        """File of what `NodeTable` has by this name."""
        return self._file([node_type], f"{what}.gd")

    def _file(self, types: Sequence[str], name: str) -> str:
        if not self.is_typed:
            return name
        name = "__".join(_AMBIGUOUS.sub("%5F", _encode(part)) for part in types) + f".{name}"
        if len(name) > _MOST_NAME_BYTES:
            raise ValueError(
                f"the file name {name[:40]}... of {', '.join(map(repr, types))} would have "
                f"{len(name)} bytes, more than {_MOST_NAME_BYTES}: choose shorter names of types "
                f"and attributes"
            )
        return name

    def encode(self, manifest: Manifest) -> dict[str, Any]:
        """The JSON object of a manifest."""
        content: dict[str, Any] = {"format": _FORMAT, "version": 2}
        facts = asdict(manifest, dict_factory=_without_missing_checksum)
        if manifest.extras is not None:
            content["extras"] = facts["extras"]
        nodes, edges = facts.pop("nodes"), facts.pop("edges")
        for table in (*nodes.values(), *edges.values()):
            for name in _OPTIONAL:
                if table.get(name, 0) is None:
                    del table[name]
        if self.is_typed:
            content |= {name: facts[name] for name in ("neighbors", "order", "presampling")}
            content["node_types"] = [{"type": key, **table} for key, table in nodes.items()]
            content["edge_types"] = [{"type": key, **table} for key, table in edges.items()]
            return content
        facts |= nodes[NODES]
        for name in edges[EDGES].keys() & {"attributes", "splits", "classes"}:
            facts[f"edge_{name}"] = edges[EDGES].pop(name)
        facts |= edges[EDGES]
        facts["features"], facts["labels"] = (facts["attributes"].pop(n, None) for n in ("x", "y"))
        content |= {name: facts[name] for name in _UNTYPED_NAMES.split()}
        content |= {name: facts[name] for name in _OPTIONAL if name in facts}
        if manifest.neighbors is None:  # as it was read: a later version would claim a choice
            content["version"] = 1
            del content["neighbors"], content["out_graph"]
        return content


# What the manifest of a graph without types has, in this order.
_UNTYPED_NAMES = """
    num_nodes num_edges num_input_edges directed order num_classes graph features labels splits
    visits presampling neighbors out_graph attributes edge_attributes edge_splits weight time
    time_level changes id_map
"""
# Left out where there is nothing to say.
_OPTIONAL = ("num_ordered_nodes", "num_ordered_edges", "classes", "edge_classes")


def _without_missing_checksum(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in fields if (name, value) != ("checksum", None)}


def _encode(name: str) -> str:
    """Other characters as %XX; no two names have one encoding."""
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in name.encode())


def _attribute_part(name: str) -> str:
    first = "".join(f"%{byte:02X}" for byte in name[0].encode())
    encoded = _encode(name)
    return first + encoded[1:] if _RESERVED.fullmatch(name) else encoded


def _decode(content: dict[str, Any]) -> Manifest:
    """The manifest of a JSON object of a known version; raises one of `_WRONG` if it is invalid."""
    is_typed = "node_types" in content
    if is_typed:
        node_tables, edge_tables = content["node_types"], content["edge_types"]
        content = {**content, "directed": True, "out_graph": None}
    else:
        named = {"x": content["features"], "y": content["labels"], **content.get("attributes", {})}
        attributes = {name: entry for name, entry in named.items() if entry is not None}
        node_tables = [{**content, "type": NODES, "attributes": attributes, "ids": None}]
        of_edges = {name: content.get(f"edge_{name}", {}) for name in ("attributes", "splits")}
        of_edges["classes"] = content.get("edge_classes")
        edge_tables = [{**content, "type": EDGES, **of_edges}]
    if content["version"] == 1:
        content = {**content, "neighbors": None if content["directed"] else "both"}
    nodes = {table["type"]: table for table in node_tables}
    edges = {tuple(table["type"]): table for table in edge_tables}
    if not edges or len(nodes) != len(node_tables) or len(edges) != len(edge_tables):
        raise ValueError("there are no types, or one is there twice")
    for source, relation, target in edges:
        if source not in nodes or target not in nodes:
            raise ValueError("an edge type has a node type that does not exist")
        for name in (*nodes, relation) if is_typed else ():
            _value("type", str, (), name)
    manifest = _read_fields(Manifest, {**content, "nodes": nodes, "edges": edges})
    names = Counter(entry.name for entry in manifest.entries())
    if repeated := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"{repeated[0]!r:.80} is named twice")
    has_both = manifest.out_graph is not None or not manifest.directed
    directions = ("both",) if has_both else ("in", "out")
    if content["version"] > 1 and manifest.neighbors not in directions:
        raise ValueError(f"neighbors is {manifest.neighbors!r}, which contradicts the files")
    return manifest


# Where a manifest lacks a field that is not None by default.
_DEFAULTS = {"weight": EDGE_WEIGHT, "time": EDGE_TIME, "time_level": "edge"}


@cache
def _fields_of(kind: Any) -> list[tuple[str, bool, Any, tuple[Any, ...]]]:
    """Of each field: its name, whether it may be None, its type, and what this is made of."""
    fields = []
    for name, hint in get_type_hints(kind).items():
        may_be_none = type(None) in get_args(hint)
        declared = get_args(hint)[0] if may_be_none else hint
        fields.append((name, may_be_none, get_origin(declared) or declared, get_args(declared)))
    return fields


def _read_fields(kind: type[_T], content: Mapping[str, Any]) -> _T:
    """A dataclass from the JSON object of its fields, each of the type that is declared.

    Raises
    ------
    ValueError
        Naming a field whose value is of another type, out of range, or missing.
    """
    values = {}
    for name, may_be_none, declared, of in _fields_of(kind):  # type: ignore[arg-type]
        value = content.get(name, _DEFAULTS.get(name))
        if value is not None or not may_be_none:
            value = _value(name, declared, of, value)
        values[name] = value
    return kind(**values)


def _value(name: str, declared: Any, of: tuple[Any, ...], value: Any) -> Any:
    if name == "fanouts":
        return _fanouts(value)
    if name == "classes":
        return _classes(value)
    if declared is int:
        least, most = _BOUNDS.get(name, (0, MOST_COUNT))
        is_valid = type(value) is int and least <= value <= most
    elif declared is Literal:
        is_valid = value in of
    elif declared in (str, bool):
        is_valid = type(value) is declared and value != ""
    elif declared is dict:
        is_valid = isinstance(value, dict) and (of[1] is not FileEntry or "" not in value)
    else:
        is_valid = isinstance(value, dict)
    if not is_valid:
        raise ValueError(f"{name} is {value!r:.80}")
    if declared is FileEntry:
        return _entry(value)
    if declared is dict:
        return {key: _value(name, of[1], (), item) for key, item in value.items()}
    is_record = is_dataclass(declared)
    return _read_fields(declared, value) if is_record else value


def _entry(value: Mapping[str, Any]) -> FileEntry:
    entry = FileEntry(value["name"], value["staged"], value.get("checksum"))
    if not isinstance(entry.name, str) or not _FILE_NAME.fullmatch(entry.name):
        raise ValueError(f"{entry.name!r:.80} is no name of a .gl or .gd file in this folder")
    beginning = f".{entry.name}."
    if not isinstance(entry.staged, str) or not (
        entry.staged.startswith(beginning) and _STAGED_END.fullmatch(entry.staged, len(beginning))
    ):
        raise ValueError(f"{entry.staged!r:.80} is no staged name of {entry.name!r:.80}")
    if len(os.fsencode(entry.staged)) > _MOST_STAGED_BYTES:
        raise ValueError(f"the name {entry.name!r:.80} is too long")
    if entry.checksum is not None and (
        type(entry.checksum) is not int or not 0 <= entry.checksum < 1 << 32
    ):
        raise ValueError(f"a checksum is {entry.checksum!r:.80}")
    return entry


def _classes(value: object) -> object:
    lists = list(value.values()) if isinstance(value, dict) else [None]
    for names in lists:
        if not isinstance(names, list) or any(type(name) is not str for name in names):
            raise ValueError(f"classes are {value!r:.80}")
    return value


def _fanouts(value: object) -> object:
    if isinstance(value, dict):
        return {edge_type: _fanouts(fanouts) for edge_type, fanouts in value.items()}
    if not isinstance(value, list) or any(type(fanout) is not int for fanout in value):
        raise ValueError("fanouts of presampling are not integers")
    return tuple(value)


def read_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """The manifest of a dataset folder.

    Raises
    ------
    FileNotFoundError
        If the folder has no ``dataset.json``.
    FormatError
        If this version cannot read it.
    """
    path = Path(folder) / MANIFEST_NAME
    if path.exists() and not path.is_file():  # reading a pipe would wait for its writer
        raise FormatError(f"{path} is not a regular file: remove it, and build the dataset again")
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            2, f"no dataset here (no {MANIFEST_NAME}): build one with graphzero.build", str(folder)
        ) from None
    return parse_manifest(text, path)


def parse_manifest(text: bytes, path: str | os.PathLike[str]) -> Manifest:
    """The manifest of the content of a ``dataset.json``; `path` is for messages.

    Raises
    ------
    FormatError
        If this version cannot read it.
    """
    try:
        content = json.loads(text)
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r:.80}")
        if type(content["version"]) is not int or content["version"] not in _VERSIONS:
            raise ValueError(
                f"it has version {content['version']!r:.80}, and this graphzero reads versions 1 "
                f"and 2: use the graphzero that wrote it"
            )
        return _decode(content)
    except _WRONG as error:
        raise FormatError(
            f"{path} is not a graphzero dataset, or is corrupt ({error!r}): build it again"
        ) from None


def open_build(
    folder: str | os.PathLike[str],
    open_files: Callable[[Manifest], _T],
    close: Callable[[_T], object],
) -> _T:
    """Opens files of a dataset that all belong to one build, also while a rebuild replaces them.

    Parameters
    ----------
    folder : path-like
    open_files : callable
        Opens what the manifest names, by `FileEntry.resolve`; leaves nothing open if it raises.
    close : callable
        Closes what `open_files` returned, where it may be of two builds.

    Raises
    ------
    BlockingIOError
        If the dataset was replaced again and again meanwhile.
    FileNotFoundError, FormatError
        As `read_manifest`, and whatever `open_files` raises.
    """

    def files_now() -> tuple[Manifest, list[Path]]:
        manifest = read_manifest(folder)
        return manifest, [entry.resolve(Path(folder)) for entry in manifest.entries()]

    for _ in range(_MOST_TRIES):
        manifest, files = files_now()
        try:
            opened = open_files(manifest)
        except (OSError, ValueError):
            if files_now() == (manifest, files):
                raise
            continue
        if read_manifest(folder) == manifest:
            return opened
        close(opened)
    raise BlockingIOError(
        errno.EWOULDBLOCK,
        f"the dataset was replaced {_MOST_TRIES} times while it was being opened: "
        f"open it when the builds have ended",
        os.fspath(folder),
    )


def encode_manifest(manifest: Manifest) -> bytes:
    """The content of the ``dataset.json`` of a manifest."""
    return (json.dumps(manifest.layout.encode(manifest), indent=2) + "\n").encode()


def finish_renames(folder: str | os.PathLike[str], manifest: Manifest) -> None:
    """Renames every file of a written manifest to its final name; can be repeated after a crash."""
    folder = Path(folder)
    for entry in manifest.entries():
        staged = folder / entry.staged
        if staged.exists():
            replace_file(staged, folder / entry.name)
    sync_folder(folder)
