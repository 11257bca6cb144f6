"""`LinkNeighborDataset`: mini-batches around edges, with negatives, for link prediction."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import Unpack

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.user_input import IdArray
from graphzero.io.row_io import RowKey
from graphzero.loader.arguments import (
    DatasetOptions,
    as_seed_edges,
    check_keywords,
    node_times,
    require_edge_order,
)
from graphzero.loader.mini_batch import SampledBatch
from graphzero.loader.seed_dataset import SeedDataset
from graphzero.sampling.negatives import (
    Candidates,
    WeightedDraws,
    check_sources,
    choose_negatives,
    draw_destinations,
    draw_pairs,
    negatives_key,
    pair_offsets,
    pairs_of,
)
from graphzero.sampling.sampler import HopReadAhead, NeighborSampler, TypedSubgraph
from graphzero.store.manifest import EdgeType, reverse_types
from graphzero.units import as_count

Mode = Literal["binary", "triplet"] | None


def _as_amount(amount: Any, mode: Mode) -> float:
    if mode == "triplet":
        return as_count(amount, "amount")
    is_number = isinstance(amount, Real) and not isinstance(amount, bool)
    if not (is_number and math.isfinite(amount) and amount > 0):
        raise ValueError(f"amount must be a positive number, not {amount!r}")
    return float(amount)


def _as_labels(edge_label: Any, num_edges: int, mode: Mode) -> npt.NDArray[Any] | None:
    """Labels of the seed edges, all above 0 where negatives get the label 0."""
    if edge_label is None:
        return np.ones(num_edges, dtype=np.float32) if mode == "binary" else None
    if mode == "triplet":
        raise ValueError("triplets have no labels: leave edge_label out, or use 'binary'")
    labels = np.asarray(edge_label).copy()  # the caller may change theirs
    if labels.dtype.kind not in "biuf" or labels.shape[:1] != (num_edges,):
        raise ValueError(
            f"edge_label must hold a number for each of the {num_edges} edges, "
            f"not {labels.dtype} of shape {labels.shape}"
        )
    if mode is None:
        return labels
    raised, fits = labels, labels > 0
    if (labels == 0).any():  # the label of negatives: then all are raised
        raised = labels + 1  # may wrap or round
        fits = (labels >= 0) & (raised > labels)
    if not fits.all():
        at = np.argwhere(~fits)[0].tolist()
        raise ValueError(
            f"edge_label{at} = {labels[tuple(at)]}: negatives have the label 0, so labels must be "
            f"numbers of at least 0, and if there is a 0, all must be so small that {labels.dtype} "
            f"can hold them plus 1"
        )
    return raised


def _excluded_types(dataset: Dataset, own: EdgeType, excluded: Any) -> list[EdgeType]:
    """The types of the edges that mini-batches lack between both ends of a seed edge."""
    if not isinstance(excluded, (bool, list)):
        raise ValueError(
            f"exclude_seed_edges must be True, False or a list of edge types, not {excluded!r}"
        )
    source, _, target = own
    if isinstance(excluded, list):
        found = [dataset.edge_type_of(kind) for kind in excluded]
        for kind in found:
            if {kind[0], kind[2]} != {source, target}:
                raise ValueError(
                    f"exclude_seed_edges names {kind}, whose edges are not between the nodes of "
                    f"seed edges of the type {own}"
                )
        return list(dict.fromkeys([own, *found]))
    return list(dict.fromkeys([own, *reverse_types(own, dataset.edges)])) if excluded else []


class LinkNeighborDataset(SeedDataset):
    """Mini-batches of neighbourhoods around seed edges, as a torch ``IterableDataset``.

    It is used like `NeighborDataset`: the same `Collate`, order, epochs, ranks and workers. The
    batches follow the contract of PyG's ``LinkNeighborLoader``: the seed nodes are both ends of the
    seed edges and of their negatives, each once, ascending, at the start of ``n_id``; with
    ``disjoint=True`` or times, each end is a seed with a tree of its own, sources first, and
    ``batch`` has the seed edge that it belongs to. Seed edges stay in the graph that is sampled,
    unless `exclude_seed_edges` leaves them out.

    A negative is a pair of different nodes that is not an edge in the direction of the edge list,
    whichever neighbours are stored, drawn uniformly. A seed edge that the graph does not have, such
    as one held out for validation, may be drawn as a negative; "triplet" excludes only each
    source's own seed edge. Where nodes have the times by which neighbours are sampled, those that
    are later than the seed edge are no negatives of it.

    Parameters
    ----------
    dataset : Dataset
        From `graphzero.open`.
    edge_label_index : (2, num_edges) integers, str, or pair
        Seed edges: sources, destinations, which need not be edges of the graph; or the name of an
        edge split; None for all edges of the graph. In a typed graph, a pair of an edge type and
        these, or the edge type alone for all of its edges.
    fanouts : sequence of int, or mapping
        Neighbours per node in each hop; -1 for all. In a typed graph also by edge type.
    edge_label : (num_edges, ...) numbers, optional
        Labels of the seed edges. With "binary", the label 0 stands for negatives: if the smallest
        label is 0, all are raised by 1; the default is 1.0. Without negatives there is no default,
        and labels are handed on as they are, NaN included.
    edge_label_time : (num_edges,) integers, optional
        A time for each seed edge: both of its ends, and those of its negatives, have a tree each,
        with edges up to that time.
    neg_sampling : {None, "binary", "triplet"}
        "binary": pairs of nodes, appended to the seed edges. "triplet": destinations for the
        sources of the seed edges.
    amount : int or float
        Negatives for each seed edge; for "binary" also a fraction, rounded up in each batch.
    src_weight, dst_weight : (num_nodes,) numbers, optional
        Draw the sources or destinations of negatives in proportion to these, as PyG's
        ``NegativeSampling`` does. Pairs that are edges are drawn again.
    exclude_seed_edges : bool or list of edge types
        Whether mini-batches lack all edges between the two ends of each of their seed edges, in
        both directions, so that a model cannot read from its input what it is to predict. They are
        sampled, and then left out. In a typed graph, True is for the type of the seed edges and its
        reverse, "rev_" and its name (or the same name); a list names other edge types as well.
    batch_size : int
        Seed edges in a batch, negatives not counted.
    shuffle : bool
        Permute the seed edges, anew for each epoch.
    drop_last : bool
        Drop the last batch if it is short.
    seed : int
        Order and draws are functions of (seed, epoch); negatives, of (seed, epoch, batch, position
        in the batch).
    prefetch : Prefetch, optional
        How pages are read ahead. Default: `Prefetch()`.
    gather : sequence of str, optional
        Names of the attributes that mini-batches have, as in `NeighborDataset`.
    feature_dtype : {None, "float32"}
        "float32" converts narrower (or wider) features on the way; None leaves them as stored.
    num_threads : int, optional
        Threads that sample in the background, each a whole batch. Default: one in a worker,
        otherwise all processors.
    distributed, rank, world_size, even : optional
        Which ranks share an epoch, and how evenly, as in `NeighborDataset`.
    **options
        How neighbours are drawn: the fields of `Sampling`.

    Raises
    ------
    IndexError
        If an end of a seed edge is out of range.
    TypeError
        If an argument is unknown; names what it is called here.
    ValueError
        If another argument is invalid; if labels or times are those of all edges, whose order in
        the edge list is not stored; or if there are no negatives: the source of a triplet has every
        node as neighbour, or every pair is an edge.
    """

    def __init__(
        self,
        dataset: Dataset,
        edge_label_index: Any,
        fanouts: Sequence[int] | Mapping[Any, Sequence[int]] = (15, 10, 5),
        *,
        edge_label: Any = None,
        edge_label_time: Any = None,
        neg_sampling: Mode = None,
        amount: float = 1,
        src_weight: Any = None,
        dst_weight: Any = None,
        exclude_seed_edges: bool | Sequence[Any] = False,
        **options: Unpack[DatasetOptions],
    ) -> None:
        check_keywords(type(self), options, DatasetOptions.__annotations__)
        times = edge_label_time
        require_edge_order(edge_label_index, dataset, edge_label=edge_label, edge_label_time=times)
        self.edge_type, self.edge_label_index = as_seed_edges(edge_label_index, dataset)
        num_edges = self.edge_label_index.shape[1]
        if neg_sampling not in (None, "binary", "triplet"):
            raise ValueError(
                f"neg_sampling must be None, 'binary' or 'triplet', not {neg_sampling!r}"
            )
        self.neg_sampling = neg_sampling
        self.amount = _as_amount(amount, self.neg_sampling)
        self.edge_label = _as_labels(edge_label, num_edges, self.neg_sampling)
        self._excluded = _excluded_types(dataset, self.edge_type, exclude_seed_edges)
        super().__init__(dataset, num_edges, fanouts, **options)
        if self.neg_sampling is not None:
            seeds = min(num_edges, self.batch_size)
            what = "negatives (use a smaller amount or batch_size)"
            # both ends, stored and the user's; an integer: a float may overflow
            _core.require_memory(seeds * int(self.amount) + seeds, 4 * 8, what)
        self._pairs = pairs_of(dataset, self.edge_type)
        self.take_times("edge_label_time", edge_label_time)
        if self.neg_sampling == "triplet":
            check_sources(self._pairs, self.edge_label_index)
        self._candidates = self._chosen(src_weight, dst_weight)
        if self.neg_sampling == "binary" and num_edges > 0 and self._candidates is None:
            self._offsets = pair_offsets(self._pairs)

    def _chosen(self, src_weight: Any, dst_weight: Any) -> tuple[Candidates, Candidates] | None:
        """How nodes are drawn for negatives; None if any pair that is not an edge may be drawn."""
        weights = {"src_weight": src_weight, "dst_weight": dst_weight}
        given = [name for name, values in weights.items() if values is not None]
        if given and self.neg_sampling is None:
            raise ValueError(f"{' and '.join(given)} draw negatives: give neg_sampling as well")
        if src_weight is not None and self.neg_sampling == "triplet":
            raise ValueError("triplets draw destinations only: leave src_weight out")
        ends = []
        for at, (name, values) in enumerate(weights.items()):
            count = (self._pairs.sources, self._pairs.destinations)[at].num_nodes
            drawn = None if values is None else WeightedDraws(values, count, name, "nodes")
            kind = self.edge_type[2 * at]
            times = () if self.input_time is None else node_times(self.dataset, kind)
            ends.append(Candidates(count, drawn, times))
        return None if all(end.is_plain for end in ends) else (ends[0], ends[1])

    def sample(
        self,
        positions: IdArray,
        *,
        epoch: int,
        batch: int,
        readahead: Sequence[HopReadAhead] | None = None,
    ) -> SampledBatch:
        """The neighbourhoods of the seed edges at some positions, and of their negatives."""
        ends = self._ends(positions, negatives_key(self.sampler.seed, epoch, batch))
        times = None if self.input_time is None else self.input_time[positions]
        subgraph, sources, destinations = _sample_ends(
            self.sampler, self.edge_type, ends, times, epoch=epoch, batch=batch, readahead=readahead
        )
        count, kind = positions.shape[0], self.edge_type
        if self._excluded:
            seed_edges = np.stack([ends.sources[:count], ends.destinations[:count]])
            subgraph = self._without(subgraph, seed_edges)
        fields: dict[RowKey, npt.NDArray[Any]] = {}
        if self.neg_sampling == "triplet":
            source, _, target = kind
            negatives = destinations[count:]
            wide = negatives.shape[0] > count
            fields[source, "src_index"] = sources
            fields[target, "dst_pos_index"] = destinations[:count]
            fields[target, "dst_neg_index"] = negatives.reshape(count, -1) if wide else negatives
            if times is not None:
                fields[source, "seed_time"] = fields[target, "seed_time"] = times
        else:
            fields[kind, "edge_label_index"] = np.stack([sources, destinations])
            if self.edge_label is not None:
                labels = self.edge_label[positions]
                none = np.zeros((sources.shape[0] - count, *labels.shape[1:]), labels.dtype)
                fields[kind, "edge_label"] = np.concatenate([labels, none])
            if times is not None:
                fields[kind, "edge_label_time"] = times[ends.of_sources]
        return SampledBatch(subgraph, positions, fields=fields, input_type=kind)

    def _without(self, subgraph: TypedSubgraph, seed_edges: IdArray) -> TypedSubgraph:
        """A subgraph without the edges, of some types, between both ends of some seed edges."""
        found: dict[str, Any] = {
            name: dict(getattr(subgraph, name))
            for name in ("edge_index", "positions", "e_id", "num_sampled_edges")
            if getattr(subgraph, name) is not None
        }
        for kind in self._excluded:
            keep = ~self._are_between(subgraph, kind, seed_edges)
            for name in ("edge_index", "positions", "e_id"):
                if found[name][kind] is not None:
                    found[name][kind] = found[name][kind].compress(keep, axis=-1)
            if "num_sampled_edges" in found:
                ends = np.cumsum(found["num_sampled_edges"][kind])
                kept = np.append(0, np.cumsum(keep))[ends]
                found["num_sampled_edges"][kind] = np.diff(kept, prepend=0).tolist()
        return replace(subgraph, **found)

    def _are_between(
        self, subgraph: TypedSubgraph, kind: EdgeType, seed_edges: IdArray
    ) -> npt.NDArray[np.bool_]:
        """Which edges of a type have the two ends of a seed edge, in either direction."""
        own = self.edge_type
        # without types, row 0 may have the targets: then both directions are unwanted
        kinds, ends = (kind[0], kind[2]), subgraph.edge_index[kind]
        found = np.ones(ends.shape[1], bool)
        if subgraph.batch is None:  # a node is there once, and the ends of seed edges are seeds
            num_seeds = [subgraph.num_sampled_nodes[each][0] for each in kinds]
            found = (ends[0] < num_seeds[0]) & (ends[1] < num_seeds[1])
        pairs = [subgraph.n_id[each][row[found]] for each, row in zip(kinds, ends, strict=True)]
        unwanted = [seed_edges] if kinds == (own[0], own[2]) else []
        unwanted += [seed_edges[::-1]] if kinds == (own[2], own[0]) else []
        count = self.dataset.nodes[kind[2]].num_nodes
        keys, others = (
            source.astype(np.uint64) * np.uint64(count) + target.astype(np.uint64)
            for source, target in (pairs, np.concatenate(unwanted, axis=1))
        )
        found[found] = np.isin(keys, others)
        return found

    def _ends(self, positions: IdArray, key: int) -> _Ends:
        """Both ends of the seed edges at some positions, and of their negatives."""
        edges = self.edge_label_index.take(positions, axis=1)
        (sources, destinations), links = edges, np.arange(positions.shape[0])
        count, times = positions.shape[0], self.input_time
        if self.neg_sampling == "triplet":
            amount = int(self.amount)
            of_negatives = np.repeat(links, amount)
            if self._candidates is None:
                drawn = draw_destinations(self._pairs, edges, amount, key)
            else:
                at = None if times is None else times[positions[of_negatives]]
                seed_edges = edges[:, of_negatives]
                drawn = choose_negatives(
                    self._pairs, self._candidates, len(of_negatives), at, key, seed_edges=seed_edges
                )[1]
            destinations = np.concatenate([destinations, drawn])
            return _Ends(sources, destinations, links, np.append(links, of_negatives))
        if self.neg_sampling == "binary" and count:
            amount = math.ceil(count * self.amount)
            links = np.resize(links, count + amount)
            if self._candidates is None:
                drawn = draw_pairs(self._pairs, amount, self._offsets, key)
            else:
                at = None if times is None else times[positions[links[count:]]]
                drawn = choose_negatives(self._pairs, self._candidates, amount, at, key)
            sources, destinations = np.hstack([edges, drawn])
        return _Ends(sources, destinations, links, links)

    def seed_options(self) -> dict[str, Any]:
        """Checksum of the seed edges, and how negatives are drawn."""
        times = {} if self.input_time is None else {"times_crc": zlib.crc32(self.input_time.data)}
        typed = {"input_type": list(self.edge_type)} if self.dataset.is_typed else {}
        ends = zip(("src", "dst"), self._candidates or (), strict=False)
        weighted = {
            f"{name}_weight_crc": end.weights.crc for name, end in ends if end.weights is not None
        }
        excluded = {"excluded": [list(kind) for kind in self._excluded]} if self._excluded else {}
        return {
            "seeds_crc": zlib.crc32(self.edge_label_index.data),
            **excluded,
            **times,
            **typed,
            "neg_sampling": self.neg_sampling,
            "amount": self.amount,
            **weighted,
        }


# --- seed edges as seeds of a sampler


@dataclass(frozen=True)
class _Ends:
    """Both ends of the seed edges of a mini-batch, and of their negatives.

    Attributes
    ----------
    sources, destinations : (n,) and (m,) int64
        The user's ids: seed edges first.
    of_sources, of_destinations : (n,) and (m,) int64
        The seed edge, 0 to batch_size - 1, that each of them belongs to.
    """

    sources: IdArray
    destinations: IdArray
    of_sources: IdArray
    of_destinations: IdArray


def _sample_ends(
    sampler: NeighborSampler, edge_type: EdgeType, ends: _Ends, times: IdArray | None, **how: Any
) -> tuple[TypedSubgraph, IdArray, IdArray]:
    """The neighbourhood of both ends.

    With disjoint trees, which times imply, each end has one; else each node is a seed once.

    Returns
    -------
    TypedSubgraph
        Its `batch`, with disjoint trees, has the seed edge to whose trees a node belongs.
    (n,) int64, (m,) int64
        Local ids of the sources and the destinations.
    """
    source, _, target = edge_type
    nodes, links = {source: ends.sources}, {source: ends.of_sources}
    if source == target:
        nodes[source] = np.append(ends.sources, ends.destinations)
        links[source] = np.append(ends.of_sources, ends.of_destinations)
    else:
        nodes[target], links[target] = ends.destinations, ends.of_destinations
    local = {kind: np.arange(len(each)) for kind, each in nodes.items()}
    is_disjoint = times is not None or sampler.sampling.disjoint
    if not is_disjoint:
        for kind, each in nodes.items():
            nodes[kind], local[kind] = np.unique(each, return_inverse=True)
    seed_time = None if times is None else {kind: times[each] for kind, each in links.items()}
    found = sampler.sample_types(nodes, seed_time=seed_time, **how)
    if is_disjoint:
        assert found.batch is not None
        # trees are numbered over the node types in their order
        of_tree = np.concatenate([links[kind] for kind in found.batch if kind in links])
        batch = {kind: of_tree[trees] for kind, trees in found.batch.items()}
        found = replace(found, batch=batch)
    first = len(local[target]) - len(ends.destinations)
    return found, local[source][: len(ends.sources)], local[target][first:]
