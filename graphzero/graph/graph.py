"""`Graph`: the adjacency in a ``.gl`` file, in the user's own ids."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.compat02 import GraphMethods02
from graphzero.errors import FormatError
from graphzero.graph.user_input import (
    IdArray,
    Sampling,
    as_fanout,
    as_ids,
    as_seed,
    as_threads,
    as_walk_bias,
)
from graphzero.store.format import DTYPES, FLAG_DIRECTED, FLAG_INCOMING
from graphzero.store.manifest import Neighbors
from graphzero.store.mapped_file import MappedFile, ResidentPrefix, mincore_is_honest, section
from graphzero.units import as_count

if TYPE_CHECKING:
    from typing_extensions import Self

Direction = Literal["in", "out"]


@dataclass(frozen=True)
class SampledNeighbors:
    """One hop of sampled neighbours, in the layout of CSR: a neighbour list for each seed.

    Attributes
    ----------
    indptr : (num_seeds + 1,) int64
        The neighbours of ``seeds[i]`` are ``indices[indptr[i]:indptr[i + 1]]``.
    indices : (num_edges,) int64
        The user's ids of the sampled neighbours. Only the *set* of each seed is random, not the
        order within it.
    e_id : (num_edges,) int64 or None
        Positions in the user's edge list, if the file has them.
    """

    indptr: IdArray
    indices: IdArray
    e_id: IdArray | None


class Graph(GraphMethods02, MappedFile):
    """A graph in a ``.gl`` file, mapped and never loaded.

    The neighbours of a node are the sources of its incoming edges, or the targets of its outgoing
    edges, as the file was built (the same, for an undirected graph): `stored_neighbors` says which.
    The graph of a dataset with both samples the former, and walks along the latter. All arguments
    and results are in the user's own ids, in whatever order the file stores nodes.

    In scripts for graphzero 0.2, ``filename=`` is the path, and the methods of that version work
    as well.

    Parameters
    ----------
    path : path-like
        A ``.gl`` file.

    Attributes
    ----------
    num_nodes : int
        Number of nodes; ids are 0 to num_nodes - 1.
    num_edges : int
        Number of stored edges: both directions of an undirected edge, a self-loop once.
    num_input_edges : int
        Edges of the edge list that the graph was built from.
    num_neighbors : int
        Nodes that neighbours may be: the nodes with lists, except in an edge type's file.
    is_directed : bool
        Whether edges are stored in the given direction only.
    is_incoming : bool
        Whether the lists of the file have the sources of each node's incoming edges.
    out_lists : Graph or None
        The file with the out-neighbours of the same edges, for walks: see `attach_out_lists`.

    Raises
    ------
    FormatError
        If the file is truncated, not of this format, corrupt or of an unknown version.
    OSError
        If it cannot be opened.
    """

    out_lists: Self | None = None
    _is_of_type = False  # whether it is opened as an edge type of a typed graph

    def _read_header(self) -> None:
        self._csr = _core.CSR(self.mapping)
        if self._csr.is_typed != self._is_of_type:
            raise FormatError(
                f"{self.path} is {'an edge type' if self._csr.is_typed else 'no edge type'} of a "
                f"typed graph: open its dataset folder with graphzero.open, or build it again"
            )
        self._take_header(self._csr.header)
        self.num_nodes, self.num_edges = self._csr.num_nodes, self._csr.num_edges
        self.num_neighbors = self._csr.num_neighbors
        self.num_input_edges = int(self._csr.header["num_input_edges"])
        flags = self._csr.header["flags"]
        self.is_directed = bool(flags & FLAG_DIRECTED)
        self.is_incoming = self.is_directed and bool(flags & FLAG_INCOMING)

    def fingerprint(self, sections: Iterable[str]) -> str:
        """16 hex digits that stand for the content of some sections, from their checksums."""
        checksums = [[name, self._sections[name].crc] for name in sorted(sections)]
        return hashlib.sha256(json.dumps(checksums).encode()).hexdigest()[:16]

    @property
    def stored_neighbors(self) -> Neighbors:
        """Which neighbours are stored: "in", "out" or "both"; "both" of an undirected graph."""
        if not self.is_directed or self.out_lists is not None:
            return "both"
        return "in" if self.is_incoming else "out"

    def attach_out_lists(self, graph: Self) -> None:
        """Has walks and `direction` "out" use another file, of the same edges.

        The file stays the caller's to close.

        Raises
        ------
        FormatError
            If it cannot be of the same edges.
        """
        is_outgoing = graph.is_directed and not graph.is_incoming
        if self._counts() != graph._counts() or not self.is_incoming or not is_outgoing:
            raise FormatError(
                f"{self.path} and {graph.path} are not the in-neighbours and the out-neighbours "
                f"of one directed graph: build the dataset again"
            )
        self.out_lists = graph

    def _counts(self) -> tuple[object, ...]:
        return self.num_nodes, self.num_edges, self.num_input_edges, self.stored_order

    def lists_of(self, direction: Direction, what: str) -> Self:
        """The file whose lists have the neighbours in one direction.

        Parameters
        ----------
        direction : {"in", "out"}
        what : str
            What needs them, for the message.

        Raises
        ------
        ValueError
            If they are not stored, or it is no direction.
        """
        if direction not in ("in", "out"):
            raise ValueError(f"direction must be 'in' or 'out', not {direction!r}")
        if not self.is_directed or self.is_incoming == (direction == "in"):
            return self
        if direction == "out" and self.out_lists is not None:
            return self.out_lists
        stored = "in" if self.is_incoming else "out"
        raise ValueError(
            f"{what} {direction}-neighbours, and {self.path} has {stored}-neighbours only: build "
            f"the dataset with neighbors='{direction}' or 'both', or change it with "
            f"graphzero.reorder(..., neighbors='both')"
        )

    def __reduce__(self) -> tuple[object, ...]:
        if self.out_lists is None:
            return super().__reduce__()
        return (*super().__reduce__(), {"out_lists": self.out_lists})

    @property
    def has_edge_ids(self) -> bool:
        """Whether the file has the position of each edge in the user's edge list."""
        return "edge_ids" in self._sections

    @cached_property
    def section_bytes(self) -> dict[str, int]:
        """Bytes of each section of the file, by name."""
        return {name: entry.length for name, entry in self._sections.items()}

    def section_width(self, name: str) -> int:
        """Bytes of an element of a section."""
        return DTYPES[self._sections[name].dtype].itemsize

    def new_prefix(self, name: str) -> ResidentPrefix:
        """A resident prefix of a section, which belongs to the caller."""
        return ResidentPrefix(self.mapping, self._sections[name].offset)

    indptr: npt.NDArray[np.unsignedinteger] = section(
        "indptr",
        """Where each neighbour list begins in `indices`, and the end of the last: a read-only view.

        (num_nodes + 1,) uint32 or uint64. Lists and `indices` are in *stored* order; `node_ids`
        translates them to the user's ids where it is not None.
        """,
    )
    indices: npt.NDArray[np.unsignedinteger] = section(
        "indices", "Neighbour lists as stored, (num_edges,) uint32 or uint64, a read-only view."
    )
    weights: npt.NDArray[np.float32] | None = section(
        "weights", "Edge weights in the order of `indices`, (num_edges,) float32 view, or None."
    )
    times: npt.NDArray[np.int64] | None = section(
        "times", "Edge timestamps in the order of `indices`, (num_edges,) int64 view, or None."
    )
    time_order: npt.NDArray[np.unsignedinteger] | None = section(
        "time_order", "Offsets within each neighbour list, oldest edge first, a view, or None."
    )
    node_ids: npt.NDArray[np.unsignedinteger] | None = section(
        "node_ids", "The user's id of each stored node, a view; None if they are the same."
    )

    def to_stored(self, nodes: IdArray, num_threads: int = 1) -> IdArray:
        """Stored ids of the user's ids, which must be in range."""
        return self._csr.to_stored(nodes, num_threads)

    def user_table(self) -> _core.IdTable | None:
        """Table of the user's ids by stored id; None where they are the same."""
        return self._csr.user_table()

    def to_user(self, stored: IdArray, num_threads: int = 1) -> IdArray:
        """The user's ids of stored ids, which must be in range."""
        return self._csr.to_user(stored, num_threads)

    def degree(self, nodes: Any, direction: Direction | None = None) -> Any:
        """Number of neighbours.

        Parameters
        ----------
        nodes : int or (n,) integers
        direction : {"in", "out"}, optional
            Of incoming or of outgoing edges. Default: of the lists that are sampled.

        Returns
        -------
        int or (n,) int64

        Raises
        ------
        IndexError
            If a node is out of range.
        ValueError
            If neighbours in this direction are not stored.
        """
        if direction is not None:
            return self.lists_of(direction, "this degree counts").degree(nodes)
        if np.ndim(nodes) == 0:
            return int(self.degree([nodes])[0])
        ids = as_ids(nodes, self.num_nodes, "nodes")
        return self._csr.degrees(self._csr.to_stored(ids), as_threads(None))

    def neighbors(self, node: int, direction: Direction | None = None) -> IdArray:
        """All neighbours of one node, ascending, (degree,) int64; a copy.

        `direction` is as in `degree`.

        Raises
        ------
        IndexError
            If the node is out of range.
        ValueError
            If neighbours in this direction are not stored.
        """
        if direction is not None:
            return self.lists_of(direction, "this list is of").neighbors(node)
        _, _, ids = self._stored_list(node)
        ids.sort()
        return ids

    def _stored_list(self, node: object) -> tuple[int, int, IdArray]:
        """Stored positions [begin, end) of a node's edges, and the user's ids of its neighbours."""
        ids = as_ids([node], self.num_nodes, "nodes")
        _, positions, stored = self._csr.sample_hop(
            self._csr.to_stored(ids), -1, Sampling(), _core.Draws(0, 0, 0), 1
        )
        begin = int(positions[0]) if positions.size else 0
        return begin, begin + positions.size, self._csr.to_user(stored)

    def sample_neighbors(
        self,
        seeds: npt.ArrayLike,
        fanout: int,
        *,
        replace: bool = False,
        weighted: bool = False,
        seed: int = 0,
        num_threads: int | None = None,
        _by_seed: bool = False,  # repeats of a seed draw independently, as in 0.2
    ) -> SampledNeighbors:
        """Samples neighbours, uniformly or by weight, one hop, without relabelling.

        Parameters
        ----------
        seeds : (n,) integers
        fanout : int
            Neighbours per seed; -1 for all. A seed with fewer gets all of them.
        replace : bool
            Draw with replacement: exactly `fanout` for every seed that has a neighbour.
        weighted : bool
            Draw by the file's edge weights: with replacement in proportion to them, without
            replacement in proportion to those not yet drawn. Edges of weight 0 are never drawn.
        seed : int
            The draws of a node depend only on this number and the node.
        num_threads : int, optional
            Default: all processors available to the process. The result does not depend on it.

        Returns
        -------
        SampledNeighbors

        Raises
        ------
        IndexError
            If a seed is out of range.
        ValueError
            If fanout is neither positive nor -1; if weighted, and the file has no weights.
        MemoryError
            If the result is larger than the memory of the machine, or cannot be allocated.
        """
        fanout, sampling = as_fanout(fanout), Sampling(replace=replace, weighted=weighted)
        ids = as_ids(seeds, self.num_nodes, "seeds")
        threads = as_threads(num_threads)
        draws = _core.Draws(as_seed(seed), 0, 0).hop(0)
        self.mapping.check_size()
        with _smaller("fanout", fanout, len(ids), "seeds"):
            indptr, positions, stored = self._csr.sample_hop(
                self._csr.to_stored(ids, threads), fanout, sampling, draws, threads, _by_seed
            )
            neighbors = self._csr.to_user(stored, threads)
            return SampledNeighbors(indptr, neighbors, self._csr.edge_ids(positions, threads))

    def random_walk(
        self,
        start: npt.ArrayLike,
        length: int,
        *,
        p: float = 1.0,
        q: float = 1.0,
        walks_per_node: int = 1,
        weighted: bool = False,
        restart: float = 0.0,
        seed: int = 0,
        num_threads: int | None = None,
    ) -> IdArray:
        """Random walks along the edges: uniform, by weight, second-order, with restarts.

        Equal calls give equal walks. For several walks from each node, use `walks_per_node`: they
        are drawn independently. For other walks from the same nodes in a later call, give another
        `seed`.

        Parameters
        ----------
        start : (n,) integers
            Where the walks begin. A node that is listed twice has two independent walks.
        length : int
            Steps of each walk.
        walks_per_node : int
            Walks from each entry of `start`.
        p, q : float
            Return and in-out parameters of node2vec (Grover, Leskovec, KDD 2016). If both are 1,
            the walk is first-order.
        weighted : bool
            Step in proportion to the file's edge weights (times the bias of p and q).
        restart : float
            Probability, in [0, 1), of returning to the start instead of making a step, as in
            personalised PageRank. If it is positive, walks restart at dead ends too.
        seed : int
            The draws of a walk depend only on this number and its row in the result.
        num_threads : int, optional
            Default: all processors available to the process. The result does not depend on it.

        Returns
        -------
        (n * walks_per_node, length + 1) int64
            A walk in each row: first all walks from ``start[0]``, then all from ``start[1]``, as
            from ``numpy.repeat(start, walks_per_node)``. The start is in column 0; -1 follows a
            dead end, unless walks restart.

        Raises
        ------
        IndexError
            If a start is out of range.
        ValueError
            If length, walks_per_node, p or q is not positive, or restart not in [0, 1); if
            weighted, and the file has no weights; if out-neighbours are not stored.
        MemoryError
            If the result is larger than the memory of the machine, or cannot be allocated.
        """
        length = as_count(length, "length")
        walks_per_node = as_count(walks_per_node, "walks_per_node")
        p, q = as_walk_bias(p, "p"), as_walk_bias(q, "q")
        if not 0 <= restart < 1:
            raise ValueError(f"restart must be a probability below 1, not {restart!r}")
        csr = self.lists_of("out", "walks follow the edges to")._csr
        ids = as_ids(start, self.num_nodes, "start")
        threads = as_threads(num_threads)
        count = len(ids) * walks_per_node
        with _smaller("length", length, count, "walks (starts times walks_per_node)"):
            _core.require_memory(count * (length + 1), ids.itemsize, "nodes")
            return csr.walk(
                np.repeat(csr.to_stored(ids, threads), walks_per_node),
                length,
                p,
                q,
                _core.key("walk", as_seed(seed), 0, 0),
                threads,
                bool(weighted),
                float(restart),
                to_user=True,
                trust_mincore=mincore_is_honest(csr.mapping.path),
            )

    def __repr__(self) -> str:
        return (
            f"Graph({self.path!r}, num_nodes={self.num_nodes:,}, num_edges={self.num_edges:,}, "
            f"neighbors={self.stored_neighbors!r})"
        )


@contextmanager
def _smaller(option: str, value: int, count: int, of: str) -> Iterator[None]:
    """Says what there was no memory for, and which option is to be smaller."""
    try:
        yield
    except MemoryError as error:
        raise MemoryError(
            f"no memory for {option}={value} of {count:,} {of} ({error}): use a smaller {option}, "
            f"or fewer nodes in a call"
        ) from None


class EdgeTypeGraph(Graph):
    """The file of one edge type of a typed graph, for its dataset.

    Ids are as stored: only the dataset knows the user's ids of each node type.
    """

    _is_of_type = True
