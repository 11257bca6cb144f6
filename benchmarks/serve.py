"""Runs a peer's session inside the peer's environment: the standard library only.

``python serve.py SCRIPT`` makes the `Session` of a script and answers requests with its methods,
one JSON object per line: the method's result and its measured time, or ``{"error": message}``.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time

__all__ = ["Stopwatch"]


class Stopwatch:
    """Measures a ``with`` block.

    Attributes
    ----------
    seconds : float
        Wall time of the last block.
    processor_seconds : float
        Processor time of all threads of the process in the block.
    """

    seconds = 0.0
    processor_seconds = 0.0

    def __enter__(self) -> Stopwatch:
        self._processor_begin = time.process_time()
        self._begin = time.perf_counter()
        return self

    @property
    def reading(self) -> dict[str, float]:
        """Both times, as plain values."""
        return {"seconds": self.seconds, "processor_seconds": self.processor_seconds}

    def __exit__(self, *error: object) -> None:
        self.seconds = time.perf_counter() - self._begin
        self.processor_seconds = time.process_time() - self._processor_begin


def main() -> None:
    """Answers requests until the standard input ends."""
    # Some peers print to the standard output, which is reserved for the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    stopwatch = Stopwatch()
    session = runpy.run_path(sys.argv[1])["Session"](stopwatch)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(session, request.pop("op"))(**request) | stopwatch.reading
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
