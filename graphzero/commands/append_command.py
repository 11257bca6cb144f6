"""``graphzero append``."""

from __future__ import annotations

import argparse
import time
from functools import partial

import numpy as np

from graphzero.commands.build_command import as_pair, edges_of, read_description
from graphzero.commands.parsing import NamedValues, add_option, print_built, shows_progress

HELP = "add edges and nodes to a dataset, or remove edges, without a build"
EXAMPLES = """\
  graphzero append data/ --edges new_edges.csv
  graphzero append data/ --edges new_edges.npy --node x=new_x.npy --node y=new_y.npy
  graphzero append data/ --from more.toml
  graphzero append data/ --remove-edges positions.npy
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds its options."""
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


def run(args: argparse.Namespace) -> int:
    """Appends to a dataset and prints a summary."""
    from graphzero.api import append  # pyarrow takes long to import

    started = time.perf_counter()
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
    print_built(args.dir, (), started)
    return 0
