"""Mini-batches: `SampledBatch` of arrays, `MiniBatch` of tensors, and `Collate` in between."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info
from typing_extensions import Self

from graphzero.graph.dataset import OF_DATA, Dataset
from graphzero.graph.user_input import Values
from graphzero.io.row_io import RowKey
from graphzero.loader.host_blocks import HostBlock, RowPlaces
from graphzero.loader.shared_blocks import WORKER_BLOCKS, SharedBlocks, shared_memory_of
from graphzero.loader.stats import BatchStats
from graphzero.sampling.sampler import Subgraph, TypedSubgraph
from graphzero.store.format import BFLOAT16
from graphzero.store.manifest import NODES, EdgeType
from graphzero.units import html_table

Kind = str | EdgeType  # a node type or an edge type


def as_tensor(rows: Values) -> Tensor:
    """A tensor over the memory of gathered rows, torch.bfloat16 where they hold its bits."""
    is_bfloat = rows.dtype == BFLOAT16
    tensor = torch.from_numpy(rows.view(np.int16) if is_bfloat else rows)
    if (shared := shared_memory_of(rows)) is not None:
        tensor = shared.tensor(tensor)
    return tensor.view(torch.bfloat16) if is_bfloat else tensor


@dataclass(frozen=True)
class SampledBatch:
    """A sampled subgraph and its rows, in NumPy arrays.

    Attributes
    ----------
    by_type : TypedSubgraph
        The sampled subgraph, by node type and edge type also without types.
    input_id : (num_seeds,) int64
        Positions of the seeds in the seed array, or of the seed edges in theirs.
    stats : BatchStats
    rows : dict of str to array
        Rows of its nodes and edges, by the names of attributes; in a typed graph by type and name.
    fields : dict of (type, str) to array
        Further fields of the `MiniBatch`: about seed edges, times of seeds.
    input_type : str or tuple
        The node type or edge type of the seeds.
    block : HostBlock or None
        The memory of most of its arrays, for a device or because it is page-locked.
    batch_size : int, optional
        Seeds with those that were added; default: as many as there are.
    splits : dict of str to RowPlaces
        Of attributes whose first rows are on the device: `rows` has only the others.
    """

    by_type: TypedSubgraph
    input_id: Values
    stats: BatchStats = field(default_factory=BatchStats)
    rows: dict[RowKey, Values] = field(default_factory=dict)
    fields: dict[RowKey, Values] = field(default_factory=dict)
    input_type: Kind = NODES
    block: HostBlock | None = None
    batch_size: int | None = None
    splits: dict[RowKey, RowPlaces] = field(default_factory=dict)

    @property
    def subgraph(self) -> Subgraph | TypedSubgraph:
        """The sampled subgraph, without types where the graph has none."""
        return self.by_type.untyped() if NODES in self.by_type.n_id else self.by_type

    @property
    def num_bytes(self) -> int:
        """Size of all arrays."""
        return sum(array.nbytes for array in [*self.rows.values(), *self.arrays_without_rows])

    @property
    def arrays_without_rows(self) -> list[Values]:
        """All arrays but the rows."""
        values = [*self.fields.values(), self.input_id]
        for value in vars(self.by_type).values():
            values += value.values() if isinstance(value, dict) else [value]
        for split in self.splits.values():
            values += [split.missing_at, split.resident_at, split.resident_ids]
        return [array for array in values if isinstance(array, np.ndarray)]

    if not TYPE_CHECKING:  # for which a class with __getattr__ has every attribute

        def __getattr__(self, name: str) -> Any:
            """Says how to get a `MiniBatch`, whose attributes a training loop wants."""
            raise AttributeError(
                f"a SampledBatch of NumPy arrays has no {name!r}: pass collate_fn=gz.Collate(ds) "
                f"to the DataLoader, or call gz.Collate(ds) with it, for a MiniBatch of tensors"
            )


class _Batch:
    """What mini-batches with and without types have in common: their tensors move together."""

    def _holders(self) -> Mapping[Kind, Any]:
        """The objects whose attributes the tensors are, by type."""
        return {"": self}

    def _apply(self, function: Callable[[Tensor], Tensor], *names: str) -> Self:
        for holder in self._holders().values():
            for name, value in vars(holder).items():
                if not names or name in names:
                    setattr(holder, name, apply_to_tensors(function, value))
        return self

    def to(
        self, device: torch.device | str | int | None, *names: str, non_blocking: bool = False
    ) -> Self:
        """Moves all tensors, or those of some names, to a device, and returns the batch."""
        return self._apply(lambda tensor: tensor.to(device, non_blocking=non_blocking), *names)

    def cpu(self, *names: str) -> Self:
        """Moves all tensors, or some, to the processor's memory, and returns the batch."""
        return self.to("cpu", *names)

    def cuda(
        self,
        device: torch.device | str | int | None = None,
        *names: str,
        non_blocking: bool = False,
    ) -> Self:
        """Moves all tensors, or some, to a GPU (default: the current), and returns the batch."""
        return self.to("cuda" if device is None else device, *names, non_blocking=non_blocking)

    def pin_memory(self, device: object = None) -> Self:
        """Moves all tensors to page-locked memory, and returns the batch.

        The DataLoader calls this for pin_memory=True.
        """
        return self._apply(lambda tensor: tensor.pin_memory())

    def _place_in(self, blocks: SharedBlocks) -> None:
        """Moves the tensors of a batch that was just made."""
        values = [value for holder in self._holders().values() for value in vars(holder).values()]
        placed = iter(blocks.placed([value for value in values if isinstance(value, Tensor)]))
        self._apply(lambda _: next(placed))

    def share_memory_(self) -> Self:
        """Moves all tensors to shared memory."""
        return self._apply(lambda tensor: tensor.share_memory_())  # type: ignore[no-untyped-call]

    def clone(self) -> Self:
        """A copy of the batch with copies of its tensors."""
        return copy.copy(self)._apply(torch.clone)

    def _repr_html_(self) -> str:
        """A row for each attribute, for notebooks; of a tensor its shape and dtype."""
        rows = [
            [key if isinstance(key, str) else ", ".join(key), name, *_shown(value)]
            for key, store in self._holders().items()
            for name, value in store.to_dict().items()
        ]
        return f"{type(self).__name__}\n" + html_table(
            rows, ["type", "attribute", "shape or value", "dtype"]
        )


