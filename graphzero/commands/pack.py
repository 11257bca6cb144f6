"""``graphzero pack``."""

from __future__ import annotations

import argparse
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from graphzero.commands.options import (
    SubParsers,
    add_command,
    as_fanouts,
    as_prefetch,
    as_size,
    shows_progress,
)
from graphzero.graph.dataset import Dataset, open_dataset
from graphzero.graph.ids import IdArray
from graphzero.graph.sampling_options import Sampling
from graphzero.io.prefetch import Prefetch
from graphzero.units import format_bytes

if TYPE_CHECKING:
    from graphzero.packs.packing import PackCost, Reads

__all__ = ["add_parser"]

_EXAMPLES = """\
  graphzero pack data/ train.pack.gd --epochs 5 --dry-run
  graphzero pack data/ train.pack.gd --epochs 5 --fanouts 15,10,5 --resident 2GB
"""
_FLAGS = [field.name for field in fields(Sampling) if field.type == "bool"]
_NOT_OF_NODES = ("strictly_before",)  # means nothing where seeds have no times


def add_parser(commands: SubParsers) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "pack",
        run,
        help="sample epochs ahead of time and write the rows of their batches one after the other",
        examples=_EXAMPLES,
    )
    add = parser.add_argument
    add("dir", help="a dataset folder with features")
    add("out", help="the pack, for graphzero.PackedDataset")
    add("--split", default="train", metavar="NAME", help="seeds; 'all' for all nodes")
    add("--epochs", type=int, required=True, metavar="N", help="epochs to pack")
    add("--first-epoch", type=int, default=0, metavar="N", help="the first of them")
    add("--fanouts", type=as_fanouts, default="15,10,5", metavar="N,N", help="neighbours per hop")
    add("--batch-size", type=int, default=1024, metavar="N", help="seeds in a mini-batch")
    add("--no-shuffle", action="store_true", help="take the seeds in their order in every epoch")
    add("--drop-last", action="store_true", help="leave out the last batch where it is short")
    add("--seed", type=int, default=0, metavar="N", help="of order and draws")
    add(
        "--resident",
        type=as_size,
        metavar="SIZE",
        help="rows that training will keep in memory, as in 2GB, or 0.2 of all (default: what "
        "memory leaves now)",
    )
    add(
        "--prefetch",
        type=as_prefetch,
        default=Prefetch().strategy,
        metavar="NAME[:KEY=VALUE,...]",
        help="how rows are read to be packed, as for 'train'",
    )
    add("--dry-run", action="store_true", help="only say what it costs and saves")
    add("--overwrite", action="store_true", help="replace an earlier file")
    group = parser.add_argument_group("sampling", "how neighbours are drawn")
    for name in _FLAGS:
        if name not in _NOT_OF_NODES:
            group.add_argument(f"--{name}", action="store_true")


def run(args: argparse.Namespace) -> int:
    """Says what it costs and saves; packs, and says what came out."""
    from graphzero.packs.packing import Packing  # torch takes long to import

    with open_dataset(args.dir) as ds:
        packing = Packing(
            ds,
            _seeds(ds, args.split),
            args.fanouts,
            epochs=args.epochs,
            first_epoch=args.first_epoch,
            resident=args.resident,
            batch_size=args.batch_size,
            shuffle=not args.no_shuffle,
            drop_last=args.drop_last,
            seed=args.seed,
            prefetch=args.prefetch,
            **{name: True for name in _FLAGS if getattr(args, name, False)},
        )
        if args.dry_run or not args.quiet:
            for line in _cost_lines(packing.cost, Path(args.out).absolute().parent):
                print(line, flush=True)
        if args.dry_run:
            packing.check_space(args.out)
            return 0
        started = time.perf_counter()
        path = packing.write(args.out, overwrite=args.overwrite, progress=shows_progress(args))
        print(
            f"{args.out}: {packing.cost.batches:,} batches, "
            f"{format_bytes(os.path.getsize(path))}, in {time.perf_counter() - started:.1f} s"
        )
    return 0


def _seeds(ds: Dataset, split: str) -> IdArray | None:
    if split == "all":
        return None
    if split not in ds.splits:
        raise ValueError(f"no split {split!r}; there are {sorted(ds.splits)}, and 'all' nodes")
    return ds.splits[split]


def _cost_lines(cost: PackCost, folder: Path) -> Iterator[str]:
    free = shutil.disk_usage(folder).free
    yield (
        f"cost: about {format_bytes(cost.file_bytes)} of disk, of which {format_bytes(free)} are "
        f"free, for {cost.batches:,} batches"
    )
    yield (
        f"saves: a batch is about {_reads(cost.packed)}; unpacked, {_reads(cost.unpacked)}; "
        f"both with {format_bytes(cost.resident_bytes)} of rows resident"
    )


def _reads(of: Reads) -> str:
    return f"{format_bytes(round(of.num_bytes))} in {of.reads:,.0f} reads"
