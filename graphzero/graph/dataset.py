"""`Dataset`: the files of one graph, opened together.

A graph without types is the graph with one node type and one edge type, both without a name; what
`Dataset` has as a whole is a view of these.
"""

from __future__ import annotations

import copy
import os
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy.typing as npt

from graphzero import _core
from graphzero.errors import FormatError, user_line
from graphzero.graph.features import EdgeRows, FeatureStore, StoredIds
from graphzero.graph.graph import Graph
from graphzero.graph.stores import (
    EdgeStore,
    Extras,
    NodeStore,
    Splits,
    edited_error,
    missing,
    refuse_setting,
)
from graphzero.graph.user_input import NodeTexts
from graphzero.store.id_table import IdTable, open_id_table
from graphzero.store.manifest import (
    EDGES,
    NODES,
    Driving,
    EdgeTable,
    EdgeType,
    FileEntry,
    Manifest,
    Neighbors,
    open_build,
)
from graphzero.store.mapped_file import ClosedAtExit
from graphzero.store.tuning_file import (
    TUNING_NAME,
    Tuning,
    files_digest,
    machine_differences,
    read_tuning,
    this_machine,
)

# Properties of torch_geometric.data.Data that are None where a graph lacks them.
OF_DATA = frozenset({"edge_weight", "edge_attr", "edge_time", "edge_type", "time", "pos", "face"})


