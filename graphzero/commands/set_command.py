"""``graphzero set``."""

from __future__ import annotations

import argparse
import time
from functools import partial

from graphzero.commands.build_command import as_column_or_none, as_pair
from graphzero.commands.parsing import NamedValues, add_option, print_built, shows_progress

HELP = "set and drop attributes and splits of a dataset, without a build"
EXAMPLES = """\
  graphzero set data/ --attribute year=years.npy --split train=train.npy
  graphzero set data/ --attribute x=embeddings.gd --drop-attribute year
  graphzero set data/ --of edge --attribute kind=kinds.npy
  graphzero set data/ --of author__writes__paper --attribute position=positions.npy
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds its options."""
    add = partial(add_option, parser)
    add("dir", "folder of the dataset")
    text = "node type or edge type (source__relation__target); without types, 'node' or 'edge'"
    add("--of TYPE", text)
    several = {"action": "append", "default": []}
    pairs = {
        "action": NamedValues,
        "default": {},
        "type": partial(as_pair, what="NAME=FILE, such as year=years.npy"),
    }
    text = "a row for each node, or each edge of the edge list; may be repeated"
    add("--attribute NAME=FILE", text, dest="attributes", **pairs)
    add("--split NAME=FILE", "node ids, or positions of edges", dest="splits", **pairs)
    add("--drop-attribute NAME", "may be repeated", dest="drop_attributes", **several)
    add("--drop-split NAME", "may be repeated", dest="drop_splits", **several)
    add("--dtype DTYPE", "to store attributes in, such as float16 (default: as of graphzero build)")
    text = "node ids in tables, by name or position; 'none' if they are in the order of the nodes"
    add("--id-column COL", text, type=as_column_or_none)
    add("--memory-limit SIZE", "memory to use", default="2GB")


def run(args: argparse.Namespace) -> int:
    """Changes a dataset in one step, and prints a summary."""
    from graphzero.api import change  # pyarrow takes long to import
    from graphzero.ingest.changes import Changes

    started = time.perf_counter()
    changes = Changes(
        args.of,
        attributes=args.attributes,
        splits=args.splits,
        drop_attributes=args.drop_attributes,
        drop_splits=args.drop_splits,
        dtype=args.dtype,
        id_column=args.id_column,
    )
    if not (args.attributes or args.splits or args.drop_attributes or args.drop_splits):
        raise ValueError("nothing to set or drop: see graphzero set --help")
    limit, progress = args.memory_limit, shows_progress(args)
    change(args.dir, changes, memory_limit=limit, progress=progress).close()
    print_built(args.dir, (), started)
    return 0
