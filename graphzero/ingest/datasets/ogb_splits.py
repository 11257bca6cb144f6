"""Splits of OGB's datasets.

For nodes: ``split/KIND/train.csv.gz``, ``valid.csv.gz`` and ``test.csv.gz`` with a node id a line;
with types in ``split/KIND/TYPE/``, listed in ``split/KIND/nodetype-has-split.csv.gz``. For links:
``split/KIND/train.pt``, ``valid.pt`` and ``test.pt``, each a dictionary of NumPy arrays. Or all of
them in ``split/KIND/split_dict.pt``, which OGB's readers prefer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from graphzero.ingest.datasets.ogb_folder import OgbFolder
from graphzero.ingest.datasets.ogb_typed import types_with
from graphzero.ingest.source import Source
from graphzero.ingest.sources.pickled_arrays import read_pickled_arrays
from graphzero.ingest.sources.streamed_array import StreamedArray

__all__ = ["find_splits"]

# OGB's names, and ours.
_NAMES = {"train": "train", "valid": "val", "test": "test"}

Splits = dict[str, Any]


def find_splits(
    folder: OgbFolder, split_type: str | None, *, node_types: Collection[str] | None
) -> tuple[Splits, dict[str, dict[str, Any]]]:
    """Splits of nodes, and the arrays of splits of links, by their names.

    Parameters
    ----------
    folder : OgbFolder
    split_type : str or None
        None for the usual one.
    node_types : collection of str or None
        None for a graph without types.

    Raises
    ------
    OSError
        If a file is missing.
    ValueError
        If it is not clear which split is meant, or a file has something else.
    """
    path = _split_folder(folder, split_type)
    whole = path / "split_dict.pt"
    if whole.exists():
        return _of_dictionary(whole, node_types or ())
    if (path / "train.pt").exists() or folder.is_link:
        files = {name: folder.require(path / f"{name}.pt") for name in _NAMES}
        return {}, {_NAMES[name]: _arrays(file) for name, file in files.items()}
    if node_types is None:
        files = {name: folder.require(path / f"{name}.csv.gz") for name in _NAMES}
        return {_NAMES[name]: Source(file, header=False) for name, file in files.items()}, {}
    types = types_with(folder, path / "nodetype-has-split.csv.gz")
    return {
        ours: {
            kind: Source(folder.require(path / kind / f"{name}.csv.gz"), header=False)
            for kind in types
        }
        for name, ours in _NAMES.items()
    }, {}


def _split_folder(folder: OgbFolder, split_type: str | None) -> Path:
    parent = folder.path / "split"
    there = sorted(path.name for path in parent.glob("*") if path.is_dir())
    prescribed = None if folder.facts is None else folder.facts.split
    if split_type is not None:
        if split_type not in there:
            raise ValueError(
                f"split_type={split_type!r}: {parent} has {', '.join(there) or 'nothing'}"
            )
        return parent / split_type
    if prescribed is not None and (prescribed in there or len(there) != 1):
        return folder.require(parent / prescribed)
    if len(there) == 1:
        return parent / there[0]
    if not there:
        return folder.require(parent)
    raise ValueError(f"{parent} has {', '.join(there)}: choose one of them with split_type=")


def _arrays(path: Path) -> dict[str, Any]:
    found = read_pickled_arrays(path)
    if not isinstance(found, Mapping) or not _are_arrays(found.values()):
        raise ValueError(f"{path} must be a dictionary of arrays, such as 'edge' and 'edge_neg'")
    return dict(found)


def _are_arrays(values: Iterable[Any]) -> bool:
    return all(
        isinstance(value, StreamedArray)
        or (isinstance(value, list) and all(isinstance(each, str) for each in value))
        for value in values
    )


def _of_dictionary(
    path: Path, node_types: Collection[str]
) -> tuple[Splits, dict[str, dict[str, Any]]]:
    """``split_dict.pt``: node ids, node ids by type, or the arrays of links."""
    found = read_pickled_arrays(path)
    if not isinstance(found, Mapping) or set(found) != set(_NAMES):
        has = ", ".join(found) if isinstance(found, Mapping) else type(found).__name__
        raise ValueError(f"{path} must have train, valid and test; it has {has}")
    by_name = {_NAMES[name]: found[name] for name in _NAMES}
    if all(isinstance(value, StreamedArray) for value in by_name.values()):
        return by_name, {}
    if not all(isinstance(v, Mapping) and _are_arrays(v.values()) for v in by_name.values()):
        raise ValueError(f"{path} has something else than arrays")
    if all(set(by_type) <= set(node_types) for by_type in by_name.values()):
        return by_name, {}
    return {}, by_name