class Dataset(ClosedAtExit):
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
    out_graph : Graph, optional
        The out-neighbours, where `graph` has the in-neighbours of the same edges, in the same order
        of nodes: for walks.
    attributes : mapping of str to FeatureStore, optional
        Further rows of the nodes, by name.
    edge_attributes : mapping of str to FeatureStore, optional
        Rows of the edges, by name, in the order of the lists of `graph`.
    edge_splits : Splits, optional
        Positions in the edge list.
    driving : Driving, optional
        The attributes that drive sampling.
    id_table : IdTable, optional
        The user's own ids of the nodes.

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
        If a file does not have one row per node, or per stored edge.
    FormatError
        If the two graphs do not belong together.
    """

    nodes: dict[str, NodeStore]
    edges: dict[EdgeType, EdgeStore]
    _out_graph: Graph | None = None
    _direction_note: str | None = None  # what to warn of, where nobody has chosen the direction
    any_tuning: Tuning | None = None  # in the folder, for whatever machine and files
    extras = Extras()
    _deleted: list[str] | None = None  # of a copy

    def __init__(
        self,
        graph: Graph,
        features: FeatureStore | None = None,
        labels: FeatureStore | None = None,
        splits: Splits | None = None,
        *,
        num_classes: int | None = None,
        out_graph: Graph | None = None,
        attributes: Mapping[str, FeatureStore] | None = None,
        edge_attributes: Mapping[str, FeatureStore] | None = None,
        edge_splits: Splits | None = None,
        driving: Driving | None = None,
        id_table: IdTable | None = None,
    ) -> None:
        if graph._is_of_type:
            raise ValueError(
                f"{graph.path} is an edge type of a typed graph, and no graph of its own: open its "
                f"dataset folder with graphzero.open"
            )
        rows = {"features": features, "labels": labels, **(attributes or {})}
        for name, store in rows.items():
            _check_count(name, store, graph.num_nodes, "nodes")
        for name, store in (edge_attributes or {}).items():
            _check_count(name, store, graph.num_edges, "stored edges")
        named = {"x": features, "y": labels, **(attributes or {})}
        of_nodes = {name: store for name, store in named.items() if store is not None}
        nodes = NodeStore(NODES, graph.num_nodes, of_nodes, splits, num_classes, graph, id_table)
        ends = (nodes, nodes)
        edges = EdgeStore(EDGES, graph, ends, edge_attributes or {}, edge_splits, driving)
        self._have([nodes], [edges], out_graph)

    def _have(
        self, nodes: Iterable[NodeStore], edges: Iterable[EdgeStore], out_graph: Graph | None
    ) -> None:
        by_type = {store.node_type: store for store in nodes}
        vars(self).update(nodes=by_type, edges={store.edge_type: store for store in edges})
        if out_graph is not None:
            _check_pair(self.graph, out_graph)
            self.graph.attach_out_lists(out_graph)
            self._out_graph = out_graph

    @classmethod
    def of_types(
        cls,
        nodes: Iterable[NodeStore],
        edges: Iterable[EdgeStore],
        out_graph: Graph | None = None,
    ) -> Dataset:
        """The dataset of these node types and edge types."""
        dataset = cls.__new__(cls)
        dataset._have(nodes, edges, out_graph)
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

    # ---- a graph without types, as a whole

    def _only(self) -> tuple[NodeStore, EdgeStore]:
        if self.is_typed:
            raise AttributeError  # `__getattr__` says it by name
        return self.nodes[NODES], self.edges[EDGES]

    # ---- what scripts for PyG read of a graph

    @property
    def _stores(self) -> dict[Any, NodeStore | EdgeStore]:
        return {**self.nodes, **self.edges}

    def keys(self) -> list[str]:
        """Names of all attributes, also of those that only some types have."""
        names = [name for store in self._stores.values() for name in store]
        return list(dict.fromkeys([*names, *self.kept()]))

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __call__(self, *names: str) -> Iterator[tuple[str, Any]]:
        """Pairs of a name and its value, of those names that the graph has."""
        return ((name, self[name]) for name in names if name in self)

    def metadata(self) -> tuple[list[str], list[EdgeType]]:
        """Node types and edge types, as ``to_hetero`` takes them."""
        return self.node_types, self.edge_types

    def _of_stores(self, stores: Mapping[Any, NodeStore | EdgeStore]) -> Any:
        found = {key: store.num_features for key, store in stores.items()}
        return found if self.is_typed else next(iter(found.values()))

    @property
    def num_features(self) -> Any:
        """Columns of ``x``; with types, by node type."""
        return self._of_stores(self.nodes)

    num_node_features = num_features

    @property
    def num_edge_features(self) -> Any:
        """Columns of ``edge_attr``; with types, by edge type."""
        return self._of_stores(self.edges)

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
            return self._attribute(name)
        if not self.is_typed:
            if name == "n_id":
                return self.nodes[NODES].n_id
            if name in OF_DATA | {"x", "y"}:
                return None
            raise missing(name, self.keys(), "Data", "the stored graph")
        of_pyg = getattr(sys.modules.get("torch_geometric.data"), "HeteroData", None)
        if hasattr(of_pyg, name) and not hasattr(Dataset, name):
            raise missing(name, [], "HeteroData", "the stored graph")
        if name.endswith("_dict"):
            try:
                return self.collect(name.removesuffix("_dict"))
            except KeyError as error:
                raise AttributeError(error.args[0]) from None
        one, edges = self.node_types[0], ", ".join(map(repr, self.edge_types[0]))
        raise AttributeError(
            f"a graph with node types has no {name!r} as a whole: use ds[{one!r}] for the nodes of "
            f"a type, or ds[{edges}] for edges"
        )

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses attributes, which the files and batches would not have."""
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            count = -1 if self.is_typed and name != "num_nodes" else self.num_nodes
            refuse_setting(name, value, count, "data")

    __setitem__ = __setattr__

    def __delattr__(self, name: str) -> None:
        """Deletes an attribute of a copy, whose loaders then do not read it."""
        holders = [] if self.is_typed else [one for one in self._stores.values() if name in one]
        if holders or name not in self.kept():
            return delattr([*holders, *self._stores.values()][0], name)
        if self._deleted is None:
            return delattr(next(iter(self._stores.values())), name)  # which says why not
        self._deleted.append(name)

    __delitem__ = __delattr__

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
        holders: list[Any] = [self, *self._stores.values()]
        return tuple(name for holder in holders for name in holder._deleted or ())

    def kept(self) -> dict[str, Any]:
        """What belongs to the whole graph, by name."""
        values = self.extras.kept(None)
        return {name: value for name, value in values.items() if name not in (self._deleted or ())}

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

    def __dir__(self) -> list[str]:
        names = {name for name in super().__dir__() if not name.startswith("_")} - _INTERNAL
        if self.is_typed:
            return sorted(names - _OF_ONE_TYPE)
        return sorted(names | set(self.keys()))

    @property
    def graph(self) -> Graph:
        """The neighbour lists."""
        return self._only()[1].graph

    @property
    def attributes(self) -> dict[str, FeatureStore]:
        """All rows of the nodes, by name: features as "x", labels as "y"."""
        return self._only()[0].attributes

    @property
    def features(self) -> FeatureStore | None:
        """The attribute "x" of the nodes."""
        return self.attributes.get("x")

    @property
    def labels(self) -> FeatureStore | None:
        """The attribute "y" of the nodes."""
        return self.attributes.get("y")

    @property
    def splits(self) -> Splits:
        """Node ids of each split, by name."""
        return self._only()[0].splits

    @property
    def num_classes(self) -> int | None:
        """Largest label + 1, where labels are integers."""
        return self._only()[0].num_classes

    @property
    def edge_attributes(self) -> dict[str, FeatureStore]:
        """All rows of the edges, by name, those that drive sampling included."""
        return self._only()[1].attributes

    @property
    def edge_splits(self) -> Splits:
        """Positions in the edge list of each split, by name."""
        return self._only()[1].splits

    @property
    def driving(self) -> Driving:
        """The attributes that drive sampling."""
        return self._only()[1].driving

    @property
    def node_ids(self) -> npt.NDArray[Any] | NodeTexts | None:
        """The user's own id of each node, where the build had ``ids="map"``; else None.

        Integers are a read-only (num_nodes,) view of the file, int64 or uint64. Texts are a
        sequence: ``node_ids[5]`` is a str, ``node_ids[batch.n_id]`` an array of str. Ids ascend;
        texts do so by their UTF-8 bytes.
        """
        return self._only()[0].node_ids

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
        if self.is_typed:
            raise AttributeError(
                f"a graph with node types has no 'lookup' as a whole: use "
                f"ds[{self.node_types[0]!r}].lookup(ids) for the nodes of a type"
            )
        return self._only()[0].lookup(ids, missing=missing)

    # ---- files

    def warn_of_direction(self) -> None:
        """Warns, once, of messages against the edges that nobody has chosen: see `open_dataset`."""
        note, self._direction_note = self._direction_note, None
        if note is not None:
            warnings.warn(note, UserWarning, stacklevel=user_line())

    @property
    def tuning(self) -> Tuning | None:
        """What `graphzero tune` has found for these files on this machine; None without it.

        Loaders that are given no ``prefetch=`` use it, where as much memory is available.
        """
        return self.any_tuning if self.tuning_mismatch == "" else None

    @cached_property
    def tuning_mismatch(self) -> str | None:
        """Why the ``tuning.json`` of the folder is not used; None without one, "" if it is."""
        tuned = self.any_tuning
        if tuned is None:
            return None
        if tuned.dataset != files_digest(self.mappings):
            return "it is of other files: run graphzero tune again"
        others = machine_differences(tuned.machine, this_machine(os.path.dirname(self.paths[0])))
        return f"it is of another machine ({'; '.join(others)})" if others else ""

    @property
    def paths(self) -> list[str]:
        """Every mapped file."""
        return [part.path for part in self._parts()]

    @property
    def mappings(self) -> list[_core.Mapping]:
        """A mapping of every file, one for each."""
        return list({part.mapping.path: part.mapping for part in self._parts()}.values())

    def _parts(self) -> list[Graph | FeatureStore | IdTable]:
        parts: list[Graph | FeatureStore | IdTable] = []
        for edges in self.edges.values():
            parts += edges.files()
        parts += [] if self._out_graph is None else [self._out_graph]
        for nodes in self.nodes.values():
            parts += nodes.files()
        return parts if self.extras.file is None else [*parts, self.extras.file]

    def close(self) -> None:
        """Unmaps all files.

        Raises
        ------
        BufferError
            While arrays over one of the files exist; the other files are closed nevertheless.
        """
        refused: BufferError | None = None
        for part in self._parts():
            try:
                part.close()
            except BufferError as error:
                refused = error
        if refused is not None:
            raise refused

    def __repr__(self) -> str:
        kept = list(self.kept())
        if self.is_typed:
            lines = []
            for key, store in self._stores.items():
                name = key if isinstance(key, str) else f"({', '.join(key)})"
                lines.append(f"  {name}={{ {', '.join([_count(store), *store.shapes()])} }},")
            return "\n".join(["Dataset(", *(f"  {n}," for n in kept), *lines, ")"])
        stores = self._stores.values()
        shapes = [*map(_count, stores), *(shape for store in stores for shape in store.shapes())]
        return f"Dataset({', '.join([*shapes, *kept])}, neighbors={self.neighbors!r})"


