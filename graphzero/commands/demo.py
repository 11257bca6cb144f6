"""``graphzero demo``."""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from tqdm import tqdm

from graphzero.commands.options import SubParsers, add_command, shows_progress
from graphzero.commands.train import (
    add_training_options,
    check_output_options,
    train_and_print,
)
from graphzero.training.demo_graph import DemoFiles, write_demo

__all__ = ["add_parser"]

_EXAMPLES = """\
  graphzero demo
  graphzero demo --nodes 1000000 --edges 20000000 --dir demo/
"""


def add_parser(commands: SubParsers) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "demo",
        run,
        help="generate a synthetic graph, build a dataset from its files, and train on it",
        examples=_EXAMPLES,
    )
    parser.add_argument("--nodes", type=int, default=200_000, metavar="N", help="number of nodes")
    parser.add_argument("--edges", type=int, default=3_000_000, metavar="N", help="number of edges")
    parser.add_argument("--dim", type=int, default=128, metavar="N", help="features of a node")
    parser.add_argument(
        "--classes",
        type=int,
        default=16,
        metavar="N",
        help="number of classes; each is a community",
    )
    parser.add_argument(
        "--dir",
        metavar="DIR",
        help="write all files to this folder, created if needed, and keep them (default: a "
        "temporary folder, deleted at the end)",
    )
    parser.add_argument("--keep", action="store_true", help="do not delete the temporary folder")
    add_training_options(parser, epochs=2)


def run(args: argparse.Namespace) -> int:
    """Does everything in one folder, which is deleted at the end unless the user keeps it."""
    if args.dir is not None:
        folder = Path(args.dir)
        folder.mkdir(parents=True, exist_ok=True)
        check_output_options(args, DemoFiles.in_folder(folder).paths)
        _run_in(folder, args)
        return 0
    check_output_options(args)
    folder = Path(tempfile.mkdtemp(prefix="graphzero-demo-"))
    try:
        _run_in(folder, args)
    finally:
        if args.keep:
            print(f"files kept in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


def _run_in(folder: Path, args: argparse.Namespace) -> None:
    from graphzero.api import build  # pyarrow takes long to import

    progress = shows_progress(args)
    if not args.quiet:
        print(f"generating {args.nodes:,} nodes and {args.edges:,} edges in {folder}", flush=True)
    files = _write(folder, args, progress=progress)
    if not args.quiet:
        print("building a dataset from edges.csv and the .npy files", flush=True)
    with build(
        folder / "dataset",
        files.edges,
        files.features,
        files.labels,
        files.splits,
        directed=False,
        progress=progress,
    ) as ds:
        if not args.quiet:
            print(f"training on {ds.num_nodes:,} nodes and {ds.num_edges:,} edges", flush=True)
        train_and_print(ds, args)


def _write(folder: Path, args: argparse.Namespace, *, progress: bool) -> DemoFiles:
    with tqdm(
        total=args.edges, desc="generating edges", unit_scale=True, disable=not progress
    ) as bar:
        return write_demo(
            folder,
            num_nodes=args.nodes,
            num_edges=args.edges,
            dim=args.dim,
            num_classes=args.classes,
            seed=args.seed,
            advance=bar.update,
        )
