"""Which nodes the seeds are that a command names by a split and a node type."""

from __future__ import annotations

from typing import Any

from graphzero.graph.dataset import Dataset
from graphzero.graph.ids import IdArray
from graphzero.graph.typed_dataset import TypedDataset

__all__ = ["seeds_of_split"]


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
    if isinstance(ds, TypedDataset):
        return _typed_seeds(ds, split, node_type)
    if node_type is not None:
        raise ValueError("--node-type is for typed graphs: leave it out")
    if split == "all":
        return None
    if split not in ds.splits:
        raise ValueError(
            f"no split {split!r}; there are {sorted(ds.splits)}, and 'all' for all nodes"
        )
    return ds.splits[split]


def _typed_seeds(ds: TypedDataset, split: str, node_type: str | None) -> tuple[str, IdArray | None]:
    owners = [name for name, nodes in ds.nodes.items() if split in nodes.splits]
    if node_type is None and len(owners) == 1 and split != "all":
        node_type = owners[0]
    if node_type is None:
        if split != "all" and not owners:
            names = sorted({name for nodes in ds.nodes.values() for name in nodes.splits})
            raise ValueError(f"no split {split!r}; there are {names}, and 'all' for all nodes")
        raise ValueError(f"several node types have seeds: give --node-type, one of {ds.node_types}")
    if node_type not in ds.nodes:
        raise ValueError(f"no node type {node_type!r}; there are {ds.node_types}")
    if split == "all":
        return node_type, None
    if node_type not in owners:
        raise ValueError(f"{node_type!r} has no split {split!r}, but {owners} have")
    return node_type, ds.nodes[node_type].splits[split]
