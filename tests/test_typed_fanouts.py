"""Fanouts of typed graphs: what is taken, and what is refused by name."""

from __future__ import annotations

import pytest

from graphzero import _core
from graphzero.sampling.sampler import as_typed_fanouts

RATES, BY, KNOWS = ("user", "rates", "film"), ("film", "by", "user"), ("user", "knows", "user")
TYPES = [RATES, BY, KNOWS]


@pytest.mark.parametrize(
    ("fanouts", "expected"),
    [
        ([15, 10], [[15, 10]] * 3),
        ((15, -1), [[15, -1]] * 3),
        ([0, 5], [[0, 5]] * 3),
        ({RATES: [1, 2], BY: [0, 3], KNOWS: [-1, 4]}, [[1, 2], [0, 3], [-1, 4]]),
        (
            {"user__rates__film": [1], "film__by__user": [2], "user__knows__user": [3]},
            [[1], [2], [3]],
        ),
        ({"default": [7], BY: [2]}, [[7], [2], [7]]),
        ({"user__knows__user": [0], "default": [7], BY: [2]}, [[7], [2], [0]]),
        ({"default": [7]}, [[7]] * 3),
    ],
)
def test_every_way_of_writing_them(fanouts, expected):
    assert as_typed_fanouts(fanouts, TYPES) == dict(zip(TYPES, expected, strict=True))


@pytest.mark.parametrize(
    ("fanouts", "message"),
    [
        ([5] * (_core.MOST_HOPS + 1), "at most 64 hops"),
        (5, "fanouts must be a list with one fanout for each hop"),
        ("15", "fanouts must be a list"),
        ([5, -2], "positive integer, or -1"),
        ([5, 1.5], "positive integer, or -1"),
        ([False], "positive integer, or -1"),
        ({RATES: 5, "default": [1]}, r"fanouts\[\('user', 'rates', 'film'\)\] must be a list"),
        ({RATES: [5]}, r"lack the edge types \[.*'by'.*'knows'.*\]: name them, .*'default': \[0\]"),
        ({}, "lack the edge types"),
        ({RATES: [5], "default": [1, 2]}, "the same number of hops, not user__rates__film: 1"),
        ({"user__likes__film": [5], "default": [1]}, "'user__likes__film', but the edge types are"),
        ({("user", "film"): [5], "default": [1]}, r"\('user', 'film'\), but the edge types are"),
        ({None: [5], "default": [1]}, "None, but the edge types are"),
        ({RATES: [5], "user__rates__film": [5], "default": [1]}, "twice"),
    ],
)
def test_what_is_refused_by_name(fanouts, message):
    with pytest.raises(ValueError, match=message):
        as_typed_fanouts(fanouts, TYPES)


def test_names_that_stand_for_two_edge_types_are_refused():
    types = [("a__b", "c", "d"), ("a", "b__c", "d")]
    assert as_typed_fanouts({types[0]: [1], types[1]: [2]}, types) == {types[0]: [1], types[1]: [2]}
    with pytest.raises(ValueError, match="'a__b__c__d', but the edge types are"):
        as_typed_fanouts({"a__b__c__d": [1], "default": [2]}, types)
