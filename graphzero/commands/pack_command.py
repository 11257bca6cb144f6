"""``graphzero pack``."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from dataclasses import fields
from functools import partial
from pathlib import Path

from graphzero.commands.options import add_batch_options, add_option, shows_progress
from graphzero.graph.dataset import open_dataset
from graphzero.graph.user_input import Sampling
from graphzero.io.prefetch import Prefetch
from graphzero.loader.arguments import seeds_of_split
from graphzero.packs.pack_file import pack_files
from graphzero.units import format_bytes

HELP = (
    "sample epochs in advance, and write the rows of their batches one after the other: "
    "features, large attributes of nodes, and attributes of edges"
)
EXAMPLES = """\
  graphzero pack data/ train.pack.gd --epochs 5 --dry-run
  graphzero pack data/ train.pack.gd --epochs 5 --fanouts 15,10,5 --resident 2GB
  graphzero pack typed/ paper.pack.gd --epochs 2 --node-type paper --fanouts 10,5
"""
_NEEDS_TIMES = "strictly_before"  # the seeds of a pack that this command writes have no times
_FLAGS = [
    field.name for field in fields(Sampling) if field.type == "bool" and field.name != _NEEDS_TIMES
]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds its options."""
    add = partial(add_option, parser)
    add("dir", "a dataset folder with features or attributes of edges")
    add("out", "file to write: the pack, for 'train --pack' and graphzero.PackedDataset")
    text = "split whose nodes are the seeds; 'all' takes all nodes"
    add("--split NAME", text, default="train")
    add_batch_options(parser)
    add(
        "--gather NAME,NAME",
        "attributes to pack, such as x, which is all that 'graphzero train' uses (default: all "
        "that are large)",
    )
    add("--epochs N", "number of epochs to pack", required=True)
    add("--first-epoch N", "number of the first epoch", default=0)
    add("--no-shuffle", "keep the order of the seeds in every epoch")
    add("--drop-last", "leave out the last batch of an epoch if it is smaller")
    add("--seed N", "seed of the random choices", default=0)
    add(
        "--resident SIZE",
        "rows that training will keep in memory: a size such as 2GB, or a fraction of all rows "
        "such as 0.2 (default: what fits in the memory that is available now)",
        type=_as_size,
    )
    text = "how this command reads rows; see 'graphzero train --help'"
    add("--prefetch NAME[:KEY=VALUE,...]", text, default=Prefetch().strategy)
    add("--dry-run", "only print how large the pack will be")
    add("--overwrite", "replace the file if it exists")
    group = parser.add_argument_group(
        "sampling", "how neighbours are drawn; help(graphzero.Sampling) explains each option"
    )
    for name in _FLAGS:
        group.add_argument(f"--{name}", action="store_true")


def _as_size(text: str) -> int | float | str | None:
    """``"2GB"``, a number of bytes, or a fraction such as ``"0.2"``: as `Prefetch.resident`."""
    try:
        return Prefetch(resident=text).resident
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: argparse.Namespace) -> int:
    """Prints how large the pack will be, and writes it."""
    from graphzero.packs.packing import Packing  # torch takes long to import

    with open_dataset(args.dir) as ds:
        packing = Packing(
            ds,
            seeds_of_split(ds, args.split, args.node_type),
            args.fanouts,
            epochs=args.epochs,
            first_epoch=args.first_epoch,
            resident=args.resident,
            batch_size=args.batch_size,
            shuffle=not args.no_shuffle,
            drop_last=args.drop_last,
            seed=args.seed,
            prefetch=args.prefetch,
            gather=args.gather,
            **{name: True for name in _FLAGS if getattr(args, name)},
        )
        if args.dry_run or not args.quiet:
            free = shutil.disk_usage(Path(args.out).absolute().parent).free
            print(
                f"the pack takes about {format_bytes(packing.file_bytes)} of disk space "
                f"({format_bytes(free)} are free) for {packing.num_batches:,} batches, with "
                f"{format_bytes(packing.resident_bytes)} of rows resident",
                flush=True,
            )
        if args.dry_run:
            packing.check_space(args.out)
            return 0
        started = time.perf_counter()
        path = packing.write(args.out, overwrite=args.overwrite, progress=shows_progress(args))
        size = sum(map(os.path.getsize, pack_files(path)))
        print(
            f"{args.out}: {packing.num_batches:,} batches, "
            f"{format_bytes(size)}, in {time.perf_counter() - started:.1f} s"
        )
    return 0
