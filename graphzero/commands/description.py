"""What ``graphzero info`` says of files, rows and degrees, as JSON and as lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph
from graphzero.graph.node_ids import NodeTexts
from graphzero.store.format import DTYPES, dtype_name, read_header
from graphzero.store.manifest import read_manifest
from graphzero.store.residency import resident_bytes
from graphzero.units import format_bytes

__all__ = [
    "degree_lines",
    "degrees_of",
    "describe_attribute",
    "describe_file",
    "describe_files",
    "describe_ids",
    "describe_rows",
    "fanouts_text",
    "file_lines",
    "miss_lines",
    "rows_text",
    "visits_line",
]

_BLOCK = 1 << 20


def degrees_of(graph: Graph) -> dict[str, Any]:
    """Largest degree, and the number of nodes in each range of degrees between powers of two."""
    indptr, largest = graph.indptr, 0
    counts = np.zeros(65, dtype=np.int64)
    for begin in range(0, graph.num_nodes, _BLOCK):
        part = np.diff(indptr[begin : begin + _BLOCK + 1])
        largest = max(largest, int(part.max()))
        # frexp returns the number of bits: 0 for 0, 1 for 1, 2 for 2 and 3, ...
        counts += np.bincount(np.frexp(part.astype(np.float64))[1], minlength=counts.size)
    ranges = ["0", "1", *(f"{1 << bits - 1}-{(1 << bits) - 1}" for bits in range(2, counts.size))]
    used = int(counts.nonzero()[0].max(initial=0)) + 1
    histogram = dict(zip(ranges[:used], counts[:used].tolist(), strict=True))
    return {"max": largest, "nodes": histogram}


def degree_lines(degrees: dict[str, Any]) -> Iterator[str]:
    """Lines of `degrees_of`."""
    yield f"  degrees   largest {degrees['max']:,}; nodes by degree:"
    for range_, count in degrees["nodes"].items():
        yield f"    {range_:>21s}  {count:,}"


def describe_rows(store: FeatureStore) -> dict[str, Any]:
    """Shape and dtype."""
    return {"shape": list(store.shape), "dtype": dtype_name(store.dtype)}


def describe_attribute(store: FeatureStore) -> dict[str, Any]:
    """Shape, dtype and size."""
    return {**describe_rows(store), "bytes": store.num_nodes * store.row_bytes}


def rows_text(rows: dict[str, Any]) -> str:
    """Shape and dtype in words."""
    return f"{' x '.join(f'{count:,}' for count in rows['shape'])}, {rows['dtype']}"


def describe_file(mapping: _core.Mapping) -> dict[str, Any]:
    """Size, sections, and how much is in the page cache."""
    content: dict[str, Any] = {
        "name": os.path.basename(mapping.path),
        "bytes": mapping.size,
        "page_cache": resident_bytes(mapping),
        "sections": [],
    }
    if not mapping.path.endswith(".npy"):
        content["sections"] = [
            {
                "name": section.name,
                "dtype": dtype_name(DTYPES[section.dtype]),
                "count": section.count,
                "offset": section.offset,
                "bytes": section.length,
            }
            for section in read_header(mapping.path).sections
        ]
    return content


def describe_files(path: str, ds: Dataset) -> list[dict[str, Any]]:
    """Every file of a dataset: those that are mapped, and those that only reports read."""
    files = {os.path.realpath(mapping.path): describe_file(mapping) for mapping in ds.mappings}
    for entry in read_manifest(path).entries():
        file = os.path.realpath(entry.resolve(Path(path)))
        if file not in files:
            with closing(FeatureStore(file)) as store:
                files[file] = describe_file(store.mapping)
    return list(files.values())


def file_lines(file: dict[str, Any]) -> Iterator[str]:
    """Lines of `describe_file`."""
    cached = file["page_cache"]
    share = "unknown" if cached is None else f"{100 * cached / max(file['bytes'], 1):.0f} %"
    yield f"  {file['name']}: {format_bytes(file['bytes'])}, {share} in the page cache"
    for section in file["sections"]:
        yield (
            f"    {section['name']:16s} {section['count']:>16,} {section['dtype']:8s} "
            f"{format_bytes(section['bytes'])}"
        )


def fanouts_text(fanouts: Any) -> str:
    """Fanouts of every hop, or of every edge type and hop, in words."""
    if isinstance(fanouts, dict):
        return "; ".join(f"{kind} {fanouts_text(hops)}" for kind, hops in fanouts.items())
    return ",".join(map(str, fanouts))


def visits_line(counted: dict[str, Any]) -> str:
    """How visits were counted."""
    return (
        f"  visits    counted in {counted['batches']:,} mini-batches of "
        f"{counted['batch_size']:,} seeds, fanouts {fanouts_text(counted['fanouts'])}"
    )


def miss_lines(misses: dict[str, Any]) -> Iterator[str]:
    """Lines of a prediction of misses."""
    share = 100 * misses["resident_pages"] / max(misses["total_pages"], 1)
    yield (
        f"  misses    with {format_bytes(misses['memory'])} of features resident ({share:.0f} %): "
        f"{misses['missing_pages']:,.0f} of {misses['touched_pages']:,.0f} pages a mini-batch, "
        f"{format_bytes(round(misses['missing_bytes']))} (predicted)"
    )
    if misses["seconds"] is not None:
        yield f"            {misses['seconds']:.3g} s a mini-batch to read them, one read a page"


def describe_ids(ids: Any) -> dict[str, Any] | None:
    """The ids of `Dataset.node_ids`; None without a table."""
    if ids is None:
        return None
    return {"kind": "texts" if isinstance(ids, NodeTexts) else str(ids.dtype), "count": len(ids)}
