"""What is drawn at random comes as often as it must, and would not with a broken generator."""

from __future__ import annotations

import math

import chi_square
import pytest
import reference
from distributions import CASES
from distributions_of_kinds import KINDS

LEAST_P, MOST_P = 1e-4, 1 - 1e-6  # a fit that is too good is no draw either


@pytest.fixture(params=[*CASES, *KINDS], ids=lambda case: case.name)
def case(request):
    return request.param


@pytest.fixture
def sources(tmp_path, case):
    """The library and the twin, on the graph of the case."""
    library, twin = case.graph.write(tmp_path / "data")
    with library.ds:
        yield library, twin


def test_outcomes_come_as_often_as_they_must(case, sources):
    library, _ = sources
    assert math.fsum(case.shares.values()) == pytest.approx(1, abs=1e-12)
    p = chi_square.p_value(case.outcomes(library, case.size), case.shares)
    assert LEAST_P < p < MOST_P


def test_the_twin_stands_for_the_library(case, sources):
    """So that what the twin makes of a broken generator is what the library would make of it."""
    library, twin = sources
    outcomes = case.outcomes(twin, case.few)
    assert outcomes == case.outcomes(library, case.few)
    assert LEAST_P < chi_square.p_value(outcomes, case.shares) < MOST_P


def low_bits(stream, i):
    return i & 0xFFFF


def scaled_low_bits(stream, i):
    """Uniform one by one, but each draw follows from the one before."""
    return ((stream + i) & 0xFF) << 56


@pytest.mark.parametrize("broken", [low_bits, scaled_low_bits])
def test_a_broken_generator_is_noticed(case, sources, monkeypatch, broken):
    _, twin = sources
    monkeypatch.setattr(reference, "draw", broken)
    assert chi_square.p_value(case.outcomes(twin, case.few), case.shares) < LEAST_P / 100


# ---- the test itself


@pytest.mark.parametrize(
    ("freedom", "tail"),
    [
        (1, lambda x: math.erfc(math.sqrt(x / 2))),
        (2, lambda x: math.exp(-x / 2)),
        (
            3,
            lambda x: math.erfc(math.sqrt(x / 2)) + math.sqrt(2 * x / math.pi) * math.exp(-x / 2),
        ),
        (
            40,
            lambda x: math.exp(-x / 2) * sum((x / 2) ** k / math.factorial(k) for k in range(20)),
        ),
    ],
)
@pytest.mark.parametrize("x", [0.0, 1e-9, 0.3, 2.0, 17.0, 41.5, 100.0, 400.0])
def test_upper_tails_are_those_of_closed_forms(freedom, tail, x):
    assert chi_square.upper_tail(x, freedom) == pytest.approx(tail(x), rel=1e-9)


def test_quantiles_are_those_of_the_tables():
    for freedom, quantile in [(1, 6.635), (10, 23.209), (30, 50.892), (100, 135.807)]:
        assert chi_square.upper_tail(quantile, freedom) == pytest.approx(0.01, rel=1e-3)


def test_outcomes_are_counted_against_their_shares():
    shares = {"a": 0.5, "b": 0.25, "c": 0.25, "d": 0.0}
    assert chi_square.p_value("a" * 52 + "b" * 20 + "c" * 28, shares) == pytest.approx(
        math.exp(-(4 / 50 + 25 / 25 + 9 / 25) / 2)  # two degrees of freedom
    )
    assert chi_square.p_value("a" * 50 + "b" * 25 + "c" * 24 + "d", shares) == 0
    assert chi_square.p_value("a" * 50 + "b" * 25 + "c" * 24 + "e", shares) == 0


def test_rare_outcomes_are_pooled():
    shares = {"a": 0.48, "b": 0.48, **dict.fromkeys("vwxy", 0.01)}
    one = chi_square.p_value("a" * 49 + "b" * 45 + "vvvvvw", shares)
    other = chi_square.p_value("a" * 49 + "b" * 45 + "vvwwxy", shares)
    assert one == other > 0.1
    with pytest.raises(ValueError, match="more draws are needed"):
        chi_square.p_value("ab", shares)
