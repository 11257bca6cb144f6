"""Tensors in files of ``torch.save`` and safetensors, mapped; and tensors in memory.

Only this module of the build imports torch, and only for such files: pickles are read with
``weights_only``, so that nothing in a file is executed.
"""

from __future__ import annotations

import os
import pickle
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphzero.ingest.sources.columns import Array, reading
from graphzero.ingest.sources.sparse_matrix import SparseMatrix, matrix_of
from graphzero.store.format import BFLOAT16

_MOST_UNMAPPED_BYTES = 64 << 20
_AGAIN = "Save its tensors again, as in torch.save({'edge_index': ...}, path)"
_MOST_DEPTH = 4  # of dictionaries within dictionaries


def is_sparse_tensor(value: object) -> bool:
    """Whether a value is a tensor of torch with a sparse layout."""
    return str(getattr(value, "layout", "")).startswith("torch.sparse")


def array_of_tensor(tensor: Any, name: str) -> Array:
    """The numbers of a dense tensor, not copied where they are in the processor's memory."""
    if isinstance(tensor, np.ndarray):  # as `tensors_in` finds them, too
        return tensor
    if is_sparse_tensor(tensor):
        raise ValueError(
            f"{name} is a sparse tensor: give a dense one, its to_dense(); or as the edges of a "
            f"build the tensor itself, as torch.load(path) returns it"
        )
    tensor = tensor.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":
        int16 = tensor[:0].short().dtype if tensor.ndim else tensor.short().dtype
        return np.asarray(tensor.contiguous().view(int16)).view(BFLOAT16)
    try:
        return np.asarray(tensor.resolve_conj().resolve_neg().numpy())
    except (TypeError, RuntimeError) as error:
        raise ValueError(f"{name} has dtype {tensor.dtype}, which is not read: {error}") from None


def matrix_of_tensor(tensor: Any, name: str) -> SparseMatrix:
    """A sparse tensor of two dimensions, not copied."""
    kind = str(tensor.layout).removeprefix("torch.sparse_")
    tensor = tensor.detach()
    parts: dict[str, Any] = {}
    if kind == "coo":
        parts = dict(zip(("row", "col"), tensor._indices(), strict=False))
        parts["data"] = tensor._values()
    elif kind in ("csr", "csc"):
        rows, columns = ("crow", "col") if kind == "csr" else ("ccol", "row")
        parts = {
            "indptr": getattr(tensor, f"{rows}_indices")(),
            "indices": getattr(tensor, f"{columns}_indices")(),
            "data": tensor.values(),
        }
    return matrix_of(name, kind, tensor.shape, lambda part: array_of_tensor(parts[part], name))


def open_tensor(value: Any, name: str) -> Array | SparseMatrix:
    """A tensor as an array, or as a sparse matrix."""
    return (matrix_of_tensor if is_sparse_tensor(value) else array_of_tensor)(value, name)


def tensors_in(path: Path) -> dict[str, Any]:
    """The tensors and NumPy arrays in a ``.pt`` or ``.safetensors`` file, by name.

    Those of dictionaries within dictionaries have names such as "paper/x", and the names of an
    edge type are joined by "__". A file that is one tensor has the name "".
    """
    if path.suffix.lower() != ".safetensors":
        return dict(_values_in(load_torch(path)))
    try:
        from safetensors.torch import load_file
    except ImportError:
        raise ImportError(f"{path} needs another package: pip install safetensors") from None
    with reading(path, "safetensors file"):
        return dict(load_file(path))


def _values_in(value: Any, name: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    import torch

    if isinstance(value, torch.Tensor | np.ndarray):
        yield name, value
    elif isinstance(value, Mapping) and depth <= _MOST_DEPTH:
        for key, inner in value.items():
            text = "__".join(map(str, key)) if isinstance(key, tuple) else str(key)
            yield from _values_in(inner, f"{name}/{text}" if name else text, depth + 1)


def load_torch(path: Path) -> Any:
    """What ``torch.save`` has written, its tensors mapped.

    Besides tensors and containers, NumPy's arrays are read.
    """
    import torch

    mapped = zipfile.is_zipfile(path)
    size = path.stat().st_size
    if mapped:  # but for NumPy's arrays, which are in the pickle
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
        size = sum(info.file_size for info in infos if info.filename.endswith("/data.pkl"))
    if size > _MOST_UNMAPPED_BYTES:
        raise ValueError(
            f"{path} has {size:,} bytes in a form that cannot be mapped, torch's old format or "
            f"NumPy arrays. {_AGAIN}"
        )
    allowed = torch.serialization.safe_globals(_numpy_constructors())
    with reading(path, "torch file"), allowed:
        try:
            return torch.load(
                os.fspath(path), map_location="cpu", weights_only=True, mmap=mapped or None
            )
        except pickle.UnpicklingError as error:
            class_name = str(error).partition("GLOBAL ")[2].partition(" was not")[0]
            if not class_name:
                raise
    raise ValueError(
        f"{path} has an object of {class_name}, and only tensors and NumPy arrays, also in "
        f"dictionaries, are read, so that no code in a file is executed. {_AGAIN}. A graph of PyG: "
        f"graphzero.pyg.from_data(torch.load(file, weights_only=False, mmap=True), folder)"
    )


def _numpy_constructors() -> list[Any]:
    """What the pickle of an array names; NumPy 2 renamed the module of the first."""
    reconstruct: Any = np.empty(0).__reduce__()[0]
    dtypes = {type(np.dtype(code)) for code in np.typecodes["All"]}
    modules = ("numpy.core.multiarray", "numpy._core.multiarray")
    names = [(reconstruct, f"{module}._reconstruct") for module in modules]
    return [*names, np.ndarray, np.dtype, *dtypes, bytes]  # of an empty array
