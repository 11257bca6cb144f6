"""Draws the pictures of README, docs/results.md and docs/how-a-batch-is-read.md.

``python .ci/pictures.py`` in the source folder, with graphzero and matplotlib installed; it prints
figures that texts name. What was measured is read from the tables of docs/benchmarks.md. What is
counted here is of the graph of docs/out-of-core.md: R-MAT, 262,144 nodes, 4 M edges, 128 float32
columns, hot order.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import graphzero as gz

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # last: an installed graphzero is compiled
from benchmarks.inputs import rmat_chunks  # noqa: E402

NODES, EDGES, COLUMNS, SEEDS, FANOUTS = 262_144, 4_000_000, 128, 1024, [15, 10, 5]
PAGE, GAP_PAGES, BUFFER_PAGES, BATCHES, KEPT = 4096, 3, 16, 40, 0.2
GROWTH_EDGES = (4e6, 32e6, 256e6, 1.6e9)  # the columns of that table
GROUPS = (1, 2, 4, 8, 16, 32)  # batches whose rows are read together
# Inches: as wide as a phone, where text keeps its size
WIDTH = 5.0
BLUE, ORANGE, GREY = "#3f51b5", "#e08a00", "#777777"


def save(figure: Figure, name: str, folder: Path) -> None:
    """As SVG whose bytes depend on nothing else than the picture, and whose texts are texts."""
    mpl.rcParams |= {"svg.hashsalt": name, "svg.fonttype": "none"}
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None}, facecolor="white")


def table_of(heading: str, number: int = 0) -> list[list[str]]:
    """The cells of a table of docs/benchmarks.md, by the heading that it is under."""
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    tables = re.findall(r"(?:^\|.*\|\n)+", section, re.MULTILINE)
    lines = tables[number].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def text_of(cell: str) -> str:
    """The first number of a cell, as it is written."""
    return re.findall(r"\d[\d,.]*", cell)[0]


def number_of(text: str) -> float:
    """Of a number as texts write it."""
    return float(text.replace(",", ""))


def axes_of(height: float, width: float = WIDTH) -> tuple[Figure, Any]:
    """One plot without a frame."""
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def draw_bars(axes: Any, texts: Mapping[str, str], unit: str = "") -> None:
    """Horizontal bars with their numbers; the last one is graphzero's best."""
    colors = [GREY] + [BLUE] * (len(texts) - 2) + [ORANGE]
    values = [number_of(text) for text in texts.values()]
    axes.barh(list(texts), values, color=colors)
    for y, (value, text) in enumerate(zip(values, texts.values(), strict=True)):
        axes.annotate(text + unit, (value, y), (4, 0), textcoords="offset points", va="center")
    axes.set_xlim(0, 1.25 * max(values))
    axes.set_xticks([])
    axes.invert_yaxis()
    axes.spines["bottom"].set_visible(False)


def draw_stages(folder: Path) -> None:
    """Which batch each stage works on at a time: a sketch, its lengths are those of no machine."""
    figure, axes = axes_of(2.0)
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
            middle = begin + lanes[lane] / 2
            axes.text(middle, y, batch, color="white", size="small", ha="center", va="center")
    axes.set_yticks(range(len(lanes)), ["train", "place", "read", "sample"])
    axes.set_xticks([])
    axes.set_xlabel("time →")
    save(figure, "stages", folder)


def draw_use(uses: np.ndarray, folder: Path) -> None:
    """How often rows are used, by their place in the file."""
    figure, axes = axes_of(2.6)
    mean = uses.reshape(256, -1).mean(axis=1) / BATCHES
    place = (np.arange(256) + 0.5) / 256
    axes.fill_between(place, mean, where=place <= KEPT, color=BLUE, label="kept in memory")
    axes.fill_between(place, mean, where=place >= KEPT, color=ORANGE, label="read when needed")
    axes.set(xlabel="place of the row in the file", ylabel="share of batches\nthat use it")
    axes.set(xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False)
    save(figure, "use", folder)


def draw_reads(counts: Mapping[str, float], folder: Path) -> None:
    """From rows to reads."""
    figure, axes = axes_of(1.8)
    draw_bars(axes, {name: f"{count:,.0f}" for name, count in counts.items()})
    save(figure, "reads", folder)


def draw_groups(reads: Mapping[int, float], folder: Path) -> None:
    """Reads of a batch, by how many batches are read together."""
    figure, axes = axes_of(2.2)
    draw_bars(axes, {f"{size}": f"{count:,.0f}" for size, count in reads.items()})
    axes.set(
        ylabel="batches\nread together", title="Reads for a batch, a fifth of the rows in memory"
    )
    save(figure, "groups", folder)


