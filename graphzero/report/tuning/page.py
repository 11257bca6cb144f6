"""The page of a tuning: the heat map with all that a reader needs to judge it, in one HTML file."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from graphzero.io.prefetch import Prefetch
from graphzero.report.tuning.grid import describe
from graphzero.report.tuning.heat_map import heat_map_svg, seconds_text
from graphzero.report.tuning.live_table import disk_line
from graphzero.report.tuning.tuner import Tuned
from graphzero.store.machine import this_machine
from graphzero.units import format_bytes

__all__ = ["conditions", "tuning_page"]

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #1a1a1a; background: white }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
svg { max-width: 100%; height: auto }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem }
dt { color: #555 } dd { margin: 0 }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .2rem .6rem; border-bottom: 1px solid #ddd }
.number { text-align: right; font-variant-numeric: tabular-nums }
code { font-size: .9em }
"""


def conditions(tuned: Tuned) -> Iterator[tuple[str, str]]:
    """What was measured on what: names and texts."""
    machine, work = this_machine(tuned.workload.folder), tuned.workload
    memory = "unknown" if machine.memory is None else format_bytes(machine.memory)
    yield "processor", f"{machine.cpu or 'unknown'}, {machine.cores} processors, memory {memory}"
    yield "disk", f"{machine.disk or 'unknown'}, {machine.file_system or 'unknown file system'}"
    yield "disk rate", disk_line(tuned.disk).removeprefix("disk: ")
    if tuned.memory_limit is None:
        limit = f"{format_bytes(tuned.available)} were available, without a limit of their own"
    elif tuned.no_group is None:
        limit = (
            f"{format_bytes(tuned.memory_limit)} for each process and its page cache, by "
            f"{tuned.group}"
        )
    else:
        limit = (
            f"{format_bytes(tuned.memory_limit)} as Prefetch.memory_limit; the page cache was not "
            f"limited, because {tuned.no_group}"
        )
    yield "memory", limit
    yield "dataset", f"{work.folder}, {format_bytes(tuned.size)}"
    fanouts = ",".join(map(str, work.fanouts)) if not isinstance(work.fanouts, dict) else "by type"
    model = f", {work.step_ms:g} ms of sleep for each" if work.step_ms else ", no model"
    yield "mini-batches", f"{work.batch_size} seeds of {work.split}, fanouts {fanouts}{model}"
    yield (
        "trials",
        f"{len(tuned.records)}, of {len(tuned.settings)} settings, each in a process of its own "
        f"that begins {_cache_state(tuned.warm_trials)}",
    )
    for name, why in tuned.unavailable.items():
        yield f"without {name}", why


def _cache_state(warm: int | None) -> str:
    if warm == 0:
        return "without any page of the dataset in memory"
    if warm is None:
        return "after the dataset was dropped from the page cache, as far as the system tells"
    return (
        f"after the dataset was dropped from the page cache; but {warm} began with pages of it, "
        f"because another process uses the files, or the file system keeps them in memory: their "
        f"figures do not compare with the others"
    )


def tuning_page(tuned: Tuned) -> str:
    """One self-contained HTML page."""
    svg = heat_map_svg(tuned)
    svg = svg[svg.index("<svg") :]  # without the XML prolog
    facts = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in conditions(tuned))
    finals = "".join(
        f"<tr><td><code>{escape(describe(setting))}</code></td>"
        f'<td class="number">{tuned.turns(setting)}</td>'
        f'<td class="number">{_seconds(tuned, setting)}</td>'
        f'<td class="number">{ratio:.2f}</td></tr>'
        for setting, ratio in tuned.found.ratios.items()
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>graphzero tune</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>
<body><h1>Prefetch options of {escape(tuned.workload.folder)}</h1>
<p>Chosen: <code>{escape(describe(tuned.chosen))}</code></p>
<h2>Time a mini-batch, by strategy and lookahead</h2>
<p>Each cell has the fastest setting with this strategy and lookahead. The choice has a frame. Slow
settings leave early, so their figures are of shorter trials, and of an earlier time.</p>
<div role="img" aria-label="Heat map of strategies and lookaheads">{svg}</div>
<h2>The settings that were compared last</h2>
<p>They took turns. The ratio compares a setting with the fastest turn by turn, so that it does not
matter if the machine was slower at some times.</p>
<table><thead><tr><th>setting</th><th class="number">turns</th>
<th class="number">median time a mini-batch</th><th class="number">ratio to the choice</th></tr>
</thead><tbody>{finals}</tbody></table>
<h2>Conditions</h2><dl>{facts}</dl></body></html>
"""


def _seconds(tuned: Tuned, setting: Prefetch) -> str:
    seconds = tuned.seconds(setting)
    return "-" if seconds is None else seconds_text(seconds)
