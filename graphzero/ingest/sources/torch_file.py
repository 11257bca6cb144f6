"""Tensors in files of ``torch.save``, mapped; and tensors in memory.

Only this module of the build imports torch, and only for such files: pickles are read with
``weights_only``, so that nothing in a file is executed.
"""

from __future__ import annotations

import errno
import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.sparse_matrix import SparseMatrix
from graphzero.store.format import BFLOAT16

__all__ = ["TorchFile", "array_of_tensor", "is_sparse_tensor", "load_torch", "matrix_of_tensor"]

_MOST_UNMAPPED_BYTES = 64 << 20
_PYG = "torch_geometric."


class _SeveralGraphs(Exception):
    pass


class _OfPyG:
    """Stands for a class of PyG, so that its tensors are found and none of its code is run."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        if isinstance(state, Mapping):
            self.__dict__.update(state)


def is_sparse_tensor(value: Any) -> bool:
    """Whether a value is a tensor of torch with a sparse layout."""
    return str(getattr(value, "layout", "")).startswith("torch.sparse")


def array_of_tensor(tensor: Any, name: str) -> npt.NDArray[Any]:
    """The numbers of a dense tensor, not copied where they are in the processor's memory.

    Raises
    ------
    ValueError
        If it is sparse, or NumPy has no such dtype.
    """
    if is_sparse_tensor(tensor):
        raise ValueError(f"{name} is a sparse tensor: give a dense one, such as {name}.to_dense()")
    tensor = tensor.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":
        int16 = tensor[:0].short().dtype if tensor.ndim else tensor.short().dtype
        return np.asarray(tensor.contiguous().view(int16)).view(BFLOAT16)
    try:
        return np.asarray(tensor.resolve_conj().resolve_neg().numpy())
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"{name} has dtype {tensor.dtype}, which is not read: {error}") from None


def matrix_of_tensor(tensor: Any, name: str) -> SparseMatrix:
    """A sparse tensor of two dimensions, not copied.

    Raises
    ------
    ValueError
        If it is not a matrix of such a kind.
    """
    kind = str(tensor.layout).removeprefix("torch.sparse_")
    if tensor.ndim != 2 or kind not in ("coo", "csr", "csc"):
        raise ValueError(
            f"{name} is a sparse tensor of layout {tensor.layout} and shape {tuple(tensor.shape)}: "
            f"edges are a matrix, tensor.to_sparse_csr()"
        )
    tensor = tensor.detach()
    if kind == "coo":
        first, second = tensor._indices()
        values = tensor._values()
    elif kind == "csr":
        first, second, values = tensor.crow_indices(), tensor.col_indices(), tensor.values()
    else:
        first, second, values = tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    shape = int(tensor.shape[0]), int(tensor.shape[1])
    arrays = [array_of_tensor(part, name) for part in (first, second, values)]
    return SparseMatrix(name, kind, shape, *arrays)


class TorchFile:
    """The tensors in a ``.pt`` file.

    Parameters
    ----------
    path : pathlib.Path

    Attributes
    ----------
    names : list of str
        Of the tensors; [""] if the file is one tensor. Those of dictionaries within dictionaries
        are joined by "/", as in "paper/x", and the names of an edge type by "__".

    Raises
    ------
    ValueError
        If the file is damaged, or has objects of other classes than tensors and containers.
    OSError
        If it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._tensors = dict(_tensors_in(load_torch(path)))
        except _SeveralGraphs as error:
            raise ValueError(f"{path} {error}") from None
        self.names = list(self._tensors)

    def describe(self, name: str) -> str:
        """Shape and dtype of a tensor, for messages."""
        tensor = self._tensors[name]
        return f"{tuple(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"

    def value(self, name: str) -> npt.NDArray[Any] | SparseMatrix:
        """A tensor as an array, mapped, or as a sparse matrix.

        Raises
        ------
        ValueError
            If it is of a kind that neither is.
        """
        label = f"{self.path}:{name}" if name else os.fspath(self.path)
        tensor = self._tensors[name]
        if is_sparse_tensor(tensor):
            return matrix_of_tensor(tensor, label)
        return array_of_tensor(tensor, label)


