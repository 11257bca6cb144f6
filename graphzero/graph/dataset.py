"""`Dataset`: the files of one graph, opened together.

A graph without types is the graph with one node type and one edge type, both without a name; what
`Dataset` has as a whole is a view of these.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy.typing as npt

from graphzero import _core
from graphzero.errors import FormatError, user_line
from graphzero.graph.features import EdgeRows, FeatureStore, SplitRows, StoredIds
from graphzero.graph.graph import EdgeTypeGraph, Graph
from graphzero.graph.stores import (
    EdgeSplits,
    EdgeStore,
    Extras,
    Named,
    NodeStore,
    Splits,
    edited_error,
    missing,
)
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
    SampledBy,
    open_build,
)
from graphzero.store.mapped_file import ClosedAtExit
from graphzero.units import html_table, is_url

_Part = TypeVar("_Part", NodeStore, EdgeStore)

# Properties of torch_geometric.data.Data that are None where a graph lacks them.
OF_DATA = frozenset({"edge_weight", "edge_attr", "edge_time", "edge_type", "time", "pos", "face"})


_OF_ONE_TYPE = (
    *("attributes", "sampled_by", "edge_attributes", "edge_index", "edge_splits", "features"),
    *("graph", "labels", "lookup", "node_ids", "num_classes", "splits"),
)


def _only(stores: Mapping[Any, _Part]) -> _Part:
    """The nodes or the edges of a graph without types."""
    if not {NODES, EDGES} & stores.keys():
        raise AttributeError(f"each type has its own: there are {', '.join(map(repr, stores))}")
    return next(iter(stores.values()))


def _of_nodes(name: str, doc: str) -> Any:
    return property(lambda ds: getattr(_only(ds.nodes), name), doc=doc)


def _of_edges(name: str, doc: str) -> Any:
    return property(lambda ds: getattr(_only(ds.edges), name), doc=doc)


def _columns(of: str, doc: str) -> Any:
    def count(ds: Dataset) -> Any:
        found = {key: store.num_features for key, store in getattr(ds, of).items()}
        return found if ds.is_typed else next(iter(found.values()))

    return property(count, doc=doc)


class Dataset(Named, ClosedAtExit):
    """A graph with features, labels and splits of its nodes, or with node types and edge types.

    Usually opened by `graphzero.open`; create it yourself for files of a graph without types that
    were not built together.

    It has the names that scripts for PyG read of a graph: ``ds.x``, ``ds.edge_index``,
    ``ds.train_mask``, ``ds.num_features``, whatever `from_data` was given; with types,
    ``ds["paper"].x``, ``ds.x_dict`` and ``ds.metadata()``. An attribute is a tensor of all rows,
    read from disk when it is asked for. ``ds["paper"]`` is a `NodeStore`, ``ds["author", "writes",
    "paper"]`` an `EdgeStore`; a graph without types has the attributes of its nodes and edges as a
    whole. ``copy.copy(ds)`` is another view of the same files: what is deleted from it, the batches
    of its loaders do not have.

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

    _is_opened = True
    nodes: dict[str, NodeStore]
    edges: dict[EdgeType, EdgeStore]
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
        nodes = NodeStore(NODES, graph.num_nodes, of_nodes, splits, num_classes, graph)
        edges = EdgeStore(EDGES, graph, (nodes, nodes), edge_attributes or {}, edge_splits)
        vars(self).update(nodes={NODES: nodes}, edges={EDGES: edges})

    @classmethod
    def of_types(cls, nodes: Iterable[NodeStore], edges: Iterable[EdgeStore]) -> Dataset:
        """The dataset of these node types and edge types."""
        dataset = cls.__new__(cls)
        by_type = {store.node_type: store for store in nodes}
        vars(dataset).update(nodes=by_type, edges={store.edge_type: store for store in edges})
        return dataset

    def have_extras(self, extras: Extras) -> None:
        """Takes what has no row for each node or edge."""
        vars(self)["extras"] = extras
        for store in self._stores.values():
            vars(store)["extras"] = extras

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

    def __getitem__(self, key: Any) -> Any:
        """The nodes of a type, or the edges of a type, also by (source type, target type).

        Without types, the attribute of a name.
        """
        if isinstance(key, str) and not self.is_typed:
            return self._attribute(key)
        if isinstance(key, str):
            if key not in self.nodes:
                raise KeyError(f"no node type {key!r}; there are {self.node_types}")
            return self.nodes[key]
        if isinstance(key, int | slice):
            raise TypeError("a stored graph is one graph and no list of them: leave the index out")
        return self.edges[self.edge_type_of(key)]

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
        found = [kind for kind in self.edges if names in (kind, (kind[0], kind[2]))]
        if len(found) != 1:
            many = "several edge types" if found else "no edge type"
            raise KeyError(f"{many} {names!r}; there are {self.edge_types}")
        return found[0]

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
    def _stores(self) -> dict[Any, NodeStore | EdgeStore]:
        return {**self.nodes, **self.edges}

    def __dir__(self) -> list[str]:
        hidden = set(_OF_ONE_TYPE).union(*self._stores.values()) - self.kept().keys()
        return sorted(set(super().__dir__()) - (hidden if self.is_typed else set()))

    def keys(self) -> list[str]:
        """Names of all attributes, also of those that only some types have."""
        names = [name for store in self._stores.values() for name in store]
        return list(dict.fromkeys([*names, *self.kept()]))

    def __call__(self, *names: str) -> Iterator[tuple[str, Any]]:
        """Pairs of a name and its value, of those names that the graph has."""
        return ((name, self[name]) for name in names if name in self)

    def metadata(self) -> tuple[list[str], list[EdgeType]]:
        """Node types and edge types, as ``to_hetero`` takes them."""
        return self.node_types, self.edge_types

    num_features = num_node_features = _columns(
        "nodes", "Columns of ``x``; with types, by node type."
    )
    num_edge_features = _columns("edges", "Columns of ``edge_attr``; with types, by edge type.")

    def collect(self, name: str) -> dict[Any, Any]:
        """An attribute of all types that have it, by type.

        Raises
        ------
        KeyError
            If no type has it.
        """
        counts: dict[str, Mapping[Any, Any]] = {"num_nodes": self.nodes, "num_edges": self.edges}
        found = {
            key: getattr(store, name)
            for key, store in counts.get(name, self._stores).items()
            if name in counts or name in store
        }
        if not found:
            raise KeyError(f"no type has an attribute {name!r}")
        return found

    def shadowed(self) -> list[str]:
        """Attributes whose names mean something else here: they are read as ``ds[name]``."""
        holders: list[Any] = [*self._stores.values()] if self.is_typed else [self]
        return [
            name
            for holder in holders
            for name in holder.keys()  # noqa: SIM118 (it is no dictionary)
            if name != "edge_index" and (hasattr(type(holder), name) or name in vars(holder))
        ]

    def require_unedited(self, names: Collection[str] | None) -> None:
        """Refuses a pass where something was edited in place that batches do not have so.

        Raises
        ------
        ValueError
            Naming it. `names` are those of attributes that batches have; None for all.
        """
        for key, store in self._stores.items():
            for name in store.watched.edited():
                if names is None or name in names or name not in store.attributes:
                    raise edited_error(f"data[{key!r}].{name}" if self.is_typed else f"data.{name}")

    def _attribute(self, name: str) -> Any:
        """What belongs to the whole graph; without types, also an attribute of nodes or edges."""
        for store in () if self.is_typed else self._stores.values():
            try:
                return store[name]
            except KeyError:
                continue
        kept = self.kept()
        if name not in kept:
            raise KeyError(f"there is no {name!r} here, but {', '.join(self.keys())}")
        return kept[name]

    def __getattr__(self, name: str) -> Any:
        """An attribute of the graph; of those that PyG's ``Data`` always has, None if absent."""
        if name.startswith("_") or "nodes" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        with suppress(KeyError):
            if self.is_typed and name.endswith("_dict"):
                return self.collect(name.removesuffix("_dict"))
            return self._attribute(name)
        if self.is_typed:
            raise missing(name, [f"ds[{key!r}]" for key in self._stores])
        if name == "n_id":
            return self.nodes[NODES].n_id
        if name in OF_DATA | {"x", "y"}:
            return None
        raise missing(name, self.keys())

    def __delattr__(self, name: str) -> None:
        """Deletes an attribute from a copy: without types, from that of the nodes or the edges."""
        stores = [] if self.is_typed else [one for one in self._stores.values() if name in one]
        if self.is_typed and self._deleted is not None and name not in self.kept():
            raise AttributeError(f"there is no attribute {name!r} of the whole graph to delete")
        if stores:
            delattr(stores[0], name)
        else:
            super().__delattr__(name)

    def __copy__(self) -> Dataset:
        copied = type(self).__new__(type(self))
        nodes = {key: copy.copy(store) for key, store in self.nodes.items()}
        edges = {key: copy.copy(store) for key, store in self.edges.items()}
        own = {"nodes": nodes, "edges": edges, "_deleted": [*(self._deleted or ())]}
        vars(copied).update(vars(self), **own)
        return copied

    @property
    def deleted(self) -> tuple[str, ...]:
        """Names of what was deleted from this copy of a dataset."""
        return tuple(n for of in (self, *self._stores.values()) for n in of._deleted or ())

    def to(self, device: Any, *names: str, **options: Any) -> Dataset:
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

    graph: Graph = _of_edges("graph", "The neighbour lists.")
    attributes: dict[str, FeatureStore] = _of_nodes(
        "attributes", "All rows of the nodes: features as 'x', labels as 'y'."
    )
    splits: Splits = _of_nodes("splits", "Node ids of each split, by name.")
    num_classes: int | None = _of_nodes(
        "num_classes", "Largest label + 1, where labels are integers."
    )
    edge_attributes: dict[str, FeatureStore] = _of_edges(
        "attributes", "All rows of the edges, by name."
    )
    edge_splits: EdgeSplits = _of_edges(
        "splits", "Positions in the edge list of each split, by name."
    )
    sampled_by: SampledBy = _of_edges("sampled_by", "The attributes that drive sampling.")
    node_ids: npt.NDArray[Any] | NodeTexts | None = _of_nodes(
        "node_ids",
        """The user's own id of each node, where the build had ``ids="map"``; else None.

        Integers are a read-only (num_nodes,) view of the file, int64 or uint64. Texts are a
        sequence: ``node_ids[5]`` is a str, ``node_ids[batch.n_id]`` an array of str. Ids ascend,
        texts by their UTF-8 bytes; nodes that were appended stand behind the others.
        """,
    )

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
        return _only(self.nodes).lookup(ids, missing=missing)

    # ---- files

    def warn_of_direction(self) -> None:
        """Warns, once, of messages against the edges that nobody has chosen: see `open_dataset`."""
        note, self._direction_note = self._direction_note, None
        if note is not None:
            warnings.warn(note, UserWarning, stacklevel=user_line())

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

    def _parts(self) -> list[Graph | FeatureStore | IdTable]:
        files = [file for edges in self.edges.values() for file in edges.files()]
        more = [file for nodes in self.nodes.values() for file in nodes.files()]
        return [*files, *more, *([] if self.extras.file is None else [self.extras.file])]

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
        opened.have_extras(Extras(opened.extras.file, self.extras.unsaved))
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
        with ExitStack() as files:  # which calls all of them, whatever one raises
            for part in self._parts():
                files.callback(part.close)

    def __repr__(self) -> str:
        shapes = {key: ", ".join(store.shapes()) for key, store in self._stores.items()}
        kept = list(self.kept())
        if not self.is_typed:
            return f"Dataset({', '.join([*shapes.values(), *kept])}, neighbors={self.neighbors!r})"
        names = [key if isinstance(key, str) else f"({', '.join(key)})" for key in shapes]
        lines = [f"{name}={{ {of} }}" for name, of in zip(names, shapes.values(), strict=True)]
        return "\n".join(["Dataset(", *(f"  {line}," for line in [*kept, *lines]), ")"])

    def _repr_html_(self) -> str:
        """A row for each attribute and split, for notebooks."""
        rows = [
            [key if isinstance(key, str) else ", ".join(filter(None, key)), *row]
            for key, store in self._stores.items()
            for row in store.table_rows()
        ]
        rows += [["", name, "", "", ""] for name in self.kept()]
        return f"Dataset, neighbors={self.neighbors!r}\n" + html_table(
            rows, ["type", "attribute", "shape", "dtype", "size"]
        )


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
    with ExitStack() as opened:

        def open_file(kind: Callable[[Path], Any], entry: FileEntry | None) -> Any:
            if entry is None:
                return None
            file = opened.enter_context(kind(entry.resolve(folder)))
            entry.require_described(file.mapping.read(0, PAGE_BYTES), file.path)
            return file

        def rows_of(
            entries: Mapping[str, FileEntry], kind: type[FeatureStore] = FeatureStore
        ) -> dict[str, FeatureStore]:
            return {name: open_file(kind, entry) for name, entry in entries.items()}

        of_graph = EdgeTypeGraph if manifest.is_typed else Graph
        graphs = {kind: open_file(of_graph, table.graph) for kind, table in manifest.edges.items()}
        nodes: dict[str, NodeStore] = {}
        for name, table in manifest.nodes.items():
            rows, splits = rows_of(table.attributes), Splits(rows_of(table.splits, SplitRows))
            order = open_file(StoredIds, table.ids) if manifest.is_typed else graphs[EDGES]
            facts = (splits, table.num_classes, order, open_file(IdTable, table.id_map))
            nodes[name] = NodeStore(name, table.num_nodes, rows, *facts)
            if manifest.is_typed:
                _check_order(nodes[name])
        edges = []
        for kind, of_kind in manifest.edges.items():
            graph, ends = graphs[kind], (nodes[kind[0]], nodes[kind[2]])
            owner, neighbor = ends[::-1] if manifest.incoming else ends
            found = (graph.num_nodes, graph.num_neighbors, graph.num_edges)
            expected = (owner.num_nodes, neighbor.num_nodes, of_kind.num_edges)
            directions = (manifest.directed, manifest.incoming)
            if (found, (graph.is_directed, graph.is_incoming)) != (expected, directions):
                raise FormatError(
                    f"{folder}: the graph file is not the one that dataset.json describes: "
                    f"build the dataset again"
                )
            sampled_by, sections = _sampled_by(graph, of_kind)
            of_edges: dict[str, FeatureStore] = {
                name: open_file(partial(EdgeRows, section=section), of_kind.graph)
                for name, section in sections.items()
            }
            of_edges |= rows_of(of_kind.attributes)
            edge_splits = EdgeSplits(rows_of(of_kind.splits, SplitRows))
            edges.append(EdgeStore(kind, graph, ends, of_edges, edge_splits, sampled_by))
        if manifest.out_graph is not None:
            graphs[EDGES].attach_out_lists(open_file(Graph, manifest.out_graph))
        ds = Dataset.of_types(nodes.values(), edges)
        ds.have_extras(Extras(open_file(FeatureStore, manifest.extras)))
        ds._folder = os.path.abspath(folder)
        if manifest.neighbors is None:
            ds._direction_note = _note_of_version_1(folder, manifest)
        opened.pop_all()
        return ds


