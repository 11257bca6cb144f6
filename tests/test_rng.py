"""The generator: equal to its naive twin, and random enough to notice if it were not."""

from __future__ import annotations

import itertools
import math

import chi_square
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from graphzero import _core
from graphzero.sampling.order import Share, batch_ids, epoch_order

pytestmark = pytest.mark.core  # under AddressSanitizer, too

WORDS = st.integers(0, 2**64 - 1)


@given(WORDS, WORDS)
def test_streams_and_draws_follow_the_documented_rule(key, item):
    stream = _core.stream(key, item)
    assert stream == reference.stream(key, item)
    expected = [reference.draw(stream, i) for i in range(5)]
    assert _core.draws(stream, 5).tolist() == expected
    bound = 1 + item % 2**40
    below = [draw * bound >> 64 for draw in expected[:4]]
    assert _core.draws_below(stream, bound, 2, 2).reshape(-1).tolist() == below


@given(WORDS, WORDS, WORDS)
def test_keys_follow_the_documented_rule(seed, epoch, batch):
    assert _core.key("sample", seed, epoch, batch) == reference.key(
        reference.SAMPLE, seed, epoch, batch
    )


@pytest.mark.parametrize("count", [0, 1, 2, 100])
def test_the_order_of_an_epoch_equals_the_naive_one(count):
    expected = reference.permutation(count, reference.key(reference.SHUFFLE, 5, 6, 0))
    assert epoch_order(count, True, 5, 6).tolist() == expected.tolist()
    assert epoch_order(count, False, 5, 6).tolist() == list(range(count))
    assert list(batch_ids(count, Share())) == list(range(count))  # one worker has them all


# ---- streams: what is drawn for one seed, epoch, batch, hop or node says nothing about the others

AXES = ("seed", "epoch", "batch", "hop", "node")


def two_draws(numbers):
    """The first draws of a node, from the twin of the core."""
    seed, epoch, batch, hop, node = numbers
    of_batch = reference.key(reference.SAMPLE, seed, epoch, batch)
    stream = reference.stream(reference.stream(of_batch, hop), node)
    return [reference.draw(stream, i) for i in range(2)]


def along(axis, x):
    """Numbers that differ in one place."""
    return [x if name == axis else 3 * i for i, name in enumerate(AXES)]


def p_of_neighbours(axis, shift):
    """Two bits of each of the first two draws of neighbouring streams, jointly."""
    drawn = [two_draws(along(axis, x)) for x in range(6000)]
    bits = [[value >> shift & 3 for value in pair] for pair in drawn]
    outcomes = [(*one, *other) for one, other in zip(bits[::2], bits[1::2], strict=True)]
    return chi_square.p_value(
        outcomes, dict.fromkeys(itertools.product(range(4), repeat=4), 4.0**-4)
    )


def p_of_flips(axis):
    """How many bits of the first draw change with one bit of the number: half of 64, by chance."""
    flips = []
    for x in range(0, 2**64, 2**60 + 12345):
        plain = two_draws(along(axis, x))[0]
        for bit in range(64):
            flips.append((plain ^ two_draws(along(axis, x ^ (1 << bit)))[0]).bit_count())
    # fewer than 8, or more than 56, is less likely than 1 in 10^9
    return chi_square.p_value(flips, {n: math.comb(64, n) / 2**64 for n in range(8, 57)})


def distinct_streams():
    return len({two_draws(numbers)[0] for numbers in itertools.product(range(4), repeat=5)})


@pytest.mark.parametrize("axis", AXES)
def test_neighbouring_streams_are_independent(axis):
    for shift in (0, 31, 62):
        assert 1e-4 < p_of_neighbours(axis, shift) < 1 - 1e-6
    assert 1e-4 < p_of_flips(axis) < 1 - 1e-6
    assert distinct_streams() == 4**5


def overlapping(key, item):
    """Each stream is the one before, from its second draw on."""
    return (key + item * 0x9E3779B97F4A7C15) % 2**64


@pytest.mark.parametrize("axis", AXES)
def test_broken_streams_are_noticed(monkeypatch, axis):
    monkeypatch.setattr(reference, "stream", overlapping)
    assert p_of_neighbours(axis, 62) < 1e-6
    assert distinct_streams() < 4**5
    monkeypatch.setattr(reference, "stream", lambda key, item: reference.mix(key ^ item >> 1))
    assert p_of_flips(axis) < 1e-6
