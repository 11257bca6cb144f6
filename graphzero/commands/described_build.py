"""``graphzero build --from``: a dataset of the files that a TOML or JSON file names."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from graphzero.commands.options import describe_direction, presample_of, shows_progress
from graphzero.graph.opening import open_dataset
from graphzero.graph.typed_dataset import TypedDataset
from graphzero.units import format_bytes

__all__ = ["build_described", "read_description"]

_FILES = ("nodes", "edges", "splits", "edge_splits")
_MERGING = ("coalesce", "drop_self_loops", "reverse")
# Other arguments of `gz.build` that say what the files are.
_PLAIN = (
    "num_nodes",
    "directed",
    "weight_attrs",
    "time_attrs",
    "edge_ids",
    "feature_dtype",
    "header",
    "delimiter",
    "ids",
    "id_column",
    "edge_attrs",
    "src",
    "dst",
    *_MERGING,
)
# Options of the command line that the description file has in their place, and their defaults.
_REPLACED: dict[str, Any] = {
    "edges": None,
    "features": None,
    "labels": None,
    "split": [],
    "undirected": False,
    "num_nodes": None,
    "edge_ids": False,
    "feature_dtype": None,
    "src": None,
    "dst": None,
    "weight": None,
    "timestamp": None,
    "header": None,
    "delimiter": "auto",
    "edge_attr": None,
    "id_column": None,
    "ids": "dense",
    "coalesce": False,
    "drop_self_loops": False,
    "reverse": False,
    "on_bad_rows": "raise",
}


def _load(path: Path) -> Any:
    if path.suffix == ".json":
        return json.loads(path.read_bytes())
    if path.suffix == ".toml":
        if sys.version_info < (3, 11):
            raise ValueError("a .toml file needs Python 3.11: use a .json file")
        import tomllib

        return tomllib.loads(path.read_text(encoding="utf-8"))
    raise ValueError("a description is a .toml or .json file")


def read_description(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The arguments of `graphzero.build` that a description file has.

    Its tables are those of `graphzero.build`. An edge type is written "source__relation__target",
    or [[edges]] are tables with ``type = ["source", "relation", "target"]``. Paths are relative to
    the folder of the file.

    Raises
    ------
    ValueError
        Naming the file and the entry that is wrong.
    OSError
        If the file cannot be read.
    """
    path = Path(path)
    try:
        content = _load(path)
        if not isinstance(content, dict):
            raise ValueError("it must be a table with 'nodes' and 'edges'")
        return _arguments(content, path.absolute().parent)
    except ValueError as error:  # those of json and tomllib too
        raise ValueError(f"{path}: {error}") from None


def _arguments(content: dict[str, Any], folder: Path) -> dict[str, Any]:
    unknown = sorted(set(content) - {*_FILES, *_PLAIN})
    if unknown:
        raise ValueError(f"unknown entries {unknown}; there are {[*_FILES, *_PLAIN]}")
    if "edges" not in content:
        raise ValueError("it has no 'edges'")
    found = {name: content[name] for name in _PLAIN if name in content}
    found["edges"] = _edges(content["edges"], folder)
    is_typed = isinstance(found["edges"], dict) and "edge_index" not in found["edges"]
    if "nodes" in content:
        nodes = _table(content["nodes"], "nodes")
        found["nodes"] = (
            {name: _attributes(each, folder, f"nodes.{name}") for name, each in nodes.items()}
            if is_typed
            else _attributes(nodes, folder, "nodes")
        )
    for option in _MERGING:
        if is_typed and isinstance(content.get(option), dict):
            found[option] = _by_edge_type(content[option], option, found["edges"])
    for option in ("splits", "edge_splits"):
        if option in content:
            splits = _table(content[option], option)
            found[option] = {
                name: _split(each, folder, f"{option}.{name}", is_typed, of_edges="edge" in option)
                for name, each in splits.items()
            }
    return found


