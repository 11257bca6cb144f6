"""Arrays of NumPy and tensors in ``.pt`` files, read where they are.

``torch.save`` pickles NumPy arrays as a whole, in one long text or bytes object, and torch's own
reader would hold a file of them in memory several times over. Here the long objects are skipped,
and streamed when they are needed. Nothing in a file is executed: of all names that a pickle may
call, only those of arrays and tensors are known, and they do nothing but describe an array.
"""

from __future__ import annotations

import codecs
import io
import math
import os
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np

from graphzero.ingest.sources.streamed_array import StreamedArray

__all__ = ["read_pickled_arrays"]

_LOCAL_HEADER = struct.Struct("<26xHH")
_LONG = 1 << 16  # of a text or bytes object: what is longer is skipped
_READ_BYTES = 1 << 18
_LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
_LEGACY_PICKLES = 3  # before the object: the magic number, the version, the machine
_STORAGES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "i1",
    "ByteStorage": "u1",
    "BoolStorage": "?",
}
_FOREIGN = "only arrays, in dictionaries and lists, are read, so that no code in a file is executed"

Open = Callable[[], Any]


@dataclass(frozen=True)
class _Skipped:
    """A long text or bytes object that stands in the file."""

    begin: int
    length: int
    is_text: bool  # each character is a byte, in UTF-8


@dataclass(frozen=True)
class _Bytes:
    """The bytes of an array: in memory, or in the file."""

    value: bytes | _Skipped


