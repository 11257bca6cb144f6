"""The nodes of one type, and the edges of one: their counts, attributes and splits.

An attribute is a mapped file. `graphzero.pyg.facade` reads attributes whole, by PyG's names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from graphzero import _core
from graphzero.errors import FormatError
from graphzero.graph.features import FeatureStore, RowArray, StoredIds
from graphzero.graph.graph import Graph
from graphzero.graph.user_input import IdArray, NodeTexts, Sampling, as_ids, as_threads, lookup
from graphzero.store.format import dtype_name
from graphzero.store.id_table import IdTable
from graphzero.store.manifest import EDGE_TIME, EDGE_WEIGHT, EdgeType, SampledBy
from graphzero.store.mapped_file import MappedFile
from graphzero.units import format_bytes

if TYPE_CHECKING:
    from typing_extensions import Self


class Splits(Mapping[str, IdArray]):
    """Node ids of each split, by name; values are read-only (n,) int64 views of their files."""

    def __init__(self, stores: Mapping[str, FeatureStore]) -> None:
        self.stores = dict(stores)

    def __getitem__(self, name: str) -> IdArray:
        if name not in self.stores:
            raise KeyError(f"no split {name!r}; there are {sorted(self.stores)}")
        return self.stores[name].get_tensor()

    def __iter__(self) -> Iterator[str]:
        return iter(self.stores)

    def __len__(self) -> int:
        return len(self.stores)

    def __repr__(self) -> str:
        return f"Splits({ {name: len(store) for name, store in self.stores.items()} })"


class EdgeSplits(Splits):
    """Positions in the edge list of the edges of each split, by name, read-only (n,) int64.

    Of splits that `graphzero.LinkSplit` has made, the files have the edges themselves.
    """

    def edge_index(self, name: str) -> IdArray:
        """The edges of a split, (2, n) int64: sources above targets.

        Raises
        ------
        KeyError
            If there is no such split.
        ValueError
            If the split has positions only.
        """
        return np.stack([self._section(name, end).astype(np.int64) for end in ("source", "target")])

    def time(self, name: str) -> IdArray:
        """The times of the edges of a split, (n,) int64; errors are those of `edge_index`."""
        return self._section(name, "time")

    def _section(self, name: str, section: str) -> RowArray:
        count = len(self[name])
        rows = self.stores[name].read_section(section)
        if rows is None or len(rows) != count:
            raise ValueError(
                f"the split {name!r} has no {section} of its edges: graphzero.LinkSplit stores it, "
                f"from edges with times if it is the time"
            )
        return rows


def _require_rows(files: Mapping[str, FeatureStore | IdTable], count: int, of: str) -> None:
    """Raises a `FormatError` for a file that has not one row for each node or edge."""
    for name, file in files.items():
        if len(file) != count:
            raise FormatError(
                f"{file.path} has {len(file):,} rows of {name}, and the graph {count:,} {of}: "
                f"build it again"
            )


class _AttributeFiles:
    """What the nodes of a type and the edges of a type have in common.

    Attributes
    ----------
    attributes : dict of str to FeatureStore
        The mapped files.
    splits : Splits
    """

    LOOKUP_BYTES: int  # of memory that each row takes while `all_rows` finds it

    def __init__(self, size: str, attributes: Mapping[str, FeatureStore], splits: Splits) -> None:
        self._size = size  # in words
        self.attributes = dict(attributes)
        self.splits = splits

    def __copy__(self) -> Self:
        """Another view of the same files, with `attributes` of its own."""
        copied = type(self).__new__(type(self))
        vars(copied).update(vars(self))
        copied.attributes = dict(self.attributes)
        return copied

    @property
    def split_files(self) -> Mapping[str, FeatureStore]:
        """The files of the splits, by name; none of a dictionary of ids."""
        return self.splits.stores if isinstance(self.splits, Splits) else {}

    def all_rows(self) -> IdArray:
        """The number of each row in the files, in the user's order."""
        raise NotImplementedError

    def files(self) -> list[MappedFile]:
        """Every mapped file."""
        return [*self.attributes.values(), *self.split_files.values()]

    def shapes(self) -> list[str]:
        """The number of nodes or edges, and each attribute with its shape and dtype, in words."""
        attributes = [
            f"{name}={list(store.shape)} {dtype_name(store.dtype)}"
            for name, store in self.attributes.items()
        ]
        sizes = ", ".join(f"{name}={len(ids)}" for name, ids in self.split_files.items())
        return [self._size, *attributes, *([f"splits({sizes})"] if sizes else [])]

    def table_rows(self) -> list[list[str]]:
        """Name, shape, dtype and size of each attribute and split, in words."""
        splits = {f"splits[{name!r}]": ids for name, ids in self.split_files.items()}
        rows = [[self._size, "", "", ""]]
        for name, file in {**self.attributes, **splits}.items():
            size = format_bytes(len(file) * file.row_bytes)
            rows.append([name, str([*file.shape]), dtype_name(file.dtype), size])
        return rows


