"""`StoredData`: a dataset that answers to the names that PyG's graphs have in a script."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.storage import EdgeStorage, NodeStorage

from graphzero import _core
from graphzero.graph.dataset import Dataset, EdgeStore, NodeStore
from graphzero.loader.mini_batch import OF_DATA, as_tensor
from graphzero.store.manifest import EDGES, NODES

_SEED_EDGES = re.compile(r"(\w+_)?edge_(index|label|label_index|label_time)")


def is_seed_edges(name: str) -> bool:
    """Whether a name is that of seed edges of LinkNeighborLoader or their labels.

    Such attributes are not stored, even where there are as many of them as of edges.
    """
    return _SEED_EDGES.fullmatch(name) is not None


class Watched:
    """Tensors that were handed out, without their memory, to find out which of them were edited."""

    def __init__(self) -> None:
        self._handed_out: list[tuple[str, Tensor, int, Any]] = []

    def watch(self, name: str, tensor: Tensor, *, is_own: bool = True) -> Tensor:
        """The tensor itself, which is watched from now on; `is_own`: nobody else has it yet."""
        counter = tensor
        if is_own:  # an empty tensor that has the same counter of edits, as a view would
            counter = tensor.detach().set_(torch.empty(0, dtype=tensor.dtype))  # type: ignore[call-overload]
        memory: Any = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        # Nobody can edit what is freed any more.
        kept = [one for one in self._handed_out if _is_edited(one) or not one[3].expired()]
        self._handed_out = [*kept, (name, counter, counter._version, memory)]
        return tensor

    def edited(self) -> list[str]:
        """Names of what was edited in place since it was handed out."""
        return [one[0] for one in self._handed_out if _is_edited(one)]

    def __reduce__(self) -> tuple[type[Watched], tuple[()]]:
        for name in self.edited():
            raise _edited(f"data.{name}")
        return Watched, ()


def _is_edited(handed_out: tuple[str, Tensor, int, Any]) -> bool:
    _, counter, version, _ = handed_out
    return counter._version != version


def _edited(whose: str) -> ValueError:
    return ValueError(
        f"{whose} was edited in place, but the graph is stored, and batches and splits would not "
        f"have the edit: edit the graph before from_data, or batches in transform= of the loader. "
        f"For other uses edit a copy, {whose}.clone(), such as a mask for input_nodes="
    )


@dataclass
class InMemory:
    """What of the nodes or edges of one type is not in files.

    Attributes
    ----------
    masks : dict
        Masks and ids of splits by the names that they were given.
    kept : dict
        What has no row for each node or edge, as it was given.
    watched : Watched
        What was read of the files, and the masks.
    """

    masks: dict[str, Tensor] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)
    watched: Watched = field(default_factory=Watched)


def _refuse_setting(name: str, where: str) -> None:
    raise AttributeError(
        f"{where}.{name} cannot be set: the graph is stored, and batches would not have it. Set it "
        f"before from_data, or in transform= of a loader"
    )


def _missing(name: str, names: list[str], of: type, what: str) -> AttributeError:
    """The error for a name that a stored graph lacks; `of` is the class that it stands for."""
    if callable(getattr(of, name, None)):
        return AttributeError(
            f"{what} has no {name}(), which PyG has for graphs in memory: call it before "
            f"from_data, or on a batch"
        )
    return AttributeError(f"{what} has no {name!r}; it has {', '.join(names)}")


class StoredPart:
    """The nodes of one type, or the edges of one: ``data["paper"]``.

    It has what ``data["paper"]`` of the graph had in memory, such as masks. What is stored is read
    from disk when it is asked for, whole and in the user's order. Everything else is what
    `graphzero.open` has of that name, such as ``splits``.

    Attributes
    ----------
    part : NodeStore or EdgeStore
        Of `graphzero.open`.
    memory : InMemory
        What is not in files.
    """

    part: NodeStore | EdgeStore
    memory: InMemory

    def __init__(self, part: NodeStore | EdgeStore, memory: InMemory) -> None:
        vars(self).update(part=part, memory=memory)

    @property
    def num_features(self) -> int:
        """Columns of ``x`` of nodes, of ``edge_attr`` of edges; 0 without features."""
        name = "x" if isinstance(self.part, NodeStore) else "edge_attr"
        shape = self.part[name].shape if name in self.part else (0, 0)
        return 1 if len(shape) == 1 else int(shape[-1])

    num_node_features = num_edge_features = num_features

    @property
    def edge_index(self) -> Tensor:
        """All edges, (2, num_edges) int64, in the order that they were given; read from disk."""
        if not isinstance(self.part, EdgeStore):
            raise AttributeError(f"{self.part!r} has no edge_index: it has nodes")
        if not self.part.graph.has_edge_ids:
            raise AttributeError("edge_index needs the places of edges: from_data(edge_ids=True)")
        _core.require_memory(self.part.num_edges, 8 * 8, "edge_index")
        return self._watched("edge_index", self.part.edge_index())

    def keys(self) -> list[str]:
        """Names of what was given, apart from the number of nodes."""
        edges = ["edge_index"] if isinstance(self.part, EdgeStore) else []
        return [*edges, *self.part, *self.memory.masks, *self.memory.kept]

    def __getitem__(self, name: str) -> Any:
        """As attributes are."""
        try:
            return getattr(self, name)
        except AttributeError as error:
            raise KeyError(name) from error

    def __contains__(self, name: str) -> bool:
        """Whether `keys` has the name."""
        return name in self.keys()

    def __getattr__(self, name: str) -> Any:
        """What is in memory, then what is stored."""
        if name.startswith("_") or "part" not in vars(self):
            raise AttributeError(name)
        for values in (self.memory.masks, self.memory.kept):
            if name in values:
                return values[name]
        if name in self.part:
            return self._whole(name)
        if hasattr(type(self.part), name) or name in vars(self.part):
            return getattr(self.part, name)
        of = NodeStorage if isinstance(self.part, NodeStore) else EdgeStorage
        raise _missing(name, self.keys(), of, repr(self.part))

    def _whole(self, name: str) -> Tensor:
        """All rows of an attribute, in the order in which they were given."""
        store, part = self.part[name], self.part
        row_bytes = store.dtype.itemsize * int(np.prod(store.shape[1:]))
        if isinstance(part, EdgeStore):
            if not part.graph.has_edge_ids:
                raise AttributeError(f"{name} needs the places of edges: from_data(edge_ids=True)")
            _core.require_memory(2 * store.shape[0], max(8, row_bytes), name)
            positions: Any = part.graph._csr.edge_ids(np.arange(part.graph.num_edges), 1)
            rows = store.get_tensor()[np.argsort(positions, kind="stable")]
        else:
            try:
                _core.require_memory(store.num_nodes, row_bytes, name)
            except MemoryError as error:
                raise MemoryError(
                    f"data.{name} reads all of {name} from disk ({error}): a batch of a loader has "
                    f"the rows of its nodes, and data.num_features the number of columns"
                ) from None
            rows = store.gather_stored(part.to_stored(np.arange(part.num_nodes)), None, 1)
        return self._watched(name, rows)

    def _watched(self, name: str, rows: npt.NDArray[Any]) -> Tensor:
        with torch.inference_mode(False):  # whose tensors do not count edits
            tensor = as_tensor(rows)
            return self.memory.watched.watch(name, tensor)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses attributes, which the files and batches would not have."""
        _refuse_setting(name, "data[type]")

    __setitem__ = __setattr__

    def __repr__(self) -> str:
        memory = [*self.memory.masks, *self.memory.kept]
        return f"StoredPart({self.part!r}, also in memory: {memory})"