def load_torch(path: Path, classes: Sequence[Any] | None = None) -> Any:
    """What ``torch.save`` has written, its tensors mapped.

    Parameters
    ----------
    path : pathlib.Path
    classes : sequence of classes, optional
        What is read besides tensors and containers. Default: objects of PyG, which become objects
        without any code of theirs.

    Raises
    ------
    ValueError
        If the file is damaged, has other objects, or is large and cannot be mapped.
    OSError
        If it cannot be read.
    """
    import torch

    with open(path, "rb") as file:
        mapped = file.read(4) == b"PK\x03\x04"
    size = path.stat().st_size
    if not mapped and size > _MOST_UNMAPPED_BYTES:
        raise ValueError(
            f"{path} has {size:,} bytes in torch's old format, which cannot be mapped: save it "
            f"again with torch.save(torch.load(path), path)"
        )
    more = {"mmap": True} if mapped else {}
    try:
        if classes is None:
            classes = _inert_classes(path) if mapped else []
        with _allowed(classes):
            return torch.load(os.fspath(path), map_location="cpu", weights_only=True, **more)
    except pickle.UnpicklingError as error:
        raise ValueError(_refusal(path, str(error))) from None
    except MemoryError:
        raise
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # torch's reader at a file that ends too early
            raise ValueError(f"{path} is not a complete torch file: {error}") from None
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    except Exception as error:  # of torch's reader, which raises many kinds
        reason = str(error).partition(". ")[0][:200] or type(error).__name__
        raise ValueError(f"{path} is not a complete torch file: {reason}") from None


def _refusal(path: Path, text: str) -> str:
    at = text.find("Unsupported global")
    if at < 0:
        return f"{path} is not a complete torch file: {text[:200]}"
    found = text[at:].split(" was not")[0].split("GLOBAL ")[-1]
    return (
        f"{path} has an object of {found}, and only tensors, in dictionaries and in graphs of PyG, "
        f"are read, so that no code in a file is executed: save tensors, as in "
        f"torch.save({{'edge_index': ...}}, path)"
    )


def _allowed(classes: Sequence[Any]) -> AbstractContextManager[Any]:
    """Lets torch read some classes; before torch 2.5 it can read none."""
    import torch

    allow: Any = getattr(torch.serialization, "safe_globals", None)
    return nullcontext() if allow is None or not classes else allow(classes)


def _inert_classes(path: Path) -> list[Any]:
    """Classes that do nothing, in place of those of PyG that a file names."""
    import torch

    find: Any = getattr(torch.serialization, "get_unsafe_globals_in_checkpoint", None)
    names = [] if find is None else find(os.fspath(path))
    return [
        (type(name.rpartition(".")[2], (_OfPyG,), {}), name)
        for name in names
        if name.startswith(_PYG)
    ]


def _key(key: Any) -> str:
    return "__".join(map(str, key)) if isinstance(key, tuple) else str(key)


def _contents(value: Any) -> Mapping[Any, Any] | None:
    """What a container has by name; None for what is no container."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, tuple) and len(value) > 1:  # of PyG: tensors, and where graphs begin
        _require_one_graph(value[1])
        return _contents(value[0])
    inside = getattr(value, "__dict__", {})
    if "_mapping" in inside:
        mapping: Mapping[Any, Any] = inside["_mapping"]
        return mapping
    if "_node_store_dict" in inside:
        return {**inside["_node_store_dict"], **inside.get("_edge_store_dict", {})}
    if "_store" in inside:
        return _contents(inside["_store"])
    return None


def _require_one_graph(slices: Any) -> None:
    """Refuses several graphs, whose tensors stand one after the other with ids from 0 each."""
    for each in slices.values() if isinstance(slices, Mapping) else ():
        if isinstance(each, Mapping):
            _require_one_graph(each)
        elif hasattr(each, "__len__") and len(each) > 2:
            raise _SeveralGraphs(
                f"holds {len(each) - 1:,} graphs, and a dataset folder holds one: save the one "
                f"that you mean, as in torch.save(dataset[0].to_dict(), path)"
            )


def _tensors_in(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    import torch

    if isinstance(value, torch.Tensor):
        yield name, value
        return
    contents = _contents(value)
    if contents is None or depth > 4:
        return
    for key, inner in contents.items():
        yield from _tensors_in(inner, f"{name}/{_key(key)}" if name else _key(key), depth + 1)
