"""What `graphzero tune` shows while it measures: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from statistics import median
from types import TracebackType
from typing import Any, TextIO

from graphzero.io.prefetch import Prefetch
from graphzero.report.disk_rate import DiskRate
from graphzero.report.tuning.grid import describe
from graphzero.report.tuning.heat_map import seconds_text, short_reason
from graphzero.report.tuning.trial import Trials
from graphzero.report.tuning.tuner import Record
from graphzero.units import format_bytes

__all__ = ["LiveTable", "PlainLines", "disk_line", "limit_line"]

_FRAME_LINES = 8  # of the terminal, that rows of the table cannot have


def limit_line(trials: Trials) -> str:
    """What limits the memory of the trials."""
    if trials.memory_limit is None:
        return "memory: what the machine has available"
    size = format_bytes(trials.memory_limit)
    if trials.no_group is None:
        return f"memory: {size} for each process and its page cache ({trials.group})"
    return (
        f"memory: {size}, but the page cache is NOT limited, so that strategies which use it look "
        f"faster than they are: {trials.no_group}"
    )


def disk_line(disk: DiskRate | None) -> str:
    """The disk's own rate."""
    if disk is None:
        return "disk: not measured"
    if disk.reads_per_second is None:
        return f"disk: unknown rate: {disk.unavailable}"
    sequential = disk.sequential_bytes_per_second
    notes = "".join(f"; {note}" for note in disk.notes)
    return (
        f"disk: {disk.reads_per_second:,.0f} random reads/s of {disk.block_bytes:,} bytes "
        f"(depth {disk.depth}, {disk.engine})"
        + ("" if sequential is None else f", {format_bytes(int(sequential))}/s in sequence")
        + notes
    )


class PlainLines:
    """A line for each trial."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = sys.stderr if out is None else out
        self._count = self._number = 0

    def __enter__(self) -> PlainLines:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def started(self, trials: Trials, settings: Sequence[Prefetch], disk: DiskRate | None) -> None:
        """Says what limits the trials."""
        self._count = len(settings)
        self._say(limit_line(trials))
        self._say(disk_line(disk))
        self._say(f"comparing {len(settings)} settings")

    def trying(self, setting: Prefetch, rung: int) -> None:
        """Says nothing: the line comes with the result."""

    def tried(self, record: Record) -> None:
        """The line of a trial."""
        self._number += 1
        result = record.result
        seconds = result.seconds_per_batch
        text = result.reason if seconds is None else f"{seconds_text(seconds)} a mini-batch"
        self._say(
            f"  trial {self._number}, rung {record.rung + 1}: {describe(result.setting)}: {text}"
        )

    def left(self, settings: Sequence[Prefetch]) -> None:
        """How many are left."""
        self._say(f"{len(settings)} settings are left")

    def _say(self, text: str) -> None:
        print(text, file=self._out, flush=True)


class LiveTable:
    """A table of all settings, the fastest first, that changes with each trial."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False, vertical_overflow="crop")
        self._settings: Sequence[Prefetch] = ()
        self._left: set[Prefetch] = set()
        self._records: dict[Prefetch, list[Record]] = {}
        self._running: Prefetch | None = None
        self._caption = ""

    def __enter__(self) -> LiveTable:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._running = None
        self._refresh()
        self._live.stop()

    def started(self, trials: Trials, settings: Sequence[Prefetch], disk: DiskRate | None) -> None:
        """Shows the empty table."""
        self._settings, self._left = settings, set(settings)
        self._caption = f"{limit_line(trials)}\n{disk_line(disk)}"
        self._refresh()

    def trying(self, setting: Prefetch, rung: int) -> None:
        """Marks the setting that runs."""
        self._running = setting
        self._refresh()

    def tried(self, record: Record) -> None:
        """Shows its figures."""
        self._records.setdefault(record.result.setting, []).append(record)
        self._refresh()

    def left(self, settings: Sequence[Prefetch]) -> None:
        """Marks the others as out."""
        self._left = set(settings)
        self._refresh()

    def _refresh(self) -> None:
        if self._settings:
            self._live.update(self._table(), refresh=True)

    def _seconds(self, setting: Prefetch) -> float:
        """On the highest rung; infinite without a trial that did not fail."""
        done = [one for one in self._records.get(setting, []) if one.result.reason is None]
        last = max((one.rung for one in done), default=0)
        times = [one.result.seconds_per_batch for one in done if one.rung == last]
        return median(time for time in times if time is not None) if times else float("inf")

    def _table(self) -> Any:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        done = sum(map(len, self._records.values()))
        table = Table(
            title=f"{len(self._left)} of {len(self._settings)} settings left, {done} trials",
            caption=self._caption,
            caption_justify="left",
            box=SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
        )
        table.add_column("setting", no_wrap=True)
        for name in ("mini-batch", "trials", "missed", "memory"):
            table.add_column(name, justify="right", no_wrap=True, min_width=len(name))
        order = sorted(self._settings, key=lambda one: (one not in self._left, self._seconds(one)))
        room = max(3, self._console.height - _FRAME_LINES)
        shown = order[:room]
        if self._running is not None and self._running not in shown:
            shown = [*shown[:-1], self._running]
        for setting in shown:
            cells, style = self._row(setting)
            table.add_row(*cells, style=style)
        if len(order) > len(shown):
            table.add_row(f"  ... and {len(order) - len(shown)} more", style="dim")
        return table

    def _row(self, setting: Prefetch) -> tuple[list[str], str]:
        records = self._records.get(setting, [])
        seconds = self._seconds(setting)
        is_running = setting == self._running
        style = "bold" if is_running else "" if setting in self._left else "dim"
        name = f"{'>' if is_running else ' '} {describe(setting)}"
        if not records:
            return [name, "running" if is_running else "", "", "", ""], style
        last = records[-1].result
        if seconds == float("inf"):
            return [name, short_reason(last.reason), str(len(records)), "", ""], style or "red"
        missed, own = last.pages_missed, last.peak_anonymous
        return [
            name,
            seconds_text(seconds),
            str(len(records)),
            "" if missed is None else f"{missed:,.0f}",
            "" if own is None else format_bytes(own),
        ], style
