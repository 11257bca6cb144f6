"""Recordings as a `Monitor` would make them, for tests of what is made of recordings."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable
from itertools import accumulate

from graphzero.loader.stats import BatchTotals
from graphzero.report.recording import (
    ENDED,
    Environment,
    FileReading,
    GroupReading,
    ProcessReading,
    Reading,
    Recording,
    SystemReading,
)

MB, GB = 10**6, 10**9
COMMAND = ("python", "train.py", "--data", "data/products", "--epochs", "3")
LAPTOP = Environment(
    cpu="AMD Ryzen 7 7840U with Radeon 780M Graphics",
    cores=8,
    memory=16 * GB,
    system="Linux 6.12.9 x86_64",
    disk="Samsung SSD 990 PRO 1TB",
    file_system="ext4",
    mount_options="rw,relatime",
    rotational=False,
    readahead_bytes=131072,
    disk_rate=620e6,
    versions={"python": "3.11.4", "graphzero": "1.0.0", "numpy": "2.4.6", "torch": "2.13.0"},
)
OPTIONS = {
    "fanouts": "15, 10, 5",
    "batch size": "1024",
    "workers": "4",
    "prefetch": "auto",
    "plan": "resident prefix of 1.6 GB, page read-ahead, lookahead 4",
}


def _totals(share: float, whole: BatchTotals) -> BatchTotals:
    """What of the whole has been counted after a share of it."""
    return BatchTotals(
        **{
            f.name: (type(getattr(whole, f.name)))(getattr(whole, f.name) * share)
            for f in dataclasses.fields(whole)
        }
    )


def _sum(parts: list[BatchTotals]) -> BatchTotals:
    whole = BatchTotals()
    for part in parts:
        whole += part
    return whole


def _process(
    pid: int, name: str, anonymous: int, file: int, shared: int, sharers: int, **counters: float
) -> ProcessReading:
    """A process whose mapped and shared pages `sharers` processes have."""
    return ProcessReading(
        pid,
        name,
        rss=anonymous + file + shared,
        anonymous=anonymous,
        file=file,
        shared=shared,
        pss=anonymous + (file + shared) // sharers,
        pss_anonymous=anonymous,
        pss_file=file // sharers,
        pss_shared=shared // sharers,
        uss=anonymous,
        **counters,  # type: ignore[arg-type]
    )


STEP, COUNT = 2.0, 600  # seconds between readings of `out_of_core`, and how many follow the first


def _read_rates() -> list[float]:
    """Bytes a second in each interval: irregular, and little where an epoch begins."""
    dice = random.Random(1)
    rates = [(395 + 25 * math.sin(i / 17) + 45 * dice.random()) * MB for i in range(COUNT)]
    for begin in (0, 200, 400):
        rates[begin : begin + 3] = [40.0 * MB, 150.0 * MB, 520.0 * MB]
    return rates


def _out_of_core_reading(i: int, read: int, whole: BatchTotals) -> Reading:
    """The workers begin anew in each epoch; those of earlier ones have ended."""
    dice = random.Random(i)
    at, since, epoch = i * STEP, i % 200, min(2, i // 200)
    cached = int(2.7 * GB * (1 - math.exp(-at / 60)))
    prefix = min(int(1.9 * GB), int(cached * 0.8))
    workers = 4 if since >= 2 else 0
    grown = min(1.0, since / 12)
    by_workers = max(0, read - 210 * MB)
    ended = int(by_workers * (1 - since / max(1, i))) if epoch else 0
    processes = [
        _process(
            *(4000, "python", int((640 + 90 * grown + 25 * dice.random()) * MB), 260 * MB, 90 * MB),
            workers + 1,
            major_faults=40 + i // 4,
            read_bytes=min(read, 210 * MB),
            cpu_seconds=0.8 * at,
        )
    ]
    processes += [
        _process(
            *(
                4001 + 4 * epoch + w,
                f"worker {w}",
                int((60 + 80 * grown + 30 * dice.random()) * MB),
            ),
            *(int(cached * 0.4 * grown), 90 * MB, workers + 1),
            major_faults=since * 3,
            read_bytes=(by_workers - ended) // 4,
            cpu_seconds=1.0 * since,
        )
        for w in range(workers)
    ]
    gone = ProcessReading(
        *(ENDED, "ended", *([0] * 9)),
        major_faults=2400 * epoch,
        read_bytes=ended if workers else by_workers,
        cpu_seconds=800.0 * epoch,
    )
    used = sum(p.pss_anonymous or 0 for p in processes) + 90 * MB
    return Reading(
        at,
        (*processes, gone),
        SystemReading(16 * GB, 9 * GB - cached, 3 * GB + cached),
        GroupReading(
            *(2, 4 * GB, min(4 * GB - 8 * MB, used + int(cached * 1.02)), used, cached),
            refaults=int(2100 * max(0, at - 90)),
            kills=0,
            peak=4 * GB - 8 * MB,
        ),
        {
            "data/products/features.gd": prefix + (cached - prefix) * 6 // 10,
            "data/products/graph.gl": (cached - prefix) * 4 // 10,
            "data/products/labels.gd": 19_600_000,
            "data/products/split_train.gd": 1_570_000,
        },
        device_bytes=read + (900 * MB if i > 300 else 0),
        batches=_totals(i / COUNT, whole),
    )


def out_of_core() -> Recording:
    """Twenty minutes with four workers under a limit of 4 GB, which wait for the disk."""
    epochs = {
        e: BatchTotals(
            batches=193,
            sampling=210.0,
            disk=980.0 - 60 * e,
            gathering=160.0 + 4 * e,
            ready=35.0,
            steps=193,
            stall=262.0 - 15 * e,
            training=128.0,
            pages_missed=19_000_000,
            topology_missed=400_000,
            row_bytes=58 * GB,
            queue_depth=210,
            seeds=196_615,
            nodes=113_000_000,
            edges=160_000_000,
        )
        for e in range(3)
    }
    whole = _sum(list(epochs.values()))
    read = [0, *(int(STEP * total) for total in accumulate(_read_rates()))]
    readings = tuple(_out_of_core_reading(i, read[i], whole) for i in range(COUNT + 1))
    dice = random.Random(7)
    features = [1.0] * 74 + [0.09 + 0.05 * dice.random() for _ in range(438)]
    topology = [0.24 + 0.2 * dice.random() for _ in range(256)]
    sizes = {"features.gd": 13_600 * MB, "graph.gl": 1_130 * MB}
    last = readings[-1].page_cache or {}
    files = [
        FileReading(
            f"data/products/{name}",
            sizes.get(name, last[f"data/products/{name}"]),
            last[f"data/products/{name}"],
            residency,
            last[f"data/products/{name}"],
        )
        for name, residency in [
            ("features.gd", tuple(features)),
            ("graph.gl", tuple(topology)),
            ("labels.gd", (1.0,) * 256),
            ("split_train.gd", (1.0,) * 128),
        ]
    ]
    return Recording(
        COMMAND,
        "2026-03-02T08:15:30+00:00",
        COUNT * STEP,
        LAPTOP,
        readings,
        tuple(files),
        epochs,
        OPTIONS,
        own_cpu_seconds=2.9,
    )


def in_memory() -> Recording:
    """Nine seconds in one process; all files are in the page cache, and the model is the limit."""
    whole = BatchTotals(120, 1.9, 0.0, 0.7, 5.8, 120, 0.2, 8.1, 0, 0, 900 * MB, 360, 12000, 10**6)
    readings = tuple(
        Reading(
            i * 0.5,
            (
                _process(
                    *(77, "python", int(300 * MB + 12 * MB * i), 310 * MB, 0, 1),
                    major_faults=12,
                    read_bytes=3 * MB,
                    cpu_seconds=0.9 * i,
                ),
            ),
            SystemReading(16 * GB, 11 * GB, 4 * GB),
            None,
            {"data/cora/features.gd": 300 * MB, "data/cora/graph.gl": 52 * MB},
            device_bytes=5 * MB if i > 2 else i * MB,
            batches=_totals(i / 18, whole),
        )
        for i in range(19)
    )
    return Recording(
        ("python", "-m", "graphzero", "train", "data/cora"),
        "2026-03-02T09:00:00+00:00",
        9.0,
        dataclasses.replace(LAPTOP, disk_rate=None),
        readings,
        (
            FileReading("data/cora/features.gd", 300 * MB, 300 * MB, (1.0,) * 256, 300 * MB),
            FileReading("data/cora/graph.gl", 52 * MB, 52 * MB, (1.0,) * 256, 52 * MB),
        ),
        {0: whole},
        {**OPTIONS, "workers": "0"},
        own_cpu_seconds=0.01,
        unknown={
            "group": "the process is in no memory group with a limit",
            "disk_rate": "no measurement of this disk: run `graphzero tune`",
        },
    )


TYPES = ("paper", "author", "institution", "field_of_study")
RELATIONS = (
    "author__writes__paper",
    "author__affiliated_with__institution",
    "paper__cites__paper",
    "paper__has_topic__field_of_study",
)


def typed(epochs: int = 12) -> Recording:
    """A typed graph of twelve files, and of one the residency is unknown."""
    dice = random.Random(3)
    files = []
    for n, name in enumerate(TYPES):
        size = 900 * MB >> (2 * n)
        for kind, scale in (("x.gd", 1.0), ("y.gd", 0.01)):
            parts = tuple(1.0 if p < 60 else 0.3 * dice.random() for p in range(256))
            cached = int(size * scale * sum(parts) / 256)
            path = f"data/mag/nodes/{name}/{kind}"
            files.append(FileReading(path, int(size * scale), cached, parts, cached))
    for n, name in enumerate(RELATIONS):
        parts = tuple(dice.random() ** 3 for _ in range(256)) if n != 2 else None
        size = 120 * MB * (n + 1)
        cached = int(size * sum(parts) / 256) if parts else None
        files.append(FileReading(f"data/mag/edges/{name}.gl", size, cached, parts, cached))
    one = BatchTotals(40, 20.0, 3.0, 9.0, 30.0, 40, 1.5, 26.0, 900, 40, 3 * GB, 60, 40960, 10**7)
    passes = {e: one for e in range(epochs)}
    whole = _sum(list(passes.values()))
    known = {f.path: f.page_cache for f in files if f.page_cache is not None}
    readings = tuple(
        Reading(
            5.0 * i,
            (
                _process(
                    9, "python", 500 * MB, 200 * MB, 0, 1, major_faults=i, read_bytes=40 * MB * i
                ),
            ),
            SystemReading(16 * GB, 8 * GB, 6 * GB),
            GroupReading(1, None, 3 * GB, 500 * MB, 2 * GB, None, None),
            {path: int(cached * (1 - math.exp(-i / 8))) for path, cached in known.items()},
            None,
            _totals(i / 70, whole),
        )
        for i in range(71)
    )
    return Recording(
        ("python", "train_mag.py"),
        "2026-03-02T10:00:00+00:00",
        350.0,
        LAPTOP,
        readings,
        tuple(files),
        passes,
        OPTIONS,
        own_cpu_seconds=0.4,
        unknown={
            "device_bytes": "the dataset is on an overlay of several devices",
            "data/mag/edges/paper__cites__paper.gl": "the file belongs to another user",
            "refaults": "the kernel does not count them in this group",
        },
    )


def without_figures() -> Recording:
    """A run of which the system told nothing but how long it took."""
    why = "this system does not tell it"
    return Recording(
        ("./train",),
        "2026-03-02T11:00:00+00:00",
        30.0,
        Environment(system="Darwin 24.1"),
        tuple(Reading(float(i), (ProcessReading(5, "train"),)) for i in range(31)),
        (FileReading("data/graph.gl", 10 * MB),),
        own_cpu_seconds=0.2,
        unknown={
            name: why
            for name in ("anonymous", "pss", "page_cache", "device_bytes", "group", "major_faults")
        },
    )


def only_rss() -> Recording:
    """Where the parts of the resident set are unknown, as on macOS."""
    readings = tuple(
        Reading(float(i), (ProcessReading(5, "train", rss=(100 + i) * MB, cpu_seconds=float(i)),))
        for i in range(31)
    )
    return dataclasses.replace(
        without_figures(), readings=readings, unknown={"anonymous": "psutil tells only the sum"}
    )


def empty() -> Recording:
    """Ended before the first reading."""
    return Recording(("true",), "2026-03-02T12:00:00+00:00", 0.0)


def one_reading() -> Recording:
    """So short that there is one reading, at zero seconds."""
    return dataclasses.replace(in_memory(), seconds=0.0, readings=in_memory().readings[:1])


HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>&amp; \"'$x_1$ "
    "\x1b[31m\u202e\udcff\u6f22"
)


def hostile() -> Recording:
    """Every text of it tries to be something else."""
    long = out_of_core()
    files = tuple(
        dataclasses.replace(f, path=f"data/{HOSTILE}/{n}/{f.path}")
        for n, f in enumerate(long.files)
    )
    readings = tuple(
        dataclasses.replace(
            reading,
            processes=tuple(dataclasses.replace(p, name=HOSTILE) for p in reading.processes),
            page_cache={f.path: 5 for f in files},
        )
        for reading in long.readings[:50]
    )
    texts = {HOSTILE: HOSTILE}
    environment = Environment(
        HOSTILE, 1, 1, HOSTILE, HOSTILE, HOSTILE, HOSTILE, versions=texts, disk_rate=1e8
    )
    return dataclasses.replace(
        long,
        command=("python", "-c", HOSTILE),
        started=HOSTILE,
        environment=environment,
        files=files,
        readings=readings,
        options=texts,
        unknown=texts,
    )


RECORDINGS: dict[str, Callable[[], Recording]] = {
    "out_of_core": out_of_core,
    "in_memory": in_memory,
    "typed": typed,
    "without_figures": without_figures,
    "only_rss": only_rss,
    "empty": empty,
    "one_reading": one_reading,
    "hostile": hostile,
}
