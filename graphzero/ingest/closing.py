"""What a build says when it is done: which columns it read, and what it did with the edges."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Closing", "ReadSummary", "direction_clauses"]


@dataclass(frozen=True)
class ReadSummary:
    """Which columns of an edge list were read.

    Attributes
    ----------
    table : str
    columns : tuple of (str, str)
        What was read, such as "src", and the column.
    ignored : tuple of str
        Columns that were not.
    example : str
        How they would be stored, as the value of `edge_attrs`.
    unasked : tuple of str
        Of the columns that were not, those of which the user has not said that they are not needed.
    """

    table: str
    columns: tuple[tuple[str, str], ...]
    ignored: tuple[str, ...] = ()
    example: str = ""
    unasked: tuple[str, ...] = ()

    def clauses(self) -> list[str]:
        """The beginning of the closing line."""
        read = "read " + ", ".join(f"{what}={column}" for what, column in self.columns)
        return [read, f"ignored {', '.join(self.ignored)}"] if self.ignored else [read]

    def warning(self) -> str | None:
        """What to tell a user who has not said what to do with the other columns."""
        if not self.unasked:
            return None
        return (
            f"{self.table} has columns that are not used: {', '.join(self.unasked)}; "
            f"edge_attrs={self.example} stores them with the edges, edge_attrs=[] says that they "
            f"are not needed"
        )


def direction_clauses(neighbors: str | None, directed: bool) -> tuple[str, str]:
    """Which neighbours are stored, and whether edges are stored in both directions."""
    stored = {"out": "out-neighbours", "both": "in-neighbours and out-neighbours"}
    return (
        stored.get(str(neighbors), "in-neighbours"),
        "directed" if directed else "undirected, both directions stored",
    )


@dataclass
class Closing:
    """The closing lines of a build, one for each edge list, which the build fills as it goes on.

    Attributes
    ----------
    reads : dict of str to ReadSummary
        By edge list: "" in a graph without types, else the edge type.
    notes : dict of str to list of str
        Further clauses, by edge list.
    """

    reads: dict[str, ReadSummary] = field(default_factory=dict)
    notes: dict[str, list[str]] = field(default_factory=dict)

    def begin(
        self, read: ReadSummary | None, *, neighbors: str | None, directed: bool, where: str = ""
    ) -> None:
        """Begins the line of an edge list."""
        if read is not None:
            self.reads[where] = read
        self.add(*direction_clauses(neighbors, directed), where=where)

    def add(self, *clauses: str, where: str = "") -> None:
        """Adds clauses to the line of an edge list, in the order of the calls."""
        self.notes.setdefault(where, []).extend(clauses)

    def lines(self) -> list[str]:
        """The closing lines."""
        found = []
        for where in dict.fromkeys([*self.reads, *self.notes]):
            read = self.reads.get(where)
            clauses = [*(read.clauses() if read else []), *self.notes.get(where, ())]
            found.append((f"{where}: " if where else "") + "; ".join(clauses))
        return found

    def warning(self) -> str | None:
        """Of all edge lists whose unused columns the user has not been asked about; or None."""
        found: Sequence[str] = [
            (f"edge type {where}: " if where else "") + text
            for where, read in self.reads.items()
            if (text := read.warning()) is not None
        ]
        return "; ".join(found) if found else None

    def tell(self, progress: bool, *, stacklevel: int = 2) -> None:
        """Prints the lines on stderr if there is progress; otherwise warns of unused columns."""
        if progress:
            for line in self.lines():
                print(line, file=sys.stderr)
            return
        text = self.warning()
        if text is not None:
            warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)
