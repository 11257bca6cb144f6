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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import graphzero as gz
from benchmarks import machine, timing
from benchmarks.disk_probe import BLOCK_BYTES
from benchmarks.growth import DISK_LEFT, FANOUTS
from benchmarks.inputs import label_chunks, rmat_chunks, row_chunks
from benchmarks.ordering import SHAPES, node_pages
from benchmarks.peers import limited
from graphzero.report.limited_memory import limited_group

NODES, EDGES, ROW_BYTES = SHAPES["papers100M"]
COLUMNS, TRAINING_NODES = 128, 1_207_179  # of ogbn-papers100M
BUILD_BYTES, BUILD_LIMIT = 4_000_000_000, "2500MB"  # of the group, and of graphzero.build
TRAIN_BYTES, LEAST_BYTES, HIDDEN = 12_000_000_000, 64 << 20, 256
WIDTHS = {"float16": 2, "int8": 1}
DISK_AN_EDGE = 22  # bytes: both ends, sorted pieces and lists
TOPOLOGY = 8 * NODES + 4 * EDGES  # bytes, as docs/scale.md has it
# The laptop of docs/scale.md: a tenth of its memory is left alone.
LAPTOP, LEFT_ALONE, NVME_READS, OF_THE_DISK = 16e9, 0.1, 500_000, 0.95
SHOWN = ("seconds", "peak MB", "limit MB", "read GB", "files GB", "batches/s", "later", "pages")


def figures(seconds: float, peak: int, limit: int, read_bytes: int) -> dict[str, float]:
    """Of a stage; the peak is that of anonymous memory."""
    return dict(zip(SHOWN, (seconds, peak / 1e6, limit / 1e6, read_bytes / 1e9), strict=False))


