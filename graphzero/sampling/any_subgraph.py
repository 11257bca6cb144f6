"""`AnySubgraph`: the sampled neighbourhood of a mini-batch, with or without types."""

from __future__ import annotations

from typing import Any, TypeAlias

__all__ = ["AnySubgraph"]

AnySubgraph: TypeAlias = Any
