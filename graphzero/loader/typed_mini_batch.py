"""`TypedMiniBatch`: what a training loop gets of a typed graph."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor

from graphzero.loader.batch_stats import BatchStats
from graphzero.loader.mini_batch import OF_DATA, applied
from graphzero.store.schema import EdgeType

__all__ = ["AttributeStore", "TypedMiniBatch"]

Key: TypeAlias = Any  # a node type, or an edge type


class AttributeStore:
    """The attributes of the nodes or edges of one type: ``store.x`` and ``store["x"]``.

    Attributes can be set, new ones too. What PyG's stores always have is None where it is absent.
    """

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __getattr__(self, name: str) -> Any:
        """None for what the store lacks, of the attributes that PyG's stores always have."""
        if name in OF_DATA or name in ("x", "y"):
            return None
        raise AttributeError(f"there is no {name!r} here, but {', '.join(self.keys())}")

    def keys(self) -> list[str]:
        """Names of the attributes that are there."""
        return [name for name, value in vars(self).items() if value is not None]

    def values(self) -> list[Any]:
        """The attributes that are there."""
        return [value for value in vars(self).values() if value is not None]

    def items(self) -> list[tuple[str, Any]]:
        """Names and values of the attributes that are there."""
        return list(self.to_dict().items())

    def to_dict(self) -> dict[str, Any]:
        """The attributes that are there, not copied."""
        return {name: value for name, value in vars(self).items() if value is not None}

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __contains__(self, name: str) -> bool:
        return name in self.keys()

    def __getitem__(self, name: str) -> Any:
        value = vars(self).get(name)
        if value is None:
            raise KeyError(f"there is no {name!r} here, but {', '.join(self.keys())}")
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self, name, value)

    def __delitem__(self, name: str) -> None:
        del self.__dict__[name]

    @property
    def num_nodes(self) -> int | None:
        """Nodes of the type in the batch; None for edges."""
        return len(self.n_id) if "n_id" in vars(self) else None

    @property
    def num_edges(self) -> int | None:
        """Edges of the type in the batch; None for nodes."""
        return int(self.edge_index.shape[1]) if "edge_index" in vars(self) else None

    @property
    def num_features(self) -> int:
        """Columns of `x`; 0 without features."""
        if self.x is None:
            return 0
        return 1 if self.x.dim() == 1 else int(self.x.shape[-1])

    num_node_features = num_features

    def __repr__(self) -> str:
        return "{ " + ", ".join(f"{name}={_shape(value)}" for name, value in self.items()) + " }"


def _shape(value: Any) -> Any:
    return list(value.shape) if isinstance(value, Tensor) else value


