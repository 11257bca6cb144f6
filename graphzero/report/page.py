"""`write_page`: the report of a recording as one HTML file with four charts (needs matplotlib).

The file refers to nothing outside itself and runs no script; its content policy says so.
"""

from __future__ import annotations

import html
import importlib.util
import io
import os
import re
import shlex
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from graphzero.loader.stats import BatchTotals
from graphzero.report.recording import FileReading, Reading, Recording
from graphzero.report.summary import (
    Summary,
    over_processes,
    seconds_text,
    summarize,
    summary_rows,
)
from graphzero.store.atomic import write_atomically
from graphzero.units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
WIDTH, MOST_FILES, PARTS, MOST_STRETCHES = 9.0, 24, 64, 300
# Okabe and Ito's palette, which colour-blind readers can tell apart.
ORANGE, SKY, GREEN, YELLOW = "#e69f00", "#56b4e9", "#009e73", "#f0e442"
BLUE, VERMILION, GREY = "#0072b2", "#d55e00", "#bbbbbb"
MEMORY = {"anonymous": ORANGE, "file": SKY, "shared": GREEN}
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
svg { display: block; width: 100%; height: auto; }
table { border-collapse: collapse; font-size: .875rem; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .2rem 1.5rem .2rem 0;
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
<meta http-equiv="Content-Security-Policy" content="{_escaped(POLICY)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>graphzero: {_escaped(command[:60])}</title>
<style>{STYLES}</style>
</head>
<body>
<h1>{_escaped(command[:400])}</h1>
<p class="when">{_escaped(recording.started)}, {_escaped(seconds_text(recording.seconds))}</p>
<p class="verdict">{_escaped(summary.verdict.sentence)}</p>
<p>{_escaped(summary.verdict.knob)}</p>
{figures}
<h2>Figures</h2>
{_table((), rows)}
<h2>Files</h2>
{_table(("file", "size", "in the page cache at the end", "at most"), _file_rows(summary))}
<h2>Conditions</h2>
{_table((), _conditions(recording))}
</body>
</html>
"""


def _plain(value: object) -> str:
    """A text whose invisible characters stand as escapes."""
    text = str(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _escaped(value: object) -> str:
    return html.escape(_plain(value), quote=True)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    def line(values: Sequence[object], name: str) -> str:
        return f"<tr>{''.join(f'<{name}>{_escaped(value)}</{name}>' for value in values)}</tr>"

    body = "\n".join(line(row, "td") for row in rows)
    return f"<table>{line(head, 'th') if head else ''}\n{body}\n</table>"


def _file_rows(summary: Summary) -> Iterator[Sequence[str]]:
    for file in sorted(summary.files, key=lambda each: -each.size):
        sizes = (file.size, file.page_cache, file.most_cached)
        yield file.path, *("unknown" if n is None else format_bytes(n) for n in sizes)


def _conditions(recording: Recording) -> Iterator[Sequence[object]]:
    environment = recording.environment
    for name, value in vars(environment).items():
        if name == "versions":
            continue
        is_bytes = name in ("memory", "disk_rate") and value is not None
        text = format_bytes(int(value)) if is_bytes else value
        reason = f"unknown ({recording.unknown.get(name, 'the system does not tell')})"
        yield name.replace("_", " "), reason if value is None else text
    yield from environment.versions.items()
    yield from recording.options.items()


class _NothingKnown(Exception):
    """There is nothing to draw; the message says why."""


def _chart(name: str, title: str, draw: Callable[[Axes, Recording], str], of: Recording) -> str:
    """A chart as an ``<svg>`` element with its caption, or why there is none."""
    import matplotlib.style
    from matplotlib.figure import Figure

    fonts: Any = {
        "svg.hashsalt": name,
        "svg.fonttype": "none",
        "font.size": 9,
        "hatch.linewidth": 0.5,
    }
    with matplotlib.style.context("default"), matplotlib.rc_context(fonts):
        rows = min(MOST_FILES, len(of.files)) if name == "residency" else 10
        figure = Figure(figsize=(WIDTH, 0.6 + 0.22 * rows), layout="constrained")
        axes = figure.add_subplot()
        axes.spines[["top", "right"]].set_visible(False)
        try:
            caption = draw(axes, of)
        except _NothingKnown as reason:
            return f"<p>unknown ({_escaped(reason)})</p>"
        text = io.StringIO()
        with warnings.catch_warnings():  # the browser may have glyphs that matplotlib's font lacks
            warnings.filterwarnings("ignore", message="Glyph .* missing from")
            figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    for part in (r"<metadata>.*?</metadata>", r"<style[^>]*>.*?</style>", r"<!--.*?-->"):
        svg = re.sub(rf"\s*{part}", "", svg, flags=re.S)
    svg = re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", svg)
    svg = re.sub(r"(font(?:-family)?: [^;\"]*?)'DejaVu Sans'[^;\"]*", r"\1sans-serif", svg)
    svg = svg.replace(' id="', f' id="{name}-').replace("url(#", f"url(#{name}-")
    svg = svg.replace('href="#', f'href="#{name}-')
    opening = f'<svg role="img" aria-label="{_escaped(title)}" '
    return f"{opening}{svg[5:].strip()}\n<figcaption>{_escaped(caption)}</figcaption>"


def _why(recording: Recording, *names: str, otherwise: str) -> _NothingKnown:
    return _NothingKnown(next(filter(None, map(recording.unknown.get, names)), otherwise))


def _label(axes: Axes, unit: str, what: str = "") -> None:
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds since the start")
    axes.set_ylabel(f"{what} ({unit})" if what else unit)
    axes.grid(axis="y", color="#dddddd", linewidth=0.5)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)


def _series(
    recording: Recording, value: Callable[[Reading], float | None]
) -> tuple[list[float], list[float]]:
    """Moments at which a figure is known, and its values; of many, the largest of each stretch."""
    known = [(r.seconds, v) for r in recording.readings if (v := value(r)) is not None]
    step = -(-len(known) // MOST_STRETCHES)
    if step > 1:
        inner = (known[i : min(i + step, len(known) - 1)] for i in range(1, len(known) - 1, step))
        known = [known[0], *(max(part, key=lambda pair: pair[1]) for part in inner), known[-1]]
    return [seconds for seconds, _ in known], [v for _, v in known]


def _draw_memory(axes: Axes, recording: Recording) -> str:
    """Parts of the memory of all processes, stacked; page cache and the group's limit as lines."""
    readings = recording.readings
    has_pss = sum(over_processes("pss_file")(r) is not None for r in readings) >= 4
    lead, kind = (
        ("pss_", "each page once (PSS)") if has_pss else ("", "summed over processes (RSS)")
    )
    parts = {name: _series(recording, over_processes(lead + name)) for name in MEMORY}
    moments, resident = _series(recording, over_processes("rss"))
    if all(values for _, values in parts.values()):
        moments = [r.seconds for r in readings if over_processes(lead + "file")(r) is not None]
        stacks = [[over_processes(lead + name)(r) for r in readings] for name in MEMORY]
        known = [[(v or 0) / 1e9 for v in values if v is not None] for values in stacks]
        step = -(-len(moments) // MOST_STRETCHES)
        names = ("anonymous", "mapped files", "shared")
        drawn = axes.stackplot(
            moments[::step], *(v[::step] for v in known), labels=names, colors=[*MEMORY.values()]
        )
        for name, area in zip(MEMORY, drawn, strict=True):
            area.set_gid(f"series-{name}")
    elif moments:
        kind = "resident; its parts are unknown"
        axes.fill_between(moments, [v / 1e9 for v in resident], label="resident", color=ORANGE)
    else:
        raise _why(recording, "anonymous", "rss", otherwise="no process was seen")
    cached = _series(recording, lambda r: sum(r.page_cache.values()) if r.page_cache else None)
    lines = {
        "page cache of the files": (cached, BLUE),
        "memory group": (
            _series(recording, lambda r: None if r.group is None else r.group.usage),
            VERMILION,
        ),
    }
    for label, ((at, values), color) in lines.items():
        if values:
            axes.plot(
                at, [v / 1e9 for v in values], label=label, color=color, gid=f"series-{label}"
            )
    limits = [r.group.limit for r in readings if r.group is not None and r.group.limit is not None]
    told = ""
    if limits and limits[-1] < 2e9 * max(axes.get_ylim()):
        axes.axhline(limits[-1] / 1e9, label="limit of the group", color="black", ls="--")
    elif limits:
        told = f" The limit of the memory group, {format_bytes(limits[-1])}, is far above."
    _label(axes, "GB")
    return f"Memory of all processes, {kind}.{told}"


def _draw_residency(axes: Axes, recording: Recording) -> str:
    """A strip for each file, darker where more of a part is in the page cache."""
    files = sorted((f for f in recording.files if f.size), key=lambda file: -file.size)
    known = [file for file in files if file.residency]
    if not known:
        raise _why(recording, "files", "page_cache", otherwise="no file of a dataset was seen")
    shown = known[:MOST_FILES]
    shares = [_parts_of(file.residency or (), PARTS) for file in shown]
    mesh = axes.pcolormesh(shares[::-1], cmap="Blues", vmin=0, vmax=1, edgecolors="none")
    mesh.set_gid("strips")
    names = [_strip_name(file) for file in shown]
    for text in axes.set_yticks([n + 0.5 for n in range(len(shown))], names[::-1]):
        text.label1.set_parse_math(False)
    axes.set_xticks([0, PARTS / 2, PARTS], ["begin", "middle", "end of the file"])
    others = len(files) - len(shown)
    more = f" {others} further files are in the table below." if others else ""
    return f"From 0 (white) to 100 % (dark blue) of each part.{more}"


def _strip_name(file: FileReading) -> str:
    name = _plain(os.path.basename(file.path))
    share = "unknown" if file.page_cache is None else f"{file.page_cache / file.size:.0%}"
    return f"{name[:30]}, {format_bytes(file.size)}, {share}"


def _parts_of(shares: Sequence[float], count: int) -> list[float]:
    """The shares of `count` equal parts of a file, as means over the parts that are given."""
    edges = [i * len(shares) / count for i in range(count + 1)]
    return [
        sum(shares[int(a) : max(int(a) + 1, int(b))]) / (max(int(a) + 1, int(b)) - int(a))
        for a, b in pairwise(edges)
    ]


def _draw_throughput(axes: Axes, recording: Recording) -> str:
    """Bytes a second from the device and by the processes, against the disk's own rate."""
    counters = {
        "device, by anyone": (lambda r: r.device_bytes, BLUE),
        "these processes": (over_processes("read_bytes"), ORANGE),
    }
    is_drawn = False
    for label, (counter, color) in counters.items():
        moments, values = _series(recording, counter)
        steps = [(a, b) for a, b in pairwise(range(len(moments))) if moments[b] > moments[a]]
        rates = [max(0, values[b] - values[a]) / (moments[b] - moments[a]) / 1e6 for a, b in steps]
        if rates:
            is_drawn = True
            edges = [moments[steps[0][0]], *(moments[b] for _, b in steps)]
            axes.stairs(rates, edges, label=label, color=color, gid=f"series-{label}")
    if not is_drawn:
        raise _why(recording, "device_bytes", "read_bytes", otherwise="a rate needs two readings")
    rate = recording.environment.disk_rate
    if rate is not None:
        axes.axhline(rate / 1e6, label="the disk's own rate", color=VERMILION, ls="--")
    _label(axes, "MB/s")
    unknown = recording.unknown.get("device_bytes")
    return f"The device: unknown ({unknown})." if unknown else "Bytes read a second."


def _draw_epochs(axes: Axes, recording: Recording) -> str:
    """Two bars for each epoch: the preparation of mini-batches, and the training loop."""
    whole = recording.readings[-1].batches if recording.readings else BatchTotals()
    epochs = {str(e): totals for e, totals in recording.epochs.items()} or {"whole run": whole}
    if not any(totals.batches or totals.steps for totals in epochs.values()):
        raise _why(recording, "batches", otherwise="no mini-batch was seen")
    shown = list(epochs.items())[-40:]
    for side, parts in ((-0.21, PREPARATION), (0.21, LOOP)):
        below = [0.0] * len(shown)
        for name, color in parts.items():
            values = [float(getattr(totals, name)) for _, totals in shown]
            label = {"disk": "waiting for the disk", "ready": "waiting to be taken"}.get(name, name)
            at = [n + side for n in range(len(shown))]
            bars = axes.bar(at, values, 0.4, below, color=color, label=label)
            for n, bar in enumerate(bars):
                bar.set_gid(f"series-{name}-{n}")
            below = [b + v for b, v in zip(below, values, strict=True)]
    _label(axes, "seconds")
    axes.set_xlabel("epoch")
    axes.set_xticks(range(len(shown)), [name for name, _ in shown])
    return (
        "Left bars: preparation, seconds of all threads and workers, which run side by side. "
        "Right bars: the training loop, which works or waits for mini-batches (stall)."
    )
