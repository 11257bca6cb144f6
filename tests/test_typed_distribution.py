"""Typed sampling draws every joint outcome as often as it must, as `test_distribution` for graphs
without types."""

from __future__ import annotations

import math

import chi_square
import pytest
import reference
import typed_distributions
from test_distribution import LEAST_P, MOST_P, low_bits, scaled_low_bits

# The same draws are sanitized by tests/test_typed_sampler.py; here they are only counted.
pytestmark = pytest.mark.no_asan


@pytest.fixture(params=typed_distributions.CASES, ids=lambda case: case.name)
def case(request):
    return request.param


def test_outcomes_come_as_often_as_they_must(case, tmp_path):
    assert math.fsum(case.shares.values()) == pytest.approx(1, abs=1e-12)
    source = typed_distributions.library(case.graph, tmp_path)
    p = chi_square.p_value(case.outcomes(source, case.size), case.shares)
    assert LEAST_P < p < MOST_P


def test_the_twin_stands_for_the_library(case, tmp_path):
    outcomes = case.outcomes(typed_distributions.twin(case.graph), case.few)
    assert outcomes == case.outcomes(typed_distributions.library(case.graph, tmp_path), case.few)
    assert LEAST_P < chi_square.p_value(outcomes, case.shares) < MOST_P


@pytest.mark.parametrize("broken", [low_bits, scaled_low_bits])
def test_a_broken_generator_is_noticed(case, monkeypatch, broken):
    source = typed_distributions.twin(case.graph)
    monkeypatch.setattr(reference, "draw", broken)
    assert chi_square.p_value(case.outcomes(source, case.few), case.shares) < LEAST_P / 100


OF_TWO = [
    case
    for case in typed_distributions.CASES
    if case.name not in ("there and back", "last until a time beside uniform")
]


@pytest.mark.parametrize("of_two", OF_TWO, ids=lambda case: case.name)
def test_edge_types_that_share_their_draws_are_noticed(of_two, monkeypatch):
    """Where a node draws from lists of two types, each must have draws of its own."""
    source = typed_distributions.twin(of_two.graph)
    monkeypatch.setattr(typed_distributions.typed_reference, "MOST_HOPS", 0)
    assert chi_square.p_value(of_two.outcomes(source, of_two.few), of_two.shares) < LEAST_P
