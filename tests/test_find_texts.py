"""The kernel that finds texts in a table of ascending ones, against a dictionary."""

from __future__ import annotations

import numpy as np
import pytest

from graphzero import _core

pytestmark = pytest.mark.core  # under AddressSanitizer, too


def packed(texts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    ends = np.cumsum([len(text) for text in texts], dtype=np.uint64)
    return np.frombuffer(b"".join(texts) or b"\0", np.uint8), ends


@pytest.mark.parametrize("ends", [[1 << 63, 2, 3], [3, 2, 1], [1, 1 << 40, 3], [0, 0, 4]])
def test_ends_outside_the_texts_are_counted_and_not_read(ends: list[int]) -> None:
    data = np.frombuffer(b"abc", np.uint8).copy()  # of its own, so that a read beyond it is found
    table = np.array(ends, np.uint64)
    found, corrupt = _core.find_texts(data, table, *packed([b"a", b"b", b"zz"]))
    assert corrupt > 0
    assert len(found) == 3


def test_positions_outside_the_texts_are_counted_and_not_read() -> None:
    table, wanted = packed([b"a", b"b", b"c"]), packed([b"a", b"b", b"zz"])
    for by_id in ([0, 3, 2], [0, -1, 2], [0, 1 << 62, 2]):
        assert _core.find_texts(*table, *wanted, 1, np.array(by_id))[1] > 0
    with pytest.raises(ValueError, match="a position for each text"):
        _core.find_texts(*table, *wanted, 1, np.arange(2))
