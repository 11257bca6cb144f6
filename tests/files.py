"""Files for tests, written with the pure-Python writer from naive adjacency lists."""

from __future__ import annotations

import os
import re
import signal
import zlib
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import reference

import graphzero as gz
from graphzero.store import format as gz_format
from graphzero.store import manifest
from graphzero.store.format import FileWriter


def contents(folder):
    """The files of a dataset, without its manifest."""
    return {path.name: path.read_bytes() for path in folder.glob("*.g[ld]")}


def committed(folder):
    """The files of a dataset by their final names, whatever they are called now."""
    entries = manifest.read_manifest(folder).entries()
    return {entry.name: entry.resolve(folder).read_bytes() for entry in entries}


def write_graph(
    path, edges, num_nodes, *, edge_ids=True, wide=False, weights=None, times=None, **how
):
    """Writes a ``.gl`` and returns the adjacency lists that it must hold."""
    graph = reference.adjacency(edges, num_nodes, weights=weights, times=times, **how)
    left_out = {
        "weights": weights is None,
        "times": times is None,
        "edge_ids": not edge_ids,
        "node_ids": how.get("order") != "hot",
    }
    flags = gz_format.FLAG_DIRECTED * how.get("directed", True)
    facts = {"num_nodes": num_nodes, "num_input_edges": len(edges), "flags": flags}
    write_lists(path, graph, {name for name, is_left in left_out.items() if is_left}, wide, **facts)
    return graph


def write_lists(path, graph, left_out, wide, *, flags, **facts):
    """Writes the ``.gl`` of adjacency lists, without some of what it may have."""
    id_type = "<u8" if wide else "<u4"
    arrays = {"indptr": ("<u8", graph.indptr), "indices": (id_type, graph.indices)}
    if "weights" not in left_out:
        arrays["weights"] = ("<f4", graph.column(2, np.float32))
        arrays["cum_weights"] = ("<f8", np.array(graph.sums, dtype=np.float64))
    if "times" not in left_out:
        arrays["times"] = ("<i8", graph.column(3, np.int64))
        arrays["time_order"] = (id_type, np.array(graph.time_order, dtype=np.int64))
    if "edge_ids" not in left_out:
        arrays["edge_ids"] = (id_type, graph.column(1, np.int64))
    if "node_ids" not in left_out:
        arrays["node_ids"] = (id_type, graph.node_ids)
        arrays["node_rank"] = (id_type, graph.node_rank)
    arrays = {name: array for name, array in arrays.items() if name not in left_out}
    flags |= gz_format.FLAG_INCOMING * graph.incoming
    _write(path, "graph", arrays, width=int(graph.indptr[-1]), flags=flags, **facts)


def _write(path, kind, arrays, **facts):
    sizes = [(name, dtype, np.size(values)) for name, (dtype, values) in arrays.items()]
    with FileWriter(path, gz_format.layout(kind, sizes, **facts)) as writer:
        for name, (_, values) in arrays.items():
            writer.append(name, values)


def read_file(path):
    """Header and every section of a file, read into memory."""
    header = gz_format.read_header(path)
    arrays = {}
    with open(path, "rb") as file:
        for section in header.sections:
            file.seek(section.offset)
            dtype = gz_format.DTYPES[section.dtype]
            arrays[section.name] = np.fromfile(file, dtype, section.count)
    return header, arrays


def forget_checksums(folder):
    """Takes from a manifest, if there is one, what tells its files from others."""
    path = folder / "dataset.json"
    if path.exists():
        path.write_text(re.sub(r',\s*"checksum": \d+', "", path.read_text()))


def damage(path, section, entries, value):
    """Replaces values of a section, in place; returns the first byte of the last one.

    All checksums are right again, but for that of the file in a manifest, which is taken away.
    """
    header, arrays = read_file(path)
    found, values = header.find(section), arrays[section].copy()
    values[entries] = value
    right = replace(found, crc=zlib.crc32(values))
    sections = tuple(right if each == found else each for each in header.sections)
    with open(path, "r+b") as file:
        file.write(gz_format.encode_header(replace(header, sections=sections)))
        file.seek(found.offset)
        file.write(values)
    forget_checksums(Path(path).parent)
    return found.offset + int(np.arange(len(values))[entries].max()) * values.itemsize


