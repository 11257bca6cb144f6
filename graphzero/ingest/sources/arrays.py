"""Arrays in memory and in files: mapped, or written to a temporary file once."""

from __future__ import annotations

import math
import os
import struct
import zipfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from graphzero.ingest.sort import bytes_of, new_spool
from graphzero.ingest.sources.columns import (
    CONTAINERS,
    Array,
    DType,
    chunks_of,
    is_chunks,
    is_scipy,
    reading,
    split_member,
)
from graphzero.ingest.sources.sparse_matrix import (
    SparseMatrix,
    matrix_of,
    matrix_of_parts,
    matrix_of_scipy,
)
from graphzero.ingest.sources.tables import note_input
from graphzero.store.format import BFLOAT16, MAGIC

_ROLES: dict[str, tuple[str, ...]] = {
    "edge_index": ("edge_index", "edges"),
    "x": ("x", "features", "feat", "node_feat"),
    "y": ("y", "labels", "label", "node_label"),
    "edge_weight": ("edge_weight", "weight", "weights"),
    "edge_time": ("edge_time", "timestamp", "time"),
    "edge_attr": ("edge_attr", "edge_feat"),
}


# --- which array of a file that has several: "data.npz:edge_index"


def known_names(role: str, of: str = "") -> tuple[str, ...]:
    """Names of an array in a file that are taken for an attribute, a split or the edges.

    `role` is "edge_index", or the name of an attribute or a split of `of`: "node", "edge", "split".
    """
    if of == "split":
        return role, f"{role}_idx", f"{role}_index", f"{role}_mask"
    return _ROLES.get(role, (role, f"{of}_{role}") if of else (role,))


@dataclass(frozen=True)
class StoredArray:
    """An array in a file of several; `read` maps it, or spools it."""

    file: Path
    name: str
    shape: tuple[int, ...]
    dtype: DType | str  # of torch, its name
    read: Callable[[], Any]

    @property
    def label(self) -> str:
        """How the user names it."""
        return f"{self.file}:{self.name}"


def _chosen_array(
    file: Path, arrays: Sequence[StoredArray], member: str | None, wanted: Sequence[str]
) -> StoredArray:
    """The array to read: the one that the user names, else the one of a `wanted` name."""
    if not arrays:
        raise ValueError(f"{file} holds no arrays")
    names = [array.name for array in arrays]
    listed = ", ".join(f"{array.name} ({array.shape} {array.dtype})" for array in arrays)
    if member is not None:
        if names.count(member) == 1:
            return arrays[names.index(member)]
        raise ValueError(f"{file} has not one array {member!r}; it has {listed:.1000}")
    fitting = [array for array in arrays if array.name in wanted]
    others = {name for role in _ROLES.values() for name in role} - set(wanted)
    if len(fitting) == 1:
        return fitting[0]
    if len(names) == 1 and names[0] not in others:
        return arrays[0]
    raise ValueError(f"{file} has {listed:.1000}: name the array, as in {file}:{names[0]}")


# --- .npy


def load_npy(path: Path) -> Array:
    """The array of a ``.npy`` file, of any dtype but objects, mapped."""
    with reading(path, "NumPy file of numbers"):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        if not isinstance(array, np.ndarray):
            raise ValueError("it holds several arrays")
        return array


# --- .npz

_NAME_LENGTHS, _LOCAL_HEADER_BYTES = 26, 30  # in front of a member of a zip file
_READ_BYTES = 1 << 18
_NPY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def npz_arrays(path: Path) -> list[StoredArray]:
    """The arrays of a ``.npz`` file, in its order."""
    with reading(path, ".npz file"):
        archive = zipfile.ZipFile(path)
    with archive:
        infos = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        return [_npz_array(path, archive, info) for info in infos]


