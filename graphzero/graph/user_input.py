"""What users pass in: ids, times and fanouts, converted and checked; `Sampling`, how to draw."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.store.id_table import IdTable
from graphzero.store.manifest import EdgeType
from graphzero.units import as_count, available_processors

IdArray = npt.NDArray[np.int64]
Values = npt.NDArray[np.generic]
# Neighbours per node in each hop; in a typed graph also by edge type, or its name.
Fanouts = Sequence[int] | Mapping[Any, Sequence[int]]


def as_array(values: object) -> Values:
    """A NumPy array of a tensor on any device, an array or a list."""
    detach = getattr(values, "detach", None)
    return np.asarray(values if detach is None else detach().cpu())


def as_ids(values: object, limit: int, name: str) -> IdArray:
    """One-dimensional, contiguous int64 array of ids in [0, limit).

    Parameters
    ----------
    values : sequence, numpy.ndarray or torch.Tensor
        Of any integer dtype.
    limit : int
        Upper bound of the ids, exclusive.
    name : str
        Name of the argument, for messages.

    Returns
    -------
    (n,) int64 array
        The same memory where nothing had to be converted.

    Raises
    ------
    ValueError
        If the values are not one-dimensional or not integers.
    IndexError
        If an id is negative or not below limit; with its position and value.
    """
    array = as_array(values)
    if array.ndim != 1:
        raise ValueError(f"{name} must be one-dimensional, not of shape {array.shape}")
    if array.size == 0:
        return np.empty(0, dtype=np.int64)
    if array.dtype.kind == "b":
        raise ValueError(f"{name} must be ids, not a boolean mask: use numpy.flatnonzero(mask)")
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be integers, not {array.dtype}")
    ids: IdArray = np.ascontiguousarray(array, dtype=np.int64)
    at = _core.first_outside(ids, limit)  # uint64 above 63 bits has become negative
    if at >= 0:
        raise IndexError(f"{name}[{at}] = {array[at]} is out of range [0, {limit})")
    return ids


def as_times(values: object, count: int, name: str) -> IdArray:
    """Contiguous int64 array of timestamps, (count,).

    Raises
    ------
    ValueError
        If they are not integers, not `count` of them, or do not fit 63 bits.
    """
    array = as_array(values)
    if array.shape != (count,):
        raise ValueError(
            f"{name} must hold a time for each of the {count} seeds, not {array.shape}"
        )
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be integers, as the graph's timestamps, not {array.dtype}")
    if array.dtype == np.uint64 and int(array.max(initial=0)) > np.iinfo(np.int64).max:
        raise ValueError(f"{name} has a time that does not fit 63 bits")
    return np.ascontiguousarray(array, dtype=np.int64)


def as_threads(num_threads: int | None) -> int:
    """Number of threads: as given, or one for each processor available to the process."""
    if num_threads is None:
        return available_processors()
    return as_count(num_threads, "num_threads", most=(1 << 31) - 1)  # as the core counts them


class NodeTexts(Sequence[str]):
    """The user's ids of nodes that are texts, mapped and never loaded.

    ``ids[5]`` is a str; ``ids[array]`` and ``ids[begin:end]`` are arrays of str (dtype object) of
    the shape of the index.
    """

    def __init__(self, table: IdTable) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, int | slice):  # negative ones count from the end
            index = np.asarray(range(len(self))[index])
        array = np.asarray(index)
        texts = np.empty(array.size, object)
        nodes = as_ids(array.ravel(), len(self), "nodes").tolist()
        texts[:] = [self._table.text_at(node) for node in nodes]
        return texts.reshape(array.shape)[()]


def _nodes_of_ids(table: IdTable, array: Values, of: str) -> IdArray:
    """The node of each id, -1 for ids that no node has."""
    if not table.is_text:
        if array.dtype == object and all(type(value) is int for value in array.tolist()):
            bounds = np.iinfo(table.dtype)
            fits = np.array([bounds.min <= id_ <= bounds.max for id_ in array.tolist()], bool)
            nodes: IdArray = np.full(len(array), -1)
            nodes[fits] = table.find_integers(array[fits].astype(table.dtype))
            return nodes
        if array.size and array.dtype.kind not in "iu":
            raise ValueError(
                f"{array.dtype} values are no ids of {of}: its ids are integers of 64 bits"
            )
        if array.dtype == np.uint64:
            return table.find_integers(array.astype(np.uint64))
        return table.find_integers(array.astype(np.int64))
    for value in array.tolist():
        if not isinstance(value, str):
            raise ValueError(f"{value!r:.80} is no id of {of}: its ids are texts")
    # Half of a pair of surrogates is no text, and nobody's id.
    texts = [value.encode(errors="surrogatepass") for value in array.tolist()]
    ends = np.cumsum([len(text) for text in texts], dtype=np.uint64)
    return table.find_texts(np.frombuffer(b"".join(texts), np.uint8), ends)


def lookup(table: IdTable | None, ids: object, missing: int | None, of: str) -> IdArray | int:
    """The nodes of the user's ids: see `Dataset.lookup`.

    Parameters
    ----------
    table : IdTable or None
    ids : int, str, or array-like of them
    missing : int, optional
    of : str
        What has the table, for messages.
    """
    if table is None:
        raise ValueError(
            f"{of} has no table of ids: it was built without ids='map', and its nodes have the "
            f"numbers that the edge list gave them"
        )
    array = np.asarray(ids, object if table.is_text else None)
    if array.dtype.kind == "f" and not isinstance(ids, np.ndarray):
        array = np.asarray(ids, object)  # NumPy makes floats of a list with 0 and 2^63
    nodes = _nodes_of_ids(table, array.ravel(), of)
    unknown = np.flatnonzero(nodes < 0)
    if len(unknown):
        if missing is None:
            wrong = array.ravel()[int(unknown[0])]
            shown = repr(wrong) if isinstance(wrong, str) else str(wrong)
            raise KeyError(
                f"{shown:.200} is the id of no node of {of} ({len(unknown):,} of {len(nodes):,} "
                f"ids are unknown); missing=-1 gives -1 for such ids"
            )
        nodes[unknown] = missing
    return nodes.reshape(array.shape) if array.shape else int(nodes[0])


# --- options of sampling

_KINDS = ("weighted", "labor")  # of which at most one is set; `src/kinds.c` has the same
_WORDS = {"temporal_strategy": ("uniform", "last"), "subgraph_type": ("directional", "induced")}
_SWITCHES = ("replace", "weighted", "labor", "disjoint", "strictly_before")


def as_fanout(fanout: object) -> int:
    """A fanout: a positive integer, or -1 for all neighbours.

    Raises
    ------
    ValueError
        For anything else.
    """
    try:
        return -1 if fanout == -1 else as_count(fanout, "fanout")
    except ValueError as error:
        raise ValueError(
            f"a fanout must be a positive integer, or -1 for all neighbours, not {fanout!r}: "
            f"{error}"
        ) from None


def as_fanouts(fanouts: object, name: str = "fanouts") -> list[int]:
    """Fanouts, one for each hop; 0 for no neighbours in a hop, and none at all for the seeds only.

    Raises
    ------
    ValueError
        If they are not a sequence, if one of them is not a fanout, or if they are too many.
    """
    if isinstance(fanouts, (str, bytes)) or not isinstance(fanouts, Iterable):
        raise ValueError(
            f"{name} must be a list with one fanout for each hop, such as [15, 10], not {fanouts!r}"
        )
    hops = [0 if fanout is not False and fanout == 0 else as_fanout(fanout) for fanout in fanouts]
    if len(hops) > _core.MOST_HOPS:
        raise ValueError(f"fanouts must name at most {_core.MOST_HOPS} hops")
    return hops


def as_typed_fanouts(fanouts: object, edge_types: Sequence[EdgeType]) -> dict[EdgeType, list[int]]:
    """Fanouts of every edge type, one for each hop.

    Parameters
    ----------
    fanouts : sequence of int, or mapping
        One list for all edge types; or a list by edge type, ``("user", "rates", "movie")`` or
        "user__rates__movie", where the list of "default" is for all edge types without one. Each
        fanout is positive, -1 for all neighbours, or 0 for none in this hop.
    edge_types : sequence of EdgeType

    Raises
    ------
    ValueError
        If a list is no list of fanouts, or has another number of hops than the others; if an edge
        type is unknown, named twice, or missing.
    """
    if isinstance(fanouts, Mapping):
        lists = _fanouts_by_edge_type(fanouts, edge_types)
    else:
        hops = as_fanouts(fanouts)
        lists = {edge_type: list(hops) for edge_type in edge_types}
    counts = {len(hops) for hops in lists.values()}
    if len(counts) > 1:
        named = ", ".join(f"{'__'.join(kind)}: {len(hops)}" for kind, hops in lists.items())
        raise ValueError(
            f"all edge types must have fanouts for the same number of hops, not {named}: "
            f"use 0 in a hop in which an edge type is not sampled"
        )
    return lists


def _fanouts_by_edge_type(
    fanouts: Mapping[Any, object], edge_types: Sequence[EdgeType]
) -> dict[EdgeType, list[int]]:
    names = {"__".join(edge_type): edge_type for edge_type in edge_types}
    if len(names) < len(edge_types) and any(isinstance(key, str) for key in fanouts):
        names = {}  # two edge types have one name: only tuples tell them apart
    named: dict[EdgeType, list[int]] = {}
    default = None
    for key, value in fanouts.items():
        hops = as_fanouts(value, f"fanouts[{key!r}]")
        if isinstance(key, str) and key == "default":
            default = hops
            continue
        edge_type = names.get(key) if isinstance(key, str) else key
        if edge_type is None or edge_type not in edge_types:
            raise ValueError(
                f"fanouts name {key!r}, but the edge types are {list(edge_types)}: name one of "
                f"them, or 'default' for all others"
            )
        if edge_type in named:
            raise ValueError(f"fanouts name the edge type {edge_type} twice")
        named[edge_type] = hops
    missing = [edge_type for edge_type in edge_types if edge_type not in named]
    if missing and default is None:
        raise ValueError(
            f"fanouts lack the edge types {missing}: name them, or add an entry 'default' for all "
            f"others, such as 'default': {[0] * len(next(iter(named.values()), [0]))} to sample "
            f"none of them"
        )
    return {edge_type: list(named.get(edge_type, default or [])) for edge_type in edge_types}


def as_seed(seed: object) -> int:
    """A seed of the random draws: an integer, taken modulo 2^64."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise ValueError(f"seed must be an integer, not {seed!r}")
    return int(seed) % (1 << 64)