def write_rows(path, rows, *, rank=None, wide=False):
    """Writes a ``.gd`` with the user's rows, in the order of rank (user id -> row)."""
    rows = np.asarray(rows)
    stored, ranks = rows, {}
    if rank is not None:
        stored = np.empty_like(rows)
        stored[rank] = rows
        ranks = {"node_rank": ("<u8" if wide else "<u4", rank)}
    width, flags = (1, gz_format.FLAG_VECTOR) if rows.ndim == 1 else (rows.shape[1], 0)
    facts = {"num_nodes": rows.shape[0], "width": width, "flags": flags}
    _write(path, "features", {"rows": (rows.dtype, stored), **ranks}, **facts)


def change_section(path, section, change, **facts):
    """Writes a ``.gd`` again, with other entries of a section and other facts in its header."""
    header, arrays = read_file(path)
    arrays[section] = change(arrays[section])
    facts = {name: getattr(header, name) for name in ("num_nodes", "width", "flags")} | facts
    _write(path, "features", {name: (of.dtype, of) for name, of in arrays.items()}, **facts)


def write_dataset(folder, edges, num_nodes, *, features=None, labels=None, splits=None, **options):
    """Writes a dataset folder, by default with out-neighbours; returns its adjacency lists."""
    folder.mkdir(parents=True, exist_ok=True)
    graph = write_graph(folder / "graph.gl", edges, num_nodes, **options)
    rank = graph.node_rank if options.get("order") == "hot" else None

    def entry(name):
        return manifest.FileEntry(name, f".{name}.0.gz-staged")

    attributes = {}
    for name, rows in (("features", features), ("labels", labels)):
        if rows is not None:
            write_rows(folder / f"{name}.gd", rows, rank=rank)
            attributes["x" if name == "features" else "y"] = entry(f"{name}.gd")
    for name, ids in (splits or {}).items():
        write_rows(folder / f"split_{name}.gd", np.asarray(ids, dtype=np.int64))
    directed, incoming = options.get("directed", True), options.get("incoming", False)
    split_files = {name: entry(f"split_{name}.gd") for name in (splits or {})}
    num_classes = None if labels is None else int(np.max(labels)) + 1
    nodes = manifest.NodeTable(num_nodes, attributes, split_files, num_classes)
    sampled_by = {"weight": manifest.EDGE_WEIGHT, "time": manifest.EDGE_TIME}
    stored, file = int(graph.indptr[-1]), entry("graph.gl")
    table = manifest.EdgeTable(stored, len(edges), file, **sampled_by)
    neighbors = "both" if not directed else "in" if incoming else "out"
    how = {"order": options.get("order", "input"), "directed": directed}
    data = manifest.Manifest({manifest.NODES: nodes}, {manifest.EDGES: table}, neighbors, **how)
    (folder / "dataset.json").write_bytes(manifest.encode_manifest(data))
    return graph


def random_edges(num_nodes, num_edges, seed=0):
    """A skewed random multigraph with self-loops, (num_edges, 2)."""
    rng = np.random.default_rng(seed)
    return (rng.random((num_edges, 2)) ** 2 * num_nodes).astype(np.int64)


def write_random(folder, num_nodes, num_edges, dim, **options):
    """Writes a dataset of random edges, features and labels; returns its folder."""
    rng = np.random.default_rng(0)
    options["features"] = rng.standard_normal((num_nodes, dim), dtype=np.float32)
    options["labels"] = rng.integers(0, 4, num_nodes)
    write_dataset(folder, random_edges(num_nodes, num_edges), num_nodes, **options)
    return folder


def build_weighted_and_timed(folder, num_nodes, num_edges, **options):
    """Builds a graph of random edges with ids, weights and times; returns the path of its file."""
    rng = np.random.default_rng(0)
    gz.build(
        folder,
        random_edges(num_nodes, num_edges),
        num_nodes=num_nodes,
        edge_ids=True,
        weight=rng.random(num_edges).astype(np.float32),
        timestamp=rng.integers(0, 1000, num_edges),
        **options,
    ).close()
    return folder / "graph.gl"


def let_be_interrupted():
    """As ``preexec_fn`` of a process: whoever runs the tests may have chosen to ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def drop_from_cache(path):
    """Has the kernel forget a file's pages; those that a process has mapped stay."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


@contextmanager
def open_cold(kind, path):
    """A file opened by `kind`: none of it in the page cache, and no page read with another."""
    drop_from_cache(path)
    with kind(path) as opened:
        if opened.mapping.resident_pages() > 64:
            pytest.skip("this file system keeps pages that it was told to drop")
        opened.mapping.advise("random")
        yield opened
