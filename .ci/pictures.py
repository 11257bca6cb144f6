"""Draws the pictures of README and docs/how-a-batch-is-read.md; prints figures that its text names.

``python .ci/pictures.py`` in the source folder, with graphzero and matplotlib installed. The graph
is that of docs/out-of-core.md: R-MAT, 262,144 nodes, 4 M edges, 128 float32 columns, hot order.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import graphzero as gz

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from benchmarks.inputs import rmat_chunks  # noqa: E402

NODES, EDGES, COLUMNS, SEEDS, FANOUTS = 262_144, 4_000_000, 128, 1024, [15, 10, 5]
PAGE, GAP_PAGES, BUFFER_PAGES, BATCHES, KEPT = 4096, 3, 16, 40, 0.2
ROWS_SECONDS = {"numpy.memmap": 3.66, "graphzero": 0.082}  # of docs/benchmarks.md
BLUE, ORANGE, GREY = "#3f51b5", "#e08a00", "#777777"


def save(figure: Figure, name: str) -> None:
    """As SVG whose bytes depend on nothing else than the picture."""
    mpl.rcParams["svg.hashsalt"] = name
    path = ROOT / "docs" / "pictures" / f"{name}.svg"
    figure.savefig(path, metadata={"Date": None}, facecolor="white")


def axes_of(width: float, height: float) -> tuple[Figure, Any]:
    """One plot without a frame."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def draw_stages() -> None:
    """Which batch each stage works on at a time: a sketch, its lengths are those of no machine."""
    figure, axes = axes_of(8, 2.4)
    lanes = {"train": 1.0, "place": 0.25, "fetch": 0.85, "sample": 0.5}
    free = dict.fromkeys(lanes, 0.0)
    for batch in range(6):
        ready = 0.0
        for lane in ("sample", "fetch", "place", "train"):
            begin = max(ready, free[lane])
            ready = free[lane] = begin + lanes[lane]
            y = list(lanes).index(lane)
            color = ORANGE if lane == "train" else BLUE
            axes.barh(y, lanes[lane], left=begin, color=color, edgecolor="white", height=0.8)
            axes.text(begin + lanes[lane] / 2, y, batch, color="white", ha="center", va="center")
    axes.set_yticks(range(len(lanes)), list(lanes))
    axes.set_xticks([])
    axes.set_xlabel("time →")
    save(figure, "stages")


def draw_use(uses: np.ndarray) -> None:
    """How often rows are used, by their place in the file."""
    figure, axes = axes_of(8, 2.8)
    mean = uses.reshape(256, -1).mean(axis=1) / BATCHES
    place = (np.arange(256) + 0.5) / 256
    axes.fill_between(place, mean, where=place <= KEPT, color=BLUE, label="kept in memory")
    axes.fill_between(place, mean, where=place >= KEPT, color=ORANGE, label="read when needed")
    axes.set(xlabel="place of the row in the file", ylabel="share of batches that use it")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False)
    save(figure, "use")


def draw_reads(counts: dict[str, float]) -> None:
    """From rows to reads."""
    figure, axes = axes_of(8, 2.2)
    names, values = list(counts)[::-1], list(counts.values())[::-1]
    axes.barh(names, values, color=[ORANGE, BLUE, BLUE, GREY])
    for y, value in enumerate(values):
        axes.text(value, y, f" {value:,.0f}", va="center")
    axes.set_xticks([])
    axes.spines["bottom"].set_visible(False)
    save(figure, "reads")


def draw_rows(seconds: dict[str, float]) -> None:
    """Seconds for the rows of a mini-batch."""
    figure, axes = axes_of(8, 1.6)
    axes.barh(list(seconds), list(seconds.values()), color=[GREY, ORANGE])
    for y, value in enumerate(seconds.values()):
        axes.text(value, y, f" {value:.3g} s", va="center")
    axes.set_title("The rows of one mini-batch, of 2 GiB of features, in 640 MiB of memory")
    axes.set_xticks([])
    axes.invert_yaxis()
    axes.spines["bottom"].set_visible(False)
    save(figure, "rows")


def reads_of(pages: list[int]) -> int:
    """Reads for ascending pages: over small gaps, none longer than a buffer."""
    reads, begin, before = 0, -1 << 40, -1 << 40
    for page in pages:
        if page - before > GAP_PAGES + 1 or page - begin >= BUFFER_PAGES:
            reads, begin = reads + 1, page
        before = page
    return reads


def main() -> None:
    """Samples, counts, draws."""
    uses, per_batch = np.zeros(NODES, np.int64), []
    with tempfile.TemporaryDirectory() as folder:
        edges = np.concatenate(list(rmat_chunks(NODES, EDGES, threads=1)))
        with gz.build(folder, edges=edges, num_nodes=NODES, order="hot") as ds:
            rng = np.random.default_rng(0)
            seeds = rng.permutation(np.flatnonzero(np.diff(ds.graph.indptr)))
            sampler = gz.NeighborSampler(ds.graph, FANOUTS)
            for batch in range(BATCHES):
                chosen = ds.graph.to_user(seeds[batch * SEEDS : (batch + 1) * SEEDS])
                rows = np.sort(sampler.sample(chosen, batch=batch).stored_id)
                uses[rows] += 1
                pages = np.unique(rows * COLUMNS * 4 // PAGE)
                cold = pages[pages >= KEPT * NODES * COLUMNS * 4 // PAGE]
                per_batch.append((len(rows), len(pages), len(cold), reads_of(cold.tolist())))
    counts = np.mean(per_batch, axis=0)
    names = ("rows", "pages that they lie on", "pages not in memory", "reads")
    print(dict(zip(names, counts.round().astype(int).tolist(), strict=True)))
    print(
        f"first {KEPT:.0%} of rows: {uses[: int(KEPT * NODES)].sum() / uses.sum():.0%} of the uses"
    )
    draw_stages()
    draw_use(uses)
    draw_rows(ROWS_SECONDS)
    draw_reads(dict(zip(names, counts.tolist(), strict=True)))


if __name__ == "__main__":
    main()