@dataclass(frozen=True)
class Part:
    """A part of the graph: its share, dtype of rows, and folder."""

    share: float
    dtype: str
    folder: Path

    def build(self, stage: str, threads: int) -> dict[str, Any]:
        """A stage of the build, in this process."""
        nodes = int(NODES * self.share)
        before = machine.read_counters(self.folder.parent)
        with machine.PeakAnonymous() as anonymous:
            if stage == "edges":
                chunks = rmat_chunks(nodes, int(EDGES * self.share), threads=threads)
                ends = ((chunk[:, 0], chunk[:, 1]) for chunk in chunks)
                gz.build(self.folder, ends, num_nodes=nodes, memory_limit=BUILD_LIMIT).close()
            else:
                rows, rng = row_chunks(nodes, COLUMNS, self.dtype), np.random.default_rng(0)
                gz.set_attribute(self.folder, "x", rows, memory_limit=BUILD_LIMIT).close()
                gz.set_attribute(
                    self.folder, "y", label_chunks(nodes), memory_limit=BUILD_LIMIT
                ).close()
                count = max(1, int(TRAINING_NODES * self.share))
                train = rng.permutation(np.unique(rng.integers(0, nodes, count)))
                gz.set_split(self.folder, "train", train).close()
        cost = machine.read_counters(self.folder).since(before)
        size = sum(path.stat().st_size for path in self.folder.iterdir())
        found = figures(cost.seconds, anonymous.peak, BUILD_BYTES, cost.read_bytes)
        return {**found, "files GB": size / 1e9}

    def limited_build(self, options: argparse.Namespace, *, stage: str) -> dict[str, Any]:
        """The same in a process of its own, in a memory group."""
        command = [sys.executable, "-m", "benchmarks.papers100m", "--child", stage, self.dtype]
        command += [str(each) for each in (self.share, self.folder, options.threads)]
        with limited_group(BUILD_BYTES) as group:
            done = subprocess.run([*group.prefix, *command], stdout=subprocess.PIPE, check=True)
        return dict(json.loads(done.stdout))

    def train(self, options: argparse.Namespace) -> dict[str, Any]:
        """Epochs of GraphSAGE in limited memory, from a cold cache."""
        seeds = self.folder.parent / "seeds.npy"
        with gz.open(self.folder) as ds:
            train = np.array(ds.splits["train"])  # a view would keep the file open
        np.save(seeds, np.resize(train, (-(-train.size // options.batch_size), options.batch_size)))
        request: dict[str, Any] = {"op": "load", "seeds": str(seeds), "fanouts": FANOUTS}
        request |= {"train": {"hidden": HIDDEN}, "most_seconds": options.most_seconds}
        requests = [{**request, "number": epoch} for epoch in range(options.epochs)]
        room = max(int(TRAIN_BYTES * self.share), LEAST_BYTES)
        shorter = {"most_seconds": 20.0} if self.share < 1 else None
        epochs, limit = limited(self.folder, options, requests, room, shorter)
        rates = [len(epoch["laps"]) / epoch["seconds"] for epoch in epochs]
        seconds, read = (sum(epoch[key] for epoch in epochs) for key in ("seconds", "read_bytes"))
        peak, last, batches = (
            max(e["anonymous"] for e in epochs),
            epochs[-1],
            len(epochs[-1]["laps"]),
        )
        found = {**figures(seconds, peak, limit, read), "batches/s": rates[0], "later": rates[-1]}
        found["pages"] = last["read_bytes"] / BLOCK_BYTES / batches
        return {**found, "computing": (last["seconds"] - last["waited"]) / batches}

    def count(self, _: argparse.Namespace) -> dict[str, Any]:
        """Pages of float32 rows that a mini-batch reads on as large a part of the laptop."""
        room = self.share * ((1 - LEFT_ALONE) * LAPTOP - TOPOLOGY)
        with machine.Stopwatch() as watch:
            found = node_pages(
                str(self.folder), gz.Presample(), [int(room) // BLOCK_BYTES], ROW_BYTES
            )
        return {"seconds": watch.seconds, "pages": found[0]}


STAGES: dict[str, Callable[[Part, argparse.Namespace], dict[str, Any]]] = {
    **{stage: partial(Part.limited_build, stage=stage) for stage in ("edges", "rows")},
    "train": Part.train,
    "count": Part.count,
}


def prediction(pages: float, computing: float) -> list[str]:
    """The float32 original on the laptop, with the arithmetic."""
    by_disk, by_model = OF_THE_DISK * NVME_READS / max(pages, 1.0), 1 / computing
    room = (1 - LEFT_ALONE) * LAPTOP - TOPOLOGY
    return [
        "The float32 original, predicted for a laptop of 16 GB with an NVMe:",
        f"- 16 GB less a tenth and {TOPOLOGY / 1e9:.1f} GB of topology leave {room / 1e9:.1f} GB "
        f"for {ROW_BYTES * NODES / 1e9:.0f} GB of rows",
        f"- pages of 4 KiB that a batch reads then, counted on this graph: {pages:,.0f}",
        f"- disk: {OF_THE_DISK} x {NVME_READS:,} / {pages:,.0f} = {by_disk:.1f} batches/s",
        f"- these cores without waiting: 1 / {computing:.3f} s = {by_model:.1f} batches/s",
        f"- the lower of the two: {min(by_disk, by_model):.1f} batches/s",
    ]


def measure(options: argparse.Namespace, home: Path) -> dict[str, Any]:
    """Every stage that is not done; the state is written after each."""
    state, free = home / "state.json", shutil.disk_usage(home).free - DISK_LEFT
    if not state.exists():
        # lists, order, and the rows three times: as they come, on their way to order, in order
        needs = {f: TOPOLOGY + (8 + 3 * COLUMNS * w) * NODES for f, w in WIDTHS.items()}
        fits = [dtype for dtype, need in needs.items() if need * options.fraction <= free]
        if not fits or DISK_AN_EDGE * EDGES * options.fraction > free:
            raise OSError(f"{home}: {free / 1e9:.0f} GB of free disk are too few")
        state.write_text(json.dumps({"dtype": fits[0], "done": {}}))
    known = json.loads(state.read_text())
    for share in (options.fraction / 10, options.fraction):
        part = Part(share, known["dtype"], home / f"part-{share:g}")
        for stage, run in STAGES.items():
            if (name := f"{stage} {share:g}") not in known["done"]:
                print(f"{name} ...", file=sys.stderr)
                known["done"][name] = run(part, options)
                state.write_text(json.dumps(known, indent=1))
        if share < options.fraction:
            shutil.rmtree(part.folder, ignore_errors=True)
    return machine.conditions("papers100m", home, settings=timing.settings(options), **known)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = timing.parser_of("benchmarks.papers100m", __doc__, scale=None)
    add = parser.add_argument
    add("--fraction", type=float, default=1.0, help="of the whole, such as 0.01")
    add("--batch-size", type=int, default=1024)
    add("--epochs", type=int, default=2)
    add("--most-seconds", type=float, default=1200.0, help="of an epoch")
    add("--clean", action="store_true", help="remove what an interrupted call has left, and end")
    options = parser.parse_args(arguments)
    if options.quick:
        options.fraction, options.batch_size = 0.0005, 64
    if not 0 < options.fraction <= 1:
        parser.error("--fraction must be above 0 and at most 1")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures what is not measured, and prints all of it."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["--child"]:
        stage, dtype, share, folder, threads = given[1:]
        print(json.dumps(Part(float(share), dtype, Path(folder)).build(stage, int(threads))))
        return 0
    options = parse(given)
    home = options.data / f"papers100m-{options.fraction:g}"
    if not options.clean:
        home.mkdir(parents=True, exist_ok=True)
        found = measure(options, home)
        print(report(options, found))
        timing.write_json(options, found)
    shutil.rmtree(home, ignore_errors=True)
    return 0


def shown(figure: float | None) -> str:
    """Three digits or more."""
    return "" if figure is None else f"{figure:,.0f}" if figure >= 1000 else f"{figure:.3g}"


def report(options: argparse.Namespace, found: dict[str, Any]) -> str:
    """Conditions, a row for each stage, and the prediction."""
    done, whole, tenth = found["done"], f"{options.fraction:g}", f"{options.fraction / 10:g}"
    cells = [[shown(one.get(key)) for key in SHOWN] for one in done.values()]
    rows = [["stage", *SHOWN], *([name, *row] for name, row in zip(done, cells, strict=True))]
    about = (
        f"{options.fraction:.0%} of {NODES:,} nodes and {EDGES:,} edges, {COLUMNS} "
        f"{found['dtype']}; "
        f"{options.threads} threads, {options.batch_size} seeds, {FANOUTS}, GraphSAGE of {HIDDEN}"
    )
    ratio = done[f"train {whole}"]["later"] / done[f"train {tenth}"]["later"]
    told = prediction(done[f"count {whole}"]["pages"], done[f"train {whole}"]["computing"])
    told.insert(0, f"batches/s of the whole against the tenth: {ratio:.2f}\n")
    return "\n\n".join([machine.heading(found, [about]), timing.markdown(rows), "\n".join(told)])


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # leave no group and no process behind
    sys.exit(main())
