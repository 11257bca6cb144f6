"""The nodes of one type, and the edges of one, with their attributes.

An attribute of a store is a tensor of all rows in the user's order, which is read from disk when it
is asked for, as scripts for PyG expect it: ``store.x``. The mapped files are ``store.attributes``.
torch is imported when a tensor is made.
"""

from __future__ import annotations

import io
import pickle
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.errors import FormatError, user_line
from graphzero.graph.features import FeatureStore, StoredIds
from graphzero.graph.graph import Graph
from graphzero.graph.user_input import (
    IdArray,
    NodeTexts,
    Sampling,
    as_ids,
    as_threads,
    lookup,
)
from graphzero.store.format import BFLOAT16, dtype_name
from graphzero.store.free_memory import available_memory
from graphzero.store.id_table import IdTable
from graphzero.store.manifest import EDGE_TIME, EDGE_WEIGHT, EdgeType, SampledBy
from graphzero.units import format_bytes

if TYPE_CHECKING:
    import torch
    from typing_extensions import Self

# What torch, and the checks of what it has read, may raise.
_NOT_READ = (RuntimeError, ValueError, TypeError, AttributeError, EOFError, pickle.PickleError)
_LARGE = 10**9  # bytes, of which a user is told before they are read
# What other packages use of a graph, and no script does.
_INTERNAL = (
    *("all_edges", "deleted", "edge_type_of", "edges_at", "extras", "files"),
    *("have_extras", "is_hot", "is_in", "keeps_order_of", "kept", "mappings", "masks"),
    *("of_types", "order_identity", "require_unedited", "require_untyped", "shadowed", "shapes"),
    *("split_named", "table_rows", "to_stored", "to_user", "warn_of_direction", "watched"),
)
_SPLIT_NAME = re.compile(r"(\w+)_(mask|idx|index)")
_SEED_EDGES = re.compile(r"(\w+_)?edge_(index|label|label_index|label_time)")


def is_seed_edges(name: str) -> bool:
    """Whether a name is that of seed edges of LinkNeighborLoader or their labels.

    Such attributes have no file of their own, even where there are as many of them as of edges, and
    batches do not have them.
    """
    return _SEED_EDGES.fullmatch(name) is not None


