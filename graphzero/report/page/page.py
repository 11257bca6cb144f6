"""`write_page`: the report of a recording as one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
import re
from importlib import resources

from graphzero.report.page.epoch_chart import epoch_chart
from graphzero.report.page.html import command_line, escaped, shortened, started
from graphzero.report.page.key_figures import key_figures
from graphzero.report.page.memory_chart import memory_chart
from graphzero.report.page.residency_chart import residency_chart
from graphzero.report.page.style import NARROW, WIDE, Chart
from graphzero.report.page.svg import chart_style, to_svg
from graphzero.report.page.tables import tables
from graphzero.report.page.throughput_chart import throughput_chart
from graphzero.report.recording import Recording
from graphzero.report.recording_file import to_json
from graphzero.report.summarize import summarize
from graphzero.report.summary import Summary
from graphzero.report.text import seconds_text
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
    summary = summarize(recording)
    charts = [make(recording) for make in CHARTS]
    script, styles = _part("page.js"), _part("page.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    hover = {
        chart.name: dataclasses.asdict(chart.values) for chart in charts if chart.values is not None
    }
    command = command_line(recording)
    when = f"{started(recording)}, {seconds_text(recording.seconds)}"
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
<p class="when">graphzero report, {escaped(when)}</p>
{_verdict(summary)}
</header>
<dl class="figures">
{_key_figures(recording, summary)}
</dl>
{figures}
<h2>Everything else</h2>
{tables(recording, summary)}
<p class="data"><button type="button" id="save-data" hidden>Save the data (JSON)</button></p>
</main>
<div id="tip" hidden></div>
<script type="application/json" id="recording">{_in_element(to_json(recording))}</script>
<script type="application/json" id="charts">{_in_element(json.dumps(hover))}</script>
<script>{script}</script>
</body>
</html>
"""


def _part(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _verdict(summary: Summary) -> str:
    verdict = summary.verdict
    knob = f'\n<p class="knob">{_with_code(verdict.knob)}</p>' if verdict.knob else ""
    return f'<p class="verdict">{_with_code(verdict.sentence)}</p>{knob}'


def _with_code(text: str) -> str:
    """What stands between backticks is code."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escaped(text))


def _key_figures(recording: Recording, summary: Summary) -> str:
    return "\n".join(
        f"<div><dt>{escaped(f.name)}</dt><dd{' class=unknown' * f.value.startswith('unknown')}>"
        f"{escaped(f.value)}</dd><dd class=note>{escaped(f.note)}</dd></div>"
        for f in key_figures(recording, summary)
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
    caption = escaped(chart.caption or "Not drawn.")
    return (
        f'<figure id="{chart.name}" data-seconds="{seconds:g}">\n'
        f"<h2>{escaped(chart.title)}</h2>\n{content}\n"
        f"<figcaption><b>Figure {number}.</b> {caption}</figcaption>\n</figure>"
    )


def _in_element(text: str) -> str:
    """JSON that cannot end the element in which it stands."""
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
