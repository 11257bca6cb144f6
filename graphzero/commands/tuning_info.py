"""What ``graphzero info`` says of the ``tuning.json`` of a dataset folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphzero.graph.dataset import Dataset
from graphzero.io.limits import available_memory
from graphzero.loader.tuned_prefetch import as_tuned, memory_note
from graphzero.units import format_bytes

__all__ = ["describe_tuning", "tuning_lines"]


def describe_tuning(ds: Dataset) -> dict[str, Any] | None:
    """The options that were chosen, and why loaders do not use them; None without the file."""
    tuned = ds.any_tuning
    if tuned is None:
        return None
    mismatch = ds.tuning_mismatch
    if not mismatch:
        try:
            as_tuned(tuned)
        except (TypeError, ValueError) as error:
            mismatch = f"it is corrupt ({error})"
    if not mismatch:
        size = sum(mapping.size for mapping in ds.mappings)
        mismatch = memory_note(tuned.available, available_memory(), size)
    return {
        "date": tuned.date,
        "prefetch": tuned.prefetch,
        "memory_limit": tuned.memory_limit,
        "available": tuned.available,
        "not_used": mismatch or None,
    }


def tuning_lines(content: dict[str, Any]) -> Iterator[str]:
    """A line, if there is a tuning."""
    tuning = content.get("tuning")
    if tuning is None:
        return
    fields = dict(tuning["prefetch"])
    text = ", ".join([str(fields.pop("strategy", "")), *(f"{k}={v}" for k, v in fields.items())])
    used = "loaders use it" if tuning["not_used"] is None else f"not used: {tuning['not_used']}"
    memory = format_bytes(tuning["available"])
    yield f"  tuning    {text}; of {tuning['date'][:10]}, with {memory} of memory; {used}"
