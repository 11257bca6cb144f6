"""Recordings as a `Monitor` would make them, for tests of what is made of recordings."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import fields, replace

from graphzero.loader.stats import BatchTotals
from graphzero.report.recording import FileReading, GroupReading, ProcessReading, Reading, Recording

MB, GB = 10**6, 10**9
STARTED = "2026-03-02T08:15:30+00:00"
LAPTOP = {
    "cpu": "AMD Ryzen 7 7840U with Radeon 780M Graphics",
    **{"cores": 8, "memory": 16 * GB, "system": "Linux 6.12.9 x86_64"},
    **{"disk": "Samsung SSD 990 PRO 1TB", "file_system": "ext4", "torch": "2.13.0"},
}
OPTIONS = {"num_workers": "4", "num_threads": "1", "io": "resident prefix of 1.6 GB, lookahead 4"}


def process(
    pid: int, anonymous: int, file: int, shared: int = 0, sharers: int = 1, **counters: float
) -> ProcessReading:
    """A process whose mapped and shared pages `sharers` processes have."""
    return ProcessReading(
        pid,
        "python",
        rss=anonymous + file + shared,
        anonymous=anonymous,
        file=file,
        shared=shared,
        pss=anonymous + (file + shared) // sharers,
        pss_anonymous=anonymous,
        pss_file=file // sharers,
        **counters,  # type: ignore[arg-type]
    )


def reading(seconds: float, *processes: ProcessReading, **figures: object) -> Reading:
    """A reading of which only some figures matter."""
    return Reading(seconds, processes, **{"available": 5 * GB, **figures})  # type: ignore[arg-type]


def recording(*readings: Reading, **figures: object) -> Recording:
    """A recording of which only some figures matter."""
    seconds = readings[-1].seconds if readings else 0.0
    known = {"command": ("./train",), "started": STARTED, "seconds": seconds, **figures}
    known = {"environment": {}, **known}
    return Recording(readings=readings, **known)  # type: ignore[arg-type]


def share_of(whole: BatchTotals, share: float) -> BatchTotals:
    """What of the whole has been counted after a share of it."""
    values = {f.name: getattr(whole, f.name) for f in fields(whole)}
    return BatchTotals(**{name: type(value)(value * share) for name, value in values.items()})


def file(path: str, size: int, parts: list[float] | None) -> FileReading:
    """A file of the dataset, with the share of each part in the page cache."""
    cached = None if parts is None else int(size * sum(parts) / len(parts))
    return FileReading(path, size, cached, parts)


STEPS = 600  # readings of `out_of_core` after the first, two seconds apart


def _out_of_core_reading(i: int, whole: BatchTotals, files: dict[str, int]) -> Reading:
    """The workers begin anew in each epoch; those of earlier ones have ended."""
    growth, count = 1 - math.exp(-i / 30), 4 if i % 200 >= 2 else 0
    read = int((800 + 90 * math.sin(i / 17)) * MB * i / (1 + 0.01 * (i % 5)))
    used = int((640 + 90 * growth) * MB)
    counted = {"major_faults": 3 * i, "read_bytes": 10 * MB, "cpu_seconds": i}
    of_main = {"major_faults": 3000 * i, "read_bytes": read, "cpu_seconds": 9.6 * i}
    processes = [process(4000, used, 260 * MB, 90 * MB, count + 1, **of_main)]
    processes += [
        process(4001 + n, 100 * MB, int(GB * growth), 90 * MB, count + 1, **counted)
        for n in range(count)
    ]
    usage = min(4 * GB - 8 * MB, used + int(3 * GB * growth))
    return Reading(
        *(2.0 * i, tuple(processes), int((9 - 2.7 * growth) * GB)),
        GroupReading(4 * GB, usage, 2 * GB, kills=0),
        {path: int(cached * growth) for path, cached in files.items()},
        device_bytes=read + (900 * MB if i > 300 else 0),
        batches=share_of(whole, i / STEPS),
    )


def out_of_core() -> Recording:
    """Twenty minutes with four workers under a limit of 4 GB, which wait for the disk."""
    one = BatchTotals(
        *(193, 210.0, 920.0, 160.0, 35.0, 193, 250.0, 128.0, 19_000_000, 400_000, 58 * GB),
        *(210, 196_615, 113_000_000, 160_000_000),
    )
    epochs = {epoch: replace(one, disk=one.disk - 60 * epoch) for epoch in range(3)}
    whole = sum(epochs.values(), BatchTotals())
    dice = random.Random(7)
    features = [1.0] * 42 + [0.09 + 0.02 * dice.random() for _ in range(470)]
    files = (
        file("data/products/features.gd", 13_600 * MB, features),
        file("data/products/graph.gl", 1_130 * MB, [0.3] * 256),
        file("data/products/labels.gd", 19_600_000, [1.0] * 256),
    )
    cached = {each.path: each.page_cache or 0 for each in files}
    readings = (_out_of_core_reading(i, whole, cached) for i in range(STEPS + 1))
    return recording(
        *readings,
        command=("python", "train.py", "--data", "data/products", "--epochs", "3"),
        environment=LAPTOP,
        files=files,
        epochs=epochs,
        options=OPTIONS,
    )


def typed() -> Recording:
    """A typed graph of twelve epochs and 25 files, of one of which the residency is unknown."""
    dice = random.Random(3)
    files = [
        file(f"data/nodes/{n}/x.gd", 900 * MB >> n, [dice.random() for _ in range(99)])
        for n in range(24)
    ]
    files.append(file("data/edges/0.gl", 500 * MB, None))
    one = BatchTotals(40, 20.0, 3.0, 9.0, 30.0, 40, 1.5, 26.0, 900, 40, 3 * GB, 60, 40960, 10**7)
    known = {each.path: each.page_cache for each in files if each.page_cache is not None}
    readings = (
        reading(
            5.0 * i,
            process(9, 500 * MB, 200 * MB, major_faults=i, read_bytes=40 * MB * i),
            group=GroupReading(None, 3 * GB, 2 * GB),
            page_cache={path: int(cached * i / 70) for path, cached in known.items()},
            batches=share_of(one, 12 * i / 70),
        )
        for i in range(71)
    )
    return recording(*readings, files=tuple(files), epochs=dict.fromkeys(range(12), one))


def only_rss() -> Recording:
    """Where the system tells little, as on macOS."""
    figures = ({"rss": (100 + i) * MB, "cpu_seconds": float(i)} for i in range(31))
    readings = (reading(float(i), ProcessReading(5, "train", **f)) for i, f in enumerate(figures))  # type: ignore[arg-type]
    return recording(*readings, files=(FileReading("data/graph.gl", 10 * MB),))


def empty() -> Recording:
    """Ended before the first reading."""
    return recording()


def one_reading() -> Recording:
    """So short that there is one reading, at zero seconds."""
    return replace(typed(), seconds=0.0, readings=typed().readings[:1])


HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp; \"'$x_1$ "
    "\x1b[31m\u202e\udcff\u6f22"
)


def hostile() -> Recording:
    """Every text of it tries to be something else."""
    long, texts = out_of_core(), {HOSTILE: HOSTILE}
    files = tuple(
        replace(each, path=f"data/{HOSTILE}/{n}/{each.path}") for n, each in enumerate(long.files)
    )
    readings = tuple(
        replace(
            each,
            processes=tuple(replace(p, name=HOSTILE) for p in each.processes),
            page_cache=dict.fromkeys((f.path for f in files), 5),
        )
        for each in long.readings[:50]
    )
    environment = {"cpu": HOSTILE, **texts}
    long = replace(long, command=("python", "-c", HOSTILE), started=HOSTILE, options=texts)
    return replace(long, environment=environment, files=files, readings=readings)


RECORDINGS: dict[str, Callable[[], Recording]] = {
    make.__name__: make for make in (out_of_core, typed, only_rss, empty, one_reading, hostile)
}
