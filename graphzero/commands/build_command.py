"""``graphzero build``."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from graphzero.commands.options import (
    SubParsers,
    add_command,
    add_order_options,
    add_storage_options,
    order_options,
    print_built,
)

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
_DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
# Options that a description file has in their place.
_OF_FILES = (
    *("edges", "features", "labels", "split", "undirected", "num_nodes", "edge_ids"),
    *("feature_dtype", "src", "dst", "weight", "timestamp", "header", "delimiter", "edge_attr"),
    *("id_column", "ids", "coalesce", "drop_self_loops", "reverse"),
)


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
    add = parser.add_argument
    add("dir", help="folder of the dataset; created if needed, replaced as a whole")
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
    add("--features", metavar="FILE", help="as --edges")
    add("--labels", metavar="FILE", help="as --edges")
    add(
        "--split",
        action="append",
        default=[],
        type=_as_split,
        metavar="NAME=FILE",
        help="node ids of a split; may be repeated",
    )
    add(
        "--id-column",
        type=_as_column,
        metavar="COL",
        help="node ids in tables of features and labels, by name or position; 'none' if they are "
        "in the order of the nodes (default: the column named id, node_id, node, nid, vertex)",
    )
    add("--undirected", action="store_true", help="store both directions")
    add("--num-nodes", type=int, metavar="N", help="number of nodes (default: from the files)")
    add(
        "--ids",
        choices=["dense", "map"],
        default="dense",
        help="what the files call nodes: their numbers from 0 (dense), or any 64-bit integers or "
        "texts, which become numbers (map)",
    )
    add_storage_options(parser)
    group = parser.add_argument_group("changing the edges", "e_id is the first of merged edges")
    group.add_argument(
        "--coalesce",
        nargs="?",
        const=True,
        default=False,
        type=_as_coalesce,
        metavar="AGG",
        help="merge parallel edges. AGG says what becomes of attributes: sum, mean, min, max, "
        "first, last, or by name: edge_weight=sum,edge_time=min (default: they must be equal)",
    )
    group.add_argument("--drop-self-loops", action="store_true", help="leave self-loops out")
    group.add_argument("--reverse", action="store_true", help="exchange source and target")
    group = parser.add_argument_group("reading the edges", "columns by name, or position from 0")
    group.add_argument("--src", type=_as_column, metavar="COL")
    group.add_argument("--dst", type=_as_column, metavar="COL")
    group.add_argument("--weight", type=_as_column, metavar="COL", help="'none' for no weights")
    group.add_argument("--timestamp", type=_as_column, metavar="COL", help="'none' for no times")
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
        default="auto",
        help="the first line is a header (default: detect)",
    )
    header.add_argument("--no-header", dest="header", action="store_false", default="auto")
    group.add_argument(
        "--delimiter", default="auto", metavar="CHAR", help="or tab, comma, semicolon, space"
    )
    add_order_options(parser, order="hot", neighbors="in")
    parser.set_defaults(unset={name: parser.get_default(name) for name in _OF_FILES})


def run(args: argparse.Namespace) -> int:
    """Builds a dataset and prints a summary."""
    from graphzero.api import write_dataset  # pyarrow takes long to import

    started = time.perf_counter()
    options = _options(args) if args.description is None else _described(args)
    closing = write_dataset(args.dir, **options, **order_options(args))
    print_built(args.dir, closing.lines(), started)
    return 0


def _options(args: argparse.Namespace) -> dict[str, Any]:
    """Arguments of `graphzero.build`."""
    return {
        **{name: getattr(args, name) for name in ("edges", "features", "labels", "num_nodes")},
        **{name: getattr(args, name) for name in ("ids", "src", "dst", "header", "edge_ids")},
        **{name: getattr(args, name) for name in ("coalesce", "drop_self_loops", "reverse")},
        **{
            name: False if getattr(args, name) == "none" else getattr(args, name)
            for name in ("weight", "timestamp", "id_column")
        },
        "splits": dict(args.split),
        "directed": not args.undirected,
        "delimiter": _DELIMITERS.get(args.delimiter, args.delimiter),
        "edge_attrs": args.edge_attr,
        "feature_dtype": args.feature_dtype,
    }


def _described(args: argparse.Namespace) -> dict[str, Any]:
    used = [name for name, default in args.unset.items() if getattr(args, name) != default]
    if used:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in used)
        raise ValueError(f"{options}: with --from, the description file says this: leave it out")
    return read_description(args.description)


def _as_split(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=FILE, such as train=train.npy")
    return name, path


def _as_coalesce(text: str) -> str | dict[str, str]:
    """``"sum"``, or ``"edge_weight=sum,edge_time=min"`` by attribute, as `coalesce=` takes it."""
    if "=" not in text:
        return text
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name and how for name, _, how in pairs):
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither an aggregation nor NAME=AGG, such as edge_weight=sum"
        )
    return {name: how for name, _, how in pairs}


def _as_column(text: str) -> str | int:
    """A column's position from 0 if the text is a number, else its name."""
    return int(text) if text.isdecimal() else text