def _shown(value: object) -> tuple[object, str]:
    """Of a tensor its shape and dtype; else how the value begins."""
    if isinstance(value, Tensor):
        return [*value.shape], str(value.dtype).removeprefix("torch.")
    return f"{value!s:.200}", ""


def apply_to_tensors(function: Callable[[Tensor], Tensor], value: Any) -> Any:
    """A tensor's result, also in mini-batches, graphs of PyG, lists, tuples and dictionaries.

    Mini-batches are those that were given, with other tensors; graphs are copies. Other values are
    as they are.
    """
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, _Batch):
        return value._apply(function)
    if isinstance(value, Mapping):
        return {name: apply_to_tensors(function, item) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(apply_to_tensors(function, item) for item in value)
    if isinstance(value, tuple):  # with names
        return type(value)(*(apply_to_tensors(function, item) for item in value))
    if is_of_pyg(value, "torch_geometric.data."):
        return copy.copy(value).apply(partial(apply_to_tensors, function))  # of any value
    return value


def is_of_pyg(value: object, package: str = "torch_geometric.") -> bool:
    """Whether it is an object of PyG's, or of a class derived from one."""
    return any(base.__module__.startswith(package) for base in type(value).__mro__)


def tensors_of(value: Any) -> list[Tensor]:
    """The tensors that `apply_to_tensors` finds, in their order."""
    tensors: list[Tensor] = []

    def take(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    apply_to_tensors(take, value)
    return tensors


def _hint(name: str, of: str) -> str:
    """What to do where PyG's graphs have a name, and batches do not: a transform looks for it."""
    graph = getattr(sys.modules.get("torch_geometric.data"), of, None)
    store = getattr(sys.modules.get("torch_geometric.data.storage"), "GlobalStorage", None)
    if name.startswith("__") or not (hasattr(graph, name) or hasattr(store, name)):
        return ""
    return (
        f"; PyG's {of} has it, such as for transforms: use batch.to_pyg(), or the loaders of "
        f"graphzero.pyg, whose batches are {of}"
    )


class AttributeStore:
    """The attributes of the nodes or edges of one type: ``store.x`` and ``store["x"]``.

    Attributes can be set, new ones too. What PyG's stores always have is None where it is absent.
    """

    node_mask: Tensor  # made when it is asked for, of nodes

    _none_if_absent = OF_DATA | {"x", "y", "e_id", "num_sampled_edges", "batch"}

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    if not TYPE_CHECKING:  # for which a class with __getattr__ has every attribute

        def __getattr__(self, name: str) -> Any:
            """None for what is absent, of the attributes that PyG's stores always have."""
            if name in self._none_if_absent:
                return None
            if name == "node_mask" and "n_id" in vars(self):
                return _node_mask(self.n_id, self.num_sampled_nodes, vars(self).get("real_nodes"))
            raise AttributeError(
                f"there is no {name!r} here, but {', '.join(self.keys())}{_hint(name, 'Data')}"
            )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("n_id", "num_nodes") and (ids := vars(self).get("n_id")) is not None:
            if (value if name == "num_nodes" else len(value)) != len(ids):
                raise AttributeError(
                    f"{name} cannot be set so: a batch has {len(ids)} nodes, each with its entry "
                    f"of n_id. Give the attribute another name, or change batch.to_pyg()"
                )
            if name == "num_nodes":
                return
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name == "n_id":
            raise AttributeError("n_id cannot be deleted: it counts the nodes of a batch")
        if name not in self:
            raise AttributeError(f"there is no {name!r} here, but {', '.join(self.keys())}")
        super().__delattr__(name)

    def __delitem__(self, name: str) -> None:
        self.__getitem__(name)  # or a KeyError
        delattr(self, name)

    def keys(self) -> list[str]:
        """Names of the attributes that are there, those that were set included.

        What is None is left out, and so is `stats`, which is not of the graph.
        """
        return [name for name, value in vars(self).items() if name != "stats" and value is not None]

    def to_dict(self) -> dict[str, Any]:
        """The attributes that `keys` names, not copied."""
        return {name: vars(self)[name] for name in self.keys()}

    def __contains__(self, name: str) -> bool:
        return name in self.keys()

    def __getitem__(self, name: str) -> Any:
        value = vars(self).get(name)
        if value is None:
            raise KeyError(f"there is no {name!r} here, but {', '.join(self.keys())}")
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    @property
    def num_features(self) -> int:
        """Columns of `x`; 0 without features."""
        x = vars(self).get("x")
        if x is None:
            return 0
        return 1 if x.dim() == 1 else int(x.shape[-1])

    def values(self) -> list[Any]:
        """The attributes that are there."""
        return list(self.to_dict().values())

    def items(self) -> list[tuple[str, Any]]:
        """Names and values of the attributes that are there."""
        return list(self.to_dict().items())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    @property
    def num_nodes(self) -> Any:
        """Nodes in the batch; None for edges of a type."""
        return len(self["n_id"]) if "n_id" in vars(self) else None

    @property
    def num_edges(self) -> Any:
        """Edges in the batch; None for nodes of a type."""
        return self["edge_index"].shape[1] if "edge_index" in vars(self) else None

    num_node_features = num_features

    def __repr__(self) -> str:
        shown = {
            name: list(value.shape) if isinstance(value, Tensor) else value
            for name, value in self.items()
        }
        return "{ " + ", ".join(f"{name}={value}" for name, value in shown.items()) + " }"


def _node_mask(n_id: Tensor, sizes: list[int], real: list[int] | None) -> Tensor:
    """Which nodes are real; all, unless hops are filled up."""
    mask = torch.ones_like(n_id, dtype=torch.bool)
    begin = 0
    for size, count in zip(sizes, real or sizes, strict=True):
        mask[begin + count : begin + size] = False
        begin += size
    return mask


class MiniBatch(AttributeStore, _Batch):
    """A sampled subgraph with its features and labels.

    It follows the contract of PyG's NeighborLoader, or of its LinkNeighborLoader where the seeds
    are edges. In a training loop it behaves as a ``torch_geometric.data.Data``: attributes can be
    set, new ones too; ``batch["x"]`` is ``batch.x``; `to`, `cpu`, `cuda` and `pin_memory` change
    the batch itself, and return it.

    Attributes
    ----------
    n_id : (num_nodes,) int64
        The user's ids of the nodes, the seeds first.
    edge_index : (2, num_edges) int64
        Local ids: row 0 the source (the sampled neighbour), row 1 the target. This is the direction
        of the edge list, unless the dataset was built with ``neighbors="out"``.
    e_id : (num_edges,) int64 or None
        Positions in the user's edge list, if the file has them.
    batch_size : int
        Number of seeds. They are the first batch_size nodes, those to make predictions for. With
        seed edges it is the number of these, and num_sampled_nodes[0] that of the seed nodes.
    input_id : (batch_size,) int64
        Positions of the seeds in the seed array, or of the seed edges in theirs.
    num_sampled_nodes : list of int
        Seeds, then new nodes per hop.
    num_sampled_edges : list of int or None
        Edges per hop; None for an induced subgraph, whose edges belong to no hop.
    real_nodes, real_edges : list of int
        With `pad`: the same without added nodes and edges, which follow the real ones of each hop.
        A mini-batch that is larger than all sizes does not have them.
    node_mask : (num_nodes,) bool
        Which nodes are real; made when it is asked for.
    x : (num_nodes, dim) or None
        Features of the nodes.
    y : (num_nodes,) or None
        Labels of the nodes.
    stats : BatchStats
    batch : (num_nodes,) int64 or None
        For disjoint trees: the seed, 0 to batch_size - 1, to whose tree each node belongs.
    seed_time : (batch_size,) int64 or None
        The times of the seeds, where they have any.
    edge_label_index : (2, num_labels) int64 or None
        Seed edges, then binary negatives: local ids of sources and destinations.
    edge_label : (num_labels, ...) or None
        Labels of these, 0 for negatives.
    edge_label_time : (num_labels,) int64 or None
        Times of these, where seed edges have any.
    src_index, dst_pos_index : (batch_size,) int64 or None
        Triplets: local ids of both ends of each seed edge.
    dst_neg_index : (batch_size,) or (batch_size, amount) int64 or None
        Triplets: local ids of the negative destinations of each source.
    """

    n_id: Tensor
    edge_index: Tensor
    e_id: Tensor | None
    batch_size: int
    input_id: Tensor
    num_sampled_nodes: list[int]
    num_sampled_edges: list[int] | None
    x: Tensor | None
    y: Tensor | None
    stats: BatchStats
    batch: Tensor | None

    _none_if_absent = AttributeStore._none_if_absent | {
        *("seed_time", "edge_label_index", "edge_label", "edge_label_time"),
        *("src_index", "dst_pos_index", "dst_neg_index"),
    }

    @property
    def num_edges(self) -> int:
        """Edges in the batch."""
        return self.edge_index.shape[1] if "edge_index" in self else 0

    def __iter__(self) -> Iterator[Any]:
        """Names and values of the attributes that `keys` names."""
        return iter(self.to_dict().items())

    def __repr__(self) -> str:
        """Shapes of the tensors, as PyG shows them, and the counts."""
        shapes = [f"{name}={list(v.shape)}" for name, v in vars(self).items() if torch.is_tensor(v)]
        names = ("batch_size", "num_sampled_nodes", "num_sampled_edges")
        counts = [f"{name}={getattr(self, name)}" for name in names]
        return f"MiniBatch({', '.join([*shapes, *counts])})"

    def to_pyg(self) -> Any:
        """The same batch as a ``torch_geometric.data.Data``.

        It has the attributes that NeighborLoader or LinkNeighborLoader would give it, and those
        that were set, all without copies.

        Raises
        ------
        ImportError
            If torch_geometric is not installed.
        """
        from graphzero.pyg.data import make_data  # torch_geometric is optional

        return make_data(self.num_nodes, self.to_dict())


class TypedMiniBatch(_Batch):
    """A sampled subgraph of a typed graph with its attributes.

    It follows the contract of a ``HeteroData`` from PyG's NeighborLoader, and behaves as one in a
    training loop: ``batch["paper"].x``, ``batch["author", "writes", "paper"].edge_index``,
    ``batch.x_dict``; attributes can be set; `to`, `cpu`, `cuda` and `pin_memory` change the batch
    itself, and return it. It has every node type and edge type of the graph, empty where none was
    reached.

    Node types have ``n_id`` (the user's ids, the seeds first), ``num_sampled_nodes``, and the
    attributes of the dataset; that of the seeds also ``batch_size``, ``input_id`` and, where seeds
    have times, ``seed_time``; with disjoint trees, ``batch``. Edge types have ``edge_index``
    (2, num_edges) of local ids, sources above targets, ``e_id``, ``num_sampled_edges``, and the
    attributes of the dataset.

    Parameters
    ----------
    stores : dict of str or (str, str, str) to AttributeStore
        Those of the node types, then of the edge types.
    input_type : str or (str, str, str)
        The type of the seeds.
    stats : BatchStats
    """

    def __init__(
        self, stores: dict[Kind, AttributeStore], input_type: Kind, stats: BatchStats
    ) -> None:
        self._stores = stores
        self.input_type = input_type
        self.stats = stats

    @property
    def node_types(self) -> list[str]:
        """Names of the node types."""
        return [kind for kind in self._stores if isinstance(kind, str)]

    @property
    def edge_types(self) -> list[EdgeType]:
        """(source type, relation, target type) of the edge types."""
        return [kind for kind in self._stores if not isinstance(kind, str)]

    @property
    def node_stores(self) -> list[AttributeStore]:
        """What the batch has of each node type, as in PyG."""
        return [self[kind] for kind in self.node_types]

    @property
    def edge_stores(self) -> list[AttributeStore]:
        """What the batch has of each edge type, as in PyG."""
        return [self[kind] for kind in self.edge_types]

    def metadata(self) -> tuple[list[str], list[EdgeType]]:
        """Node types and edge types, as ``to_hetero`` takes them."""
        return self.node_types, self.edge_types

    @property
    def batch_size(self) -> int:
        """Number of seeds."""
        size: int = self[self.input_type]["batch_size"]
        return size

    @property
    def input_id(self) -> Tensor:
        """(batch_size,) int64, positions of the seeds in the seed array."""
        ids: Tensor = self[self.input_type]["input_id"]
        return ids

    @property
    def num_nodes(self) -> int:
        """Nodes of all types in the batch."""
        return sum(store.num_nodes or 0 for store in self._stores.values())

    @property
    def num_edges(self) -> int:
        """Edges of all types in the batch."""
        return sum(store.num_edges or 0 for store in self._stores.values())

    def collect(self, name: str) -> dict[Kind, Any]:
        """An attribute of all types that have it, by type.

        Raises
        ------
        KeyError
            If no type has it.
        """
        values = {key: store[name] for key, store in self._stores.items() if name in store}
        if not values:
            raise KeyError(f"no type has an attribute {name!r}")
        return values

    def __getattr__(self, name: str) -> Any:
        """``x_dict`` is ``collect("x")``, and so on."""
        if name.endswith("_dict") and "_stores" in vars(self):
            try:
                return self.collect(name.removesuffix("_dict"))
            except KeyError as error:
                raise AttributeError(error.args[0]) from None
        raise AttributeError(
            f"a batch of a typed graph has no {name!r}: use batch[type].{name}, or "
            f"batch.{name}_dict for all types{_hint(name, 'HeteroData')}"
        )

    def __getitem__(self, key: Any) -> AttributeStore:
        """The nodes or edges of a type; edges also by (source type, target type)."""
        if isinstance(key, str):
            if key in self._stores:
                return self._stores[key]
            raise KeyError(f"no node type {key!r}; there are {self.node_types}")
        ends = tuple(key)
        edge_types = [kind for kind in self.edge_types if ends in (kind, (kind[0], kind[2]))]
        if len(edge_types) != 1:
            many = "several edge types" if edge_types else "no edge type"
            raise KeyError(f"{many} {ends!r}; there are {self.edge_types}")
        return self._stores[edge_types[0]]

    def __contains__(self, key: object) -> bool:
        """Whether there is such a node type or edge type."""
        return key in self._stores

    def keys(self) -> list[str]:
        """Names of the attributes that some type has."""
        return list(dict.fromkeys(name for store in self._stores.values() for name in store))

    def to_dict(self) -> dict[Kind, dict[str, Any]]:
        """The attributes of all types, not copied."""
        return {key: store.to_dict() for key, store in self._stores.items()}

    def _holders(self) -> Mapping[Kind, Any]:
        return self._stores

    def clone(self) -> TypedMiniBatch:
        """A copy of the batch with copies of its tensors."""
        copied = copy.copy(self)
        copied._stores = {key: copy.copy(store) for key, store in self._stores.items()}
        return copied._apply(torch.clone)

    def to_pyg(self) -> Any:
        """The same batch as a ``torch_geometric.data.HeteroData``, without copies.

        Raises
        ------
        ImportError
            If torch_geometric is not installed.
        """
        from graphzero.pyg.data import make_hetero_data  # torch_geometric is optional

        counts = {name: self._stores[name].num_nodes for name in self.node_types}
        return make_hetero_data(counts, self.to_dict())

    def __repr__(self) -> str:
        lines = [f"  {key!r}: {store!r}," for key, store in self._stores.items()]
        return "\n".join(["TypedMiniBatch(", *lines, ")"])


AnyBatch = MiniBatch | TypedMiniBatch


class Collate:
    """Collate function: turns a `SampledBatch` into a `MiniBatch` of tensors.

    The DataLoader calls it in the process that prepared the batch. The tensors of a worker are in
    shared memory: torch would move them there in a thread that loses the batch if none is left.
    Small ones have one storage together.

    Parameters
    ----------
    dataset : Dataset
        The dataset that is sampled.
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def __call__(self, sampled: SampledBatch) -> AnyBatch:
        """The mini-batch of one item of the dataset.

        Raises
        ------
        OSError
            With ``errno.ENOSPC``, if it does not fit in the shared memory of DataLoader workers.
        """
        if not isinstance(sampled, SampledBatch):
            raise TypeError(
                "Collate takes the items of a NeighborDataset or LinkNeighborDataset: "
                "pass batch_size=None to the DataLoader"
            )
        batch = _batch(sampled, is_typed=self.dataset.is_typed)
        if get_worker_info() is not None:
            batch._place_in(WORKER_BLOCKS)
        return batch


def _batch(sampled: SampledBatch, *, is_typed: bool) -> AnyBatch:
    subgraph = sampled.by_type
    batch = MiniBatch(stats=sampled.stats)
    stores: dict[Kind, AttributeStore] = {
        kind: AttributeStore() if is_typed else batch
        for kinds in (subgraph.n_id, subgraph.edge_index)
        for kind in kinds
    }
    attributes = {kind: vars(store) for kind, store in stores.items()}
    for name in ("n_id", "edge_index", "e_id", "num_sampled_nodes", "num_sampled_edges", "batch"):
        for kind, value in (getattr(subgraph, name) or {}).items():
            is_array = isinstance(value, np.ndarray)
            attributes[kind][name] = as_tensor(value) if is_array else value
    of_seeds = attributes[sampled.input_type]
    for kind, hops in subgraph.padded.items():
        name = "real_nodes" if kind in subgraph.n_id else "real_edges"
        attributes[kind][name] = hops.real
    added_to = sampled.batch_size
    of_seeds["batch_size"] = len(sampled.input_id) if added_to is None else added_to
    of_seeds["input_id"] = torch.from_numpy(sampled.input_id)
    for rows in (sampled.rows, sampled.fields):
        for key, array in rows.items():
            kind, name = (NODES, key) if isinstance(key, str) else key
            attributes[kind][name] = as_tensor(array)
    return TypedMiniBatch(stores, sampled.input_type, sampled.stats) if is_typed else batch


def give_stats(batch: object, stats: BatchStats) -> None:
    """What a mini-batch cost, in place of what it has; not where its graph has such a name."""
    attributes = vars(batch)  # PyG's types would make it an attribute of the graph
    if "stats" in attributes:
        attributes["stats"] = stats