class _Dtype:
    """A dtype of NumPy, of which the byte order is known last."""

    def __init__(self, code: str, *_: Any) -> None:
        self.dtype = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """An array of NumPy, described."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


@dataclass(frozen=True)
class _Storage:
    """The memory of a tensor, described."""

    dtype: np.dtype[Any]
    member: str


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def _new_array(*_: Any) -> _Array:
    return _Array()


def _encoded(text: str | _Skipped, *_: Any) -> _Bytes:
    return _Bytes(text if isinstance(text, _Skipped) else text.encode("latin1"))


def _no_bytes() -> _Bytes:
    return _Bytes(b"")


def _new_tensor(storage: _Storage, offset: int, shape: Any, stride: Any, *_: Any) -> _Tensor:
    return _Tensor(storage, int(offset), tuple(shape), tuple(stride))


_CALLS: dict[tuple[str, str], Any] = {
    ("_codecs", "encode"): _encoded,
    ("__builtin__", "bytes"): _no_bytes,  # how an empty array is pickled
    ("numpy", "dtype"): _Dtype,
    ("numpy", "ndarray"): "ndarray",
    ("numpy.core.multiarray", "_reconstruct"): _new_array,
    ("numpy._core.multiarray", "_reconstruct"): _new_array,
    ("torch._utils", "_rebuild_tensor_v2"): _new_tensor,
    ("collections", "OrderedDict"): dict,
    **{("torch", name): name for name in _STORAGES},
}


_Unpickler: Any = pickle._Unpickler


class _Reader(_Unpickler):  # type: ignore[misc]
    """Unpickles with long objects skipped; the pure-Python class, whose opcodes can be changed."""

    dispatch: ClassVar[dict[int, Any]] = dict(_Unpickler.dispatch)

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self._file = file

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _CALLS[module, name]
        except KeyError:
            raise ValueError(f"has an object of {module}.{name}, and {_FOREIGN}") from None

    def persistent_load(self, pid: Any) -> _Storage:
        kind, storage, member = pid[0], pid[1], pid[2]
        if kind != "storage" or storage not in _STORAGES:
            raise ValueError(f"has a tensor of {storage}, which is not read")
        return _Storage(np.dtype(_STORAGES[storage]), str(member))

    def _long(self, width: str, is_text: bool) -> None:
        (length,) = struct.unpack(width, self.read(struct.calcsize(width)))
        in_frame = getattr(self._unframer, "current_frame", None) is not None
        if length > _LONG and not in_frame:
            found: Any = _Skipped(self._file.tell(), length, is_text)
            self._file.seek(length, os.SEEK_CUR)
            self.append(found if is_text else _Bytes(found))
            return
        data = self.read(length)
        self.append(str(data, "utf-8", "surrogatepass") if is_text else _Bytes(bytes(data)))

    def _text(self) -> None:
        self._long("<I", True)

    def _text8(self) -> None:
        self._long("<Q", True)

    def _bytes1(self) -> None:
        self._long("<B", False)

    def _bytes4(self) -> None:
        self._long("<I", False)

    def _bytes8(self) -> None:
        self._long("<Q", False)

    dispatch[pickle.BINUNICODE[0]] = _text
    dispatch[pickle.BINUNICODE8[0]] = _text8
    dispatch[pickle.SHORT_BINBYTES[0]] = _bytes1
    dispatch[pickle.BINBYTES[0]] = _bytes4
    dispatch[pickle.BINBYTES8[0]] = _bytes8


class _Decoder:
    """The bytes of a long text, whose characters are bytes."""

    def __init__(self, file: BinaryIO, length: int) -> None:
        self._file, self._left = file, length
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._ready = b""

    def read(self, count: int) -> bytes:
        """At most so many bytes; none at the end."""
        while not self._ready and self._left:
            data = self._file.read(min(_READ_BYTES, self._left))
            if not data:
                break
            self._left -= len(data)
            self._ready = self._decoder.decode(data).encode("latin1")
        found, self._ready = self._ready[:count], self._ready[count:]
        return found


@dataclass(frozen=True)
class _Place:
    """The pickle in a file: all of it, or a member of a zip file."""

    path: Path
    member: str | None

    def begin(self, beside: str | None = None) -> int:
        """Where the pickle begins, or another member beside it."""
        if self.member is None:
            return 0
        name = self.member if beside is None else self.member[: -len("data.pkl")] + beside
        with open(self.path, "rb") as file:
            with zipfile.ZipFile(file) as archive:
                info = archive.getinfo(name)
            if info.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{self.path}:{name} is compressed, which torch.save never does")
            file.seek(info.header_offset)
            name_bytes, extra_bytes = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            return info.header_offset + _LOCAL_HEADER.size + int(name_bytes) + int(extra_bytes)

    @contextmanager
    def open(self, begin: int) -> Iterator[BinaryIO]:
        """The file, from a byte: what zipfile opens reads all that is skipped."""
        with open(self.path, "rb") as file:
            file.seek(begin)
            yield file


@contextmanager
def _bytes_of(place: _Place, data: bytes | _Skipped) -> Iterator[Any]:
    if isinstance(data, bytes):
        yield io.BytesIO(data)
        return
    with place.open(data.begin) as file:
        yield _Decoder(file, data.length) if data.is_text else file


@contextmanager
def _storage_of(place: _Place, tensor: _Tensor) -> Iterator[Any]:
    storage = tensor.storage
    begin = place.begin(f"data/{storage.member}") + tensor.offset * storage.dtype.itemsize
    with place.open(begin) as file:
        yield file


def _of_array(array: _Array, place: _Place, label: str) -> StreamedArray:
    try:
        _, shape, dtype, fortran_order, data = array.state
    except (TypeError, ValueError):
        raise ValueError(f"{label} is not a complete array") from None
    if not isinstance(data, _Bytes) or not isinstance(dtype, _Dtype) or dtype.dtype.hasobject:
        raise ValueError(f"{label} holds Python objects, which are not read: save numbers")
    opened = partial(_bytes_of, place, data.value)
    return StreamedArray(label, tuple(shape), dtype.dtype, bool(fortran_order), opened)


def _of_tensor(tensor: _Tensor, place: _Place, label: str) -> StreamedArray:
    steps = [math.prod(tensor.shape[i + 1 :]) for i in range(len(tensor.shape))]
    moved = [(n, a) for n, a, b in zip(tensor.shape, tensor.stride, steps, strict=True) if a != b]
    if place.member is None or any(n > 1 for n, _ in moved):
        raise ValueError(
            f"{label} is a tensor that cannot be read in pieces: save it again with torch.save, as "
            f"tensor.contiguous()"
        )
    opened = partial(_storage_of, place, tensor)
    return StreamedArray(label, tensor.shape, tensor.storage.dtype, False, opened)


def _resolved(value: Any, place: _Place, label: str) -> Any:
    if isinstance(value, _Array):
        return _of_array(value, place, label)
    if isinstance(value, _Tensor):
        return _of_tensor(value, place, label)
    if isinstance(value, Mapping):
        return {str(k): _resolved(v, place, f"{label}:{k}") for k, v in value.items()}
    if isinstance(value, list | tuple) and not all(isinstance(each, str) for each in value):
        return [_resolved(each, place, f"{label}[{i}]") for i, each in enumerate(value)]
    return value


def _place(path: Path) -> _Place:
    with open(path, "rb") as file:
        if file.read(4) != b"PK\x03\x04":
            return _Place(path, None)
        with zipfile.ZipFile(file) as archive:
            names = [name for name in archive.namelist() if name.endswith("/data.pkl")]
    if len(names) != 1:
        raise ValueError("has no data.pkl")
    return _Place(path, names[0])


def _load(place: _Place) -> Any:
    with place.open(place.begin()) as file:
        if place.member is None:
            if _Reader(file).load() != _LEGACY_MAGIC:
                raise ValueError("has not been written by torch.save")
            for _ in range(_LEGACY_PICKLES - 1):
                _Reader(file).load()
        return _Reader(file).load()


def read_pickled_arrays(path: Path) -> Any:
    """What ``torch.save`` has written: arrays in dictionaries and lists, and texts.

    Parameters
    ----------
    path : pathlib.Path

    Returns
    -------
    dict, list or StreamedArray
        With a `StreamedArray` for each array of NumPy and each tensor; lists of texts as they are.

    Raises
    ------
    ValueError
        If the file is damaged, or has objects of other kinds.
    OSError
        If it cannot be read.
    """
    try:
        place = _place(path)
        return _resolved(_load(place), place, os.fspath(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}".replace(f"{path}: {path}", f"{path}")) from None
    except (OSError, MemoryError):
        raise
    except Exception as error:  # a damaged pickle raises errors of many kinds
        reason = str(error)[:200] or type(error).__name__
        raise ValueError(f"{path} is not a complete torch file: {reason}") from None
