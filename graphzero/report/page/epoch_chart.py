"""Chart 4: where the time of each epoch went, in the preparation and in the training loop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from graphzero.report.page import style
from graphzero.report.page.html import because
from graphzero.report.page.style import COLORS, INK, Chart, Format, Label
from graphzero.report.recording import BatchTotals, Recording

__all__ = ["LOOP", "PREPARATION", "epoch_chart", "epochs_or_whole"]

TITLE = "Where the time of each epoch went"
PREPARATION = {
    "sampling": ("sampling", COLORS["green"]),
    "disk": ("waiting for the disk", COLORS["vermilion"]),
    "gathering": ("gathering rows", COLORS["yellow"]),
    "ready": ("waiting to be taken", "#bbbbbb"),
}
LOOP = {
    "training": ("training", COLORS["blue"]),
    "stall": ("stall", COLORS["vermilion"]),
}
MOST_LABELLED, MOST_BARS = 12, 40


def epochs_or_whole(recording: Recording) -> dict[str, BatchTotals]:
    """Sums by epoch; of the whole run where no epoch was told apart."""
    if recording.epochs:
        return {str(epoch): recording.epochs[epoch] for epoch in sorted(recording.epochs)}
    whole = recording.readings[-1].batches if recording.readings else BatchTotals()
    return {"whole run": whole} if whole.batches or whole.steps else {}


def epoch_chart(recording: Recording) -> Chart:
    """A bar for each epoch: parts of the preparation; stall and training of the loop."""
    epochs = epochs_or_whole(recording)
    if not any(getattr(t, k) > 0 for t in epochs.values() for k in (*PREPARATION, *LOOP)):
        reason = because(recording, "batches", "epochs", otherwise="no mini-batches were seen")
        return Chart("epochs", TITLE, missing=reason)
    threads = (
        "Preparation: seconds of all threads and workers together, which run side by side, so that "
        "a bar may be longer than the epoch; the last part is how long finished mini-batches "
        "waited for the training loop to take them. "
    )
    loop = "Training loop: seconds that it waited for mini-batches, and that it worked on them."
    if any(totals.unsplit for totals in epochs.values()):
        loop += " What a DataLoader without workers did with them (collate_fn) counts as its work."
    if not any(getattr(t, k) > 0 for t in epochs.values() for k in LOOP):
        loop = f"Training loop: {because(recording, 'stall', 'training', 'steps')}."
    return Chart("epochs", TITLE, threads + loop, partial(_draw, epochs))


def _draw(epochs: dict[str, BatchTotals], form: Format) -> Figure:
    panels = [("preparation", PREPARATION), ("training loop", LOOP)]
    if form.label_room:
        figure = style.new_figure(form, 220)
        half = form.width / 2
        for n, (what, parts) in enumerate(panels):
            left, right = n * half + 38, form.width - (n + 1) * half + 112
            axes = style.new_axes(figure, left, right, 34, 24)
            _draw_bars(axes, epochs, parts, what, form)
        return figure
    heights = [140 + 34 + style.room_above(len(parts), form) for _, parts in panels]
    figure = style.new_figure(form, sum(heights))
    below = sum(heights)
    for (what, parts), height in zip(panels, heights, strict=True):
        below -= height
        top = sum(heights) - below - 140 - 34
        axes = style.new_axes(figure, 38, 10, below + 34, top)
        _draw_bars(axes, epochs, parts, what, form)
    return figure


def _draw_bars(
    axes: Axes,
    epochs: dict[str, BatchTotals],
    parts: dict[str, tuple[str, str]],
    what: str,
    form: Format,
) -> None:
    sums = [sum(getattr(totals, name) for name in parts) for totals in epochs.values()]
    unit = style.time_unit(max(sums))
    labels, below = [], [0.0] * len(epochs)
    for name, (label, color) in parts.items():
        values = [float(getattr(totals, name)) for totals in epochs.values()]
        above = [b + v for b, v in zip(below, values, strict=True)]
        if len(values) <= MOST_BARS:
            bars = axes.bar(range(len(values)), values, 0.7, below, color=color, linewidth=0)
            for n, bar in enumerate(bars):
                bar.set_gid(f"series-{name}-{n}")
        else:
            edges = [n - 0.5 for n in range(len(values) + 1)]
            steps = axes.stairs(above, edges, baseline=below, fill=True, color=color, linewidth=0)
            steps.set_gid(f"series-{name}")
        if any(values):
            labels.append(Label(label, color, (below[-1] + above[-1]) / 2))
        below = above
    style.show_values(axes, max(sums), unit, what)
    _name_epochs(axes, list(epochs))
    style.label_areas(axes, labels, form)


def _name_epochs(axes: Axes, names: Sequence[str]) -> None:
    side = max(0.6, 1.6 - 0.5 * len(names))  # a single bar is not as broad as the chart
    axes.set_xlim(-side, len(names) - 1 + side)
    if len(names) <= MOST_LABELLED:
        axes.set_xticks(range(len(names)), names)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.xaxis.set_major_formatter(
            FuncFormatter(lambda at, _: names[int(at)] if 0 <= at < len(names) else "")
        )
    axes.tick_params(axis="x", length=0)
    axes.set_xlabel("epoch" if names[0].isdecimal() else "", color=INK)
