"""The options of a build and of its sources, names of attributes, progress, notes at the end."""

from __future__ import annotations

import keyword
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, fields
from typing import Any, Literal, TypeVar

import numpy.typing as npt
from tqdm.auto import tqdm

from graphzero.store.manifest import EDGES, EdgeType, Neighbors
from graphzero.units import parse_size, print_lines, printable

Column = str | int
_Type = TypeVar("_Type", str, EdgeType)

# Which options apply where.
FOR_EDGES = ("src", "dst", "weight", "timestamp", "edge_attrs", "header", "delimiter")
FOR_NODES = ("id_column", "columns", "header", "delimiter")
FOR_VALUES = ("columns", "header", "delimiter")
_OF_ARRAYS = ("src", "dst", "weight", "timestamp")


@dataclass(frozen=True)
class Source:
    """A file or an object with its own reading options, for `graphzero.build`.

    It stands wherever a path can stand: for the edges, for features and labels, for any attribute
    of nodes or edges, for a split; in typed graphs, by type. So each of several files can have
    names of its own. An option that does not apply where the source is used is an error.

    Parameters
    ----------
    value : path, array, tensor, or another object that `graphzero.build` reads
    src, dst : str or int, optional
        Of an edge list: the columns of sources and targets, by name or by position from 0.
    weight, timestamp : str, int, False or array, optional
        Of an edge list: as in `graphzero.build`.
    edge_attrs : list of str, or dict of str to str or int, optional
        Of an edge list: columns that become attributes of the edges. A dictionary has the column,
        by name or position, for the name of each attribute. An empty list says that the columns
        that are not used are not needed.
    id_column : str, int or False, optional
        Of a table of nodes: the column of node ids, by name or position. False: there is none, and
        the records are in the order of the nodes. Default: the column named id, node_id, node, nid,
        vertex or vertex_id; without one, only a table of one column is accepted.
    columns : str, int, or list of these, optional
        Of a table of nodes or edges, or of a split: the columns of values, in this order. One
        column that is not in a list gives a number for each node or edge, a list gives rows.
        Default: all columns but that of ids.
    header : bool or "auto"
        Of a text file: whether it begins with the names of the columns.
    delimiter : str
        Of a text file: one character, or "auto".

    Raises
    ------
    ValueError
        If an option has no valid form.

    Examples
    --------
    >>> writes = gz.Source("writes.csv", src="author", dst="paper", edge_attrs=["position"])
    >>> gz.build("data/", nodes={"author": {}, "paper": {"x": gz.Source("x.csv", id_column=0)}},
    ...          edges={("author", "writes", "paper"): writes})
    """

    value: Any
    _: KW_ONLY
    src: Column | None = None
    dst: Column | None = None
    weight: Any = None
    timestamp: Any = None
    edge_attrs: Sequence[str] | Mapping[str, Column] | None = None
    id_column: Column | bool | None = None
    columns: Column | Sequence[Column] | None = None
    header: bool | str = "auto"
    delimiter: str = "auto"

    def __post_init__(self) -> None:
        parts = self.value if isinstance(self.value, list | tuple) else [self.value]
        if any(isinstance(part, Source) for part in parts):
            raise ValueError("a Source has files or objects, not another Source")
        if not isinstance(self.header, bool) and self.header != "auto":
            raise ValueError(f"header must be True, False or 'auto', not {self.header!r}")
        if not isinstance(self.delimiter, str) or (
            self.delimiter not in ("auto", "whitespace") and len(self.delimiter) != 1
        ):
            raise ValueError(
                f"delimiter must be one character, 'whitespace' or 'auto', not {self.delimiter!r}"
            )

    def options(self) -> dict[str, Any]:
        """The options that are not the default, by name."""
        options = {}
        for option in fields(self)[1:]:
            value = getattr(self, option.name)
            if not (value is None if option.default is None else value == "auto"):
                options[option.name] = value
        return options

    def completed_by(self, defaults: Source) -> Source:
        """The source with the options of another one where it has none."""
        return Source(self.value, **{**defaults.options(), **self.options()})

    def check_options(self, allowed: Collection[str], what: str, *, is_table: bool) -> None:
        """Refuses options that do not apply.

        Parameters
        ----------
        allowed : collection of str
            Options that apply to such a use.
        what : str
            The use, for messages.
        is_table : bool
            Whether the value has columns with names or positions; arrays have none.

        Raises
        ------
        ValueError
        """
        for option in self.options():
            if option not in allowed:
                raise ValueError(
                    f"{what}: Source has {option}=, which does not apply here; what applies is "
                    f"{', '.join(allowed)}"
                )
            if not is_table and option not in _OF_ARRAYS:
                raise ValueError(f"{what}: {option}= is for tables, such as CSV, not for arrays")