class NodeStore(_AttributeFiles):
    """The nodes of one type: the files of ``ds["paper"]``.

    Attributes
    ----------
    attributes : dict of str to FeatureStore
        The mapped files.
    node_type : str
    num_nodes : int
    splits : Splits
    num_classes : int or None
        Largest label + 1, where "y" has integers.
    classes : dict of str to list of str
        Of attributes that were texts: the name of each class.
    """

    LOOKUP_BYTES = 2 * 8

    def __init__(
        self,
        node_type: str,
        num_nodes: int,
        attributes: Mapping[str, FeatureStore],
        *,
        splits: Splits | None = None,
        num_classes: int | None = None,
        order: Graph | StoredIds | None = None,
        id_table: IdTable | None = None,
        classes: Mapping[str, list[str]] | None = None,
    ) -> None:
        self.node_type = node_type
        self.num_nodes = num_nodes
        self.num_classes = num_classes
        self.classes = dict(classes or {})
        self._order = order
        self._id_table = id_table
        self._id_files: dict[str, FeatureStore | IdTable] = {}
        if isinstance(order, StoredIds):
            self._id_files["ids"] = order
        if id_table is not None:
            self._id_files["id_map"] = id_table
        _require_rows({**attributes, **self._id_files}, num_nodes, "nodes")
        splits = Splits({}) if splits is None else splits
        super().__init__(f"num_nodes={num_nodes}", attributes, splits)

    def all_rows(self) -> IdArray:
        """The number of each row in the files, in the user's order."""
        return self.to_stored(np.arange(self.num_nodes))

    @property
    def node_ids(self) -> RowArray | NodeTexts | None:
        """The user's own id of each node of this type: see `Dataset.node_ids`."""
        if self._id_table is None:
            return None
        return NodeTexts(self._id_table) if self._id_table.is_text else self._id_table.rows

    def lookup(self, ids: Any, *, missing: int | None = None) -> Any:
        """The nodes of this type that have some of the user's own ids: see `Dataset.lookup`.

        Raises
        ------
        KeyError
            Naming the first id that no node of this type has.
        ValueError
            If the dataset has no table of ids, or has ids of the other kind.
        """
        what = f"node type {self.node_type!r}" if self.node_type else "the dataset"
        return lookup(self._id_table, ids, missing, what)

    @property
    def is_hot(self) -> bool:
        """Whether the nodes that are sampled most are stored first."""
        return self._order is not None and self._order.stored_order is not None

    def to_stored(self, nodes: IdArray, num_threads: int = 1) -> IdArray:
        """Row numbers of the user's ids, which must be in range."""
        return nodes if self._order is None else self._order.to_stored(nodes, num_threads)

    @property
    def user_table(self) -> _core.IdTable | None:
        """Table of the user's ids by row number; None where they are the same."""
        return None if self._order is None else self._order.user_table()

    def to_user(self, stored: IdArray, num_threads: int = 1) -> IdArray:
        """The user's ids of row numbers, which must be in range, int64."""
        return stored if self._order is None else self._order.to_user(stored, num_threads)

    @property
    def order_identity(self) -> tuple[object, ...]:
        """Fingerprint of the order in which the nodes are stored."""
        return () if self._order is None else self._order.identity

    def keeps_order_of(self, store: FeatureStore) -> bool:
        """Whether the rows of an attribute have the order in which the nodes are stored."""
        return store.stored_order == (None if self._order is None else self._order.stored_order)

    def files(self) -> list[MappedFile]:
        """Every mapped file of these nodes."""
        return [*super().files(), *self._id_files.values()]