def _count(store: NodeStore | EdgeStore) -> str:
    if isinstance(store, NodeStore):
        return f"num_nodes={store.num_nodes}"
    return f"edge_index=[2, {store.num_edges}]"


# Names that are for this package.
_INTERNAL = {"any_tuning", "of_types", "require_unedited", "require_untyped", "warn_of_direction"}
_INTERNAL |= {"deleted", "have_extras", "kept", "shadowed", "mappings", "edge_type_of"}
_INTERNAL |= {"tuning_mismatch", "extras"}
_OF_ONE_TYPE = {"attributes", "driving", "edge_attributes", "edge_splits", "features", "graph"}
_OF_ONE_TYPE |= {"labels", "lookup", "node_ids", "num_classes", "splits"}

TypedDataset = Dataset


def _check_count(name: str, store: FeatureStore | None, count: int, what: str) -> None:
    if store is not None and store.num_nodes != count:
        raise ValueError(f"{name} have {store.num_nodes:,} rows, the graph has {count:,} {what}")


def _check_pair(graph: Graph, out_graph: Graph) -> None:
    """Refuses two files that cannot be of the same edges in both directions."""
    facts, told = (
        (file.num_nodes, file.num_edges, file.num_input_edges, file.stored_order)
        for file in (graph, out_graph)
    )
    if not (
        facts == told and graph.is_incoming and out_graph.is_directed and not out_graph.is_incoming
    ):
        raise FormatError(
            f"{graph.path} and {out_graph.path} are not the in-neighbours and the out-neighbours "
            f"of one directed graph: build the dataset again"
        )


