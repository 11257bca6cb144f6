"""The layout of a batch log, and `LogContent`: what was read of one.

All numbers are in the byte order of the machine, 8 bytes each, at offsets that do not change within
a version. Whoever writes makes `CHANGES` odd before and even after: a reader that finds it odd, or
another value after than before, has read something inconsistent.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

from graphzero.loader.batch_totals import BatchTotals

__all__ = [
    "CHANGES",
    "EMPTY",
    "EPOCH",
    "EPOCHS",
    "EPOCHS_AT",
    "HEADER",
    "MAGIC",
    "NO_EPOCH",
    "RECORDS",
    "RECORDS_AT",
    "SIZE",
    "STATE",
    "STATE_AT",
    "TEXT_AT",
    "TEXT_BYTES",
    "VERSION",
    "BatchRecord",
    "LogContent",
    "record_format",
]

MAGIC, VERSION = b"GZBATCH\0", 2
HEADER = struct.Struct("8sqqq")  # magic, version, pid, start of the process in ticks or -1
CHANGES = 32  # the counter
_KINDS = {"int": "q", "float": "d"}
_TOTALS = "".join(_KINDS[str(field.type)] for field in fields(BatchTotals))
STATE = struct.Struct(f"qqq{_TOTALS}")  # rows of the table, records ever, bytes of text, totals
STATE_AT = 64
EPOCH = struct.Struct(f"q{_TOTALS}")
EPOCHS_AT = 512
EPOCHS = 65  # rows of the table: epochs that were merged, in the first one, and the last ones
NO_EPOCH = -1  # of the first row
EMPTY = (0,) * len(_TOTALS)


class BatchRecord(NamedTuple):
    """One mini-batch, when it was handed over in the process that prepared it.

    Attributes
    ----------
    time : float
        Seconds, by `time.monotonic`, which is the same clock in all processes.
    epoch, batch : int
        Number of the mini-batch in its epoch.
    sampled, disk, gathered, ready, waited : float
        As in `BatchStats`.
    pages_missed, topology_missed, queue_depth, row_bytes : int
        As in `BatchStats`.
    seeds, nodes, edges : int
        In the mini-batch.
    """

    time: float
    epoch: int
    batch: int
    sampled: float
    disk: float
    gathered: float
    ready: float
    waited: float
    pages_missed: int
    topology_missed: int
    queue_depth: int
    row_bytes: int
    seeds: int
    nodes: int
    edges: int


record_format = struct.Struct("dqq5d7q")
RECORDS_AT = 16 << 10
RECORDS = 1024
TEXT_AT = RECORDS_AT + RECORDS * record_format.size
TEXT_BYTES = 64 << 10
SIZE = TEXT_AT + TEXT_BYTES
assert STATE_AT + STATE.size <= EPOCHS_AT
assert EPOCHS_AT + EPOCHS * EPOCH.size <= RECORDS_AT


@dataclass(frozen=True)
class LogContent:
    """What the iterations of one process have done, at one moment.

    Attributes
    ----------
    data : bytes
        As `batch_log_file` describes it.
    """

    data: bytes

    @property
    def pid(self) -> int:
        """The process."""
        return int(HEADER.unpack_from(self.data)[2])

    @property
    def start_ticks(self) -> int | None:
        """When it began, see `io.process_files`."""
        ticks = int(HEADER.unpack_from(self.data)[3])
        return None if ticks < 0 else ticks

    @cached_property
    def _state(self) -> tuple[Any, ...]:
        return STATE.unpack_from(self.data, STATE_AT)

    @property
    def totals(self) -> BatchTotals:
        """Sums over all mini-batches that the process has prepared, and over the loop's steps."""
        return BatchTotals(*self._state[3:])

    @cached_property
    def _table(self) -> dict[int, BatchTotals]:
        rows = (
            EPOCH.unpack_from(self.data, EPOCHS_AT + i * EPOCH.size) for i in range(self._state[0])
        )
        return {row[0]: BatchTotals(*row[1:]) for row in rows}

    @property
    def epochs(self) -> dict[int, BatchTotals]:
        """The same by epoch; of many epochs the last ones."""
        return {epoch: sums for epoch, sums in sorted(self._table.items()) if epoch != NO_EPOCH}

    @property
    def earlier(self) -> BatchTotals:
        """The sum over all other epochs."""
        return self._table.get(NO_EPOCH, BatchTotals())

    @property
    def records(self) -> tuple[BatchRecord, ...]:
        """The last mini-batches that were prepared, in the order of time."""
        count = self._state[1]
        places = (i % RECORDS for i in range(max(0, count - RECORDS), count))
        return tuple(
            BatchRecord(*record_format.unpack_from(self.data, RECORDS_AT + i * record_format.size))
            for i in places
        )

    @cached_property
    def _text(self) -> dict[str, Any]:
        num_bytes = self._state[2]
        text: dict[str, Any] = json.loads(self.data[TEXT_AT : TEXT_AT + num_bytes] or b"{}")
        return text

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the graph and row files that the iterations read."""
        return tuple(self._text.get("files", ()))

    @property
    def files_left_out(self) -> int:
        """How many more there are, for which there was no room."""
        return int(self._text.get("files_left_out", 0))

    @property
    def iterations(self) -> tuple[dict[str, str], ...]:
        """The options of the iterations, each different combination once; the last one used last.

        The keys are fanouts, batch_size, num_workers, num_threads (which sample in each process),
        prefetch, and io: what the plan came to.
        """
        return tuple(self._text.get("iterations", ()))
