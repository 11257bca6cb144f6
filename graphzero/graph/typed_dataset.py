"""`TypedDataset`: the files of a graph with node types and edge types, opened together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from graphzero.graph.dataset import Dataset, Splits
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray, as_id, as_ids
from graphzero.graph.node_ids import NodeTexts, lookup, node_ids_of
from graphzero.store.id_table import IdTable
from graphzero.store.schema import Driving, EdgeType, Neighbors

__all__ = ["EdgeStore", "NodeStore", "TypedDataset"]


class _Attributes(Mapping[str, FeatureStore]):
    """Rows by attribute name: ``store["x"]`` and ``store.x``."""

    def __init__(self, attributes: Mapping[str, FeatureStore]) -> None:
        self.attributes = dict(attributes)

    def __getitem__(self, name: str) -> FeatureStore:
        if name not in self.attributes:
            raise KeyError(f"{self!r} has no {name!r}")
        return self.attributes[name]

    def __getattr__(self, name: str) -> FeatureStore:
        found = vars(self).get("attributes", {})  # which an unpickled object lacks at first
        if name not in found:
            raise AttributeError(f"{type(self).__name__} has no {name!r}, but {sorted(found)}")
        store: FeatureStore = found[name]
        return store

    def __iter__(self) -> Iterator[str]:
        return iter(self.attributes)

    def __len__(self) -> int:
        return len(self.attributes)

    def _shapes(self) -> str:
        return "".join(f", {name}={list(store.shape)}" for name, store in self.items())


class NodeStore(_Attributes):
    """The nodes of one type: their attributes by name, each a `FeatureStore`.

    Attributes
    ----------
    node_type : str
    num_nodes : int
    splits : Splits
    num_classes : int or None
        Largest label + 1, where "y" has integers.
    """

    def __init__(
        self,
        node_type: str,
        num_nodes: int,
        attributes: Mapping[str, FeatureStore],
        splits: Splits,
        num_classes: int | None,
        ids: FeatureStore | None,
        id_table: IdTable | None = None,
    ) -> None:
        super().__init__(attributes)
        self.node_type = node_type
        self.num_nodes = num_nodes
        self.splits = splits
        self.num_classes = num_classes
        self._ids = ids
        self._id_table = id_table

    @property
    def node_ids(self) -> npt.NDArray[Any] | NodeTexts | None:
        """The user's own id of each node of this type: see `Dataset.node_ids`."""
        return node_ids_of(self._id_table)

    def lookup(self, ids: Any, *, missing: int | None = None) -> Any:
        """The nodes of this type that have some of the user's own ids: see `Dataset.lookup`.

        Raises
        ------
        KeyError
            Naming the first id that no node of this type has.
        ValueError
            If the dataset has no table of ids, or has ids of the other kind.
        """
        return lookup(self._id_table, ids, missing, f"node type {self.node_type!r}")

    @property
    def is_hot(self) -> bool:
        """Whether the nodes that are sampled most are stored first."""
        return self._ids is not None

    def to_stored(self, nodes: IdArray) -> IdArray:
        """Row numbers of the user's ids, which must be in range."""
        return nodes if self._ids is None else self._ids.to_stored(nodes)

    def to_user(self, stored: IdArray, num_threads: int = 1) -> IdArray:
        """The user's ids of row numbers, which must be in range, int64."""
        if self._ids is None:
            return stored
        return self._ids.gather_stored(stored, None, num_threads).astype(np.int64)

    @property
    def order_identity(self) -> tuple[Any, ...]:
        """Fingerprint of the order in which the nodes are stored."""
        return () if self._ids is None else self._ids.identity

    def keeps_order_of(self, store: FeatureStore) -> bool:
        """Whether the rows of an attribute have the order in which the nodes are stored."""
        order = None if self._ids is None else self._ids.stored_order
        return store.keeps_order_of(order)

    def files(self) -> list[FeatureStore]:
        """Every mapped file of rows of these nodes."""
        ids = [] if self._ids is None else [self._ids]
        return [*self.attributes.values(), *self.splits.stores.values(), *ids]

    def __repr__(self) -> str:
        return f"NodeStore({self.node_type!r}, num_nodes={self.num_nodes:,}{self._shapes()})"


