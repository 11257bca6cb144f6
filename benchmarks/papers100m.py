"""The shape of ogbn-papers100M, whole: built in 4 GB of memory, trained on in 12 GB.

111 M nodes, 1.6 B edges (R-MAT) and 128 columns, all given to the build as streams; before it, the
same at a tenth, in a tenth of the memory plus what the process needs by itself. Rows are float16,
or int8 where the disk has no room. A stage that is done stays in the folder of ``--data``, and a
second call goes on after it; the folder is removed at the end, or by ``--clean``. The last lines
predict the float32 original on a laptop: the arithmetic of docs/scale.md, with pages that are
counted on the whole graph.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine, timing
from benchmarks.inputs import label_chunks, rmat_chunks, row_chunks
from benchmarks.ordering import SHAPES, node_pages
from benchmarks.peers import start_own
from graphzero.report.limited_memory import NoMemoryGroup, memory_group

NODES, EDGES, ROW_BYTES = SHAPES["papers100M"]
COLUMNS, TRAINING_NODES = 128, 1_207_179  # of ogbn-papers100M
BUILD_BYTES, BUILD_LIMIT = 4_000_000_000, "2500MB"  # of the group, and of graphzero.build
TRAIN_BYTES, LEAST_BYTES = 12_000_000_000, 64 << 20
DISK_LEFT = 8_000_000_000
TENTH = 0.1
# The laptop of docs/scale.md: a tenth of its memory is left alone.
LAPTOP_BYTES, LEFT_ALONE, NVME_READS, OF_THE_DISK = 16_000_000_000, 0.1, 500_000, 0.95


@dataclass(frozen=True)
class Shape:
    """A part of the graph: its sizes, and the folder of its dataset."""

    part: float
    dtype: str
    folder: Path

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return int(NODES * self.part)

    @property
    def edges(self) -> int:
        """Number of edges."""
        return int(EDGES * self.part)

    @property
    def topology_bytes(self) -> int:
        """8 bytes a node, 4 an edge, as docs/scale.md has it."""
        return 8 * self.nodes + 4 * self.edges

    def disk_bytes(self) -> int:
        """What a build takes at most: sorted edges and lists; or lists, order, rows twice."""
        rows = COLUMNS * np.dtype(self.dtype).itemsize * self.nodes
        return max(
            self.topology_bytes + 12 * self.edges, self.topology_bytes + 8 * self.nodes + 2 * rows
        )


def build_stage(stage: str, shape: Shape, threads: int) -> dict[str, Any]:
    """One stage of the build, in this process."""
    import graphzero as gz

    limit: dict[str, Any] = {"memory_limit": BUILD_LIMIT}
    before = machine.read_counters(shape.folder.parent)
    with machine.PeakAnonymous() as anonymous:
        if stage == "edges":
            chunks = rmat_chunks(shape.nodes, shape.edges, threads=threads)
            edges = ((chunk[:, 0], chunk[:, 1]) for chunk in chunks)
            gz.build(shape.folder, edges, num_nodes=shape.nodes, **limit).close()
        else:
            rows = row_chunks(shape.nodes, COLUMNS, shape.dtype)
            gz.set_attribute(shape.folder, "x", rows, **limit).close()
            gz.set_attribute(shape.folder, "y", label_chunks(shape.nodes), **limit).close()
            rng, count = np.random.default_rng(0), max(1, int(TRAINING_NODES * shape.part))
            train = np.unique(rng.integers(0, shape.nodes, count))
            gz.set_split(shape.folder, "train", rng.permutation(train)).close()
    cost = machine.read_counters(shape.folder).since(before)
    size = sum(path.stat().st_size for path in shape.folder.iterdir())
    return {
        "seconds": cost.seconds,
        "peak": anonymous.peak,
        "read_bytes": cost.read_bytes,
        "bytes": size,
    }


def limited_build(stage: str, shape: Shape, options: argparse.Namespace) -> dict[str, Any]:
    """The same in a process of its own, in a memory group where one can be made."""
    command = [sys.executable, "-m", "benchmarks.papers100m", "--child", stage, str(shape.part)]
    command += [shape.dtype, str(shape.folder), str(options.threads)]
    with ExitStack() as stack:
        prefix: Sequence[str] = ()
        try:
            prefix = stack.enter_context(memory_group(BUILD_BYTES)).prefix
        except NoMemoryGroup as error:
            print(f"the build is not limited: {error}", file=sys.stderr)
        done = subprocess.run([*prefix, *command], stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return {**found, "limit": BUILD_BYTES if prefix else None}


def train_stage(shape: Shape, options: argparse.Namespace) -> dict[str, Any]:
    """Epochs of GraphSAGE in limited memory, from a cold cache; and seconds without waiting."""
    import graphzero as gz

    seeds = shape.folder.parent / "seeds.npy"
    with gz.open(shape.folder) as ds:
        train = np.array(ds.splits["train"])  # a view would keep the file open
    size = min(options.batch_size, train.size)
    np.save(seeds, train[: train.size // size * size].reshape(-1, size))
    request: dict[str, Any] = {"op": "load", "seeds": str(seeds), "fanouts": options.fanouts}
    request |= {"train": {"hidden": options.hidden}, "most_seconds": options.most_seconds}
    files = sorted(shape.folder.glob("*.g[ld]"))
    opening = {"dataset": str(shape.folder), "threads": options.threads}
    how: dict[str, Any] = {"folder": shape.folder.parent, "threads": options.threads}
    own = 0
    if shape.part < 1:
        with start_own(**how) as worker:
            worker.call("open", **opening)
            plain = {"prefetch": {"strategy": "none", "lookahead": 0}, "most_seconds": 10.0}
            own = worker.call(**{**request, **plain})["anonymous"]
    time.sleep(1.0)  # pages that are being read cannot be dropped
    machine.drop_cached(files)
    limit = max(int(TRAIN_BYTES * shape.part), LEAST_BYTES) + own
    with memory_group(limit) as group, start_own(**how, prefix=group.prefix) as worker:
        worker.call("open", **opening)
        epochs = [worker.call(**request, number=number) for number in range(options.epochs)]
    batches = [len(epoch["laps"]) for epoch in epochs]
    later = epochs[-1]
    return {
        "seconds": sum(epoch["seconds"] for epoch in epochs),
        "peak": max(epoch["anonymous"] for epoch in epochs),
        "read_bytes": sum(epoch["read_bytes"] for epoch in epochs),
        "bytes": sum(path.stat().st_size for path in files),
        "limit": limit,
        "batches": sum(batches),
        "first_rate": batches[0] / epochs[0]["seconds"],
        "rate": batches[-1] / later["seconds"],
        "pages": later["read_bytes"] / 4096 / batches[-1],
        "computing": (later["seconds"] - later["waited"]) / batches[-1],
    }


def count_stage(shape: Shape) -> dict[str, Any]:
    """Pages that a mini-batch of the float32 original reads on the laptop, counted on the lists."""
    import graphzero as gz

    room = (1 - LEFT_ALONE) * LAPTOP_BYTES * shape.part - shape.topology_bytes
    resident = [int(min(max(room, 0), ROW_BYTES * shape.nodes)) // 4096]
    with machine.Stopwatch() as watch, machine.PeakAnonymous() as anonymous:
        pages = node_pages(str(shape.folder), gz.Presample(), resident, ROW_BYTES)
    return {"seconds": watch.seconds, "peak": anonymous.peak, "pages": pages[0], "read_bytes": 0}


def prediction(done: dict[str, Any], whole: str) -> list[str]:
    """The float32 original on the laptop, with the arithmetic."""
    pages, computing = done[f"count {whole}"]["pages"], done[f"train {whole}"]["computing"]
    reads = OF_THE_DISK * NVME_READS
    by_disk, by_model = reads / max(pages, 1e-9), 1 / computing
    topology = 8 * NODES + 4 * EDGES
    return [
        "The float32 original, predicted for 16 GB of memory and an NVMe:",
        f"- memory: 16 GB - a tenth - {topology / 1e9:.1f} GB of topology = "
        f"{((1 - LEFT_ALONE) * LAPTOP_BYTES - topology) / 1e9:.1f} GB for "
        f"{ROW_BYTES * NODES / 1e9:.0f} GB of rows",
        f"- pages of 4 KiB that a batch reads: {pages:,.0f}, counted on this graph",
        f"- the disk: {OF_THE_DISK} x {NVME_READS:,} reads/s / {pages:,.0f} = {by_disk:.1f} "
        "batches/s",
        f"- sampling and the model on these cores, without waiting: 1 / {computing:.3f} s = "
        f"{by_model:.1f} batches/s",
        f"- so {min(by_disk, by_model):.1f} batches/s, bound by the "
        f"{'disk' if by_disk < by_model else 'processor'}",
    ]


def table(done: dict[str, Any]) -> str:
    """A row for each stage."""
    heads = ["stage", "seconds", "peak of anonymous memory, MB", "limit, MB", "read, GB"]
    rows = [[*heads, "files, GB", "batches/s, first and last epoch", "pages/batch"]]
    for stage, one in done.items():
        limit, size = one.get("limit"), one.get("bytes")
        rates = f"{one['first_rate']:.2f}, {one['rate']:.2f}" if "rate" in one else ""
        rows.append(
            [
                stage,
                f"{one['seconds']:,.0f}",
                f"{one['peak'] / 1e6:,.0f}",
                "" if limit is None else f"{limit / 1e6:,.0f}",
                f"{one['read_bytes'] / 1e9:.1f}",
                "" if size is None else f"{size / 1e9:.2f}",
                rates,
                f"{one['pages']:,.0f}" if "pages" in one else "",
            ]
        )
    return timing.markdown(rows)


def choose_dtype(home: Path, fraction: float) -> str:
    """float16 where the disk has room for its build, else int8.

    Raises
    ------
    OSError
        If it has not even room for that.
    """
    free = shutil.disk_usage(home).free - DISK_LEFT
    for dtype in ("float16", "int8"):
        needed = Shape(fraction, dtype, home).disk_bytes()
        if needed <= free:
            return dtype
    raise OSError(f"{home} needs {(needed + DISK_LEFT) / 1e9:.0f} GB of free disk")


def measure(options: argparse.Namespace, home: Path) -> dict[str, Any]:
    """Every stage that is not done; the state is written after each."""
    state = home / "state.json"
    if not state.exists():
        dtype = options.dtype or choose_dtype(home, options.fraction)
        state.write_text(json.dumps({"dtype": dtype, "done": {}}))
    known = json.loads(state.read_text())
    for part in (options.fraction * TENTH, options.fraction):
        shape = Shape(part, known["dtype"], home / f"part-{part:g}")
        stages: dict[str, Callable[[], dict[str, Any]]] = {
            "edges": lambda shape=shape: limited_build("edges", shape, options),  # type: ignore[misc]
            "rows": lambda shape=shape: limited_build("rows", shape, options),  # type: ignore[misc]
            "train": lambda shape=shape: train_stage(shape, options),  # type: ignore[misc]
            "count": lambda shape=shape: count_stage(shape),  # type: ignore[misc]
        }
        for name, run in stages.items():
            stage = f"{name} {part:g}"
            if stage not in known["done"]:
                print(
                    f"{stage} ({shape.nodes:,} nodes, {shape.edges:,} edges) ...", file=sys.stderr
                )
                known["done"][stage] = run()
                state.write_text(json.dumps(known, indent=1))
                print(f"{stage}: {known['done'][stage]}", file=sys.stderr)
        if part != options.fraction:
            shutil.rmtree(shape.folder, ignore_errors=True)
    return machine.conditions(
        "papers100m",
        home,
        settings=timing.settings(options),
        dtype=known["dtype"],
        done=known["done"],
    )


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = timing.parser_of("benchmarks.papers100m", __doc__, scale=None)
    add = parser.add_argument
    add("--fraction", type=float, default=1.0, help="of the whole, such as 0.01")
    add("--dtype", choices=("float16", "int8"), help="of the rows; default: what the disk holds")
    add("--fanouts", type=int, nargs="+", default=[15, 10, 5])
    add("--batch-size", type=int, default=1024)
    add("--hidden", type=int, default=256)
    add("--epochs", type=int, default=2)
    add("--most-seconds", type=float, default=1200.0, help="of an epoch")
    add("--clean", action="store_true", help="remove what an interrupted call has left, and end")
    add("--keep", action="store_true", help="leave the folder at the end")
    options = parser.parse_args(arguments)
    if options.quick:
        options.fraction, options.batch_size, options.hidden = 0.0005, 64, 16
        options.most_seconds = 5.0
    if not 0 < options.fraction <= 1:
        parser.error("--fraction must be above 0 and at most 1")
    timing.require_positive(parser, options, ["threads", "epochs", "batch_size"])
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures what is not measured, and prints all of it."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["--child"]:
        stage, part, dtype, folder, threads = given[1:]
        print(json.dumps(build_stage(stage, Shape(float(part), dtype, Path(folder)), int(threads))))
        return 0
    options = parse(given)
    home = options.data / f"papers100m-{options.fraction:g}"
    if options.clean:
        shutil.rmtree(home, ignore_errors=True)
        return 0
    home.mkdir(parents=True, exist_ok=True)
    found = measure(options, home)
    whole = f"{options.fraction:g}"
    lines = [
        f"{NODES * options.fraction:,.0f} nodes, {EDGES * options.fraction:,.0f} edges, {COLUMNS} "
        f"columns of {found['dtype']}; graphzero.build in {BUILD_LIMIT}",
        f"{options.threads} threads, batches of {options.batch_size} seeds, fanouts "
        f"{options.fanouts}, GraphSAGE of {options.hidden}, 'auto', from a cold cache",
    ]
    print(machine.heading(found, lines), table(found["done"]), sep="\n\n")
    rates = [
        found["done"][f"train {part}"]["rate"] for part in (f"{options.fraction * TENTH:g}", whole)
    ]
    print("", f"batches/s of the whole against the tenth: {rates[1] / rates[0]:.2f}", sep="\n")
    print("", *prediction(found["done"], whole), sep="\n")
    timing.write_json(options, found)
    if not options.keep:
        shutil.rmtree(home)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leave no group and no process behind
    sys.exit(main())
