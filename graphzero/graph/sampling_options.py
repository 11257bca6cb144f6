"""`Sampling`: all options of how neighbours are drawn."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from graphzero.units import as_count

if TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack

_KINDS = ("weighted", "labor")  # of which at most one is set; `src/kinds.c` has the same
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
            f"{', which does not fit 63 bits' if isinstance(fanout, int) and fanout > 1 else ''}"
        ) from None


def as_fanouts(fanouts: Any) -> list[int]:
    """Fanouts, one for each hop.

    Raises
    ------
    ValueError
        If they are not a sequence, or one of them is not a fanout.
    """
    try:
        each = list(fanouts)
    except TypeError:
        raise ValueError(
            f"fanouts must be a sequence with one fanout for each hop, such as [15, 10], "
            f"not {fanouts!r}"
        ) from None
    return [as_fanout(fanout) for fanout in each]


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
    """How neighbours are drawn. ``docs/sampling.md`` describes the cost of each kind.

    Attributes
    ----------
    replace : bool
        With replacement: every node that has a neighbour draws exactly the fanout.
    weighted : bool
        By the weights of the edges; see `Graph.sample_neighbors`.
    labor : bool
        Layer-neighbour sampling, LABOR-0 (Balin, Catalyurek, NeurIPS 2023): the nodes of a hop
        draw the same neighbours where possible, so that a batch has fewer distinct nodes. A node
        draws the fanout on average, not exactly.
    disjoint : bool
        Every seed has its own tree, which shares no nodes with other trees and is drawn
        independently. Implied by times.
    temporal_strategy : {"uniform", "last"}
        If seeds have times: draw uniformly among the edges up to the seed's time, or take the
        most recent of them.
    strictly_before : bool
        If seeds have times: use only edges before the time of the seed, not at it.
    subgraph_type : {"directional", "induced"}
        Return the edges that were drawn, or all edges of the graph between the nodes of the batch
        (with times: those up to the seed's time).
    batch_dependency : int
        Number of consecutive batches in which a node repeats its draws. With n > 1, consecutive
        batches share the draws of all nodes except one in n, and therefore most of their pages.
        Each single batch has the same distribution as with 1. After Balin, LaSalle, Catalyurek,
        arXiv:2310.12403.

    Raises
    ------
    ValueError
        If a value is invalid, or two options exclude each other.
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
            (
                "labor",
                "disjoint",
                "its nodes draw together, but disjoint trees are drawn independently",
            ),
        ):
            if getattr(self, one) and getattr(self, other):
                raise ValueError(f"{one} excludes {other}: {why}")
        if self.temporal_strategy == "last" and self.replace:
            raise ValueError("temporal_strategy='last' draws nothing, so replace has no meaning")
        if self.batch_dependency > 1 and self.disjoint:
            raise ValueError(
                "batch_dependency excludes disjoint: trees of other batches belong to other seeds"
            )

    @property
    def kind(self) -> str | None:
        """The option that chooses a kind of drawing in the core; None for uniform draws."""
        return next((name for name in _KINDS if getattr(self, name)), None)

    @property
    def needs_weights(self) -> bool:
        """Whether edges are drawn by their weights."""
        return self.weighted

    def check_untimed(self, way: str) -> None:
        """Raises `ValueError` if an option has no meaning for seeds without times.

        Parameters
        ----------
        way : str
            Middle of the message: how to give times, as in ": give seed_time, or".
        """
        for name, without in (("strictly_before", False), ("temporal_strategy", "uniform")):
            value = getattr(self, name)
            if value != without:
                raise ValueError(
                    f"{name}={value!r} needs a time for each seed{way} leave {name} out"
                )

    def check_timed(self) -> None:
        """Raises `ValueError` if these options exclude seeds with times."""
        if self.kind is not None:
            raise ValueError(
                f"{self.kind} sampling does not support times: use only one of the two"
            )
        if self.batch_dependency > 1:
            raise ValueError(
                "batch_dependency excludes times: trees of other batches belong to other seeds"
            )
