"""Arrays in ``.npz`` files, read where they are: mapped, or streamed if they are compressed."""

from __future__ import annotations

import errno
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.streamed_array import AnyArray, StreamedArray

__all__ = ["NpzFile"]

_LOCAL_HEADER = struct.Struct("<4s22xHH")
_ENCRYPTED = 1
_SMALL_BYTES = 4096


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Turns what zipfile and NumPy raise for a damaged file into one kind of error."""
    try:
        yield
    except (EOFError, zipfile.BadZipFile, zlib.error, struct.error) as error:
        reason = str(error) or "it ends too early"
        raise ValueError(f"{name} is damaged or incomplete: {reason}") from None
    except (NotImplementedError, RuntimeError) as error:
        raise ValueError(f"{name} cannot be read: {error}") from None
    except OSError as error:
        if error.errno in (None, errno.EINVAL):  # a seek to where nothing can be
            raise ValueError(f"{name} is damaged or incomplete: {error}") from None
        raise OSError(error.errno, error.strerror, name) from None


class _Stream:
    """A member of a zip file, with errors that name it."""

    def __init__(self, file: Any, name: str) -> None:
        self._file, self._name = file, name

    def read(self, count: int) -> bytes:
        """At most so many bytes; none at the end."""
        with _named(self._name):
            data: bytes = self._file.read(count)
            return data


class NpzFile:
    """The arrays of a ``.npz`` file.

    Parameters
    ----------
    path : pathlib.Path

    Attributes
    ----------
    names : list of str
        Of the arrays, in the order of the file.

    Raises
    ------
    ValueError
        If it is not a complete zip file.
    OSError
        If it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._headers: dict[str, tuple[tuple[int, ...], bool, np.dtype[Any], int]] = {}
        with self._zip() as archive:
            infos = archive.infolist()
        self._infos = {info.filename[:-4]: info for info in infos if info.filename[-4:] == ".npy"}
        self.names = [info.filename[:-4] for info in infos if info.filename[-4:] == ".npy"]

    def describe(self, name: str) -> str:
        """Shape and dtype of an array, for messages."""
        try:
            shape, _, dtype, _ = self._header(name)
        except ValueError:
            return "damaged"
        return f"{shape} {dtype}"

    def array(self, name: str) -> AnyArray:
        """An array: mapped, or as a stream if it is compressed.

        Raises
        ------
        ValueError
            If it is damaged or encrypted, or holds Python objects.
        """
        label, info = self._label(name), self._infos[name]
        shape, fortran_order, dtype, length = self._header(name)
        if dtype.hasobject:
            raise ValueError(f"{label} holds Python objects, which are not read: save numbers")
        size = length + math.prod(shape) * dtype.itemsize
        if size != info.file_size:
            raise ValueError(
                f"{label} is damaged: its header describes {size:,} bytes, and it has "
                f"{info.file_size:,}"
            )
        if info.compress_type == zipfile.ZIP_STORED:
            return self._mapped(label, info, length, shape, fortran_order, dtype)
        return StreamedArray(label, shape, dtype, fortran_order, partial(self._open, name, length))

    def value(self, name: str) -> npt.NDArray[Any]:
        """A small array, such as the shape of a matrix, in memory.

        Raises
        ------
        ValueError
            If it is damaged, or not small.
        """
        label = self._label(name)
        shape, _, dtype, length = self._header(name)
        count = math.prod(shape)
        if dtype.hasobject or not 0 < count * dtype.itemsize <= _SMALL_BYTES:
            raise ValueError(f"{label} has shape {shape} and dtype {dtype}, which is not expected")
        with self._open(name, length) as stream:
            data = stream.read(count * dtype.itemsize)
        if len(data) != count * dtype.itemsize:
            raise ValueError(f"{label} is truncated: it ends before its array does")
        return np.frombuffer(data, dtype).reshape(shape)

    def _label(self, name: str) -> str:
        return f"{os.fspath(self.path)}:{name}"

    @contextmanager
    def _zip(self) -> Iterator[zipfile.ZipFile]:
        with open(self.path, "rb") as file:
            try:
                with _named(os.fspath(self.path)):
                    archive = zipfile.ZipFile(file)
            except (ValueError, OverflowError) as error:
                raise ValueError(f"{self.path} is not a complete .npz file: {error}") from None
            with archive:
                yield archive

    @contextmanager
    def _open(self, name: str, skipped: int = 0) -> Iterator[BinaryIO]:
        """A stream from a byte of the member."""
        label, info = self._label(name), self._infos[name]
        if info.flag_bits & _ENCRYPTED:
            raise ValueError(f"{label} is encrypted: unpack it with its password, and save it anew")
        with self._zip() as archive:
            with _named(label):
                file = archive.open(info)
            with file:
                stream = _Stream(file, label)
                stream.read(skipped)
                yield stream  # type: ignore[misc]

    def _header(self, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
        """Shape, order, dtype and length of the ``.npy`` header."""
        if name not in self._headers:
            with self._open(name) as stream:
                self._headers[name] = _npy_header(stream, self._label(name))
        return self._headers[name]

    def _mapped(
        self,
        label: str,
        info: zipfile.ZipInfo,
        length: int,
        shape: tuple[int, ...],
        fortran_order: bool,
        dtype: np.dtype[Any],
    ) -> npt.NDArray[Any]:
        with open(self.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(info.header_offset)
            head = file.read(_LOCAL_HEADER.size)
        if len(head) < _LOCAL_HEADER.size or head[:4] != b"PK\x03\x04":
            raise ValueError(f"{label} is damaged: there is no zip entry where it should begin")
        _, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(head)
        begin = info.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes
        if info.compress_size != info.file_size or begin + info.file_size > size:
            raise ValueError(f"{label} is damaged: it reaches beyond the end of the file")
        order: Any = "F" if fortran_order else "C"
        if info.file_size == length:
            return np.empty(shape, dtype, order)
        return np.memmap(self.path, dtype, "r", begin + length, shape, order)


class _Counted:
    """Counts what NumPy reads of a header."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.count = 0

    def read(self, count: int) -> bytes:
        data = self._stream.read(count)
        self.count += len(data)
        return data


def _npy_header(stream: BinaryIO, label: str) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    counted: Any = _Counted(stream)
    try:
        version = np.lib.format.read_magic(counted)
        if version == (1, 0):
            header = np.lib.format.read_array_header_1_0(counted)
        elif version == (2, 0):
            header = np.lib.format.read_array_header_2_0(counted)
        else:
            raise ValueError(f"version {version} of the .npy format is not of plain numbers")
        shape, fortran_order, dtype = header
        if any(size < 0 for size in shape):
            raise ValueError(f"its shape is {shape}")
    except Exception as error:  # NumPy parses Python, which raises many kinds
        reason = str(error)[:200] or type(error).__name__
        raise ValueError(f"{label} is not a complete NumPy array: {reason}") from None
    return tuple(shape), bool(fortran_order), dtype, counted.count
