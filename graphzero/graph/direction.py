"""`DirectedFile`: which way the neighbour lists of a graph follow its edges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from graphzero import _core
from graphzero.errors import FormatError
from graphzero.graph.legacy import OpenedByPath
from graphzero.store.format import FLAG_DIRECTED, FLAG_INCOMING
from graphzero.store.manifest import Neighbors

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["DirectedFile", "Direction"]

Direction = Literal["in", "out"]


class DirectedFile(OpenedByPath):
    """A graph's file, and perhaps a second one of the same edges in the other direction."""

    _csr: _core.CSR
    _out_lists: Self | None = None
    _is_of_type = False  # whether it is opened as an edge type of a typed graph

    def _check_typed(self) -> None:
        """Raises `FormatError` where it is an edge type, and is not opened as one; or the reverse.

        The file of an edge type has stored ids only, which the user's ids would be taken for.
        """
        if self._csr.is_typed and not self._is_of_type:
            raise FormatError(
                f"{self.path} is an edge type of a typed graph, and does not know the nodes' ids: "
                f"open its dataset folder with graphzero.open"
            )
        if self._is_of_type and not self._csr.is_typed:
            raise FormatError(
                f"{self.path} is a graph without types, not an edge type of a typed graph: "
                f"build the dataset again"
            )

    @property
    def num_neighbors(self) -> int:
        """Nodes that neighbours may be: the nodes with lists, except in an edge type's file."""
        return self._csr.num_neighbors

    @property
    def is_directed(self) -> bool:
        """Whether edges are stored in the given direction only."""
        return bool(self._csr.header["flags"] & FLAG_DIRECTED)

    @property
    def is_incoming(self) -> bool:
        """Whether the lists of the file have the sources of each node's incoming edges."""
        return self.is_directed and bool(self._csr.header["flags"] & FLAG_INCOMING)

    @property
    def stored_neighbors(self) -> Neighbors:
        """Which neighbours are stored: "in", "out" or "both"; "both" of an undirected graph."""
        if not self.is_directed or self._out_lists is not None:
            return "both"
        return "in" if self.is_incoming else "out"

    def attach_out_lists(self, graph: Self) -> None:
        """Has walks and `direction` "out" use another file, of the same edges.

        The file stays the caller's to close.
        """
        self._out_lists = graph

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
        if direction == "out" and self._out_lists is not None:
            return self._out_lists
        stored = "in" if self.is_incoming else "out"
        raise ValueError(
            f"{what} {direction}-neighbours, and {self.path} has {stored}-neighbours only: build "
            f"the dataset with neighbors='{direction}' or 'both', or change it with "
            f"graphzero.reorder(..., neighbors='both')"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        reopen, arguments = super().__reduce__()
        if self._out_lists is None:
            return reopen, arguments
        return _reopen_both, (reopen, arguments, self._out_lists)


def _reopen_both(reopen: Any, arguments: tuple[Any, ...], out_lists: DirectedFile) -> DirectedFile:
    """Opens a graph that was pickled with the file of its out-neighbours."""
    graph: DirectedFile = reopen(*arguments)
    graph.attach_out_lists(out_lists)
    return graph