def as_source(value: Any) -> Source:
    """A value of the user as a source."""
    return value if isinstance(value, Source) else Source(value)


Advance = Callable[[int], object]


class Progress:
    """Shows the phases of a build on stderr, if enabled.

    Parameters
    ----------
    enabled : bool
    """

    def __init__(self, enabled: bool = False) -> None:
        self.enabled = enabled

    @contextmanager
    def phase(self, label: str, total: int | None, unit: str = "rows") -> Iterator[Advance]:
        """Shows a bar; yields a function that advances it by a number of units."""
        with tqdm(
            total=total,
            desc=f"{printable(label):<20}",
            unit=f" {unit}",
            unit_scale=True,
            dynamic_ncols=True,
            file=sys.stderr,
            disable=not self.enabled,
        ) as bar:
            yield bar.update


@dataclass(frozen=True)
class ReadSummary:
    """What is said of the columns of an edge list.

    Attributes
    ----------
    clauses : tuple of str
        Which were read, and which were not.
    unused : str
        Which of those the user has not said anything about; "" without any.
    remedy : str
        What to say about them.
    """

    clauses: tuple[str, ...]
    unused: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Reversed:
    """How many edges between two nodes have their reverse, of so many; None: of all, each once."""

    count: int
    looked_up: int | None = None


@dataclass
class ListCounts:
    """What was counted of neighbour lists while they were written.

    Attributes
    ----------
    parallel : int
        Edges that repeat an earlier one between two nodes.
    reversed : Future of Reversed or None
        None if the edges were never in memory together.
    """

    parallel: int = 0
    reversed: Future[Reversed] | None = None


@dataclass
class BuildNotes:
    """What is said at the end of a build.

    Attributes
    ----------
    clauses : dict of EdgeType to list of str
        A line for each edge list: what was read, and what was done to it.
    unused : list of str
        Columns that are not used.
    advice : list of str
        Numbers that are telling, and what the user can do.
    table : list of str
        What the dataset has, in lines.
    lists : dict of str to ListCounts
        By the name of the file.
    num_named : dict of str to int
        Nodes that are in neighbour lists, of types whose nodes are ordered by that.
    """

    clauses: dict[EdgeType, list[str]] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)
    table: list[str] = field(default_factory=list)
    lists: dict[str, ListCounts] = field(default_factory=dict)
    num_named: dict[str, int] = field(default_factory=dict)

    def begin(
        self, edge_type: EdgeType, read: ReadSummary, neighbors: str | None, directed: bool
    ) -> None:
        """Begins the line of an edge list."""
        stored = {"out": "out-neighbours", "both": "in-neighbours and out-neighbours"}
        self.add(edge_type, *read.clauses, stored.get(str(neighbors), "in-neighbours"))
        self.add(edge_type, "directed" if directed else "undirected, both directions stored")
        if read.unused:
            where = "" if edge_type == EDGES else f"edge type {edge_type}: "
            self.unused.append(f"{where}{read.unused}; {read.remedy}")

    def add(self, edge_type: EdgeType, *clauses: str) -> None:
        """Adds clauses to the line of an edge list, in the order of the calls."""
        self.clauses.setdefault(edge_type, []).extend(clauses)

    def lines(self) -> list[str]:
        """The closing lines."""
        read = [
            ("" if edge_type == EDGES else f"{edge_type}: ") + "; ".join(clauses)
            for edge_type, clauses in self.clauses.items()
        ]
        return [*self.table, *read]

    def tell(self, progress: bool, *, stacklevel: int = 2) -> None:
        """Prints the lines on stderr if there is progress; otherwise warns of what is telling."""
        if progress:
            print_lines(*self.lines(), *self.advice, file=sys.stderr)
        else:
            unused = ["; ".join(self.unused)] if self.unused else []
            for text in (*unused, *self.advice):
                warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)


LEAST_MEMORY = 256_000_000

# Options that a typed graph has by type instead.
_UNTYPED_ONLY = (
    *("features", "labels", "num_nodes", "src", "dst", "weight", "timestamp", "edge_attrs"),
)

Presampler = Any  # `graphzero.Presample`, which `ingest` may not import


