"""``graphzero publish``."""

from __future__ import annotations

import argparse
from functools import partial

from graphzero.commands.parsing import add_option, shows_progress
from graphzero.units import print_lines

HELP = "copy a dataset to a remote store, from which graphzero fetch and graphzero.open read it"
EXAMPLES = """\
  graphzero publish data/ s3://bucket/data
  graphzero publish data/ /shared/data
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds its options."""
    add = partial(add_option, parser)
    add("dir", "folder of the dataset")
    add("url", "address of a folder of its own; files that it has already are not copied again")


def run(args: argparse.Namespace) -> int:
    """Publishes a dataset."""
    from graphzero.store.remote import publish

    publish(args.dir, args.url, progress=shows_progress(args))
    if not args.quiet:
        print_lines(f"{args.url} has the dataset of {args.dir}")
    return 0
