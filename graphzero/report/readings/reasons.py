"""Why a figure is unknown."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Reasons", "note"]

Reasons = dict[str, str]  # figure -> why it is unknown


def note(unknown: Reasons | None, figures: str | Iterable[str], reason: str) -> None:
    """Enters why figures are unknown; the first reason of a figure stays."""
    if unknown is not None:
        for figure in (figures,) if isinstance(figures, str) else figures:
            unknown.setdefault(figure, reason)
