"""`Source`: a file or an object of the user, with its own reading options."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Any

Column = str | int

# Which options apply where.
FOR_EDGES = ("src", "dst", "weight", "timestamp", "edge_attrs", "header", "delimiter")
FOR_NODES = ("id_column", "columns", "header", "delimiter")
FOR_VALUES = ("columns", "header", "delimiter")
_DELIMITERS = ("auto", "whitespace")  # besides single characters; `sniff_csv` has the last word
_BINARY = (".parquet", ".pq", ".arrow", ".feather", ".ipc", ".npy", ".npz", ".pt", ".safetensors")
_OF_TEXT = ("header", "delimiter")
_OF_ARRAYS = ("src", "dst", "weight", "timestamp")


@dataclass(frozen=True)
class Source:
    """A file or an object with its own reading options, for `graphzero.build`.

    It stands wherever a path can stand: for the edges, for features and labels, for any attribute
    of nodes or edges, for a split; in typed graphs, by type. So each of several files can have
    names of its own. An option that does not apply where the source is used is an error.

    Parameters
    ----------
    value : path, array, tensor, or another object that `graphzero.build` reads
    src, dst : str or int, optional
        Of an edge list: the columns of sources and targets, by name or by position from 0.
    weight, timestamp : str, int, False or array, optional
        Of an edge list: as in `graphzero.build`.
    edge_attrs : list of str, or dict of str to str or int, optional
        Of an edge list: columns that become attributes of the edges. A dictionary has the column,
        by name or position, for the name of each attribute. An empty list says that the columns
        that are not used are not needed.
    id_column : str, int or False, optional
        Of a table of nodes: the column of node ids, by name or position. False: there is none, and
        the records are in the order of the nodes. Default: the column named id, node_id, node, nid,
        vertex or vertex_id; without one, only a table of one column is accepted.
    columns : str, int, or list of these, optional
        Of a table of nodes or edges, or of a split: the columns of values, in this order. One
        column that is not in a list gives a number for each node or edge, a list gives rows.
        Default: all columns but that of ids.
    header : bool or "auto"
        Of a text file: whether it begins with the names of the columns.
    delimiter : str
        Of a text file: one character, or "auto".

    Raises
    ------
    ValueError
        If an option has no valid form.

    Examples
    --------
    >>> writes = gz.Source("writes.csv", src="author", dst="paper", edge_attrs=["position"])
    >>> gz.build("data/", nodes={"author": {}, "paper": {"x": gz.Source("x.csv", id_column=0)}},
    ...          edges={("author", "writes", "paper"): writes})
    """

    value: Any
    _: KW_ONLY
    src: Column | None = None
    dst: Column | None = None
    weight: Any = None
    timestamp: Any = None
    edge_attrs: Sequence[str] | Mapping[str, Column] | None = None
    id_column: Column | bool | None = None
    columns: Column | Sequence[Column] | None = None
    header: bool | str = "auto"
    delimiter: str = "auto"

    def __post_init__(self) -> None:
        parts = self.value if isinstance(self.value, list | tuple) else [self.value]
        if any(isinstance(part, Source) for part in parts):
            raise ValueError("a Source has files or objects, not another Source")
        if not isinstance(self.header, bool) and self.header != "auto":
            raise ValueError(f"header must be True, False or 'auto', not {self.header!r}")
        if not isinstance(self.delimiter, str) or (
            self.delimiter not in _DELIMITERS and len(self.delimiter) != 1
        ):
            raise ValueError(
                f"delimiter must be one character, 'whitespace' or 'auto', not {self.delimiter!r}"
            )

    @property
    def has_names(self) -> bool:
        """Whether an option names a column, so that there must be a header."""
        ends = (self.src, self.dst, self.weight, self.timestamp, self.id_column)
        found: list[Any] = list(ends)
        for several in (self.columns, self.edge_attrs):
            if isinstance(several, Mapping):
                found += several.values()
            else:
                found += several if isinstance(several, list | tuple) else [several]
        return any(isinstance(one, str) for one in found)

    def options(self) -> dict[str, Any]:
        """The options that are not the default, by name."""
        found = {}
        for field in fields(self)[1:]:
            value = getattr(self, field.name)
            if not (value is None if field.default is None else value == "auto"):
                found[field.name] = value
        return found

    def check_options(self, allowed: Collection[str], what: str, *, is_table: bool) -> None:
        """Refuses options that do not apply.

        Parameters
        ----------
        allowed : collection of str
            Options that apply to such a use.
        what : str
            The use, for messages.
        is_table : bool
            Whether the value has columns with names or positions; arrays have none.

        Raises
        ------
        ValueError
        """
        for option in self.options():
            if option not in allowed:
                raise ValueError(
                    f"{what}: Source has {option}=, which does not apply here; what applies is "
                    f"{', '.join(allowed)}"
                )
            if not is_table and option not in _OF_ARRAYS:
                if option == "edge_attrs" and not self.edge_attrs:
                    continue
                raise ValueError(f"{what}: {option}= is for tables, such as CSV, not for arrays")
            if option in _OF_TEXT and self._is_binary():
                raise ValueError(f"{what}: {option}= is for text files, not for {self.value}")

    def _is_binary(self) -> bool:
        parts = self.value if isinstance(self.value, list | tuple) else [self.value]
        return any(
            not isinstance(part, str | os.PathLike) or Path(part).suffix.lower() in _BINARY
            for part in parts
        )


def as_source(value: Any) -> Source:
    """A value of the user as a source."""
    return value if isinstance(value, Source) else Source(value)
