"""`write_page`: the report of a recording as one HTML file with four charts (needs matplotlib).

The file refers to nothing outside itself and runs no script; its content policy says so. Charts are
images in it, so that their names and styles meet nothing else.
"""

from __future__ import annotations

import base64
import importlib.util
import io
import os
import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from graphzero.loader.stats import BatchTotals
from graphzero.report.recording import FileReading, Reading, Recording
from graphzero.report.summary import (
    counted,
    of_group,
    over_processes,
    page_cache,
    summarize,
    summary_rows,
)
from graphzero.report.verdict import seconds_text
from graphzero.store.atomic import write_atomically
from graphzero.units import escaped, format_bytes, html_table, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
WIDTH, MOST_FILES = 9.0, 24
# Okabe and Ito's palette, which colour-blind readers can tell apart.
ORANGE, SKY, GREEN, YELLOW = "#e69f00", "#56b4e9", "#009e73", "#f0e442"
BLUE, VERMILION, GREY = "#0072b2", "#d55e00", "#bbbbbb"
MEMORY = {"anonymous": "anonymous", "mapped files": "file", "shared": "shared"}
PREPARATION = {"sampling": GREEN, "disk": VERMILION, "gathering": YELLOW, "ready": GREY}
LOOP = {"training": BLUE, "stall": VERMILION}
STYLES = """
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem; color: #222; background: #fff;
  font: 16px/1.45 system-ui, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
h1 { font: 1.25rem/1.35 ui-monospace, Consolas, monospace; }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.verdict { font-size: 1.15rem; }
figure { margin: 0; break-inside: avoid; }
figcaption, .when { font-size: .875rem; color: #444; }
img { display: block; width: 100%; height: auto; }
table { border-collapse: collapse; font-size: .875rem; width: 100%; }
td { text-align: left; vertical-align: top; padding: .2rem 1.5rem .2rem 0;
  border-bottom: 1px solid #e2e2e2; }
"""


def require_matplotlib() -> None:
    """Raises an `ImportError` that says how to get it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError("the page of a report needs matplotlib: pip install graphzero[report]")


def write_page(path: str | os.PathLike[str], recording: Recording) -> None:
    """Writes the page of a recording; an existing file is replaced in one step."""
    require_matplotlib()
    write_atomically(path, page_text(recording).encode())


def page_text(recording: Recording) -> str:
    """The page of a recording; the same recording gives the same text."""
    summary = summarize(recording)
    command = shlex.join(recording.command) or "unknown command"
    rows = [
        (name, text) for name, text in summary_rows(summary) if name not in ("verdict", "to do")
    ]
    charts = {
        "memory": ("Memory and page cache", _draw_memory),
        "residency": ("Which parts of each file are in memory at the end", _draw_residency),
        "throughput": ("Read throughput", _draw_throughput),
        "epochs": ("Where the time of each epoch went", _draw_epochs),
    }
    figures = "\n".join(
        f'<figure id="{name}">\n<h2>{title}</h2>\n{_chart(name, title, draw, recording)}\n</figure>'
        for name, (title, draw) in charts.items()
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escaped(POLICY)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>graphzero: {escaped(command[:60])}</title>
<style>{STYLES}</style>
</head>
<body>
<h1>{escaped(command[:400])}</h1>
<p class="when">{escaped(recording.started)}, {escaped(seconds_text(recording.seconds))}</p>
<p class="verdict">{escaped(summary.verdict.sentence)}</p>
<p>{escaped(summary.verdict.knob)}</p>
{figures}
<h2>Figures</h2>
{html_table(rows)}
<h2>Conditions</h2>
{html_table(_conditions(recording))}
</body>
</html>
"""


def _conditions(recording: Recording) -> Iterator[Sequence[object]]:
    for name, value in {**recording.environment, **recording.options}.items():
        if name == "memory" and isinstance(value, int):
            value = format_bytes(value)
        yield name.replace("_", " "), value or "unknown"


class _NothingKnown(Exception):
    """There is nothing to draw; the message says why."""


def _chart(name: str, title: str, draw: Callable[[Axes, Recording], str], of: Recording) -> str:
    """A chart as an image with its caption, or why there is none."""
    import matplotlib.style
    from matplotlib.figure import Figure

    style: dict[Any, object] = {
        "svg.hashsalt": name,
        "svg.fonttype": "none",
        "font.size": 9,
        "font.family": "sans-serif",
    }
    with matplotlib.style.context("default"), matplotlib.rc_context(style):
        rows = min(MOST_FILES, len(of.files)) if name == "residency" else 10
        figure = Figure(figsize=(WIDTH, 0.6 + 0.22 * rows), layout="constrained")
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        try:
            caption = draw(axes, of)
        except _NothingKnown as reason:
            return f"<p>unknown ({escaped(reason)})</p>"
        image = io.BytesIO()
        with warnings.catch_warnings():  # the browser may have glyphs that matplotlib's font lacks
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            figure.savefig(image, format="svg", metadata={"Date": None, "Creator": None})
    content = base64.b64encode(image.getvalue()).decode()
    picture = f'<img alt="{escaped(title)}" src="data:image/svg+xml;base64,{content}">'
    return f"{picture}\n<figcaption>{escaped(caption)}</figcaption>"


