"""What is drawn at random comes as often as it must, and would not with a broken generator."""

from __future__ import annotations

import math

import chi_square
import pytest
import reference
from distributions import CASES, OF_TWO

LEAST_P, MOST_P = 1e-4, 1 - 1e-6  # a fit that is too good is no draw either
all_cases = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@all_cases
def test_outcomes_come_as_often_as_they_must(case, tmp_path):
    library, twin = case.graph.sources(tmp_path)
    assert math.fsum(case.shares.values()) == pytest.approx(1, abs=1e-12)
    p = chi_square.p_value(case.outcomes(library, case.size), case.shares)
    assert LEAST_P < p < MOST_P
    # the twin stands for the library: what it makes of a broken generator, the library would make
    assert case.outcomes(twin, case.few) == case.outcomes(library, case.few)


def low_bits(stream, i):
    return i & 0xFFFF


def scaled_low_bits(stream, i):
    """Uniform one by one, but each draw follows from the one before."""
    return ((stream + i) & 0xFF) << 56


@pytest.mark.parametrize("broken", [None, low_bits, scaled_low_bits])
@all_cases
def test_a_broken_generator_is_noticed(case, tmp_path, monkeypatch, broken):
    _, twin = case.graph.sources(tmp_path)
    if broken is not None:
        monkeypatch.setattr(reference, "draw", broken)
    p = chi_square.p_value(case.outcomes(twin, case.few), case.shares)
    assert LEAST_P < p < MOST_P if broken is None else p < LEAST_P / 100


@pytest.mark.parametrize("case", OF_TWO, ids=lambda case: case.name)
def test_edge_types_that_share_their_draws_are_noticed(case, tmp_path, monkeypatch):
    _, twin = case.graph.sources(tmp_path)
    monkeypatch.setattr(reference, "MOST_HOPS", 0)
    assert chi_square.p_value(case.outcomes(twin, case.few), case.shares) < LEAST_P
