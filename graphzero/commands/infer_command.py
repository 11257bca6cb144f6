"""``graphzero infer``."""

from __future__ import annotations

import argparse
import time

from graphzero.commands.parsing import add_option, shows_progress
from graphzero.graph.dataset import open_dataset
from graphzero.store.outputs import Output, check_outputs
from graphzero.units import format_bytes, print_lines

HELP = (
    "compute the class scores of every node with a model that 'graphzero train --save' has "
    "written, layer by layer, over all neighbours"
)
EXAMPLES = """\
  graphzero infer model.pt data/ scores.gd
  graphzero infer model.pt data/ scores.gd --memory-limit 1GB
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds its options."""
    add_option(parser, "model", "a file of 'graphzero train --save'")
    add_option(parser, "dir", "a dataset folder with features")
    add_option(
        parser,
        "out",
        "the .gd file to write: a row of class scores for each node; "
        "graphzero.FeatureStore(out)[ids] reads them",
    )
    add_option(
        parser,
        "--memory-limit SIZE",
        "memory for the rows of mini-batches and for what is kept of the files",
    )
    text = "a torch device; auto is CUDA if available, else the CPU"
    add_option(parser, "--device DEVICE", text, default="auto")
    add_option(parser, "--resume", "continue an inference that was interrupted")


def run(args: argparse.Namespace) -> int:
    """Writes the rows, and prints how many there are."""
    from graphzero.training.graphsage import GraphSAGE, device_of  # torch takes long to import
    from graphzero.training.infer import infer

    started = time.perf_counter()
    check_outputs([Output("out", args.out)], [args.model])
    model = GraphSAGE.from_saved(args.model)
    with open_dataset(args.dir) as ds:
        wanted = model.arguments["in_dim"]
        if ds.features is None or ds.features.feature_dim != wanted:
            found = "none" if ds.features is None else ds.features.feature_dim
            raise ValueError(
                f"{args.model} was trained on {wanted} features a node, and {args.dir} has {found}"
            )
        options = {"memory_limit": args.memory_limit, "resume": args.resume or None}
        model.to(device_of(args.device))
        with infer(model, ds, args.out, progress=shows_progress(args), **options) as rows:
            size = format_bytes(rows.num_nodes * rows.row_bytes)
            print_lines(
                f"{args.out}: {rows.num_nodes:,} rows of {rows.feature_dim} scores, {size}, in "
                f"{time.perf_counter() - started:.1f} s"
            )
    return 0