@dataclass(frozen=True)
class WriteOptions:
    """How a dataset is written, and how the memory limit is divided."""

    order: str
    presampler: Presampler | None
    memory_limit: int
    progress: Progress
    neighbors: Neighbors | None = None
    notes: BuildNotes = field(default_factory=BuildNotes)

    def __post_init__(self) -> None:
        if self.order not in ("hot", "input", "presample"):
            raise ValueError(f"order must be 'hot', 'input' or 'presample', not {self.order!r}")
        if self.neighbors not in ("in", "out", "both", None):
            raise ValueError(f"neighbors must be 'in', 'out' or 'both', not {self.neighbors!r}")
        if self.order == "presample" and self.presampler is None:
            raise ValueError("order='presample' needs something that samples: presample=...")
        if self.order != "presample" and self.presampler is not None:
            raise ValueError(f"presample= is for order='presample', not {self.order!r}")

    @property
    def renumbers(self) -> bool:
        """Whether stored ids differ from the user's."""
        return self.order != "input"

    @property
    def column_memory(self) -> int:
        """Bytes for the edge columns, and for a split."""
        return self.memory_limit * 2 // 16

    @property
    def order_memory(self) -> int:
        """Bytes for the order of nodes."""
        return self.memory_limit * 4 // 16

    @property
    def sort_memory(self) -> int:
        """Bytes for the sort of the edges."""
        return self.memory_limit * 9 // 16

    @property
    def rows_memory(self) -> int:
        """Bytes for rows while they are put in order."""
        return self.memory_limit * 8 // 16


@dataclass(frozen=True)
class BuildOptions:
    """The parameters of `graphzero.build`, where they are described."""

    edges: Any
    features: Any = None
    labels: Any = None
    splits: Mapping[str, Any] | None = None
    nodes: Any = None
    edge_splits: Any = None
    weight_attrs: str | Iterable[str] | None = None
    time_attrs: str | Iterable[str] | None = None
    num_nodes: int | None = None
    ids: str | None = "dense"
    directed: bool | None = None
    neighbors: Neighbors = "in"
    order: str = "hot"
    presample: Presampler | None = None
    src: str | int | None = None
    dst: str | int | None = None
    weight: Any = None
    timestamp: Any = None
    header: bool | str = "auto"
    delimiter: str = "auto"
    edge_ids: bool = False
    coalesce: object = False
    drop_self_loops: object = False
    reverse: object = False
    feature_dtype: npt.DTypeLike | None = None
    edge_attrs: Sequence[str] | Mapping[str, Column] | None = None
    id_column: Column | bool | None = None
    memory_limit: int | str = "2GB"
    progress: bool = False
    extras: bytes | None = None  # of `graphzero.pyg.from_data`, see `graphzero.pyg.facade.Extras`

    @property
    def edge_source(self) -> Source:
        """The options of the build that are those of a source of edges, without a value."""
        return Source(
            None,
            src=self.src,
            dst=self.dst,
            weight=self.weight,
            timestamp=self.timestamp,
            edge_attrs=self.edge_attrs,
            header=self.header,
            delimiter=self.delimiter,
        )

    @property
    def is_directed(self) -> bool:
        """Whether edges are stored as the list has them: unless the user says otherwise."""
        return self.directed is not False

    @property
    def maps_ids(self) -> bool:
        """Whether ids of nodes are any integers or texts."""
        if self.ids not in (None, "dense", "map"):
            raise ValueError(f"ids must be 'dense' or 'map', not {self.ids!r}")
        return self.ids == "map"

    @property
    def is_typed(self) -> bool:
        """Whether nodes are given by node type, or edges by edge type."""
        by_node_type = isinstance(self.nodes, Mapping) and any(
            isinstance(value, Mapping) for value in self.nodes.values()
        )
        # A matrix that SciPy keeps as a dictionary has pairs of numbers for keys.
        by_edge_type = (
            isinstance(self.edges, Mapping)
            and not hasattr(self.edges, "tocoo")
            and any(isinstance(key, tuple) for key in self.edges)
        )
        return by_node_type or by_edge_type

    def write_options(self) -> WriteOptions:
        """How the dataset is written.

        Raises
        ------
        ValueError
            If an option has no valid value.
        """
        if self.neighbors is None:
            raise ValueError("neighbors must be 'in', 'out' or 'both', not None")
        limit, progress = parse_size(self.memory_limit, "memory limit"), Progress(self.progress)
        return WriteOptions(self.order, self.presample, limit, progress, self.neighbors)

    def check_typed(self) -> None:
        """Raises a ValueError for an option that a graph with types cannot have."""
        if not self.is_directed or self.neighbors not in ("in", "out"):
            raise ValueError(
                f"directed={self.directed} and neighbors={self.neighbors!r} are not for typed "
                f"graphs, which have directed=True and neighbors='in' or 'out'. Add the reverse "
                f"edge types, as torch_geometric's T.ToUndirected does: ('paper', 'rev_writes', "
                f"'author') with both rows of edge_index exchanged"
            )
        for option in _UNTYPED_ONLY:
            value = getattr(self, option)
            # weight=False and edge_attrs=[] say of all edge types that no such column is needed.
            if not (value is None or value is False or (option == "edge_attrs" and not value)):
                raise ValueError(
                    f"{option}= is for graphs without types: give attributes by type, as in "
                    f"nodes={{'paper': {{'x': ..., 'y': ..., 'num_nodes': ...}}}}, and name the "
                    f"columns of each edge list, as in edges={{('author', 'writes', 'paper'): "
                    f"gz.Source('writes.csv', src='a', dst='p', weight='w')}}"
                )


