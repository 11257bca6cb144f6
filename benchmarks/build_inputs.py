"""Inputs of the build benchmark: R-MAT edge lists as ``.npy`` and CSV, and rows of features."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from benchmarks.inputs import feature_rows
from benchmarks.rmat import write_edges

__all__ = ["copy_bytes", "edges_csv", "edges_npy", "features_npy"]

CHUNK = 1 << 20
COPY_BYTES = 8 << 20


def edges_npy(folder: Path, scale: int, count: int) -> Path:
    """An (E, 2) int64 edge list; written unless an earlier run has written it."""
    path = folder / f"edges_{scale}_{count}.npy"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        write_edges(unfinished, scale, count)
        unfinished.rename(path)
    return path


def edges_csv(folder: Path, scale: int, count: int) -> Path:
    """The same edge list as CSV with a header."""
    import pyarrow as pa
    import pyarrow.csv as pc

    path = folder / f"edges_{scale}_{count}.csv"
    if path.exists():
        return path
    unfinished = path.with_suffix(".unfinished")
    edges = np.load(edges_npy(folder, scale, count), mmap_mode="r")
    schema = pa.schema([("src", pa.int64()), ("dst", pa.int64())])
    plain = pc.WriteOptions(quoting_style="none")
    with pc.CSVWriter(unfinished, schema, write_options=plain) as writer:
        for begin in range(0, count, CHUNK):
            part = edges[begin : begin + CHUNK]
            columns = [np.ascontiguousarray(part[:, i]) for i in (0, 1)]
            writer.write(pa.table(columns, schema=schema))
    unfinished.rename(path)
    return path


def features_npy(folder: Path, num_nodes: int, dim: int) -> Path:
    """A float32 matrix with a row for each node."""
    path = folder / f"features_{num_nodes}_{dim}.npy"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        shape = (num_nodes, dim)
        out = np.lib.format.open_memmap(unfinished, mode="w+", dtype=np.float32, shape=shape)
        for begin in range(0, num_nodes, CHUNK // 16):
            nodes = np.arange(begin, min(begin + CHUNK // 16, num_nodes))
            out[nodes] = feature_rows(nodes, dim)
        out.flush()
        del out
        unfinished.rename(path)
    return path


def copy_bytes(source: Path, target: Path) -> int:
    """Copies a file in large pieces, syncs the copy, and returns its size."""
    buffer = memoryview(bytearray(COPY_BYTES))
    with open(source, "rb", buffering=0) as reader, open(target, "wb", buffering=0) as writer:
        while got := reader.readinto(buffer):
            writer.write(buffer[:got])
        os.fsync(writer.fileno())
        return writer.tell()
