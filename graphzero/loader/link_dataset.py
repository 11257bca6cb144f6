"""`LinkNeighborDataset`: mini-batches around edges, with negatives, for link prediction."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from typing_extensions import Unpack

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.nodes_and_edges import NodeStore
from graphzero.graph.user_input import Fanouts, IdArray, Values, as_array
from graphzero.io.row_io import RowKey
from graphzero.loader.arguments import Batching, DatasetOptions, check_keywords
from graphzero.loader.mini_batch import SampledBatch
from graphzero.loader.seed_batches import BatchRequest, BatchSeeds
from graphzero.loader.seed_dataset import SeedDataset
from graphzero.loader.seeds import as_seed_edges, node_times
from graphzero.sampling.negatives import (
    Candidates,
    NegativeOptions,
    WeightedDraws,
    check_sources,
    choose_negatives,
    draw_destinations,
    draw_pairs,
    negatives_key,
    pair_offsets,
)
from graphzero.sampling.sampler import TypedSubgraph
from graphzero.store.manifest import EdgeType, reverse_types


def _as_labels(edge_label: object, num_edges: int, mode: str | None) -> Values | None:
    """Labels of the seed edges, all above 0 where negatives get the label 0."""
    if edge_label is None:
        return np.ones(num_edges, dtype=np.float32) if mode == "binary" else None
    if mode == "triplet":
        raise ValueError("triplets have no labels: leave edge_label out, or use 'binary'")
    labels: npt.NDArray[Any] = as_array(edge_label).copy()  # the caller may change theirs
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


def _excluded_types(
    dataset: Dataset, seed_type: EdgeType, excluded: bool | Sequence[object]
) -> list[EdgeType]:
    """The types of the edges that mini-batches lack between both ends of a seed edge."""
    if not isinstance(excluded, (bool, list)):
        raise ValueError(
            f"exclude_seed_edges must be True, False or a list of edge types, not {excluded!r}"
        )
    if isinstance(excluded, bool):
        reverse = reverse_types(seed_type, dataset.edges)
        return list(dict.fromkeys([seed_type, *reverse])) if excluded else []
    edge_types = [dataset.edge_type_of(name) for name in excluded]
    for edge_type in edge_types:
        if {edge_type[0], edge_type[2]} != {seed_type[0], seed_type[2]}:
            raise ValueError(
                f"exclude_seed_edges names {edge_type}, whose edges are not between the nodes of "
                f"seed edges of the type {seed_type}"
            )
    return list(dict.fromkeys([seed_type, *edge_types]))


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
    pad : "auto", mapping, or sequence of mappings, optional
        Fills mini-batches up to sizes that do not change, as in `NeighborDataset`; the last keeps
        its number of seed edges. `exclude_seed_edges` excludes it.
    num_threads : int, optional
        Threads that sample in the background, each a whole batch. Default: one in a worker,
        otherwise all processors.
    distributed, rank, world_size, even : optional
        Which ranks share an epoch, and how evenly, as in `NeighborDataset`.
    batching : Batching, optional
        From a ready-made loader: all options from `batch_size` on, which it has checked.
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
        edge_label_index: object,
        fanouts: Fanouts = (15, 10, 5),
        *,
        edge_label: object = None,
        edge_label_time: object = None,
        neg_sampling: Literal["binary", "triplet"] | NegativeOptions | None = None,
        amount: float = 1,
        src_weight: object = None,
        dst_weight: object = None,
        exclude_seed_edges: bool | Sequence[object] = False,
        batching: Batching | None = None,
        **options: Unpack[DatasetOptions],
    ) -> None:
        check_keywords(type(self), options, DatasetOptions.__annotations__)
        seeds = as_seed_edges(edge_label_index, dataset)
        seeds.require_order("edge_label", edge_label)
        seeds.require_order("edge_label_time", edge_label_time)
        self.edge_type, self.edge_label_index = seeds.edge_type, seeds.edge_index
        self.input_type = self.edge_type
        num_edges = self.edge_label_index.shape[1]
        if not isinstance(neg_sampling, NegativeOptions):
            neg_sampling = NegativeOptions(neg_sampling, amount, src_weight, dst_weight)
        self.negatives = neg_sampling
        self.edge_label = _as_labels(edge_label, num_edges, self.negatives.mode)
        self._excluded = _excluded_types(dataset, self.edge_type, exclude_seed_edges)
        batching = batching or Batching.of(options)
        if self._excluded and batching.pad is not None:
            raise ValueError(
                "pad excludes exclude_seed_edges: edges are left out after hops were filled up. "
                "Leave one of the two out"
            )
        super().__init__(dataset, num_edges, fanouts, batching)
        if self.negatives.mode is not None:
            num_seeds = min(num_edges, self.batch_size)
            what = "negatives (use a smaller amount or batch_size)"
            # both ends, stored and the user's; an integer: a float may overflow
            num_ends = num_seeds * int(self.negatives.amount) + num_seeds
            _core.require_memory(num_ends, 4 * 8, what)
        self._edges = dataset.edges[self.edge_type]
        self.take_times("edge_label_time", edge_label_time)
        if self.negatives.mode == "triplet":
            check_sources(self._edges, self.edge_label_index)
        ends = (
            self._candidates(self._edges.source, "src_weight", self.negatives.src_weight),
            self._candidates(self._edges.target, "dst_weight", self.negatives.dst_weight),
        )
        # None if any pair that is not an edge may be drawn
        self._ends = None if all(end.is_plain for end in ends) else ends
        if self.negatives.mode == "binary" and num_edges > 0 and self._ends is None:
            self._offsets = pair_offsets(self._edges)

    def _candidates(self, nodes: NodeStore, name: str, weights: object) -> Candidates:
        """How nodes are drawn for one end of negatives."""
        count = nodes.num_nodes
        drawn = None if weights is None else WeightedDraws(weights, count, name, "nodes")
        times = () if self.input_time is None else node_times(self.dataset, nodes.node_type)
        return Candidates(count, drawn, times)

    def seeds_of(self, request: BatchRequest) -> BatchSeeds:
        """The ends of the seed edges at some positions, and of their negatives.

        With disjoint trees, which times imply, each end has one, and `batch` of the neighbourhood
        has the seed edge to whose trees a node belongs; else each node is a seed once.
        """
        positions = request.positions
        key = negatives_key(self.sampler.seed, request.epoch, request.batch)
        ends = self._ends_at(positions, key)
        source, _, target = self.edge_type
        nodes, links = {source: ends.sources}, {source: ends.of_sources}
        if source == target:
            nodes[source] = np.append(ends.sources, ends.destinations)
            links[source] = np.append(ends.of_sources, ends.of_destinations)
        else:
            nodes[target], links[target] = ends.destinations, ends.of_destinations
        local = {node_type: np.arange(len(ids)) for node_type, ids in nodes.items()}
        times, seed_times, trees = self._times_at(positions), None, None
        if times is not None:
            seed_times = {node_type: times[edges] for node_type, edges in links.items()}
        if times is not None or self.sampler.sampling.disjoint:
            # trees are numbered over the node types in their order
            trees = np.concatenate([links[name] for name in self.dataset.nodes if name in links])
        else:
            for node_type, ids in nodes.items():
                nodes[node_type], local[node_type] = np.unique(ids, return_inverse=True)
        first = len(local[target]) - len(ends.destinations)
        sources, destinations = local[source][: len(ends.sources)], local[target][first:]
        return BatchSeeds(
            input_id=positions,
            nodes=self.sampler.stored_ids(nodes),
            times=seed_times,
            trees=trees,
            fields=self._fields(positions, ends.of_sources, sources, destinations),
        )

    def batch_of(self, seeds: BatchSeeds, subgraph: TypedSubgraph) -> SampledBatch:
        """The neighbourhoods of the seed edges and of their negatives."""
        if self._excluded:
            seed_edges = self.edge_label_index.take(seeds.input_id, axis=1)
            subgraph = self._without(subgraph, seed_edges)
        return super().batch_of(seeds, subgraph)

    def _fields(
        self, positions: IdArray, of_sources: IdArray, sources: IdArray, destinations: IdArray
    ) -> dict[RowKey, Values]:
        """About the seed edges at some positions, of whose ends these are the local ids."""
        fields: dict[RowKey, Values] = {}
        times, count, kind = self._times_at(positions), len(positions), self.edge_type
        if self.negatives.mode == "triplet":
            source, _, target = kind
            negatives = destinations[count:]
            wide = negatives.shape[0] > count
            fields[source, "src_index"] = sources
            fields[target, "dst_pos_index"] = destinations[:count]
            fields[target, "dst_neg_index"] = negatives.reshape(count, -1) if wide else negatives
            if times is not None:
                fields[source, "seed_time"] = fields[target, "seed_time"] = times
            return fields
        fields[kind, "edge_label_index"] = np.stack([sources, destinations])
        if self.edge_label is not None:
            labels = self.edge_label[positions]
            none = np.zeros((sources.shape[0] - count, *labels.shape[1:]), labels.dtype)
            fields[kind, "edge_label"] = np.concatenate([labels, none])
        if times is not None:
            fields[kind, "edge_label_time"] = times[of_sources]
        return fields

    def _without(self, subgraph: TypedSubgraph, seed_edges: IdArray) -> TypedSubgraph:
        """A subgraph without the edges, of some types, between both ends of some seed edges."""
        edge_index, positions = {**subgraph.edge_index}, {**subgraph.positions}
        e_id, counts = {**subgraph.e_id}, subgraph.num_sampled_edges
        for edge_type in self._excluded:
            keep = ~self._are_between(subgraph, edge_type, seed_edges)
            edge_index[edge_type] = edge_index[edge_type].compress(keep, axis=1)
            positions[edge_type] = positions[edge_type].compress(keep)
            ids = e_id[edge_type]
            e_id[edge_type] = None if ids is None else ids.compress(keep)
            if counts is not None:
                kept = np.append(0, np.cumsum(keep))[np.cumsum(counts[edge_type])]
                counts = {**counts, edge_type: np.diff(kept, prepend=0).tolist()}
        return replace(
            subgraph,
            edge_index=edge_index,
            positions=positions,
            e_id=e_id,
            num_sampled_edges=counts,
        )

    def _are_between(
        self, subgraph: TypedSubgraph, kind: EdgeType, seed_edges: IdArray
    ) -> npt.NDArray[np.bool_]:
        """Which edges of a type have the two ends of a seed edge, in either direction."""
        seed_types = (self.edge_type[0], self.edge_type[2])
        # without types, row 0 may have the targets: then both directions are unwanted
        types, ends = (kind[0], kind[2]), subgraph.edge_index[kind]
        are_between = np.ones(ends.shape[1], bool)
        if subgraph.batch is None:  # a node is in it once, and the ends of seed edges are seeds
            num_seeds = [subgraph.num_sampled_nodes[node_type][0] for node_type in types]
            are_between = (ends[0] < num_seeds[0]) & (ends[1] < num_seeds[1])
        unwanted = [seed_edges] if types == seed_types else []
        unwanted += [seed_edges[::-1]] if types == seed_types[::-1] else []
        count = np.uint64(self.dataset.nodes[kind[2]].num_nodes)
        pairs = [
            subgraph.n_id[node_type][row[are_between]]
            for node_type, row in zip(types, ends, strict=True)
        ]
        keys, unwanted_keys = (
            source.astype(np.uint64) * count + target.astype(np.uint64)
            for source, target in (pairs, np.concatenate(unwanted, axis=1))
        )
        are_between[are_between] = np.isin(keys, unwanted_keys)
        return are_between

    def _ends_at(self, positions: IdArray, key: int) -> _Ends:
        """Both ends of the seed edges at some positions, and of their negatives."""
        seed_edges = self.edge_label_index.take(positions, axis=1)
        (sources, destinations), count = seed_edges, positions.shape[0]
        links = np.arange(count)
        if self.negatives.mode == "triplet":
            amount = int(self.negatives.amount)
            of_negatives = np.repeat(links, amount)
            if self._ends is None:
                drawn = draw_destinations(self._edges, seed_edges, amount, key)
            else:
                times = self._times_at(positions[of_negatives])
                repeated = seed_edges[:, of_negatives]
                drawn = choose_negatives(
                    self._edges, self._ends, len(of_negatives), times, key, seed_edges=repeated
                )[1]
            destinations = np.concatenate([destinations, drawn])
            return _Ends(sources, destinations, links, np.append(links, of_negatives))
        if self.negatives.mode == "binary" and count:
            amount = math.ceil(count * self.negatives.amount)
            links = np.resize(links, count + amount)
            if self._ends is None:
                drawn = draw_pairs(self._edges, amount, self._offsets, key)
            else:
                times = self._times_at(positions[links[count:]])
                drawn = choose_negatives(self._edges, self._ends, amount, times, key)
            sources, destinations = np.hstack([seed_edges, drawn])
        return _Ends(sources, destinations, links, links)

    def _times_at(self, positions: IdArray) -> IdArray | None:
        return None if self.input_time is None else self.input_time[positions]

    def seed_options(self) -> dict[str, object]:
        """Checksum of the seed edges, and how negatives are drawn."""
        options: dict[str, object] = {"seeds_crc": zlib.crc32(self.edge_label_index.data)}
        if self._excluded:
            options["excluded"] = [list(edge_type) for edge_type in self._excluded]
        if self.input_time is not None:
            options["times_crc"] = zlib.crc32(self.input_time.data)
        if self.dataset.is_typed:
            options["input_type"] = list(self.edge_type)
        options |= {"neg_sampling": self.negatives.mode, "amount": self.negatives.amount}
        for name, end in zip(("src", "dst"), self._ends or (), strict=False):
            if end.weights is not None:
                options[f"{name}_weight_crc"] = end.weights.crc
        return options


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
