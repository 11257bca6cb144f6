"""`Dataset`: the files of one graph, opened together.

A graph without types is the graph with one node type and one edge type, both without a name.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from graphzero import _core
from graphzero.errors import FormatError, warn_user
from graphzero.graph.features import EdgeRows, FeatureStore, RowArray, SplitRows, StoredIds
from graphzero.graph.graph import EdgeTypeGraph, Graph
from graphzero.graph.nodes_and_edges import Edges, EdgeSplits, EdgeStore, Nodes, NodeStore, Splits
from graphzero.graph.user_input import NodeTexts
from graphzero.store.format import PAGE_BYTES
from graphzero.store.huge_pages import HugeTopology
from graphzero.store.id_table import IdTable
from graphzero.store.manifest import (
    EDGES,
    NODES,
    EdgeTable,
    EdgeType,
    FileEntry,
    Manifest,
    Neighbors,
    NodeTable,
    SampledBy,
    open_build,
)
from graphzero.store.mapped_file import ClosedAtExit, MappedFile
from graphzero.units import html_table, is_url

_File = TypeVar("_File", bound=MappedFile)

# Properties of torch_geometric.data.Data that are None where a graph lacks them.
OF_DATA = frozenset({"edge_weight", "edge_attr", "edge_time", "edge_type", "time", "pos", "face"})


class Facade(Protocol):
    """What answers PyG's names of a dataset: `graphzero.pyg.facade.GraphFacade`."""

    @property
    def deleted(self) -> tuple[str, ...]:
        """See `Dataset.deleted`."""

    @property
    def unsaved(self) -> dict[str | EdgeType | None, dict[str, object]]:
        """By type or None, for the whole graph: values by name that no file holds."""

    def __getitem__(self, key: str | EdgeType) -> Any: ...

    def __contains__(self, name: object) -> bool: ...

    def kept(self) -> Mapping[str, object]:
        """What belongs to the whole graph, by name."""

    def require_unedited(self, names: Collection[str] | None) -> None:
        """See `Dataset.require_unedited`."""

    def of_copy(self, nodes: Nodes, edges: Edges) -> Facade:
        """The facade of a copy of the dataset, from which names can be deleted."""


