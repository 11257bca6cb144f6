"""``graphzero build`` and ``graphzero import``, and the files that describe a graph."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from graphzero.commands.parsing import (
    Command,
    NamedValues,
    Names,
    OptionGroup,
    Switch,
    add_option,
    add_order_options,
    add_storage_options,
    as_column,
    order_options,
    print_built,
)

_DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "space": " "}
# Arguments of `graphzero.build` that options are named after. A description file has them instead.
_OF_FILES = (
    *("edges", "features", "labels", "splits", "directed", "num_nodes", "edge_ids"),
    *("feature_dtype", "src", "dst", "weight", "timestamp", "header", "delimiter", "edge_attrs"),
    *("id_column", "ids", "coalesce", "drop_self_loops", "reverse", "weight_attrs", "time_attrs"),
)


def _add_build_options(parser: argparse.ArgumentParser) -> None:
    add = partial(add_option, parser)
    add("dir", "folder of the dataset; created if needed, replaced as a whole")
    source = parser.add_mutually_exclusive_group(required=True)
    add_option(
        source,
        "--edges FILE",
        "text (also .gz, .zst, .bz2, .xz), Parquet or Arrow; a folder or 'part-*.csv' for several "
        "files; .npy, .npz, .pt or .safetensors, of which FILE:NAME is one array; or a sparse "
        "matrix of SciPy (.npz). May be repeated for tables of one kind",
        action="append",
    )
    add_option(
        source,
        "--from FILE",
        "a .toml or .json file with the files of a graph, such as one with node types, in place of "
        "the options that name files and columns; see docs/building.md",
        dest="description",
    )
    add("--features FILE", "as --edges")
    add("--labels FILE", "as --edges")
    add(
        "--split NAME=FILE",
        "node ids of a split; may be repeated",
        dest="splits",
        action=NamedValues,
        default={},
        type=as_pair,
    )
    add(
        "--id-column COL",
        "node ids in tables of features and labels, by name or position; 'none' if they are in the "
        "order of the nodes (default: the column named id, node_id, node, nid, vertex)",
        type=as_column_or_none,
    )
    _add_direction(
        parser, "store the edges as they are (default, but a list without any reverse is told)"
    )
    add("--num-nodes N", "number of nodes (default: from the files)")
    parser.add_argument(
        "--ids",
        choices=["dense", "map"],
        default="dense",
        help="what the files call nodes: their numbers from 0 (dense), or any 64-bit integers or "
        "texts, which become numbers (map)",
    )
    add_storage_options(parser)
    group = parser.add_argument_group("changing the edges", "e_id is the first of merged edges")
    add = partial(add_option, group)
    add(
        "--coalesce AGG",
        "merge parallel edges. AGG says what becomes of attributes: sum, mean, min, max, first, "
        "last, or by name: edge_weight=sum,edge_time=min (default: they must be equal)",
        nargs="?",
        const=True,
        default=False,
        type=_as_coalesce,
    )
    add("--drop-self-loops", "leave self-loops out")
    add("--reverse", "exchange source and target")
    add_reading_options(parser)
    add_sampling_options(parser)
    add_order_options(parser, order="hot", neighbors="in")
    parser.set_defaults(unset={name: parser.get_default(name) for name in _OF_FILES})


def _add_direction(parser: argparse.ArgumentParser, text: str) -> None:
    """Adds what says whether edges have a direction; None where nobody says it."""
    add = partial(add_option, parser.add_mutually_exclusive_group(), default=None)
    add("--directed", text)
    add("--undirected", "store both directions", dest="directed", action="store_false")


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Adds what says how a table of edges is read."""
    group = parser.add_argument_group("reading the edges", "columns by name, or position from 0")
    add = partial(add_option, group)
    add("--src COL", "column of the sources")
    add("--dst COL", "column of the targets")
    add("--weight COL", "'none' for no weights", type=as_column_or_none)
    add("--timestamp COL", "'none' for no times", type=as_column_or_none)
    text = "column to store as an attribute of the edges, by name; may be repeated; 'none' for none"
    add("--edge-attr COL", text, dest="edge_attrs", action=Names, type=str)
    add_text_options(group)


