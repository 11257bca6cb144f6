"""What ``graphzero info`` says of the ``tuning.json`` of a dataset folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphzero.graph.dataset import Dataset
from graphzero.loader.arguments import as_tuned, suitable_memory
from graphzero.units import format_bytes

__all__ = ["describe_tuning", "tuning_lines"]


def describe_tuning(ds: Dataset) -> dict[str, Any] | None:
    """The options that were chosen, and why loaders do not use them; None without the file.

    What is available to this process says nothing of a loader's, which is far larger: so the
    amounts of memory are told that the options suit, and a loader says whether it has as much.
    """
    tuned = ds.any_tuning
    if tuned is None:
        return None
    mismatch = ds.tuning_mismatch
    if not mismatch:
        try:
            as_tuned(tuned)
        except (TypeError, ValueError) as error:
            mismatch = f"it is corrupt ({error})"
    size = sum(mapping.size for mapping in ds.mappings)
    least, most = suitable_memory(tuned.available, size)
    return {
        "date": tuned.date,
        "prefetch": tuned.prefetch,
        "memory_limit": tuned.memory_limit,
        "available": tuned.available,
        "least_available": least,
        "most_available": most,
        "not_used": mismatch or None,
    }


def tuning_lines(content: dict[str, Any]) -> Iterator[str]:
    """A line, if there is a tuning."""
    tuning = content.get("tuning")
    if tuning is None:
        return
    fields = dict(tuning["prefetch"])
    text = ", ".join([str(fields.pop("strategy", "")), *(f"{k}={v}" for k, v in fields.items())])
    memory = format_bytes(tuning["available"])
    yield f"  tuning    {text}; of {tuning['date'][:10]}, with {memory} of memory; {_use(tuning)}"


def _use(tuning: dict[str, Any]) -> str:
    if tuning["not_used"] is not None:
        return f"not used: {tuning['not_used']}"
    least, most = tuning["least_available"], tuning["most_available"]
    amount = f"{format_bytes(least)} or more"
    if most is not None:
        amount = f"{format_bytes(least)} to {format_bytes(most)}"
    return (
        f"files and machine match: loaders that find {amount} of memory available use it, "
        f"and batch.stats.io says so"
    )
