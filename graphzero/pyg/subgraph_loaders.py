"""PyG's loaders of subgraphs: clusters, random nodes, GraphSAINT and ShaDow."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch_geometric.data import Batch, Data
from tqdm.auto import tqdm
from typing_extensions import Unpack

from graphzero import _core
from graphzero.graph.dataset import Dataset
from graphzero.graph.graph import Graph
from graphzero.graph.user_input import IdArray, Values, as_array, as_ids
from graphzero.loader.arguments import Batching, SeedLoaderOptions
from graphzero.loader.mini_batch import AnyBatch, SampledBatch
from graphzero.loader.ranks import Ranks
from graphzero.loader.seed_batches import BatchSeeds
from graphzero.loader.seeds import as_dataset
from graphzero.loader.subgraph_loader import SingleNodes, SubgraphDataset, SubgraphLoader
from graphzero.pyg.loaders import NeighborLoader, _PyGLoader
from graphzero.sampling.sampler import TypedSubgraph
from graphzero.sampling.walks import walked_graph
from graphzero.store.free_memory import available_memory
from graphzero.store.manifest import EDGES, NODES
from graphzero.store.outputs import replaced_file
from graphzero.units import as_count, format_bytes

# Makes stored ids of random words, of which it needs so many.
_Draws = tuple[Callable[[npt.NDArray[np.uint64]], IdArray], int]
_CHUNK = 1 << 20  # edges
_METIS_BYTES = 400  # for each edge, measured on a random graph
_MOST_EDGE_NORM, _NEVER_SAMPLED = 1e4, 0.1  # as PyG bounds them


class _PyGSubgraphs(_PyGLoader, SubgraphLoader):
    """Batches are ``Data``, with what `from_data` has stored of the graph."""

    @staticmethod
    def _make_output(batch: AnyBatch, dataset: Dataset, whole: bool) -> object:
        output = _PyGLoader._make_output(batch, dataset, whole)
        for name in ("batch_size", "input_id", "num_sampled_nodes"):  # which PyG's have not
            del output[name]
        return output


def _remembered(
    save_dir: str | None,
    name: str,
    data: Dataset,
    options: Sequence[object],
    make: Callable[[], dict[str, Tensor]],
) -> dict[str, Tensor]:
    """What `make` returns, from a file of an earlier run where there is one of this graph."""
    if save_dir is None:
        return make()
    path, sections = Path(save_dir) / name, {*data.graph.section_bytes} - {"node_rank"}
    made_of = [data.graph.fingerprint(sections), *options]
    if not path.exists():
        with replaced_file(path) as file:  # other ranks may be about to read it
            torch.save({"made_of": made_of, **make()}, file)
    content = torch.load(path, weights_only=True)
    if not isinstance(content, dict) or content.get("made_of") != made_of:
        raise ValueError(
            f"{path} is of another graph or of other options: remove it, or choose another file"
        )
    return content


def _require_memory(num_bytes: int, what: str, instead: str) -> None:
    if num_bytes > (available := available_memory()):
        raise MemoryError(
            f"{what} takes about {format_bytes(num_bytes)} of memory, and "
            f"{format_bytes(available)} are available: {instead}"
        )


# --- clusters


class ClusterData:
    """The nodes of a dataset in clusters, for `ClusterLoader` (Chiang et al., "Cluster-GCN",
    KDD 2019).

    METIS makes them, in memory, by pymetis: it takes about 400 bytes for each edge.

    Parameters
    ----------
    data : Dataset
        From `graphzero.open` or `from_data`, without types.
    num_parts : int or (num_nodes,) integers
        How many clusters METIS makes; or the cluster of each node, counted from 0.
    recursive : bool
        Of METIS.
    save_dir, filename : str, optional
        Folder in which the clusters of METIS are kept for later runs, and their file there.
    log, sparse_format
        Without effect.
    keep_inter_cluster_edges : bool
        True is refused.

    Raises
    ------
    ImportError, MemoryError
        If METIS is needed, and pymetis is not installed, or memory is short.
    """

    def __init__(
        self,
        data: Dataset,
        num_parts: object,
        recursive: bool = False,
        save_dir: str | None = None,
        filename: str | None = None,
        log: bool = True,
        keep_inter_cluster_edges: bool = False,
        sparse_format: str = "csr",
    ) -> None:
        as_dataset(data).require_untyped("clusters are made")
        if keep_inter_cluster_edges:
            raise TypeError(
                "clusters keep no edges to others: NeighborLoader has all of some nodes"
            )
        parts = as_array(num_parts)
        if parts.ndim == 0:
            count = as_count(num_parts, "num_parts", 1, data.num_nodes)
            name = filename or f"clusters_{num_parts}{'_recursive' if recursive else ''}.pt"
            make = partial(_clusters, data, count, bool(recursive))
            options = [count, bool(recursive)]
            cluster = _remembered(save_dir, name, data, options, make)["cluster"].numpy()
        else:
            cluster = as_ids(parts, data.num_nodes, "num_parts")
            if len(cluster) != data.num_nodes:
                raise ValueError(f"num_parts has {len(cluster):,} of {data.num_nodes:,} nodes")
        order, ends = np.argsort(cluster, kind="stable"), np.cumsum(np.bincount(cluster))
        self.data, self.parts = data, np.split(order, ends[:-1])
        self.num_parts = len(self.parts)

    def __len__(self) -> int:
        return self.num_parts

    def __getitem__(self, index: int) -> Data:
        """One cluster as a graph."""
        return next(iter(_PyGSubgraphs(self.data, [self.parts[index]])))


def _clusters(data: Dataset, num_parts: int, recursive: bool) -> dict[str, Tensor]:
    """The cluster of each node, by METIS."""
    instead = "use RandomNodeLoader, or give num_parts the cluster of each node, made elsewhere"
    try:
        metis: Any = importlib.import_module("pymetis")
    except ImportError:
        raise ImportError(f"METIS makes the clusters: pip install pymetis, {instead}") from None
    _require_memory(_METIS_BYTES * data.num_edges, "METIS", instead)
    source, target = data.edges[EDGES].all_edges()
    count, differ = data.num_nodes, source != target  # METIS needs both directions, no self-loops
    source, target = source[differ], target[differ]
    keys = np.unique(np.append(source * count + target, target * count + source))
    owners, neighbors = np.divmod(keys, count)
    lists = metis.CSRAdjacency(np.searchsorted(owners, np.arange(count + 1)), neighbors)
    return {"cluster": torch.tensor(metis.part_graph(num_parts, lists, recursive=recursive)[1])}


class ClusterLoader(_PyGSubgraphs):
    """PyG's ClusterLoader: a batch has `batch_size` clusters, and all edges among their nodes.

    Parameters
    ----------
    cluster_data : ClusterData
    **options
        As in `graphzero.SubgraphLoader`.
    """

    def __init__(self, cluster_data: ClusterData, **options: Unpack[SeedLoaderOptions]) -> None:
        if not isinstance(cluster_data, ClusterData):
            raise TypeError("ClusterLoader takes a graphzero.pyg.ClusterData(data, num_parts)")
        self.cluster_data = cluster_data
        super().__init__(cluster_data.data, cluster_data.parts, **options)


class RandomNodeLoader(_PyGSubgraphs):
    """PyG's RandomNodeLoader: each pass divides the nodes into `num_parts` parts, at random with
    ``shuffle=True``; a batch has a part and all edges in it.

    Parameters
    ----------
    data : Dataset
    num_parts : int
    **options
        As in `graphzero.SubgraphLoader`.
    """

    def __init__(self, data: Dataset, num_parts: int, **options: Unpack[SeedLoaderOptions]) -> None:
        as_dataset(data)
        if "batch_size" in options:
            raise TypeError("RandomNodeLoader has no batch_size: num_parts says how many parts")
        self.num_parts = as_count(num_parts, "num_parts")
        options["batch_size"] = math.ceil(data.num_nodes / self.num_parts)
        arguments = self._arguments_of(data, options)
        ds = arguments.dataset
        nodes = SingleNodes(ds, ds.num_nodes, Batching.of(arguments.values))
        self._begin(arguments, nodes)


# --- GraphSAINT


def _below(words: npt.NDArray[np.uint64], count: int | IdArray) -> IdArray:
    """Uniform integers in [0, count) of random words."""
    return ((words >> np.uint64(11)) * 2.0**-53 * count).astype(np.int64)


class _SaintSets(SubgraphDataset):
    """A set of nodes in every step, which is a function of the seed, the epoch and the step.

    Attributes
    ----------
    draw : callable
        Makes stored ids of random words.
    num_words : int
    norm : (nodes, edges) arrays, optional
        Of each node by the user's id, and of each edge by its place in the lists.
    """

    norm: tuple[Values, Values] | None = None

    def __init__(self, dataset: Dataset, num_steps: int, draws: _Draws, batching: Batching) -> None:
        super().__init__(dataset, num_steps, batching)
        self.draw, self.num_words = draws

    def sets_at(self, positions: IdArray, epoch: int) -> list[IdArray]:
        return [self._set_at(epoch, int(step)) for step in positions]

    def _set_at(self, epoch: int, step: int) -> IdArray:
        key = _core.key("shuffle", self.sampler.seed, epoch, step)
        words = _core.draws(_core.stream(key, 1), self.num_words)
        return self.dataset.nodes[NODES].to_user(np.unique(self.draw(words)))

    def seed_options(self) -> dict[str, object]:
        return {"num_words": self.num_words}

    def batch_of(self, seeds: BatchSeeds, subgraph: TypedSubgraph) -> SampledBatch:
        sampled = super().batch_of(seeds, subgraph)
        if self.norm is not None:
            sampled.fields["node_norm"] = self.norm[0][subgraph.n_id[NODES]]
            sampled.fields["edge_norm"] = self.norm[1][subgraph.positions[EDGES]]
        return sampled


class _CountedSets(_SaintSets):
    """Sets whose batches have the places of edges in the lists."""

    def batch_of(self, seeds: BatchSeeds, subgraph: TypedSubgraph) -> SampledBatch:
        sampled = super().batch_of(seeds, subgraph)
        sampled.fields["place"] = subgraph.positions[EDGES]
        return sampled


def _normalization(sets: _SaintSets, coverage: int, log: bool) -> dict[str, Tensor]:
    """How often each node and edge is sampled, as factors of their loss and message.

    Steps are drawn until there are `coverage` sampled nodes for each node of the graph.
    """
    data = sets.dataset
    need = 8 * data.num_nodes + 4 * data.num_edges
    _require_memory(need, "counting sampled nodes and edges", "leave out sample_coverage")
    nodes, edges = (np.zeros(count, np.float32) for count in (data.num_nodes, data.num_edges))
    wanted, taken, steps = data.num_nodes * coverage, 0, 0
    with tqdm(total=wanted, desc="GraphSAINT normalization", disable=not log) as bar:
        while taken < wanted:
            for sampled in sets:
                ids = sampled.by_type.n_id[NODES]
                nodes[ids] += 1
                edges[sampled.fields["place"]] += 1
                taken, steps = taken + len(ids), steps + 1
                bar.update(len(ids))
    for begin in range(0, data.num_edges, _CHUNK):
        part = edges[begin : begin + _CHUNK]
        source = _sources(data, np.arange(begin, begin + len(part)))
        with np.errstate(divide="ignore", invalid="ignore"):
            part[:] = np.clip(nodes[source] / part, 0, _MOST_EDGE_NORM)
    edges[np.isnan(edges)] = _NEVER_SAMPLED
    nodes[nodes == 0] = _NEVER_SAMPLED
    return {
        "node_norm": torch.from_numpy(steps / nodes / data.num_nodes),
        "edge_norm": torch.from_numpy(edges),
    }


def _sources(data: Dataset, places: IdArray) -> IdArray:
    """The user's ids of the sources of edges by their places in the lists."""
    graph = data.graph
    if graph.is_incoming or not graph.is_directed:
        stored = graph.indices[places].astype(np.int64)
    else:
        stored = np.searchsorted(graph.indptr, places, "right") - 1
    return data.nodes[NODES].to_user(stored)