def as_walk_bias(value: float, name: str) -> float:
    """A parameter of node2vec, p or q: a positive, finite number."""
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive number, not {value!r}")
    return float(value)


class SamplingOptions(TypedDict, total=False):
    """The fields of `Sampling`, as keyword arguments of samplers and datasets."""

    replace: bool
    weighted: bool
    labor: bool
    disjoint: bool
    temporal_strategy: Literal["uniform", "last"]
    strictly_before: bool
    subgraph_type: Literal["directional", "induced"]
    batch_dependency: int


@dataclass(frozen=True)
class Sampling:
    """How neighbours are drawn. ``docs/sampling.md`` describes the cost of each kind.

    Attributes
    ----------
    replace : bool
        With replacement: every node that has a neighbour draws exactly the fanout.
    weighted : bool
        By the weights of the edges; see `Graph.sample_neighbors`.
    labor : bool
        Layer-neighbour sampling, LABOR-0 (Balin, Catalyurek, NeurIPS 2023): the nodes of a hop
        draw the same neighbours where possible, so that a batch has fewer distinct nodes. A node
        draws the fanout on average, not exactly.
    disjoint : bool
        Every seed has its own tree, which shares no nodes with other trees and is drawn
        independently. Implied by times.
    temporal_strategy : {"uniform", "last"}
        If seeds have times: draw uniformly among the edges up to the seed's time, or take the
        most recent of them.
    strictly_before : bool
        If seeds have times: use only edges before the time of the seed, not at it.
    subgraph_type : {"directional", "induced"}
        Return the edges that were drawn, or all edges of the graph between the nodes of the batch
        (with times: those up to the seed's time).
    batch_dependency : int
        Number of consecutive batches in which a node repeats its draws. With n > 1, consecutive
        batches share the draws of all nodes except one in n, and therefore most of their pages.
        Each single batch has the same distribution as with 1. After Balin, LaSalle, Catalyurek,
        arXiv:2310.12403.

    Raises
    ------
    ValueError
        If a value is invalid, or two options exclude each other.
    """

    replace: bool = False
    weighted: bool = False
    labor: bool = False
    disjoint: bool = False
    temporal_strategy: Literal["uniform", "last"] = "uniform"
    strictly_before: bool = False
    subgraph_type: Literal["directional", "induced"] = "directional"
    batch_dependency: int = 1

    def __post_init__(self) -> None:
        for name, words in _WORDS.items():
            if getattr(self, name) not in words:
                raise ValueError(f"{name} must be one of {words}, not {getattr(self, name)!r}")
        depends_on = as_count(self.batch_dependency, "batch_dependency")
        switches = {name: bool(getattr(self, name)) for name in _SWITCHES}
        vars(self).update(switches, batch_dependency=depends_on)
        if self.labor and (self.replace or self.weighted or self.disjoint):
            raise ValueError(
                "labor excludes replace, weighted and disjoint: it draws each neighbour once, "
                "uniformly, and for all nodes together"
            )
        if self.temporal_strategy == "last" and self.replace:
            raise ValueError("temporal_strategy='last' draws nothing, so replace has no meaning")
        if depends_on > 1 and self.disjoint:
            raise ValueError(
                "batch_dependency excludes disjoint: trees of other batches belong to other seeds"
            )

    @property
    def kind(self) -> str | None:
        """The option that chooses a kind of drawing in the core; None for uniform draws."""
        return next((name for name in _KINDS if getattr(self, name)), None)