class EdgeStore(_Attributes):
    """The edges of one type: their attributes by name, in the order of the stored lists.

    Attributes
    ----------
    edge_type : (str, str, str)
        Source type, relation, target type.
    graph : Graph
        The file of the neighbour lists. It numbers nodes as the files do: see `degree` and
        `neighbors` for the user's ids.
    splits : Splits
        Positions in the edge list.
    driving : Driving
        The attributes that drive sampling.
    """

    def __init__(
        self,
        edge_type: EdgeType,
        graph: Graph,
        ends: tuple[NodeStore, NodeStore],
        attributes: Mapping[str, FeatureStore],
        splits: Splits,
        driving: Driving,
    ) -> None:
        super().__init__(attributes)
        self.edge_type = edge_type
        self.graph = graph
        self._source, self._target = ends
        self.splits = splits
        self.driving = driving

    @property
    def num_edges(self) -> int:
        """Number of stored edges."""
        return self.graph.num_edges

    @property
    def owner(self) -> NodeStore:
        """The nodes that have the lists: the targets, or the sources of stored out-neighbours."""
        return self._target if self.graph.is_incoming else self._source

    @property
    def neighbor(self) -> NodeStore:
        """The nodes that are in the lists."""
        return self._source if self.graph.is_incoming else self._target

    def degree(self, nodes: Any) -> IdArray:
        """Stored neighbours of each of some nodes of `owner`'s type, by the user's ids, (n,) int64.

        Raises
        ------
        IndexError
            If a node is out of range.
        """
        ids = as_ids(nodes, self.owner.num_nodes, "nodes")
        return self.graph._csr.degrees(self.owner.to_stored(ids), 1)

    def neighbors(self, node: int) -> IdArray:
        """All stored neighbours of one node of `owner`'s type, ascending, (degree,) int64.

        Raises
        ------
        IndexError
            If the node is out of range.
        """
        one = np.array([as_id(node, self.owner.num_nodes, "node")], dtype=np.int64)
        indptr = self.graph.indptr
        row = int(self.owner.to_stored(one)[0])
        stored = self.graph.indices[int(indptr[row]) : int(indptr[row + 1])].astype(np.int64)
        return np.sort(self.neighbor.to_user(stored))

    def edge_index(self) -> IdArray:
        """All edges, (2, num_edges) int64, the user's ids: sources above targets; a copy.

        In the order of the edge list, if the file stores it; else in that of the lists. Edges that
        the build merged or dropped are not there.
        """
        return self._by_position()[0]

    def edges_at(self, positions: IdArray) -> IdArray:
        """Edges by their positions in the edge list, as splits have them, (2, n) int64.

        The file must store the positions; those of merged edges are not stored.
        """
        edges, stored = self._by_position()
        return edges if stored is None else edges[:, np.searchsorted(stored, positions)]

    def _by_position(self) -> tuple[IdArray, IdArray | None]:
        """All edges, and their positions in the edge list, ascending, if the file stores them."""
        lists = np.repeat(np.arange(self.owner.num_nodes), np.diff(self.graph.indptr))
        owners = self.owner.to_user(lists)
        neighbors = self.neighbor.to_user(self.graph.indices.astype(np.int64))
        edges = [neighbors, owners] if self.graph.is_incoming else [owners, neighbors]
        positions = self.graph._csr.edge_ids(np.arange(self.num_edges))
        found: IdArray = np.stack(edges)
        if positions is None:
            return found, None
        order = np.argsort(positions, kind="stable")
        return found.take(order, axis=1), positions[order]  # contiguous

    def files(self) -> list[Graph | FeatureStore]:
        """Every mapped file of these edges."""
        return [self.graph, *self.attributes.values(), *self.splits.stores.values()]

    def __repr__(self) -> str:
        return f"EdgeStore({self.edge_type!r}, num_edges={self.num_edges:,}{self._shapes()})"


