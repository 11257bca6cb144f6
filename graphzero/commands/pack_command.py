"""``graphzero pack``."""

from __future__ import annotations

import argparse
import os
import time
from functools import partial

from graphzero.commands.parsing import (
    add_batch_options,
    add_option,
    add_prefetch_options,
    chosen_prefetch,
    shows_progress,
)
from graphzero.graph.dataset import open_dataset
from graphzero.loader.seeds import seeds_of_split
from graphzero.packs.pack_file import Pack
from graphzero.units import format_bytes, print_lines

HELP = (
    "sample epochs in advance, and write the rows of their batches one after the other: "
    "features, large attributes of nodes, and attributes of edges"
)
EXAMPLES = """\
  graphzero pack data/ train.pack.gd --epochs 5 --fanouts 15,10,5 --resident 2GB
  graphzero pack typed/ paper.pack.gd --epochs 2 --node-type paper --fanouts 10,5
"""


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
    text = "keep the order of the seeds in every epoch"
    add("--no-shuffle", text, dest="shuffle", action="store_false")
    add("--drop-last", "leave out the last batch of an epoch if it is smaller")
    add("--seed N", "seed of the random choices", default=0)
    add_prefetch_options(
        parser,
        resident="rows that training will keep in memory: a size such as 2GB, or a fraction of all "
        "rows such as 0.2 (default: what fits in the memory that is available now)",
        memory_limit="memory that this command may take for rows (default: what is available)",
    )
    add("--overwrite", "replace the file if it exists")


def run(args: argparse.Namespace) -> int:
    """Writes the pack, and prints how large it is."""
    from graphzero.packs.packing import pack  # torch takes long to import

    started = time.perf_counter()
    with open_dataset(args.dir) as ds:
        path = pack(
            ds,
            args.out,
            seeds_of_split(ds, args.split, args.node_type),
            args.fanouts,
            epochs=args.epochs,
            first_epoch=args.first_epoch,
            overwrite=args.overwrite,
            batch_size=args.batch_size,
            shuffle=args.shuffle,
            drop_last=args.drop_last,
            seed=args.seed,
            gather=args.gather,
            prefetch=chosen_prefetch(args),
            progress=shows_progress(args),
        )
    size = format_bytes(sum(map(os.path.getsize, Pack(path).files)))
    print_lines(f"{args.out}: {size}, in {time.perf_counter() - started:.1f} s")
    return 0
