"""``graphzero append``, ``graphzero set`` and ``graphzero reorder``: changes of a dataset."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphzero.commands.build_commands import (
    add_reading_options,
    add_text_options,
    as_column_or_none,
    as_pair,
    edges_of,
    read_description,
)
from graphzero.commands.parsing import (
    Command,
    NamedValues,
    add_option,
    add_order_options,
    options_as,
    order_options,
    print_built,
    shows_progress,
)

if TYPE_CHECKING:
    from graphzero.ingest.options import Source

_ID_COLUMN = "node ids in tables, by name or position; 'none' if they are in the order of the nodes"


def _add_append_options(parser: argparse.ArgumentParser) -> None:
    add = partial(add_option, parser)
    add("dir", "folder of the dataset; its disk needs room for a second copy of what changes")
    add("--edges FILE", "as of graphzero build", action="append")
    pair = partial(as_pair, what="NAME=FILE, such as x=new_x.npy")
    options = {"dest": "nodes", "action": NamedValues, "default": {}, "type": pair}
    add("--node NAME=FILE", "the rows of new nodes; may be repeated", **options)
    text = "a .toml or .json file with 'edges' and 'nodes', as of graphzero build"
    add("--from FILE", text, dest="description")
    add("--id-column COL", _ID_COLUMN, type=as_column_or_none)
    add("--remove-edges FILE", ".npy file of positions in the edge list, or a mask of it")
    add("--memory-limit SIZE", "memory to use", default="2GB")
    add_reading_options(parser)


def _append(args: argparse.Namespace) -> None:
    """Add edges and nodes to a dataset, or remove edges, without a build.

    graphzero append data/ --edges new_edges.csv
    graphzero append data/ --edges new.csv --src person --dst friend --edge-attr amount
    graphzero append data/ --edges new_edges.npy --node x=new_x.npy --node y=new_y.npy
    graphzero append data/ --from more.toml
    graphzero append data/ --remove-edges positions.npy
    """
    from graphzero.api import append  # pyarrow takes long to import
    from graphzero.ingest.options import Source

    reading = _reading(args)
    edges: Any = None
    if args.edges is not None:
        edges = replace(reading, value=edges_of(args.edges))
    elif reading.options():
        raise ValueError("--src, --header and the like are for the table that --edges names")
    nodes: Any = _as_sources(args.nodes, Source("", id_column=args.id_column)) or None
    if args.id_column is not None and nodes is None:
        raise ValueError("--id-column is for the tables that --node names")
    if args.description is not None:
        if args.edges is not None or args.nodes:
            raise ValueError("with --from, the file says what is new: leave --edges and --node out")
        description = read_description(args.description)
        if unknown := sorted(description.keys() - {"edges", "nodes"}):
            raise ValueError(f"{args.description}: {unknown[0]!r} is not for append")
        edges, nodes = description["edges"], description.get("nodes")
    append(
        args.dir,
        edges,
        nodes=nodes,
        remove_edges=None if args.remove_edges is None else np.load(args.remove_edges),
        memory_limit=args.memory_limit,
        progress=shows_progress(args),
    ).close()
    print_built(args, args.dir)


def _reading(args: argparse.Namespace) -> Source:
    """The options that say how a table is read, but for ids, as a source without a value."""
    from graphzero.ingest.options import Source  # pyarrow takes long to import

    args.value = ""
    return replace(options_as(Source, args) or Source(""), id_column=None)


def _as_sources(files: Mapping[str, str], reading: Source) -> dict[str, Any]:
    """Files by name; tables are read by the options of a source."""
    from graphzero.ingest.sources.tables import is_table

    return {
        name: replace(reading, value=file) if is_table(file) else file
        for name, file in files.items()
    }


def _add_set_options(parser: argparse.ArgumentParser) -> None:
    add = partial(add_option, parser)
    add("dir", "folder of the dataset")
    text = "node type or edge type (source__relation__target); without types, 'node' or 'edge'"
    add("--of TYPE", text)
    several = {"action": "append", "default": []}
    pair = partial(as_pair, what="NAME=FILE, such as year=years.npy")
    pairs = {"action": NamedValues, "default": {}, "type": pair}
    text = "a row for each node, or each edge of the edge list; may be repeated"
    add("--attribute NAME=FILE", text, dest="attributes", **pairs)
    add("--split NAME=FILE", "node ids, or positions of edges", dest="splits", **pairs)
    add("--drop-attribute NAME", "may be repeated", dest="drop_attributes", **several)
    add("--drop-split NAME", "may be repeated", dest="drop_splits", **several)
    add("--dtype DTYPE", "to store attributes in, such as float16 (default: as of graphzero build)")
    add("--memory-limit SIZE", "memory to use", default="2GB")
    group = parser.add_argument_group("reading tables")
    add_option(group, "--id-column COL", _ID_COLUMN, type=as_column_or_none)
    text = "columns of values; one is a number for each, several are a row (default: all others)"
    add_option(group, "--columns NAME,NAME", text)
    add_text_options(group)


def _set(args: argparse.Namespace) -> None:
    """Set and drop attributes and splits of a dataset, without a build.

    graphzero set data/ --attribute year=years.npy --split train=train.npy
    graphzero set data/ --attribute year=papers.csv --id-column key --columns year
    graphzero set data/ --attribute x=embeddings.gd --drop-attribute year
    graphzero set data/ --of edge --attribute kind=kinds.npy
    graphzero set data/ --of author__writes__paper --attribute position=positions.npy
    """
    from graphzero.api import change  # pyarrow takes long to import
    from graphzero.ingest.changes import Changes

    if args.columns is not None and len(args.columns) == 1:
        (args.columns,) = args.columns  # a number for each, and no row
    reading = _reading(args)
    args.attributes = _as_sources(args.attributes, reading)
    args.splits = _as_sources(args.splits, reading)
    changes = options_as(Changes, args) or Changes()
    if not (args.attributes or args.splits or args.drop_attributes or args.drop_splits):
        raise ValueError("nothing to set or drop: see graphzero set --help")
    limit, progress = args.memory_limit, shows_progress(args)
    change(args.dir, changes, memory_limit=limit, progress=progress).close()
    print_built(args, args.dir)


def _add_reorder_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", help="folder of the dataset; its disk needs space for a second copy")
    add_order_options(parser)


def _reorder(args: argparse.Namespace) -> None:
    """Rewrite a dataset with its nodes in another order or other neighbours; ids do not change.

    graphzero reorder data/ --order presample
    graphzero reorder data/ --order presample --fanouts 10,10 --batch-size 512
    graphzero reorder data/ --order hot --neighbors both
    graphzero reorder data/ --order input --memory-limit 512MB
    """
    from graphzero.api import reorder  # pyarrow takes long to import

    reorder(args.dir, neighbors=args.neighbors, **order_options(args)).close()
    print_built(args, args.dir, order=f" in {args.order} order")


APPEND = Command("append", _add_append_options, _append)
SET = Command("set", _add_set_options, _set)
REORDER = Command("reorder", _add_reorder_options, _reorder)