def add_text_options(group: OptionGroup) -> None:
    """Adds what says how a file of text is read."""
    add = partial(add_option, group)
    text = "whether the first line is a header; auto looks"
    add("--header", text, action=Switch, default="auto")
    text = "or tab, comma, semicolon, space"
    add("--delimiter CHAR", text, type=lambda mark: _DELIMITERS.get(mark, mark), default="auto")


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """Adds what says by which attributes neighbours are sampled."""
    for name, usual in (("weight", "edge_weight, weight"), ("time", "edge_time, timestamp, time")):
        text = f"attribute that holds {name}s to sample by (default: {usual}); 'none' for none; "
        text += "may be repeated"
        add_option(parser, f"--{name}-attr NAME", text, dest=f"{name}_attrs", action=Names)


def _build(args: argparse.Namespace) -> None:
    r"""Build a dataset folder from edges, features, labels and splits, or from the files that a
    description names.

    graphzero build data/ --edges edges.csv
    graphzero build data/ --edges edges.csv.gz --features x.npy --labels y.npy \
        --split train=train.npy --split val=val.npy --split test=test.npy --undirected
    graphzero build data/ --edges edges.tsv --src person --dst friend --weight none
    graphzero build data/ --edges payments.csv --edge-attr amount --edge-attr currency
    graphzero build data/ --edges edges.csv --features x.csv --id-column 0
    graphzero build data/ --edges data.npz:edge_index --features data.npz:node_feat
    graphzero build data/ --from graph.toml --order presample
    """
    from graphzero.api import checked_options  # pyarrow takes long to import
    from graphzero.ingest.build import write_dataset
    from graphzero.ingest.options import BuildOptions

    options = {name: getattr(args, name) for name in _OF_FILES}
    if args.description is None:
        options["edges"] = edges_of(args.edges)
    else:
        changed = [name for name, value in options.items() if value != args.unset[name]]
        if changed:
            raise ValueError(f"with --from, the file says what these are: {', '.join(changed)}")
        options = read_description(args.description)
    order = order_options(args)
    wanted = checked_options(BuildOptions(**options, neighbors=args.neighbors, **order))
    notes = write_dataset(args.dir, wanted)
    print_built(args, args.dir, [*notes.lines(), *notes.advice])


def edges_of(files: Sequence[str]) -> str | list[str]:
    """The source of edges that ``--edges``, once or several times, names.

    Raises
    ------
    ValueError
        If several files cannot be read as one table.
    """
    from graphzero.ingest.sources.tables import is_table  # pyarrow takes long to import

    if len(files) == 1:
        return files[0]
    if not is_table(files):
        raise ValueError(
            f"--edges {', '.join(files)}: several are read as one table, and so have the suffix of "
            f"text, Parquet or Arrow. Of arrays, build from the first, and 'graphzero append' the "
            f"others"
        )
    return [*files]


def as_pair(text: str, what: str = "NAME=FILE, such as train=train.npy") -> tuple[str, str]:
    """The two texts around an equals sign; `what` is the form, for messages."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return name, value


def _as_coalesce(text: str) -> str | dict[str, str]:
    """``"sum"``, or ``"edge_weight=sum,edge_time=min"`` by attribute, as `coalesce=` takes it."""
    if "=" not in text:
        return text
    pairs = [as_pair(part, "NAME=AGG, such as weight=sum") for part in text.split(",")]
    if len(dict(pairs)) < len(pairs):
        raise argparse.ArgumentTypeError(f"{text!r} has a name twice: leave one of them out")
    return dict(pairs)


def as_column_or_none(text: str) -> str | int | bool:
    """A column; False for ``"none"``."""
    return False if text == "none" else as_column(text)


# --- description files

_FILES = {"edges", "features", "labels", "nodes", "splits", "edge_splits"}
_OF_COMMAND = {"path", "neighbors", "order", "presample", "memory_limit", "progress"}


def read_description(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arguments of `graphzero.build` that a TOML or JSON file has.

    An edge type is written "source__relation__target". Paths are relative to the folder of the
    file; a table with ``path`` and reading options is a `graphzero.Source`.

    Raises
    ------
    ValueError
        Naming the file and what is wrong.
    OSError
        If the file cannot be read.
    """
    from graphzero.api import build  # pyarrow takes long to import

    path = Path(path)
    try:
        content = _load_description(path)
        if not isinstance(content, dict) or "edges" not in content:
            raise ValueError("it must be a table with 'edges', and 'nodes' for attributes")
        entries = sorted(set(inspect.signature(build).parameters) - _OF_COMMAND)
        if unknown := sorted(set(content) - set(entries)):
            raise ValueError(f"unknown entries {unknown}; there are {entries}")
        folder = path.absolute().parent
        return {
            name: _with_paths(value, folder) if name in _FILES else _with_edge_types(value)
            for name, value in content.items()
        }
    except (ValueError, TypeError) as error:  # those of json, tomllib and Source too
        raise ValueError(f"{path}: {error}") from None


