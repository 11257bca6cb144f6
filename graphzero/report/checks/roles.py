"""What a manifest says of each file of its folder; `rows_file` and `verify` compare.

A new kind of file needs a line in `roles_of`; without one, it is checked as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphzero.store.format import FLAG_DIRECTED, FLAG_INCOMING, FLAG_TYPED, Header
from graphzero.store.manifest import AnyManifest
from graphzero.store.schema import EdgeTable, FileEntry, Manifest, NodeTable, TypedManifest

__all__ = ["GraphRole", "Role", "RowsRole", "find_difference", "roles_of"]

_FLAGS = FLAG_DIRECTED | FLAG_INCOMING | FLAG_TYPED
# First bytes of the fields of a header, as in docs/format.md.
_AT = {"flags": 12, "num_nodes": 24, "width": 32, "num_input_edges": 40, "num_neighbors": 56}


@dataclass(frozen=True)
class GraphRole:
    """A ``.gl`` file of a dataset: the fields of its header.

    Attributes
    ----------
    has_twin : bool
        It is one of the two files of a directed graph, which have the same edges.
    payload : tuple of str
        Sections that are the same wherever an edge is stored.
    """

    num_nodes: int
    width: int
    num_input_edges: int
    flags: int
    num_neighbors: int = 0
    has_twin: bool = False
    payload: tuple[str, ...] = ("edge_ids", "weights")


@dataclass(frozen=True)
class RowsRole:
    """A ``.gd`` file of a dataset.

    Attributes
    ----------
    num_nodes : int or None
        Rows; None where the manifest does not tell.
    limit : int or None
        The rows are int64 ids below it.
    num_classes : int or None
        Integers, if the rows are a vector of them, are below it.
    most : int or None
        The rows are counts of at most this.
    descending : bool
        The counts descend.
    ids_of : str or None
        The rows are the user's ids of the stored nodes of this type.
    is_id_table : bool
        The rows are the ids of any kind that the build took to the numbers of the nodes.
    """

    num_nodes: int | None = None
    limit: int | None = None
    num_classes: int | None = None
    most: int | None = None
    descending: bool = False
    ids_of: str | None = None
    is_id_table: bool = False


Role = GraphRole | RowsRole


def find_difference(header: Header, role: Role) -> tuple[int, str] | None:
    """First field of a header that is not as the manifest says: its first byte, and a message."""
    told: dict[str, int | None] = {"num_nodes": role.num_nodes}
    if isinstance(role, GraphRole):
        for name in ("flags", "width", "num_input_edges", "num_neighbors"):
            told[name] = getattr(role, name)
    for name in _AT:
        expected = told.get(name)
        found = getattr(header, name) & (_FLAGS if name == "flags" else -1)
        if expected is not None and expected != found:
            return _AT[name], (
                f"has {name} {found}, but dataset.json says {expected}: build the dataset again"
            )
    return None


def roles_of(manifest: AnyManifest) -> list[tuple[FileEntry, Role]]:
    """Every file of a manifest, with what the manifest says of it."""
    found = _typed(manifest) if isinstance(manifest, TypedManifest) else _untyped(manifest)
    known = {entry for entry, _ in found}
    return found + [(entry, RowsRole()) for entry in manifest.entries() if entry not in known]


def _untyped(manifest: Manifest) -> list[tuple[FileEntry, Role]]:
    counts = (manifest.num_nodes, manifest.num_edges, manifest.num_input_edges)
    flags = FLAG_DIRECTED * manifest.directed
    twin = manifest.out_graph is not None
    # the time of a node is that of the edges to it, which differs by direction
    payload = ("edge_ids", "weights", *(["times"] if manifest.time_level == "edge" else []))
    graph = GraphRole(*counts, flags | FLAG_INCOMING * manifest.incoming, 0, twin, payload)
    found: list[tuple[FileEntry, Role]] = [(manifest.graph, graph)]
    if manifest.out_graph is not None:
        found.append((manifest.out_graph, GraphRole(*counts, flags, 0, twin, payload)))
    if manifest.features is not None:
        found.append((manifest.features, RowsRole(manifest.num_nodes)))
    if manifest.labels is not None:
        labels = RowsRole(manifest.num_nodes, num_classes=manifest.num_classes)
        found.append((manifest.labels, labels))
    if manifest.visits is not None:
        found.append((manifest.visits, _visits(manifest, manifest.num_nodes)))
    if manifest.id_map is not None:
        found.append((manifest.id_map, RowsRole(manifest.num_nodes, is_id_table=True)))
    found += _all(manifest.attributes, RowsRole(manifest.num_nodes))
    found += _all(manifest.edge_attributes, RowsRole(manifest.num_edges))
    found += _all(manifest.splits, RowsRole(limit=manifest.num_nodes))
    return found + _all(manifest.edge_splits, RowsRole(limit=manifest.num_input_edges))


def _all(entries: Mapping[str, FileEntry], role: Role) -> list[tuple[FileEntry, Role]]:
    return [(entry, role) for entry in entries.values()]


def _visits(manifest: AnyManifest, num_nodes: int) -> RowsRole:
    counted = manifest.presampling
    most = None if counted is None else counted.batches
    return RowsRole(num_nodes, most=most, descending=manifest.order == "presample")


def _typed(manifest: TypedManifest) -> list[tuple[FileEntry, Role]]:
    found: list[tuple[FileEntry, Role]] = []
    for name, nodes in manifest.nodes.items():
        found += _of_nodes(manifest, name, nodes)
    for (source, _, target), edges in manifest.edges.items():
        ends = manifest.nodes[source].num_nodes, manifest.nodes[target].num_nodes
        owner, neighbor = ends[::-1] if manifest.incoming else ends
        found += _of_edges(manifest, edges, owner, neighbor)
    return found


def _of_nodes(manifest: TypedManifest, name: str, nodes: NodeTable) -> list[tuple[FileEntry, Role]]:
    found: list[tuple[FileEntry, Role]] = []
    for attribute, entry in nodes.attributes.items():
        classes = nodes.num_classes if attribute == "y" else None
        found.append((entry, RowsRole(nodes.num_nodes, num_classes=classes)))
    found += _all(nodes.splits, RowsRole(limit=nodes.num_nodes))
    if nodes.ids is not None:
        found.append((nodes.ids, RowsRole(nodes.num_nodes, ids_of=name)))
    if nodes.id_map is not None:
        found.append((nodes.id_map, RowsRole(nodes.num_nodes, is_id_table=True)))
    if nodes.visits is not None:
        found.append((nodes.visits, _visits(manifest, nodes.num_nodes)))
    return found


def _of_edges(
    manifest: TypedManifest, edges: EdgeTable, owner: int, neighbor: int
) -> list[tuple[FileEntry, Role]]:
    flags = FLAG_TYPED | FLAG_DIRECTED | FLAG_INCOMING * manifest.incoming
    graph = GraphRole(owner, edges.num_edges, edges.num_input_edges, flags, neighbor)
    found: list[tuple[FileEntry, Role]] = [(edges.graph, graph)]
    found += _all(edges.attributes, RowsRole(edges.num_edges))
    return found + _all(edges.splits, RowsRole(limit=edges.num_input_edges))
