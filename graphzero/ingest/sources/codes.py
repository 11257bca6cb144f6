"""What is no number becomes one: texts the numbers of classes, dates seconds."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from graphzero.ingest.sources.columns import MAX_MAPPED_RECORDS, Column, Table
from graphzero.ingest.sources.text_table import is_number

_MOST_CLASSES = 1 << 16
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")
_ZONE = r"(Z|[+-]\d\d:?\d\d)$"


def _as_texts(values: Any) -> pa.Array:
    if isinstance(values, np.ndarray):
        values = values.tolist()
    return (
        pa.array(values, pa.large_string())
        if isinstance(values, list)
        else values.cast("large_string")
    )


class Classes:
    """The names of the classes in a column of texts: class i has the i-th name.

    Attributes
    ----------
    names : list of str
        Ascending by their bytes of UTF-8, behind those that were there before.
    """

    def __init__(self, table: Table, column: Column) -> None:
        names: set[str] = set()
        for (values,) in table.read([column.raw()], MAX_MAPPED_RECORDS):
            names.update(pc.unique(_as_texts(values)).to_pylist())
            if len(names) > _MOST_CLASSES:
                raise ValueError(
                    f"{table.name}: column {table.label(column.index)!r} has more than "
                    f"{_MOST_CLASSES:,} different texts, and so no classes: leave it out"
                )
        self.names = sorted(names, key=str.encode)

    def follow(self, names: list[str]) -> None:
        """Has new classes stand behind those that are there, whose numbers stay."""
        stored = set(names)
        self.names = [*names, *(name for name in self.names if name not in stored)]

    def find(self, values: Any, column: Column, table: Table, record: int) -> npt.NDArray[np.int64]:
        """The classes of a chunk."""
        codes = pc.index_in(_as_texts(values), value_set=pa.array(self.names, pa.large_string()))
        if codes.null_count:
            raise ValueError(f"{table.name}: {column.label} has changed while it was read")
        numbers: npt.NDArray[np.int64] = codes.to_numpy().astype(np.int64)
        return numbers


class Dates:
    """ISO dates, and dates of Arrow, as whole seconds since 1970, UTC; fractions are dropped."""

    def find(self, values: Any, column: Column, table: Table, record: int) -> npt.NDArray[np.int64]:
        """The seconds of a chunk."""
        try:
            times = values
            if isinstance(values, np.ndarray) or not pa.types.is_temporal(values.type):
                texts = _as_texts(values)
                with_zone = pc.any(pc.match_substring_regex(texts, _ZONE)).as_py()
                times = texts.cast(pa.timestamp("us", "UTC" if with_zone else None))
            unit = pa.timestamp("us", getattr(times.type, "tz", None))
            parts: npt.NDArray[np.int64] = times.cast(unit, safe=False).cast(pa.int64()).to_numpy()
        except pa.ArrowInvalid as error:
            raise ValueError(
                f"{table.name}, {table.locate(record)} or soon after it: a {column.label} is no "
                f"ISO date as the first one is, all with a zone or none: {error}{column.hint}"
            ) from None
        return parts // 1_000_000


def codes_of(table: Table, column: Column, *, texts: bool) -> Classes | Dates | None:
    """What makes numbers of a column, by its first cell; texts only if they may be classes."""
    stored, first = table.dtypes, table.first_record
    kind = None if stored is None else stored[column.index]
    if kind is not None and kind.kind != "O":
        return None
    if stored is None:
        cells = (first or ())[column.index : column.index + 1]  # none of a folder's column
        if not cells or not cells[0].strip() or is_number(cells[0]):
            return None
    (values,) = next(table.read([column.raw()], 1), ([],))
    if not len(values):
        return None
    of_values = getattr(values, "type", pa.large_string())
    if pa.types.is_timestamp(of_values) or pa.types.is_date(of_values):
        return Dates()
    cell = str(values[0])
    if _ISO_DATE.fullmatch(cell):
        return Dates()
    is_text = isinstance(values, np.ndarray) or str(of_values) in (
        "string",
        "large_string",
        "string_view",
    )
    return Classes(table, column) if texts and is_text else None