def as_tensor(rows: npt.NDArray[Any]) -> torch.Tensor:
    """A tensor over the memory of gathered rows, torch.bfloat16 where they hold its bits."""
    import torch

    if rows.dtype == BFLOAT16:
        return torch.from_numpy(rows.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(rows)


class Watched:
    """Tensors that were handed out, without their memory, to find out which of them were edited."""

    def __init__(self) -> None:
        self._handed_out: list[tuple[str, torch.Tensor, int, Any]] = []

    def watch(self, name: str, rows: npt.NDArray[Any]) -> torch.Tensor:
        """A tensor over some rows, which is watched from now on."""
        import torch
        from torch.multiprocessing.reductions import StorageWeakRef

        with torch.inference_mode(False):  # whose tensors do not count edits
            tensor = as_tensor(rows)
            # an empty tensor that has the same counter of edits, as a view would
            counter = tensor.detach().set_(torch.empty(0, dtype=tensor.dtype))  # type: ignore[call-overload]
        memory: Any = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        # Nobody can edit what is freed any more.
        edited = self.edited()
        kept = [one for one in self._handed_out if one[0] in edited or not one[3].expired()]
        self._handed_out = [*kept, (name, counter, counter._version, memory)]
        return tensor

    def edited(self) -> list[str]:
        """Names of what was edited in place since it was handed out."""
        return [
            name for name, counter, version, _ in self._handed_out if counter._version != version
        ]

    def __reduce__(self) -> tuple[type[Watched], tuple[()]]:
        for name in self.edited():
            raise edited_error(f"data.{name}")
        return Watched, ()


def edited_error(whose: str) -> ValueError:
    """The error for what was edited in place."""
    return ValueError(
        f"{whose} was edited in place, but the graph is stored, and batches and splits would not "
        f"have the edit: edit the graph before from_data, or batches in transform= of the loader. "
        f"For other uses edit a copy, {whose}.clone(), such as a mask for input_nodes="
    )


class Extras:
    """What of a graph has no row for each node or edge: numbers, texts, seed edges.

    Parameters
    ----------
    file : FeatureStore, optional
        The bytes of ``torch.save``, as `from_data` writes them: by node type, edge type or None
        (the whole graph), "kept" has values by name and "splits" the split of each mask by name.
    unsaved : dict, optional
        What no file can hold, like "kept".
    """

    def __init__(self, file: FeatureStore | None = None, unsaved: Any = None) -> None:
        self.file = file
        self.unsaved: dict[Any, dict[str, Any]] = unsaved or {}

    @cached_property
    def _content(self) -> dict[str, dict[Any, dict[str, Any]]]:
        if self.file is None:
            return {}
        import torch

        try:
            data = io.BytesIO(self.file.get_tensor().tobytes())
            found = torch.load(data, map_location="cpu", weights_only=True)
            if not all(isinstance(of, dict) for part in found.values() for of in part.values()):
                raise TypeError("a part is no dictionary")
        except _NOT_READ as error:
            raise FormatError(f"{self.file.path} is corrupt ({error}): build it again") from None
        return dict(found)

    def kept(self, key: Any) -> dict[str, Any]:
        """What belongs to a node type, an edge type, or the whole graph (None), by name."""
        return {**self._content.get("kept", {}).get(key, {}), **self.unsaved.get(key, {})}

    def splits(self, key: Any) -> dict[str, str]:
        """The splits of a node type by the names that they were given."""
        return dict(self._content.get("splits", {}).get(key, {}))


def require_room(name: str, count: int, bytes_each: int, bytes_beside: int) -> None:
    """Refuses to read an attribute whole that does not fit in memory, and warns of a large one.

    Parameters
    ----------
    name : str
    count : int
        Rows.
    bytes_each, bytes_beside : int
        Of a row, and of what finding it takes.

    Raises
    ------
    MemoryError
        Where less memory is available.
    """
    size = format_bytes(count * bytes_each)
    available = available_memory() + _core.pool_state()[1]  # idle memory of earlier arrays
    if count * (bytes_each + bytes_beside) > available:
        raise MemoryError(
            f"data.{name} would read all of {name} from disk into memory, {size}, and "
            f"{format_bytes(available)} are available: batches of a loader have the rows of their "
            f"nodes, and data.num_features the columns of x without reading it"
        )
    if count * bytes_each > _LARGE:
        warnings.warn(
            f"data.{name} reads all of {name} from disk into memory, {size}: "
            f"batches of a loader have the rows of their nodes",
            UserWarning,
            stacklevel=user_line(),
        )


def missing(name: str, names: Iterable[str]) -> AttributeError:
    """The error for a name that a stored graph lacks, as a whole or of a type."""
    return AttributeError(
        f"a stored graph has no {name!r}; it has {', '.join(names)}. What PyG makes of graphs in "
        f"memory, let it make before `from_data`, or of a batch"
    )


class Named:
    """What a graph as a whole and its types have in common: attributes by name, which are files.

    They are not set, and deleted only from a copy.
    """

    extras = Extras()
    _key: Any = None
    _deleted: list[str] | None = None  # of a copy
    _is_opened = False

    def keys(self) -> list[str]:
        """Names of the attributes."""
        raise NotImplementedError

    def kept(self) -> dict[str, Any]:
        """What belongs to the graph or the type as a whole, by name."""
        values = self.extras.kept(self._key)
        return {name: value for name, value in values.items() if name not in (self._deleted or ())}

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __dir__(self) -> list[str]:
        names = {name for name in super().__dir__() if not name.startswith("_")}
        return sorted(names.difference(_INTERNAL) | set(self.keys()))

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses all but the ids and the number that batches have anyway."""
        if name.startswith("_") or not self._is_opened:
            super().__setattr__(name, value)
            return
        count = getattr(self, "num_nodes", -1)
        is_same = name == "num_nodes" and value == count
        if name == "n_id":
            is_same = np.array_equal(np.asarray(value), np.arange(count))
        if not is_same:
            raise AttributeError(
                f"{name} cannot be set: the graph is stored, and batches would not have it. Set it "
                f"before from_data, or in transform= of a loader"
            )

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __delattr__(self, name: str) -> None:
        """Deletes an attribute from a copy, whose loaders then do not read it."""
        if self._deleted is None:
            raise AttributeError(
                f"{name} cannot be deleted: the graph is stored, and all loaders share it. "
                f"gather=[...] of a loader names the attributes that its batches have; or give the "
                f"loader copy.copy(data), from which names can be deleted"
            )
        if name not in self or name == "edge_index":
            raise AttributeError(f"there is no attribute {name!r} to delete")
        self._deleted.append(name)

    def __delitem__(self, name: str) -> None:
        delattr(self, name)


class _Store(Named):
    """Attributes by name: ``store["x"]`` and ``store.x``."""

    _FINDING = 2 * 8  # bytes that each row takes while it is found
    _size: str
    _ids: Mapping[str, FeatureStore | IdTable] = MappingProxyType({})  # one for each node

    def __init__(
        self, key: Any, count: int, attributes: Mapping[str, FeatureStore], splits: Splits | None
    ) -> None:
        for name, store in {**attributes, **self._ids}.items():
            if len(store) != count:
                raise FormatError(
                    f"{store.path} has {len(store):,} rows of {name}, and the graph {count:,} "
                    f"{'nodes' if isinstance(self, NodeStore) else 'stored edges'}: build it again"
                )
        self.attributes = dict(attributes)
        self.splits = splits if splits is not None else Splits({})
        self.watched = Watched()
        self._key = key
        self._is_opened = True

    @property
    def num_features(self) -> int:
        """Columns of ``x`` of nodes, of ``edge_attr`` of edges; 0 without features."""
        store = self.attributes.get("x" if isinstance(self, NodeStore) else "edge_attr")
        shape = (0, 0) if store is None else store.shape
        return 1 if len(shape) == 1 else int(shape[-1])

    num_node_features = num_edge_features = num_features

    def keys(self) -> list[str]:
        """Names of the attributes."""
        return [*self.attributes, *self.kept()]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __getitem__(self, name: str) -> Any:
        """All rows of an attribute, or what belongs to the type as a whole."""
        if name in self.attributes:
            store = self.attributes[name]
            require_room(name, store.num_nodes, store.row_bytes, self._FINDING)
            return self.watched.watch(name, store.gather_stored(self._all_rows(), None, 1))
        kept = self.kept()
        if name not in kept:
            raise KeyError(f"{self!r} has no {name!r}; it has {', '.join(self.keys())}")
        return kept[name]

    if not TYPE_CHECKING:  # for which a class with __getattr__ has every attribute

        def __getattr__(self, name: str) -> Any:
            """As items are."""
            if name.startswith("_") or "attributes" not in vars(self):
                raise AttributeError(name)
            try:
                return self[name]
            except KeyError:
                raise missing(name, self.keys()) from None

    def _all_rows(self) -> IdArray:
        """The number of each row in the files, in the user's order."""
        raise NotImplementedError

    def __delattr__(self, name: str) -> None:
        """As of all; a copy has files of its own."""
        super().__delattr__(name)
        self.attributes.pop(name, None)

    def __copy__(self) -> Self:
        copied = type(self).__new__(type(self))
        own = {"attributes": dict(self.attributes), "_deleted": [*(self._deleted or ())]}
        vars(copied).update(vars(self), **own)
        return copied

    def _split_files(self) -> Mapping[str, FeatureStore]:
        return getattr(self.splits, "stores", {})  # a dictionary of ids has none

    def shapes(self) -> list[str]:
        """The number of nodes or edges, and each attribute with its shape and dtype, in words."""
        found = [
            f"{name}={list(store.shape)} {dtype_name(store.dtype)}"
            for name, store in self.attributes.items()
        ]
        sizes = ", ".join(f"{name}={len(ids)}" for name, ids in self._split_files().items())
        return [self._size, *found, *self.kept(), *([f"splits({sizes})"] if sizes else [])]

    def table_rows(self) -> list[list[str]]:
        """Name, shape, dtype and size of each attribute and split, in words."""
        splits = {f"splits[{name!r}]": ids for name, ids in self._split_files().items()}
        files = {**self.attributes, **splits}
        return [
            [self._size, "", "", ""],
            *(
                [name, str([*of.shape]), dtype_name(of.dtype), format_bytes(len(of) * of.row_bytes)]
                for name, of in files.items()
            ),
            *([name, "", "", ""] for name in self.kept()),
        ]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._key!r}, {', '.join(self.shapes())})"


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

    def _section(self, name: str, section: str) -> npt.NDArray[Any]:
        count = len(self[name])
        found = self.stores[name].read_section(section)
        if found is None or len(found) != count:
            raise ValueError(
                f"the split {name!r} has no {section} of its edges: graphzero.LinkSplit stores it, "
                f"from edges with times if it is the time"
            )
        return found


