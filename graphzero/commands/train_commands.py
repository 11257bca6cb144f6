"""``graphzero train``, and ``graphzero pack``, which prepares its mini-batches."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from tqdm.auto import tqdm

from graphzero.commands.parsing import (
    Command,
    add_batch_options,
    add_option,
    add_prefetch_options,
    deferred_interrupts,
    options_as,
    shows_progress,
)
from graphzero.graph.dataset import Dataset, open_dataset
from graphzero.io.prefetch import Prefetch
from graphzero.loader.seeds import seeds_of_split
from graphzero.packs.pack_file import Pack
from graphzero.report.readings import format_memory
from graphzero.store.outputs import Output, check_outputs, files_of_dataset, replaced_file
from graphzero.training.train_options import TrainOptions
from graphzero.units import format_bytes, print_lines

if TYPE_CHECKING:
    from graphzero.training.trainer import EpochReport, TrainReport


def _add_train_options(parser: argparse.ArgumentParser) -> None:
    add_option(parser, "dir", "a dataset folder with features and integer labels")
    add_option(
        parser,
        "--pack FILE",
        "train on the batches in a file that 'graphzero pack' has written; --fanouts and "
        "--batch-size cannot be given then, because the pack has its own",
    )
    add_training_options(parser)


def add_training_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that `train_and_print` takes."""
    add = partial(add_option, parser.add_argument_group("training"))
    add(
        "--fanouts N,N",
        "neighbours per node in each hop (default: 10,10); -1 is all of them, as in "
        "--fanouts=-1,10; the model has one layer for each hop",
    )
    add("--batch-size N", "seed nodes in a mini-batch (default: 1024)")
    for words, text in (
        ("--hidden N", "size of the model's hidden layers"),
        ("--epochs N", "passes over the training nodes"),
        ("--lr X", "learning rate of Adam"),
        ("--dropout X", "share of each layer's inputs that is set to zero while training"),
        ("--weight-decay X", "weight decay of Adam"),
        ("--workers N", "DataLoader worker processes; 0 loads in the main process"),
        ("--seed N", "seed of all random choices"),
        ("--device DEVICE", "a torch device; auto is CUDA if available, else the CPU"),
    ):
        add(words, text)
    add(
        "--no-capture",
        "launch every operation of a step anew; a GPU otherwise replays steps that it has captured",
        dest="capture",
        action="store_false",
    )
    parser.set_defaults(**asdict(TrainOptions()))
    add_prefetch_options(
        parser.add_argument_group("rows that are read ahead"),
        resident="rows that are kept in memory: a size such as 2GB, or a fraction of all rows such "
        "as 0.25",
        memory_limit="memory that resident rows, mini-batches and buffers may take together "
        "(default: what is available)",
    )
    add("--json FILE", "write the report to this file as well")


def report_of(args: argparse.Namespace) -> list[Output]:
    """The report that ``--json`` names, if any."""
    return [] if args.json is None else [Output("--json", args.json)]


def _train(args: argparse.Namespace) -> None:
    """Train GraphSAGE to predict a dataset's labels, and report accuracy, speed and memory.

    graphzero train data/
    graphzero train data/ --fanouts 15,10,5 --hidden 256 --epochs 10 --workers 2
    graphzero train data/ --prefetch willneed --lookahead 2 --json report.json
    graphzero train data/ --pack train.pack.gd --epochs 10
    """
    with open_dataset(args.dir) as ds:
        train_and_print(ds, args)


def training_options(args: argparse.Namespace) -> TrainOptions:
    """The options of `add_training_options`."""
    args.prefetch = options_as(Prefetch, args)
    return options_as(TrainOptions, args) or TrainOptions()


