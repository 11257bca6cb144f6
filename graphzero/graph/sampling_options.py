"""`Sampling`: how neighbours are drawn; every choice about it, in one place."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from graphzero.graph.ids import as_count

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack

__all__ = ["Sampling", "SamplingOptions", "as_fanout", "as_seed"]

_WORDS = {
    "temporal_strategy": ("uniform", "last"),
    "subgraph_type": ("directional", "induced"),
}


def as_fanout(fanout: Any) -> int:
    """A fanout: a positive integer, or -1 for all neighbours.

    Raises
    ------
    ValueError
        For anything else.
    """
    try:
        return -1 if fanout == -1 else as_count(fanout, "fanout")
    except ValueError:
        raise ValueError(
            f"a fanout must be a positive integer, or -1 for all neighbours, not {fanout!r}"
        ) from None


def as_seed(seed: Any) -> int:
    """A seed of the random draws: an integer, taken modulo 2^64."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise ValueError(f"seed must be an integer, not {seed!r}")
    return int(seed) % (1 << 64)


class SamplingOptions(TypedDict, total=False):
    """The fields of `Sampling`, as keyword arguments of samplers and datasets."""

    replace: bool
    weighted: bool
    labor: bool
    disjoint: bool
    temporal_strategy: Literal["uniform", "last"]
    strictly_before: bool
    subgraph_type: Literal["directional", "induced"]
    batch_dependency: int


@dataclass(frozen=True)
class Sampling:
    """How neighbours are drawn. ``docs/sampling.md`` says what each kind costs.

    Attributes
    ----------
    replace : bool
        With replacement: exactly the fanout for every node that has a neighbour.
    weighted : bool
        By the weights of the edges; see `Graph.sample_neighbors`.
    labor : bool
        Layer-neighbour sampling, LABOR-0 (Balin, Catalyurek, NeurIPS 2023): the nodes of a hop
        draw the same neighbours where they can, so that a batch has fewer distinct nodes. The
        fanout is met on average only.
    disjoint : bool
        Every seed has a tree of its own, which shares no node with the others, and draws on its
        own. Implied by times.
    temporal_strategy : {"uniform", "last"}
        Where seeds have times: neighbours drawn among all edges up to the seed's time, or the
        most recent of these.
    strictly_before : bool
        Where seeds have times: edges before the time of the seed, not at it.
    subgraph_type : {"directional", "induced"}
        The edges that were drawn, or all edges of the graph between the nodes of the batch (with
        times: those up to the seed's).
    batch_dependency : int
        Consecutive batches that a node keeps its draws for: with n > 1, two batches that follow
        each other share the draws of all nodes but one in n, and so most of their pages. Each
        batch alone is distributed as with 1. After Balin, LaSalle, Catalyurek,
        arXiv:2310.12403.

    Raises
    ------
    ValueError
        If a value is not one of these, or two exclude each other.
    """

    replace: bool = False
    weighted: bool = False
    labor: bool = False
    disjoint: bool = False
    temporal_strategy: Literal["uniform", "last"] = "uniform"
    strictly_before: bool = False
    subgraph_type: Literal["directional", "induced"] = "directional"
    batch_dependency: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _WORDS:
                if value not in _WORDS[field.name]:
                    raise ValueError(
                        f"{field.name} must be one of {_WORDS[field.name]}, not {value!r}"
                    )
            elif field.name == "batch_dependency":
                object.__setattr__(self, field.name, as_count(value, field.name))
            else:
                object.__setattr__(self, field.name, bool(value))
        for one, other, why in (
            ("labor", "replace", "it draws each neighbour at most once"),
            ("labor", "weighted", "it draws all neighbours of a node with the same probability"),
            ("labor", "disjoint", "its nodes draw together, and disjoint trees each on their own"),
        ):
            if getattr(self, one) and getattr(self, other):
                raise ValueError(f"{one} excludes {other}: {why}")
        if self.temporal_strategy == "last" and self.replace:
            raise ValueError("temporal_strategy='last' draws nothing: replace has no meaning there")
        if self.batch_dependency > 1 and self.disjoint:
            raise ValueError(
                "batch_dependency excludes disjoint: trees of other batches belong to other seeds"
            )

    @property
    def needs_whole_batches(self) -> bool:
        """Whether there is more to it than drawing hop by hop, which threads could share."""
        return self.disjoint or self.subgraph_type != "directional"

    def check_timed(self) -> None:
        """Raises `ValueError` where seeds cannot have times."""
        for name in ("weighted", "labor"):
            if getattr(self, name):
                raise ValueError(f"{name} sampling has no times: leave one of the two out")
        if self.batch_dependency > 1:
            raise ValueError(
                "batch_dependency excludes times: trees of other batches belong to other seeds"
            )
