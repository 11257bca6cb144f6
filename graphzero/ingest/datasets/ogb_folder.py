"""The folder of an OGB dataset: its name, its files, and what to do where one is missing."""

from __future__ import annotations

import csv
import gzip
import os
import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from graphzero.ingest.datasets.ogb_facts import KNOWN, Facts
from graphzero.ingest.source import Source

__all__ = ["OgbFolder", "attribute_name", "edge_values", "find_folder", "node_values"]

_NAME = re.compile(r"ogb[nl]-[A-Za-z0-9_-]+")
_MOST_LINES = 10_000
_PREFIXES = {"node": "node_", "edge": "edge_"}
_DEFAULT = {"node_feat": "x", "edge_feat": "edge_attr"}


@dataclass(frozen=True)
class OgbFolder:
    """Where the files of a dataset are.

    Attributes
    ----------
    path : pathlib.Path
        The folder that has ``raw`` and ``split``.
    name : str
        Such as "ogbn-arxiv"; "" if it is not known.
    facts : Facts or None
        None if the name is none of OGB's.
    """

    path: Path
    name: str
    facts: Facts | None

    @property
    def raw(self) -> Path:
        """The folder of the graph."""
        return self.path / "raw"

    @property
    def is_link(self) -> bool:
        """Whether the task is to predict edges; the splits tell it where the name does not."""
        return self.name.startswith("ogbl-")

    def require(self, path: Path) -> Path:
        """A file that must be there.

        Raises
        ------
        FileNotFoundError
            Naming it, and how to get it.
        """
        if path.exists():
            return path
        raise FileNotFoundError(2, f"this file of the dataset is missing: {self.way()}", str(path))

    def way(self) -> str:
        """How the dataset is downloaded."""
        kind = "link" if self.is_link else "node"
        facts = self.facts
        if facts is None:
            return "get the complete folder of the dataset"
        loader = f"{kind.capitalize()}PropPredDataset"
        return (
            f"unpack http://snap.stanford.edu/ogb/data/{kind}proppred/{facts.download}.zip, or run "
            f"python -c \"from ogb.{kind}proppred import {loader}; {loader}('{self.name}')\""
        )

    def table(self, path: Path) -> list[list[str]]:
        """The lines of a small compressed file, such as a list of counts.

        Raises
        ------
        OSError
            If it is missing or cannot be read.
        ValueError
            If it is damaged, or not small.
        """
        self.require(path)
        try:
            with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
                lines = [
                    line for _, line in zip(range(_MOST_LINES), csv.reader(file), strict=False)
                ]
        except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError, csv.Error) as error:
            raise ValueError(f"{path} is damaged: {error}") from None
        if not lines or len(lines) == _MOST_LINES:
            raise ValueError(f"{path} has {len(lines)} lines or more: a few are expected")
        return lines

    def count(self, path: Path) -> int:
        """The one number of a file such as ``num-node-list.csv.gz``.

        Raises
        ------
        OSError, ValueError
            As in `table`; if there are several graphs.
        """
        lines = self.table(path)
        if len(lines) > 1:
            raise ValueError(
                f"{path} has {len(lines):,} numbers: the folder holds so many graphs, and a "
                f"dataset folder holds one"
            )
        return self.whole(lines[0][0], path)

    def whole(self, text: str, path: Path) -> int:
        """A number of nodes.

        Raises
        ------
        ValueError
        """
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if value < 0 or value != int(value):
            raise ValueError(f"{path} has {text!r}, which is not a number of nodes or edges")
        return int(value)


def _named(path: Path, name: str | None) -> str:
    """The dataset's name: as given, by the folder, or by the note of its release; "" if unknown."""
    if name is not None:
        if _NAME.fullmatch(name) is None:
            raise ValueError(
                f"name={name!r} must be that of a dataset for nodes or links, such as "
                f"'ogbn-arxiv' or 'ogbl-collab'"
            )
        return name
    folder = path.resolve().name
    by_folder = re.sub("_", "-", re.sub("_(pyg|dgl)$", "", folder), count=1)
    for known in KNOWN:
        if by_folder.lower() == known.lower():
            return known
    for note in sorted(path.glob("RELEASE_v*.txt")):
        with open(note, encoding="utf-8", errors="replace") as file:
            found = _NAME.search(file.read(1000))
        if found is not None:
            return found[0]
    return by_folder if _NAME.fullmatch(by_folder) else ""


def find_folder(path: str | os.PathLike[str], name: str | None) -> OgbFolder:
    """The folder of a dataset, given as such or as its ``raw`` folder.

    Raises
    ------
    OSError
        If there is no dataset.
    ValueError
        If the name is not one of OGB's form.
    """
    folder = Path(path)
    if folder.name == "raw" and not (folder / "raw").exists():
        folder = folder.parent
    known = _named(folder, name)
    found = OgbFolder(folder, known, KNOWN.get(known))
    if found.raw.is_dir():
        return found
    if not folder.is_dir():
        raise FileNotFoundError(2, f"there is no such folder: {found.way()}", str(folder))
    inside = sorted(each.parent.name for each in folder.glob("*/raw"))
    if inside:
        raise FileNotFoundError(
            2, f"this folder has datasets, name one of them: {', '.join(inside)}", str(folder)
        )
    processed = sorted(folder.glob("processed/*"))
    also = f"; {processed[0]} is made from it, and is not read" if processed else ""
    raise FileNotFoundError(2, f"the folder raw/ is missing{also}: {found.way()}", str(folder))


def attribute_name(stem: str) -> str:
    """The name of an attribute: "node_feat" is "x", "node_year" is "year", "edge_year" as it is."""
    stem = stem.removesuffix("_dict")
    return _DEFAULT.get(stem, stem.removeprefix("node_"))


def _values(folder: Path, of: str, **options: object) -> dict[str, Source]:
    """The attributes in a folder of compressed text: ``node-feat.csv.gz``, ``node_year.csv.gz``."""
    found = {}
    feat = folder / f"{of}-feat.csv.gz"
    if feat.exists():
        found[_DEFAULT[f"{of}_feat"]] = Source(feat, header=False, **options)  # type: ignore[arg-type]
    for path in sorted(folder.glob(f"{_PREFIXES[of]}*.csv.gz")):
        name = attribute_name(path.name.removesuffix(".csv.gz"))
        found[name] = Source(path, header=False, **options)  # type: ignore[arg-type]
    return found


def node_values(folder: Path) -> dict[str, Source]:
    """Attributes of nodes, in the order of the nodes."""
    return _values(folder, "node", id_column=False)


def edge_values(folder: Path) -> dict[str, Source]:
    """Attributes of edges, in the order of the edge list."""
    return _values(folder, "edge")