class GraphSAINTSampler(_PyGSubgraphs):
    """What PyG's GraphSAINT loaders have in common (Zeng et al., "GraphSAINT", ICLR 2020).

    Every step draws nodes, and its batch has them and all edges among them. With `sample_coverage`
    batches have ``node_norm`` and ``edge_norm`` as PyG's: factors that make up for how often each
    node and edge is sampled, counted in other draws before the first pass. They take 8 bytes of
    memory for each node and edge.

    Parameters
    ----------
    data : Dataset
        From `graphzero.open` or `from_data`, without types.
    batch_size : int
        What a step draws: edges for their sources, edges for both ends, or starts of walks.
    num_steps : int
        Batches of a pass.
    sample_coverage : int
        Sampled nodes for each node of the graph in the counts; 0 for none.
    save_dir : str, optional
        Folder in which the counts are kept for later runs over this graph.
    log : bool
        Whether to show progress.
    **options
        As in `graphzero.SubgraphLoader`.

    Raises
    ------
    ValueError
        If the graph has no edges, or `save_dir` has the counts of another graph.
    """

    def __init__(
        self,
        data: Dataset,
        batch_size: int,
        num_steps: int = 1,
        sample_coverage: int = 0,
        save_dir: str | None = None,
        log: bool = True,
        **options: object,
    ) -> None:
        as_dataset(data).require_untyped("GraphSAINT samples")
        if data.num_edges == 0:
            raise ValueError("GraphSAINT samples by edges, and the graph has none")
        draws = self._draws(data, as_count(batch_size, "batch_size"))
        self.num_steps = as_count(num_steps, "num_steps")
        self.sample_coverage = as_count(sample_coverage, "sample_coverage", 0)
        arguments = self._arguments_of(data, options)
        ds, batching = arguments.dataset, Batching.of(arguments.values)
        sets = _SaintSets(ds, self.num_steps, draws, batching)
        if self.sample_coverage > 0:
            other_draws = replace(
                batching, gather=(), ranks=Ranks(distributed=False), seed=~batching.seed
            )
            counted = _CountedSets(ds, self.num_steps, draws, other_draws)
            name = (
                f"{type(self).__name__.lower()}_{draws[1]}_{getattr(self, 'walk_length', '')}"
                f"_{self.sample_coverage}.pt"
            )
            count = partial(_normalization, counted, self.sample_coverage, log)
            norms = _remembered(save_dir, name, ds, [], count)
            sets.norm = norms["node_norm"].numpy(), norms["edge_norm"].numpy()
        self._begin(arguments, sets)

    def _draws(self, data: Dataset, size: int) -> _Draws:
        """How random words become stored ids, and how many words a step needs."""
        raise NotImplementedError("use GraphSAINTNodeSampler, or another class derived from it")


