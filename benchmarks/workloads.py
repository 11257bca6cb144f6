"""The sampling workloads: what graphzero and the peers run, and how both are checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

import graphzero as gz
from benchmarks.checks import check_one_hop, check_subgraph, check_walks
from benchmarks.contestants import GRAPHZERO02, PYG
from benchmarks.inputs import Inputs, IntArray
from benchmarks.serve import Stopwatch
from benchmarks.workload import Rival, Timed, Workload

__all__ = ["Sizes", "workloads"]

GRAPHZERO = "graphzero 0.2.0"
CLUSTER = "torch-cluster"
SPARSE = "torch-sparse"
NEIGHBOR_LOADER = "PyG NeighborLoader"

EMULATED = (
    "emulated, because there is no such call: batch_random_fanout per hop, its padding masked by a "
    "table of degrees made beforehand, numpy.unique relabels"
)
GATHERED = "NumPy takes the rows from get_tensor(), which was called once before"
FEWER = "from fewer starts, because it is slow"
OPERATOR = (
    "the operator itself, parallel over the starts, on a CSR made beforehand: its Python wrapper "
    "sorts all edges in each call"
)
ACCEPTS = "its rejection accepts every proposal where q is least of p, q and 1: uniform walks"
SERIAL = "neighbor_sample runs on one thread: it has no parallel code"
ON_SPARSE = "samples by torch-sparse's neighbor_sample on one thread, gathers on all"


@dataclass(frozen=True)
class Sizes:
    """The amount of work of one run of each workload."""

    starts: int = 200_000
    length: int = 10
    peer_node2vec_starts: int = 5_000
    fanout: int = 10
    fanouts: tuple[int, ...] = (15, 10, 5)
    batch_size: int = 1_024
    batches: int = 10


def _walk(
    graph: gz.Graph, seeds: IntArray, number: int, *, threads: int, length: int, p: float, q: float
) -> Timed:
    with Stopwatch() as watch:
        walks = graph.random_walk(seeds, length, p=p, q=q, seed=number, num_threads=threads)
    return watch, {"walks": walks}


def _one_hop(graph: gz.Graph, seeds: IntArray, number: int, *, threads: int, fanout: int) -> Timed:
    with Stopwatch() as watch:
        sampled = graph.sample_neighbors(seeds, fanout, seed=number, num_threads=threads)
    target = np.repeat(seeds, np.diff(sampled.indptr))
    return watch, {"target": target, "source": sampled.indices}


def _dataset_of(
    dataset: gz.Dataset,
    seeds: IntArray,
    number: int,
    threads: int,
    fanouts: tuple[int, ...],
    **options: Any,
) -> gz.NeighborDataset:
    """Batches of the seeds, one for each of their rows."""
    return gz.NeighborDataset(
        dataset,
        seeds.reshape(-1),
        fanouts,
        batch_size=seeds.shape[1],
        seed=number,
        num_threads=threads,
        **options,
    )


def _multi_hop(
    dataset: gz.Dataset, seeds: IntArray, number: int, *, threads: int, fanouts: tuple[int, ...]
) -> Timed:
    batches = _dataset_of(dataset, seeds, number, threads, fanouts, gather=())
    with Stopwatch() as watch:
        for batch in batches:
            subgraph = batch.subgraph
    return watch, {"n_id": subgraph.n_id, "edge_index": subgraph.edge_index}


def _loader(
    dataset: gz.Dataset, seeds: IntArray, number: int, *, threads: int, fanouts: tuple[int, ...]
) -> Timed:
    batches = _dataset_of(dataset, seeds, number, threads, fanouts)
    collate = gz.Collate(dataset)
    # The stub of DataLoader knows only collate functions of lists.
    loader: Any = DataLoader(batches, batch_size=None, collate_fn=collate)  # type: ignore[arg-type]
    with Stopwatch() as watch:
        for item in loader:
            batch = item
    tensors = {"n_id": batch.n_id, "edge_index": batch.edge_index, "x": batch.x, "y": batch.y}
    return watch, {name: tensor.numpy() for name, tensor in tensors.items()}


def _walks(dataset: gz.Dataset, inputs: Inputs, threads: int, sizes: Sizes) -> list[Workload]:
    def walks(name: str, p: float, q: float, rivals: Callable[[dict[str, Any]], Any]) -> Workload:
        length = sizes.length
        return Workload(
            name=name,
            unit="M steps/s",
            scale=1e6,
            seeds=lambda number: inputs.seeds(1, number, sizes.starts),
            ours=partial(_walk, dataset.graph, threads=threads, length=length, p=p, q=q),
            check=partial(check_walks, inputs, length=length),
            rivals=rivals({"op": "walk", "length": length, "p": p, "q": q}),
        )

    def uniform(request: dict[str, Any]) -> dict[str, Rival]:
        return {
            GRAPHZERO: Rival(GRAPHZERO02, request, goal=12),
            CLUSTER: Rival(PYG, request, goal=5, notes=(OPERATOR,)),
        }

    def second_order(request: dict[str, Any]) -> dict[str, Rival]:
        fewer = sizes.peer_node2vec_starts
        return {
            GRAPHZERO: Rival(GRAPHZERO02, request, seeds=fewer, notes=(FEWER,)),
            CLUSTER: Rival(PYG, request, goal=10, notes=(OPERATOR, ACCEPTS)),
        }

    return [
        walks("uniform walks", 1.0, 1.0, uniform),
        walks("node2vec walks, p=1, q=0.5", 1.0, 0.5, second_order),
    ]


def _one_hops(dataset: gz.Dataset, inputs: Inputs, threads: int, sizes: Sizes) -> list[Workload]:
    request = {"op": "one_hop", "fanout": sizes.fanout}
    return [
        Workload(
            name=f"one hop, K={sizes.fanout}",
            unit="M edges/s",
            scale=1e6,
            seeds=lambda number: inputs.seeds(3, number, sizes.starts),
            ours=partial(_one_hop, dataset.graph, threads=threads, fanout=sizes.fanout),
            check=partial(check_one_hop, inputs, fanout=sizes.fanout),
            rivals={GRAPHZERO: Rival(GRAPHZERO02, request, goal=4)},
        )
    ]


def _batches(dataset: gz.Dataset, inputs: Inputs, threads: int, sizes: Sizes) -> list[Workload]:
    fanouts = list(sizes.fanouts)

    def seeds(number: int) -> IntArray:
        chosen = inputs.seeds(2, number, sizes.batches * sizes.batch_size)
        return chosen.reshape(-1, sizes.batch_size)

    def emulated(with_rows: bool, notes: tuple[str, ...]) -> Rival:
        request = {"op": "multi_hop", "fanouts": fanouts, "with_rows": with_rows}
        return Rival(GRAPHZERO02, request, notes=notes)

    alone = gz.Dataset(dataset.graph)
    sampled = {"op": "multi_hop", "fanouts": fanouts}
    loaded = {"op": "load", "fanouts": fanouts}
    return [
        Workload(
            name=f"multi-hop {fanouts}",
            unit="batches/s",
            scale=1.0,
            seeds=seeds,
            ours=partial(_multi_hop, alone, threads=threads, fanouts=sizes.fanouts),
            check=partial(check_subgraph, inputs, fanouts=fanouts, with_rows=False),
            rivals={
                GRAPHZERO: emulated(False, (EMULATED,)),
                SPARSE: Rival(PYG, sampled, goal=33, notes=(SERIAL,)),
            },
        ),
        Workload(
            name=f"loader {fanouts}, {inputs.dim} float32",
            unit="batches/s",
            scale=1.0,
            seeds=seeds,
            ours=partial(_loader, dataset, threads=threads, fanouts=sizes.fanouts),
            check=partial(check_subgraph, inputs, fanouts=fanouts, with_rows=True),
            rivals={
                GRAPHZERO: emulated(True, (EMULATED, GATHERED)),
                NEIGHBOR_LOADER: Rival(PYG, loaded, goal=16, notes=(ON_SPARSE,)),
            },
        ),
    ]


def workloads(dataset: gz.Dataset, inputs: Inputs, threads: int, sizes: Sizes) -> list[Workload]:
    """All workloads over one dataset."""
    torch.set_num_threads(threads)
    groups = (_walks, _one_hops, _batches)
    return [work for group in groups for work in group(dataset, inputs, threads, sizes)]
