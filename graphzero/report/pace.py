"""`Pace`: how often a monitor looks, so that it takes less than a hundredth of a processor."""

from __future__ import annotations

__all__ = ["Pace", "Work"]

# Shares of one processor at an interval of a second: of readings, of proportional memory, of
# counting what is in the page cache, and of the search for files that processes have mapped.
_READINGS, _PSS, _PAGE_CACHE, _SEARCH = 0.004, 0.003, 0.0015, 0.0005
_LONGEST = 60.0  # seconds between two readings, whatever they cost
_LOOKS = 10  # for batch logs that are new, in the time of one reading
_SHORTEST_LOOK, _LONGEST_LOOK = 0.05, 0.1  # workers may live for as long, at any interval
_CREDIT = 0.03  # seconds of a processor that each kind of work may take before its time
_LAST = 0.1  # and as much more for the last reading
_GUESS = 2e-11  # seconds a byte, until the cost was measured: 20 ms for a GB


class Work:
    """Something that the kernel must count page by page: its cost grows with the size.

    Parameters
    ----------
    share : float
        Of one processor, that it may take.
    least : float
        Bytes below which the cost is taken to be that of so many: a part of it does not depend on
        the size.
    """

    def __init__(self, share: float, least: float) -> None:
        self._share = share
        self._least = least
        self._rate = _GUESS
        self._spent = 0.0

    def is_affordable(self, size: float, now: float, *, is_last: bool = False) -> bool:
        """Whether it may be done now, for so many bytes, so many seconds after the beginning."""
        cost = self._rate * max(size, self._least)
        credit = _CREDIT + _LAST if is_last else _CREDIT
        return self._spent + cost <= self._share * now + credit

    def add(self, cpu_seconds: float, size: float) -> None:
        """What it took for so many bytes."""
        self._spent += cpu_seconds
        rate = cpu_seconds / max(size, self._least)
        self._rate = rate if self._rate == _GUESS else _smooth(self._rate, rate)


class Pace:
    """Decides when the next reading is due, and what of the expensive work it includes.

    Both become as rare as their measured costs require.

    Parameters
    ----------
    interval : float
        Seconds between readings. Shorter ones than a second may cost more in proportion.
    """

    def __init__(self, interval: float) -> None:
        self.interval = interval
        more = max(1.0, 1.0 / interval)
        self._share = _READINGS * more
        self._cost = 0.0  # processor seconds from one reading to the next
        self.pss = Work(_PSS * more, 1e8)
        self.page_cache = Work(_PAGE_CACHE * more, 1e9)
        self.search = Work(_SEARCH * more, 1e9)

    @property
    def delay(self) -> float:
        """Seconds from one reading to the next."""
        return min(_LONGEST, max(self.interval, self._cost / self._share))

    @property
    def look_delay(self) -> float:
        """Seconds from one look for new batch logs to the next."""
        return min(_LONGEST_LOOK, max(_SHORTEST_LOOK, self.delay / _LOOKS))

    def add_cost(self, cpu_seconds: float) -> None:
        """What the last reading, and the looks since the one before, took."""
        self._cost = _smooth(self._cost, cpu_seconds)


def _smooth(before: float, value: float) -> float:
    """Follows a cost that rises at once, and one that falls slowly."""
    return max(value, 0.7 * before + 0.3 * value)