def _label(axes: Axes, unit: str) -> None:
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds since the start")
    axes.set_ylabel(unit)
    axes.grid(axis="y", color="#dddddd", linewidth=0.5)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _draw_memory(axes: Axes, recording: Recording) -> str:
    """Parts of the memory of all processes, stacked; other figures as lines."""
    readings = recording.readings
    lines: dict[str, tuple[str, Callable[[Reading], float | None]]] = {
        "resident (RSS)": (ORANGE, over_processes("rss")),
        "each page once (PSS)": (YELLOW, over_processes("pss")),
        "page cache of the files": (BLUE, page_cache),
        "memory group": (VERMILION, of_group("usage")),
    }
    split = [reading for reading in readings if over_processes("shared")(reading) is not None]
    moments = [reading.seconds for reading in split]
    parts = [[(over_processes(part)(r) or 0) / 1e9 for r in split] for part in MEMORY.values()]
    if split:
        axes.stackplot(moments, *parts, labels=MEMORY, colors=[ORANGE, SKY, GREEN])
    for label, (color, figure) in lines.items():
        values = [(r.seconds, size / 1e9) for r in readings if (size := figure(r)) is not None]
        if values:
            seconds, sizes = zip(*values, strict=True)
            axes.plot(seconds, sizes, label=label, color=color)
    if not axes.lines:
        raise _NothingKnown("no process was seen")
    limits = [r.group.limit for r in readings if r.group is not None and r.group.limit is not None]
    if limits and limits[-1] < 2e9 * max(axes.get_ylim()):
        axes.axhline(limits[-1] / 1e9, label="limit of the group", color="black", ls="--")
    _label(axes, "GB")
    kind = "summed over processes" if split else "resident; its parts are unknown"
    return f"Memory of all processes, {kind}."


def _draw_residency(axes: Axes, recording: Recording) -> str:
    """A strip for each file, darker where more of a part is in the page cache."""
    files = sorted((f for f in recording.files if f.size), key=lambda file: -file.size)
    shown = [file for file in files if file.residency][:MOST_FILES]
    if not shown:
        raise _NothingKnown("no file of a dataset was seen, or the system does not tell")
    for n, file in enumerate(shown):
        axes.imshow(
            [file.residency or []], "Blues", vmin=0, vmax=1, extent=(0, 1, n + 0.5, n - 0.5)
        )
    axes.set_aspect("auto")
    axes.set_ylim(len(shown) - 0.5, -0.5)
    for text in axes.set_yticks(range(len(shown)), map(_strip_name, shown)):
        text.label1.set_parse_math(False)
    axes.set_xticks([0, 0.5, 1], ["begin", "middle", "end of the file"])
    others = len(files) - len(shown)
    more = f" {others} further files are not shown." if others else ""
    return f"From 0 (white) to 100 % (dark blue) of each part.{more}"


def _strip_name(file: FileReading) -> str:
    name = printable(os.path.basename(file.path))
    share = "unknown" if file.page_cache is None else f"{file.page_cache / file.size:.0%}"
    return f"{name[:30]}, {format_bytes(file.size)}, {share}"


def _draw_throughput(axes: Axes, recording: Recording) -> str:
    """Bytes a second from the device and by the processes."""
    counters: dict[str, tuple[Callable[[Reading], float | None], str]] = {
        "device, by anyone": (lambda r: r.device_bytes, BLUE),
        "these processes": (over_processes("read_bytes"), ORANGE),
    }
    is_drawn = False
    for label, (counter, color) in counters.items():
        moments, values = counted(recording.readings, counter)
        points = zip(moments, values, strict=True)
        pairs = [(a, b) for a, b in pairwise(points) if b[0] > a[0]]
        if pairs:
            is_drawn = True
            rates = [(b[1] - a[1]) / (b[0] - a[0]) / 1e6 for a, b in pairs]
            edges = [pairs[0][0][0], *(b[0] for _, b in pairs)]
            axes.stairs(rates, edges, label=label, color=color)
    if not is_drawn:
        raise _NothingKnown("a rate needs two readings, of counters that the system has")
    _label(axes, "MB/s")
    return "Bytes read a second."


def _draw_epochs(axes: Axes, recording: Recording) -> str:
    """Two bars for each epoch: the preparation of mini-batches, and the training loop."""
    whole = recording.readings[-1].batches if recording.readings else BatchTotals()
    epochs = {str(e): totals for e, totals in recording.epochs.items()} or {"whole run": whole}
    if not any(totals.batches or totals.steps for totals in epochs.values()):
        raise _NothingKnown("no mini-batch was seen")
    shown = list(epochs.items())[-40:]
    for side, parts in ((-0.21, PREPARATION), (0.21, LOOP)):
        below = [0.0] * len(shown)
        for name, color in parts.items():
            values = [float(getattr(totals, name)) for _, totals in shown]
            label = {"disk": "waiting for the disk", "ready": "waiting to be taken"}.get(name, name)
            at = [n + side for n in range(len(shown))]
            axes.bar(at, values, 0.4, below, color=color, label=label)
            below = [b + v for b, v in zip(below, values, strict=True)]
    _label(axes, "seconds")
    axes.set_xlabel("epoch")
    axes.set_xticks(range(len(shown)), [name for name, _ in shown])
    return (
        "Left bars: preparation, seconds of all threads and workers, which run side by side. "
        "Right bars: the training loop, which works or waits for mini-batches (stall)."
    )
