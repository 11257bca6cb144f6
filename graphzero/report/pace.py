"""`Pace`: how often a monitor looks, so that it takes less than a hundredth of a processor."""

from __future__ import annotations

__all__ = ["Pace"]

# Of one processor, for readings and as much again for complete ones, at an interval of a second.
_SHARE = 0.004
_LONGEST = 60.0  # seconds between two readings, whatever they cost
_LOOKS = 10  # for batch logs that are new, in the time of one reading
_SHORTEST_LOOK = 0.05


class Pace:
    """Decides when the next reading is due, and whether it is a complete one.

    A reading takes what is cheap to find out. A complete one also has what the kernel must count
    page by page: proportional memory, and the page cache of files. Both become as rare as their
    measured costs require.

    Parameters
    ----------
    interval : float
        Seconds between readings. Shorter ones than a second may cost more in proportion.
    """

    def __init__(self, interval: float) -> None:
        self.interval = interval
        self._share = _SHARE * max(1.0, 1.0 / interval)
        self._cost = 0.0  # processor seconds from one reading to the next
        self._complete_cost = 0.0
        self._next_complete = 0.0

    @property
    def delay(self) -> float:
        """Seconds from one reading to the next."""
        return min(_LONGEST, max(self.interval, self._cost / self._share))

    @property
    def look_delay(self) -> float:
        """Seconds from one look for new batch logs to the next."""
        return max(_SHORTEST_LOOK, self.delay / _LOOKS)

    def wants_complete(self, now: float) -> bool:
        """Whether the reading that is due at a time should be a complete one."""
        return now >= self._next_complete

    def add_cost(self, cpu_seconds: float) -> None:
        """What the last reading, and the looks since the one before, took."""
        self._cost = _smooth(self._cost, cpu_seconds)

    def add_complete_cost(self, cpu_seconds: float, now: float) -> None:
        """What the last complete reading took besides."""
        self._complete_cost = _smooth(self._complete_cost, cpu_seconds)
        self._next_complete = now + self._complete_cost / self._share


def _smooth(before: float, value: float) -> float:
    """Follows a cost that rises at once, and one that falls slowly."""
    return max(value, 0.7 * before + 0.3 * value)
