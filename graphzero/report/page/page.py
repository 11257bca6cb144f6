"""`write_page`: the report of a recording as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
import os
from importlib import resources
from typing import Any

from graphzero.report.page.epoch_chart import epoch_chart
from graphzero.report.page.html import escaped, shortened
from graphzero.report.page.key_figures import key_figures, whole_run
from graphzero.report.page.memory_chart import memory_chart
from graphzero.report.page.residency_chart import residency_chart
from graphzero.report.page.style import NARROW, WIDE, Chart
from graphzero.report.page.svg import chart_style, to_svg
from graphzero.report.page.tables import tables
from graphzero.report.page.throughput_chart import throughput_chart
from graphzero.report.recording import Recording
from graphzero.store.atomic import write_atomically

__all__ = ["write_page"]

CHARTS = (memory_chart, residency_chart, throughput_chart, epoch_chart)


def write_page(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Writes the report of a recording as one HTML file, with its charts and its data.

    The file refers to nothing outside itself, and the same recording gives the same bytes.

    Parameters
    ----------
    recording : Recording
    path : path-like
        Replaced in one step where it exists.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    write_atomically(path, page_text(recording).encode())


def page_text(recording: Recording) -> str:
    """The page of a recording."""
    charts = [make(recording) for make in CHARTS]
    script, styles = _part("page.js"), _part("page.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    hover = {
        chart.name: {"moments": chart.moments, "values": chart.values, "unit": chart.unit}
        for chart in charts
        if chart.moments
    }
    command = " ".join(recording.command)
    with chart_style():
        figures = "\n".join(
            _figure(n, chart, recording.seconds) for n, chart in enumerate(charts, 1)
        )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escaped(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="only light">
<title>graphzero: {escaped(shortened(command, 60))}</title>
<style>{styles}</style>
</head>
<body>
<main>
<header>
<h1>{escaped(shortened(command, 400))}</h1>
<p class="when">graphzero report, {escaped(recording.started)}, {recording.seconds:.4g} s</p>
<p class="verdict">{escaped(_verdict(recording))}</p>
</header>
<dl class="figures">
{_key_figures(recording)}
</dl>
{figures}
<h2>Everything else</h2>
{tables(recording)}
<p class="data"><button type="button" id="save-data" hidden>Save the data (JSON)</button></p>
</main>
<div id="tip" hidden></div>
<script type="application/json" id="recording">{_json(dataclasses.asdict(recording))}</script>
<script type="application/json" id="charts">{_json(hover)}</script>
<script>{script}</script>
</body>
</html>
"""


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _verdict(recording: Recording) -> str:
    whole = whole_run(recording)
    loop = whole.stall + whole.training
    if loop <= 0:
        return "What the run was bound by is unknown: no training loop was seen."
    return f"The training loop waited for mini-batches for {whole.stall / loop:.0%} of its time."


def _key_figures(recording: Recording) -> str:
    return "\n".join(
        f'<div><dt>{escaped(f.name)}</dt><dd{" class=unknown" * f.value.startswith("unknown")}>'
        f"{escaped(f.value)}</dd><dd class=note>{escaped(f.note)}</dd></div>"
        for f in key_figures(recording)
    )


def _figure(number: int, chart: Chart, seconds: float) -> str:
    if chart.draw is None:
        content = f'<p class="missing">{escaped(chart.missing)}</p>'
    else:
        description = escaped(f"{chart.title}. {chart.caption}")
        content = "\n".join(
            to_svg(chart.draw(form), f"{chart.name}-{form.name}", description)
            for form in (WIDE, NARROW)
        )
    caption = f" {escaped(chart.caption)}" if chart.caption else ""
    return (
        f'<figure id="{chart.name}" data-seconds="{seconds:g}">\n'
        f"<h2>{escaped(chart.title)}</h2>\n{content}\n"
        f"<figcaption><b>Figure {number}.</b>{caption}</figcaption>\n</figure>"
    )


def _clean(value: Any) -> Any:
    """The same without what JSON lacks, and without figures that are unknown."""
    if isinstance(value, dict):
        return {key: _clean(v) for key, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [_clean(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _json(value: object) -> str:
    """JSON that cannot end the element in which it stands."""
    text = json.dumps(_clean(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
