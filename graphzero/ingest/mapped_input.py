"""The input of a build with `ids="map"`: checked, and then with nodes in place of ids."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from graphzero.ingest.edge_input import EdgeInput
from graphzero.ingest.graph_input import GraphInput
from graphzero.ingest.id_map import IdSource, MappedTable, NodeIds, collect_ids
from graphzero.ingest.keyed_rows import RenamedRows, id_columns
from graphzero.ingest.mapped_splits import MappedSplit
from graphzero.ingest.raw_ids import IdKind
from graphzero.ingest.row_stream import Rows
from graphzero.ingest.sources.columns import Column
from graphzero.ingest.sources.table import Table
from graphzero.ingest.typed_input import TypedInput, naming
from graphzero.ingest.typed_names import id_map_file
from graphzero.ingest.write_options import WriteOptions
from graphzero.store.filewriter import FileWriter
from graphzero.store.id_table import ID_TABLE_FILE
from graphzero.store.schema import EdgeType

__all__ = ["check_mapped", "check_mapped_types", "id_kind", "mapped", "mapped_types"]

_KINDS: tuple[IdKind, ...] = ("map", "integer", "string")


def id_kind(ids: str | None) -> IdKind | None:
    """The option ``ids`` of a build; None for ids that are node numbers already.

    Raises
    ------
    ValueError
    """
    if ids is None or ids == "dense":
        return None
    for kind in _KINDS:
        if ids == kind:
            return kind
    raise ValueError(f"ids must be 'dense', 'map', 'integer' or 'string', not {ids!r}")


def check_mapped(num_nodes: int | None, rows: Mapping[str, Rows]) -> None:
    """Refuses what has no meaning where ids are mapped.

    Raises
    ------
    ValueError
    """
    if num_nodes is not None:
        raise ValueError(
            f"num_nodes={num_nodes} is for ids='dense': with ids='map' the nodes are those that "
            f"edges and attributes name; leave num_nodes out"
        )
    for name, one in rows.items():
        if one.in_order:
            raise ValueError(
                f"{one.name}: its rows have no node ids, and with ids='map' nodes are numbered by "
                f"their sorted ids. Give attribute {name!r} as a table with a column of node ids, "
                f"such as a CSV or Parquet file; or number the nodes yourself, and build with "
                f"ids='dense'"
            )


def check_mapped_types(given: TypedInput) -> None:
    """As `check_mapped`, of a typed graph."""
    for name, nodes in given.nodes.items():
        with naming(name):
            check_mapped(nodes.num_nodes, nodes.attributes)


def _edge_source(edges: EdgeInput, types: tuple[str, str]) -> IdSource:
    columns = [column for column in edges.columns if column.is_id]
    return IdSource(edges.table, list(zip(columns, types, strict=True)))


def _row_sources(rows: Mapping[str, Rows], name: str) -> list[IdSource]:
    pairs = [pair for one in rows.values() for pair in id_columns(one)]
    return [IdSource(table, [(column, name)]) for table, column in pairs]


def _edges_of(edges: EdgeInput, ends: Sequence[NodeIds]) -> EdgeInput:
    columns = [column.index for column in edges.columns if column.is_id]
    return replace(edges, table=MappedTable(edges.table, dict(zip(columns, ends, strict=True))))


def _rows_of(rows: Mapping[str, Rows], ids: NodeIds) -> dict[str, Rows]:
    def change(table: Table, column: Column) -> Table:
        return MappedTable(table, {column.index: ids})

    return {name: RenamedRows(one, change, ids.count(), ids.shown) for name, one in rows.items()}


def _splits_of(splits: Mapping[str, Any], ids: NodeIds) -> dict[str, Any]:
    return {name: MappedSplit(value, ids) for name, value in splits.items()}


@contextmanager
def mapped(
    folder: Path,
    given: GraphInput,
    kind: IdKind | None,
    options: WriteOptions,
    staged: list[FileWriter],
) -> Iterator[tuple[GraphInput, FileWriter | None]]:
    """The input with nodes in place of ids, and the table of ids; unchanged for the kind None.

    Raises
    ------
    ValueError
        Naming the file and the place of a wrong id.
    OSError
        If a file cannot be read, or the disk is full.
    """
    if kind is None:
        yield given, None
        return
    sources = [_edge_source(given.source, ("", "")), *_row_sources(given.nodes, "")]
    paths = {"": folder / ID_TABLE_FILE}
    found = collect_ids(paths, sources, kind, options.sort_memory, options.progress, staged)
    ids, file = found[""], staged[-1]
    options.closing.add(ids.told())
    try:
        changed = replace(
            given,
            source=_edges_of(given.source, (ids, ids)),
            nodes=_rows_of(given.nodes, ids),
            splits=_splits_of(given.splits, ids),
            num_nodes=ids.count() or None,
        )
        yield changed, file
    finally:
        ids.close()


@contextmanager
def mapped_types(
    folder: Path,
    given: TypedInput,
    kind: IdKind | None,
    options: WriteOptions,
    staged: list[FileWriter],
    turned: Collection[EdgeType] = (),
) -> Iterator[tuple[TypedInput, dict[str, FileWriter]]]:
    """As `mapped`, with a table for each node type; lists of `turned` have the targets first."""
    if kind is None:
        yield given, {}
        return
    ends = {key: (key[2], key[0]) if key in turned else (key[0], key[2]) for key in given.edges}
    sources = [_edge_source(one.edges, ends[key]) for key, one in given.edges.items()]
    for name, nodes in given.nodes.items():
        sources += _row_sources(nodes.attributes, name)
    paths = {name: folder / id_map_file(name) for name in given.nodes}
    before = len(staged)
    ids = collect_ids(paths, sources, kind, options.sort_memory, options.progress, staged)
    files = dict(zip(paths, staged[before:], strict=True))
    for key in given.edges:
        names = dict.fromkeys((key[0], key[2]))
        options.closing.add(*(f"{name}: {ids[name].told()}" for name in names), where=str(key))
    try:
        changed_nodes = {
            name: replace(
                nodes,
                attributes=_rows_of(nodes.attributes, ids[name]),
                splits=_splits_of(nodes.splits, ids[name]),
                num_nodes=ids[name].count() or None,
            )
            for name, nodes in given.nodes.items()
        }
        changed_edges = {
            key: replace(one, edges=_edges_of(one.edges, tuple(ids[name] for name in ends[key])))
            for key, one in given.edges.items()
        }
        yield TypedInput(changed_nodes, changed_edges), files
    finally:
        for one in ids.values():
            one.close()
