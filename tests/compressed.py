"""Bytes as every kind of compressed file that a build reads."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path

import pyarrow as pa


def _zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


COMPRESS = {".gz": gzip.compress, ".zst": _zstd, ".bz2": bz2.compress, ".xz": lzma.compress}
KIND = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".xz": "xz"}


def write(path: Path, data: bytes) -> Path:
    """Writes what the name says: compressed if it ends so."""
    compress = COMPRESS.get(path.suffix)
    path.write_bytes(data if compress is None else compress(data))
    return path