class StoredData(Dataset):
    """A `graphzero.Dataset` with the attributes that scripts read of the graph it was built of.

    It comes from `from_data`. What belongs to a whole graph is what ``data`` had, in memory:
    ``data.train_mask`` and other masks and ids of splits, ``edge_label_index``, numbers and texts.
    What is stored is read from disk when it is asked for: ``data.y``, ``data.edge_index`` and
    other attributes, whole. A dataset that `graphzero.open` has opened has only what is stored, by
    graphzero's names: ``input_nodes="train"``.

    With types, ``data["paper"]`` and ``data["author", "writes", "paper"]`` are `StoredPart`, and
    ``data.x_dict`` has an attribute of all types that have it, whole.
    """

    _memory: dict[Any, InMemory]
    _kept: dict[str, Any]

    @classmethod
    def of(cls, dataset: Dataset, memory: dict[Any, InMemory], kept: dict[str, Any]) -> StoredData:
        """The dataset, with what of the graph is not in its files."""
        dataset.__class__ = cls
        assert isinstance(dataset, StoredData)
        dataset._memory, dataset._kept = memory, kept
        return dataset

    @property
    def parts(self) -> Mapping[Any, StoredPart]:
        """The nodes and edges of each type."""
        stores: dict[Any, Any] = {**self.nodes, **self.edges}
        return {key: StoredPart(store, self._memory[key]) for key, store in stores.items()}

    @property
    def kept(self) -> dict[str, Any]:
        """What belongs to the whole graph, and to every batch."""
        return self._kept

    def __getitem__(self, key: Any) -> Any:
        """The nodes of a type, or the edges of one, also by (source type, target type).

        Without types, the attribute of a name.
        """
        if not self.is_typed:
            try:
                return getattr(self, key)
            except AttributeError as error:
                raise KeyError(key) from error
        part = super().__getitem__(key)
        name = part.node_type if isinstance(part, NodeStore) else part.edge_type
        return StoredPart(part, self._memory[name])

    def metadata(self) -> tuple[list[str], list[tuple[str, str, str]]]:
        """Node types and edge types, as ``to_hetero`` takes them."""
        return self.node_types, self.edge_types

    @property
    def num_features(self) -> Any:
        """Columns of ``x``; with types, by node type."""
        parts = self.parts
        if self.is_typed:
            return {kind: parts[kind].num_features for kind in self.node_types}
        return parts[NODES].num_features

    num_node_features = num_features

    @property
    def num_edge_features(self) -> Any:
        """Columns of ``edge_attr``; with types, by edge type."""
        parts = self.parts
        if self.is_typed:
            return {kind: parts[kind].num_features for kind in self.edge_types}
        return parts[EDGES].num_features

    def keys(self) -> list[str]:
        """Names of what was given, apart from the number of nodes."""
        names: list[str] = []
        if not self.is_typed:
            of_nodes, of_edges = self.parts.values()
            names = ["edge_index", *of_nodes.part, *of_edges.part, *of_nodes.memory.masks]
        return [*names, *self._kept]

    def __contains__(self, name: str) -> bool:
        """Whether `keys` has the name."""
        return name in self.keys()

    def require_unedited(self, names: Collection[str] | None) -> None:
        """Refuses a pass where something was edited in place that batches do not have so.

        Raises
        ------
        ValueError
            Naming it. `names` are those of attributes that batches have; None for all.
        """
        for key, part in self.parts.items():
            for name in part.memory.watched.edited():
                if names is None or name in names or name not in part.part:
                    raise _edited(f"data[{key!r}].{name}" if self.is_typed else f"data.{name}")

    def collect(self, name: str) -> dict[Any, Any]:
        """An attribute of all types that have it, by type.

        Raises
        ------
        KeyError
            If no type has it.
        """
        if name in ("num_nodes", "num_edges"):
            stores: Any = self.nodes if name == "num_nodes" else self.edges
            return {key: getattr(store, name) for key, store in stores.items()}
        found = {key: part[name] for key, part in self.parts.items() if name in part}
        if not found:
            raise KeyError(f"no type has an attribute {name!r}")
        return found

    def __getattr__(self, name: str) -> Any:
        """What belongs to the graph; then, without types, what is stored, or None as in ``Data``.

        With types, ``x_dict`` is ``collect("x")``, and so on.
        """
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._kept:
            return self._kept[name]
        if self.is_typed:
            if name.endswith("_dict"):
                try:
                    return self.collect(name.removesuffix("_dict"))
                except KeyError as error:
                    raise AttributeError(error.args[0]) from None
            if callable(getattr(HeteroData, name, None)):
                raise _missing(name, [], HeteroData, "the stored graph")
            return super().__getattr__(name)
        for part in self.parts.values():
            if name in part:
                return getattr(part, name)
        if name in OF_DATA:
            return None
        raise _missing(name, self.keys(), Data, "the stored graph")

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuses attributes, which the files and batches would not have."""
        if not name.startswith("_"):
            _refuse_setting(name, "data")
        super().__setattr__(name, value)


StoredHeteroData = StoredData