def _npz_array(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> StoredArray:
    name = info.filename.removesuffix(".npy")
    label = f"{path}:{name}"
    with reading(label, "NumPy array"), archive.open(info) as file:
        shape, fortran_order, dtype = _NPY_HEADERS[np.lib.format.read_magic(file)](file)
        begin = file.tell()
    size = math.prod(shape) * dtype.itemsize
    order: Literal["C", "F"] = "F" if fortran_order else "C"

    def read() -> Array:
        with reading(label, "NumPy array"):
            if begin + size != info.file_size:
                raise ValueError(f"it describes {begin + size:,} bytes, not {info.file_size:,}")
            if not size:
                return np.empty(shape, dtype)
            if info.compress_type == zipfile.ZIP_STORED:
                at = _begin_of_member(path, info) + begin
                return np.memmap(path, dtype, "r", at, shape, order)
            with (
                zipfile.ZipFile(path) as archive,
                archive.open(info) as file,
                closing(new_spool()) as spool,
            ):
                file.read(begin)
                while data := file.read(_READ_BYTES):
                    spool.append(np.frombuffer(data, np.uint8))
                return spool.array().view(dtype).reshape(shape, order=order)

    return StoredArray(path, name, shape, dtype, read)


def _begin_of_member(path: Path, info: zipfile.ZipInfo) -> int:
    """Where the bytes of a member begin that is not compressed."""
    with open(path, "rb") as file:
        file.seek(info.header_offset + _NAME_LENGTHS)
        lengths = struct.unpack("<HH", file.read(4))
    return info.header_offset + _LOCAL_HEADER_BYTES + int(sum(lengths))


# --- files of graphzero 0.2, as 0.2.0 wrote them
#
# A .gl has "graphlit" and seven integers: the bytes of indptr and of indices, where each begins,
# nodes, edges, and whether there are weights; then these three, each from a multiple of 64. A .gd
# has "GZDATA26", a 0 and a dtype code of 4 bytes each, rows and columns, then the rows.

_MAGIC_02 = {".gl": b"graphlit", ".gd": b"GZDATA26"}
_DTYPES_02 = {0: "<i4", 1: "<i8", 2: "<f4", 3: "<f8"}


def _open_02(path: Path, suffix: str) -> Array | SparseMatrix:
    def mapped(dtype: str, begin: int, *shape: int) -> Array:
        return np.memmap(path, dtype, "r", begin, shape) if all(shape) else np.empty(shape, dtype)

    with reading(path, f"{suffix} file of graphzero 0.2"):
        head = np.fromfile(path, "<i8", 8 if suffix == ".gl" else 4)
        if head[:1].tobytes() in MAGIC.values():
            raise ValueError(
                "it is of this version, and part of a dataset: graphzero.open opens its folder, "
                "and graphzero.reorder writes it in another order"
            )
        if head[:1].tobytes() != _MAGIC_02[suffix]:
            raise ValueError("it begins with other bytes")
        if suffix == ".gd":
            num_rows, width = head[2:4].tolist()
            return mapped(_DTYPES_02[head.view("<u4")[3]], 32, num_rows, width)
        *sizes, nodes, edges, weighted = head[1:].tolist()
        begin = 64 + -(-8 * (nodes + 1) // 64) * 64
        if sizes != [8 * (nodes + 1), 8 * edges, 64, begin]:
            raise ValueError("its header contradicts itself")
        parts = {"indptr": mapped("<i8", 64, nodes + 1), "indices": mapped("<u8", begin, edges)}
        if weighted:
            parts["data"] = mapped("<f4", begin + -(-8 * edges // 64) * 64, edges)
    return matrix_of(os.fspath(path), "csr", (nodes, nodes), parts.get)


# --- which array a value is

_OF_TEXTS = (
    ". For node ids that are texts, ids='map'; for classes that are texts, "
    "numpy.unique(labels, return_inverse=True)[1]; for what yields arrays, iter(...) of it"
)


def open_array(
    value: Any, what: str, names: Sequence[str] = (), dtype: DType | None = None
) -> Array:
    """The array that a value is or names: in memory or mapped.

    Parameters
    ----------
    value : path, array, tensor or list
        A file of arrays, with the array that is meant behind a colon: ``"data.npz:x"``.
    what : str
        For messages.
    names : sequence of str
        Names of an array that is meant if the value has none, from `known_names`.
    dtype : numpy.dtype, optional
        What it is to become: as bfloat16 it may have two bytes without a meaning, which is how
        NumPy saves it.
    """
    array = open_edge_array(value, what, names, dtype)
    if isinstance(array, SparseMatrix):
        raise ValueError(
            f"{array.name} is a sparse matrix, and {what} are stored dense: give matrix.toarray() "
            f"(of torch: to_dense()), or its rows in pieces, "
            f"(matrix[i : i + 1000].toarray() for i in range(0, n, 1000))"
        )
    return array


def open_edge_array(
    value: Any, what: str, names: Sequence[str], dtype: DType | None = None
) -> Array | SparseMatrix:
    """`open_array` for edges, which a sparse matrix may be."""
    array = _open(value, what, names)
    if isinstance(array, SparseMatrix):
        return array
    is_bare = array.dtype == "V2"  # np.save stores ml_dtypes' bfloat16 so
    if array.dtype == BFLOAT16 or array.dtype.name == "bfloat16" or (is_bare and dtype == BFLOAT16):
        return array.view(BFLOAT16)
    if array.dtype.kind in "iufb":
        return array
    hint = ": it must hold numbers" + (_OF_TEXTS if array.dtype.kind in "OSTU" else "")
    if is_bare:
        view = "feature_dtype='bfloat16', or array.view([('bfloat16', '<u2')])"
        hint = f", which has no meaning: if these are bfloat16, give {view}"
    raise ValueError(f"{_name_of(value, what)} has dtype {array.dtype}{hint}")


def open_id_array(value: Any, what: str, names: Sequence[str]) -> Array:
    """`open_array` for ids as they are: integers of any type, or texts; also a mask."""
    array = _open(value, what, names)
    if isinstance(array, SparseMatrix):
        raise ValueError(
            f"{array.name} is a sparse matrix, whose ids are its rows and columns, from 0: leave "
            f"out ids='map', or give ids"
        )
    if isinstance(value, list | tuple) and array.dtype.kind == "f":
        array = np.asarray(value, dtype=object)  # integers of 2^63 and more beside others
    elif array.dtype.kind == "T":  # NumPy's texts of any length
        array = np.asarray(array, dtype=object)
    if array.dtype.kind not in "iubUO" and len(array):
        name = _name_of(value, what)
        raise ValueError(f"{name} has dtype {array.dtype}: ids must be integers or texts")
    return array


def _name_of(value: object, what: str) -> str:
    return os.fspath(value) if isinstance(value, str | os.PathLike) else what


def is_tensor(value: object) -> bool:
    """Whether it is a tensor of torch, which may not be installed."""
    return type(value).__module__.partition(".")[0] == "torch" or hasattr(value, "detach")


def _open(value: Any, what: str, names: Sequence[str]) -> Array | SparseMatrix:
    if isinstance(value, str | os.PathLike):
        return _open_array_file(value, names)
    if is_chunks(value):
        return _array_of(value, what)
    if is_scipy(value):
        return matrix_of_scipy(value, what)
    if is_tensor(value):
        from graphzero.ingest.sources import torch_file

        return torch_file.open_tensor(value, what)
    if any(hasattr(type(value), name) for name in ("columns", "column_names")):  # would be lost
        raise ValueError(
            f"{what} is a {type(value).__name__}, whose columns have names, and it is not read as "
            f"a table here: write it to a Parquet file, or give the values as an array"
        )
    return np.asarray(value)


def _open_array_file(value: str | os.PathLike[str], names: Sequence[str]) -> Array | SparseMatrix:
    path, member = split_member(value)
    note_input(path)
    suffix = path.suffix.lower()
    if suffix in _MAGIC_02:
        return _open_02(path, suffix)
    if suffix not in CONTAINERS:
        return load_npy(path)
    arrays = npz_arrays(path) if suffix == ".npz" else _torch_arrays(path)
    parts = {array.name: array.read for array in arrays}
    if member is None and {"format", "shape", "data"} <= parts.keys():
        return matrix_of_parts(os.fspath(path), parts)
    chosen: Array | SparseMatrix = _chosen_array(path, arrays, member, names).read()
    return chosen


def _torch_arrays(path: Path) -> list[StoredArray]:
    from graphzero.ingest.sources import torch_file

    arrays = []
    for name, value in torch_file.tensors_in(path).items():
        read = partial(torch_file.open_tensor, value, f"{path}:{name}" if name else str(path))
        dtype = str(value.dtype).removeprefix("torch.")
        arrays.append(StoredArray(path, name, tuple(value.shape), dtype, read))
    return arrays


# --- iterators of chunks of rows


def _array_of(chunks: Any, name: str) -> Array:
    first: Array | None = None
    rows = 0
    with closing(new_spool()) as spool:
        for number, chunk in enumerate(chunks_of(chunks, name)):
            where = f"{name}, chunk {number}"
            array = np.empty(()) if isinstance(chunk, str) else open_array(chunk, where)
            if array.ndim == 0:
                raise ValueError(f"{where} is {chunk!r}: yield arrays of many rows")
            if array.dtype.names is None:
                array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            first = array[:0] if first is None else first
            if (array.dtype, array.shape[1:]) != (first.dtype, first.shape[1:]):
                raise ValueError(
                    f"{where} has dtype {array.dtype} and rows of shape {array.shape[1:]}, and the "
                    f"chunks before it {first.dtype} and {first.shape[1:]}: all must be alike"
                )
            spool.append(bytes_of(array))
            rows += len(array)
        if first is None:
            raise ValueError(f"{name} is an iterator without any chunk")
        return spool.array().view(first.dtype).reshape((rows, *first.shape[1:]))
