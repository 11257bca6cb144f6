"""`infer` on the nodes of a Ray cluster."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import torch

try:
    import ray
except ImportError as error:
    raise ImportError("graphzero.ray needs Ray: pip install 'graphzero[ray]'") from error

from graphzero.graph.dataset import Dataset
from graphzero.training.infer import OneLayer
from graphzero.training.infer import infer as infer_on_this_machine
from graphzero.training.node_ranges import NodeRange
from graphzero.training.stream import Rows, StreamedRows

_RETRIES = 20  # of a task whose node was lost, or whose rows were lost with a node


def infer(
    model: Any,
    ds: Dataset,
    out: str | os.PathLike[str],
    *,
    gather: Sequence[str] = ("x",),
    memory_limit: int | str | None = None,
    device: Any = None,
    dtype: str = "float32",
    resume: bool | None = None,
    progress: bool = False,
    num_cpus: float = 1,
    num_gpus: float = 0,
) -> Any:
    """`graphzero.infer` with the blocks of nodes of each layer dealt to the nodes of a Ray cluster.

    The bytes of the result are those of `graphzero.infer`, as far as torch computes the same on the
    machines with as many threads. This process writes the files and has one mini-batch tried; the
    ranges of a node that is lost are computed again on others.

    Parameters
    ----------
    model, gather, dtype, resume, progress
        As in `graphzero.infer`. Functions are pickled, as all that Ray runs.
    ds : Dataset
        Its folder has to be at the same path on every node, with the same content.
    out : path-like
        On storage that all nodes see at the same path: they read the rows of the layer before from
        a folder beside it.
    memory_limit : int or str, optional
        Of each task.
    device : torch device, optional
        Where batches are moved to, on the nodes and here. Default: that of the model's parameters.
    num_cpus, num_gpus : float
        Of each task. Ray gives torch as many threads as a task has processors.

    Returns
    -------
    FeatureStore
        Rows by the user's ids. Of a typed graph, a dict of them by node type.

    Raises
    ------
    FormatError
        If a node has other files at the paths of the dataset.
    TypeError, ValueError, OSError
        As `graphzero.infer`.
    """
    resources = {"CPU": num_cpus, "GPU": num_gpus}
    options = {"num_cpus": num_cpus, "num_gpus": num_gpus, "max_retries": _RETRIES}
    task = ray.remote(**options)(_rows)
    return infer_on_this_machine(
        model,
        ds,
        out,
        gather=gather,
        memory_limit=memory_limit,
        device=device,
        dtype=dtype,
        resume=resume,
        progress=progress,
        _compute=partial(_deal, task, resources),
    )


def _rows(layer: OneLayer | StreamedRows, ranges: Sequence[NodeRange]) -> list[Rows | None]:
    with torch.no_grad():
        return list(layer.rows(ranges))


def _deal(
    task: Any,
    resources: dict[str, float],
    layer: OneLayer | StreamedRows,
    ranges: Sequence[NodeRange],
) -> Generator[Rows | None, None, None]:
    """The rows of the ranges in their order, from tasks of which few are ahead of it."""
    shared = ray.put(layer)  # which connects to the cluster
    # a task of a streamed layer reads the rows of all sources
    size = layer.ranges_of_task or -(-len(ranges) // max(1, int(_at_once(resources))))
    pieces = (ranges[first : first + size] for first in range(0, len(ranges), max(1, size)))
    ahead: deque[Any] = deque()
    try:
        while True:
            at_once = _at_once(resources)
            more = max(1, int(2 * at_once)) - len(ahead)  # negative where nodes were lost
            for piece in islice(pieces, max(0, more)):
                ahead.append(task.remote(shared, piece))
            if not ahead:
                return
            yield from ray.get(ahead.popleft())
    finally:
        for task_of_piece in ahead:
            ray.cancel(task_of_piece)


def _at_once(resources: dict[str, float]) -> float:
    """Tasks for which the cluster has room."""
    present = ray.cluster_resources()
    return min((present.get(name, 0) // n for name, n in resources.items() if n), default=1)
