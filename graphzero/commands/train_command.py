"""``graphzero train``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from tqdm.auto import tqdm

from graphzero.commands.parsing import (
    add_option,
    add_prefetch_options,
    chosen_prefetch,
    shows_progress,
)
from graphzero.graph.dataset import Dataset, open_dataset
from graphzero.packs.pack_file import Pack
from graphzero.report.readings import format_memory
from graphzero.store.outputs import Output, check_outputs, files_of_dataset, replaced_file
from graphzero.units import print_lines

if TYPE_CHECKING:
    from graphzero.training.train_report import EpochReport, TrainReport

HELP = "train GraphSAGE to predict a dataset's labels, and report accuracy, speed and memory"
EXAMPLES = """\
  graphzero train data/
  graphzero train data/ --fanouts 15,10,5 --hidden 256 --epochs 10 --workers 2
  graphzero train data/ --prefetch willneed --lookahead 2 --json report.json
  graphzero train data/ --pack train.pack.gd --epochs 10
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds its options."""
    add_option(parser, "dir", "a dataset folder with features and integer labels")
    add_option(
        parser,
        "--pack FILE",
        "train on the batches in a file that 'graphzero pack' has written; --fanouts and "
        "--batch-size cannot be given then, because the pack has its own",
    )
    add_training_options(parser, epochs=50)


def add_training_options(parser: argparse.ArgumentParser, *, epochs: int) -> None:
    """Adds the options that `train_and_print` takes."""
    add = partial(add_option, parser.add_argument_group("training"))
    add(
        "--fanouts N,N",
        "neighbours per node in each hop (default: 10,10); -1 is all of them, as in "
        "--fanouts=-1,10; the model has one layer for each hop",
    )
    for words, default, text in (
        ("--hidden N", 128, "size of the model's hidden layers"),
        ("--epochs N", epochs, "passes over the training nodes"),
        ("--batch-size N", None, "seed nodes in a mini-batch (default: 1024)"),
        ("--lr X", 0.01, "learning rate of Adam"),
        ("--dropout X", 0.3, "share of each layer's inputs that is set to zero while training"),
        ("--weight-decay X", 5e-4, "weight decay of Adam"),
        ("--workers N", 0, "DataLoader worker processes; 0 loads in the main process"),
        ("--seed N", 0, "seed of all random choices"),
        ("--device DEVICE", "auto", "a torch device; auto is CUDA if available, else the CPU"),
    ):
        add(words, text, default=default)
    add_prefetch_options(
        parser.add_argument_group("rows that are read ahead"),
        resident="rows that are kept in memory: a size such as 2GB, or a fraction of all rows such "
        "as 0.25",
        memory_limit="memory that resident rows, mini-batches and buffers may take together "
        "(default: what is available)",
    )
    add("--json FILE", "write the report to this file as well")


def check_report_option(
    args: argparse.Namespace, inputs: Iterable[str | os.PathLike[str]] = ()
) -> None:
    """Raises an error if the report cannot be written where ``--json`` says, or is an input."""
    if args.json is not None:
        check_outputs([Output("--json", args.json)], inputs)


def run(args: argparse.Namespace) -> int:
    """Trains on a dataset folder."""
    with open_dataset(args.dir) as ds:
        train_and_print(ds, args)
    return 0


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
    from graphzero.training.train_options import TrainOptions
    from graphzero.training.trainer import train

    pack_inputs = [] if args.pack is None else Pack(args.pack).files
    check_report_option(args, [*files_of_dataset(ds.paths), *pack_inputs])
    if (count := launched_processes()) > 1:
        raise ValueError(
            f"this is one of {count} processes that torchrun has started, and each would train "
            f"the same model: start graphzero train without torchrun, or train in several "
            f"processes as examples/train_ddp.py does"
        )
    options = TrainOptions(
        fanouts=args.fanouts,
        hidden=args.hidden,
        epochs=args.epochs,
        batch_size=args.batch_size,
        lr=args.lr,
        dropout=args.dropout,
        weight_decay=args.weight_decay,
        workers=args.workers,
        seed=args.seed,
        device=args.device,
        prefetch=chosen_prefetch(args),
        pack=args.pack,
    )
    report = train(
        ds,
        options,
        progress=shows_progress(args),
        on_epoch=lambda epoch: None if args.quiet else tqdm.write(_epoch_line(epoch)),
        on_interrupt=_say_interrupted,
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
    if report.evaluation_interrupted:
        yield "the evaluation was interrupted: splits that are not listed were not evaluated"
    batches = sum(epoch.batches for epoch in report.epochs)
    seconds = sum(epoch.seconds for epoch in report.epochs)
    loading = sum(epoch.loading for epoch in report.epochs)
    waited = sum(epoch.waited for epoch in report.epochs)
    yield (
        f"speed: {batches / seconds:.1f} batches/s on {report.device}, {batches} batches in "
        f"{seconds:.1f} s; the training waited {loading:.1f} s of them for batches, and batches "
        f"waited {waited:.1f} s for their pages"
    )
    yield f"rows: {report.io}"
    yield format_memory(report.memory)
