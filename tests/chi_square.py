"""Pearson's chi-square test of counted outcomes against their exact probabilities."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

LEAST_EXPECTED = 5.0  # cells of fewer draws are pooled: chi-square is no good approximation there


def upper_tail(statistic: float, freedom: int) -> float:
    """Probability that chi-square with so many degrees of freedom is at least `statistic`.

    The regularised incomplete gamma function Q(freedom / 2, statistic / 2), by its series where
    that converges fast, else by its continued fraction (Abramowitz, Stegun: 6.5.29, 6.5.31).
    """
    a, x = freedom / 2, statistic / 2
    if x == 0:
        return 1.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        n = a
        while term > total * 1e-16:
            n += 1
            term *= x / n
            total += term
        return 1 - front * total
    b = x + 1 - a
    c, d = math.inf, 1 / b
    fraction, change, n = d, 0.0, 0
    while abs(change - 1) > 1e-13:  # Lentz's way of going forwards
        n += 1
        b += 2
        c, d = b - n * (n - a) / c, 1 / (b - n * (n - a) * d)
        change = c * d
        fraction *= change
    return front * fraction


def p_value(outcomes: Iterable[Hashable], shares: Mapping[Hashable, float]) -> float:
    """Probability that draws with these shares fit them as badly as `outcomes` do, or worse.

    0 if there is an outcome that cannot be.
    """
    counts = Counter(outcomes)
    if any(shares.get(outcome, 0.0) == 0 for outcome in counts):
        return 0.0
    cells = [[0.0, 0]]
    for outcome, share in sorted(shares.items(), key=lambda item: item[1]):
        if cells[-1][0] >= LEAST_EXPECTED:
            cells.append([0.0, 0])
        cells[-1][0] += share * counts.total()
        cells[-1][1] += counts[outcome]
    if len(cells) > 1 and cells[-1][0] < LEAST_EXPECTED:
        expected, count = cells.pop()
        cells[-1][0] += expected
        cells[-1][1] += count
    if len(cells) < 2:
        raise ValueError("more draws are needed to tell the outcomes apart")
    statistic = sum((count - expected) ** 2 / expected for expected, count in cells)
    return upper_tail(statistic, len(cells) - 1)
