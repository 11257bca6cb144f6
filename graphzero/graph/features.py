"""`FeatureStore`: feature rows of a ``.gd`` or ``.npy`` file, by the user's own ids."""

from __future__ import annotations

import math
import os
import zlib
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.errors import FormatError
from graphzero.graph.user_input import IdArray, as_ids, as_threads
from graphzero.store.format import BFLOAT16, DTYPES, FLAG_VECTOR, as_dtype, dtype_code, dtype_name
from graphzero.store.mapped_file import MappedFile, reopen, request_range, section_view
from graphzero.units import MOST_COUNT, by_either_name

RowArray = npt.NDArray[Any]  # in the dtype of its file

_NPY_MAGIC = b"\x93NUMPY"
_MOST_ROW_DIMS = 30
_V2_HINT = "; if it is bfloat16, as x.view([('bfloat16', '<u2')])"


def as_booleans(rows: RowArray) -> RowArray:
    """The rows themselves, where they are booleans with bytes other than 0 made 1.

    NumPy and torch rely on it, whatever is in a file.
    """
    if rows.dtype == np.bool_:
        np.minimum(rows.view(np.uint8), 1, out=rows.view(np.uint8))
    return rows


def _npy_rows(mapping: _core.Mapping) -> tuple[tuple[int, ...], np.dtype[np.generic], int]:
    """Shape and dtype of an ``.npy`` file, and where its rows begin."""
    try:
        array = np.load(mapping.path, mmap_mode="r")
    except Exception as error:  # NumPy parses Python, which raises many kinds
        reason = str(error)[:200] or type(error).__name__
        raise FormatError(
            f"{mapping.path} is a truncated or corrupt .npy file: {reason}; save it again with "
            f"numpy.save"
        ) from None
    dtype = array.dtype
    if dtype.newbyteorder("<") not in DTYPES.values() or not dtype.isnative:
        raise FormatError(
            f"{mapping.path} has dtype {dtype}, which cannot be mapped; "
            f"save it again as little-endian numbers"
            f"{_V2_HINT if dtype == np.dtype('V2') else ''}"
        )
    if array.ndim not in (1, 2) or not array.flags.c_contiguous:
        raise FormatError(
            f"{mapping.path} must hold a vector or a matrix in C order, and its array of shape "
            f"{array.shape} is not; save it again with numpy.ascontiguousarray"
        )
    return array.shape, dtype, array.offset


