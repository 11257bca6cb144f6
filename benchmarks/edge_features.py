"""Training on features of edges that are larger than the memory.

Run ``python -m benchmarks.edge_features`` from the repository's root, with graphzero installed, as
a user who may make memory groups. It builds an R-MAT graph with a row of numbers for each edge, and
trains a network that reads these rows, in a memory group whose limit counts everything: the
process, its batches and the page cache. The contestants are strategies of ``gz.Prefetch``; "none"
brings rows by page faults, as a mapped array would.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.machine import describe_disk, describe_machine, drop_cached
from benchmarks.report import markdown
from benchmarks.rmat import write_edges
from graphzero.report.tuning.limited_memory import memory_group

CHUNK = 1 << 18
DIM, CLASSES = 16, 16  # of the nodes' features, which are small beside those of the edges


def edge_rows(edges: np.ndarray, dim: int) -> np.ndarray:
    """Rows of some edges, by their numbers, so that any row can be checked; (n, dim) float16."""
    return ((edges[:, None] * 131 + np.arange(dim)) % 2039 / 2039).astype(np.float16)


def write_inputs(folder: Path, args: argparse.Namespace) -> dict[str, Path]:
    """Edges, their rows, and features and labels of the nodes, as .npy files."""
    paths = {name: folder / f"{name}.npy" for name in ("edges", "edge_attr", "x", "y")}
    write_edges(paths["edges"], args.scale, args.edges)
    shape = (args.edges, args.dim)
    rows = np.lib.format.open_memmap(paths["edge_attr"], "w+", args.dtype, shape)
    for begin in range(0, args.edges, CHUNK):
        end = min(begin + CHUNK, args.edges)
        rows[begin:end] = edge_rows(np.arange(begin, end), args.dim)
    rows.flush()
    del rows
    nodes = 1 << args.scale
    rng = np.random.default_rng(0)
    np.save(paths["x"], rng.standard_normal((nodes, DIM)).astype(np.float16))
    np.save(paths["y"], rng.integers(0, CLASSES, nodes, dtype=np.uint8))
    return paths


def build(folder: Path, args: argparse.Namespace) -> float:
    """Builds the dataset, removes its inputs, and returns the seconds."""
    import graphzero as gz

    paths = write_inputs(folder, args)
    started = time.perf_counter()
    gz.build(
        folder / "data",
        edges={"edge_index": paths["edges"], "edge_attr": paths["edge_attr"]},
        nodes={"x": paths["x"], "y": paths["y"]},
        splits={"train": np.random.default_rng(1).permutation(1 << args.scale)[:200_000]},
        memory_limit=args.build_memory,
    ).close()
    seconds = time.perf_counter() - started
    for path in paths.values():
        path.unlink()
    return seconds


def train(folder: str, strategy: str, options: dict[str, Any]) -> dict[str, Any]:
    """Trains on some batches of some epochs, in this process; checks a row of each batch."""
    import torch
    from torch import nn

    import graphzero as gz
    from benchmarks.meter import PeakAnonymous, read_counters

    class Layer(nn.Module):
        """Mean over the edges of a linear map of the neighbour and the edge."""

        def __init__(self, width: int, edge_width: int, out: int) -> None:
            super().__init__()
            self.message = nn.Linear(width + edge_width, out)
            self.own = nn.Linear(width, out)

        def forward(self, x: Any, edge_index: Any, edge_attr: Any) -> Any:
            sent = self.message(torch.cat([x[edge_index[0]], edge_attr], 1)).relu()
            total = torch.zeros(x.shape[0], sent.shape[1]).index_add_(0, edge_index[1], sent)
            degree = torch.bincount(edge_index[1], minlength=x.shape[0]).clamp(min=1)
            return (self.own(x) + total / degree[:, None]).relu()

    torch.set_num_threads(options["threads"])
    torch.manual_seed(0)
    model = nn.ModuleList([Layer(DIM, options["dim"], 32), Layer(32, options["dim"], CLASSES)])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    epochs = []
    with gz.open(folder) as ds, PeakAnonymous() as anonymous:
        seeds = ds.splits["train"][: options["batches"] * options["batch_size"]].copy()
        loader = gz.NeighborLoader(
            ds,
            options["fanouts"],
            seeds,
            batch_size=options["batch_size"],
            shuffle=True,
            seed=0,
            prefetch=gz.Prefetch(strategy=strategy),
            num_threads=options["threads"],
        )
        for _ in range(options["epochs"]):
            before, started, stalled, edges = read_counters(folder), time.perf_counter(), 0.0, 0
            asked = time.perf_counter()
            for batch in loader:
                stalled += time.perf_counter() - asked
                edge_attr = batch.edge_attr
                some = batch.e_id[:: max(1, len(batch.e_id) // 64)]
                expected = edge_rows(some.numpy(), options["dim"])
                assert np.array_equal(edge_attr[:: max(1, len(batch.e_id) // 64)], expected)
                h, attr = batch.x.float(), edge_attr.float()
                for layer in model:
                    h = layer(h, batch.edge_index, attr)
                loss = nn.functional.cross_entropy(
                    h[: batch.batch_size], batch.y[: batch.batch_size].long()
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                edges += batch.num_edges
                io = batch.stats.io
                del batch, edge_attr, attr, h
                asked = time.perf_counter()
            seconds = time.perf_counter() - started
            read = read_counters(folder).read_bytes - before.read_bytes
            epochs.append({"s": seconds, "stalled": stalled, "read": read, "edges": edges})
    return {"epochs": epochs, "anonymous": anonymous.peak, "io": io}


def measure(folder: Path, strategy: str, args: argparse.Namespace) -> dict[str, Any]:
    """Trains in a process of its own below the limit."""
    drop_cached((folder / "data").iterdir())
    names = ("dim", "threads", "batches", "batch_size", "epochs", "fanouts")
    options = json.dumps({name: getattr(args, name) for name in names})
    program = [sys.executable, "-m", "benchmarks.edge_features", "--child"]
    with memory_group(args.limit) as group:
        done = subprocess.run(
            [*group.prefix, *program, str(folder / "data"), strategy, options],
            capture_output=True,
            text=True,
            check=False,
        )
        kills = group.kills()
    if done.returncode:
        raise RuntimeError(f"{strategy} failed ({kills} kills): {done.stderr[-2000:]}")
    return {**json.loads(done.stdout.splitlines()[-1]), "kills": kills}


def row_of(strategy: str, result: dict[str, Any], batches: int) -> list[str]:
    """One line of the table."""
    first, later = result["epochs"][0], result["epochs"][1:]
    each = [epoch["s"] / batches for epoch in later]
    return [
        strategy,
        f"{first['s'] / batches:.3f}",
        f"{median(each):.3f} ({min(each):.3f} to {max(each):.3f})",
        f"{median(epoch['stalled'] for epoch in later) / batches:.3f}",
        f"{median(epoch['read'] for epoch in later) / batches / 2**20:.1f}",
        f"{later[0]['edges'] // batches:,}",
        f"{result['anonymous'] / 2**20:.0f}",
    ]


def main() -> None:
    """Builds, trains with each strategy in turn, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=22)
    parser.add_argument("--edges", type=int, default=64_000_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--dtype", choices=["float16", "float32"], default="float16")
    parser.add_argument("--build-memory", default="1GB")
    parser.add_argument("--limit", type=int, default=2 << 30)
    parser.add_argument("--fanouts", type=int, nargs="+", default=[10, 5])
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--strategies", nargs="+", default=["auto", "willneed", "none"])
    parser.add_argument("--data", type=Path, help="folder to keep the dataset in")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(train(args.child[0], args.child[1], json.loads(args.child[2]))))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.data or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "data").exists():
            print(f"built in {build(folder, args):.0f} s", flush=True)
        size = sum(path.stat().st_size for path in (folder / "data").iterdir())
        results = {name: measure(folder, name, args) for name in args.strategies}
        print(json.dumps({"machine": describe_machine(), "disk": describe_disk(folder)}))
        print(f"{size / 2**30:.1f} GiB of files, limit {args.limit / 2**30:.1f} GiB")
        for name, result in results.items():
            print(f"{name}: {result['io']}; killed: {result['kills']}")
    header = [
        "strategy",
        "first epoch",
        "s/batch",
        "stalled",
        "MiB/batch",
        "edges",
        "anonymous MiB",
    ]
    rows = [row_of(name, result, args.batches) for name, result in results.items()]
    print(markdown([header, *rows]))


if __name__ == "__main__":
    main()
