"""Pearson's chi-square test of counted outcomes against their exact probabilities."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping

from scipy.special import chdtrc

LEAST_EXPECTED = 5.0  # cells of fewer draws are pooled: chi-square is no good approximation there


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
    return float(chdtrc(len(cells) - 1, statistic))