class TypedMiniBatch:
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
    nodes : dict of str to AttributeStore
    edges : dict of (str, str, str) to AttributeStore
    input_type : str or (str, str, str)
        The type of the seeds.
    stats : BatchStats
    """

    def __init__(
        self,
        nodes: dict[str, AttributeStore],
        edges: dict[EdgeType, AttributeStore],
        input_type: Key,
        stats: BatchStats,
    ) -> None:
        self.node_stores = nodes
        self.edge_stores = edges
        self.input_type = input_type
        self.stats = stats

    @property
    def node_types(self) -> list[str]:
        """Names of the node types."""
        return list(self.node_stores)

    @property
    def edge_types(self) -> list[EdgeType]:
        """(source type, relation, target type) of the edge types."""
        return list(self.edge_stores)

    def metadata(self) -> tuple[list[str], list[EdgeType]]:
        """Node types and edge types, as ``to_hetero`` takes them."""
        return self.node_types, self.edge_types

    @property
    def batch_size(self) -> int:
        """Number of seeds."""
        size: int = self[self.input_type].batch_size
        return size

    @property
    def input_id(self) -> Tensor:
        """(batch_size,) int64, positions of the seeds in the seed array."""
        ids: Tensor = self[self.input_type].input_id
        return ids

    @input_id.setter
    def input_id(self, ids: Tensor) -> None:
        self[self.input_type]["input_id"] = ids

    @property
    def num_nodes(self) -> int:
        """Nodes of all types in the batch."""
        return sum(store.num_nodes or 0 for store in self.node_stores.values())

    @property
    def num_edges(self) -> int:
        """Edges of all types in the batch."""
        return sum(store.num_edges or 0 for store in self.edge_stores.values())

    def _stores(self) -> dict[Key, AttributeStore]:
        stores: dict[Key, AttributeStore] = {}
        stores.update(self.node_stores)
        stores.update(self.edge_stores)
        return stores

    def collect(self, name: str) -> dict[Any, Any]:
        """An attribute of all types that have it, by type.

        Raises
        ------
        KeyError
            If no type has it.
        """
        found = {key: store[name] for key, store in self._stores().items() if name in store}
        if not found:
            raise KeyError(f"no type has an attribute {name!r}")
        return found

    def __getattr__(self, name: str) -> Any:
        """``x_dict`` is ``collect("x")``, and so on."""
        if name.endswith("_dict") and "node_stores" in vars(self):
            try:
                return self.collect(name.removesuffix("_dict"))
            except KeyError as error:
                raise AttributeError(error.args[0]) from None
        raise AttributeError(
            f"a batch of a typed graph has no {name!r}: use batch[type].{name}, or "
            f"batch.{name}_dict for all types"
        )

    def __getitem__(self, key: Any) -> AttributeStore:
        """The nodes or edges of a type; edges also by (source type, target type)."""
        if isinstance(key, str):
            if key in self.node_stores:
                return self.node_stores[key]
            raise KeyError(f"no node type {key!r}; there are {self.node_types}")
        found = [one for one in self.edge_stores if tuple(key) in (one, (one[0], one[2]))]
        if len(found) != 1:
            many = "several edge types" if found else "no edge type"
            raise KeyError(f"{many} {tuple(key)!r}; there are {self.edge_types}")
        return self.edge_stores[found[0]]

    def __contains__(self, key: Any) -> bool:
        """Whether there is such a node type or edge type."""
        return key in self.node_stores or key in self.edge_stores

    def keys(self) -> list[str]:
        """Names of the attributes that some type has."""
        return list(dict.fromkeys(name for store in self._stores().values() for name in store))

    def to_dict(self) -> dict[Key, dict[str, Any]]:
        """The attributes of all types, not copied."""
        return {key: store.to_dict() for key, store in self._stores().items()}

    def _apply(self, function: Callable[[Tensor], Tensor]) -> TypedMiniBatch:
        for store in self._stores().values():
            for name, value in vars(store).items():
                setattr(store, name, applied(function, value))
        return self

    def to(
        self, device: torch.device | str | int | None, *, non_blocking: bool = False
    ) -> TypedMiniBatch:
        """Moves all tensors to a device, and returns the batch."""
        return self._apply(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def cpu(self) -> TypedMiniBatch:
        """Moves all tensors to the processor's memory, and returns the batch."""
        return self.to("cpu")

    def cuda(
        self, device: torch.device | str | int | None = None, *, non_blocking: bool = False
    ) -> TypedMiniBatch:
        """Moves all tensors to a GPU (default: the current one), and returns the batch."""
        return self.to("cuda" if device is None else device, non_blocking=non_blocking)

    def pin_memory(self, device: Any = None) -> TypedMiniBatch:
        """Moves all tensors to page-locked memory; the DataLoader calls this for pin_memory=True.

        Returns
        -------
        TypedMiniBatch
            The batch itself.
        """
        return self._apply(lambda tensor: tensor.pin_memory())

    def clone(self) -> TypedMiniBatch:
        """A copy of the batch with copies of its tensors."""
        copied = copy.copy(self)
        copied.node_stores = {key: copy.copy(store) for key, store in self.node_stores.items()}
        copied.edge_stores = {key: copy.copy(store) for key, store in self.edge_stores.items()}
        return copied._apply(torch.clone)

    def to_pyg(self) -> Any:
        """The same batch as a ``torch_geometric.data.HeteroData``, without copies.

        Raises
        ------
        ImportError
            If torch_geometric is not installed.
        """
        from graphzero.pyg.data import make_hetero_data  # torch_geometric is optional

        counts = {name: len(store.n_id) for name, store in self.node_stores.items()}
        return make_hetero_data(counts, self.to_dict())

    def __repr__(self) -> str:
        lines = [f"  {key!r}: {store!r}," for key, store in self._stores().items()]
        return "\n".join(["TypedMiniBatch(", *lines, ")"])
