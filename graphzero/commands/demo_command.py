"""``graphzero demo``."""

from __future__ import annotations

import argparse
import tempfile
from functools import partial
from pathlib import Path

from graphzero.commands.parsing import add_option, shows_progress
from graphzero.commands.train_command import (
    add_training_options,
    check_output_options,
    train_and_print,
)
from graphzero.training.demo_graph import demo_paths, write_demo

HELP = "generate a synthetic graph, build a dataset from its files, and train on it"
EXAMPLES = """\
  graphzero demo
  graphzero demo --nodes 1000000 --edges 20000000 --dir demo/
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds its options."""
    add = partial(add_option, parser)
    add("--nodes N", "number of nodes", default=200_000)
    add("--edges N", "number of edges", default=3_000_000)
    add("--dim N", "features of a node", default=128)
    add("--classes N", "number of classes; each is a community", default=16)
    add(
        "--dir DIR",
        "write all files to this folder, created if needed, and keep them (default: a temporary "
        "folder, deleted at the end)",
    )
    add_training_options(parser, epochs=2)
    parser.set_defaults(pack=None)


def run(args: argparse.Namespace) -> int:
    """Does everything in one folder, which is deleted at the end unless the user keeps it."""
    if args.dir is not None:
        Path(args.dir).mkdir(parents=True, exist_ok=True)
        check_output_options(args, demo_paths(args.dir))
        _run_in(Path(args.dir), args)
        return 0
    check_output_options(args)
    temporary = tempfile.TemporaryDirectory(prefix="graphzero-demo-", ignore_cleanup_errors=True)
    with temporary as folder:
        _run_in(Path(folder), args)
    return 0


def _run_in(folder: Path, args: argparse.Namespace) -> None:
    from graphzero.api import build  # pyarrow takes long to import

    def tell(text: str) -> None:
        if not args.quiet:
            print(text, flush=True)

    tell(f"generating {args.nodes:,} nodes and {args.edges:,} edges in {folder}")
    files = write_demo(
        folder,
        num_nodes=args.nodes,
        num_edges=args.edges,
        dim=args.dim,
        num_classes=args.classes,
        seed=args.seed,
    )
    tell("building a dataset from edges.csv and the .npy files")
    with build(folder / "dataset", **files, directed=False, progress=shows_progress(args)) as ds:
        tell(f"training on {ds.num_nodes:,} nodes and {ds.num_edges:,} edges")
        train_and_print(ds, args)