def _check_order(nodes: NodeStore) -> None:
    """Rows are found by the numbers of the nodes, whatever their files say."""
    for store in nodes.attributes.values():
        if not nodes.keeps_order_of(store):
            raise FormatError(
                f"{store.path} does not have the nodes of the type {nodes.node_type!r} in the "
                f"order of the dataset: build the dataset again"
            )


def _sampled_by(graph: Graph, table: EdgeTable) -> tuple[SampledBy, dict[str, str]]:
    """The attributes that drive sampling, and the sections of the graph file with their rows."""
    weight = table.weight if "weights" in graph.section_bytes else None
    time = table.time if "times" in graph.section_bytes else None
    sections = {weight: "weights", time if table.time_level == "edge" else None: "times"}
    named = {name: section for name, section in sections.items() if name is not None}
    return SampledBy(weight, time, table.time_level), named


def _note_of_version_1(folder: Path, manifest: Manifest) -> str:
    return (
        f"{folder} was built before graphzero knew neighbors=: its neighbour lists have the "
        f"targets of each node's edges, so that messages flow against the edges. For messages "
        f"along them, as in PyG, build it again, or call graphzero.reorder({str(folder)!r}, "
        f"{manifest.order!r}, neighbors='in'); neighbors='out' keeps it as it is without this "
        f"warning"
    )
