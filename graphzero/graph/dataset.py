"""`Dataset`: the files of one graph, opened together."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy.typing as npt

from graphzero import _core
from graphzero.errors import FormatError
from graphzero.graph.features import FeatureStore
from graphzero.graph.graph import Graph
from graphzero.graph.ids import IdArray
from graphzero.graph.node_ids import NodeTexts, lookup, node_ids_of
from graphzero.store.id_table import IdTable
from graphzero.store.machine import machine_differences, this_machine
from graphzero.store.mapped_file import ClosedAtExit
from graphzero.store.schema import EDGE_TIME, EDGE_WEIGHT, Driving, Neighbors
from graphzero.store.tuning_file import Tuning, files_digest
from graphzero.store.user_line import user_line

__all__ = ["Dataset", "Splits"]


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
    attributes : mapping of str to FeatureStore, optional
        Further rows of the nodes, by name.
    edge_attributes : mapping of str to FeatureStore, optional
        Rows of the edges, by name, in the order of the lists of `graph`.
    edge_splits : Splits, optional
        Positions in the edge list.
    driving : Driving, optional
        The attributes that drive sampling.
    id_table : IdTable, optional
        The user's own ids of the nodes.

    Attributes
    ----------
    attributes : dict of str to FeatureStore
        All rows of the nodes, by name: features as "x", labels as "y".
    edge_attributes : dict of str to FeatureStore
        All rows of the edges, by name, those that drive sampling included.

    Raises
    ------
    ValueError
        If a file does not have one row per node, or per stored edge.
    FormatError
        If the two graphs do not belong together.
    """

    _direction_note: str | None = None  # what to warn of, where nobody has chosen the direction
    _found_tuning: Tuning | None = None  # in the folder, perhaps of another machine

    def __init__(
        self,
        graph: Graph,
        features: FeatureStore | None = None,
        labels: FeatureStore | None = None,
        splits: Splits | None = None,
        *,
        num_classes: int | None = None,
        out_graph: Graph | None = None,
        attributes: Mapping[str, FeatureStore] | None = None,
        edge_attributes: Mapping[str, FeatureStore] | None = None,
        edge_splits: Splits | None = None,
        driving: Driving | None = None,
        id_table: IdTable | None = None,
    ) -> None:
        rows = {"features": features, "labels": labels, **(attributes or {})}
        for name, store in rows.items():
            _check_count(name, store, graph.num_nodes, "nodes")
        for name, store in (edge_attributes or {}).items():
            _check_count(name, store, graph.num_edges, "stored edges")
        if out_graph is not None:
            _check_pair(graph, out_graph)
            graph.attach_out_lists(out_graph)
        self.graph = graph
        self._out_graph = out_graph
        self.features = features
        self.labels = labels
        self.splits = splits if splits is not None else Splits({})
        self.num_classes = num_classes
        named = {"x": features, "y": labels, **(attributes or {})}
        self.attributes = {name: store for name, store in named.items() if store is not None}
        self.edge_attributes = dict(edge_attributes or {})
        self.edge_splits = edge_splits if edge_splits is not None else Splits({})
        self.driving = driving if driving is not None else Driving(EDGE_WEIGHT, EDGE_TIME)
        self._id_table = id_table

    is_typed = False

    def require_untyped(self, what: str) -> None:
        """Raises an error for a graph with node types, where these are not known.

        Parameters
        ----------
        what : str
            Beginning of the message, such as "packs are made".

        Raises
        ------
        ValueError
        """

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return self.graph.num_nodes

    @property
    def num_edges(self) -> int:
        """Number of stored edges: both directions of an undirected edge."""
        return self.graph.num_edges

    @property
    def node_ids(self) -> npt.NDArray[Any] | NodeTexts | None:
        """The user's own id of each node, where the build had ``ids="map"``; else None.

        Integers are a read-only (num_nodes,) view of the file, int64 or uint64. Texts are a
        sequence: ``node_ids[5]`` is a str, ``node_ids[batch.n_id]`` an array of str. Ids ascend;
        texts do so by their UTF-8 bytes.
        """
        return node_ids_of(self._id_table)

    def lookup(self, ids: Any, *, missing: int | None = None) -> Any:
        """The nodes that have some of the user's own ids, where the build had ``ids="map"``.

        Parameters
        ----------
        ids : int, str, or array-like of them
        missing : int, optional
            What to return for ids that no node has, such as -1. Default: they are an error.

        Returns
        -------
        int or int64 array
            Of the shape of `ids`: what seeds, splits and ``batch.n_id`` are.

        Raises
        ------
        KeyError
            Naming the first id that no node has.
        ValueError
            If the dataset has no table of ids, or has ids of the other kind.
        """
        return lookup(self._id_table, ids, missing, "the dataset")

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
            warnings.warn(note, UserWarning, stacklevel=user_line())

    @property
    def any_tuning(self) -> Tuning | None:
        """The content of the folder's ``tuning.json``, for whatever machine and files."""
        return self._found_tuning

    @property
    def tuning(self) -> Tuning | None:
        """What `graphzero tune` has found for these files on this machine; None without it.

        Loaders that are given no ``prefetch=`` use it, where as much memory is available.
        """
        return self._found_tuning if self.tuning_mismatch == "" else None

    @cached_property
    def tuning_mismatch(self) -> str | None:
        """Why the ``tuning.json`` of the folder is not used; None without one, "" if it is."""
        tuned = self._found_tuning
        if tuned is None:
            return None
        if tuned.dataset != files_digest(self.mappings):
            return "it is of other files: run graphzero tune again"
        others = machine_differences(tuned.machine, this_machine(os.path.dirname(self.paths[0])))
        return f"it is of another machine ({'; '.join(others)})" if others else ""

    @property
    def paths(self) -> list[str]:
        """Every mapped file."""
        return [part.path for part in self._parts()]

    @property
    def mappings(self) -> list[_core.Mapping]:
        """A mapping of every file, one for each."""
        return list({part.mapping.path: part.mapping for part in self._parts()}.values())

    def _parts(self) -> list[Graph | FeatureStore | IdTable]:
        named = (self.attributes, self.splits.stores, self.edge_attributes, self.edge_splits.stores)
        rows = [store for stores in named for store in stores.values()]
        parts = (self.graph, self._out_graph, *rows, self._id_table)
        return [part for part in parts if part is not None]

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
        further = [name for name in self.attributes if name not in ("x", "y")]
        named = {
            "attributes": further,
            "edge_attributes": list(self.edge_attributes),
            "edge_splits": list(self.edge_splits),
        }
        more = "".join(f", {key}={names}" for key, names in named.items() if names)
        return (
            f"Dataset(num_nodes={self.num_nodes:,}, num_edges={self.num_edges:,}, "
            f"neighbors={self.neighbors!r}, features={shape}, num_classes={self.num_classes}, "
            f"splits={list(self.splits)}{more})"
        )


def _check_count(name: str, store: FeatureStore | None, count: int, what: str) -> None:
    if store is not None and store.num_nodes != count:
        raise ValueError(f"{name} have {store.num_nodes:,} rows, the graph has {count:,} {what}")


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
