"""The machine's memory."""

from __future__ import annotations

import psutil

from graphzero.report.readings.reasons import Reasons, note
from graphzero.report.recording import SystemReading

__all__ = ["read_system"]


def read_system(unknown: Reasons | None = None) -> SystemReading:
    """Total and available memory, and pages of files, of the whole machine."""
    memory = psutil.virtual_memory()
    cached = getattr(memory, "cached", None)
    if cached is None:
        note(unknown, "system.cached", "this system does not tell it")
    return SystemReading(
        total=int(memory.total),
        available=int(memory.available),
        cached=None if cached is None else int(cached),
    )