class Dataset(ClosedAtExit):
    """A graph with features, labels and splits of its nodes, or with node types and edge types.

    Usually opened by `graphzero.open`; create it yourself for files of a graph without types that
    were not built together.

    It answers the names that scripts for PyG read of a graph: ``ds.x``, ``ds.edge_index``,
    ``ds.train_mask``, ``ds.num_features``, ``ds.keys()``, whatever `from_data` was given; with
    types, ``ds["paper"].x``, ``ds.x_dict``, ``ds.collect("x")`` and ``ds.metadata()``. An attribute
    is a tensor of all rows, read from disk when it is asked for, and kept while all that are kept
    take less than a tenth of the available memory: ``ds.x`` is the same tensor every time, and
    where it was edited in place, a loader that begins a pass raises an error. ``copy.copy(ds)`` is
    another view of the same files: what is deleted from it, the batches of its loaders do not have.

    Parameters
    ----------
    graph : Graph
    features : FeatureStore, optional
        One row per node.
    labels : FeatureStore, optional
        One label (or row of labels) per node; indexable by node ids.
    splits : Splits, optional
    num_classes : int, optional
    attributes, edge_attributes : mapping of str to FeatureStore, optional
        Others of the nodes, and of the stored edges, in the order of the lists.
    edge_splits : EdgeSplits, optional

    Attributes
    ----------
    nodes : dict of str to NodeStore
        By node type; the only one of a graph without types is "".
    edges : dict of (str, str, str) to EdgeStore
        By edge type; the only one of a graph without types is ("", "", ""). Their order decides
        which random draws an edge type has.

    Raises
    ------
    ValueError
        If a file does not have one row per node.
    """

    # Makes the facade of nodes, edges, and the file of what has no rows; `graphzero` sets it.
    facade_of: ClassVar[Callable[[Nodes, Edges, FeatureStore | None], Facade]]
    _nodes: dict[str, NodeStore]
    _edges: dict[EdgeType, EdgeStore]
    _extras: FeatureStore | None = None
    _facade: Facade | None = None
    _huge: HugeTopology | None = None
    _folder: str | None = None
    _direction_note: str | None = None  # what to warn of, where nobody has chosen the direction

    def __init__(
        self,
        graph: Graph,
        features: FeatureStore | None = None,
        labels: FeatureStore | None = None,
        splits: Splits | None = None,
        *,
        num_classes: int | None = None,
        attributes: Mapping[str, FeatureStore] | None = None,
        edge_attributes: Mapping[str, FeatureStore] | None = None,
        edge_splits: EdgeSplits | None = None,
    ) -> None:
        if graph._is_of_type:
            raise ValueError(
                f"{graph.path} is an edge type of a typed graph, and no graph of its own: open its "
                f"dataset folder with graphzero.open"
            )
        named = {"x": features, "y": labels, **(attributes or {})}
        of_nodes = {name: store for name, store in named.items() if store is not None}
        nodes = NodeStore(
            NODES, graph.num_nodes, of_nodes, splits=splits, num_classes=num_classes, order=graph
        )
        of_edges = edge_attributes or {}
        edges = EdgeStore(EDGES, graph, (nodes, nodes), of_edges, splits=edge_splits)
        self._nodes, self._edges = {NODES: nodes}, {EDGES: edges}

    @classmethod
    def of_types(cls, nodes: Iterable[NodeStore], edges: Iterable[EdgeStore]) -> Dataset:
        """The dataset of these node types and edge types."""
        dataset = cls.__new__(cls)
        dataset._nodes = {store.node_type: store for store in nodes}
        dataset._edges = {store.edge_type: store for store in edges}
        return dataset

    @property
    def nodes(self) -> dict[str, NodeStore]:
        """The files of the nodes, by node type."""
        return self._nodes

    @property
    def edges(self) -> dict[EdgeType, EdgeStore]:
        """The files of the edges, by edge type."""
        return self._edges

    @property
    def is_typed(self) -> bool:
        """Whether the graph has node types and edge types."""
        return NODES not in self.nodes

    def require_untyped(self, what: str) -> None:
        """Raises an error for a graph with node types, where these are not known.

        Parameters
        ----------
        what : str
            Beginning of the message, such as "packs are made".

        Raises
        ------
        ValueError
        """
        if self.is_typed:
            raise ValueError(
                f"{what} for graphs without types only, and this one has the node types "
                f"{', '.join(self.nodes)}"
            )

    @property
    def node_types(self) -> list[str]:
        """Names of the node types."""
        return list(self.nodes)

    @property
    def edge_types(self) -> list[EdgeType]:
        """(source type, relation, target type) of the edge types."""
        return list(self.edges)

    def edge_type_of(self, key: Any) -> EdgeType:
        """An edge type from its three names, from both ends, or from "source__relation__target".

        Raises
        ------
        KeyError
            If there is no such edge type, or there are several.
        """
        if isinstance(key, str):
            key = key.split("__")
        names = tuple(key)
        edge_types = [kind for kind in self.edges if names in (kind, (kind[0], kind[2]))]
        if len(edge_types) != 1:
            many = "several edge types" if edge_types else "no edge type"
            raise KeyError(f"{many} {names!r}; there are {self.edge_types}")
        return edge_types[0]

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all types."""
        return sum(store.num_nodes for store in self.nodes.values())

    @property
    def num_edges(self) -> int:
        """Number of stored edges of all types: both directions of an undirected edge."""
        return sum(store.num_edges for store in self.edges.values())

    @property
    def neighbors(self) -> Neighbors:
        """Which neighbours of a node are stored: "in", "out" or "both", as in `graphzero.build`.

        "in" and "both" sample the sources of incoming edges, "out" the targets of outgoing ones.
        """
        return next(iter(self.edges.values())).graph.stored_neighbors

    # ---- what scripts for PyG read of a graph

    @property
    def facade(self) -> Facade:
        """What answers PyG's names."""
        if self._facade is None:
            self._facade = Dataset.facade_of(self.nodes, self.edges, self._extras)
        return self._facade

    def __getitem__(self, key: Any) -> Any:
        """The nodes of a type, or the edges of a type, also by (source type, target type).

        Without types, the attribute of a name.
        """
        if isinstance(key, int | slice):
            raise TypeError("a stored graph is one graph and no list of them: leave the index out")
        if not isinstance(key, str):
            return self.facade[self.edge_type_of(key)]
        if self.is_typed and key not in self.nodes:
            raise KeyError(f"no node type {key!r}; there are {self.node_types}")
        return self.facade[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return getattr(self.facade, name)

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            setattr(self.facade, name, value)

    def __setitem__(self, name: str, value: object) -> None:
        setattr(self.facade, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.facade, name)

    def __delitem__(self, name: str) -> None:
        delattr(self.facade, name)

    def __contains__(self, name: object) -> bool:
        return name in self.facade

    def __call__(self, *names: str) -> Iterator[tuple[str, object]]:
        """Pairs of a name and its value, of those names that the graph has."""
        return ((name, self[name]) for name in names if name in self)

    def __dir__(self) -> set[str]:
        return {*super().__dir__(), *dir(self.facade)}

    def __copy__(self) -> Dataset:
        copied = Dataset.__new__(Dataset)
        vars(copied).update(vars(self))
        copied._nodes = {name: copy.copy(store) for name, store in self.nodes.items()}
        copied._edges = {edge_type: copy.copy(store) for edge_type, store in self.edges.items()}
        copied._facade = self.facade.of_copy(copied._nodes, copied._edges)
        return copied

    def require_unedited(self, names: Collection[str] | None) -> None:
        """Refuses a pass where something was edited in place that batches do not have so.

        Raises
        ------
        ValueError
            Naming it. `names` are those of attributes that batches have; None for all.
        """
        if self._facade is not None:  # else nothing was handed out
            self._facade.require_unedited(names)

    @property
    def deleted(self) -> tuple[str, ...]:
        """Names of what was deleted from this copy of a dataset."""
        return () if self._facade is None else self._facade.deleted

    def to(self, device: object, *names: str, **options: object) -> Dataset:
        """The dataset itself, for the processor: a stored graph cannot be moved.

        Raises
        ------
        ValueError
            For another device.
        """
        if not str(device).startswith("cpu"):
            raise ValueError(
                f"a stored graph stays in its files, and cannot be moved to {device}: move "
                f"batches, batch.to({str(device)!r}), or what is read, data.y.to({str(device)!r})"
            )
        return self

    # methods: an AttributeError of a property would not arrive, because of __getattr__
    def _only_nodes(self) -> NodeStore:
        self._require_one_type(self.nodes)
        return self.nodes[NODES]

    def _only_edges(self) -> EdgeStore:
        self._require_one_type(self.edges)
        return self.edges[EDGES]

    def _require_one_type(self, types: Iterable[str | EdgeType]) -> None:
        if self.is_typed:
            raise AttributeError(f"each type has its own: there are {', '.join(map(repr, types))}")

    @property
    def graph(self) -> Graph:
        """The neighbour lists."""
        return self._only_edges().graph

    @property
    def attributes(self) -> dict[str, FeatureStore]:
        """All rows of the nodes: features as 'x', labels as 'y'."""
        return self._only_nodes().attributes

    @property
    def splits(self) -> Splits:
        """Node ids of each split, by name."""
        return self._only_nodes().splits

    @property
    def num_classes(self) -> int | None:
        """Largest label + 1, where labels are integers."""
        return self._only_nodes().num_classes

    @property
    def classes(self) -> dict[str, list[str]]:
        """The names of classes, by attribute of nodes or edges, as in ``classes["y"][2]``."""
        return {**self._only_nodes().classes, **self._only_edges().classes}

    @property
    def edge_attributes(self) -> dict[str, FeatureStore]:
        """All rows of the edges, by name."""
        return self._only_edges().attributes

    @property
    def edge_splits(self) -> EdgeSplits:
        """Positions in the edge list of each split, by name."""
        return self._only_edges().splits

    @property
    def sampled_by(self) -> SampledBy:
        """The attributes that drive sampling."""
        return self._only_edges().sampled_by

    @property
    def node_ids(self) -> RowArray | NodeTexts | None:
        """The user's own id of each node, where the build had ``ids="map"``; else None.

        Integers are a read-only (num_nodes,) view of the file, int64 or uint64. Texts are a
        sequence: ``node_ids[5]`` is a str, ``node_ids[batch.n_id]`` an array of str. Ids ascend,
        texts by their UTF-8 bytes; nodes that were appended stand behind the others.
        """
        return self._only_nodes().node_ids

    @property
    def features(self) -> FeatureStore | None:
        """The attribute "x" of the nodes."""
        return self.attributes.get("x")

    @property
    def labels(self) -> FeatureStore | None:
        """The attribute "y" of the nodes."""
        return self.attributes.get("y")

    def lookup(self, ids: Any, *, missing: int | None = None) -> Any:
        """The nodes that have some of the user's own ids, where the build had ``ids="map"``.

        Parameters
        ----------
        ids : int, str, or array-like of them
        missing : int, optional
            What to return for ids that no node has, such as -1. Default: they are an error.

        Returns
        -------
        int or int64 array
            Of the shape of `ids`: what seeds, splits and ``batch.n_id`` are.

        Raises
        ------
        KeyError
            Naming the first id that no node has.
        ValueError
            If the dataset has no table of ids, or has ids of the other kind.
        AttributeError
            If the graph has node types: each has its own, ``ds["paper"].lookup(ids)``.
        """
        return self._only_nodes().lookup(ids, missing=missing)

    def warn_of_direction(self) -> None:
        """Warns, once, of messages against the edges that nobody has chosen: see `open_dataset`."""
        note, self._direction_note = self._direction_note, None
        if note is not None:
            warn_user(note)

    @property
    def huge_topology(self) -> HugeTopology | None:
        """What ``topology="huge"`` of `graphzero.open` reads; None without it."""
        return self._huge

    @property
    def paths(self) -> list[str]:
        """Every mapped file."""
        return [part.path for part in self._parts()]

    @property
    def mappings(self) -> list[_core.Mapping]:
        """A mapping of every file, one for each."""
        return list({part.mapping.path: part.mapping for part in self._parts()}.values())

    def _parts(self) -> list[MappedFile]:
        files: list[MappedFile] = []
        for store in (*self.edges.values(), *self.nodes.values()):
            files += store.files()
        return files if self._extras is None else [*files, self._extras]

    def reload(self) -> Dataset:
        """Opens the folder as it is now: with what was appended or set, or built again, since.

        This dataset and its loaders stay what they are, and keep the earlier files until it is
        closed. What was deleted from a copy is there again.

        Raises
        ------
        ValueError
            If the dataset was put together from files of no folder.
        FormatError, OSError
            As of `graphzero.open`.
        """
        if self._folder is None:
            raise ValueError("this dataset was made of single files: open these again")
        is_huge = self._huge is not None
        opened = open_dataset(self._folder, topology="huge" if is_huge else "mapped")
        opened.facade.unsaved.update(self.facade.unsaved)
        return opened

    def close(self) -> None:
        """Unmaps all files.

        Raises
        ------
        BufferError
            While arrays over one of the files exist; the other files are closed nevertheless.
        """
        if self._huge is not None:
            self._huge.close()
        with ExitStack() as stack:  # which calls all of them, whatever one raises
            for file in self._parts():
                stack.callback(file.close)

    def __repr__(self) -> str:
        kept = list(self.facade.kept())
        shapes = {
            key: ", ".join([*store.shapes(), *self.facade[key].kept()])
            for key, store in self._stores()
        }
        if not self.is_typed:
            return f"Dataset({', '.join([*shapes.values(), *kept])}, neighbors={self.neighbors!r})"
        names = [key if isinstance(key, str) else f"({', '.join(key)})" for key in shapes]
        lines = [
            f"{name}={{ {shape} }}" for name, shape in zip(names, shapes.values(), strict=True)
        ]
        return "\n".join(["Dataset(", *(f"  {line}," for line in [*kept, *lines]), ")"])

    def _repr_html_(self) -> str:
        """A row for each attribute and split, for notebooks."""
        rows = []
        for key, store in self._stores():
            type_name = key if isinstance(key, str) else ", ".join(filter(None, key))
            rows += [[type_name, *row] for row in store.table_rows()]
            rows += [[type_name, name, "", "", ""] for name in self.facade[key].kept()]
        rows += [["", name, "", "", ""] for name in self.facade.kept()]
        header = ["type", "attribute", "shape", "dtype", "size"]
        return f"Dataset, neighbors={self.neighbors!r}\n" + html_table(rows, header)

    def _stores(self) -> Iterator[tuple[str | EdgeType, NodeStore | EdgeStore]]:
        yield from self.nodes.items()
        yield from self.edges.items()


TypedDataset = Dataset


def open_dataset(
    path: str | os.PathLike[str],
    *,
    cache: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    topology: Literal["mapped", "huge"] = "mapped",
) -> Dataset:
    """Opens a dataset folder: maps its files and reads only their headers.

    Parameters
    ----------
    path : path-like
        A folder that `graphzero.build` has written, or the address of one on a remote store, such
        as ``s3://bucket/data``, from which it is fetched first: see `graphzero.fetch`.
    cache : path-like, optional
        A folder on a disk of this machine, in which a copy of the files is kept, one folder for
        each address. Needed for an address; with a path, such as of a shared file system, the copy
        is opened, too. What the store has is compared each time; where it cannot be read, an
        earlier copy serves, with a warning.
    storage_options : dict, optional
        Of fsspec's file system, such as ``{"anon": True}``.
    topology : {"mapped", "huge"}
        "huge" reads the topology into huge pages of the page cache, in the background, for walks
        at 1.3 to 1.8 times the speed on graphs of GBs that fit in memory. The same is sampled;
        ``ds.huge_topology.wait()`` waits for it. A warning says where the kernel cannot do it, or
        memory is too short.

    Returns
    -------
    Dataset
        A directed graph in a folder of version 1 has out-neighbours, and nobody has chosen them:
        the first loader over it warns that messages flow against the edges.

    Raises
    ------
    FileNotFoundError
        If there is no dataset.
    FileExistsError
        If the copy in `cache` was changed there.
    ValueError
        For an address without `cache`, or another `topology`.
    FormatError
        If a file is truncated, not of this format, corrupt or of an unknown version, or if the
        files do not belong together.
    BlockingIOError
        If rebuilds replaced the dataset again and again while it was being opened.
    """
    if cache is not None or is_url(path):
        from graphzero.store.remote import cached_copy  # threads, which local files do not need

        path = cached_copy(path, cache, storage_options)
    if topology not in ("mapped", "huge"):
        raise ValueError(f"topology must be 'mapped' or 'huge', not {topology!r}")
    folder = Path(path)
    ds = open_build(folder, partial(_open_files, folder), Dataset.close)
    if topology == "huge":
        graphs = [file for file in ds._parts() if isinstance(file, Graph)]
        ds._huge = HugeTopology([graph.mapping for graph in graphs])
    return ds


def _open_files(folder: Path, manifest: Manifest) -> Dataset:
    """Maps what a manifest names; maps nothing if one of the files is wrong."""
    with ExitStack() as stack:
        files = _Files(folder, stack)
        graph_class = EdgeTypeGraph if manifest.is_typed else Graph
        graphs = {
            edge_type: files.open(graph_class, table.graph)
            for edge_type, table in manifest.edges.items()
        }
        nodes = {}
        for name, table in manifest.nodes.items():
            nodes[name] = _node_store(files, name, table, graphs.get(EDGES))
        edges = []
        for edge_type, graph in graphs.items():
            ends = (nodes[edge_type[0]], nodes[edge_type[2]])
            if not _agrees(graph, ends, manifest, edge_type):
                raise FormatError(
                    f"{folder}: the graph file is not the one that dataset.json describes: "
                    f"build the dataset again"
                )
            edges.append(_edge_store(files, graph, ends, edge_type, manifest.edges[edge_type]))
        if manifest.out_graph is not None:
            graphs[EDGES].attach_out_lists(files.open(Graph, manifest.out_graph))
        ds = Dataset.of_types(nodes.values(), edges)
        if manifest.extras is not None:
            ds._extras = files.open(FeatureStore, manifest.extras)
        ds._folder = os.path.abspath(folder)
        if manifest.neighbors is None:
            ds._direction_note = _note_of_version_1(folder, manifest)
        stack.pop_all()
        return ds


@dataclass(frozen=True)
class _Files:
    """Opens files of a folder, which the stack closes."""

    folder: Path
    stack: ExitStack

    def open(self, file_class: Callable[[Path], _File], entry: FileEntry) -> _File:
        file = file_class(entry.resolve(self.folder))
        self.stack.enter_context(file)
        entry.require_described(file.mapping.read(0, PAGE_BYTES), file.path)
        return file

    def open_all(
        self, file_class: Callable[[Path], _File], entries: Mapping[str, FileEntry]
    ) -> dict[str, _File]:
        return {name: self.open(file_class, entry) for name, entry in entries.items()}


def _node_store(files: _Files, name: str, table: NodeTable, graph: Graph | None) -> NodeStore:
    """The nodes of a type; the graph has their order where there are no types."""
    nodes = NodeStore(
        name,
        table.num_nodes,
        files.open_all(FeatureStore, table.attributes),
        splits=Splits(files.open_all(SplitRows, table.splits)),
        num_classes=table.num_classes,
        classes=table.classes,
        order=graph if table.ids is None else files.open(StoredIds, table.ids),
        id_table=None if table.id_map is None else files.open(IdTable, table.id_map),
    )
    for store in nodes.attributes.values() if graph is None else ():
        if not nodes.keeps_order_of(store):  # rows are found by the numbers of the nodes
            raise FormatError(
                f"{store.path} does not have the nodes of the type {name!r} in the order of the "
                f"dataset: build the dataset again"
            )
    return nodes


def _agrees(
    graph: Graph, ends: tuple[NodeStore, NodeStore], manifest: Manifest, edge_type: EdgeType
) -> bool:
    """Whether a graph file has the counts and the direction that the manifest says."""
    owner, neighbor = ends[::-1] if manifest.incoming else ends
    return (
        graph.num_nodes == owner.num_nodes
        and graph.num_neighbors == neighbor.num_nodes
        and graph.num_edges == manifest.edges[edge_type].num_edges
        and graph.is_directed == manifest.directed
        and graph.is_incoming == manifest.incoming
    )


def _edge_store(
    files: _Files,
    graph: Graph,
    ends: tuple[NodeStore, NodeStore],
    edge_type: EdgeType,
    table: EdgeTable,
) -> EdgeStore:
    weight = table.weight if "weights" in graph.section_bytes else None
    time = table.time if "times" in graph.section_bytes else None
    sections = {weight: "weights", time if table.time_level == "edge" else None: "times"}
    attributes: dict[str, FeatureStore] = {
        name: files.open(partial(EdgeRows, section=section), table.graph)
        for name, section in sections.items()
        if name is not None
    }
    attributes.update(files.open_all(FeatureStore, table.attributes))
    return EdgeStore(
        edge_type,
        graph,
        ends,
        attributes,
        splits=EdgeSplits(files.open_all(SplitRows, table.splits)),
        sampled_by=SampledBy(weight, time, table.time_level),
        classes=table.classes,
    )


def _note_of_version_1(folder: Path, manifest: Manifest) -> str:
    return (
        f"{folder} was built before graphzero knew neighbors=: its neighbour lists have the "
        f"targets of each node's edges, so that messages flow against the edges. For messages "
        f"along them, as in PyG, build it again, or call graphzero.reorder({str(folder)!r}, "
        f"{manifest.order!r}, neighbors='in'); neighbors='out' keeps it as it is without this "
        f"warning"
    )