class EdgeStore(_AttributeFiles):
    """The edges of one type: the files of ``ds["author", "writes", "paper"]``.

    The user's order is that of the edge list, if the file stores it; else by the nodes that have
    the lists. Edges that the build merged or dropped are not there.

    Attributes
    ----------
    attributes : dict of str to FeatureStore
        The mapped files, in the order of the stored lists.
    edge_type : (str, str, str)
        Source type, relation, target type.
    graph : Graph
        The file of the neighbour lists. With types, it numbers nodes as the files do: see `degree`
        and `neighbors` for the user's ids.
    num_edges : int
        Of stored edges.
    source, target : NodeStore
        The nodes at both ends.
    owner, neighbor : NodeStore
        The nodes that have the lists, and the nodes in them: the targets and the sources, or the
        other way round where out-neighbours are stored.
    splits : EdgeSplits
        Positions in the edge list.
    sampled_by : SampledBy
        The attributes that drive sampling.
    classes : dict of str to list of str
        Of attributes that were texts: the name of each class.
    """

    LOOKUP_BYTES = 8 * 8
    splits: EdgeSplits

    def __init__(
        self,
        edge_type: EdgeType,
        graph: Graph,
        ends: tuple[NodeStore, NodeStore],
        attributes: Mapping[str, FeatureStore],
        *,
        splits: EdgeSplits | None = None,
        sampled_by: SampledBy | None = None,
        classes: Mapping[str, list[str]] | None = None,
    ) -> None:
        _require_rows(attributes, graph.num_edges, "stored edges")
        size = f"edge_index=[2, {graph.num_edges}]"
        super().__init__(size, attributes, splits or EdgeSplits({}))
        self.edge_type = edge_type
        self.graph = graph
        self.classes = dict(classes or {})
        self.sampled_by = sampled_by or SampledBy(EDGE_WEIGHT, EDGE_TIME)
        self.num_edges = graph.num_edges
        self.source, self.target = ends
        self.owner, self.neighbor = ends[::-1] if graph.is_incoming else ends

    def all_rows(self) -> IdArray:
        """The number of each row in the files, in the user's order."""
        return self._by_position()[1]

    def degree(self, nodes: object) -> IdArray:
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
        FormatError
            If the file is corrupt.
        """
        return np.sort(self._lists(as_ids([node], self.owner.num_nodes, "nodes"))[2])

    def _lists(self, owners: IdArray) -> tuple[IdArray, IdArray, IdArray]:
        """The lists of some owners: where each begins and ends, positions of edges, neighbours.

        The core checks the file's values, so that none of them leads beyond a table.
        """
        offsets, positions, stored = self.graph._csr.sample_hop(
            self.owner.to_stored(owners), -1, Sampling(), _core.Draws(0, 0, 0), as_threads(None)
        )
        return offsets, positions, self.neighbor.to_user(stored)

    def all_edges(self) -> IdArray:
        """All edges in the user's order and ids, (2, num_edges) int64, sources above targets.

        Raises
        ------
        FormatError
            If the file is corrupt.
        """
        return self._by_position()[0]

    def edges_at(self, positions: IdArray) -> IdArray:
        """Edges by their positions in the edge list, as splits have them, (2, n) int64.

        Of an undirected edge, it is one of both directions.

        Raises
        ------
        ValueError
            If the file does not store positions; if an edge was merged into another, or dropped.
        IndexError
            If a position is out of range.
        """
        edges, _, stored = self._by_position()
        if stored is None:
            raise ValueError(
                "the graph file does not store the positions of its edges: build the dataset with "
                "edge_ids=True, or give the edges"
            )
        at = as_ids(positions, int(stored.max(initial=-1)) + 1, "positions")
        places = np.searchsorted(stored, at)
        if (lacking := at[stored[places] != at]).size:
            raise ValueError(
                f"the graph does not have the edge at position {lacking[0]} of the edge list: it "
                f"was merged or dropped; set the split again, graphzero.set_split, without it"
            )
        return edges.take(places, axis=1)

    def _by_position(self) -> tuple[IdArray, IdArray, IdArray | None]:
        """All edges, their places in the lists, and in the edge list if the file stores these.

        The places in the edge list ascend.
        """
        _core.require_memory(self.num_edges, self.LOOKUP_BYTES, "edges")
        nodes = np.arange(self.owner.num_nodes)
        offsets, at, neighbors = self._lists(nodes)
        owners = np.repeat(nodes, np.diff(offsets))
        is_outgoing = self.graph.is_directed and not self.graph.is_incoming
        edges: IdArray = np.stack([owners, neighbors] if is_outgoing else [neighbors, owners])
        positions = self.graph._csr.edge_ids(at)
        if positions is None:
            return edges, at, None
        order = np.argsort(positions, kind="stable")
        return edges.take(order, axis=1), at[order], positions[order]  # contiguous

    def files(self) -> list[MappedFile]:
        """Every mapped file of these edges."""
        out_lists = [] if self.graph.out_lists is None else [self.graph.out_lists]
        return [self.graph, *out_lists, *super().files()]


Nodes = Mapping[str, NodeStore]  # by node type
Edges = Mapping[EdgeType, EdgeStore]  # by edge type