def open_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Opens a dataset folder: maps its files and reads only their headers.

    Parameters
    ----------
    path : path-like
        A folder that `graphzero.build` has written.

    Returns
    -------
    Dataset
        A directed graph in a folder of version 1 has out-neighbours, and nobody has chosen them:
        the first loader over it warns that messages flow against the edges. A ``tuning.json`` that
        cannot be read is ignored, with a warning.

    Raises
    ------
    FileNotFoundError
        If there is no dataset.
    FormatError
        If a file is truncated, not of this format, corrupt or of an unknown version, or if the
        files do not belong together.
    BlockingIOError
        If rebuilds replaced the dataset again and again while it was being opened.
    """
    folder = Path(path)
    ds = open_build(folder, lambda manifest: _Opening(folder, manifest).dataset(), Dataset.close)
    if (folder / TUNING_NAME).exists():
        vars(ds)["any_tuning"] = read_tuning(folder)
    return ds


class _Opening:
    """Maps what a manifest names; maps nothing if one of the files is wrong."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self._opened: list[Graph | FeatureStore | IdTable] = []

    def dataset(self) -> Dataset:
        try:
            return self._dataset()
        except BaseException:
            for part in self._opened:
                part.close()
            raise

    def _dataset(self) -> Dataset:
        manifest = self.manifest
        graphs = {kind: self._graph(table.graph) for kind, table in manifest.edges.items()}
        nodes = {name: self._nodes(name, graphs) for name in manifest.nodes}
        edges = [self._edges(kind, graph, nodes) for kind, graph in graphs.items()]
        out_graph = None if manifest.out_graph is None else self._graph(manifest.out_graph)
        ds = Dataset.of_types(nodes.values(), edges, out_graph)
        if manifest.extras is not None:
            (rows,) = self._rows({"extras": manifest.extras}, None).values()
            ds.have_extras(Extras(rows))
        if manifest.neighbors is None:
            ds._direction_note = _note_of_version_1(self.folder, manifest)
        return ds

    def _graph(self, entry: FileEntry) -> Graph:
        path = entry.resolve(self.folder)
        graph = Graph._open_typed(path) if self.manifest.is_typed else Graph(path)
        self._opened.append(graph)
        return graph

    def _rows(self, entries: Mapping[str, FileEntry], count: int | None) -> dict[str, FeatureStore]:
        found: dict[str, FeatureStore] = {}
        for name, entry in entries.items():
            found[name] = store = FeatureStore(entry.resolve(self.folder))
            self._opened.append(store)
            if count is not None and store.num_nodes != count:
                raise FormatError(
                    f"{store.path} has {store.num_nodes:,} rows, and dataset.json says {count:,}: "
                    f"build the dataset again"
                )
        return found

    def _nodes(self, name: str, graphs: Mapping[EdgeType, Graph]) -> NodeStore:
        table = self.manifest.nodes[name]
        rows = self._rows(table.attributes, table.num_nodes)
        order: Graph | StoredIds | None = None
        if self.manifest.layout.order_in_graph:
            order = graphs[EDGES]
        elif table.ids is not None:
            ids = StoredIds(table.ids.resolve(self.folder))
            self._opened.append(ids)
            order = ids
        id_table: IdTable | None = None
        if table.id_map is not None:
            id_table = open_id_table(table.id_map.resolve(self.folder), table.num_nodes)
            self._opened.append(id_table)
        splits = Splits(self._rows(table.splits, None))
        nodes = NodeStore(name, table.num_nodes, rows, splits, table.num_classes, order, id_table)
        if isinstance(order, StoredIds):
            rows = {**rows, "ids": order}
        for store in rows.values() if self.manifest.is_typed else ():
            # rows are found by the numbers of the nodes, whatever the file says
            if store.num_nodes != table.num_nodes or not nodes.keeps_order_of(store):
                raise FormatError(
                    f"{store.path} does not have the nodes of the type {name!r} in the order of "
                    f"the dataset: build the dataset again"
                )
        return nodes

    def _edges(self, kind: EdgeType, graph: Graph, nodes: Mapping[str, NodeStore]) -> EdgeStore:
        manifest, table = self.manifest, self.manifest.edges[kind]
        ends = nodes[kind[0]], nodes[kind[2]]
        owner, neighbor = ends[::-1] if manifest.incoming else ends
        facts = (graph.num_nodes, graph.num_neighbors, graph.num_edges)
        if facts != (owner.num_nodes, neighbor.num_nodes, table.num_edges) or (
            (graph.is_directed, graph.is_incoming) != (manifest.directed, manifest.incoming)
        ):
            raise FormatError(
                f"{self.folder}: the graph file is not the one that dataset.json describes: "
                f"build the dataset again"
            )
        driving, rows = self._driving(graph, table)
        rows |= self._rows(table.attributes, table.num_edges)
        return EdgeStore(kind, graph, ends, rows, Splits(self._rows(table.splits, None)), driving)

    def _driving(self, graph: Graph, table: EdgeTable) -> tuple[Driving, dict[str, FeatureStore]]:
        """The attributes that drive sampling, and the rows of those that are the edges'."""
        found: dict[str, FeatureStore] = {}
        weight = table.weight if "weights" in graph.section_bytes else None
        time = table.time if "times" in graph.section_bytes else None
        sections = {weight: "weights", time if table.time_level == "edge" else None: "times"}
        for name, section in sections.items():
            if name is not None:
                found[name] = EdgeRows(graph.path, section)
                self._opened.append(found[name])
        return Driving(weight, time, table.time_level), found