class GraphSAINTNodeSampler(GraphSAINTSampler):
    """PyG's GraphSAINTNodeSampler: the sources of `batch_size` edges, drawn uniformly.

    Parameters are those of `GraphSAINTSampler`.
    """

    def _draws(self, data: Dataset, size: int) -> _Draws:
        return partial(_sources_of_draws, data), size


def _sources_of_draws(data: Dataset, words: npt.NDArray[np.uint64]) -> IdArray:
    return data.nodes[NODES].to_stored(_sources(data, _below(words, data.num_edges)))


class GraphSAINTEdgeSampler(GraphSAINTSampler):
    """PyG's GraphSAINTEdgeSampler: both ends of `batch_size` edges, drawn with replacement.

    An edge of the lists is drawn by 1 / degree of the node that has the list. Where both directions
    of every edge are in the graph, that is 1 / deg(u) + 1 / deg(v), as in the paper (section 3.4).
    Parameters are those of `GraphSAINTSampler`.
    """

    def _draws(self, data: Dataset, size: int) -> _Draws:
        return partial(_ends_of_draws, data, np.flatnonzero(np.diff(data.graph.indptr))), 2 * size


def _ends_of_draws(data: Dataset, owners: IdArray, words: npt.NDArray[np.uint64]) -> IdArray:
    indptr = data.graph.indptr
    chosen = owners[_below(words[::2], len(owners))]
    first = indptr[chosen].astype(np.int64)
    places = first + _below(words[1::2], indptr[chosen + 1].astype(np.int64) - first)
    return np.concatenate([chosen, data.graph.indices[places].astype(np.int64)])


