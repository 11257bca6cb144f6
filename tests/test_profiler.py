"""`gz.profile`: what a training loop does, in traces of PyTorch's profiler."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from ready_loaders import all_same, loader_of

import graphzero as gz

torch = pytest.importorskip("torch")

from torch.profiler import ProfilerActivity, record_function  # noqa: E402

from graphzero.loader import profiler as profiler_module  # noqa: E402
from graphzero.loader.stats import watch  # noqa: E402

pytestmark = pytest.mark.no_asan

CPU = {"activities": [ProfilerActivity.CPU]}
WAIT, TRAIN = "graphzero: wait for batch", "graphzero: training"


@pytest.fixture
def order():
    return "hot"


class Trace:
    """Of a profiler that has ended: (begin, end) of the ranges of this thread, by name."""

    def __init__(self, profiler, path):
        profiler.export_chrome_trace(str(path))
        self.ranges = defaultdict(list)
        for event in json.loads(path.read_text())["traceEvents"]:
            if event.get("cat") == "user_annotation":
                assert event["tid"] == threading.get_native_id()
                self.ranges[event["name"]].append((event["ts"], event["ts"] + event["dur"]))
        self.counts = (len(self.ranges[WAIT]), len(self.ranges[TRAIN]))


@pytest.fixture
def expected(ds):
    return list(loader_of(ds))


@pytest.mark.parametrize("workers", [0, 1])
def test_a_trace_shows_what_the_loop_does(ds, expected, tmp_path, workers):
    loader = loader_of(ds, workers=workers)
    batches = []
    with gz.profile(**CPU) as profiler:
        for batch in loader:
            with record_function("own"):
                batches.append(batch)
    trace = Trace(profiler, tmp_path / "trace.json")
    assert all_same(batches, expected)
    assert trace.counts == (len(expected) + 1, len(expected))  # the last one finds the end
    assert all(
        any(first <= begin and end <= last for first, last in trace.ranges[TRAIN])
        for begin, end in trace.ranges["own"]
    )
    turns = sorted(trace.ranges[WAIT] + trace.ranges[TRAIN])
    assert all(before[1] <= after[0] for before, after in pairwise(turns))


def test_where_nobody_sees_the_loop_there_is_no_range_of_training(ds, expected, tmp_path):
    source = gz.NeighborDataset(ds, ds.splits["train"], [4, 3], batch_size=20, seed=5)
    plain = torch.utils.data.DataLoader(source, batch_size=None, collate_fn=gz.Collate(ds))
    for profile, loader, is_seen in (
        (gz.profile, plain, False),
        (gz.profile, watch(plain), True),
        (torch.profiler.profile, loader_of(ds), False),
    ):
        with profile(**CPU) as profiler:
            count = len(list(loader))
        trace = Trace(profiler, tmp_path / "trace.json")
        assert trace.counts == (count + 1, count if is_seen else 0)


def test_taking_a_batch_runs_nothing_of_torch(ds):
    iterator = iter(loader_of(ds))
    with torch.profiler.profile(**CPU) as profiler:
        assert len(list(iterator)) > 0
    assert {event.key for event in profiler.key_averages()} == {WAIT}


@pytest.mark.parametrize("end", ["break", "error", "kept"])
def test_a_loop_that_is_left_early(ds, tmp_path, end):
    iterator = iter(loader_of(ds))
    profiler = gz.profile(**CPU)
    try:
        with profiler:
            for _ in range(2):
                next(iterator)
            if end == "break":
                del iterator
                with record_function("after"):
                    pass
            if end == "error":
                raise KeyError("of the loop")
    except KeyError:
        pass
    trace = Trace(profiler, tmp_path / "trace.json")
    assert trace.counts == (2, 2)
    if end == "break":
        (after,) = trace.ranges["after"]
        assert all(last <= after[0] for _, last in trace.ranges[TRAIN])
    else:
        with gz.profile(**CPU) as profiler:  # starts in the middle of an epoch
            next(iterator)
        assert Trace(profiler, tmp_path / "trace.json").counts == (1, 1)
        assert len(list(iterator)) > 0  # goes on without the profiler


def test_without_a_profiler_no_range_is_made(ds, monkeypatch):
    def refuse(name):
        raise AssertionError(name)

    monkeypatch.setattr(profiler_module, "record_function", refuse)
    assert len(list(loader_of(ds))) > 0
    with pytest.raises(AssertionError, match="wait for batch"), gz.profile(**CPU):
        next(iter(loader_of(ds)))


def test_the_code_of_the_page_runs(dataset, tmp_path):
    page = Path(__file__).resolve().parents[1] / "docs" / "profiling.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    script = tmp_path / "script.py"
    # the folder has few seeds
    script.write_text(code.replace("batch_size=64", "batch_size=10"))
    how = {"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 120, "check": False}
    done = subprocess.run([sys.executable, str(script)], **how)
    assert done.returncode == 0, done.stderr
    assert WAIT in done.stdout
    assert TRAIN in (tmp_path / "trace.json").read_text()
