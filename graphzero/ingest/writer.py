"""`DatasetWriter`: the files of a dataset and their commit, whoever writes them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.edges import EdgeList
from graphzero.ingest.lists import NodeOrder, write_graph
from graphzero.ingest.options import WriteOptions
from graphzero.ingest.row_files import (
    Remap,
    vector_layout,
    write_edge_rows,
    write_rows,
    write_split,
)
from graphzero.ingest.rows import Rows, as_numbers
from graphzero.ingest.sort import spooling_near, temp_array
from graphzero.ingest.sources.table import Column, checked
from graphzero.ingest.sources.tables import InputFiles, noting_inputs
from graphzero.store.folder import FolderChange, changing_folder
from graphzero.store.format import FileWriter, Header, id_dtype, sealed_file
from graphzero.store.manifest import EdgeType, FileEntry, Layout, Manifest, read_manifest

_CHUNK = 1 << 16


def ids_layout(num_nodes: int) -> Header:
    """Header of the file of the order of a node type."""
    return vector_layout(num_nodes, id_dtype(num_nodes), "rows", "node_rank")


def read_node_times(
    folder: Path, attribute: str, num_nodes: int, sources: Iterable[tuple[Rows, int]], memory: int
) -> npt.NDArray[np.int64]:
    """The time of each node of a type, by the user's ids, from an attribute.

    Nodes without a row get 0 here, and rows of nodes that do not exist are left out: both are
    found when the attribute is written.

    Parameters
    ----------
    folder : pathlib.Path
        For a temporary file, if the times are larger than the memory.
    attribute : str
    num_nodes : int
    sources : iterable of (Rows, int)
        Rows of the attribute, and the node of the first one where they have no ids.
    memory : int
        Bytes.
    """
    times = temp_array(folder, num_nodes, np.int64, memory)
    column = Column(-1, f"value of {attribute!r}", times.dtype)
    for rows, first in sources:
        row = 0
        for ids, chunk in rows.chunks(_CHUNK):
            values = checked(as_numbers(chunk[:, 0]), column, rows.table, row)
            nodes = ids + first if rows.in_order else ids
            exists = nodes < num_nodes
            times[nodes[exists]] = values[exists]
            row += len(ids)
    return times


@dataclass(frozen=True)
class DatasetWriter:
    """Writes files of a dataset, which are staged until its manifest is committed.

    Attributes
    ----------
    change : FolderChange
        Of the locked folder.
    options : WriteOptions
    layout : Layout
    inputs : InputFiles
        What is read, which must not change meanwhile.
    """

    change: FolderChange
    options: WriteOptions
    layout: Layout
    inputs: InputFiles = field(default_factory=InputFiles)

    @property
    def folder(self) -> Path:
        """The folder of the dataset."""
        return self.change.folder

    def add(self, file: FileWriter) -> FileEntry:
        """Stages a sealed file."""
        return self.change.add(file)

    def discard(self, entry: FileEntry) -> None:
        """Removes a staged file that no manifest is to have."""
        (self.folder / entry.staged).unlink()

    def commit(self, manifest: Manifest) -> None:
        """Replaces the earlier dataset by this one, unless a file that was read has changed."""
        self.inputs.require_unchanged()
        self.change.commit(manifest)

    def lists(
        self, name: str, edges: EdgeList, owners: NodeOrder, neighbors: NodeOrder | None
    ) -> FileEntry:
        """A file of the lists of some edges; see `write_graph`."""
        return self.add(write_graph(self.folder / name, edges, owners, neighbors, self.options))

    def node_ids(self, node_type: str, order: NodeOrder) -> FileEntry | None:
        """The order of the nodes of a type, where no graph file has it."""
        if order.node_ids is None or not self.layout.is_typed:
            return None
        path = self.folder / self.layout.of_nodes(node_type, "ids")
        with sealed_file(path, ids_layout(order.num_nodes)) as file:
            order.write(file, "rows")
        return self.add(file)

    def node_rows(
        self, name: str, rows: Rows, order: NodeOrder, *, fill_missing: bool = False
    ) -> FileEntry:
        """A file of a row for each node; see `write_rows`."""
        path = self.folder / name
        return self.add(write_rows(path, rows, order, self.options, fill_missing=fill_missing))

    def edge_rows(
        self, name: str, rows: Rows, graph: Path, stored_as: Path | None = None
    ) -> FileEntry:
        """A file of a row for each edge of a graph file; see `write_edge_rows`."""
        path = self.folder / name
        return self.add(write_edge_rows(path, rows, graph, self.options, stored_as))

    def splits(
        self,
        types: str | EdgeType,
        values: Mapping[str, Any],
        count: int,
        remap: Remap | None = None,
    ) -> dict[str, FileEntry]:
        """Splits of `count` nodes or edges of a type, by name; see `write_split`."""
        entries: dict[str, FileEntry] = {}
        for name, value in values.items():
            file = write_split(
                self.folder / self.layout.split(types, name),
                name,
                value,
                count,
                memory=self.options.column_memory,
                of="node" if isinstance(types, str) else "edge",
                remap=remap,
            )
            entries[name] = self.add(file)
        return entries


@contextmanager
def changing_dataset(
    path: str | os.PathLike[str], options: WriteOptions
) -> Iterator[tuple[DatasetWriter, Manifest]]:
    """A change of a dataset that exists: its writer, and the earlier manifest.

    Raises
    ------
    OSError
        With errno and path: no dataset, or a build or a measurement uses the folder.
    FormatError
        If this version cannot read it, or files of several versions lie together.
    """
    folder = Path(path)
    read_manifest(folder)
    with (
        spooling_near(folder),
        noting_inputs() as inputs,
        changing_folder(folder) as change,
    ):
        earlier = change.earlier
        assert earlier is not None
        yield DatasetWriter(change, options, earlier.layout, inputs), earlier