def _edges(value: Any, folder: Path) -> Any:
    """One edge list with or without attributes, or those of every edge type."""
    if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
        found: dict[Any, Any] = {}
        for i, table in enumerate(value):
            kind = table.get("type")
            if not isinstance(kind, list) or len(kind) != 3:
                raise ValueError(
                    f"edges[{i}] needs type = [source type, relation, target type], not {kind!r}"
                )
            if tuple(kind) in found:
                raise ValueError(f"edges has the type {kind} twice")
            others = {name: each for name, each in table.items() if name != "type"}
            found[tuple(kind)] = _attributes(others, folder, f"edges[{i}]")
        return found
    if not isinstance(value, dict):
        return _file(value, folder, "edges")
    if "edge_index" in value:
        return _attributes(value, folder, "edges")
    return {
        _edge_type(name, "edges"): (
            _attributes(each, folder, f"edges.{name}")
            if isinstance(each, dict)
            else _file(each, folder, f"edges.{name}")
        )
        for name, each in value.items()
    }


def _edge_type(name: str, where: str) -> tuple[str, ...]:
    parts = tuple(name.split("__"))
    if len(parts) != 3 or not all(parts):
        raise ValueError(
            f"{where}.{name} is no edge type: write source__relation__target; where names have two "
            f"underscores, write [[edges]] tables with type = [source, relation, target]"
        )
    return parts


def _by_edge_type(value: dict[str, Any], option: str, edges: Any) -> dict[Any, Any]:
    """An option by edge type; one whose keys are no edge types is for all of them."""
    types = {"__".join(key): key for key in edges}
    return {types.get(name, name): each for name, each in value.items()}


def _split(value: Any, folder: Path, where: str, is_typed: bool, *, of_edges: bool) -> Any:
    if not is_typed:
        return _file(value, folder, where)
    return {
        _edge_type(name, where) if of_edges else name: _file(each, folder, f"{where}.{name}")
        for name, each in _table(value, where).items()
    }


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} must be a table, not {value!r:.80}")
    return value


def _attributes(value: Any, folder: Path, where: str) -> dict[str, Any]:
    """Files by the names of attributes; the number of nodes is no file."""
    return {
        name: each if name == "num_nodes" else _file(each, folder, f"{where}.{name}")
        for name, each in _table(value, where).items()
    }


def _file(value: Any, folder: Path, where: str) -> Any:
    """A path, or a list of paths, from the folder of the description; or these with options."""
    if isinstance(value, dict) and "path" in value:
        return _source(value, folder, where)
    if isinstance(value, str) and value:
        return os.fspath(folder / value)
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return [folder / each for each in value]  # a list of texts could be one of ids
    raise ValueError(
        f"{where} must be a path, a list of paths, or a table with 'path' and reading options, "
        f"not {value!r:.80}"
    )


def _source(value: dict[str, Any], folder: Path, where: str) -> Any:
    """A table such as ``{path = "writes.csv", src = "who", dst = "what"}`` as a `Source`."""
    from graphzero.ingest.source import Source  # pyarrow takes long to import

    options = {name: each for name, each in value.items() if name != "path"}
    known = [field.name for field in fields(Source) if field.name != "value"]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ValueError(f"{where} has the unknown options {unknown}; there are {known}")
    return Source(_file(value["path"], folder, f"{where}.path"), **options)


def _refuse_replaced(args: argparse.Namespace) -> None:
    given = [name for name, default in _REPLACED.items() if getattr(args, name, default) != default]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise ValueError(f"{options}: with --from, the description file says this: leave it out")


def build_described(args: argparse.Namespace) -> int:
    """Builds what a description file names, and prints a summary."""
    from graphzero.api import write_dataset  # pyarrow takes long to import

    _refuse_replaced(args)
    started = time.perf_counter()
    closing = write_dataset(
        args.dir,
        **read_description(args.description),
        neighbors=args.neighbors,
        order=args.order,
        presample=presample_of(args),
        memory_limit=args.memory_limit,
        progress=shows_progress(args),
    )
    with open_dataset(args.dir) as ds:
        size = format_bytes(sum(mapping.size for mapping in ds.mappings))
        typed = ds if isinstance(ds, TypedDataset) else None
        nodes = "" if typed is None else f" of {len(typed.nodes)} types"
        edges = "" if typed is None else f" of {len(typed.edges)} types"
        direction = describe_direction(ds.graph if typed is None else typed)
        print(
            f"{args.dir}: {ds.num_nodes:,} nodes{nodes}, {ds.num_edges:,} edges{edges}, "
            f"{direction}, {size}, in {time.perf_counter() - started:.1f} s"
        )
    for line in closing.lines():
        print(line)
    return 0
