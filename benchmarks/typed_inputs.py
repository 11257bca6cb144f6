"""An R-MAT graph, whole and cut into node types and edge types, as files of graphzero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from benchmarks import rmat

if TYPE_CHECKING:
    from graphzero.graph.graph import Graph
    from graphzero.sampling.typed_sampler import TypedLists

__all__ = ["Cut", "Source", "same_ids"]

IntArray = npt.NDArray[np.int64]


def same_ids(_node_type: str, ids: IntArray) -> IntArray:
    """Every node type keeps the order of its ids."""
    return ids


@dataclass(frozen=True)
class Source:
    """The edge list, in one folder."""

    folder: Path
    scale: int
    num_edges: int
    seed: int = 0

    @property
    def num_nodes(self) -> int:
        """2^scale."""
        return 1 << self.scale

    @cached_property
    def edges(self) -> npt.NDArray[np.int64]:
        """Source and target, (num_edges, 2) int64; written by the first call."""
        path = self.folder / "edges.npy"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            part = path.with_suffix(".part.npy")
            rmat.write_edges(part, self.scale, self.num_edges, seed=self.seed)
            part.rename(path)
        return np.load(path, mmap_mode="r")  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Cut:
    """The nodes of a graph, dealt at random to some types; an edge type for each pair of them.

    A node keeps its rank among the nodes of its type, so that hubs stay in front.
    """

    source: Source
    num_types: int

    @cached_property
    def type_of(self) -> npt.NDArray[np.int8]:
        """The type of each node, (num_nodes,)."""
        rng = np.random.default_rng([self.source.seed, self.num_types])
        return rng.integers(0, self.num_types, self.source.num_nodes).astype(np.int8)

    @cached_property
    def local_id(self) -> IntArray:
        """The id of each node among those of its type, (num_nodes,)."""
        local = np.empty(self.source.num_nodes, np.int64)
        for number in range(self.num_types):
            mine = self.type_of == number
            local[mine] = np.arange(mine.sum())
        return local

    @property
    def node_types(self) -> list[str]:
        """Their names, in order."""
        return [f"n{number}" for number in range(self.num_types)]

    @property
    def edge_types(self) -> list[tuple[str, str, str]]:
        """One for each pair of node types."""
        return [(a, "to", b) for a in self.node_types for b in self.node_types]

    @cached_property
    def num_nodes(self) -> dict[str, int]:
        """Nodes of each type."""
        counts = np.bincount(self.type_of, minlength=self.num_types).tolist()
        return dict(zip(self.node_types, counts, strict=True))

    def seeds(self, nodes: IntArray) -> dict[str, IntArray]:
        """Nodes of the whole graph as ids of each type."""
        types = self.type_of[nodes]
        return {name: self.local_id[nodes[types == i]] for i, name in enumerate(self.node_types)}

    def edge_lists(self) -> Iterator[tuple[tuple[str, str, str], IntArray]]:
        """(edge type, (2, n) local ids of sources and targets) of each edge type."""
        source, target = np.ascontiguousarray(np.asarray(self.source.edges).T)
        pair = self.type_of[source].astype(np.int64) * self.num_types + self.type_of[target]
        order = np.argsort(pair, kind="stable")
        ends = np.stack([self.local_id[source[order]], self.local_id[target[order]]])
        bounds = np.searchsorted(pair[order], np.arange(self.num_types**2 + 1))
        for number, edge_type in enumerate(self.edge_types):
            yield edge_type, ends[:, bounds[number] : bounds[number + 1]]

    def lists(self) -> TypedLists:
        """Out-lists of every edge type; files are written by the first call."""
        from graphzero.sampling.typed_sampler import TypedLists

        folder = self.source.folder / f"cut-{self.num_types}"
        if not (folder / "done").exists():
            folder.mkdir(parents=True, exist_ok=True)
            for edge_type, ends in self.edge_lists():
                counts = self.num_nodes[edge_type[0]], self.num_nodes[edge_type[2]]
                _write_lists(folder / f"{'-'.join(edge_type)}.gl", ends, *counts, typed=True)
            (folder / "done").touch()
        graphs = {t: _open(folder / f"{'-'.join(t)}.gl", typed=True) for t in self.edge_types}
        return TypedLists(
            node_types=tuple(self.node_types),
            num_nodes=self.num_nodes,
            graphs=graphs,
            incoming=dict.fromkeys(graphs, False),
            to_user=same_ids,
            to_stored=same_ids,
        )


def whole(source: Source) -> Graph:
    """Out-lists of the graph without types; the file is written by the first call."""
    path = source.folder / "whole.gl"
    if not path.exists():
        edges = np.ascontiguousarray(np.asarray(source.edges).T)
        _write_lists(path, edges, source.num_nodes, source.num_nodes, typed=False)
    return _open(path, typed=False)


def _open(path: Path, *, typed: bool) -> Graph:
    from graphzero.graph.graph import Graph

    graph = Graph._open_typed(path) if typed else Graph(path)
    np.memmap(path, dtype=np.uint8, mode="r")[::4096].max()  # into the page cache
    return graph


def _write_lists(
    path: Path, ends: IntArray, num_nodes: int, num_neighbors: int, *, typed: bool
) -> None:
    from graphzero.store import format as gz_format
    from graphzero.store.filewriter import FileWriter

    keys = ends[0] * num_neighbors + ends[1]
    keys.sort()
    owner, neighbor = np.divmod(keys, num_neighbors)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=num_nodes))])
    arrays: dict[str, Any] = {"indptr": indptr, "indices": neighbor}
    header = gz_format.layout(
        "graph",
        [(name, "<u4", values.size) for name, values in arrays.items()],
        num_nodes=num_nodes,
        width=keys.size,
        flags=gz_format.FLAG_DIRECTED | gz_format.FLAG_TYPED * typed,
        num_input_edges=keys.size,
        num_neighbors=num_neighbors if typed else 0,
    )
    with FileWriter(path, header) as writer:
        for name, values in arrays.items():
            writer.append(name, values)
