"""``graphzero fetch`` and ``graphzero publish``: copies of a dataset."""

from __future__ import annotations

import argparse
from functools import partial

from graphzero.commands.parsing import Command, add_option, print_built, shows_progress
from graphzero.units import print_lines


def _add_fetch_options(parser: argparse.ArgumentParser) -> None:
    add = partial(add_option, parser)
    add("url", "address of the dataset; options of the store are environment variables of fsspec")
    add("dir", "folder for it; an interrupted fetch goes on")


def _fetch(args: argparse.Namespace) -> None:
    """Fetch a dataset from a remote store, or what of it is missing, changed or damaged.

    graphzero fetch s3://bucket/data data/
    graphzero fetch https://host/data data/
    graphzero fetch /shared/data /nvme/data
    """
    from graphzero.store.remote import fetch

    fetch(args.url, args.dir, progress=shows_progress(args))
    print_built(args, args.dir)


def _add_publish_options(parser: argparse.ArgumentParser) -> None:
    add = partial(add_option, parser)
    add("dir", "folder of the dataset")
    add("url", "address of a folder of its own; files that it has already are not copied again")


def _publish(args: argparse.Namespace) -> None:
    """Copy a dataset to a remote store, from which graphzero fetch and graphzero.open read it.

    graphzero publish data/ s3://bucket/data
    graphzero publish data/ /shared/data
    """
    from graphzero.store.remote import publish

    publish(args.dir, args.url, progress=shows_progress(args))
    if not args.quiet:
        print_lines(f"{args.url} has the dataset of {args.dir}")


FETCH = Command("fetch", _add_fetch_options, _fetch)
PUBLISH = Command("publish", _add_publish_options, _publish)
