"""Figures as SVG text to stand inside HTML: small, without ids that meet, always the same."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
import matplotlib.style
from matplotlib.figure import Figure

__all__ = ["chart_style", "to_svg"]

STYLE: Any = {
    "svg.hashsalt": "graphzero",
    "svg.fonttype": "none",  # text stays text, in the font of the page
    "font.size": 9,
    "axes.labelsize": 9,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "lines.linewidth": 1.4,
    "hatch.linewidth": 0.5,
    "path.simplify": True,
}
FONT = re.compile(r"(font(?:-family)?: [^;\"]*?)'DejaVu Sans'[^;\"]*")
NUMBER = re.compile(r"-?\d+\.\d{3,}")
PATH = re.compile(r'(?<= d=")[^"]*')


@contextmanager
def chart_style() -> Iterator[None]:
    """The defaults of matplotlib and the style of these charts, whatever a user has set."""
    with matplotlib.style.context("default"), matplotlib.rc_context(STYLE):
        yield


def _short(match: re.Match[str]) -> str:
    return NUMBER.sub(lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), match[0])


def to_svg(figure: Figure, prefix: str, description: str) -> str:
    """The figure as an ``<svg>`` element.

    Parameters
    ----------
    figure : Figure
        Drawn within `chart_style`.
    prefix : str
        Made part of every id, as several figures stand on one page.
    description : str
        For readers who do not see it; escaped already.

    Returns
    -------
    str
    """
    written = io.StringIO()
    with warnings.catch_warnings():
        # matplotlib measures text in its own font; the browser may have glyphs that it lacks
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    text = written.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.S)
    text = re.sub(r"\s*<style[^>]*>.*?</style>", "", text, flags=re.S)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.S)
    text = PATH.sub(_short, text)
    text = FONT.sub(r"\1sans-serif", text)
    text = re.sub(r' id="', f' id="{prefix}-', text)
    text = text.replace("url(#", f"url(#{prefix}-").replace('href="#', f'href="#{prefix}-')
    width, height = figure.get_size_inches()
    opening = (
        f'<svg class="{prefix.rpartition("-")[2]}" xmlns="http://www.w3.org/2000/svg" '
        f'xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 {72 * width:g} {72 * height:g}" '
        f'role="img" aria-label="{description}">'
    )
    return opening + text[text.index(">") + 1 :].strip()