class TypedDataset(Dataset):
    """A graph with node types and edge types; opened by `graphzero.open`.

    ``ds["paper"]`` is a `NodeStore`, ``ds["author", "writes", "paper"]`` an `EdgeStore`.

    Parameters
    ----------
    nodes : sequence of NodeStore
    edges : sequence of EdgeStore
        Their order decides which random draws an edge type has.

    Attributes
    ----------
    nodes : dict of str to NodeStore
        By node type.
    edges : dict of (str, str, str) to EdgeStore
        By edge type.
    """

    def __init__(self, nodes: list[NodeStore], edges: list[EdgeStore]) -> None:
        self.nodes = {store.node_type: store for store in nodes}
        self.edges = {store.edge_type: store for store in edges}

    is_typed = True

    def require_untyped(self, what: str) -> None:
        """Raises an error: this graph has node types."""
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

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all types."""
        return sum(store.num_nodes for store in self.nodes.values())

    @property
    def num_edges(self) -> int:
        """Number of stored edges of all types."""
        return sum(store.num_edges for store in self.edges.values())

    @property
    def neighbors(self) -> Neighbors:
        """Which neighbours of a node are stored: "in" or "out", as in `graphzero.build`."""
        return "in" if next(iter(self.edges.values())).graph.is_incoming else "out"

    @property
    def node_ids(self) -> NoReturn:
        """Each node type has its own: ``ds["paper"].node_ids``."""
        raise AttributeError(self._has_by_type("node_ids"))

    def lookup(self, ids: Any, *, missing: int | None = None) -> NoReturn:
        """Each node type has its own: ``ds["paper"].lookup(ids)``.

        Raises
        ------
        AttributeError
        """
        raise AttributeError(self._has_by_type("lookup"))

    def _has_by_type(self, name: str) -> str:
        one, edges = self.node_types[0], self.edge_types[0]
        return (
            f"a graph with node types has no {name!r} as a whole: use ds[{one!r}] for the nodes of "
            f"a type, or ds[{', '.join(map(repr, edges))}] for edges"
        )

    def __getitem__(self, key: Any) -> Any:
        """The nodes of a type, or the edges of a type, also by (source type, target type)."""
        if isinstance(key, str):
            if key not in self.nodes:
                raise KeyError(f"no node type {key!r}; there are {self.node_types}")
            return self.nodes[key]
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

    def to_user(self, node_type: str, stored: IdArray) -> IdArray:
        """The user's ids of the stored ids of a node type."""
        return self.nodes[node_type].to_user(stored)

    def to_stored(self, node_type: str, nodes: IdArray) -> IdArray:
        """The stored ids of the user's ids of a node type."""
        return self.nodes[node_type].to_stored(nodes)

    def _parts(self) -> list[Graph | FeatureStore | IdTable]:
        parts: list[Graph | FeatureStore | IdTable] = []
        for nodes in self.nodes.values():
            parts += nodes.files()
            parts += [] if nodes._id_table is None else [nodes._id_table]
        for edges in self.edges.values():
            parts += edges.files()
        return parts

    def __getattr__(self, name: str) -> Any:
        """Says where a typed graph has what a graph without types has as a whole."""
        whole = ("graph", "features", "labels", "splits", "num_classes", "attributes", "node_ids")
        if name in whole:
            raise AttributeError(self._has_by_type(name))
        raise AttributeError(f"TypedDataset has no {name!r}")

    def __repr__(self) -> str:
        nodes = ", ".join(f"{name}: {store.num_nodes:,}" for name, store in self.nodes.items())
        edges = ", ".join(
            f"{'__'.join(name)}: {store.num_edges:,}" for name, store in self.edges.items()
        )
        return f"TypedDataset(nodes={{{nodes}}}, edges={{{edges}}}, neighbors={self.neighbors!r})"
