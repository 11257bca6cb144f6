"""`AnySubgraph`: the sampled neighbourhood of a mini-batch, with or without types."""

from __future__ import annotations

from typing import TypeAlias

from graphzero.sampling.subgraph import Subgraph
from graphzero.sampling.typed_subgraph import TypedSubgraph

__all__ = ["AnySubgraph"]

AnySubgraph: TypeAlias = Subgraph | TypedSubgraph
