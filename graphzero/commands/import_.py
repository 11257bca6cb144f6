"""``graphzero import ogb`` and ``graphzero import graphbolt``."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING

from graphzero.commands.options import (
    SubParsers,
    add_command,
    add_neighbors_option,
    add_order_options,
    as_column,
    describe_direction,
    presample_of,
    shows_progress,
)
from graphzero.graph.opening import open_dataset
from graphzero.graph.typed_dataset import TypedDataset
from graphzero.store.format import DTYPES, dtype_name
from graphzero.units import format_bytes

if TYPE_CHECKING:
    from graphzero.ingest.datasets.description import FoundDataset

__all__ = ["add_parser"]

_EXAMPLES = """\
  graphzero import ogb dataset/ogbn_arxiv data/
  graphzero import ogb dataset/ogbn_papers100M data/ --feature-dtype float16
  graphzero import graphbolt ogbn-products/ data/
"""
_OGB_EXAMPLES = """\
  graphzero import ogb dataset/ogbn_arxiv data/
  graphzero import ogb my_graph/ data/ --name ogbn-mine --undirected
"""
_GRAPHBOLT_EXAMPLES = """\
  graphzero import graphbolt folder/ data/
  graphzero import graphbolt folder/ data/ --task link_prediction --rename title_emb=x
"""


def add_parser(commands: SubParsers) -> None:
    """Adds the command, and under it one for each layout."""
    parser = add_command(
        commands,
        "import",
        _no_layout,
        help="build a dataset folder from a whole dataset of OGB or GraphBolt",
        examples=_EXAMPLES,
    )
    layouts = parser.add_subparsers(title="layouts", metavar="LAYOUT", dest="layout", required=True)
    ogb = add_command(
        layouts,
        "ogb",
        _import_ogb,
        help="a folder of the Open Graph Benchmark, with raw/ and split/",
        examples=_OGB_EXAMPLES,
    )
    _add_options(ogb)
    ogb.add_argument(
        "--name", metavar="NAME", help="such as ogbn-arxiv (default: by the name of the folder)"
    )
    ogb.add_argument(
        "--split-type", metavar="NAME", help="folder in split/ (default: the one OGB prescribes)"
    )
    bolt = add_command(
        layouts,
        "graphbolt",
        _import_graphbolt,
        help="a folder of GraphBolt, with metadata.yaml",
        examples=_GRAPHBOLT_EXAMPLES,
    )
    _add_options(bolt)
    bolt.add_argument(
        "--task",
        type=as_column,
        metavar="TASK",
        help="task whose sets become splits, by name or position from 0 (default: the only one)",
    )
    bolt.add_argument(
        "--rename",
        action="append",
        default=[],
        type=_as_renaming,
        metavar="NAME=NAME",
        help="name of an attribute for the name of a feature; may be repeated",
    )


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("dir", help="folder of the dataset to import")
    parser.add_argument("out", help="folder of the new dataset; created if needed")
    direction = parser.add_mutually_exclusive_group()
    direction.add_argument(
        "--directed",
        action="store_true",
        default=None,
        help="store the edges as they are (default: what the dataset says)",
    )
    direction.add_argument(
        "--undirected", dest="directed", action="store_false", default=None, help="store both ways"
    )
    parser.add_argument(
        "--feature-dtype",
        choices=[dtype_name(dtype) for dtype in DTYPES.values()],
        metavar="DTYPE",
        help="dtype to store features in, such as float16 (default: that of the input)",
    )
    parser.add_argument(
        "--edge-ids", action="store_true", help="store each edge's position in the edge list"
    )
    add_neighbors_option(parser, default="in")
    add_order_options(parser, default="hot")


def _as_renaming(text: str) -> tuple[str, str]:
    given, equals, name = text.partition("=")
    if not (given and equals and name):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=NAME, such as title_emb=x")
    return given, name


def _no_layout(args: argparse.Namespace) -> int:
    raise AssertionError("the parser requires a layout")


def _import_ogb(args: argparse.Namespace) -> int:
    from graphzero.ingest.datasets.ogb import find_ogb  # pyarrow takes long to import

    found = find_ogb(args.dir, name=args.name, directed=args.directed, split_type=args.split_type)
    return _write(args, found)


def _import_graphbolt(args: argparse.Namespace) -> int:
    from graphzero.ingest.datasets.graphbolt import find_graphbolt

    found = find_graphbolt(
        args.dir, task=args.task, names=dict(args.rename), directed=args.directed is not False
    )
    return _write(args, found)


def _write(args: argparse.Namespace, found: FoundDataset) -> int:
    """Builds the dataset and prints a summary."""
    from graphzero.datasets import write_found

    started = time.perf_counter()
    options = {
        "neighbors": args.neighbors,
        "order": args.order,
        "presample": presample_of(args),
        "feature_dtype": args.feature_dtype,
        "edge_ids": args.edge_ids,
        "memory_limit": args.memory_limit,
        "progress": shows_progress(args),
    }
    closing = write_found(args.out, found, options)
    for note in found.notes:
        print(f"graphzero: warning: {note}", file=sys.stderr)
    with open_dataset(args.out) as ds:
        size = sum(mapping.size for mapping in ds.mappings)
        graph = ds if isinstance(ds, TypedDataset) else ds.graph
        print(
            f"{args.out}: {ds.num_nodes:,} nodes, {ds.num_edges:,} edges, "
            f"{describe_direction(graph)}, {format_bytes(size)}, "
            f"in {time.perf_counter() - started:.1f} s"
        )
    for line in closing.lines():
        print(line)
    if found.seeds:
        print(f"{args.out}/links: arrays of {', '.join(found.seeds)} for the task on edges")
    return 0
