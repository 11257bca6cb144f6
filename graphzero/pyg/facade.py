"""`GraphFacade`: PyG's names of a stored graph, which `graphzero.Dataset` asks for them.

An attribute is a tensor of all rows in the user's order, which is read from disk when it is asked
for. torch is imported then, and torch_geometric never.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.errors import FormatError, warn_user
from graphzero.graph.dataset import OF_DATA, Dataset
from graphzero.graph.features import FeatureStore, RowArray
from graphzero.graph.nodes_and_edges import Edges, EdgeStore, Nodes, NodeStore
from graphzero.graph.user_input import IdArray
from graphzero.store.free_memory import available_memory
from graphzero.store.manifest import EDGES, NODES, EdgeType
from graphzero.units import format_bytes

if TYPE_CHECKING:
    from torch import Tensor

TypeKey = str | EdgeType  # a node type or an edge type
_Value = TypeVar("_Value")

# What torch, and the checks of what it has read, may raise.
_NOT_READ = (RuntimeError, ValueError, TypeError, AttributeError, EOFError, pickle.PickleError)
_LARGE = 10**9  # bytes, of which a user is told before they are read
_SHARE = 10  # tensors are kept up to one part in so many of the available memory
_SPLIT_NAME = re.compile(r"(\w+)_(mask|idx|index)")
_SEED_EDGES = re.compile(r"(\w+_)?edge_(index|label|label_index|label_time)")


def is_seed_edges(name: str) -> bool:
    """Whether a name is that of seed edges of LinkNeighborLoader or their labels.

    Such attributes have no file of their own, even where there are as many of them as of edges, and
    batches do not have them.
    """
    return _SEED_EDGES.fullmatch(name) is not None


# ---- what a graph and its copies share


class Extras:
    """What of a graph has no row for each node or edge: numbers, texts, seed edges.

    Parameters
    ----------
    file : FeatureStore or None
        The bytes of ``torch.save``, as `from_data` writes them: by node type, edge type or None
        (the whole graph), "kept" has values by name and "splits" the split of each mask by name.

    Attributes
    ----------
    unsaved : dict
        What no file can hold, like "kept".
    """

    def __init__(self, file: FeatureStore | None) -> None:
        self._file = file
        self.unsaved: dict[TypeKey | None, dict[str, object]] = {}

    @cached_property
    def _content(self) -> dict[str, dict[TypeKey | None, dict[str, Any]]]:
        if self._file is None:
            return {}
        import torch

        try:
            data = io.BytesIO(self._file.get_tensor().tobytes())
            content = torch.load(data, map_location="cpu", weights_only=True)
            for part in content.values():
                if not all(isinstance(values, dict) for values in part.values()):
                    raise TypeError("a part is no dictionary")
        except _NOT_READ as error:
            raise FormatError(f"{self._file.path} is corrupt ({error}): build it again") from None
        return dict(content)

    def kept(self, key: TypeKey | None) -> dict[str, object]:
        """What belongs to a node type, an edge type, or the whole graph (None), by name."""
        return {**self._content.get("kept", {}).get(key, {}), **self.unsaved.get(key, {})}

    def splits(self, key: TypeKey) -> dict[str, str]:
        """The splits of a node type by the names that they were given."""
        return dict(self._content.get("splits", {}).get(key, {}))


class HandedOut:
    """The tensors that were handed out, kept so that all see an edit, and loaders find it.

    Together they have at most a tenth of the available memory.
    """

    def __init__(self) -> None:
        self._tensors: dict[tuple[TypeKey, str], Tensor] = {}
        self._has_warned = False

    def tensor(self, key: TypeKey, name: str, read: Callable[[], RowArray]) -> Tensor:
        """The tensor of a type and name, which `read` reads the first time."""
        if (key, name) in self._tensors:
            return self._tensors[key, name]
        import torch

        from graphzero.loader.mini_batch import as_tensor

        with torch.inference_mode(False):  # whose tensors do not count edits
            tensor = as_tensor(read())
        kept_bytes = sum(kept.nbytes for kept in self._tensors.values())
        if (kept_bytes + tensor.nbytes) * _SHARE <= _free_memory():
            self._tensors[key, name] = tensor
        elif not self._has_warned:
            self._has_warned = True
            warn_user(
                f"data.{name}, {format_bytes(tensor.nbytes)}, is not kept, because that would take "
                f"more than a tenth of the available memory: it is read from disk each time, and "
                f"edits of it are not seen"
            )
        return tensor

    def edited(self) -> Iterator[tuple[TypeKey, str]]:
        """Type and name of each tensor that was edited in place: a new one has version 0."""
        return (key for key, tensor in self._tensors.items() if tensor._version > 0)

    def __reduce__(self) -> tuple[type[HandedOut], tuple[()]]:
        """Another process reads tensors again."""
        for key, name in self.edited():
            raise _edited(key, name)
        return HandedOut, ()


def _edited(key: TypeKey, name: str) -> ValueError:
    tensor = f"data.{name}" if key in (NODES, EDGES) else f"data[{key!r}].{name}"
    return ValueError(
        f"{tensor} was edited in place, but the graph is stored, and batches and splits would not "
        f"have the edit: edit the graph before from_data, or batches in transform= of the loader. "
        f"For other uses edit a copy, {tensor}.clone(), such as a mask for input_nodes="
    )


def _free_memory() -> int:
    return available_memory() + _core.pool_state()[1]  # idle memory of earlier arrays


def _require_room(name: str, num_rows: int, row_bytes: int, lookup_bytes: int) -> None:
    """Refuses to read an attribute whole that does not fit in memory, and warns of a large one.

    Parameters
    ----------
    name : str
    num_rows, row_bytes : int
    lookup_bytes : int
        What finding a row takes.

    Raises
    ------
    MemoryError
        Where less memory is available.
    """
    size = format_bytes(num_rows * row_bytes)
    available = _free_memory()
    if num_rows * (row_bytes + lookup_bytes) > available:
        raise MemoryError(
            f"data.{name} would read all of {name} from disk into memory, {size}, and "
            f"{format_bytes(available)} are available: batches of a loader have the rows of their "
            f"nodes, and data.num_features the columns of x without reading it"
        )
    if num_rows * row_bytes > _LARGE:
        warn_user(
            f"data.{name} reads all of {name} from disk into memory, {size}: "
            f"batches of a loader have the rows of their nodes"
        )


# ---- the graph and its types


def _missing(name: str, names: Iterable[str]) -> AttributeError:
    return AttributeError(
        f"a stored graph has no {name!r}; it has {', '.join(names)}. What PyG makes of graphs in "
        f"memory, let it make before `from_data`, or of a batch"
    )


class _Attributes:
    """Attributes by name, ``store["x"]`` and ``store.x``: not set, and deleted only from a copy."""

    _deleted: set[str] | None = None  # of a copy

    def __init__(self, key: TypeKey | None, extras: Extras, handed_out: HandedOut) -> None:
        self._key = key
        self._extras = extras
        self._handed_out = handed_out

    def keys(self) -> list[str]:
        """Names of the attributes."""
        raise NotImplementedError

    def _names(self) -> list[str]:
        """Names of the attributes that are read here."""
        return self.keys()

    def kept(self) -> dict[str, object]:
        """What belongs to the graph or the type as a whole, by name."""
        return self._undeleted(self._extras.kept(self._key))

    def _undeleted(self, values: dict[str, _Value]) -> dict[str, _Value]:
        deleted = self._deleted or ()
        return {name: value for name, value in values.items() if name not in deleted}

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __dir__(self) -> set[str]:
        return {*super().__dir__(), *self._names()}

    def __setattr__(self, name: str, value: object) -> None:
        """Refuses all but the ids and the number that batches have anyway."""
        if name.startswith("_"):
            super().__setattr__(name, value)
            return
        existing = getattr(self, name, None) if name in ("n_id", "num_nodes") else None
        if existing is None or not np.array_equal(np.asarray(value), existing):
            raise AttributeError(
                f"{name} cannot be set: the graph is stored, and batches would not have it. Set it "
                f"before from_data, or in transform= of a loader"
            )

    def __setitem__(self, name: str, value: object) -> None:
        setattr(self, name, value)

    def __delattr__(self, name: str) -> None:
        """Deletes an attribute from a copy, whose loaders then do not read it."""
        if self._deleted is None:
            raise AttributeError(
                f"{name} cannot be deleted: the graph is stored, and all loaders share it. "
                f"gather=[...] of a loader names the attributes that its batches have; or give the "
                f"loader copy.copy(data), from which names can be deleted"
            )
        if name not in self._names() or name == "edge_index":
            raise AttributeError(f"there is no attribute {name!r} to delete")
        self._deleted.add(name)

    def __delitem__(self, name: str) -> None:
        delattr(self, name)


class _TypeFacade(_Attributes):
    """The nodes of one type or the edges of one, with all that their files have."""

    _FEATURES: str  # the attribute whose columns are counted
    _key: TypeKey
    _files: NodeStore | EdgeStore

    @property
    def num_features(self) -> int:
        """Columns of ``x`` of nodes, of ``edge_attr`` of edges; 0 without features."""
        store = self._files.attributes.get(self._FEATURES)
        if store is None:
            return 0
        return 1 if len(store.shape) == 1 else int(store.shape[-1])

    num_node_features = num_edge_features = num_features

    def keys(self) -> list[str]:
        """Names of the attributes."""
        return [*self._files.attributes, *self.kept()]

    def __dir__(self) -> set[str]:
        return {*super().__dir__(), *dir(self._files)}

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __getitem__(self, name: str) -> Any:
        """All rows of an attribute, or what belongs to the type as a whole."""
        if name in self._files.attributes:
            return self._handed_out.tensor(self._key, name, partial(self._read, name))
        kept = self.kept()
        if name not in kept:
            raise KeyError(f"{self!r} has no {name!r}; it has {', '.join(self.keys())}")
        return kept[name]

    def _read(self, name: str) -> RowArray:
        store = self._files.attributes[name]
        _require_room(name, store.num_nodes, store.row_bytes, self._files.LOOKUP_BYTES)
        return store.gather_stored(self._files.all_rows(), None, 1)

    def __getattr__(self, name: str) -> Any:
        """What the files have; else as items are."""
        if name.startswith("_"):
            raise AttributeError(name)
        if hasattr(self._files, name):
            return getattr(self._files, name)
        try:
            return self[name]
        except KeyError:
            raise _missing(name, self.keys()) from None

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._files.attributes.pop(name, None)

    def __repr__(self) -> str:
        words = [*self._files.shapes(), *self.kept()]
        return f"{type(self._files).__name__}({self._key!r}, {', '.join(words)})"


class NodeFacade(_TypeFacade):
    """The nodes of one type, ``ds["paper"]``, with their attributes: ``ds["paper"].x``.

    ``train_mask`` and ``train_idx`` are the split "train" as a mask and as ids, and so on.
    """

    _FEATURES = "x"
    _files: NodeStore

    def __init__(self, files: NodeStore, extras: Extras, handed_out: HandedOut) -> None:
        super().__init__(files.node_type, extras, handed_out)
        self._files = files
        self._bits: dict[str, npt.NDArray[np.uint8]] = {}

    def masks(self) -> dict[str, str]:
        """The names of masks and ids of splits, each with its split."""
        splits = self._files.splits
        names = self._extras.splits(self._key)
        masks = {name: split for name, split in names.items() if split in splits}
        masks |= {f"{split}_mask": split for split in splits if split not in masks.values()}
        return self._undeleted(masks)

    def keys(self) -> list[str]:
        """Names of the attributes, masks of splits included."""
        return [*self._files.attributes, *self.masks(), *self.kept()]

    def __getitem__(self, name: str) -> Any:
        """As of all types; masks and ids of splits, too."""
        split = self._split_named(name)
        if split is None or name in self._files.attributes:
            return super().__getitem__(name)
        read = self._mask if name.endswith("_mask") else self._ids
        return self._handed_out.tensor(self._key, name, partial(read, split))

    def _split_named(self, name: str) -> str | None:
        """The split that a name such as train_mask or train_idx stands for."""
        match = _SPLIT_NAME.fullmatch(name)
        if match is None or name in (self._deleted or ()):
            return None
        split = self.masks().get(name, {"valid": "val"}.get(match[1], match[1]))
        return split if split in self._files.splits else None

    def _mask(self, split: str) -> npt.NDArray[np.bool_]:
        num_nodes = self._files.num_nodes
        _core.require_memory(num_nodes, 1, f"{split}_mask")
        mask = np.zeros(num_nodes, np.bool_)
        mask[self._files.splits[split]] = True
        return mask

    def _ids(self, split: str) -> IdArray:
        return self._files.splits[split].copy()

    @property
    def n_id(self) -> Tensor:
        """The ids of all nodes, (num_nodes,) int64, as ``n_id`` of batches has them."""
        read = partial(np.arange, self._files.num_nodes)
        return self._handed_out.tensor(self._key, "n_id", read)

    def is_in(self, mask: str, nodes: IdArray) -> npt.NDArray[np.bool_]:
        """Whether the mask of a name has some nodes; the mask is kept, a bit a node."""
        if mask not in self._bits:
            self._bits[mask] = np.packbits(self._mask(self.masks()[mask]))
        bits: npt.NDArray[np.bool_] = self._bits[mask][nodes >> 3] >> (7 - (nodes & 7)) & 1 == 1
        return bits


class EdgeFacade(_TypeFacade):
    """The edges of one type, ``ds["author", "writes", "paper"]``, with their attributes.

    ``edge_index`` and the attributes are in the order of the edge list, if the file stores it; else
    by the nodes that have the lists.
    """

    _FEATURES = "edge_attr"
    _files: EdgeStore

    def __init__(self, files: EdgeStore, extras: Extras, handed_out: HandedOut) -> None:
        super().__init__(files.edge_type, extras, handed_out)
        self._files = files

    def keys(self) -> list[str]:
        """Names of the attributes, edge_index included."""
        return ["edge_index", *super().keys()]

    def __getitem__(self, name: str) -> Any:
        """As of all types; edge_index, too."""
        return self.edge_index if name == "edge_index" else super().__getitem__(name)

    @property
    def edge_index(self) -> Tensor:
        """All edges, (2, num_edges) int64: the user's ids, sources above targets."""
        return self._handed_out.tensor(self._key, "edge_index", self._read_edges)

    def _read_edges(self) -> IdArray:
        _require_room("edge_index", self._files.num_edges, 2 * 8, self._files.LOOKUP_BYTES)
        return self._files.all_edges()