# --- description files

_FILES = {"edges", "features", "labels", "nodes", "splits", "edge_splits"}
_OF_COMMAND = {"path", "neighbors", "order", "presample", "memory_limit", "progress"}


def read_description(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arguments of `graphzero.build` that a TOML or JSON file has.

    An edge type is written "source__relation__target", or [[edges]] are tables with
    ``type = ["source", "relation", "target"]``. Paths are relative to the folder of the file; a
    table with ``path`` and reading options is a `graphzero.Source`.

    Raises
    ------
    ValueError
        Naming the file and the entry that is wrong.
    OSError
        If the file cannot be read.
    """
    from graphzero.api import build  # pyarrow takes long to import

    path = Path(path)
    folder = path.absolute().parent
    try:
        content = _load(path)
        if not isinstance(content, dict) or "edges" not in content:
            raise ValueError("it must be a table with 'edges', and 'nodes' for attributes")
        known = sorted(set(inspect.signature(build).parameters) - _OF_COMMAND)
        if unknown := sorted(set(content) - set(known)):
            raise ValueError(f"unknown entries {unknown}; there are {known}")
        return {
            name: _opened(value, folder, name) if name in _FILES else _by_edge_type(value)
            for name, value in content.items()
        }
    except (ValueError, TypeError) as error:  # those of json and tomllib too
        raise ValueError(f"{path}: {error}") from None


def _load(path: Path) -> Any:
    if path.suffix == ".json":
        return json.loads(path.read_bytes())
    if path.suffix != ".toml":
        raise ValueError("a description is a .toml or .json file")
    if sys.version_info < (3, 11):
        raise ValueError("a .toml file needs Python 3.11: use a .json file")
    import tomllib

    return tomllib.loads(path.read_text(encoding="utf-8"))


def _by_edge_type(value: Any) -> Any:
    """The value with keys such as "author__writes__paper" as edge types."""
    if not isinstance(value, dict):
        return value
    types = {name: tuple(name.split("__")) for name in value if isinstance(name, str)}
    return {types[k] if len(types.get(k, ())) == 3 else k: value[k] for k in value}


def _opened(value: Any, folder: Path, where: str) -> Any:
    """The value with paths from the folder, and edge types for keys; see `read_description`."""
    if isinstance(value, str) and value:
        return os.fspath(folder / value)
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return [folder / each for each in value]  # a list of texts could be one of ids
    if isinstance(value, list) and where == "edges" and all(isinstance(v, dict) for v in value):
        types = [tuple(table.pop("type", ())) for table in value]
        if len({each for each in types if len(each) == 3}) < len(types):
            raise ValueError(
                f"each of [[edges]] needs a type of its own, type = [source, relation, target], "
                f"and these have {types}"
            )
        value = dict(zip(types, value, strict=True))
    if isinstance(value, dict) and "path" in value:
        from graphzero.ingest.source import Source

        options = {name: each for name, each in value.items() if name != "path"}
        try:
            return Source(_opened(value["path"], folder, where), **options)
        except TypeError as error:
            raise ValueError(f"{where}: {error}") from None
    if isinstance(value, dict):
        found = {
            name: each if name == "num_nodes" else _opened(each, folder, f"{where}.{name}")
            for name, each in value.items()
        }
        if "edge_index" in found or not re.fullmatch(r"edges|edge_splits\.\w+", where):
            return found
        return _by_edge_type(found)
    raise ValueError(
        f"{where} must be a path, a list of paths, or a table with 'path' and reading options, "
        f"not {value!r:.80}"
    )