def train_and_print(ds: Dataset, args: argparse.Namespace) -> None:
    """Trains with the given options; prints the report, and writes it if there is ``--json``.

    Raises
    ------
    ValueError
        If torchrun has started several of these processes.
    KeyboardInterrupt
        After Ctrl-C, when what was trained until then has been printed and written.
    """
    from graphzero.loader.ranks import launched_processes  # torch takes long to import
    from graphzero.training.trainer import train

    pack_inputs = [] if args.pack is None else Pack(args.pack).files
    check_outputs(report_of(args), [*files_of_dataset(ds.paths), *pack_inputs])
    if (count := launched_processes()) > 1:
        raise ValueError(
            f"this is one of {count} processes that torchrun has started, and each would train "
            f"the same model: start graphzero train without torchrun, or train in several "
            f"processes as examples/train_ddp.py does"
        )
    with deferred_interrupts() as check:
        report = train(
            ds,
            training_options(args),
            progress=shows_progress(args),
            on_epoch=lambda epoch: None if args.quiet else tqdm.write(_epoch_line(epoch)),
            on_interrupt=_say_interrupted,
            check=check,
        )
    print_lines(*_lines_of_report(report))
    if args.json is not None:
        with replaced_file(args.json) as file:
            file.write((json.dumps(asdict(report), indent=2) + "\n").encode())
    if report.interrupted:
        raise KeyboardInterrupt


def _say_interrupted(last: EpochReport) -> None:
    print_lines(
        f"graphzero: interrupted after epoch {last.epoch}: evaluating the best weights "
        f"(Ctrl-C again ends this)",
        file=sys.stderr,
    )


def _epoch_line(report: EpochReport) -> str:
    val = "" if report.val_accuracy is None else f"  val {report.val_accuracy:.4f}"
    return (
        f"epoch {report.epoch:3d}  loss {report.loss:.4f}  train {report.train_accuracy:.4f}{val}"
        f"  {report.batches_per_second:.1f} batches/s  {report.seconds:.2f} s"
    )


def _lines_of_report(report: TrainReport) -> Iterator[str]:
    if report.interrupted:
        yield f"interrupted after epoch {len(report.epochs)}"
    chosen = "the last" if report.epochs[-1].val_accuracy is None else "best on val"
    yield f"weights of epoch {report.best_epoch} ({chosen}), over sampled neighbours:"
    for name, split in report.splits.items():
        yield (
            f"{name:5s} accuracy {split.accuracy:.4f}"
            f"  (majority class {split.majority:.4f}, {split.num_nodes:,} nodes)"
        )
    batches = sum(epoch.batches for epoch in report.epochs)
    seconds = sum(epoch.seconds for epoch in report.epochs)
    loading = sum(epoch.loading for epoch in report.epochs)
    waited = sum(epoch.waited for epoch in report.epochs)
    yield (
        f"speed: {batches / seconds:.1f} batches/s on {report.device}, {batches} batches in "
        f"{seconds:.1f} s; the training waited {loading:.1f} s of them for batches, and batches "
        f"waited {waited:.1f} s for their pages"
    )
    yield f"rows: {report.epochs[-1].io}"
    yield format_memory(report.memory)


# --- graphzero pack


def _add_pack_options(parser: argparse.ArgumentParser) -> None:
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


def _pack(args: argparse.Namespace) -> None:
    """Sample epochs in advance, and write the rows of their batches one after the other: features,
    large attributes of nodes, and attributes of edges.

    graphzero pack data/ train.pack.gd --epochs 5 --fanouts 15,10,5 --resident 2GB
    graphzero pack typed/ paper.pack.gd --epochs 2 --node-type paper --fanouts 10,5
    """
    from graphzero.packs.packing import pack  # torch takes long to import

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
            prefetch=options_as(Prefetch, args),
            progress=shows_progress(args),
        )
    size = format_bytes(sum(map(os.path.getsize, Pack(path).files)))
    print_lines(f"{args.out}: {size}, in {time.perf_counter() - args.started:.1f} s")


PACK = Command("pack", _add_pack_options, _pack)
TRAIN = Command("train", _add_train_options, _train)