class GraphSAINTRandomWalkSampler(GraphSAINTSampler):
    """PyG's GraphSAINTRandomWalkSampler: the nodes of `batch_size` walks of `walk_length` steps.

    Walks follow the edges, as in PyG. A dataset of in-neighbours serves if both directions of every
    edge are in it, which is checked by reading it once.

    Parameters
    ----------
    data, batch_size, num_steps, sample_coverage, save_dir, log, **options
        As in `GraphSAINTSampler`.
    walk_length : int
        Steps of each walk.

    Raises
    ------
    ValueError
        If the graph is directed, and has no lists of out-neighbours.
    """

    def __init__(
        self,
        data: Dataset,
        batch_size: int,
        walk_length: int,
        num_steps: int = 1,
        sample_coverage: int = 0,
        save_dir: str | None = None,
        log: bool = True,
        **options: object,
    ) -> None:
        self.walk_length = as_count(walk_length, "walk_length")
        super().__init__(data, batch_size, num_steps, sample_coverage, save_dir, log, **options)

    def _draws(self, data: Dataset, size: int) -> _Draws:
        return partial(_nodes_of_walks, walked_graph(data), self.walk_length), size + 1


def _nodes_of_walks(graph: Graph, length: int, words: npt.NDArray[np.uint64]) -> IdArray:
    start = _below(words[:-1], graph.num_nodes)
    walks: IdArray = graph._csr.walk(start, length, 1.0, 1.0, int(words[-1]), 1)
    return walks[walks >= 0]  # -1 after a dead end


