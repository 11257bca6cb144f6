"""``dataset.json``: which files make up a dataset, and the commit point of a build.

A build first writes every file under a staged name, then replaces ``dataset.json``, then renames
the staged files. Readers of the manifest prefer a staged name if that file still exists. So a
build that is killed before it replaces ``dataset.json`` leaves the earlier dataset, and a build
that is killed later leaves the new one.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from graphzero.errors import FormatError
from graphzero.store.atomic import (
    is_staging_name,
    replace_file,
    sync_folder,
    write_atomically,
)

__all__ = [
    "MANIFEST_NAME",
    "FileEntry",
    "Manifest",
    "Neighbors",
    "Presampling",
    "finish_renames",
    "open_build",
    "read_manifest",
    "write_manifest",
]

MANIFEST_NAME = "dataset.json"
_FORMAT = "graphzero-dataset"
# Version 1 does not say which neighbours are stored; where it cannot, it is written again.
_VERSIONS = (1, 2)
_MOST_TRIES = 100  # a rebuild, and each file that it renames, can fail one of them

Neighbors = Literal["in", "out", "both"]

_T = TypeVar("_T")


@dataclass(frozen=True)
class FileEntry:
    """A file of a dataset: its final name, and its name during the build."""

    name: str
    staged: str

    def resolve(self, folder: Path) -> Path:
        """Where the file is now."""
        staged = folder / self.staged
        return staged if staged.exists() else folder / self.name


@dataclass(frozen=True)
class Presampling:
    """How visits were counted.

    Attributes
    ----------
    batches : int
        Mini-batches that were sampled: the maximum of the visits of a node.
    batch_size : int
    fanouts : tuple of int
    num_seeds : int
        Seeds of an epoch.
    seed : int
        Of the random draws.
    """

    batches: int
    batch_size: int
    fanouts: tuple[int, ...]
    num_seeds: int
    seed: int


@dataclass(frozen=True)
class Manifest:
    """The content of ``dataset.json``.

    Attributes
    ----------
    num_nodes : int
    num_edges : int
        Stored edges: both directions of an undirected edge.
    num_input_edges : int
        Edges of the edge list.
    directed : bool
    neighbors : {"in", "out", "both"} or None
        Which neighbours of a node are stored: the sources of its incoming edges, the targets of its
        outgoing ones, or both; "both" for an undirected graph. None for a directed graph of a
        folder of version 1, which has out-neighbours and nobody who chose them.
    order : {"input", "hot", "presample"}
    num_classes : int or None
        Largest label + 1, where labels are integers.
    graph : FileEntry
        The lists that are sampled.
    out_graph : FileEntry or None
        The out-neighbours of a directed graph that has both.
    features, labels : FileEntry or None
    splits : dict of str to FileEntry
    visits : FileEntry or None
        In how many sampled mini-batches each node was.
    presampling : Presampling or None
        How they were sampled.
    """

    num_nodes: int
    num_edges: int
    num_input_edges: int
    directed: bool
    order: str
    num_classes: int | None
    graph: FileEntry
    features: FileEntry | None = None
    labels: FileEntry | None = None
    splits: dict[str, FileEntry] = field(default_factory=dict)
    visits: FileEntry | None = None
    presampling: Presampling | None = None
    neighbors: Neighbors | None = None
    out_graph: FileEntry | None = None

    @property
    def incoming(self) -> bool:
        """Whether the lists that are sampled have the sources of incoming edges."""
        return self.directed and self.neighbors in ("in", "both")

    def entries(self) -> list[FileEntry]:
        """Every file of the dataset."""
        graphs, splits = (self.graph, self.out_graph), self.splits.values()
        some = [*graphs, self.features, self.labels, *splits, self.visits]
        return [entry for entry in some if entry is not None]


# What counts can be in the files, and seeds.
_MOST_COUNT, _MOST_SEED = (1 << 63) - 1, (1 << 64) - 1
_MOST_CLASSES = 1 << 64  # one more than the largest label
# What json, and the checks of its content, may raise.
_WRONG = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


def _count(content: Any, name: str, most: int = _MOST_COUNT) -> int:
    value = content[name]
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise ValueError(f"{name} is {value!r:.80}, not an integer from 0 to {most}")
    return value


def _is_file_name(name: Any) -> bool:
    if not isinstance(name, str) or name in ("", ".", "..") or "\0" in name:
        return False
    return os.path.basename(name) == name and 0 < len(os.fsencode(name)) < 256


def _entry(value: Any) -> FileEntry | None:
    if value is None:
        return None
    names = (value["name"], value["staged"])
    if not all(map(_is_file_name, names)):
        raise ValueError("a file name points outside the folder, or is none")
    if not is_staging_name(names[1]):
        raise ValueError("a staged name is invalid")
    return FileEntry(*names)


def _presampling(value: Any) -> Presampling | None:
    if value is None:
        return None
    names = ("batches", "batch_size", "num_seeds", "seed")
    counts = {name: _count(value, name, _MOST_SEED) for name in names}
    if counts["batches"] < 1:
        raise ValueError("it has visits of no batches")
    fanouts = value["fanouts"]
    if not isinstance(fanouts, list) or any(type(fanout) is not int for fanout in fanouts):
        raise ValueError("fanouts of presampling are not integers")
    return Presampling(fanouts=tuple(fanouts), **counts)


def _neighbors(content: dict[str, Any], out_graph: FileEntry | None) -> Neighbors | None:
    """What the manifest says of the direction; it must fit the files and the kind of graph."""
    directed = content["directed"]
    if content["version"] == 1:
        return None if directed else "both"
    found: Any = content["neighbors"]
    if found not in ("in", "out", "both"):
        raise ValueError(f"neighbors is {found!r:.80}, not 'in', 'out' or 'both'")
    if (out_graph is not None) != (directed and found == "both"):
        raise ValueError("neighbors and the graph files contradict each other")
    if not directed and found != "both":
        raise ValueError("an undirected graph has neighbors 'both'")
    neighbors: Neighbors = found
    return neighbors


def _parse(content: dict[str, Any]) -> Manifest:
    graph, out_graph = _entry(content["graph"]), _entry(content.get("out_graph"))
    if graph is None:
        raise ValueError("it names no graph")
    if not isinstance(content["directed"], bool) or not isinstance(content["order"], str):
        raise ValueError("directed is neither true nor false, or order is no name")
    splits = {}
    for name, value in content["splits"].items():
        entry = _entry(value)
        if entry is not None:
            splits[name] = entry
    return Manifest(
        num_nodes=_count(content, "num_nodes"),
        num_edges=_count(content, "num_edges"),
        num_input_edges=_count(content, "num_input_edges"),
        directed=content["directed"],
        order=content["order"],
        num_classes=None
        if content["num_classes"] is None
        else _count(content, "num_classes", _MOST_CLASSES),
        graph=graph,
        features=_entry(content["features"]),
        labels=_entry(content["labels"]),
        splits=splits,
        visits=_entry(content.get("visits")),
        presampling=_presampling(content.get("presampling")),
        neighbors=_neighbors(content, out_graph),
        out_graph=out_graph,
    )


def read_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """The manifest of a dataset folder.

    Raises
    ------
    FileNotFoundError
        If the folder has no ``dataset.json``.
    FormatError
        If this version cannot read it.
    """
    path = Path(folder) / MANIFEST_NAME
    if path.exists() and not path.is_file():  # reading a pipe would wait for its writer
        raise FormatError(f"{path} is not a regular file: remove it, and build the dataset again")
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            2, f"no dataset here (no {MANIFEST_NAME}): build one with graphzero.build", str(folder)
        ) from None
    try:
        content = json.loads(text)
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r:.80}")
        version = content["version"]
    except _WRONG as error:
        raise FormatError(f"{path} is not a graphzero dataset: {error}; build it again") from None
    if isinstance(version, bool) or version not in _VERSIONS:
        raise FormatError(
            f"{path} has version {version!r:.80}, this graphzero reads versions 1 and 2: "
            f"use the graphzero that wrote it, or build it again"
        )
    try:
        return _parse(content)
    except _WRONG as error:
        raise FormatError(f"{path} is corrupt ({error!r}): build the dataset again") from None


def open_build(
    folder: str | os.PathLike[str],
    open_files: Callable[[Manifest], _T],
    close: Callable[[_T], object],
) -> _T:
    """Opens files of a dataset that all belong to one build, also while a rebuild replaces them.

    Parameters
    ----------
    folder : path-like
    open_files : callable
        Opens what the manifest names, by `FileEntry.resolve`; leaves nothing open if it raises.
    close : callable
        Closes what `open_files` returned, where it may be of two builds.

    Raises
    ------
    BlockingIOError
        If the dataset was replaced again and again meanwhile.
    FileNotFoundError, FormatError
        As `read_manifest`, and whatever `open_files` raises.
    """
    manifest = read_manifest(folder)
    for _ in range(_MOST_TRIES):
        found = [entry.resolve(Path(folder)) for entry in manifest.entries()]
        failure: Exception | None = None
        try:
            opened = open_files(manifest)
        except (OSError, ValueError) as error:
            failure = error
        before, manifest = manifest, read_manifest(folder)
        if manifest == before:
            if failure is None:
                return opened
            if found == [entry.resolve(Path(folder)) for entry in manifest.entries()]:
                raise failure
        elif failure is None:
            close(opened)
    raise BlockingIOError(
        errno.EWOULDBLOCK,
        f"the dataset was replaced {_MOST_TRIES} times while it was being opened: "
        f"open it when the builds have ended",
        os.fspath(folder),
    )


def write_manifest(folder: str | os.PathLike[str], manifest: Manifest) -> None:
    """Replaces ``dataset.json``: from then on, readers see the files that it names."""
    content = {"format": _FORMAT, "version": 2, **asdict(manifest)}
    if manifest.neighbors is None:  # as it was read: a later version would claim a choice
        content["version"] = 1
        del content["neighbors"], content["out_graph"]
    text = json.dumps(content, indent=2) + "\n"
    write_atomically(Path(folder) / MANIFEST_NAME, text.encode())


def finish_renames(folder: str | os.PathLike[str], manifest: Manifest) -> None:
    """Renames every file of a written manifest to its final name; can be repeated after a crash."""
    folder = Path(folder)
    for entry in manifest.entries():
        staged = folder / entry.staged
        if staged.exists():
            replace_file(staged, folder / entry.name)
    sync_folder(folder)
