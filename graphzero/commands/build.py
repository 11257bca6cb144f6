"""``graphzero build``."""

from __future__ import annotations

import argparse
import time

from graphzero.commands.description import describe_ids, ids_text
from graphzero.commands.options import (
    SubParsers,
    add_command,
    add_neighbors_option,
    add_order_options,
    as_column,
    as_split,
    describe_direction,
    presample_of,
    shows_progress,
)
from graphzero.store.format import DTYPES, dtype_name
from graphzero.units import format_bytes

__all__ = ["add_parser"]

_EXAMPLES = """\
  graphzero build data/ --edges edges.csv
  graphzero build data/ --edges edges.csv.gz --features x.npy --labels y.npy \\
      --split train=train.npy --split val=val.npy --split test=test.npy --undirected
  graphzero build data/ --edges edges.tsv --src from --dst to --weight none
"""
_DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}


def add_parser(commands: SubParsers) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "build",
        run,
        help="build a dataset folder from edges, features, labels and splits",
        examples=_EXAMPLES,
    )
    parser.add_argument("dir", help="folder of the dataset; created if needed, replaced as a whole")
    parser.add_argument(
        "--edges", required=True, metavar="FILE", help="CSV (also .gz), TSV, Parquet or .npy"
    )
    parser.add_argument("--features", metavar="FILE", help=".npy, CSV or Parquet")
    parser.add_argument(
        "--feature-dtype",
        choices=[dtype_name(dtype) for dtype in DTYPES.values()],
        metavar="DTYPE",
        help="dtype to store features in, such as float16 or bfloat16 (default: that of the input)",
    )
    parser.add_argument("--labels", metavar="FILE", help=".npy, CSV or Parquet")
    parser.add_argument(
        "--split",
        action="append",
        default=[],
        type=as_split,
        metavar="NAME=FILE",
        help="node ids of a split; may be repeated",
    )
    parser.add_argument("--undirected", action="store_true", help="store both directions")
    add_neighbors_option(parser, default="in")
    parser.add_argument(
        "--num-nodes", type=int, metavar="N", help="number of nodes (default: from the files)"
    )
    parser.add_argument(
        "--ids",
        choices=["dense", "map", "integer", "string"],
        default="dense",
        help="what the files call nodes: their numbers from 0 (default), or any 64-bit integers or "
        "texts, which become numbers; 'integer' and 'string' say which (default: as they read)",
    )
    parser.add_argument(
        "--edge-ids", action="store_true", help="store each edge's position in the edge list"
    )
    _add_text_options(parser)
    add_order_options(parser, default="hot")


def _add_text_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reading the edges", "columns by name, or position from 0")
    group.add_argument("--src", type=as_column, metavar="COL")
    group.add_argument("--dst", type=as_column, metavar="COL")
    group.add_argument("--weight", type=as_column, metavar="COL", help="'none' for no weights")
    group.add_argument("--timestamp", type=as_column, metavar="COL", help="'none' for no times")
    header = group.add_mutually_exclusive_group()
    header.add_argument(
        "--header",
        action="store_true",
        default=None,
        help="the first line is a header (default: detect)",
    )
    header.add_argument("--no-header", dest="header", action="store_false", default=None)
    group.add_argument(
        "--delimiter", default="auto", metavar="CHAR", help="or tab, comma, semicolon, space"
    )


def run(args: argparse.Namespace) -> int:
    """Builds a dataset and prints a summary."""
    from graphzero.api import build  # pyarrow takes long to import

    started = time.perf_counter()
    with build(
        args.dir,
        args.edges,
        args.features,
        args.labels,
        dict(args.split),
        num_nodes=args.num_nodes,
        ids=args.ids,
        directed=not args.undirected,
        neighbors=args.neighbors,
        order=args.order,
        presample=presample_of(args),
        src=args.src,
        dst=args.dst,
        weight=False if args.weight == "none" else args.weight,
        timestamp=False if args.timestamp == "none" else args.timestamp,
        header="auto" if args.header is None else args.header,
        delimiter=_DELIMITERS.get(args.delimiter, args.delimiter),
        edge_ids=args.edge_ids,
        feature_dtype=args.feature_dtype,
        memory_limit=args.memory_limit,
        progress=shows_progress(args),
    ) as ds:
        size = sum(mapping.size for mapping in ds.mappings)
        ids = "" if ds.node_ids is None else f"{ids_text(describe_ids(ds.node_ids))}, "
        print(
            f"{args.dir}: {ds.num_nodes:,} nodes, {ds.num_edges:,} edges "
            f"({ds.graph.num_input_edges:,} in the edge list), {describe_direction(ds.graph)}, "
            f"{ids}"
            f"{format_bytes(size)}, in {time.perf_counter() - started:.1f} s"
        )
    return 0
