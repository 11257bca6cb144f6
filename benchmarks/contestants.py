"""The contestants: graphzero, and the peers, which are installed, started and given the graph."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import files02
from benchmarks.checks import WrongResult
from benchmarks.inputs import Inputs, feature_rows
from benchmarks.peers import Peer, PeerError, Worker, install
from benchmarks.timing import Dropped, Run
from benchmarks.workload import Rival, Workload

__all__ = ["GRAPHZERO02", "PYG", "known_peers", "our_run", "peer_run", "start_peer"]

GRAPHZERO02 = "graphzero02"
PYG = "pyg"


def known_peers() -> dict[str, Peer]:
    """Every peer, by name."""
    # PyG's extensions are compiled against torch, so the peer gets the same torch as graphzero.
    torch = metadata.version("torch").partition("+")[0]
    peers = [
        Peer(
            name=GRAPHZERO02,
            # It requires torch but does not import it.
            installs=(("--no-deps", "graphzero==0.2.0"), ("numpy",)),
            script="peer_graphzero02.py",
        ),
        Peer(
            name=PYG,
            installs=(
                (f"torch=={torch}", "numpy", "setuptools<82", "wheel"),
                ("--no-build-isolation", "torch-scatter", "torch-sparse", "torch-cluster"),
                ("torch_geometric",),
            ),
            script="peer_pyg.py",
        ),
    ]
    return {peer.name: peer for peer in peers}


def _check_layout(worker: Worker, folder: Path) -> None:
    """Compares our writer of 0.2's files with 0.2's own converter, byte by byte.

    Raises
    ------
    PeerError
        If the bytes differ.
    """
    paths = {name: str(folder / name) for name in ("edges", "graph", "rows", "features")}
    edges = np.array([[0, 1], [0, 3], [2, 0], [2, 1], [2, 3], [4, 2], [6, 0]])
    rows = feature_rows(np.arange(7), 5)
    np.savetxt(paths["edges"], edges, "%d", ",", header="src,dst", comments="")
    cells = np.column_stack([np.arange(7), rows])
    np.savetxt(paths["rows"], cells, ["%d", *["%.9g"] * 5], ",")
    worker.call("convert", **paths)
    degrees = np.bincount(edges[:, 0], minlength=7)
    files02.write_graph(folder / "own.gl", degrees, edges[:, 1])
    files02.write_features(folder / "own.gd", rows)
    for own, converted in (("own.gl", "graph"), ("own.gd", "features")):
        if not filecmp.cmp(folder / own, paths[converted], shallow=False):
            raise PeerError(f"{worker.name} writes another file layout than this benchmark")


def _files(peer: Peer, inputs: Inputs) -> dict[str, Any]:
    """What a peer is given to open."""
    labels = str(inputs.path("labels.npy"))
    if peer.name == GRAPHZERO02:
        return {
            "graph": str(inputs.path("graph02.gl")),
            "features": str(inputs.path("features02.gd")),
            "labels": labels,
            "degrees": str(inputs.path("degrees.npy")),
        }
    return {
        "edges": str(inputs.path("edges.npy")),
        "features": str(inputs.path("features.npy")),
        "labels": labels,
        "num_nodes": inputs.num_nodes,
    }


@contextmanager
def start_peer(
    peer: Peer, inputs: Inputs, peer_dir: str | os.PathLike[str], scratch: Path, threads: int
) -> Iterator[tuple[Worker, dict[str, str]]]:
    """Installs and starts a peer and opens its files; its process ends with the context.

    Yields
    ------
    Worker
    dict of str to str
        Versions of the peer's packages.

    Raises
    ------
    PeerError
    """
    python = install(peer, peer_dir)
    log = scratch / f"{peer.name}.log"
    with Worker(peer, python, log=log, threads=threads) as worker:
        if peer.name == GRAPHZERO02:
            _check_layout(worker, scratch)
        opened = worker.call("open", **_files(peer, inputs))
        if opened["num_edges"] != inputs.num_edges:
            raise PeerError(f"{peer.name} sees {opened['num_edges']} edges")
        yield worker, opened["versions"]


def our_run(work: Workload) -> Callable[[int], Run]:
    """A contestant: one checked run of graphzero."""

    def run(number: int) -> Run:
        seeds = work.seeds(number)
        watch, arrays = work.ours(seeds, number)
        done = work.check(seeds, arrays) / work.scale
        return Run(done, watch.seconds, watch.processor_seconds)

    return run


def peer_run(work: Workload, rival: Rival, worker: Worker, scratch: Path) -> Callable[[int], Run]:
    """A contestant: one run of a peer, timed in its process and checked here."""

    def run(number: int) -> Run:
        seeds = work.seeds(number)[: rival.seeds]
        given, out = scratch / "seeds.npy", scratch / "out.npz"
        np.save(given, seeds)
        try:
            answer = worker.call(**rival.request, seeds=str(given), out=str(out))
            with np.load(out) as arrays:
                done = work.check(seeds, dict(arrays)) / work.scale
        except PeerError as error:
            raise Dropped(str(error)) from error
        except WrongResult as error:
            raise Dropped(f"{worker.name} in '{rival.request['op']}': {error}") from error
        return Run(done, answer["seconds"], answer["processor_seconds"])

    return run
