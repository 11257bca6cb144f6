"""Which `Prefetch` a loader has: the user's, the one that was tuned, or the default."""

from __future__ import annotations

import math
import warnings
from typing import Any

from graphzero.graph.dataset import Dataset
from graphzero.io.limits import available_memory
from graphzero.io.prefetch import Prefetch
from graphzero.store.tuning_file import TUNING_NAME, Tuning
from graphzero.store.user_line import user_line
from graphzero.units import format_bytes

__all__ = ["as_tuned", "memory_note", "prefetch_of", "suitable_memory"]

# What may be available, as a share of what the trials had: a model, which these did not have, may
# take its memory before the loader is made or after.
_LEAST_MEMORY, _MOST_MEMORY = 0.75, 1.5
_PLENTY = 2  # times the dataset: more than that changes nothing


def prefetch_of(dataset: Dataset, given: Prefetch | None) -> tuple[Prefetch, str]:
    """The options of a loader.

    Parameters
    ----------
    dataset : Dataset
    given : Prefetch or None
        By the user.

    Returns
    -------
    Prefetch
    str
        Where they come from, or why the tuned ones are not used; empty without any.
    """
    if given is not None:
        return given, ""
    if dataset.tuning is None:
        why = dataset.tuning_mismatch
        return Prefetch(), f"{TUNING_NAME} is not used: {why}" if why else ""
    tuned = dataset.tuning
    try:
        prefetch = as_tuned(tuned)
    except (TypeError, ValueError) as error:
        warnings.warn(
            f"{tuned.path} is ignored: {error}; remove it, and run graphzero tune again",
            UserWarning,
            stacklevel=user_line(),
        )
        return Prefetch(), f"{TUNING_NAME} is not used: it is corrupt"
    size = sum(mapping.size for mapping in dataset.mappings)
    if note := memory_note(tuned.available, available_memory(), size):
        return Prefetch(), f"{TUNING_NAME} is not used: {note}"
    return prefetch, f"as tuned on {tuned.date[:10]} ({TUNING_NAME})"


def as_tuned(tuned: Tuning) -> Prefetch:
    """The options that were chosen.

    Raises
    ------
    TypeError, ValueError
        If these are none.
    """
    fields: dict[str, Any] = tuned.prefetch
    return Prefetch(**fields)


def suitable_memory(tuned: int, size: int) -> tuple[int, int | None]:
    """The least and the most available memory that options suit; None for any amount.

    Parameters
    ----------
    tuned : int
        Bytes that were available to the trials.
    size : int
        Bytes of the dataset: with more memory than twice that, all sizes are alike.
    """
    least, plenty = math.ceil(_LEAST_MEMORY * tuned), _PLENTY * size
    if tuned >= plenty:
        return min(least, plenty), None
    return least, math.floor(_MOST_MEMORY * tuned)


def memory_note(tuned: int, now: int, size: int) -> str:
    """Why options that were tuned with some memory do not suit what is available; empty if they do.

    Parameters
    ----------
    tuned, now : int
        Bytes that were available to the trials, and are to this process.
    size : int
        Bytes of the dataset.
    """
    least, most = suitable_memory(tuned, size)
    if least <= now and (most is None or now <= most):
        return ""
    return f"it is for {format_bytes(tuned)} of memory, and {format_bytes(now)} are available"
