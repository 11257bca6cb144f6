"""The sampling workloads: what graphzero runs, what a peer is asked for, how both are checked."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

import graphzero as gz
from benchmarks.checks import Arrays, check_one_hop, check_subgraph, check_walks
from benchmarks.inputs import Inputs, IntArray

__all__ = ["Sizes", "Workload", "workloads"]

Timed = tuple[float, Arrays]

EMULATED = (
    "emulated on the peer, which has no such call: batch_random_fanout per hop, its padding masked "
    "by a table of degrees made beforehand, numpy.unique relabels"
)
GATHERED = "the peer's rows are taken by NumPy from get_tensor(), which was called once before"
FEWER = "the peer walks from fewer starts, because it is slow"


@dataclass(frozen=True)
class Sizes:
    """How much one run of each workload does."""

    starts: int = 200_000
    length: int = 10
    peer_node2vec_starts: int = 5_000
    fanout: int = 10
    fanouts: tuple[int, ...] = (15, 10, 5)
    batch_size: int = 1_024
    batches: int = 10


@dataclass(frozen=True)
class Workload:
    """One row of the table.

    Attributes
    ----------
    name, unit : str
    scale : float
        Work is counted in units of this many steps, edges or batches.
    seeds : callable
        Run number to seeds.
    ours : callable
        Seeds and run number to seconds and arrays.
    request : dict
        What a peer's process is asked for, beside seeds.
    check : callable
        Seeds and arrays to the work done; raises WrongResult.
    peer_seeds : int, optional
        How many of the seeds a peer gets; default all.
    notes : tuple of str
    """

    name: str
    unit: str
    scale: float
    seeds: Callable[[int], IntArray]
    ours: Callable[[IntArray, int], Timed]
    request: dict[str, Any]
    check: Callable[[IntArray, Arrays], int]
    peer_seeds: int | None = None
    notes: tuple[str, ...] = ()


def _walk(
    graph: gz.Graph, seeds: IntArray, number: int, *, threads: int, length: int, p: float, q: float
) -> Timed:
    begin = time.perf_counter()
    walks = graph.random_walk(seeds, length, p=p, q=q, seed=number, num_threads=threads)
    return time.perf_counter() - begin, {"walks": walks}


def _one_hop(graph: gz.Graph, seeds: IntArray, number: int, *, threads: int, fanout: int) -> Timed:
    begin = time.perf_counter()
    sampled = graph.sample_neighbors(seeds, fanout, seed=number, num_threads=threads)
    seconds = time.perf_counter() - begin
    target = np.repeat(seeds, np.diff(sampled.indptr))
    return seconds, {"target": target, "source": sampled.indices}


def _multi_hop(
    dataset: gz.Dataset, seeds: IntArray, number: int, *, threads: int, fanouts: tuple[int, ...]
) -> Timed:
    batches = gz.NeighborDataset(
        dataset,
        seeds.reshape(-1),
        fanouts,
        batch_size=seeds.shape[1],
        seed=number,
        gather=(),
        num_threads=threads,
    )
    begin = time.perf_counter()
    for batch in batches:
        subgraph = batch.subgraph
    seconds = time.perf_counter() - begin
    return seconds, {"n_id": subgraph.n_id, "edge_index": subgraph.edge_index}


def _loader(
    dataset: gz.Dataset, seeds: IntArray, number: int, *, threads: int, fanouts: tuple[int, ...]
) -> Timed:
    batches = gz.NeighborDataset(
        dataset,
        seeds.reshape(-1),
        fanouts,
        batch_size=seeds.shape[1],
        seed=number,
        num_threads=threads,
    )
    collate = gz.Collate(dataset, num_threads=threads)
    # The stub of DataLoader knows only collate functions of lists.
    loader: Any = DataLoader(batches, batch_size=None, collate_fn=collate)  # type: ignore[arg-type]
    begin = time.perf_counter()
    for item in loader:
        batch = item
    seconds = time.perf_counter() - begin
    arrays = {"n_id": batch.n_id, "edge_index": batch.edge_index, "x": batch.x}
    return seconds, {name: tensor.numpy() for name, tensor in arrays.items()}


def _walks(
    name: str, dataset: gz.Dataset, inputs: Inputs, threads: int, sizes: Sizes, p: float, q: float
) -> Workload:
    uniform = p == q == 1.0
    length = sizes.length
    return Workload(
        name=name,
        unit="M steps/s",
        scale=1e6,
        seeds=lambda number: inputs.seeds(1, number, sizes.starts),
        ours=partial(_walk, dataset.graph, threads=threads, length=length, p=p, q=q),
        request={"op": "walk", "length": length, "p": p, "q": q},
        check=partial(check_walks, inputs, length=length),
        peer_seeds=None if uniform else sizes.peer_node2vec_starts,
        notes=() if uniform else (FEWER,),
    )


def workloads(dataset: gz.Dataset, inputs: Inputs, threads: int, sizes: Sizes) -> list[Workload]:
    """All workloads over one dataset."""
    torch.set_num_threads(threads)
    fanouts = list(sizes.fanouts)

    def batches(number: int) -> IntArray:
        seeds = inputs.seeds(2, number, sizes.batches * sizes.batch_size)
        return seeds.reshape(-1, sizes.batch_size)

    return [
        _walks("uniform walks", dataset, inputs, threads, sizes, 1.0, 1.0),
        _walks("node2vec walks, p=1, q=0.5", dataset, inputs, threads, sizes, 1.0, 0.5),
        Workload(
            name=f"one hop, K={sizes.fanout}",
            unit="M edges/s",
            scale=1e6,
            seeds=lambda number: inputs.seeds(3, number, sizes.starts),
            ours=partial(_one_hop, dataset.graph, threads=threads, fanout=sizes.fanout),
            request={"op": "one_hop", "fanout": sizes.fanout},
            check=partial(check_one_hop, inputs, fanout=sizes.fanout),
        ),
        Workload(
            name=f"multi-hop {fanouts}",
            unit="batches/s",
            scale=1.0,
            seeds=batches,
            ours=partial(
                _multi_hop, gz.Dataset(dataset.graph), threads=threads, fanouts=sizes.fanouts
            ),
            request={"op": "multi_hop", "fanouts": fanouts, "with_rows": False},
            check=partial(check_subgraph, inputs, fanouts=fanouts, with_rows=False),
            notes=(EMULATED,),
        ),
        Workload(
            name=f"loader {fanouts}, {inputs.dim} float32",
            unit="batches/s",
            scale=1.0,
            seeds=batches,
            ours=partial(_loader, dataset, threads=threads, fanouts=sizes.fanouts),
            request={"op": "multi_hop", "fanouts": fanouts, "with_rows": True},
            check=partial(check_subgraph, inputs, fanouts=fanouts, with_rows=True),
            notes=(EMULATED, GATHERED),
        ),
    ]
