"""``graphzero reorder``."""

from __future__ import annotations

import argparse
import time

from graphzero.commands.parsing import add_order_options, order_options, print_built

HELP = (
    "rewrite a dataset with its nodes in another order, or with other neighbours; ids do not change"
)
EXAMPLES = """\
  graphzero reorder data/ --order presample
  graphzero reorder data/ --order presample --fanouts 10,10 --batch-size 512
  graphzero reorder data/ --order hot --neighbors both
  graphzero reorder data/ --order input --memory-limit 512MB
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds its options."""
    parser.add_argument("dir", help="folder of the dataset; its disk needs space for a second copy")
    add_order_options(parser)


def run(args: argparse.Namespace) -> int:
    """Reorders a dataset and prints a summary."""
    from graphzero.api import reorder  # pyarrow takes long to import

    started = time.perf_counter()
    reorder(args.dir, neighbors=args.neighbors, **order_options(args)).close()
    print_built(args.dir, (), started, order=f" in {args.order} order")
    return 0
