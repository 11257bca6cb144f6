"""How long work that has started processes is ended by signals."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ended_by_signals"]

_ENDING = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
_CLEANING_SECONDS = 15.0  # longer than the removal of a memory group is tried


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Ctrl-C and other requests to end leave no process and no memory group behind.

    Nor do further ones, which would interrupt the cleaning up. Each is a `KeyboardInterrupt`.
    """
    last = -math.inf

    def interrupt(*_: object) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > _CLEANING_SECONDS:
            last = now
            raise KeyboardInterrupt

    wanted = [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in wanted}  # nohup ignores one
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