# --- ShaDow


class ShaDowKHopSampler(NeighborLoader):
    """PyG's ShaDowKHopSampler: a subgraph of its own around each node (Zeng et al., "Decoupling the
    Depth and Scope of Graph Neural Networks", NeurIPS 2021).

    A batch is a ``Batch`` of these: ``batch`` and ``ptr`` say which nodes are of which,
    ``root_n_id`` where their roots are, and ``y`` is that of the roots.

    Parameters
    ----------
    data : Dataset
        From `graphzero.open` or `from_data`, without types.
    depth : int
        Hops.
    num_neighbors : int
        Neighbours of each node in each hop.
    node_idx : (n,) integers or (num_nodes,) bool, optional
        The roots. Default: all nodes.
    replace : bool
        Whether neighbours are drawn with replacement.
    **options
        As in `NeighborLoader`.
    """

    def __init__(
        self,
        data: Dataset | None = None,
        depth: int = 1,
        num_neighbors: int = 1,
        node_idx: object = None,
        replace: bool = False,
        **options: Any,
    ) -> None:
        if isinstance(data, Dataset):
            data.require_untyped("ShaDow samples")
        hops = [num_neighbors] * as_count(depth, "depth")
        super().__init__(
            data, hops, node_idx, replace=replace, disjoint=True, subgraph_type="induced", **options
        )

    @staticmethod
    def _make_output(batch: AnyBatch, dataset: Dataset, whole: bool) -> object:
        data = NeighborLoader._make_output(batch, dataset, whole)
        count, roots, trees = data.num_nodes, data.batch_size, data.batch.numpy()
        order = np.argsort(trees, kind="stable")  # the root of each comes first
        place = np.empty_like(order)
        place[order] = np.arange(count)
        rows = {*dataset.attributes, "n_id", "batch"}
        rows |= {name for name in dataset.facade[NODES].masks() if name in data}
        values = {name: _in_order(value, order) if name in rows else value for name, value in data}
        for name in ("batch_size", "input_id", "num_sampled_nodes", "edge_index"):
            del values[name]
        edge_index = torch.from_numpy(place[data.edge_index.numpy()])
        ptr = torch.from_numpy(np.searchsorted(trees[order], np.arange(roots + 1)))
        output = Batch(**values, edge_index=edge_index, ptr=ptr, root_n_id=ptr[:-1])
        if "y" in values:
            output.y = _in_order(values["y"], ptr[:-1].numpy())
        output.num_nodes = count
        return output


def _in_order(rows: Tensor, order: IdArray) -> Tensor:
    """Rows in another order; not by torch, which would start threads in each that calls this."""
    bits = rows.view(torch.int16) if rows.dtype == torch.bfloat16 else rows
    return torch.from_numpy(bits.numpy()[order]).view(rows.dtype)
