"""Checks of a ``.gl`` file: what its sections say of each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.report.checks.blocks import Check, CheckedFile, Group, Workers, run_group
from graphzero.report.checks.edge_counts import EdgeTotals, find_repeated, is_complete
from graphzero.report.checks.finding import Finding
from graphzero.report.checks.inverse import check_inverse
from graphzero.store.format import FLAG_DIRECTED, FLAG_INCOMING, FLAG_TYPED

__all__ = ["PAYLOAD", "GraphResult", "check_graph"]

_BY_EDGE = ("indices", "weights", "cum_weights", "times", "time_order", "edge_ids")
# What an edge has that is the same wherever the edge is stored. Times are, too, if they are the
# edges' own and not those of the neighbours, which a file alone does not tell.
PAYLOAD = ("edge_ids", "weights")
_BY_NODE = ("node_ids", "node_rank")

Array = npt.NDArray[Any]


@dataclass
class GraphResult:
    """What the check of a graph gave.

    Attributes
    ----------
    findings : list of Finding
    totals : EdgeTotals or None
        Hashes of the edges; None where they were not computed, or mean nothing.
    """

    findings: list[Finding] = field(default_factory=list)
    totals: EdgeTotals | None = None


def check_graph(
    file: CheckedFile,
    workers: Workers,
    payload: Sequence[str] = PAYLOAD,
    *,
    has_twin: bool = False,
) -> GraphResult:
    """Checks every section of a graph whose header a reader accepts.

    Parameters
    ----------
    file : CheckedFile
    workers : Workers
    payload : sequence of str
        Sections that are the same wherever an edge is stored.
    has_twin : bool
        Another file has the same edges by their other ends: compute hashes to compare them.
    """
    return _GraphCheck(file, workers, payload, has_twin).run()


class _GraphCheck:
    """The check of one file."""

    def __init__(
        self, file: CheckedFile, workers: Workers, payload: Sequence[str], has_twin: bool
    ) -> None:
        header = file.header
        self.file, self.workers = file, workers
        self.num_edges, self.num_input = header.width, header.num_input_edges
        self.is_directed = bool(header.flags & FLAG_DIRECTED)
        self.is_typed = bool(header.flags & FLAG_TYPED)
        self.num_neighbors = header.num_neighbors if self.is_typed else header.num_nodes
        self.per_loop = 1 if self.is_directed else 2
        self.indptr = file.array("indptr")
        self.by_edge = file.arrays(_BY_EDGE)
        self.payload = [name for name in payload if name in self.by_edge]
        self.is_compared = has_twin or not self.is_directed
        self.found: dict[str, Finding] = {}

    def run(self) -> GraphResult:
        self._check_indptr()
        totals = None
        if self.found:  # lists that overlap cannot be checked
            self._run(Group(_BY_EDGE))
        else:
            totals = self._check_edges()
        self._check_nodes()
        known = ("indptr", *_BY_EDGE, *_BY_NODE)
        for section in self.file.header.sections:
            if section.name not in known:
                self._run(Group([section.name]))
        order = [section.name for section in self.file.header.sections]
        findings = sorted(self.found.values(), key=lambda one: order.index(one.section or ""))
        return GraphResult(findings, totals)

    def _run(self, group: Group) -> tuple[int, ...]:
        outcome = run_group(self.file, group, self.workers)
        self.found |= outcome.findings
        return outcome.totals

    def _list_of(self, entry: int) -> int:
        return int(np.searchsorted(self.indptr, entry, "right")) - 1

    def _check_indptr(self) -> None:
        indptr, num_edges = self.indptr, self.num_edges

        def message(entry: int) -> str:
            return (
                f"the neighbour list of stored node {max(entry - 1, 0)} does not end after its "
                f"beginning, and within {num_edges} edges: 'indptr' has {indptr[entry]} for its end"
            )

        check = Check("indptr", lambda i, j: _core.first_descent(indptr, num_edges, i, j), message)
        self._run(Group(["indptr"], [check]))

    # ---- sections by edge

    def _check_edges(self) -> EdgeTotals | None:
        lists = _core.EdgeLists(
            self.num_neighbors, {"indptr": self.indptr, **self.by_edge}, self.per_loop
        )
        hashed = self._hashed()
        sums = None if hashed is None else self._sums(hashed)
        totals = self._run(Group(_BY_EDGE, self._edge_checks(lists), sums))
        if hashed is None or any(name in self.found for name in ("indices", *self.payload)):
            return None
        found = EdgeTotals(*(totals or (0, 0, 0, 0)))
        if not self.is_directed and found.forward != found.backward:
            self._not_mirrored(lists)
        elif "edge_ids" in self.by_edge:
            self._check_edge_ids(found)
        return found

    def _hashed(self) -> _core.EdgeLists | None:
        """What hashes of the edges are of; None if there is nothing to compare them with."""
        names = self.payload
        if not self.is_compared:
            names = ["edge_ids"]
            if "edge_ids" not in self.by_edge:
                return None
        arrays = {name: array for name, array in self.by_edge.items() if name in names}
        arrays |= {"indptr": self.indptr, "indices": self.by_edge["indices"]}
        return _core.EdgeLists(self.num_neighbors, arrays, self.per_loop)

    def _sums(self, hashed: _core.EdgeLists) -> Callable[[int, int], tuple[int, ...]]:
        """Of a file with a twin, the sums that do not depend on whose ends the lists belong to."""
        is_incoming = bool(self.file.header.flags & FLAG_INCOMING)
        forward = self.is_compared and not (self.is_directed and is_incoming)
        backward = self.is_compared and not (self.is_directed and not is_incoming)
        return lambda begin, end: hashed.sums(begin, end, forward, backward)

    def _edge_checks(self, lists: _core.EdgeLists) -> list[Check]:
        checks = [Check("indices", lists.first_unsorted, self._bad_neighbor)]
        named = self.by_edge
        if "weights" in named:
            weights = named["weights"]
            checks.append(
                Check(
                    "weights",
                    lambda i, j: _core.first_bad_weight(weights, i, j),
                    lambda at: (
                        f"the weight of stored edge {at} is {weights[at]}, which is "
                        f"negative or not finite"
                    ),
                )
            )
            if "cum_weights" in named:
                checks.append(
                    Check("cum_weights", lists.first_bad_sum, self._bad_sum, ("weights",))
                )
        if "time_order" in named:
            checks.append(Check("time_order", lists.first_untimely, self._bad_order, ("times",)))
        if "edge_ids" in named:
            ids, limit = named["edge_ids"], self.num_input
            checks.append(
                Check(
                    "edge_ids",
                    lambda i, j: _core.first_beyond(ids, limit, i, j),
                    lambda at: (
                        f"stored edge {at} has the edge id {ids[at]}, out of range for "
                        f"{limit} input edges"
                    ),
                )
            )
        return checks

    def _bad_neighbor(self, entry: int) -> str:
        bad = int(self.by_edge["indices"][entry])
        outside = f"has an id out of range for {self.num_neighbors}: {bad}"
        how = outside if bad >= self.num_neighbors else "is not sorted by id"
        return f"the neighbour list of stored node {self._list_of(entry)} {how}"

    def _bad_sum(self, entry: int) -> str:
        return (
            f"'cum_weights' of stored edge {entry} is not the sum of 'weights' in the list of "
            f"stored node {self._list_of(entry)} up to it"
        )

    def _bad_order(self, entry: int) -> str:
        node = self._list_of(entry)
        ids = self.file.arrays(["node_ids"]).get("node_ids")
        user = node if ids is None else int(ids[node])
        return f"section 'time_order' does not put the edges of node {user} in order of time"

    def _add(self, name: str, entry: int, message: str) -> None:
        self.found[name] = self.file.finding(name, entry, f"{message}: build the file again")

    def _not_mirrored(self, lists: _core.EdgeLists) -> None:
        """The graph is undirected, and both directions of its edges differ."""
        entry = _first(lists.first_unmirrored, self.num_edges, self.workers)
        if entry >= 0:
            self._add(
                "indices",
                entry,
                f"stored node {self._list_of(entry)} and its neighbour "
                f"{self.by_edge['indices'][entry]} are not equally often in each other's lists, "
                f"but the graph is undirected",
            )
            return
        names = ", ".join(self.payload)
        self._add(
            self.payload[0], 0, f"the two directions of an undirected edge differ in one of {names}"
        )

    def _check_edge_ids(self, found: EdgeTotals) -> None:
        """Each input edge is named at most once (undirected: twice), and none is missing."""
        if self.is_compared and "edge_ids" not in self.payload:  # the twin has none
            ids, indices = self.by_edge["edge_ids"], self.by_edge["indices"]
            arrays = {"indptr": self.indptr, "indices": indices, "edge_ids": ids}
            lists = _core.EdgeLists(self.num_neighbors, arrays, self.per_loop)
            found = EdgeTotals.of(lists, self.num_edges, self.workers)
        if is_complete(found, self.num_edges, self.num_input, self.per_loop, self.workers):
            return
        arrays = {name: self.by_edge[name] for name in ("indices", "edge_ids")}
        lists = _core.EdgeLists(
            self.num_neighbors, {"indptr": self.indptr, **arrays}, self.per_loop
        )
        entry = find_repeated(lists, self.num_edges, self.num_input, self.per_loop, self.workers)
        if entry >= 0:
            often = "more than twice" if self.per_loop == 2 else "more than once"
            self._add(
                "edge_ids",
                entry,
                f"the edge id {self.by_edge['edge_ids'][entry]} of stored edge {entry} is there "
                f"{often}",
            )

    # ---- sections by node

    def _check_nodes(self) -> None:
        arrays = self.file.arrays(_BY_NODE)
        self.found |= check_inverse(self.file, arrays, self.workers, "the stored order of nodes")


def _first(check: Any, count: int, workers: Workers) -> int:
    """First faulty entry of all, or -1."""
    for _, _, entry in workers.in_order(check, count, 1 << 20):
        if entry >= 0:
            return int(entry)
    return -1