class GraphFacade(_Attributes):
    """PyG's names of a whole graph; ``facade["paper"]`` are those of a type.

    A graph without types has the attributes of its nodes and edges as a whole.
    """

    def __init__(self, nodes: Nodes, edges: Edges, extras: Extras, handed_out: HandedOut) -> None:
        super().__init__(None, extras, handed_out)
        self._nodes = {key: NodeFacade(store, extras, handed_out) for key, store in nodes.items()}
        self._edges = {key: EdgeFacade(store, extras, handed_out) for key, store in edges.items()}
        self._types: dict[TypeKey, _TypeFacade] = {
            facade._key: facade for facade in (*self._nodes.values(), *self._edges.values())
        }
        # whose attributes are those of the graph
        self._parts = [] if NODES not in nodes else [*self._types.values()]

    @classmethod
    def of_files(cls, nodes: Nodes, edges: Edges, extras: FeatureStore | None) -> GraphFacade:
        """The facade of the files of a dataset."""
        return cls(nodes, edges, Extras(extras), HandedOut())

    def of_copy(self, nodes: Nodes, edges: Edges) -> GraphFacade:
        """The facade of a copy of the dataset, from which names can be deleted."""
        copied = GraphFacade(nodes, edges, self._extras, self._handed_out)
        copied._deleted = set(self._deleted or ())
        for key, facade in self._types.items():
            copied._types[key]._deleted = set(facade._deleted or ())
        return copied

    @property
    def deleted(self) -> tuple[str, ...]:
        """Names of what was deleted from this copy of a dataset."""
        facades = (self, *self._types.values())
        return tuple(name for facade in facades for name in facade._deleted or ())

    @property
    def unsaved(self) -> dict[TypeKey | None, dict[str, object]]:
        """By type or None, for the whole graph: values by name that no file holds."""
        return self._extras.unsaved

    @property
    def num_nodes(self) -> int:
        """Number of nodes of all types."""
        return sum(facade._files.num_nodes for facade in self._nodes.values())

    def keys(self) -> list[str]:
        """Names of all attributes, also of those that only some types have."""
        names = [name for facade in self._types.values() for name in facade]
        return list(dict.fromkeys([*names, *self.kept()]))

    def _names(self) -> list[str]:
        return self.keys() if self._parts else list(self.kept())

    def shadowed(self) -> list[str]:
        """Attributes whose names mean something else: they are read as items."""
        if self._parts:
            owners = (GraphFacade, Dataset)
            return [name for name in self._names() if any(hasattr(of, name) for of in owners)]
        return [
            name
            for facade in self._types.values()
            for name in facade
            if name != "edge_index"
            and (hasattr(type(facade), name) or hasattr(facade._files, name))
        ]

    def metadata(self) -> tuple[list[str], list[EdgeType]]:
        """Node types and edge types, as ``to_hetero`` takes them."""
        return list(self._nodes), list(self._edges)

    @property
    def num_features(self) -> int | dict[str, int]:
        """Columns of ``x``; with types, by node type."""
        counts = {key: facade.num_features for key, facade in self._nodes.items()}
        return counts[NODES] if self._parts else counts

    num_node_features = num_features

    @property
    def num_edge_features(self) -> int | dict[EdgeType, int]:
        """Columns of ``edge_attr``; with types, by edge type."""
        counts = {key: facade.num_features for key, facade in self._edges.items()}
        return counts[EDGES] if self._parts else counts

    def collect(self, name: str) -> dict[Any, Any]:
        """An attribute of all types that have it, by type.

        Raises
        ------
        KeyError
            If no type has it.
        """
        if name == "num_nodes":
            return {key: facade.num_nodes for key, facade in self._nodes.items()}
        if name == "num_edges":
            return {key: facade.num_edges for key, facade in self._edges.items()}
        values = {key: facade[name] for key, facade in self._types.items() if name in facade}
        if not values:
            raise KeyError(f"no type has an attribute {name!r}")
        return values

    def require_unedited(self, names: Collection[str] | None) -> None:
        """Refuses a pass where something was edited in place that batches do not have so.

        Raises
        ------
        ValueError
            Naming it. `names` are those of attributes that batches have; None for all.
        """
        for key, name in self._handed_out.edited():
            has_rows = name in self._types[key]._files.attributes
            if names is None or name in names or not has_rows:
                raise _edited(key, name)

    def __getitem__(self, key: TypeKey) -> Any:
        """The facade of a type; else an attribute."""
        if isinstance(key, str) and key not in self._types:
            return self._attribute(key)
        return self._types[key]

    def _attribute(self, name: str) -> Any:
        """What belongs to the whole graph; without types, also an attribute of nodes or edges."""
        for facade in self._parts:
            with suppress(KeyError):
                return facade[name]
        kept = self.kept()
        if name not in kept:
            raise KeyError(f"there is no {name!r} here, but {', '.join(self.keys())}")
        return kept[name]

    def __getattr__(self, name: str) -> Any:
        """An attribute of the graph; of those that PyG's ``Data`` always has, None if absent."""
        if name.startswith("_"):
            raise AttributeError(name)
        with suppress(KeyError):
            if not self._parts and name.endswith("_dict"):
                return self.collect(name.removesuffix("_dict"))
            return self._attribute(name)
        if not self._parts:
            raise _missing(name, [f"ds[{key!r}]" for key in self._types])
        if name == "n_id":
            return self._nodes[NODES].n_id
        if name in OF_DATA | {"x", "y"}:
            return None
        raise _missing(name, self.keys())

    def __delattr__(self, name: str) -> None:
        """Deletes an attribute from a copy: without types, also one of the nodes or the edges."""
        for facade in self._parts:
            if name in facade:
                delattr(facade, name)
                return
        super().__delattr__(name)