class NodeStore(_Store):
    """The nodes of one type, ``ds["paper"]``, with their attributes: ``ds["paper"].x``.

    ``train_mask`` and ``train_idx`` are the split "train" as a mask and as ids, and so on.

    Attributes
    ----------
    attributes : dict of str to FeatureStore
        The mapped files.
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
        splits: Splits | None = None,
        num_classes: int | None = None,
        order: Graph | StoredIds | None = None,
        id_table: IdTable | None = None,
    ) -> None:
        self.node_type = node_type
        self.num_nodes = num_nodes
        self.num_classes = num_classes
        self._order = order
        self._id_table = id_table
        named = {"ids": order, "id_map": id_table}
        self._ids = {n: file for n, file in named.items() if isinstance(file, StoredIds | IdTable)}
        self._bits: dict[str, npt.NDArray[np.uint8]] = {}
        self._size = f"num_nodes={num_nodes}"
        super().__init__(node_type, num_nodes, attributes, splits)

    def masks(self) -> dict[str, str]:
        """The names of masks and ids of splits, each with its split."""
        given = {n: s for n, s in self.extras.splits(self._key).items() if s in self.splits}
        others = {f"{name}_mask": name for name in self.splits if name not in given.values()}
        gone = self._deleted or ()
        return {name: split for name, split in {**given, **others}.items() if name not in gone}

    def keys(self) -> list[str]:
        """Names of the attributes, masks of splits included."""
        return [*self.attributes, *self.masks(), *self.kept()]

    def __getitem__(self, name: str) -> Any:
        """As of all stores; masks and ids of splits, too."""
        split = self.split_named(name)
        if split is None or name in self.attributes:
            return super().__getitem__(name)
        is_mask = name.endswith("_mask")
        return self.watched.watch(name, self._mask(split) if is_mask else self.splits[split].copy())

    def split_named(self, name: str) -> str | None:
        """The split that a name such as train_mask or train_idx stands for."""
        match = _SPLIT_NAME.fullmatch(name)
        if match is None:
            return None
        split = self.masks().get(name, {"valid": "val"}.get(match[1], match[1]))
        return split if split in self.splits and name not in (self._deleted or ()) else None

    def _mask(self, split: str) -> npt.NDArray[np.bool_]:
        _core.require_memory(self.num_nodes, 1, f"{split}_mask")
        mask = np.zeros(self.num_nodes, np.bool_)
        mask[self.splits[split]] = True
        return mask

    @property
    def n_id(self) -> torch.Tensor:
        """The ids of all nodes, (num_nodes,) int64, as ``n_id`` of batches has them."""
        return as_tensor(np.arange(self.num_nodes))

    def is_in(self, mask: str, nodes: IdArray) -> npt.NDArray[np.bool_]:
        """Whether the mask of a name has some nodes; the mask is kept, a bit a node."""
        if mask not in self._bits:
            self._bits[mask] = np.packbits(self._mask(self.masks()[mask]))
        bits: npt.NDArray[np.bool_] = self._bits[mask][nodes >> 3] >> (7 - (nodes & 7)) & 1 == 1
        return bits

    def _all_rows(self) -> IdArray:
        return self.to_stored(np.arange(self.num_nodes))

    @property
    def node_ids(self) -> npt.NDArray[Any] | NodeTexts | None:
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

    def to_user(self, stored: IdArray, num_threads: int = 1) -> IdArray:
        """The user's ids of row numbers, which must be in range, int64."""
        return stored if self._order is None else self._order.to_user(stored, num_threads)

    @property
    def order_identity(self) -> tuple[Any, ...]:
        """Fingerprint of the order in which the nodes are stored."""
        return () if self._order is None else self._order.identity

    def keeps_order_of(self, store: FeatureStore) -> bool:
        """Whether the rows of an attribute have the order in which the nodes are stored."""
        return store.stored_order == (None if self._order is None else self._order.stored_order)

    def files(self) -> list[FeatureStore | IdTable]:
        """Every mapped file of these nodes."""
        return [*self.attributes.values(), *self._split_files().values(), *self._ids.values()]


