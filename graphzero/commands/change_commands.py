"""``graphzero append``, ``graphzero set`` and ``graphzero reorder``: changes of a dataset."""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np

from graphzero.commands.build_commands import (
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


def _add_append_options(parser: argparse.ArgumentParser) -> None:
    add = partial(add_option, parser)
    add("dir", "folder of the dataset; its disk needs room for a second copy of what changes")
    add("--edges FILE", "as of graphzero build", action="append")
    pair = partial(as_pair, what="NAME=FILE, such as x=new_x.npy")
    options = {"dest": "nodes", "action": NamedValues, "default": {}, "type": pair}
    add("--node NAME=FILE", "the rows of new nodes; may be repeated", **options)
    text = "a .toml or .json file with 'edges' and 'nodes', as of graphzero build"
    add("--from FILE", text, dest="description")
    add("--remove-edges FILE", ".npy file of positions in the edge list, or a mask of it")
    add("--memory-limit SIZE", "memory to use", default="2GB")


def _append(args: argparse.Namespace) -> None:
    """Add edges and nodes to a dataset, or remove edges, without a build.

    graphzero append data/ --edges new_edges.csv
    graphzero append data/ --edges new_edges.npy --node x=new_x.npy --node y=new_y.npy
    graphzero append data/ --from more.toml
    graphzero append data/ --remove-edges positions.npy
    """
    from graphzero.api import append  # pyarrow takes long to import

    edges = None if args.edges is None else edges_of(args.edges)
    nodes = args.nodes or None
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
    text = "node ids in tables, by name or position; 'none' if they are in the order of the nodes"
    add("--id-column COL", text, type=as_column_or_none)
    add("--memory-limit SIZE", "memory to use", default="2GB")


def _set(args: argparse.Namespace) -> None:
    """Set and drop attributes and splits of a dataset, without a build.

    graphzero set data/ --attribute year=years.npy --split train=train.npy
    graphzero set data/ --attribute x=embeddings.gd --drop-attribute year
    graphzero set data/ --of edge --attribute kind=kinds.npy
    graphzero set data/ --of author__writes__paper --attribute position=positions.npy
    """
    from graphzero.api import change  # pyarrow takes long to import
    from graphzero.ingest.changes import Changes

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
