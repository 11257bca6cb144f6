"""The settings that `graphzero tune` compares."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, fields
from typing import Any

from graphzero.io.prefetch import Prefetch

__all__ = ["LOOKAHEADS", "changed_fields", "describe", "grid"]

LOOKAHEADS = (0, 1, 2, 4)
_EVERYTHING = 1.0  # of the rows; a plan keeps as many as memory allows
_GAP_PAGES = 3
_WITH_GAPS = (1, 2)  # lookaheads


def grid(features: int, available: int, unavailable: Collection[str] = ()) -> list[Prefetch]:
    """All settings to compare, those that are usually fast first.

    Parameters
    ----------
    features : int
        Bytes of the rows that a strategy reads.
    available : int
        Bytes of memory.
    unavailable : collection of str
        Strategies that cannot be used.

    Returns
    -------
    list of Prefetch
        None of them has a `memory_limit`.
    """
    shares = [0.0, _EVERYTHING]
    half = round(available / 2 / features, 3) if features else 0.0
    if 0 < half < 1:
        shares.insert(1, half)
    found = [Prefetch("auto", lookahead=lookahead) for lookahead in LOOKAHEADS]
    for lookahead in LOOKAHEADS:
        found += [Prefetch("uring", lookahead=lookahead, resident=part) for part in shares]
        if lookahead in _WITH_GAPS:
            found.append(
                Prefetch("uring", lookahead=lookahead, resident=_EVERYTHING, gap_pages=_GAP_PAGES)
            )
        found.append(Prefetch("pread", lookahead=lookahead, resident=_EVERYTHING))
        found += [Prefetch("willneed", lookahead=lookahead, resident=part) for part in shares[:-1]]
    found += [Prefetch("none", lookahead=lookahead) for lookahead in LOOKAHEADS]
    return [one for one in found if one.strategy not in unavailable]


def changed_fields(setting: Prefetch) -> dict[str, Any]:
    """The fields of a setting that differ from the default, without the strategy."""
    default = asdict(Prefetch())
    given = {f.name: getattr(setting, f.name) for f in fields(Prefetch) if f.name != "strategy"}
    return {name: value for name, value in given.items() if value != default[name]}


def describe(setting: Prefetch) -> str:
    """A setting as ``graphzero train --prefetch`` takes it: "uring:lookahead=2,resident=0.5"."""
    named = {"lookahead": setting.lookahead, **changed_fields(setting)}
    return f"{setting.strategy}:{','.join(f'{name}={value}' for name, value in named.items())}"
