"""A progress bar for each phase of a build."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

__all__ = ["Advance", "Progress"]

Advance = Callable[[int], object]


class Progress:
    """Shows the phases of a build on stderr, if enabled.

    Parameters
    ----------
    enabled : bool
    """

    def __init__(self, enabled: bool = False) -> None:
        self.enabled = enabled

    @contextmanager
    def phase(self, label: str, total: int | None, unit: str = "rows") -> Iterator[Advance]:
        """Shows a bar; yields a function that advances it by a number of units."""
        with tqdm(
            total=total,
            desc=f"{label:<20}",
            unit=f" {unit}",
            unit_scale=True,
            dynamic_ncols=True,
            file=sys.stderr,
            disable=not self.enabled,
        ) as bar:
            yield bar.update

    def say(self, text: str) -> None:
        """Shows a line, above the bar."""
        if self.enabled:
            tqdm.write(text, file=sys.stderr)