class FeatureStore(MappedFile):
    """Rows of numbers, one per node, mapped and never loaded.

    In scripts for graphzero 0.2, ``filename=`` is the path, and ``node_id=`` the node of
    `get_data`.

    Parameters
    ----------
    path : path-like
        A ``.gd`` file, or an ``.npy`` file with a vector or a C-ordered matrix.

    Attributes
    ----------
    shape : tuple of int
        (num_nodes, feature_dim), (num_nodes,) for a vector, or more dimensions as built.
    dtype : numpy.dtype
        Of the stored numbers; bfloat16 is `graphzero.BFLOAT16`, which holds its bits.
    num_nodes : int
        Number of rows.
    feature_dim : int
        Numbers in a row; 1 for a vector.
    row_bytes : int
        Size of a row.
    origin : int
        Byte of the file where the rows begin.
    stored_order : tuple or None
        Fingerprint of the order of rows; None for the user's order.
    is_hot : bool
        Whether rows are stored in hot or presample order, the most used ones first.

    Raises
    ------
    FormatError
        If the file is truncated, not of this format, corrupt or of an unknown version.
    OSError
        If it cannot be opened.
    """

    def _read_header(self) -> None:
        if self.mapping.size >= 8 and self.mapping.read(0, 6) == _NPY_MAGIC:
            shape, dtype, origin = _npy_rows(self.mapping)
            self._have_rows(shape, dtype, origin)
            self.identity = (self.shape, str(self.dtype), self.mapping.size)
        else:
            self._read_gd_header()

    def _read_gd_header(self) -> None:
        header = _core.feature_header(self.mapping)
        self._take_header(header)
        rows, rank = self._sections.get("rows"), self._sections.get("node_rank")
        if rows is None:
            raise FormatError(f"{self.path} lacks the section 'rows'")
        num_nodes, width = header["num_nodes"], header["width"]
        is_vector = bool(header["flags"] & FLAG_VECTOR)
        # zeros in a shape do not make the rest of it possible
        fits = max(num_nodes, 1) * max(width, 1) <= MOST_COUNT // DTYPES[rows.dtype].itemsize
        if not fits or num_nodes * width != rows.count or (is_vector and width != 1):
            raise FormatError(
                f"{self.path} is corrupt (section 'rows' has {rows.count} elements for "
                f"{num_nodes} x {width}): build it again"
            )
        table = None
        if rank is not None:
            if rank.count != num_nodes or DTYPES[rank.dtype].str not in ("<u4", "<u8"):
                raise FormatError(f"{self.path}: section 'node_rank' does not fit {num_nodes} rows")
            table = (rank.offset, DTYPES[rank.dtype].itemsize == 8)
        shape = (num_nodes, *self._row_shape(width, is_vector))
        self._have_rows(shape, DTYPES[rows.dtype], rows.offset, table)

    def _row_shape(self, width: int, is_vector: bool) -> tuple[int, ...]:
        """The shape of a row: of more dimensions, it is a section of its own."""
        section = self._sections.get("row_shape")
        if section is None:
            return () if is_vector else (width,)
        is_shape = DTYPES[section.dtype].str == "<i8" and 2 <= section.count <= _MOST_ROW_DIMS
        data = self.mapping.read(section.offset, section.length) if is_shape else bytes(8)
        shape = tuple(np.frombuffer(data, "<i8").tolist())
        if min(shape) <= 0 or math.prod(shape) != width:
            raise FormatError(
                f"{self.path}: section 'row_shape' does not fit rows of {width} numbers: build "
                f"it again"
            )
        return shape

    def _have_rows(
        self,
        shape: tuple[int, ...],
        dtype: np.dtype[np.generic],
        origin: int,
        rank: tuple[int, bool] | None = None,  # offset and width of the user-id-to-row table
    ) -> None:
        self.shape, self.dtype = shape, dtype
        self.num_nodes, self.feature_dim = shape[0], math.prod(shape[1:])
        self.row_bytes, self.origin = self.feature_dim * dtype.itemsize, origin
        self.is_hot = rank is not None
        self._rows = _core.Rows(self.mapping, origin, self.row_bytes, self.num_nodes, rank)

    def __len__(self) -> int:
        return self.num_nodes

    def has_section(self, name: str) -> bool:
        """Whether a ``.gd`` file has a further section of this name."""
        return name in self._sections

    def read_section(self, name: str) -> RowArray | None:
        """A small further section of a ``.gd`` file; a copy, None if there is no such section.

        Raises
        ------
        FormatError
            If the section does not match its checksum.
        """
        section = self._sections.get(name)
        if section is None:
            return None
        data = self.mapping.read(section.offset, section.length)
        if zlib.crc32(data) != section.crc:
            raise FormatError(f"{self.path}: section '{name}' is corrupt")
        return np.frombuffer(data, DTYPES[section.dtype])

    def get_tensor(self, *, stored_order: bool = False) -> RowArray:
        """The whole matrix as a read-only view of the file; nothing is copied.

        Only booleans are read, because NumPy relies on bytes that are 0 or 1.

        Parameters
        ----------
        stored_order : bool
            Allow a view whose rows are in the order of the file (see Raises).

        Returns
        -------
        numpy.ndarray
            Of `shape` and `dtype`. It keeps the mapping alive.

        Raises
        ------
        ValueError
            If the file stores rows in another order, where row i is not node i, and
            `stored_order` is False. Use `gather`, or build with ``order="input"``.
        FormatError
            If the file is corrupt.
        """
        if self.is_hot and not stored_order:
            raise ValueError(
                f"{self.path} stores hot rows first: row i of a view is not node i. Use "
                f"gather(nodes), build with order='input', or pass stored_order=True"
            )
        rows = section_view(self.mapping, self.dtype, self.origin, self.shape)
        if self.dtype == np.bool_ and rows.view(np.uint8).max(initial=0) > 1:
            raise FormatError(f"{self.path} has booleans other than 0 and 1: build it again")
        return rows

    def get_data(self, node: int | None = None, *, node_id: int | None = None) -> RowArray:
        """The row of one node, (feature_dim,) or as built, a copy.

        Raises
        ------
        IndexError
            If the node is out of range.
        """
        row = self.gather([by_either_name("node", node, node_id)], num_threads=1)
        return row.reshape(self.shape[1:] or (1,))

    def gather(
        self,
        nodes: npt.ArrayLike,
        out: RowArray | None = None,
        num_threads: int | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
    ) -> RowArray:
        """Copies the rows of some nodes.

        Parameters
        ----------
        nodes : (n,) integers
            The user's ids, in any order; ids may repeat.
        out : (n, feature_dim) array, optional
            Contiguous array for the result, of its dtype ((n,) for a vector).
        num_threads : int, optional
            Default: all processors available to the process.
        dtype : dtype-like, optional
            float32, to convert rows while they are copied (rounded to nearest, ties to even).
            Default: the stored dtype.

        Returns
        -------
        (n, feature_dim) or (n,) array
            `out`, or a new one.

        Raises
        ------
        IndexError
            If a node is out of range.
        ValueError
            If `out` does not fit, or `dtype` is neither float32 nor the stored one.
        """
        ids = as_ids(nodes, self.num_nodes, "nodes")
        threads = as_threads(num_threads)
        return self.gather_stored(self._rows.to_stored(ids, threads), out, threads, dtype=dtype)

    def gather_stored(
        self,
        rows: IdArray,
        out: RowArray | None,
        num_threads: int,
        *,
        dtype: npt.DTypeLike | None = None,
    ) -> RowArray:
        """`gather` by row numbers of the file instead of ids; they must be in range."""
        shape = (rows.shape[0], *self.shape[1:])
        result_dtype, from_dtype = self.conversion(dtype)
        if out is None:
            out = _core.empty(shape, result_dtype)
        elif out.shape != shape or out.dtype != result_dtype or not out.flags.c_contiguous:
            raise ValueError(
                f"out must be a contiguous {dtype_name(result_dtype)} array of shape {shape}, "
                f"not {dtype_name(out.dtype)} of shape {out.shape}"
            )
        if out.size:
            self._rows.gather(rows, out.reshape(-1).view(np.uint8), num_threads, from_dtype)
        return as_booleans(out)

    def add_to(
        self,
        fills: _core.Fills,
        batch: int,
        rows: IdArray | _core.Fetched,
        out: npt.NDArray[np.uint8],
        from_dtype: int,
    ) -> None:
        """Has `fills` copy rows, by number of the file or as they were read; see `conversion`."""
        if isinstance(rows, _core.Fetched):
            fills.add_fetched(batch, rows, out, from_dtype)
        else:
            fills.add_rows(batch, self._rows, rows, out, from_dtype)

    def conversion(self, dtype: npt.DTypeLike | None) -> tuple[np.dtype[np.generic], int]:
        """How rows are converted to a dtype.

        Returns
        -------
        numpy.dtype
            Of the result.
        int
            Argument of `_core`: code of the stored dtype if it differs, else 0.

        Raises
        ------
        ValueError
            If it is neither float32 nor the stored dtype.
        """
        requested = self.dtype if dtype is None else as_dtype(dtype)
        if requested == self.dtype:
            return self.dtype, 0
        if requested != np.float32:
            raise ValueError(
                f"rows of {dtype_name(self.dtype)} are gathered unchanged or as float32, "
                f"not as {dtype_name(requested)}"
            )
        return requested, dtype_code(self.dtype)

    def to_stored(self, nodes: IdArray, num_threads: int = 1) -> IdArray:
        """Row numbers of the user's ids, which must be in range."""
        return self._rows.to_stored(nodes, num_threads)

    def read_ahead(
        self,
        rows: IdArray,
        *,
        gap_pages: int = 0,
        trust_mincore: bool = True,
        only_count: bool = False,
    ) -> tuple[int, int, int]:
        """Requests the pages of ascending row numbers from the kernel.

        Options are those of `_core.Mapping.willneed`: ``only_count=True`` requests none.

        Returns
        -------
        (int, int, int)
            Pages covered, pages that were missing, madvise calls made.
        """
        return self.mapping.willneed(
            rows, self.origin, self.row_bytes, gap_pages, trust_mincore, only_count
        )

    def request_rows(self, begin: int, end: int) -> None:
        """Asks the kernel to read the rows [begin, end) of the file, and returns at once."""
        first = self.origin
        request_range(self.mapping, first + begin * self.row_bytes, first + end * self.row_bytes)

    def __getitem__(self, nodes: Any) -> Any:
        """Rows by node id: one number, a slice, or an array of ids; always copies."""
        if isinstance(nodes, slice):
            begin, end, step = nodes.indices(self.num_nodes)
            return self.gather(np.arange(begin, end, step))
        if np.ndim(nodes) == 0:
            row = self.get_data(nodes)
            return row if len(self.shape) > 1 else row[0]
        return self.gather(nodes)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> RowArray:
        """All rows in the user's order: a copy of the whole file."""
        if copy is False:
            raise ValueError("an array of a FeatureStore is a copy; use get_tensor for a view")
        requested = self.dtype if dtype is None else np.dtype(dtype)
        # NumPy would treat the bits of a bfloat16 as an integer
        converted = np.float32 if self.dtype == BFLOAT16 != requested else None
        rows = self.gather(np.arange(self.num_nodes), dtype=converted)
        return rows.astype(requested, copy=False)

    def __repr__(self) -> str:
        return f"FeatureStore({self.path!r}, shape={self.shape}, dtype={dtype_name(self.dtype)})"


