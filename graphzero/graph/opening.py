"""`open_dataset`: from a folder to the `Dataset` of its files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from graphzero.errors import FormatError
from graphzero.graph.dataset import Dataset, Splits
from graphzero.graph.edge_rows import EdgeRows
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph
from graphzero.graph.typed_dataset import EdgeStore, NodeStore, TypedDataset
from graphzero.store.id_table import IdTable, open_id_table
from graphzero.store.manifest import AnyManifest, open_build
from graphzero.store.schema import Driving, FileEntry, Manifest, NodeTable, TimeLevel, TypedManifest
from graphzero.store.tuning_file import read_tuning

__all__ = ["open_dataset"]


def open_dataset(path: str | os.PathLike[str]) -> Dataset:
    """Opens a dataset folder: maps its files and reads only their headers.

    Parameters
    ----------
    path : path-like
        A folder that `graphzero.build` has written.

    Returns
    -------
    Dataset
        A directed graph in a folder of version 1 has out-neighbours, and nobody has chosen them:
        the first loader over it warns that messages flow against the edges. A ``tuning.json`` that
        cannot be read is ignored, with a warning.

    Raises
    ------
    FileNotFoundError
        If there is no dataset.
    FormatError
        If a file is truncated, not of this format, corrupt or of an unknown version, or if the
        files do not belong together.
    BlockingIOError
        If rebuilds replaced the dataset again and again while it was being opened.
    """
    folder = Path(path)
    ds = open_build(folder, lambda manifest: _open_files(folder, manifest), Dataset.close)
    ds._found_tuning = read_tuning(folder)
    return ds


def _open_files(folder: Path, manifest: AnyManifest) -> Dataset:
    """Maps what the manifest names; maps nothing if one of the files is wrong."""
    files = _Files(folder)
    try:
        if isinstance(manifest, TypedManifest):
            return _open_typed(files, manifest)
        return _open_untyped(files, manifest)
    except BaseException:
        files.close()
        raise


class _Files:
    """The files of a folder that were opened so far."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._opened: list[Graph | FeatureStore | IdTable] = []

    def rows(self, entry: FileEntry) -> FeatureStore:
        store = FeatureStore(entry.resolve(self.folder))
        self._opened.append(store)
        return store

    def named(self, entries: Mapping[str, FileEntry]) -> dict[str, FeatureStore]:
        return {name: self.rows(entry) for name, entry in entries.items()}

    def ids(self, entry: FileEntry | None, count: int) -> IdTable | None:
        if entry is None:
            return None
        table = open_id_table(entry.resolve(self.folder), count)
        self._opened.append(table)
        return table

    def graph(self, entry: FileEntry) -> Graph:
        graph = Graph(entry.resolve(self.folder))
        self._opened.append(graph)
        return graph

    def typed_graph(self, entry: FileEntry) -> Graph:
        graph = Graph._open_typed(entry.resolve(self.folder))
        self._opened.append(graph)
        return graph

    def driving(
        self, graph: Graph, weight: str | None, time: str | None, level: TimeLevel
    ) -> tuple[Driving, dict[str, FeatureStore]]:
        """The attributes that drive sampling, and the rows of those that are the edges'."""
        found: dict[str, FeatureStore] = {}
        names = graph.section_bytes
        weight = weight if "weights" in names else None
        time = time if "times" in names else None
        wanted = {weight: "weights", time if level == "edge" else None: "times"}
        for name, section in wanted.items():
            if name is not None:
                found[name] = EdgeRows(graph.path, section)
                self._opened.append(found[name])
        return Driving(weight, time, level), found

    def wrong(self) -> FormatError:
        return FormatError(
            f"{self.folder}: the graph file is not the one that dataset.json describes: "
            f"build the dataset again"
        )

    def close(self) -> None:
        for part in self._opened:
            part.close()


def _open_untyped(files: _Files, manifest: Manifest) -> Dataset:
    graph = files.graph(manifest.graph)
    out_graph = None if manifest.out_graph is None else files.graph(manifest.out_graph)
    facts = (graph.num_nodes, graph.num_edges, graph.is_directed, graph.is_incoming)
    told = (manifest.num_nodes, manifest.num_edges, manifest.directed, manifest.incoming)
    if facts != told:
        raise files.wrong()
    driving, rows = files.driving(graph, manifest.weight, manifest.time, manifest.time_level)
    ds = Dataset(
        graph,
        None if manifest.features is None else files.rows(manifest.features),
        None if manifest.labels is None else files.rows(manifest.labels),
        Splits(files.named(manifest.splits)),
        num_classes=manifest.num_classes,
        out_graph=out_graph,
        attributes=files.named(manifest.attributes),
        edge_attributes={**rows, **files.named(manifest.edge_attributes)},
        edge_splits=Splits(files.named(manifest.edge_splits)),
        driving=driving,
        id_table=files.ids(manifest.id_map, manifest.num_nodes),
    )
    if manifest.neighbors is None:
        ds._direction_note = _note_of_version_1(files.folder, manifest)
    return ds


def _open_typed(files: _Files, manifest: TypedManifest) -> TypedDataset:
    nodes = {name: _node_store(files, name, table) for name, table in manifest.nodes.items()}
    edges = []
    for edge_type, table in manifest.edges.items():
        graph = files.typed_graph(table.graph)
        ends = nodes[edge_type[0]], nodes[edge_type[2]]
        owner, neighbor = ends[::-1] if manifest.incoming else ends
        facts = (graph.num_nodes, graph.num_neighbors, graph.num_edges, graph.is_incoming)
        if facts != (owner.num_nodes, neighbor.num_nodes, table.num_edges, manifest.incoming):
            raise files.wrong()
        driving, rows = files.driving(graph, table.weight, table.time, table.time_level)
        rows |= files.named(table.attributes)
        for store in rows.values():
            if store.num_nodes != table.num_edges:
                raise files.wrong()
        edges.append(
            EdgeStore(edge_type, graph, ends, rows, Splits(files.named(table.splits)), driving)
        )
    return TypedDataset(list(nodes.values()), edges)


def _node_store(files: _Files, name: str, table: NodeTable) -> NodeStore:
    rows = files.named(table.attributes)
    ids = None if table.ids is None else files.rows(table.ids)
    splits = Splits(files.named(table.splits))
    id_table = files.ids(table.id_map, table.num_nodes)
    nodes = NodeStore(name, table.num_nodes, rows, splits, table.num_classes, ids, id_table)
    for store in (*rows.values(), *([] if ids is None else [ids])):
        # rows are found by the numbers of the nodes, whatever the file says
        if store.num_nodes != table.num_nodes or not nodes.keeps_order_of(store):
            raise FormatError(
                f"{store.path} does not have the nodes of the type {name!r} in the order of the "
                f"dataset: build the dataset again"
            )
    return nodes


def _note_of_version_1(folder: Path, manifest: Manifest) -> str:
    return (
        f"{folder} was built before graphzero knew neighbors=: its neighbour lists have the "
        f"targets of each node's edges, so that messages flow against the edges. For messages "
        f"along them, as in PyG, build it again, or call graphzero.reorder({str(folder)!r}, "
        f"{manifest.order!r}, neighbors='in'); neighbors='out' keeps it as it is without this "
        f"warning"
    )
