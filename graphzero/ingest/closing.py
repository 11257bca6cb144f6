"""What a build says at its end: what the dataset has, and which numbers the user should look at."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphzero._core import entry_places
from graphzero.errors import warn_user
from graphzero.ingest.dataset_files import map_section, open_stored_array, open_stored_split
from graphzero.ingest.lists import LOOKED_UP, MOST_COUNTED, ends_of
from graphzero.ingest.options import BuildNotes, Reversed
from graphzero.ingest.sort import Array, temp_array
from graphzero.store.format import Header, dtype_name, read_header
from graphzero.store.manifest import EdgeTable, EdgeType, FileEntry, Manifest, NodeTable
from graphzero.units import available_processors

_CHUNK = 1 << 20
_TELLING_EDGES = 1000  # so many without any reverse are no accident
_TELLING_NODES = 100  # as are so many isolated nodes, if they are a tenth of all
_MEMORY = 1 << 26


@dataclass(frozen=True)
class Closing:
    """The end of a build, whose files are written.

    `asks_direction` is whether a list in which no edge has its reverse is told: the user has not
    said whether edges have a direction.
    """

    folder: Path
    manifest: Manifest
    num_loops: Mapping[EdgeType, int]
    notes: BuildNotes
    asks_direction: bool

    def describe(self) -> None:
        """Puts the table and the advice into the notes; warns of seeds without a label."""
        rows = [*self._nodes(), *self._edges()]
        width = max(len(label) for label, _ in rows)
        self.notes.table += [f"{label:<{width}}  {text}" for label, text in rows]

    def _header(self, file: FileEntry) -> Header:
        return read_header(file.resolve(self.folder))

    def _nodes(self) -> Iterator[tuple[str, str]]:
        for name, table in self.manifest.nodes.items():
            isolated = self._count_isolated(name)
            without_edge = "" if isolated is None else f", {isolated:,} without an edge"
            yield name or "nodes", f"{table.num_nodes:,}{without_edge}"
            if isolated is not None and isolated >= max(_TELLING_NODES, table.num_nodes // 10):
                of_type = f" of type {name!r}" if name else ""
                self.notes.advice.append(
                    f"{isolated:,} of {table.num_nodes:,} nodes{of_type} have no edge: look "
                    f"whether features, labels and edges are of the same graph, and ids begin at 0"
                )
            yield from self._attributes(name, table)
            for split, file in table.splits.items():
                yield self._label(name, split), self._split(name, split, file)

    def _label(self, of: str, name: str) -> str:
        return f"{of}.{name}" if of else name

    def _attributes(self, of: str, table: NodeTable | EdgeTable) -> Iterator[tuple[str, str]]:
        for attribute, file in table.attributes.items():
            rows = open_stored_array(file.resolve(self.folder), self._header(file).num_nodes)
            shape = f" {list(rows.row_shape)}" if rows.row_shape else ""
            text = f"{dtype_name(rows.dtype)}{shape}"
            count = None
            if attribute == "y" and isinstance(table, NodeTable):
                count = table.num_classes
            if table.classes and attribute in table.classes:
                count = len(table.classes[attribute])
            text += f", {count:,} classes" if count is not None else ""
            yield self._label(of, attribute), text

    def _split(self, name: str, split: str, file: FileEntry) -> str:
        """How many nodes a split has, and how many of these have a label."""
        ids, table = open_stored_split(file.resolve(self.folder)), self.manifest.nodes[name]
        labels = table.attributes.get("y")
        if labels is None or table.num_classes is None:
            return f"{len(ids):,} nodes"
        path, header, num_labelled = labels.resolve(self.folder), self._header(labels), 0
        rows = map_section(path, header, "rows", table.num_nodes)
        has_rank = header.find("node_rank") is not None
        ranks = map_section(path, header, "node_rank", table.num_nodes) if has_rank else None
        for at in range(0, len(ids), _CHUNK):
            nodes = ids[at : at + _CHUNK]
            num_labelled += int(
                np.count_nonzero(rows[nodes if ranks is None else ranks[nodes]] >= 0)
            )
        if num_labelled < len(ids):
            warn_user(
                f"split {split!r}: {len(ids) - num_labelled:,} of its {len(ids):,} nodes have no "
                f"label (it is negative): leave them out, or have the loss ignore them, as "
                f"cross_entropy(..., ignore_index=-1) does"
            )
        return f"{len(ids):,} nodes, {num_labelled:,} with a label"

    def _count_isolated(self, name: str) -> int | None:
        """How many nodes of a type no edge names; None if it would take too long to count."""
        count, edges = self.manifest.nodes[name].num_nodes, self.manifest.edges
        begin = self.notes.num_named.get(name, 0)
        is_counted = name in self.notes.num_named and self.manifest.order == "hot"
        if not is_counted:
            begin = 0
            if count + sum(table.num_edges for table in edges.values()) > MOST_COUNTED:
                return None
        has_edge = temp_array(self.folder, count - begin, np.bool_, _MEMORY)
        for edge_type, table in edges.items():
            owner, neighbor = ends_of(edge_type, self.manifest.incoming)
            indptr, indices = self._lists(table.graph)
            for at in range(begin, count if owner == name else begin, _CHUNK):
                stop = min(at + _CHUNK, count)
                has_edge[at - begin : stop - begin] |= np.diff(indptr[at : stop + 1]) > 0
            if neighbor == name and not is_counted:
                has_edge[indices] = True
        return count - begin - int(np.count_nonzero(has_edge))

    def _lists(self, file: FileEntry) -> tuple[Array, Array]:
        path, header = file.resolve(self.folder), self._header(file)
        indptr = map_section(path, header, "indptr", header.num_nodes + 1)
        return indptr, map_section(path, header, "indices", header.width)

    def _edges(self) -> Iterator[tuple[str, str]]:
        for edge_type, table in self.manifest.edges.items():
            num_loops, name = self.num_loops[edge_type], "__".join(filter(None, edge_type))
            parallel, count = self.notes.lists[table.graph.name].parallel, table.num_edges
            if not self.manifest.directed:  # a self-loop is stored once
                count = (count + num_loops) // 2
            texts = [f"{count:,}", f"{parallel:,} parallel"]
            if edge_type[0] == edge_type[2]:
                texts.append(f"{num_loops:,} self-loops")
                texts += self._reversed(edge_type, count - num_loops - parallel)
            yield name or "edges", ", ".join(texts)
            header = self._header(table.graph)
            for section, attribute in (("weights", table.weight), ("times", table.time)):
                if header.find(section) and not (section == "times" and table.time_level == "node"):
                    yield self._label(name, f"{attribute}"), f"{section}, used by sampling"
            yield from self._attributes(name, table)
            for split, file in table.splits.items():
                yield self._label(name, split), f"{self._header(file).num_nodes:,} edges"

    def _reversed(self, edge_type: EdgeType, num_distinct: int) -> list[str]:
        """Which part of the edges between two nodes has its reverse; parallel ones count once."""
        table = self.manifest.edges[edge_type]
        if not self.manifest.directed or not num_distinct:
            return []
        counted = self.notes.lists[table.graph.name].reversed
        result = self._reversed_of_file(table.graph) if counted is None else counted.result()
        share = result.count / max(1, result.looked_up or num_distinct)
        about = "" if result.looked_up is None else "about "
        asks = self.asks_direction and not self.manifest.is_typed
        if share == 0 and num_distinct >= _TELLING_EDGES and asks:
            what = f"none of {result.looked_up:,} edges has" if about else "no edge has"
            self.notes.advice.append(
                f"{what} its reverse in the list, so that messages go one way only: if edges "
                "have no direction, and each is there once, directed=False (--undirected) stores "
                "both ways; directed=True (--directed) says that they have one"
            )
        return [f"{about}{100 * share:.3g} % with their reverse"]

    def _reversed_of_file(self, file: FileEntry) -> Reversed:
        """Of some entries of the lists; self-loops are not counted."""
        indptr, indices = self._lists(file)
        at = np.random.default_rng(0).integers(0, len(indices), LOOKED_UP).astype(indptr.dtype)
        owners = (np.searchsorted(indptr, at, "right") - 1).astype(np.uint32)
        neighbors = indices[at].astype(np.uint32)
        places = entry_places(indptr, indices, neighbors, owners, available_processors())
        # The last entry that is not larger is the owner, if it is there.
        is_there = (places > indptr[neighbors]) & (indices[np.maximum(places - 1, 0)] == owners)
        is_loop = owners == neighbors
        count = int(np.count_nonzero(is_there & ~is_loop))
        return Reversed(count, int(np.count_nonzero(~is_loop)))