def check_memory_limit(size: int | str) -> None:
    """Raises a ValueError for a memory limit in which a build of any size cannot work."""
    if parse_size(size, "memory limit") < LEAST_MEMORY:
        raise ValueError(
            f"memory_limit={size!r} is too small: a build needs at least 256MB, whatever the size "
            f"of its input"
        )


def by_type(value: Any, option: str, types: Collection[_Type]) -> dict[_Type, Any]:
    """What an option has for each type; without types, all of it is of the only one.

    Raises
    ------
    ValueError
        If it has something of a type that does not exist.
    """
    only = next(iter(types))
    if not any(only):  # "" or ("", "", "")
        return {only: value}
    names = ", ".join(map(repr, types))
    if not isinstance(value, Mapping):
        kind = "node" if isinstance(only, str) else "edge"
        raise ValueError(
            f"{option} of a typed graph is a dict by {kind} type, of {names}, not {value!r:.200}"
        )
    for key in value:
        if key not in types:
            raise ValueError(f"{option} has no type {key!r} here: there are {names}")
    return dict(value)


# Names that attributes may have: none that a mini-batch or a graph of PyG uses otherwise

AttributeOf = Literal["node", "edge"]

# What a mini-batch has besides the attributes of its nodes and edges.
_OF_MINI_BATCH = """
    n_id edge_index e_id batch_size input_id num_sampled_nodes num_sampled_edges stats batch
    seed_time edge_label_index edge_label edge_label_time src_index dst_pos_index dst_neg_index
    num_nodes num_edges num_features keys to_dict to cpu cuda pin_memory clone
    to_pyg
"""
# Methods and properties of PyG's Data and HeteroData: `MiniBatch.to_pyg` makes these.
_OF_PYG = """
    adj_t apply apply_ coalesce collect concat connected_components contains_isolated_nodes
    contains_self_loops contiguous coo csc csr debug detach detach_ edge_attrs edge_items
    edge_stores edge_subgraph edge_type_subgraph edge_types face from_dict generate_ids
    get_all_edge_attrs get_all_tensor_attrs get_edge_index get_edge_store get_node_store get_tensor
    get_tensor_size has_isolated_nodes has_self_loops input_type is_coalesced is_cuda is_directed
    is_edge_attr is_node_attr is_sorted is_sorted_by_time is_undirected metadata multi_get_tensor
    node_attrs node_items node_offsets node_stores node_type_subgraph node_types num_edge_features
    num_edge_types num_faces num_node_features num_node_types ptr put_edge_index put_tensor
    record_stream remove_edge_index remove_tensor rename requires_grad_ set_value_dict
    share_memory_ size snapshot sort sort_by_time stores stores_as subgraph to_heterogeneous
    to_homogeneous to_namedtuple up_to update update_tensor validate view
"""
RESERVED = frozenset((_OF_MINI_BATCH + _OF_PYG).split())
# Names that PyG's Data has for one of the two only.
_OF_ONE = {
    "node": frozenset(["x", "y", "pos"]),
    "edge": frozenset(["edge_attr", "edge_weight", "edge_time"]),
}


def check_attribute_name(name: object, of: AttributeOf) -> None:
    """Raises a ValueError for a name that an attribute in a mini-batch cannot have."""
    what = f"{of} attribute {name!r}"
    text = name if isinstance(name, str) and name.isidentifier() else "_"
    if not text.isascii() or keyword.iskeyword(text) or text.startswith("_"):
        raise ValueError(
            f"{what}: the name must be a Python identifier of ASCII letters, such as 'year'"
        )
    if name in RESERVED:
        raise ValueError(f"{what}: a mini-batch has something else of this name: choose another")
    other: AttributeOf = "edge" if of == "node" else "node"
    if name in _OF_ONE[other]:
        raise ValueError(f"{what}: this is a name of {other} attributes: choose another")
