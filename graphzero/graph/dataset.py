"""`Dataset`: the files of one graph, opened together."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from graphzero import _core
from graphzero.errors import FormatError
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray
from graphzero.store.manifest import FileEntry, Manifest, Neighbors, open_build
from graphzero.store.mapped_file import ClosedAtExit

__all__ = ["Dataset", "Splits", "open_dataset"]


class Splits(Mapping[str, IdArray]):
    """Node ids of each split, by name; values are read-only (n,) int64 views of their files."""

    def __init__(self, stores: Mapping[str, FeatureStore]) -> None:
        self.stores = dict(stores)

    def __getitem__(self, name: str) -> IdArray:
        if name not in self.stores:
            raise KeyError(f"no split {name!r}; there are {sorted(self.stores)}")
        return self.stores[name].get_tensor()

    def __iter__(self) -> Iterator[str]:
        return iter(self.stores)

    def __len__(self) -> int:
        return len(self.stores)

    def __repr__(self) -> str:
        return f"Splits({ {name: len(store) for name, store in self.stores.items()} })"


class Dataset(ClosedAtExit):
    """A graph with features, labels and splits of its nodes.

    Usually opened by `graphzero.open`; create it yourself for files that were not built together.

    Parameters
    ----------
    graph : Graph
    features : FeatureStore, optional
        One row per node.
    labels : FeatureStore, optional
        One label (or row of labels) per node; indexable by node ids.
    splits : Splits, optional
    num_classes : int, optional
    out_graph : Graph, optional
        The out-neighbours, where `graph` has the in-neighbours of the same edges, in the same order
        of nodes: for walks.

    Raises
    ------
    ValueError
        If features or labels do not have one row per node.
    FormatError
        If the two graphs do not belong together.
    """

    _direction_note: str | None = None  # what to warn of, where nobody has chosen the direction

    def __init__(
        self,
        graph: Graph,
        features: FeatureStore | None = None,
        labels: FeatureStore | None = None,
        splits: Splits | None = None,
        *,
        num_classes: int | None = None,
        out_graph: Graph | None = None,
    ) -> None:
        for name, store in (("features", features), ("labels", labels)):
            if store is not None and store.num_nodes != graph.num_nodes:
                raise ValueError(
                    f"{name} have {store.num_nodes:,} rows, the graph has {graph.num_nodes:,} nodes"
                )
        if out_graph is not None:
            _check_pair(graph, out_graph)
            graph.attach_out_lists(out_graph)
        self.graph = graph
        self._out_graph = out_graph
        self.features = features
        self.labels = labels
        self.splits = splits if splits is not None else Splits({})
        self.num_classes = num_classes

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.graph.num_nodes

    @property
    def num_edges(self) -> int:
        """Number of stored edges: both directions of an undirected edge."""
        return self.graph.num_edges

    @property
    def neighbors(self) -> Neighbors:
        """Which neighbours of a node are stored: "in", "out" or "both", as in `graphzero.build`.

        "in" and "both" sample the sources of incoming edges, "out" the targets of outgoing ones.
        """
        return self.graph.stored_neighbors

    def warn_of_direction(self) -> None:
        """Warns, once, of messages against the edges that nobody has chosen: see `open_dataset`."""
        note, self._direction_note = self._direction_note, None
        if note is not None:
            warnings.warn(note, UserWarning, stacklevel=5)  # the line that makes the loader

    @property
    def paths(self) -> list[str]:
        """Every mapped file."""
        return [part.path for part in self._parts()]

    @property
    def mappings(self) -> list[_core.Mapping]:
        """The mapping of every file."""
        return [part.mapping for part in self._parts()]

    def _parts(self) -> list[Graph | FeatureStore]:
        rows = (self.features, self.labels, *self.splits.stores.values())
        return [part for part in (self.graph, self._out_graph, *rows) if part is not None]

    def close(self) -> None:
        """Unmaps all files.

        Raises
        ------
        BufferError
            While arrays over one of the files exist; the other files are closed nevertheless.
        """
        refused: BufferError | None = None
        for part in self._parts():
            try:
                part.close()
            except BufferError as error:
                refused = error
        if refused is not None:
            raise refused

    def __repr__(self) -> str:
        shape = None if self.features is None else self.features.shape
        return (
            f"Dataset(num_nodes={self.num_nodes:,}, num_edges={self.num_edges:,}, "
            f"neighbors={self.neighbors!r}, features={shape}, num_classes={self.num_classes}, "
            f"splits={list(self.splits)})"
        )


def _check_pair(graph: Graph, out_graph: Graph) -> None:
    """Refuses two files that cannot be of the same edges in both directions."""
    facts, told = (
        (file.num_nodes, file.num_edges, file.num_input_edges, file.stored_order)
        for file in (graph, out_graph)
    )
    if not (
        facts == told and graph.is_incoming and out_graph.is_directed and not out_graph.is_incoming
    ):
        raise FormatError(
            f"{graph.path} and {out_graph.path} are not the in-neighbours and the out-neighbours "
            f"of one directed graph: build the dataset again"
        )


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
        the first loader over it warns that messages flow against the edges.

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
    return open_build(folder, lambda manifest: _open_files(folder, manifest), Dataset.close)


def _open_files(folder: Path, manifest: Manifest) -> Dataset:
    """Maps what the manifest names; maps nothing if one of the files is wrong."""
    opened: list[Graph | FeatureStore] = []

    def store(entry: FileEntry | None) -> FeatureStore | None:
        if entry is None:
            return None
        rows = FeatureStore(entry.resolve(folder))
        opened.append(rows)
        return rows

    try:
        graph = Graph(manifest.graph.resolve(folder))
        opened.append(graph)
        out_graph = None
        if manifest.out_graph is not None:
            out_graph = Graph(manifest.out_graph.resolve(folder))
            opened.append(out_graph)
        facts = (graph.num_nodes, graph.num_edges, graph.is_directed, graph.is_incoming)
        told = (manifest.num_nodes, manifest.num_edges, manifest.directed, manifest.incoming)
        if facts != told:
            raise FormatError(
                f"{folder}: the graph file is not the one that dataset.json describes: "
                f"build the dataset again"
            )
        features, labels = store(manifest.features), store(manifest.labels)
        splits = {name: store(entry) for name, entry in manifest.splits.items()}
        ds = Dataset(
            graph,
            features,
            labels,
            Splits({name: split for name, split in splits.items() if split is not None}),
            num_classes=manifest.num_classes,
            out_graph=out_graph,
        )
        if manifest.neighbors is None:
            ds._direction_note = _note_of_version_1(folder, manifest)
        return ds
    except BaseException:
        for part in opened:
            part.close()
        raise


def _note_of_version_1(folder: Path, manifest: Manifest) -> str:
    return (
        f"{folder} was built before graphzero knew neighbors=: its neighbour lists have the "
        f"targets of each node's edges, so that messages flow against the edges. For messages "
        f"along them, as in PyG, build it again, or call graphzero.reorder({str(folder)!r}, "
        f"{manifest.order!r}, neighbors='in'); neighbors='out' keeps it as it is without this "
        f"warning"
    )
