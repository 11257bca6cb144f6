"""``graphzero build``."""

from __future__ import annotations

import argparse
import time

from graphzero.commands.described_build import build_described
from graphzero.commands.options import (
    SubParsers,
    add_command,
    add_neighbors_option,
    add_order_options,
    as_coalesce,
    as_column,
    as_split,
    describe_direction,
    presample_of,
    shows_progress,
)
from graphzero.graph.opening import open_dataset
from graphzero.store.format import DTYPES, dtype_name
from graphzero.units import format_bytes

__all__ = ["add_parser"]

_EXAMPLES = """\
  graphzero build data/ --edges edges.csv
  graphzero build data/ --edges edges.csv.gz --features x.npy --labels y.npy \\
      --split train=train.npy --split val=val.npy --split test=test.npy --undirected
  graphzero build data/ --edges edges.tsv --src person --dst friend --weight none
  graphzero build data/ --edges payments.csv --edge-attr amount --edge-attr currency
  graphzero build data/ --edges edges.csv --features x.csv --id-column 0
  graphzero build data/ --edges data.npz:edge_index --features data.npz:node_feat
  graphzero build data/ --from graph.toml --order presample
"""
_DELIMITERS = {
    "tab": "\t",
    "\\t": "\t",
    "comma": ",",
    "semicolon": ";",
    "space": " ",
    "whitespace": "whitespace",
}


def add_parser(commands: SubParsers) -> None:
    """Adds the command."""
    parser = add_command(
        commands,
        "build",
        run,
        help="build a dataset folder from edges, features, labels and splits, or from the files "
        "that a description names",
        examples=_EXAMPLES,
    )
    parser.add_argument("dir", help="folder of the dataset; created if needed, replaced as a whole")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument(
        "--edges",
        metavar="FILE",
        help="text (also .gz, .zst, .bz2, .xz), Parquet or Arrow; a folder or 'part-*.csv' for "
        "several files; .npy, .npz, .pt or .safetensors, of which FILE:NAME is one array; or a "
        "sparse matrix of SciPy (.npz)",
    )
    source.add_argument(
        "--from",
        dest="description",
        metavar="FILE",
        help="a .toml or .json file with the files of a graph, such as one with node types, in "
        "place of the options that name files and columns; see docs/building.md",
    )
    parser.add_argument("--features", metavar="FILE", help="as --edges")
    parser.add_argument(
        "--feature-dtype",
        choices=[dtype_name(dtype) for dtype in DTYPES.values()],
        metavar="DTYPE",
        help="dtype to store features in, such as float16 or bfloat16 (default: that of the input)",
    )
    parser.add_argument("--labels", metavar="FILE", help="as --edges")
    parser.add_argument(
        "--split",
        action="append",
        default=[],
        type=as_split,
        metavar="NAME=FILE",
        help="node ids of a split; may be repeated",
    )
    parser.add_argument(
        "--id-column",
        type=as_column,
        metavar="COL",
        help="node ids in tables of features and labels, by name or position; 'none' if they are "
        "in the order of the nodes (default: the column named id, node_id, node, nid, vertex)",
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
    _add_merge_options(parser)
    _add_text_options(parser)
    add_order_options(parser, default="hot")


def _add_merge_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("changing the edges", "e_id is the first of merged edges")
    group.add_argument(
        "--coalesce",
        nargs="?",
        const=True,
        default=False,
        type=as_coalesce,
        metavar="AGG",
        help="merge parallel edges. AGG says what becomes of attributes: sum, mean, min, max, "
        "first, last, or by name: edge_weight=sum,edge_time=min (default: they must be equal)",
    )
    group.add_argument("--drop-self-loops", action="store_true", help="leave self-loops out")
    group.add_argument("--reverse", action="store_true", help="exchange source and target")


def _add_text_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("reading the edges", "columns by name, or position from 0")
    group.add_argument("--src", type=as_column, metavar="COL")
    group.add_argument("--dst", type=as_column, metavar="COL")
    group.add_argument("--weight", type=as_column, metavar="COL", help="'none' for no weights")
    group.add_argument("--timestamp", type=as_column, metavar="COL", help="'none' for no times")
    group.add_argument(
        "--edge-attr",
        action="append",
        metavar="COL",
        help="column to store as an attribute of the edges, by name; may be repeated",
    )
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
    group.add_argument(
        "--on-bad-rows",
        choices=("raise", "skip"),
        default="raise",
        help="skip: leave out records that cannot be read, count them, show the first ten",
    )


def run(args: argparse.Namespace) -> int:
    """Builds a dataset and prints a summary."""
    if args.description is not None:
        return build_described(args)
    from graphzero.api import write_dataset  # pyarrow takes long to import

    started = time.perf_counter()
    closing = write_dataset(
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
        on_bad_rows=args.on_bad_rows,
        edge_ids=args.edge_ids,
        coalesce=args.coalesce,
        drop_self_loops=args.drop_self_loops,
        reverse=args.reverse,
        feature_dtype=args.feature_dtype,
        edge_attrs=args.edge_attr,
        id_column=False if args.id_column == "none" else args.id_column,
        memory_limit=args.memory_limit,
        progress=shows_progress(args),
    )
    with open_dataset(args.dir) as ds:
        size = sum(mapping.size for mapping in ds.mappings)
        print(
            f"{args.dir}: {ds.num_nodes:,} nodes, {ds.num_edges:,} edges "
            f"({ds.graph.num_input_edges:,} in the edge list), {describe_direction(ds.graph)}, "
            f"{format_bytes(size)}, in {time.perf_counter() - started:.1f} s"
        )
    for line in closing.lines():
        print(line)
    return 0
