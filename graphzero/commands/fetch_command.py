"""``graphzero fetch``."""

from __future__ import annotations

import argparse
import time
from functools import partial

from graphzero.commands.parsing import add_option, print_built, shows_progress

HELP = "fetch a dataset from a remote store, or what of it is missing, changed or damaged"
EXAMPLES = """\
  graphzero fetch s3://bucket/data data/
  graphzero fetch https://host/data data/
  graphzero fetch /shared/data /nvme/data
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds its options."""
    add = partial(add_option, parser)
    add("url", "address of the dataset; options of the store are environment variables of fsspec")
    add("dir", "folder for it; an interrupted fetch goes on")


def run(args: argparse.Namespace) -> int:
    """Fetches a dataset and prints a summary."""
    from graphzero.store.remote import fetch

    started = time.perf_counter()
    fetch(args.url, args.dir, progress=shows_progress(args))
    print_built(args.dir, (), started)
    return 0
