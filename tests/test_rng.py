"""The generator: equal to its naive twin, and random enough to notice if it were not."""

from __future__ import annotations

import itertools
import math

import chi_square
import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from graphzero import _core

pytestmark = pytest.mark.core  # under AddressSanitizer, too

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
    drawn = (_core.draws(_core.stream(7, 0), 256_000) >> np.uint64(shift)) & np.uint64(255)
    assert 1e-4 < chi_square.p_value(drawn.tolist(), dict.fromkeys(range(256), 1 / 256)) < 1 - 1e-6


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_permutation_equals_the_naive_one(count):
    key = _core.key("shuffle", 5, 6, 0)
    assert _core.permutation(count, key).tolist() == reference.permutation(count, key).tolist()


# ---- streams: what is drawn for one seed, epoch, batch, hop or node says nothing about the others

AXES = ("seed", "epoch", "batch", "hop", "node")


def two_draws(rng, numbers):
    """The first draws of a node, from the core or from its twin."""
    purpose = "sample" if rng is _core else reference.SAMPLE
    seed, epoch, batch, hop, node = numbers
    stream = rng.stream(rng.stream(rng.key(purpose, seed, epoch, batch), hop), node)
    if rng is _core:
        return _core.draws(stream, 2).tolist()
    return [rng.draw(stream, i) for i in range(2)]


def along(axis, x):
    """Numbers that differ in one place."""
    return [x if name == axis else 3 * i for i, name in enumerate(AXES)]


def p_of_neighbours(rng, axis, shift):
    """Two bits of each of the first two draws of neighbouring streams, jointly."""
    drawn = [two_draws(rng, along(axis, x)) for x in range(6000)]
    bits = [[value >> shift & 3 for value in pair] for pair in drawn]
    outcomes = [(*one, *other) for one, other in zip(bits[::2], bits[1::2], strict=True)]
    return chi_square.p_value(
        outcomes, dict.fromkeys(itertools.product(range(4), repeat=4), 4.0**-4)
    )


def p_of_flips(rng, axis):
    """How many bits of the first draw change with one bit of the number: half of 64, by chance."""
    flips = []
    for x in range(0, 2**64, 2**60 + 12345):
        plain = two_draws(rng, along(axis, x))[0]
        for bit in range(64):
            flips.append((plain ^ two_draws(rng, along(axis, x ^ (1 << bit)))[0]).bit_count())
    # fewer than 8, or more than 56, is less likely than 1 in 10^9
    return chi_square.p_value(flips, {n: math.comb(64, n) / 2**64 for n in range(8, 57)})


def distinct_streams(rng):
    return len({two_draws(rng, numbers)[0] for numbers in itertools.product(range(4), repeat=5)})


@pytest.mark.parametrize("axis", AXES)
def test_neighbouring_streams_are_independent(axis):
    for shift in (0, 31, 62):
        assert 1e-4 < p_of_neighbours(_core, axis, shift) < 1 - 1e-6
    assert 1e-4 < p_of_flips(_core, axis) < 1 - 1e-6


def test_streams_do_not_meet():
    assert distinct_streams(_core) == 4**5


def overlapping(key, item):
    """Each stream is the one before, from its second draw on."""
    return (key + item * 0x9E3779B97F4A7C15) % 2**64


@pytest.mark.parametrize("axis", AXES)
def test_broken_streams_are_noticed(monkeypatch, axis):
    monkeypatch.setattr(reference, "stream", overlapping)
    assert p_of_neighbours(reference, axis, 62) < 1e-6
    assert distinct_streams(reference) < 4**5
    monkeypatch.setattr(reference, "stream", lambda key, item: reference.mix(key ^ item >> 1))
    assert p_of_flips(reference, axis) < 1e-6
