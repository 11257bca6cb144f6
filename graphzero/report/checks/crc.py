"""CRC-32 of a whole from those of its parts, so that threads can compute them side by side.

The CRC of A + B is that of A, shifted by the length of B, plus that of B. To shift is to multiply
by a power of x modulo the polynomial, as zlib's ``crc32_combine`` does. Polynomials are bit
patterns whose highest bit is the coefficient of x^0.
"""

from __future__ import annotations

from functools import lru_cache

__all__ = ["combine"]

_POLYNOMIAL = 0xEDB88320
_ONE = 1 << 31


def _product(a: int, b: int) -> int:
    """Product modulo the polynomial."""
    found = 0
    while a:
        if a & _ONE:
            found ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return found


@lru_cache(maxsize=64)
def _shift(length: int) -> int:
    """The polynomial x to the power of 8 * length."""
    found, power = _ONE, _ONE >> 8  # x^0 and x^8
    while length:
        if length & 1:
            found = _product(found, power)
        power, length = _product(power, power), length >> 1
    return found


def combine(first: int, second: int, length: int) -> int:
    """CRC-32 of two parts together.

    Parameters
    ----------
    first, second : int
        CRC-32 of each.
    length : int
        Bytes of the second.
    """
    return _product(_shift(length), first) ^ second
