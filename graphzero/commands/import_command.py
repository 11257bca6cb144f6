"""``graphzero import``."""

from __future__ import annotations

import argparse
import time

from graphzero.commands.options import (
    SubParsers,
    add_command,
    add_order_options,
    add_storage_options,
    order_options,
    print_built,
)

_EXAMPLES = """\
  graphzero import ogb dataset/ogbn_arxiv data/
  graphzero import ogb dataset/ogbn_papers100M data/ --feature-dtype float16
  graphzero import ogb my_graph/ data/ --name ogbn-mine --undirected
"""


def add_parser(commands: SubParsers) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "import",
        run,
        help="build a dataset folder from a whole dataset of OGB",
        examples=_EXAMPLES,
    )
    add = parser.add_argument
    add(
        "layout",
        choices=["ogb"],
        metavar="LAYOUT",
        help="ogb: a folder of the Open Graph Benchmark, with raw/ and split/",
    )
    add("dir", help="folder of the dataset to import")
    add("out", help="folder of the new dataset; created if needed")
    add("--name", metavar="NAME", help="such as ogbn-arxiv (default: by the name of the folder)")
    add("--split-type", metavar="NAME", help="folder in split/ (default: the one OGB prescribes)")
    direction = parser.add_mutually_exclusive_group()
    direction.add_argument(
        "--directed",
        action="store_true",
        default=None,
        help="store the edges as they are (default: what the dataset says)",
    )
    direction.add_argument(
        "--undirected", dest="directed", action="store_false", default=None, help="store both ways"
    )
    add_storage_options(parser)
    add_order_options(parser, order="hot", neighbors="in")


def run(args: argparse.Namespace) -> int:
    """Builds the dataset and prints a summary."""
    from graphzero.api import write_dataset  # pyarrow takes long to import
    from graphzero.ingest.ogb import find_ogb

    started = time.perf_counter()
    found = find_ogb(args.dir, name=args.name, directed=args.directed, split_type=args.split_type)
    stored = {"feature_dtype": args.feature_dtype, "edge_ids": args.edge_ids}
    closing = write_dataset(args.out, **{**found, **stored, **order_options(args)})
    print_built(args.out, closing.lines(), started)
    return 0