class EdgeStore(_Store):
    """The edges of one type, ``ds["author", "writes", "paper"]``, with their attributes.

    ``edge_index`` and the attributes are in the order of the edge list, if the file stores it; else
    by the nodes that have the lists. Edges that the build merged or dropped are not there.

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
    """

    _FINDING = 8 * 8
    splits: EdgeSplits

    def __init__(
        self,
        edge_type: EdgeType,
        graph: Graph,
        ends: tuple[NodeStore, NodeStore],
        attributes: Mapping[str, FeatureStore],
        splits: EdgeSplits | None = None,
        sampled_by: SampledBy | None = None,
    ) -> None:
        self.edge_type = edge_type
        self.graph = graph
        self.sampled_by = sampled_by or SampledBy(EDGE_WEIGHT, EDGE_TIME)
        self.num_edges = graph.num_edges
        self.source, self.target = ends
        self.owner, self.neighbor = ends[::-1] if graph.is_incoming else ends
        self._size = f"edge_index=[2, {graph.num_edges}]"
        super().__init__(edge_type, graph.num_edges, attributes, splits or EdgeSplits({}))

    def keys(self) -> list[str]:
        """Names of the attributes, edge_index included."""
        return ["edge_index", *super().keys()]

    def __getitem__(self, name: str) -> Any:
        """As of all stores; edge_index, too."""
        return self.edge_index if name == "edge_index" else super().__getitem__(name)

    @property
    def edge_index(self) -> torch.Tensor:
        """All edges, (2, num_edges) int64: the user's ids, sources above targets."""
        require_room("edge_index", self.num_edges, 2 * 8, self._FINDING)
        return self.watched.watch("edge_index", self.all_edges())

    def _all_rows(self) -> IdArray:
        return self._by_position()[1]

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
        FormatError
            If the file is corrupt.
        """
        return np.sort(self._lists(as_ids([node], self.owner.num_nodes, "nodes"))[2])

    def _lists(self, owners: IdArray) -> tuple[IdArray, IdArray, IdArray]:
        """The lists of some owners: where each begins and ends, positions of edges, neighbours.

        The core checks the file's values, so that none of them leads beyond a table.
        """
        everything = (-1, Sampling(), _core.Draws(0, 0, 0), as_threads(None))
        offsets, at, stored = self.graph._csr.sample_hop(self.owner.to_stored(owners), *everything)
        return offsets, at, self.neighbor.to_user(stored)

    def all_edges(self) -> IdArray:
        """`edge_index` as an array, a copy.

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
        _core.require_memory(self.num_edges, self._FINDING, "edges")
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

    def files(self) -> list[Graph | FeatureStore]:
        """Every mapped file of these edges."""
        out = [] if self.graph.out_lists is None else [self.graph.out_lists]
        return [self.graph, *out, *self.attributes.values(), *self._split_files().values()]