class StoredIds(FeatureStore):
    """The user's id of each stored node of a type, with the table of ranks: ``TYPE.ids.gd``."""

    def _read_header(self) -> None:
        super()._read_header()
        if not self.is_hot or self.dtype.str not in ("<u4", "<u8") or len(self.shape) != 1:
            raise FormatError(f"{self.path} has no ids of nodes: build the dataset again")

    def user_table(self) -> _core.IdTable:
        """Table of the user's ids by row number."""
        return self._rows.user_table()

    def to_user(self, stored: IdArray, num_threads: int = 1) -> IdArray:
        """The user's ids of row numbers, which must be in range.

        Raises
        ------
        FormatError
            If the file has an id that no node has.
        """
        return self._rows.to_user(stored, num_threads)


class SplitRows(FeatureStore):
    """Ids of the nodes of a split, or positions of its edges: ``split_NAME.gd``."""

    def _read_header(self) -> None:
        super()._read_header()
        if self.is_hot or self.dtype != np.int64 or len(self.shape) != 1:
            raise FormatError(
                f"section 'rows' of {self.path} is not a vector of int64: build the dataset again"
            )
        for section in map(self._sections.get, ("source", "target", "time")):  # of held-out edges
            if section and (section.count != len(self) or DTYPES[section.dtype].kind not in "iu"):
                raise FormatError(
                    f"{self.path}: section '{section.name}' does not fit {len(self)} edges: build "
                    f"the dataset again"
                )


class EdgeRows(FeatureStore):
    """One number for each stored edge, mapped from a section of a ``.gl`` file.

    Parameters
    ----------
    path : path-like
    section : str
        "weights" or "times".

    Raises
    ------
    FormatError
        If the file has no such section.
    """

    def __init__(self, path: str | os.PathLike[str] | _core.Mapping, section: str) -> None:
        self.section = section
        super().__init__(path)

    def _read_header(self) -> None:
        self._take_header(_core.CSR(self.mapping).header)
        rows = self._sections.get(self.section)
        if rows is None:
            raise FormatError(f"{self.path} has no section {self.section!r}: build it again")
        self._sections = {}  # whose order is that of nodes
        self._have_rows((rows.count,), DTYPES[rows.dtype], rows.offset)

    def __reduce__(self) -> tuple[object, ...]:
        open_file = partial(type(self), section=self.section)
        return reopen, (open_file, self.path, self.identity, self.mapping.held_at)