def draw_rows(folder: Path) -> None:
    """Seconds for the rows of a mini-batch, in hot order: by the best way, and by each."""
    rows = table_of("Reading rows under a memory limit")[2:]
    names = {
        "`numpy.memmap` indexed": "numpy.memmap",
        "page faults": "page faults",
        '"uring", nothing resident': '"uring", nothing resident',
        '"uring", a fifth': '"uring", a fifth resident',
        '"willneed", a fifth': '"willneed", a fifth resident',
        '"auto"': '"auto"',
    }
    seconds = {}
    for begin, name in names.items():
        (cells,) = [row[1:3] for row in rows if row[0].startswith(begin)]
        seconds[name] = text_of(cells[1] or cells[0])
    best = {"numpy.memmap": seconds["numpy.memmap"], "graphzero": seconds['"auto"']}
    for name, values, height in (("rows", best, 1.6), ("strategies", seconds, 2.6)):
        figure, axes = axes_of(height)
        draw_bars(axes, values, " s")
        figure.suptitle("The rows of one mini-batch,\nof 2 GiB of features, in 640 MiB of memory")
        save(figure, name, folder)


def draw_growth(folder: Path) -> None:
    """Milliseconds a batch against edges."""
    rows = table_of("Growth")
    figure, axes = axes_of(3.2)
    for work, name, color in (
        ("training", "training GraphSAGE", BLUE),
        ("loading", "loader with features", ORANGE),
    ):
        (begin,) = [line for line, row in enumerate(rows) if row[0].startswith(name)]
        for line, state, style in ((begin + 2, "a third", "o--"), (begin, "all", "o-")):
            costs = [number_of(text_of(cell)) for cell in rows[line][1:]]
            label = f"{work}, {state} in memory"
            axes.loglog(GROWTH_EDGES, costs, style, color=color, label=label)
    axes.set(xlabel="edges", ylabel="milliseconds a batch")
    axes.legend(frameon=False, fontsize="small")
    save(figure, "growth", folder)


def draw_inference(folder: Path) -> None:
    """Seconds of inference for every node."""
    rows = table_of("Inference under a memory limit")[2:]
    figure, axes = axes_of(1.5)
    names = ("all the memory it wants", "1 GB")
    seconds = {name: text_of(row[1]) for name, row in zip(names, rows, strict=True)}
    draw_bars(axes, seconds, " s")
    figure.suptitle("GraphSAGE for 4 M nodes, 64 M edges, 1.1 GB of features")
    save(figure, "inference", folder)


def draw_builds(folder: Path) -> None:
    """Edges a second from CSV."""
    rows = table_of("Building")[2:]
    figure, axes = axes_of(1.7)
    rates = {row[0].split(",")[0]: text_of(row[1]) for row in reversed(rows)}
    draw_bars(axes, rates, " M/s")
    figure.suptitle("32 M edges from CSV, edges a second")
    save(figure, "builds", folder)


def reads_of(pages: list[int]) -> int:
    """Reads for ascending pages: over small gaps, none longer than a buffer."""
    reads, begin, before = 0, -1 << 40, -1 << 40
    for page in pages:
        if page - before > GAP_PAGES + 1 or page - begin >= BUFFER_PAGES:
            reads, begin = reads + 1, page
        before = page
    return reads


def draw_measured(folder: Path) -> None:
    """What tables of docs/benchmarks.md say."""
    draw_rows(folder)
    draw_growth(folder)
    draw_inference(folder)
    draw_builds(folder)


def together(pages: Sequence[np.ndarray], size: int) -> float:
    """Reads of a batch, where those of `size` batches are read together."""
    groups = [pages[first : first + size] for first in range(0, max(GROUPS), size)]
    reads = sum(reads_of(np.unique(np.concatenate(group)).tolist()) for group in groups)
    return reads / max(GROUPS)


def main() -> None:
    """Samples, counts, draws."""
    folder = ROOT / "docs" / "pictures"
    uses, per_batch, missing = np.zeros(NODES, np.int64), [], []
    with tempfile.TemporaryDirectory() as data:
        edges = np.concatenate(list(rmat_chunks(NODES, EDGES, threads=1)))
        with gz.build(data, edges=edges, num_nodes=NODES, order="hot") as ds:
            rng = np.random.default_rng(0)
            seeds = rng.permutation(np.flatnonzero(np.diff(ds.graph.indptr)))
            sampler = gz.NeighborSampler(ds.graph, FANOUTS)
            for batch in range(BATCHES):
                chosen = ds.graph.to_user(seeds[batch * SEEDS : (batch + 1) * SEEDS])
                rows = np.sort(sampler.sample(chosen, batch=batch).stored_id)
                uses[rows] += 1
                pages = np.unique(rows * COLUMNS * 4 // PAGE)
                cold = pages[pages >= KEPT * NODES * COLUMNS * 4 // PAGE]
                missing.append(cold)
                per_batch.append((len(rows), len(pages), len(cold), reads_of(cold.tolist())))
    counts = np.mean(per_batch, axis=0)
    names = ("rows", "pages that they lie on", "pages not in memory", "reads")
    print(dict(zip(names, counts.round().astype(int).tolist(), strict=True)))
    print(
        f"first {KEPT:.0%} of rows: {uses[: int(KEPT * NODES)].sum() / uses.sum():.0%} of the uses"
    )
    reads = {size: together(missing, size) for size in GROUPS}
    print("reads of a batch, by batches read together:", reads)
    draw_stages(folder)
    draw_use(uses, folder)
    draw_reads(dict(zip(names, counts.tolist(), strict=True)), folder)
    draw_groups(reads, folder)
    draw_measured(folder)


if __name__ == "__main__":
    main()
