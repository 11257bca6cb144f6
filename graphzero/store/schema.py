"""What a dataset folder contains, as ``dataset.json`` records it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from graphzero.store.edge_changes import EdgeChanges

__all__ = [
    "EDGE_TIME",
    "EDGE_WEIGHT",
    "Driving",
    "EdgeTable",
    "EdgeType",
    "FileEntry",
    "Manifest",
    "Neighbors",
    "NodeTable",
    "Presampling",
    "TimeLevel",
    "TypedManifest",
]

Neighbors = Literal["in", "out", "both"]
# Whether the time by which edges are sampled is the edge's own, or that of the sampled neighbour.
TimeLevel = Literal["edge", "node"]
EdgeType = tuple[str, str, str]  # source type, relation, target type

# What edge attributes without a name of their own are called in mini-batches, as in PyG.
EDGE_WEIGHT, EDGE_TIME = "edge_weight", "edge_time"


@dataclass(frozen=True)
class Driving:
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
class FileEntry:
    """A file of a dataset: its final name, and its name during the build."""

    name: str
    staged: str

    def resolve(self, folder: Path) -> Path:
        """Where the file is now."""
        staged = folder / self.staged
        return staged if staged.exists() else folder / self.name


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
class Manifest:
    """The content of ``dataset.json``.

    Attributes
    ----------
    num_nodes : int
    num_edges : int
        Stored edges: both directions of an undirected edge.
    num_input_edges : int
        Edges of the edge list.
    directed : bool
    neighbors : {"in", "out", "both"} or None
        Which neighbours of a node are stored: the sources of its incoming edges, the targets of its
        outgoing ones, or both; "both" for an undirected graph. None for a directed graph of a
        folder of version 1, which has out-neighbours and nobody who chose them.
    order : {"input", "hot", "presample"}
    num_classes : int or None
        Largest label + 1, where labels are integers.
    graph : FileEntry
        The lists that are sampled.
    out_graph : FileEntry or None
        The out-neighbours of a directed graph that has both.
    features, labels : FileEntry or None
    splits : dict of str to FileEntry
    visits : FileEntry or None
        In how many sampled mini-batches each node was.
    presampling : Presampling or None
        How they were sampled.
    attributes : dict of str to FileEntry
        Rows of the nodes besides features and labels, by name.
    edge_attributes : dict of str to FileEntry
        Rows of the edges, by name, in the order of the lists of `graph`.
    edge_splits : dict of str to FileEntry
        Positions in the edge list.
    weight, time : str or None
        Names of the attributes that are stored in the graph file, because they drive sampling.
    time_level : {"edge", "node"}
        Whose attribute `time` is.
    changes : EdgeChanges or None
        How the stored edges differ from the edge list; None if they do not.
    id_map : FileEntry or None
        The user's id of each node, where the build took these ids to 0...N-1.
    """

    num_nodes: int
    num_edges: int
    num_input_edges: int
    directed: bool
    order: str
    num_classes: int | None
    graph: FileEntry
    features: FileEntry | None = None
    labels: FileEntry | None = None
    splits: dict[str, FileEntry] = field(default_factory=dict)
    visits: FileEntry | None = None
    presampling: Presampling | None = None
    neighbors: Neighbors | None = None
    out_graph: FileEntry | None = None
    attributes: dict[str, FileEntry] = field(default_factory=dict)
    edge_attributes: dict[str, FileEntry] = field(default_factory=dict)
    edge_splits: dict[str, FileEntry] = field(default_factory=dict)
    weight: str | None = EDGE_WEIGHT
    time: str | None = EDGE_TIME
    time_level: TimeLevel = "edge"
    changes: EdgeChanges | None = None
    id_map: FileEntry | None = None

    @property
    def incoming(self) -> bool:
        """Whether the lists that are sampled have the sources of incoming edges."""
        return self.directed and self.neighbors in ("in", "both")

    def entries(self) -> list[FileEntry]:
        """Every file of the dataset."""
        named = (self.splits, self.attributes, self.edge_attributes, self.edge_splits)
        some = [self.graph, self.out_graph, self.features, self.labels, self.visits, self.id_map]
        some += [entry for entries in named for entry in entries.values()]
        return [entry for entry in some if entry is not None]


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
        The user's id of each stored node, with the table of ranks; None in input order.
    visits : FileEntry or None
        In how many sampled mini-batches each node was.
    id_map : FileEntry or None
        The user's id of each node, where the build took these ids to 0...N-1.
    """

    num_nodes: int
    attributes: dict[str, FileEntry] = field(default_factory=dict)
    splits: dict[str, FileEntry] = field(default_factory=dict)
    num_classes: int | None = None
    ids: FileEntry | None = None
    visits: FileEntry | None = None
    id_map: FileEntry | None = None

    def entries(self) -> list[FileEntry]:
        """Every file of these nodes."""
        further = [self.ids, self.visits, self.id_map]
        some = [*self.attributes.values(), *self.splits.values(), *further]
        return [entry for entry in some if entry is not None]


@dataclass(frozen=True)
class EdgeTable:
    """The edges of one type.

    Attributes
    ----------
    num_edges : int
        Stored edges.
    num_input_edges : int
        Edges of the edge list.
    graph : FileEntry
        Their neighbour lists: of the target type, or of the source type with neighbors="out".
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

    def entries(self) -> list[FileEntry]:
        """Every file of these edges."""
        return [self.graph, *self.attributes.values(), *self.splits.values()]


@dataclass(frozen=True)
class TypedManifest:
    """The content of ``dataset.json`` for a graph with node types and edge types.

    Attributes
    ----------
    nodes : dict of str to NodeTable
        By node type.
    edges : dict of (str, str, str) to EdgeTable
        By edge type. The order decides which random draws an edge type has.
    neighbors : {"in", "out"}
        Which neighbours of a node are stored, as in `Manifest`, the same for all edge types.
    order : {"input", "hot", "presample"}
    presampling : Presampling or None
    """

    nodes: dict[str, NodeTable]
    edges: dict[EdgeType, EdgeTable]
    neighbors: Neighbors
    order: str
    presampling: Presampling | None = None

    @property
    def incoming(self) -> bool:
        """Whether lists have the sources of incoming edges."""
        return self.neighbors == "in"

    def entries(self) -> list[FileEntry]:
        """Every file of the dataset."""
        tables: list[NodeTable | EdgeTable] = [*self.nodes.values(), *self.edges.values()]
        return [entry for table in tables for entry in table.entries()]
