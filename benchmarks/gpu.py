"""What feeds a model on a GPU: steps a second by each way of feeding, against resident batches.

The ceiling is the same model on different mini-batches that lie on the device already. Each way of
feeding then trains on an epoch of the same dataset. On a machine without an accelerator the
processor stands for it, and the figures mean nothing.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from benchmarks import timing
from benchmarks.inputs import Inputs, build_once, prepare
from benchmarks.machine import conditions, heading, read_through

if TYPE_CHECKING:
    import torch

    import graphzero as gz

FANOUTS, HIDDEN, CLASSES = [15, 10, 5], 256, 47
CACHES = [0.05, 0.2, 1.0]
WARM_STEPS = 10


@dataclass(frozen=True)
class Model:
    """A model and how it is trained."""

    name: str
    is_pyg: bool
    trims: bool
    dtype: str


MODELS = [
    Model("PyG SAGEConv", is_pyg=True, trims=False, dtype="float32"),
    Model("PyG SAGEConv, trimmed", is_pyg=True, trims=True, dtype="float32"),
    Model("PyG SAGEConv, trimmed, bfloat16", is_pyg=True, trims=True, dtype="bfloat16"),
    Model("gz.GraphSAGE", is_pyg=False, trims=True, dtype="float32"),
    Model("gz.GraphSAGE, bfloat16", is_pyg=False, trims=True, dtype="bfloat16"),
]


@dataclass(frozen=True)
class Feed:
    """What one way of feeding reached.

    Attributes
    ----------
    name : str
    steps : float
        A second.
    waited : float
        Share of the time that the loop waited for mini-batches.
    sent, row_bytes : float
        Bytes a mini-batch that `device=` sent, and of its rows.
    """

    name: str
    steps: float
    waited: float
    sent: float
    row_bytes: float


def stepper(model: Model, dim: int, device: torch.device) -> Callable[[Any], None]:
    """A training step of a model on a mini-batch."""
    import torch
    import torch.nn.functional as F

    import graphzero as gz

    torch.manual_seed(0)
    if model.is_pyg:
        from torch_geometric.nn.models import GraphSAGE

        net: torch.nn.Module = GraphSAGE(dim, HIDDEN, len(FANOUTS), CLASSES)
    else:
        net = gz.GraphSAGE(dim, HIDDEN, CLASSES, len(FANOUTS))
    net.to(device)
    optimizer = torch.optim.Adam(net.parameters())
    ending = "_per_hop" if model.is_pyg else ""

    def step(batch: Any) -> None:
        counts = {}
        if model.trims:
            counts = {
                f"num_sampled_nodes{ending}": batch.num_sampled_nodes,
                f"num_sampled_edges{ending}": batch.num_sampled_edges,
            }
        with torch.autocast(device.type, torch.bfloat16, enabled=model.dtype == "bfloat16"):
            scores = net(batch.x, batch.edge_index, **counts)[: batch.batch_size]
        loss = F.cross_entropy(scores.float(), batch.y[: batch.batch_size].long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def synchronize(device: torch.device) -> None:
    """Waits for what the device was given."""
    import torch

    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def steps_of(
    name: str, batches: Iterable[Any], step: Callable[[Any], None], count: int, device: torch.device
) -> Feed:
    """Trains on some mini-batches, after a few that are not counted."""
    iterator = iter(batches)
    for batch in itertools.islice(iterator, WARM_STEPS):
        step(batch.to(device))
    synchronize(device)
    started, waited, done, sent, row_bytes = time.perf_counter(), 0.0, 0, 0, 0
    while done < count:
        asked = time.perf_counter()
        batch = next(iterator, None)
        waited += time.perf_counter() - asked
        if batch is None:
            break
        stats = getattr(batch, "stats", None)
        sent += getattr(stats, "sent_bytes", 0)
        row_bytes += getattr(stats, "row_bytes", 0)
        step(batch.to(device, non_blocking=True))
        done += 1
    synchronize(device)
    seconds = time.perf_counter() - started
    done = max(1, done)
    return Feed(name, done / seconds, waited / seconds, sent / done, row_bytes / done)


def repeated(loader: Iterable[Any]) -> Generator[Any, None, None]:
    """One pass after the other."""
    while True:
        yield from loader


Way = Callable[[], Generator[Any, None, None]]  # begins to feed


def ways(ds: gz.Dataset, options: argparse.Namespace, device: torch.device) -> dict[str, Way]:
    """Each way of feeding, by what a user writes."""
    import graphzero as gz
    from graphzero import pyg

    def feed(kind: Any = gz.NeighborLoader, workers: int = 0, **how: Any) -> Way:
        return lambda: repeated(
            kind(
                ds,
                FANOUTS,
                "train",
                batch_size=options.batch_size,
                shuffle=True,
                num_workers=workers,
                persistent_workers=workers > 0,
                **how,
            )
        )

    workers = options.workers
    feeds = {
        "plain, batch.to(device)": feed(),
        "pin_memory=True": feed(pin_memory=True),
        f"{workers} workers, pinned": feed(workers=workers, pin_memory=True),
        "device=": feed(device=device),
        f"device=, {workers} workers": feed(workers=workers, device=device),
        "graphzero.pyg, device=": feed(pyg.NeighborLoader, device=device),
    }
    for share in CACHES:
        feeds[f"device=, device_cache={share}"] = feed(device=device, device_cache=share)
    return feeds


def way_of_pyg(inputs: Inputs, ds: gz.Dataset, options: argparse.Namespace) -> Way | None:
    """PyG's own, over the same graph in memory; None where it has no backend to sample with."""
    import numpy as np
    import torch
    import torch_geometric.typing
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    if not (torch_geometric.typing.WITH_PYG_LIB or torch_geometric.typing.WITH_TORCH_SPARSE):
        return None
    edges = torch.from_numpy(np.load(inputs.path("edges.npy")))
    data = Data(
        x=torch.from_numpy(np.load(inputs.path("features.npy"))),
        edge_index=edges.T.contiguous(),
        y=torch.from_numpy(np.load(inputs.path("labels.npy"))),
    )
    return lambda: repeated(
        NeighborLoader(
            data,
            FANOUTS,
            torch.from_numpy(ds.splits["train"]),
            batch_size=options.batch_size,
            shuffle=True,
            pin_memory=True,
            num_workers=options.workers,
            persistent_workers=True,
        )
    )


