"""Which kind of array, or sparse matrix, a value is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graphzero.ingest.sources.array_table import load_numpy
from graphzero.ingest.sources.files02 import features_of_02, graph_of_02
from graphzero.ingest.sources.members import CONTAINERS, choose_member, split_member
from graphzero.ingest.sources.npz_file import NpzFile
from graphzero.ingest.sources.safetensors_file import SafetensorsFile
from graphzero.ingest.sources.sparse_matrix import (
    SparseMatrix,
    is_scipy,
    is_scipy_file,
    of_scipy,
    of_scipy_file,
)
from graphzero.ingest.sources.streamed_array import AnyArray, StreamedArray
from graphzero.store.format import BFLOAT16

__all__ = ["is_array_file", "open_array", "open_edge_array", "open_id_array"]

_SUFFIXES = (".npy", ".gl", ".gd", *CONTAINERS)


def is_array_file(value: Any) -> bool:
    """Whether a value is the path of a file of arrays, perhaps with the name of an array in it."""
    if not isinstance(value, str | os.PathLike):
        return False
    path, member = split_member(os.fspath(value))
    return member is not None or path.suffix.lower() in _SUFFIXES


def open_array(
    value: Any, what: str, names: Sequence[str] = (), *, dtype: np.dtype[Any] | None = None
) -> AnyArray:
    """The array that a value is or names: mapped, streamed, or in memory.

    Parameters
    ----------
    value : path, array, tensor or list
        A file of arrays, with the array that is meant behind a colon: ``"data.npz:x"``.
    what : str
        For messages.
    names : sequence of str
        Names of an array that is meant if the value has none, from `known_names`.
    dtype : numpy.dtype, optional
        What it is to become: two bytes without a meaning, as NumPy saves bfloat16, are taken for
        it.

    Raises
    ------
    ValueError
        If there is no such array of numbers, the file is damaged, or it is a sparse matrix.
    OSError
        If the file cannot be read.
    """
    found = _open(value, what, names)
    if isinstance(found, SparseMatrix):
        raise ValueError(
            f"{found.name} is a sparse matrix, and {what} are stored dense: give matrix.toarray(), "
            f"or its rows in pieces, (matrix[i : i + 1000].toarray() for i in range(0, n, 1000))"
        )
    return _of_numbers(found, _name_of(value, what), dtype)


def open_edge_array(value: Any, what: str, names: Sequence[str]) -> AnyArray | SparseMatrix:
    """`open_array` for edges, which a sparse matrix may be."""
    found = _open(value, what, names)
    if isinstance(found, SparseMatrix):
        return found
    return _of_numbers(found, _name_of(value, what), None)


def open_id_array(value: Any, what: str, names: Sequence[str]) -> AnyArray | SparseMatrix:
    """`open_edge_array` for ids as they are: integers of any type, or texts; also a mask.

    Raises
    ------
    ValueError
        If there is no such array, the file is damaged, or the values are none of these.
    OSError
        If the file cannot be read.
    """
    found = _open(value, what, names)
    if isinstance(found, SparseMatrix):
        return found
    if isinstance(value, list | tuple) and found.dtype.kind == "f":
        found = np.asarray(value, dtype=object)  # integers of 2^63 and more beside others
    elif found.dtype.kind == "T":  # NumPy's texts of any length
        found = np.asarray(found, dtype=object)
    if found.dtype.kind not in "iubUO" and len(found):
        name = _name_of(value, what)
        raise ValueError(f"{name} has dtype {found.dtype}: ids must be integers or texts")
    return found


def _name_of(value: Any, what: str) -> str:
    return os.fspath(value) if isinstance(value, str | os.PathLike) else what


def _open(value: Any, what: str, names: Sequence[str]) -> AnyArray | SparseMatrix:
    if isinstance(value, str | os.PathLike):
        return _open_file(value, names)
    if is_scipy(value):
        return of_scipy(value, what)
    if type(value).__module__.partition(".")[0] == "torch" or hasattr(value, "detach"):
        from graphzero.ingest.sources import torch_file

        if torch_file.is_sparse_tensor(value):
            return torch_file.matrix_of_tensor(value, what)
        return torch_file.array_of_tensor(value, what)
    return value if isinstance(value, StreamedArray) else np.asarray(value)


def _open_file(value: str | os.PathLike[str], names: Sequence[str]) -> AnyArray | SparseMatrix:
    path, member = split_member(value)
    suffix = path.suffix.lower()
    if suffix == ".npz":
        archive = NpzFile(path)
        if member is None and is_scipy_file(archive):
            return of_scipy_file(archive)
        return archive.array(_chosen(path, archive, member, names))
    if suffix in (".pt", ".pth"):
        from graphzero.ingest.sources.torch_file import TorchFile

        tensors = TorchFile(path)
        if tensors.names == [""] and member is None:
            return tensors.value("")
        return tensors.value(_chosen(path, tensors, member, names))
    if suffix == ".safetensors":
        file = SafetensorsFile(path)
        return file.array(_chosen(path, file, member, names))
    if suffix == ".gl":
        return graph_of_02(path)
    if suffix == ".gd":
        return features_of_02(path)
    return load_numpy(path)


def _chosen(path: Path, file: Any, member: str | None, names: Sequence[str]) -> str:
    return choose_member(os.fspath(path), file.names, member, names, file.describe)


def _of_numbers(array: AnyArray, name: str, dtype: np.dtype[Any] | None) -> AnyArray:
    if array.dtype == "V2":
        # np.save stores ml_dtypes' bfloat16 like this, and any other dtype of two bytes.
        if dtype != BFLOAT16:
            raise ValueError(
                f"{name} has dtype |V2, two bytes of unknown meaning: if they are bfloat16, "
                f"pass feature_dtype='bfloat16'"
            )
        return array.view(BFLOAT16)
    if array.dtype == BFLOAT16 or array.dtype.name == "bfloat16":
        return array.view(BFLOAT16)
    if array.dtype.kind not in "iufb":
        hint = "; give iter(...) of what yields arrays" if array.dtype == object else ""
        raise ValueError(f"{name} has dtype {array.dtype}: it must hold numbers{hint}")
    if isinstance(array, StreamedArray) and array.ndim == 0:
        raise ValueError(f"{name} is a single number")
    return array
