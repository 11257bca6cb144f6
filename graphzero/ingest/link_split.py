"""`LinkSplit`: edges that are held out of a graph while it is built, to be predicted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.ingest.edges import EdgeList
from graphzero.ingest.merge import end_keys
from graphzero.ingest.sort import Array, TempColumn
from graphzero.store.format import FileWriter, id_dtype, sealed_file, vector_layout
from graphzero.store.manifest import EDGES, EdgeType, reverse_types
from graphzero.units import as_count

PARTS = ("train", "val", "test")
_CHUNK = 1 << 16
_SAMPLED = 1 << 20  # times, about, among which the bounds are looked for


@dataclass(frozen=True)
class LinkSplit:
    """Parts of the edges that `graphzero.build` holds out, for link prediction.

    The graph has the edges of "train" only, whatever samples it, trains on it or computes all of
    its nodes, so that no message passes along an edge that is to be predicted. Each part is an edge
    split with its edges: ``edge_label_index="val"`` makes them the seeds, and ``ds.edge_splits``
    has their ends and times.

    An edge, its parallel edges and their reverse are in one part: at random, all edges between two
    nodes are, in a typed graph also those of the reverse edge type ("rev_" and its name, or the
    same name), which is held out as well. Unlike PyG's ``RandomLinkSplit``, test edges are
    predicted without those of "val", and a part has about its fraction of the edges.

    Parameters
    ----------
    val, test : float
        Fractions of the edges.
    by : {"random", "time"}
        "time": the latest edges are "test", those before them "val". Edges of the same time are in
        one part. The bounds come from a sample of a million times.
    seed : int
        Of a random choice, which is a function of it and of the two ends.

    Raises
    ------
    ValueError
        If an argument is invalid.
    """

    val: float = 0.0
    test: float = 0.0
    by: str = "random"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("val", "test"):
            value = getattr(self, name)
            if not isinstance(value, float | int) or not 0 <= value < 1:
                raise ValueError(f"{name} must be a fraction of the edges, not {value!r}")
        if not 0 < self.val + self.test < 1:
            raise ValueError(
                f"val={self.val} and test={self.test}: their sum must be above 0 and below 1"
            )
        if self.by not in ("random", "time"):
            raise ValueError(f"by must be 'random' or 'time', not {self.by!r}")
        as_count(self.seed, "seed", 0)


def link_splits(value: Any, types: Mapping[EdgeType, Any]) -> dict[EdgeType, LinkSplit]:
    """The splits of each edge type and of its reverse; none if `value` has positions of edges.

    Raises
    ------
    ValueError
        If a split stands where it means nothing.
    """
    if isinstance(value, LinkSplit):
        if EDGES not in types:
            raise ValueError(
                f"name the edge types whose edges are held out: "
                f"edge_splits={{{next(iter(types))!r}: gz.LinkSplit(...)}}"
            )
        return {EDGES: value}
    of_type = dict(value)
    for name, split in of_type.items():
        if isinstance(split, float):
            raise ValueError(f"edge_splits[{name!r}]={split}: gz.LinkSplit holds out fractions")
    if not any(isinstance(split, LinkSplit) for split in of_type.values()):
        return {}
    for edge_type, split in of_type.items():
        if edge_type not in types or not isinstance(split, LinkSplit):
            raise ValueError(
                f"edge_splits[{edge_type!r}] is not a LinkSplit of an edge type: LinkSplits stand "
                f"by edge type, or alone in a graph without types, and not beside other splits"
            )
    for edge_type, split in tuple(of_type.items()):
        for name in reverse_types(edge_type, types):
            if of_type.setdefault(name, split) != split:
                raise ValueError(f"{edge_type} and its reverse {name} have different LinkSplits")
    return of_type


Bounds = npt.NDArray[np.int64]


def time_bounds(split: LinkSplit, edges: EdgeList, of_reverse: Bounds | None) -> Bounds | None:
    """The first time of "val" and that of "test", (2,); None if edges are split at random.

    Those of the reverse edge type, if it has some, are those of these edges.

    Raises
    ------
    ValueError
        If there are no times to split by.
    """
    if split.by != "time":
        return None
    if "time" not in edges.columns:
        raise ValueError(
            "LinkSplit(by='time') needs a time of each edge: a column that timestamp= names, or an "
            "edge attribute that time_attrs= names, such as 'edge_time'"
        )
    if of_reverse is not None:
        return of_reverse
    step = edges.num_records // _SAMPLED + 1
    sample = [
        edges.read(begin, begin + _CHUNK, "time")[0][-begin % step :: step]
        for begin in range(0, edges.num_records, _CHUNK)
    ]
    times = np.sort(np.concatenate([*sample, np.zeros(0 if sample else 1, np.int64)]))
    shares = np.array([1 - split.val - split.test, 1 - split.test])
    at = np.minimum(np.round(shares * len(times)).astype(int), len(times) - 1)
    bounds: Bounds = times[at]
    return bounds


def _parts(
    split: LinkSplit, edges: EdgeList, ends: tuple[str, str], bounds: Bounds | None
) -> Iterator[tuple[int, Array]]:
    """The first position of each chunk, and the part of each of its edges: 0, 1 or 2."""
    # the ends of an edge and of its reverse in one order
    low, high = ("target", "source") if ends[0] > ends[1] else ("source", "target")
    for begin in range(0, edges.num_records, _CHUNK):
        if bounds is None:
            first, second = edges.read(begin, begin + _CHUNK, low, high)
            draw = _draws(end_keys(first, second, undirected=ends[0] == ends[1]), split.seed)
            yield begin, np.where(draw < split.test, 2, draw < split.test + split.val)
        else:
            (time,) = edges.read(begin, begin + _CHUNK, "time")
            # the bound of a part that is not wanted is that of another one, or the last time
            yield begin, np.minimum(np.searchsorted(bounds, time, "right"), 2 if split.test else 1)


def _draws(keys: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each key: the finalizer of SplitMix64 (Steele et al., OOPSLA 2014)."""
    with np.errstate(over="ignore"):
        word: Any = keys ^ (np.uint64(seed + 1) * np.uint64(0x9E3779B97F4A7C15))
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        word ^= word >> np.uint64(31)
    draws: npt.NDArray[np.float64] = (word >> np.uint64(11)) * 2.0**-53
    return draws


