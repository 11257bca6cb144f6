"""The generator: equal to its naive twin, and random enough to notice if it were not."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from graphzero import _core

WORDS = st.integers(0, 2**64 - 1)


@given(WORDS, WORDS)
def test_streams_and_draws_follow_the_documented_rule(key, item):
    stream = _core.stream(key, item)
    assert stream == reference.stream(key, item)
    expected = [reference.draw(stream, i) for i in range(5)]
    assert _core.draws(stream, 5).tolist() == expected


@given(WORDS, WORDS, WORDS)
def test_keys_follow_the_documented_rule(seed, epoch, batch):
    assert _core.key("sample", seed, epoch, batch) == reference.key(
        reference.SAMPLE, seed, epoch, batch
    )


def test_purposes_do_not_share_keys():
    keys = {_core.key(purpose, 1, 2, 3) for purpose in ("sample", "walk", "shuffle", "negative")}
    assert len(keys) == 4


@pytest.mark.parametrize("shift", [0, 8, 24, 40, 56])
def test_bytes_of_draws_are_uniform(shift):
    counts = np.bincount(
        (_core.draws(_core.stream(7, 0), 256_000) >> np.uint64(shift)) & np.uint64(255),
        minlength=256,
    )
    chi_square = ((counts - 1000.0) ** 2 / 1000.0).sum()
    assert chi_square < 341  # 0.9998 quantile of chi-square with 255 degrees of freedom


def test_first_draws_of_neighbouring_streams_are_uniform():
    first = [_core.draws(_core.stream(3, item), 1)[0] for item in range(64_000)]
    counts = np.bincount(np.array(first, dtype=np.uint64) >> np.uint64(58), minlength=64)
    chi_square = ((counts - 1000.0) ** 2 / 1000.0).sum()
    assert chi_square < 112  # 0.9999 quantile, 63 degrees of freedom


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_permutation_equals_the_naive_one(count):
    key = _core.key("shuffle", 5, 6, 0)
    assert _core.permutation(count, key).tolist() == reference.permutation(count, key).tolist()


def test_permutations_of_four_are_equally_frequent():
    seen: dict[tuple[int, ...], int] = {}
    for epoch in range(24_000):
        order = tuple(_core.permutation(4, _core.key("shuffle", 0, epoch, 0)).tolist())
        seen[order] = seen.get(order, 0) + 1
    counts = np.array(list(seen.values()))
    assert len(counts) == 24
    assert ((counts - 1000.0) ** 2 / 1000.0).sum() < 57  # 0.9999 quantile, 23 degrees of freedom