def _note_of_version_1(folder: Path, manifest: Manifest) -> str:
    return (
        f"{folder} was built before graphzero knew neighbors=: its neighbour lists have the "
        f"targets of each node's edges, so that messages flow against the edges. For messages "
        f"along them, as in PyG, build it again, or call graphzero.reorder({str(folder)!r}, "
        f"{manifest.order!r}, neighbors='in'); neighbors='out' keeps it as it is without this "
        f"warning"
    )


def seeds_of_split(ds: Dataset, split: str, node_type: str | None) -> Any:
    """Seeds as `NeighborDataset` takes them, from the options of a command.

    Parameters
    ----------
    ds : Dataset
    split : str
        "all" for all nodes.
    node_type : str or None
        Of a typed graph, the type of the seeds; None for the one that has the split.

    Raises
    ------
    ValueError
        If there is no such split or node type; names the option ``--node-type``.
    """
    if not ds.is_typed and node_type is not None:
        raise ValueError("--node-type is for typed graphs: leave it out")
    owners = [name for name, nodes in ds.nodes.items() if split in nodes.splits or split == "all"]
    if not owners:
        names = sorted({name for nodes in ds.nodes.values() for name in nodes.splits})
        raise ValueError(f"no split {split!r}; there are {names}, and 'all' for all nodes")
    if node_type is None and len(owners) > 1:
        raise ValueError(f"several node types have seeds: give --node-type, one of {ds.node_types}")
    kind = owners[0] if node_type is None else node_type
    if kind not in ds.nodes:
        raise ValueError(f"no node type {kind!r}; there are {ds.node_types}")
    if kind not in owners:
        raise ValueError(f"{kind!r} has no split {split!r}, but {owners} have")
    seeds = None if split == "all" else ds.nodes[kind].splits[split]
    return (kind, seeds) if ds.is_typed else seeds
