"""The heat map of a tuning: strategy against lookahead, as text and as a chart."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from graphzero.io.prefetch import Prefetch
from graphzero.report.tuning.grid import changed_fields
from graphzero.report.tuning.tuner import Tuned

__all__ = ["Cell", "heat_map", "heat_map_lines", "heat_map_svg", "seconds_text", "short_reason"]

_STRATEGIES = ("auto", "uring", "pread", "willneed", "none")
_FAILED_COLOUR = "#d9d9d9"
_DARK = 0.45  # share of the colour scale below which text is white


@dataclass(frozen=True)
class Cell:
    """The fastest setting with one strategy and one lookahead.

    Attributes
    ----------
    setting : Prefetch
    seconds : float or None
        A mini-batch; None where all of these settings failed.
    reason : str or None
        Why.
    """

    setting: Prefetch
    seconds: float | None
    reason: str | None = None

    @property
    def details(self) -> str:
        """Its other fields, such as "resident=1.0"."""
        more = changed_fields(self.setting)
        more.pop("lookahead", None)
        return ", ".join(f"{name}={value}" for name, value in more.items() if value != 0)


def heat_map(tuned: Tuned) -> dict[tuple[str, int], Cell]:
    """Cells by strategy and lookahead; those without a trial are missing."""
    cells: dict[tuple[str, int], Cell] = {}
    for setting in tuned.settings:
        trial = tuned.best_trial(setting)
        if trial is None:
            continue
        here = Cell(setting, tuned.seconds(setting), trial.reason)
        key = (setting.strategy, setting.lookahead)
        before = cells.get(key)
        if before is None or _rank(here) < _rank(before):
            cells[key] = here
    chosen = tuned.chosen  # and not one that a shorter trial has shown to be faster
    if (seconds := tuned.seconds(chosen)) is not None:
        cells[chosen.strategy, chosen.lookahead] = Cell(chosen, seconds)
    return cells


def _rank(cell: Cell) -> float:
    return float("inf") if cell.seconds is None else cell.seconds


def _axes(cells: dict[tuple[str, int], Cell]) -> tuple[list[str], list[int]]:
    names = [name for name in _STRATEGIES if any(name == key[0] for key in cells)]
    return names, sorted({key[1] for key in cells})


def seconds_text(seconds: float) -> str:
    """Three digits with a unit, such as "12.3 ms"."""
    if seconds >= 0.9995:
        return f"{seconds:#.3g} s".replace(". ", " ")
    return f"{1000 * seconds:#.3g} ms".replace(". ", " ")


def heat_map_lines(tuned: Tuned) -> Iterator[str]:
    """A table of text; the choice has an asterisk."""
    cells = heat_map(tuned)
    names, lookaheads = _axes(cells)
    rows = [["lookahead", *map(str, lookaheads)]]
    for name in names:
        rows.append([name, *(_cell_text(cells.get((name, n)), tuned) for n in lookaheads)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        first = row[0].ljust(widths[0])
        others = (text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True))
        yield "  ".join([first, *others])


def _cell_text(cell: Cell | None, tuned: Tuned) -> str:
    if cell is None:
        return "-"
    if cell.seconds is None:
        return short_reason(cell.reason)
    mark = " *" if cell.setting == tuned.chosen else "  "
    return seconds_text(cell.seconds) + mark


def short_reason(reason: str | None) -> str:
    """One or two words for why a trial has no figure."""
    for word in ("killed", "took longer", "failed"):
        if reason is not None and reason.startswith(word):
            return "too long" if word == "took longer" else word
    return "failed"


def heat_map_svg(tuned: Tuned, title: str = "") -> str:
    """The chart as SVG: bright cells are fast, every value is printed, the choice has a frame.

    Its colours differ in lightness, for readers who do not tell all colours apart.
    """
    import matplotlib  # takes long to import

    with matplotlib.rc_context({"svg.hashsalt": "graphzero", "font.size": 9}):
        return _draw(tuned, title)


def _draw(tuned: Tuned, title: str) -> str:
    from matplotlib.colors import LogNorm
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    cells = heat_map(tuned)
    names, lookaheads = _axes(cells)
    times = [cell.seconds for cell in cells.values() if cell.seconds is not None]
    low, high = min(times), max(times)
    norm = LogNorm(low, max(high, 1.01 * low))
    figure = Figure(figsize=(1.6 + 1.75 * len(lookaheads), 1.5 + 0.72 * len(names)))
    axes: Any = figure.add_subplot()
    scale = _colours()
    for y, name in enumerate(names):
        for x, lookahead in enumerate(lookaheads):
            cell = cells.get((name, lookahead))
            _draw_cell(axes, x, y, cell, None if cell is None else _share(norm, cell), scale)
            if cell is not None and cell.setting == tuned.chosen:
                frame = Rectangle(
                    (x - 0.47, y - 0.45), 0.94, 0.9, fill=False, edgecolor="#d55e00", linewidth=2.5
                )
                axes.add_patch(frame)
    axes.set(
        xlim=(-0.5, len(lookaheads) - 0.5),
        ylim=(len(names) - 0.5, -0.5),
        xlabel="lookahead (mini-batches)",
        title=title,
    )
    axes.set_xticks(range(len(lookaheads)), [str(n) for n in lookaheads])
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    _draw_scale(figure, axes, norm, scale)
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", metadata={"Date": None})
    return out.getvalue()


def _colours() -> Any:
    """A perceptual scale that readers with any colour vision see alike: fast is bright."""
    import matplotlib

    return matplotlib.colormaps["cividis_r"]


def _share(norm: Any, cell: Cell) -> float | None:
    return None if cell.seconds is None else float(norm(cell.seconds))


def _draw_cell(
    axes: Any, x: int, y: int, cell: Cell | None, share: float | None, scale: Any
) -> None:
    from matplotlib.patches import Rectangle

    colour = "white" if cell is None else _FAILED_COLOUR if share is None else scale(share)
    hatch = "///" if cell is not None and share is None else None
    box = Rectangle(
        (x - 0.48, y - 0.46), 0.96, 0.92, facecolor=colour, edgecolor="white", hatch=hatch
    )
    axes.add_patch(box)
    if cell is None:
        axes.text(x, y, "not measured", ha="center", va="center", color="#555555", fontsize=8)
        return
    ink = "white" if share is not None and 1 - share < _DARK else "black"
    if cell.seconds is None:
        back = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
        axes.text(x, y, short_reason(cell.reason), ha="center", va="center", bbox=back, fontsize=8)
        return
    details = cell.details
    axes.text(
        x, y - (0.12 if details else 0), seconds_text(cell.seconds), ha="center", va="center",
        color=ink, fontweight="bold",
    )  # fmt: skip
    if details:
        axes.text(x, y + 0.2, details, ha="center", va="center", color=ink, fontsize=6.5)


def _draw_scale(figure: Any, axes: Any, norm: Any, scale: Any) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.ticker import FuncFormatter, NullFormatter

    bar = figure.colorbar(ScalarMappable(norm, scale), ax=axes, fraction=0.04, pad=0.02)
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: seconds_text(value)))
    bar.ax.yaxis.set_minor_formatter(NullFormatter())
    bar.ax.set_yticks([norm.vmin, (norm.vmin * norm.vmax) ** 0.5, norm.vmax])
    bar.set_label("seconds a mini-batch")
    bar.outline.set_visible(False)
