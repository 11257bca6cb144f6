"""Files as streams of bytes, decompressed where their names say so."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

__all__ = ["compression_of", "open_binary", "without_compression"]

_KINDS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bzip2", ".xz": "xz"}
_BUFFER = 1 << 18
# What a dictionary of xz may take: twice what `xz -9` needs to decompress.
_XZ_MEMORY = 256 << 20
_DAMAGED = (EOFError, zlib.error, lzma.LZMAError, pa.ArrowException)


def compression_of(path: Path) -> str | None:
    """The kind of compression that a name ends in: "gzip", "zstd", "bzip2" or "xz"."""
    return _KINDS.get(path.suffix.lower())


def without_compression(path: Path) -> Path:
    """The name of the file inside: "edges.csv" for "edges.csv.gz"."""
    return path if compression_of(path) is None else path.with_suffix("")


class _Members:
    """The bytes of a bzip2 or xz file of any number of members.

    Python's own readers take whatever follows a member and is none for its end, without a word.
    """

    def __init__(self, file: BinaryIO, new: Callable[[], Any]) -> None:
        self._file = file
        self._new = new
        self._member: Any = None
        self._rest = b""

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        while True:
            if self._member is None:
                self._rest = self._rest or self._file.read(_BUFFER)
                if not self._rest:
                    return b""
                if not self._rest.strip(b"\0"):  # padding
                    self._rest = b""
                    continue
                self._member = self._new()
            data = b""
            if self._member.needs_input:
                data, self._rest = self._rest or self._file.read(_BUFFER), b""
                if not data:
                    raise EOFError("it ends too soon")
            out: bytes = self._member.decompress(data, size)
            if self._member.eof:
                self._rest, self._member = self._member.unused_data, None
            if out:
                return out

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class _Checked(io.RawIOBase):
    """A stream whose errors name the file."""

    def __init__(self, path: Path, kind: str, stream: Any) -> None:
        self._path = path
        self._kind = kind
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except (*_DAMAGED, OSError) as error:
            if isinstance(error, OSError) and error.errno:
                raise
            raise ValueError(
                f"{self._path} is not a complete {self._kind} file: {error}. It is damaged, or "
                f"was cut short: download or compress it again"
            ) from None
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def _stream_of(path: Path, kind: str) -> Any:
    if kind == "gzip":
        return gzip.open(path, "rb")
    if kind == "zstd":
        return pa.input_stream(str(path), compression="zstd")
    file = open(path, "rb")  # noqa: SIM115
    if kind == "bzip2":
        return _Members(file, bz2.BZ2Decompressor)
    return _Members(file, lambda: lzma.LZMADecompressor(memlimit=_XZ_MEMORY))


def open_binary(path: Path) -> BinaryIO:
    """A file as bytes: those that are inside if its name ends in .gz, .zst, .bz2 or .xz.

    Files of several members, as ``cat a.gz b.gz`` makes them, are read to their end.

    Raises
    ------
    ValueError
        While it is read: if it is no complete file of its kind of compression.
    OSError
        If it cannot be read.
    """
    kind = compression_of(path)
    if kind is None:
        return open(path, "rb", buffering=_BUFFER)
    with open(path, "rb"):  # for an error with errno and name, whoever opens it next
        pass
    return io.BufferedReader(_Checked(path, kind, _stream_of(path, kind)), _BUFFER)
