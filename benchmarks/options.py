"""Options that several benchmarks share."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence

__all__ = [
    "QUICK_EDGES",
    "QUICK_SCALE",
    "add_graph",
    "count",
    "list_of",
    "require_not_negative",
    "require_positive",
    "require_scale",
]

QUICK_SCALE, QUICK_EDGES = 16, 1_000_000  # of a smoke test


def count(text: str) -> int:
    """A whole number, also in the form 32e6."""
    return int(float(text))


def list_of(allowed: Sequence[str], kind: str = "") -> Callable[[str], list[str]]:
    """A parser of names with commas between them; `kind` names them in the error message."""

    def parse_names(text: str) -> list[str]:
        names = [name for name in text.split(",") if name]
        unknown = [name for name in names if name not in allowed]
        if unknown:
            what = " ".join(filter(None, [kind, ", ".join(unknown)]))
            raise argparse.ArgumentTypeError(f"there is no {what}, only {', '.join(allowed)}")
        return names

    return parse_names


def add_graph(parser: argparse.ArgumentParser) -> None:
    """Adds the size of an R-MAT graph: --scale, --edges and --dim."""
    add = parser.add_argument
    add("--scale", type=int, default=21, help="the graph has 2^SCALE nodes")
    add("--edges", type=count, default=32_000_000, help="such as 32e6")
    add("--dim", type=int, default=128, help="float32 columns of the rows")


def require_positive(
    parser: argparse.ArgumentParser, options: argparse.Namespace, names: Sequence[str]
) -> None:
    """Exits with a message where one of these options is below 1."""
    for name in names:
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be positive")


def require_not_negative(
    parser: argparse.ArgumentParser, options: argparse.Namespace, names: Sequence[str]
) -> None:
    """Exits with a message where one of these options is below 0, infinite, or no number."""
    for name in names:
        if not 0 <= getattr(options, name) < math.inf:
            parser.error(f"--{name.replace('_', '-')} must be 0 or a positive number")


def require_scale(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exits with a message where --scale is out of range."""
    if not 16 <= options.scale <= 31:
        parser.error("--scale must be 16 to 31")
