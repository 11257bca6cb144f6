"""``graphzero train``."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from graphzero.commands.options import (
    SubParsers,
    add_command,
    as_fanouts,
    as_prefetch,
    shows_progress,
)
from graphzero.graph.dataset import Dataset, open_dataset
from graphzero.io.prefetch import Prefetch
from graphzero.report.memory import format_memory

if TYPE_CHECKING:
    from graphzero.training.train import EpochReport, SplitReport, TrainReport

__all__ = ["add_parser", "add_training_options", "train_and_print"]

_EXAMPLES = """\
  graphzero train data/
  graphzero train data/ --fanouts 15,10,5 --hidden 256 --epochs 10 --workers 2
  graphzero train data/ --prefetch willneed:lookahead=2 --json report.json
  graphzero train data/ --pack train.pack.gd --epochs 10
"""


def add_parser(commands: SubParsers) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "train",
        run,
        help="train GraphSAGE to predict a dataset's labels, and report accuracy, speed and memory",
        examples=_EXAMPLES,
    )
    parser.add_argument("dir", help="a dataset folder with features and integer labels")
    parser.add_argument(
        "--pack",
        metavar="FILE",
        help="train on the batches of a file that 'graphzero pack' has written, whose fanouts and "
        "batch size are then those of the training",
    )
    add_training_options(parser, epochs=50)


def add_training_options(parser: argparse.ArgumentParser, *, epochs: int) -> None:
    """The options of a training, whatever it trains on."""
    group = parser.add_argument_group("training")
    add = group.add_argument
    add("--fanouts", type=as_fanouts, metavar="N,N", help="neighbours per hop (default: 10,10)")
    add("--hidden", type=int, default=128, metavar="N", help="width of the layers between")
    add("--epochs", type=int, default=epochs, metavar="N", help="passes over the training nodes")
    add("--batch-size", type=int, metavar="N", help="nodes in a mini-batch (default: 1024)")
    add("--lr", type=float, default=0.01, metavar="X", help="learning rate of Adam")
    add("--dropout", type=float, default=0.3, metavar="X", help="of each layer's input")
    add("--weight-decay", type=float, default=5e-4, metavar="X", help="of Adam")
    add("--workers", type=int, default=0, metavar="N", help="DataLoader workers")
    add("--seed", type=int, default=0, metavar="N", help="of every random choice")
    add("--device", default="auto", help="a torch device; auto: CUDA if there is one")
    add(
        "--prefetch",
        type=as_prefetch,
        default=Prefetch().strategy,
        metavar="NAME[:KEY=VALUE,...]",
        help="how rows are read: auto, none, willneed, pread or uring, with the other fields of "
        "graphzero.Prefetch, such as resident=0.25,memory_limit=2GB",
    )
    add("--json", metavar="FILE", help="write the report to this file too")


def run(args: argparse.Namespace) -> int:
    """Trains on a dataset folder."""
    with open_dataset(args.dir) as ds:
        train_and_print(ds, args)
    return 0


def train_and_print(ds: Dataset, args: argparse.Namespace) -> None:
    """Trains as the options say, and prints and writes the report."""
    from graphzero.training.train import train  # torch takes long to import

    report = train(
        ds,
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
        prefetch=args.prefetch,
        pack=getattr(args, "pack", None),
        progress=shows_progress(args),
        on_epoch=None if args.quiet else lambda epoch: tqdm.write(_epoch_line(epoch)),
    )
    for line in _closing_lines(report):
        print(line)
    if args.json is not None:
        Path(args.json).write_text(json.dumps(asdict(report), indent=2) + "\n")


def _epoch_line(report: EpochReport) -> str:
    val = "" if report.val_accuracy is None else f"  val {report.val_accuracy:.4f}"
    return (
        f"epoch {report.epoch:3d}  loss {report.loss:.4f}  train {report.train_accuracy:.4f}{val}"
        f"  {report.batches_per_second:.1f} batches/s  {report.seconds:.2f} s"
    )


def _split_line(name: str, report: SplitReport) -> str:
    auc = "" if report.roc_auc is None else f"  ROC AUC {report.roc_auc:.4f}"
    return (
        f"{name:5s} accuracy {report.accuracy:.4f}{auc}"
        f"  (majority class {report.majority:.4f}, {report.num_nodes:,} nodes)"
    )


def _closing_lines(report: TrainReport) -> list[str]:
    seconds = sum(epoch.seconds for epoch in report.epochs)
    batches = sum(epoch.batches for epoch in report.epochs)
    loading = sum(epoch.loading for epoch in report.epochs)
    waited = sum(epoch.waited for epoch in report.epochs)
    chosen = "best on val" if "val" in report.splits else "the last"
    return [
        f"weights of epoch {report.best_epoch} ({chosen}):",
        *(_split_line(name, split) for name, split in report.splits.items()),
        f"speed: {batches / seconds:.1f} batches/s on {report.device}, {batches} batches in "
        f"{seconds:.1f} s, {loading:.1f} s of them waiting for batches, which waited "
        f"{waited:.1f} s for their pages",
        f"rows: {report.io}",
        format_memory(report.memory),
    ]
