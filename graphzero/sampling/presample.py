"""`Presample`: samples a few epochs, and counts how often each node is in a mini-batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.graph import EdgeTypeGraph, Graph
from graphzero.graph.nodes_and_edges import EdgeStore, NodeStore
from graphzero.graph.user_input import (
    Fanouts,
    IdArray,
    as_fanouts,
    as_seed,
    as_threads,
    as_typed_fanouts,
)
from graphzero.sampling.order import batch_positions, epoch_order, num_batches
from graphzero.sampling.sampler import NeighborSampler
from graphzero.store.manifest import EDGES, EdgeType, Presampling
from graphzero.units import as_count

Visits = npt.NDArray[np.uint32]
ToStored = Callable[[str, IdArray], IdArray]


@dataclass(frozen=True)
class Presample:
    """How mini-batches are sampled to count the visits of each node.

    The counts are right for training with the same options: give the fanouts and the batch size
    that you will train with.

    Attributes
    ----------
    fanouts : tuple of int, or dict
        Neighbours per node in each hop; -1 for all. Of a typed graph also by edge type, as
        `NeighborLoader` takes them.
    batch_size : int
        Seeds in a mini-batch.
    epochs : int
    min_batches : int
        If the epochs have fewer mini-batches, more epochs are sampled: a few mini-batches say
        little.
    max_batches : int
        The most mini-batches to sample. If there are more seeds than these need, evenly spaced
        ones are used. Node types with seeds divide the mini-batches in proportion to what their
        epochs have; each has at least one.
    seed : int
        Of the random draws. The same seed, and the same dataset in the same order, give the same
        counts.

    Raises
    ------
    ValueError
        If a number is not positive, or a fanout neither positive nor -1.
    """

    fanouts: Fanouts = (15, 10, 5)
    batch_size: int = 1024
    epochs: int = 2
    min_batches: int = 64
    max_batches: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.fanouts, Mapping):
            object.__setattr__(self, "fanouts", dict(self.fanouts))
        else:
            object.__setattr__(self, "fanouts", tuple(as_fanouts(self.fanouts)))
        for name in ("batch_size", "epochs", "min_batches", "max_batches"):
            object.__setattr__(self, name, as_count(getattr(self, name), name))
        as_seed(self.seed)

    def check_types(self, edge_types: Sequence[EdgeType] | None) -> None:
        """Raises an error if the fanouts do not fit the edge types, None for a graph without types.

        Raises
        ------
        ValueError
            If they are by edge type, and there are none; if they do not fit those that there are.
        """
        if edge_types is not None:
            as_typed_fanouts(self.fanouts, edge_types)
        elif isinstance(self.fanouts, Mapping):
            raise ValueError(
                "Presample(fanouts=) by edge type is for typed graphs: give one fanout for each "
                "hop, such as (15, 10)"
            )

    def num_batches(self, num_seeds: Mapping[str, int]) -> dict[str, int]:
        """How many mini-batches are sampled around the seeds of each node type."""
        wanted = {
            name: self.epochs * self._per_epoch(count) for name, count in num_seeds.items() if count
        }
        total = sum(wanted.values())
        target = min(max(total, self.min_batches), self.max_batches)
        return {name: max(1, round(target * count / total)) for name, count in wanted.items()}

    def _per_epoch(self, num_seeds: int) -> int:
        # A short last batch would count as much as a full one, and tell less.
        return num_batches(num_seeds, self.batch_size, drop_last=num_seeds >= self.batch_size)

    def count_visits(
        self,
        graphs: Mapping[EdgeType, str | os.PathLike[str]],
        to_stored: ToStored | None,
        seeds: Mapping[str, IdArray | None],
        visits: Mapping[str, Visits],
        advance: Callable[[int], object] = lambda _: None,
    ) -> Presampling:
        """Adds to the count of each node the number of mini-batches that it is in.

        Each mini-batch has seeds of one node type.

        Parameters
        ----------
        graphs : mapping of (str, str, str) to path-like
            The ``.gl`` file of each edge type.
        to_stored : callable or None
            Stored ids of the user's ids of a node type, ``to_stored(node_type, ids)``; None for a
            graph without types, whose file has them.
        seeds : mapping of str to (n,) int64 or None
            The user's ids by node type; None for all nodes of the type.
        visits : mapping of str to (num_nodes,) uint32
            Counts of every node type in stored order, which are added to; a repeated seed counts
            once.
        advance : callable
            Called with 1 after each mini-batch.

        Returns
        -------
        Presampling
            How visits were counted, as ``dataset.json`` records it.
        """
        with ExitStack() as stack:
            open_graph = Graph if EDGES in graphs else EdgeTypeGraph
            opened = {t: stack.enter_context(open_graph(graphs[t])) for t in graphs}
            dataset = _dataset_of(opened, {name: len(counts) for name, counts in visits.items()})
            sampler = NeighborSampler(dataset, self.fanouts, seed=self.seed, num_threads=1)
            num_seeds = {
                name: len(visits[name]) if ids is None else len(ids) for name, ids in seeds.items()
            }
            counts = self.num_batches(num_seeds)

            group_sampler = sampler.group_sampler(timed=False)
            team = _core.Team(as_threads(None))
            batches = self._batches_of_types(seeds, num_seeds, counts)
            while group := list(islice(batches, team.num_threads)):
                group_seeds = []
                for name, (epoch, batch, chosen) in group:
                    translate = dataset.nodes[name].to_stored
                    stored = translate(chosen) if to_stored is None else to_stored(name, chosen)
                    group_seeds.append(
                        sampler.seeds_of({name: stored}, seed_time=None, epoch=epoch, batch=batch)
                    )
                for sampled in group_sampler.sample(group_seeds, team, _core.Stop()):
                    subgraph = sampler.as_subgraph(sampled, self.batch_size)
                    for name, ids in subgraph.stored_id.items():
                        visits[name][ids] += 1
                    advance(1)
        return Presampling(
            batches=sum(counts.values()),
            batch_size=self.batch_size,
            fanouts=self._recorded_fanouts(sampler),
            num_seeds=sum(num_seeds.values()),
            seed=self.seed,
        )

    def _recorded_fanouts(
        self, sampler: NeighborSampler
    ) -> tuple[int, ...] | dict[str, tuple[int, ...]]:
        """The fanouts as ``dataset.json`` has them: by edge type if they are given so."""
        fanouts = sampler.fanout_options
        if isinstance(fanouts, dict) and isinstance(self.fanouts, Mapping):
            return {name: tuple(hops) for name, hops in fanouts.items()}
        return tuple(as_fanouts(self.fanouts))

    def _batches_of_types(
        self,
        seeds: Mapping[str, IdArray | None],
        num_seeds: Mapping[str, int],
        counts: Mapping[str, int],
    ) -> Iterator[tuple[str, tuple[int, int, IdArray]]]:
        """Node type, epoch, batch and seeds of each mini-batch; no two have the same draws."""
        per_epoch = {name: self._per_epoch(num_seeds[name]) for name in counts}
        is_cut = sum(counts.values()) < self.epochs * sum(per_epoch.values())
        first = 0
        for name, count in counts.items():
            most = count if is_cut else self.max_batches
            for epoch, batch, chosen in self._batches(seeds[name], num_seeds[name], count, most):
                yield name, (epoch, first + batch, chosen)
            first += per_epoch[name]

    def _batches(
        self, seeds: IdArray | None, num_seeds: int, count: int, most: int
    ) -> Iterator[tuple[int, int, IdArray]]:
        """Epoch, batch and seeds of each of `count` mini-batches; `most` limits the seeds used."""
        # Evenly spaced: to shuffle all of very many seeds would take memory for all of them.
        used = min(num_seeds, most * self.batch_size)
        per_epoch = self._per_epoch(used)
        for i in range(count):
            epoch, batch = divmod(i, per_epoch)
            if batch == 0:
                order = epoch_order(used, True, as_seed(self.seed), epoch)
            positions = batch_positions(order, batch, self.batch_size) * num_seeds // used
            chosen = positions if seeds is None else seeds[positions]
            yield epoch, batch, np.asarray(chosen, dtype=np.int64)


def _dataset_of(graphs: Mapping[EdgeType, Graph], num_nodes: Mapping[str, int]) -> Dataset:
    """Neighbour lists with what a sampler needs of the nodes; nobody reads the user's ids."""
    if EDGES in graphs:
        return Dataset(graphs[EDGES])
    nodes = {name: NodeStore(name, count, {}) for name, count in num_nodes.items()}
    edges = [EdgeStore(t, graph, (nodes[t[0]], nodes[t[2]]), {}) for t, graph in graphs.items()]
    return Dataset.of_types(nodes.values(), edges)
