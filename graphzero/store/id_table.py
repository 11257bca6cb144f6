"""`IdTable`: the ids by which the user knows the nodes, in a mapped file; node i has the i-th."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.errors import FormatError
from graphzero.store.format import DTYPES, FLAG_VECTOR, Header, layout
from graphzero.store.mapped_file import MappedFile, section

TEXT = "text"  # the section with the bytes of all texts
BY_ID = "by_id"  # the section with the nodes in the order of their ids

Integers: TypeAlias = npt.NDArray[np.int64] | npt.NDArray[np.uint64]


def id_table_layout(
    count: int, dtype: npt.DTypeLike, num_bytes: int | None = None, *, by_id: bool = False
) -> Header:
    """Header of the file.

    Parameters
    ----------
    count : int
        Nodes.
    dtype : dtype-like
        Of "rows": int64 or uint64, the ids; uint64 for the ends of texts.
    num_bytes : int, optional
        Bytes of all texts; None for integers.
    by_id : bool
        Whether ids do not ascend.
    """
    arrays: list[tuple[str, npt.DTypeLike, int]] = [("rows", np.dtype(dtype), count)]
    if num_bytes is not None:
        arrays.append((TEXT, "<u1", num_bytes))
    if by_id:
        arrays.append((BY_ID, "<i8", count))
    return layout("features", arrays, num_nodes=count, width=1, flags=FLAG_VECTOR)


class IdTable(MappedFile):
    """Distinct ids: integers of 64 bits, or texts, which are sorted by UTF-8 bytes.

    They ascend, or `by_id` has the nodes in the order of their ids.

    Parameters
    ----------
    path : path-like

    Attributes
    ----------
    is_text : bool

    Raises
    ------
    FormatError
        If the file is truncated, not of this format, or corrupt.
    OSError
        If it cannot be opened.
    """

    def _read_header(self) -> None:
        header = _core.feature_header(self.mapping)
        self._take_header(header)
        dtypes = {name: DTYPES[section.dtype] for name, section in self._sections.items()}
        counts = {name: section.count for name, section in self._sections.items()}
        self.is_text = TEXT in dtypes
        allowed = [np.dtype("<u8")] if self.is_text else [np.dtype("<i8"), np.dtype("<u8")]
        if (
            dtypes.get("rows") not in allowed
            or dtypes.get(TEXT, np.uint8) != np.uint8
            or dtypes.get(BY_ID, np.int64) != np.int64
            or counts["rows"] != header["num_nodes"]
            or counts.get(BY_ID, counts["rows"]) != counts["rows"]
        ):
            raise FormatError(f"{self.path} is no table of ids: build the dataset again")
        self.dtype = dtypes["rows"]

    def __len__(self) -> int:
        return self._sections["rows"].count

    rows: Integers = section("rows", "The integers, or the end of each text; a view.")
    text: npt.NDArray[np.uint8] = section(TEXT, "The bytes of all texts; a view.")
    by_id: npt.NDArray[np.int64] | None = section(BY_ID, "Nodes by ascending id, unless all are.")

    @property
    def ends(self) -> npt.NDArray[np.uint64]:
        """Where each text ends in `text`; a view."""
        return self.rows.view(np.uint64)

    def text_at(self, node: int) -> str:
        """The text of one node, which must be in range.

        Raises
        ------
        FormatError
            If the file is corrupt.
        """
        rows = self.rows
        begin, end = int(rows[node - 1]) if node else 0, int(rows[node])
        if not begin <= end <= self._sections[TEXT].count:
            raise self._corrupt()
        try:
            return self.mapping.read(self._sections[TEXT].offset + begin, end - begin).decode()
        except UnicodeDecodeError:
            raise self._corrupt() from None

    def described(self) -> str:
        """What became of the user's ids, in words."""
        return f"ids ({'texts' if self.is_text else self.dtype}) taken to 0...{len(self) - 1:,}"

    def shown(self, node: int) -> str:
        """The id of one node, for messages."""
        return repr(self.text_at(node)) if self.is_text else str(self.rows[node])

    def find_integers(self, ids: Integers) -> npt.NDArray[np.int64]:
        """The node of each id, -1 for an id that none has, (n,) int64.

        Parameters
        ----------
        ids : (n,) int64 or uint64 array
        """
        rows, fits = self.rows, np.ones(len(ids), np.bool_)
        order = np.argsort(ids)  # ascending ids read the file from beginning to end
        ids = ids[order]
        if ids.dtype != self.dtype:  # a comparison of both types would go through float64
            fits = ids <= np.iinfo(np.int64).max if ids.dtype.kind == "u" else ids >= 0
            ids = np.where(fits, ids, 0).astype(self.dtype)
        nodes = np.full(len(ids), -1, np.int64)
        if len(rows):
            at = np.minimum(self._places(ids), len(rows) - 1)
            at = at if self.by_id is None else self.by_id[at]  # which the search has looked at
            nodes[order] = np.where(fits & (rows[at] == ids), at, -1)
        return nodes

    def _places(self, ids: Integers) -> npt.NDArray[np.intp]:
        """How many integers are below each of some of the same dtype."""
        try:
            return np.searchsorted(self.rows.view(ids.dtype), ids, sorter=self.by_id)
        except ValueError:  # by_id leads beyond the rows
            raise self._corrupt() from None

    def places(self, others: IdTable, begin: int, end: int) -> npt.NDArray[np.int64]:
        """How many ids are before each of those of other nodes, [begin, end), that it lacks.

        Integers of the other table must fit its dtype.
        """
        if not self.is_text:
            return self._places(others.rows[begin:end])
        first = int(others.rows[begin - 1]) if begin else 0
        ends = others.ends[begin:end]
        return -1 - self._find_texts(others.text[first : int(ends[-1])], ends - np.uint64(first))

    def find_texts(
        self, data: npt.NDArray[np.uint8], ends: npt.NDArray[np.uint64]
    ) -> npt.NDArray[np.int64]:
        """The node of each text, -1 for a text that none has, (n,) int64.

        Parameters
        ----------
        data : uint8 array
            The bytes of all texts.
        ends : (n,) uint64 array
            The end of each.

        Raises
        ------
        FormatError
            If the file is corrupt.
        """
        return np.maximum(self._find_texts(data, ends), -1)

    def _find_texts(
        self, data: npt.NDArray[np.uint8], ends: npt.NDArray[np.uint64]
    ) -> npt.NDArray[np.int64]:
        """The node of each text, or -1 - the number of texts that are before it."""
        positions, corrupt = _core.find_texts(self.text, self.ends, data, ends, 1, self.by_id)
        if corrupt:
            raise self._corrupt()
        return positions

    def _corrupt(self) -> FormatError:
        return FormatError(
            f"{self.path} is corrupt: run graphzero verify on its folder, and build it again"
        )
