"""``graphzero import``."""

from __future__ import annotations

import argparse
import time
from functools import partial

from graphzero.commands.parsing import (
    add_option,
    add_order_options,
    add_storage_options,
    order_options,
    print_built,
)

HELP = "build a dataset folder from a whole dataset of OGB"
EXAMPLES = """\
  graphzero import ogb dataset/ogbn_arxiv data/
  graphzero import ogb dataset/ogbn_papers100M data/ --feature-dtype float16
  graphzero import ogb my_graph/ data/ --name ogbn-mine --undirected
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds its options."""
    add = partial(add_option, parser)
    text = "ogb: a folder of the Open Graph Benchmark, with raw/ and split/"
    parser.add_argument("layout", choices=["ogb"], metavar="LAYOUT", help=text)
    add("dir", "folder of the dataset to import")
    add("out", "folder of the new dataset; created if needed")
    add("--name NAME", "such as ogbn-arxiv (default: by the name of the folder)")
    add("--split-type NAME", "folder in split/ (default: the one OGB prescribes)")
    direction = parser.add_mutually_exclusive_group()
    text = "store the edges as they are (default: what the dataset says)"
    add_option(direction, "--directed", text, default=None)
    add_option(
        direction,
        "--undirected",
        "store both ways",
        dest="directed",
        action="store_false",
        default=None,
    )
    add_storage_options(parser)
    add_order_options(parser, order="hot", neighbors="in")


def run(args: argparse.Namespace) -> int:
    """Builds the dataset and prints a summary."""
    from graphzero.api import checked_options  # pyarrow takes long to import
    from graphzero.ingest.build import write_dataset
    from graphzero.ingest.ogb import find_ogb
    from graphzero.ingest.options import BuildOptions

    started = time.perf_counter()
    options = find_ogb(args.dir, name=args.name, directed=args.directed, split_type=args.split_type)
    options |= {"feature_dtype": args.feature_dtype, "edge_ids": args.edge_ids}
    options |= {"neighbors": args.neighbors, **order_options(args)}
    notes = write_dataset(args.out, checked_options(BuildOptions(**options)))
    print_built(args.out, notes.lines(), started)
    return 0