def _load_description(path: Path) -> object:
    if path.suffix == ".json":
        return json.loads(path.read_bytes())
    if path.suffix != ".toml":
        raise ValueError("a description is a .toml or .json file")
    if sys.version_info < (3, 11):
        raise ValueError("a .toml file needs Python 3.11: use a .json file")
    import tomllib

    return tomllib.loads(path.read_text(encoding="utf-8"))


def _with_edge_types(value: object) -> object:
    """The value with keys such as "author__writes__paper" as edge types."""
    if not isinstance(value, dict):
        return value
    types = {name: tuple(name.split("__")) for name in value}
    return {types[name] if len(types[name]) == 3 else name: value[name] for name in value}


def _with_paths(value: object, folder: Path) -> object:
    """The value with texts as paths from the folder, sources, and edge types for keys."""
    if isinstance(value, str):
        return folder / value
    if isinstance(value, list):
        return [_with_paths(part, folder) for part in value]
    if isinstance(value, dict) and "path" in value:
        from graphzero.ingest.options import Source

        options = {name: option for name, option in value.items() if name != "path"}
        return Source(_with_paths(value["path"], folder), **options)
    if isinstance(value, dict):
        return _with_edge_types({name: _with_paths(part, folder) for name, part in value.items()})
    return value


# --- graphzero import


def _add_import_options(parser: argparse.ArgumentParser) -> None:
    add = partial(add_option, parser)
    text = "ogb: a folder of the Open Graph Benchmark, with raw/ and split/"
    parser.add_argument("layout", choices=["ogb"], metavar="LAYOUT", help=text)
    add("dir", "folder of the dataset to import")
    add("out", "folder of the new dataset; created if needed")
    add("--name NAME", "such as ogbn-arxiv (default: by the name of the folder)")
    add("--split-type NAME", "folder in split/ (default: the one OGB prescribes)")
    _add_direction(parser, "store the edges as they are (default: what the dataset says)")
    add_storage_options(parser)
    add_sampling_options(parser)
    add_order_options(parser, order="hot", neighbors="in")


def _import(args: argparse.Namespace) -> None:
    """Build a dataset folder from a whole dataset of OGB.

    graphzero import ogb dataset/ogbn_arxiv data/
    graphzero import ogb dataset/ogbn_papers100M data/ --feature-dtype float16
    graphzero import ogb my_graph/ data/ --name ogbn-mine --undirected
    graphzero import ogb dataset/ogbl_collab data/ --weight-attr none
    """
    from graphzero.api import checked_options  # pyarrow takes long to import
    from graphzero.ingest.build import write_dataset
    from graphzero.ingest.ogb import find_ogb
    from graphzero.ingest.options import BuildOptions

    options = find_ogb(args.dir, name=args.name, directed=args.directed, split_type=args.split_type)
    options |= {"feature_dtype": args.feature_dtype, "edge_ids": args.edge_ids}
    options |= {"weight_attrs": args.weight_attrs, "time_attrs": args.time_attrs}
    options |= {"neighbors": args.neighbors, **order_options(args)}
    notes = write_dataset(args.out, checked_options(BuildOptions(**options)))
    print_built(args, args.out, notes.lines())


BUILD = Command("build", _add_build_options, _build)
IMPORT = Command("import", _add_import_options, _import)