def device_milliseconds(step: Callable[[Any], None], batches: Sequence[Any]) -> float:
    """What the device works for a step, without the time in which it waits for the next launch."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as profiled:
        for batch in batches:
            step(batch)
    microseconds = sum(event.self_device_time_total for event in profiled.key_averages())
    return microseconds / 1000 / len(batches)


def measure_ceiling(
    ds: gz.Dataset, options: argparse.Namespace, device: torch.device
) -> tuple[dict[str, float], dict[str, float]]:
    """Steps a second of each model on different mini-batches that lie on the device.

    On a GPU also the milliseconds of a step in which it works.
    """
    import graphzero as gz

    loader = gz.NeighborLoader(
        ds, FANOUTS, "train", batch_size=options.batch_size, shuffle=True, device=device
    )
    resident = list(itertools.islice(repeated(loader), options.resident))
    rates, busy = {}, {}
    for model in MODELS:
        step = stepper(model, options.dim, device)
        batches = repeated(resident)
        rates[model.name] = steps_of(model.name, batches, step, options.steps, device).steps
        if device.type == "cuda":
            busy[model.name] = device_milliseconds(step, resident[:WARM_STEPS])
    return rates, busy


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """The ceiling of each model, and what each way of feeding reaches of two of them."""
    import torch

    import graphzero as gz

    torch.set_float32_matmul_precision("high")
    device = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    inputs = prepare(
        options.data, num_nodes=1 << options.scale, num_edges=options.edges, dim=options.dim
    )
    feeds: list[dict[str, Any]] = []
    with gz.open(build_once(inputs, "gpu", order="hot")) as ds:
        read_through(ds.paths)
        ceiling, busy = measure_ceiling(ds, options, device)
        for model in (MODELS[1], MODELS[3]):
            step = stepper(model, options.dim, device)
            feeding = ways(ds, options, device)
            if model.is_pyg and (of_pyg := way_of_pyg(inputs, ds, options)) is not None:
                feeding["PyG's NeighborLoader"] = of_pyg
            for name, begin in feeding.items():
                with closing(begin()) as batches:
                    feed = steps_of(name, batches, step, options.steps, device)
                share = feed.steps / ceiling[model.name]
                feeds.append({**asdict(feed), "model": model.name, "share": share})
    about = conditions("gpu", options.data, settings=timing.settings(options))
    return {**about, "device": device.type, "ceiling": ceiling, "busy": busy, "feeds": feeds}


def tables(found: dict[str, Any]) -> str:
    """The ceilings, and the share of them that each way of feeding reaches."""
    ceilings = [["model on resident batches", "steps/s", "ms of the device"]]
    for name, rate in found["ceiling"].items():
        busy = found["busy"].get(name)
        ceilings.append([name, f"{rate:.1f}", "-" if busy is None else f"{busy:.2f}"])
    rows = [["feeding", "model", "steps/s", "share", "waited", "MB sent", "MB of rows"]]
    for feed in found["feeds"]:
        sizes = [f"{feed[name] / 1e6:.1f}" for name in ("sent", "row_bytes")]
        shares = [f"{feed[name]:.0%}" for name in ("share", "waited")]
        rows.append([feed["name"], feed["model"], f"{feed['steps']:.1f}", *shares, *sizes])
    return timing.markdown(ceilings) + "\n\n" + timing.markdown(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints."""
    parser = timing.parser_of("benchmarks.gpu", __doc__, scale=23, edges=160e6)
    add = parser.add_argument
    add("--batch-size", type=int, default=1024)
    add("--steps", type=int, default=300, help="of each way of feeding")
    add("--resident", type=int, default=200, help="mini-batches that lie on the device")
    add("--workers", type=int, default=8)
    options = parser.parse_args(arguments)
    if options.quick:
        options.scale, options.edges = timing.QUICK_SCALE, timing.QUICK_EDGES
        options.steps, options.resident, options.workers = 5, WARM_STEPS + 5, 1
    timing.require_positive(parser, options, ["steps", "batch_size", "edges", "workers"])
    found = measure(options)
    lines = [f"{found['device']}; {options.batch_size} seeds, fanouts {FANOUTS}"]
    if found["device"] == "cpu":
        lines.append("There is no accelerator: the processor stands for it, for no figure's sake.")
    print(heading(found, lines), tables(found), sep="\n\n")
    timing.write_json(options, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
