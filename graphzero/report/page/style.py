"""How charts look: colours, sizes, axes with units, labels beside what they name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator
from matplotlib.transforms import Affine2D, Transform

__all__ = [
    "COLORS",
    "INK",
    "NARROW",
    "WIDE",
    "Chart",
    "Format",
    "Label",
    "Unit",
    "Values",
    "byte_unit",
    "label_areas",
    "new_axes",
    "new_figure",
    "show_time",
    "show_values",
    "time_unit",
]

# Okabe and Ito's palette, which colour-blind readers can tell apart.
COLORS = {
    "orange": "#e69f00",
    "sky": "#56b4e9",
    "green": "#009e73",
    "yellow": "#f0e442",
    "blue": "#0072b2",
    "vermilion": "#d55e00",
    "purple": "#cc79a7",
    "black": "#000000",
}
INK, FAINT, GRID = "#222222", "#666666", "#dddddd"
POINTS_PER_INCH = 72
LABEL_HEIGHT = 12.0


@dataclass(frozen=True)
class Format:
    """A size in which each chart is drawn: for wide windows and paper, or for phones.

    Attributes
    ----------
    name : str
    width : float
        In points, as `label_room`, the room for labels right of the data; 0: they stand above it.
    label_room : float
    most : int
        How many moments, stretches or parts are told apart at most.
    """

    name: str
    width: float
    label_room: float
    most: int


WIDE = Format("wide", 680.0, 118.0, 300)
NARROW = Format("narrow", 290.0, 0.0, 120)


@dataclass(frozen=True)
class Values:
    """Values of a chart at moments, by label.

    Attributes
    ----------
    moments : list of float
        In seconds.
    columns : dict of str to list of float or None
        In this unit; None at moments without a value.
    unit : str
    """

    moments: list[float]
    columns: dict[str, list[float | None]]
    unit: str


@dataclass(frozen=True)
class Chart:
    """One chart of the page.

    Attributes
    ----------
    name : str
        Part of ids.
    title, caption : str
        Plain text.
    draw : callable or None
        Draws it in a format. None: `missing` is shown in its place.
    missing : str
        Why there is nothing to draw.
    values : Values or None
        What a reader can ask for with the pointer.
    """

    name: str
    title: str
    caption: str = ""
    draw: Callable[[Format], Figure] | None = None
    missing: str = ""
    values: Values | None = None


@dataclass(frozen=True)
class Unit:
    """A unit of an axis, and how many of the basic unit it has."""

    name: str
    size: float


@dataclass(frozen=True)
class Label:
    """Names a line or an area, at a height of the data."""

    text: str
    color: str
    at: float
    line: Literal["", "-", "--"] = ""  # a line's style; of an area ""


def byte_unit(most: float) -> Unit:
    """The unit in which the largest value has one to three digits before the point."""
    for name, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if most >= 0.9995 * size:
            return Unit(name, size)
    return Unit("bytes", 1.0)


def time_unit(seconds: float) -> Unit:
    """The unit of a time axis."""
    for name, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 3 * size:
            return Unit(name, size)
    return Unit("s", 1.0)


def new_figure(form: Format, height: float) -> Figure:
    """An empty figure, its height in points."""
    return Figure(figsize=(form.width / POINTS_PER_INCH, height / POINTS_PER_INCH))


def new_axes(figure: Figure, left: float, right: float, bottom: float, top: float) -> Axes:
    """Axes with these margins, in points."""
    width, height = (POINTS_PER_INCH * inches for inches in figure.get_size_inches())
    box = (left / width, bottom / height, 1 - (left + right) / width, 1 - (bottom + top) / height)
    axes = figure.add_axes(box)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(FAINT)
    axes.tick_params(colors=FAINT, labelcolor=INK, length=3, width=0.6)
    return axes


def show_time(axes: Axes, seconds: float) -> None:
    """The time axis, from zero to the end."""
    unit = time_unit(seconds)
    axes.set_xlim(0, max(seconds, 1e-9))
    axes.patch.set_gid("plot-area")  # where the pointer asks for values
    axes.xaxis.set_major_locator(_Scaled(unit.size, 7))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit.size:g}"))
    axes.set_xlabel(f"time since the start ({unit.name})", color=INK)


def show_values(axes: Axes, most: float, unit: Unit, what: str) -> None:
    """The axis of values, from zero to a little above the largest, its name above it."""
    axes.set_ylim(0, 1.06 * most if most > 0 else 1)
    axes.yaxis.set_major_locator(_Scaled(unit.size, 5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit.size:g}"))
    axes.grid(axis="y", color=GRID, linewidth=0.5)
    axes.annotate(
        f"{what} ({unit.name})" if what else unit.name,
        xy=(0, 1),
        xycoords="axes fraction",
        xytext=(-28, 7),
        textcoords="offset points",
        color=INK,
    )


class _Scaled(MaxNLocator):
    """Places ticks at round numbers of a unit."""

    def __init__(self, size: float, most: int) -> None:
        super().__init__(nbins=most, steps=[1, 2, 5, 10])
        self.size = size

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        """Round numbers of the unit between two values."""
        ticks = super().tick_values(vmin / self.size, vmax / self.size)
        return [float(tick) * self.size for tick in ticks]


def _spread(heights: Sequence[float], apart: float, low: float, high: float) -> list[float]:
    """Heights as near to those wanted as can be, so far apart, in the same order."""
    order = sorted(range(len(heights)), key=lambda i: heights[i])
    placed = list(heights)
    floor = low
    for i in order:
        placed[i] = floor = max(floor, heights[i])
        floor += apart
    ceiling = high
    for i in reversed(order):
        placed[i] = ceiling = min(ceiling, placed[i])
        ceiling -= apart
    return placed


def _swatch(axes: Axes, label: Label, x: float, y: float, transform: Transform) -> None:
    mark: Artist
    if label.line:
        mark = Line2D([x, x + 11], [y, y], color=label.color)
        mark.set_linestyle(label.line)
    else:
        mark = Rectangle((x + 1, y - 4), 8, 8, color=label.color, linewidth=0)
    mark.set_transform(transform)
    mark.set_clip_on(False)
    axes.add_artist(mark)


def label_areas(axes: Axes, labels: Sequence[Label], form: Format) -> None:
    """Each label with a sample of its colour: right of the data or, on phones, above it."""
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    width, height = (POINTS_PER_INCH * inches for inches in figure.get_size_inches())
    points = Affine2D().scale(1 / width, 1 / height) + figure.transFigure
    box = axes.get_position()
    left, bottom, top = box.x1 * width + 6, box.y0 * height, box.y1 * height
    if form.label_room:
        _, most = axes.get_ylim()
        wanted = [bottom + (top - bottom) * min(1.0, label.at / most) for label in labels]
        heights = _spread(wanted, LABEL_HEIGHT, bottom + 4, top)
        places = [(left, y) for y in heights]
    else:
        above = top + 25 + LABEL_HEIGHT * ((len(labels) - 1) // 2)
        places = [
            (10 + (i % 2) * (width / 2 - 8), above - LABEL_HEIGHT * (i // 2))
            for i in range(len(labels))
        ]
    for label, (x, y) in zip(labels, places, strict=True):
        _swatch(axes, label, x, y, points)
        axes.text(
            x + 15, y, label.text, transform=points, va="center", color=INK, clip_on=False
        ).set_parse_math(False)


def room_above(labels: int, form: Format) -> float:
    """Points above the data for the name of the axis and, on phones, for labels."""
    return 22.0 if form.label_room else 25.0 + LABEL_HEIGHT * ((labels + 1) // 2)