def hold_out(
    folder: Path,
    edges: EdgeList,
    ends: tuple[str, str],
    *,
    split: LinkSplit,
    bounds: Bounds | None,
    memory: int,
) -> tuple[EdgeList, dict[str, EdgeList]]:
    """The edges that stay in the graph, and those of each part that is held out.

    Parameters
    ----------
    folder : pathlib.Path
        For temporary files.
    edges : EdgeList
    ends : (str, str)
        The node types of the sources and the targets in the list.
    split : LinkSplit
    bounds : (2,) int64 or None
        From `time_bounds`.
    memory : int
        Bytes that the parts may take.

    Raises
    ------
    ValueError
        If a part has no edges.
    """
    names = list(edges.columns)
    dtypes: dict[str, Any] = {name: column.dtype for name, column in edges.columns.items()}
    dtypes["position"] = np.uint64
    columns: dict[str, dict[str, Any]] = {
        part: {name: TempColumn(folder, dtype, memory // 16) for name, dtype in dtypes.items()}
        for part in PARTS[1:]
    }
    removed = TempColumn(folder, np.uint64, memory // 8)
    loops = dict.fromkeys(PARTS, 0)
    for begin, parts in _parts(split, edges, ends, bounds):
        values = dict(zip(names, edges.read(begin, begin + len(parts), *names), strict=True))
        values["position"] = np.arange(begin, begin + len(parts), dtype=np.uint64)
        is_loop = values["source"] == values["target"]
        for number, part in enumerate(PARTS):
            loops[part] += int(np.count_nonzero(is_loop & (parts == number)))
            for name, column in columns.get(part, {}).items():
                column.append(values[name][parts == number])
        removed.append(values["position"][parts > 0])
    wanted = {part: held for part, held in columns.items() if getattr(split, part)}
    sizes = {part: len(held["source"]) for part, held in wanted.items()}
    sizes["train"] = edges.num_records - len(removed)
    for part, size in sizes.items():
        if size == 0:
            raise ValueError(
                f"{split} leaves none of {edges.num_records:,} edges in {part!r}: choose other "
                f"fractions. Edges between the same nodes, or of the same time, are in one part"
            )
    held_out = {
        part: replace(edges, num_loops=loops[part], columns=held) for part, held in wanted.items()
    }
    rest = replace(edges, removed=removed.array(), num_loops=loops["train"])
    return rest, held_out


def write_link_split(path: Path, edges: EdgeList) -> FileWriter:
    """Writes the positions, ends and times of edges; sealed, not yet published."""
    size, ends = len(edges), id_dtype(max(edges.max_ids) + 1)
    dtypes: dict[str, npt.DTypeLike] = {"rows": "<i8", "source": ends, "target": ends}
    if "time" in edges.columns:
        dtypes["time"] = "<i8"
    with sealed_file(path, vector_layout(size, dtypes)) as file:
        for begin in range(0, edges.num_records, _CHUNK):
            for section in dtypes:
                column = "position" if section == "rows" else section
                file.append(section, edges.read(begin, begin + _CHUNK, column)[0])
    return file
