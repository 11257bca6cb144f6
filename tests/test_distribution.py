"""What is drawn at random comes as often as it must."""

from __future__ import annotations

import math

import chi_square
import pytest
from distributions import CASES

LEAST_P, MOST_P = 1e-4, 1 - 1e-6  # a fit that is too good is no draw either


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_outcomes_come_as_often_as_they_must(case, tmp_path):
    assert math.fsum(case.shares.values()) == pytest.approx(1, abs=1e-12)
    assert LEAST_P < chi_square.p_value(case.outcomes(tmp_path), case.shares) < MOST_P
