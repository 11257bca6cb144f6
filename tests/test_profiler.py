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

from torch.profiler import ProfilerActivity, record_function, schedule  # noqa: E402

from graphzero.loader import profiler as profiler_module  # noqa: E402
from graphzero.loader.stats import watch  # noqa: E402

pytestmark = pytest.mark.no_asan

CPU = {"activities": [ProfilerActivity.CPU]}
WAIT, TRAIN = "graphzero: wait for batch", "graphzero: training"


@pytest.fixture
def order():
    return "hot"


@pytest.fixture
def ds(dataset):
    with gz.open(dataset[0]) as opened:
        yield opened


class Trace:
    """Of a profiler that has ended: (begin, end) of the ranges, by name, by thread."""

    def __init__(self, profiler, path):
        profiler.export_chrome_trace(str(path))
        self.ranges = defaultdict(lambda: defaultdict(list))
        for event in json.loads(path.read_text())["traceEvents"]:
            if event.get("cat") == "user_annotation":
                span = (event["ts"], event["ts"] + event["dur"])
                self.ranges[event["tid"]][event["name"]].append(span)
        self.loop = threading.get_native_id()

    def count(self, name):
        return sum(len(names[name]) for names in self.ranges.values() if name in names)

    def nests(self):
        """Whether no two ranges of a thread overlap without one being within the other."""
        for names in self.ranges.values():
            spans = sorted((begin, -end) for each in names.values() for begin, end in each)
            ends = []
            for begin, end in spans:
                while ends and ends[-1] <= begin:
                    ends.pop()
                if ends and -end > ends[-1] + 0.01:
                    return False
                ends.append(-end)
        return True

    def lies_within(self, inner, outers):
        for names in self.ranges.values():
            around = [span for outer in outers for span in names.get(outer, [])]
            for begin, end in names.get(inner, []):
                if not any(first <= begin and end <= last for first, last in around):
                    return False
        return True


def test_a_trace_shows_what_the_loop_does(ds, tmp_path):
    expected = list(loader_of(ds))
    loader = loader_of(ds)
    batches = []
    with gz.profile(**CPU) as profiler:
        for batch in loader:
            with record_function("own"):
                batches.append(batch)
    trace = Trace(profiler, tmp_path / "trace.json")
    assert all_same(batches, expected)
    assert trace.count(WAIT) == len(expected) + 1  # the last one finds the end
    assert trace.count(TRAIN) == len(expected)
    assert trace.nests()
    assert trace.lies_within("own", [TRAIN])
    turns = sorted(trace.ranges[trace.loop][WAIT] + trace.ranges[trace.loop][TRAIN])
    assert all(before[1] <= after[0] for before, after in pairwise(turns))


def test_the_open_form_in_a_plain_dataloader(ds, tmp_path):
    source = gz.NeighborDataset(ds, ds.splits["train"], [4, 3], batch_size=20, seed=5)
    loader = torch.utils.data.DataLoader(source, batch_size=None, collate_fn=gz.Collate(ds))
    with gz.profile(**CPU) as profiler:
        count = len(list(loader))
    trace = Trace(profiler, tmp_path / "trace.json")
    assert (trace.count(WAIT), trace.count(TRAIN)) == (count + 1, 0)
    assert trace.nests()
    with gz.profile(**CPU) as profiler:
        assert len(list(watch(loader))) == count
    trace = Trace(profiler, tmp_path / "trace.json")
    assert (trace.count(WAIT), trace.count(TRAIN)) == (count + 1, count)
    assert trace.nests()


def test_a_profiler_of_torch_shows_what_the_loop_waits_for(ds, tmp_path):
    with torch.profiler.profile(**CPU) as profiler:
        count = len(list(loader_of(ds)))
    trace = Trace(profiler, tmp_path / "trace.json")
    assert trace.count(TRAIN) == 0
    assert trace.count(WAIT) == count + 1


@pytest.mark.parametrize("cycle", [(0, 0, 1), (1, 1, 2)])
@pytest.mark.filterwarnings("ignore")
def test_cycles_of_a_schedule_begin_and_end_within_an_epoch(ds, tmp_path, cycle):
    wait, warmup, active = cycle
    traces = []

    def keep(profiler):
        traces.append(Trace(profiler, tmp_path / f"{len(traces)}.json"))

    plan = schedule(wait=wait, warmup=warmup, active=active, repeat=2)
    with gz.profile(schedule=plan, on_trace_ready=keep, **CPU) as profiler:
        for _ in range(3):
            for _ in loader_of(ds):
                profiler.step()
    assert len(traces) == 2
    for trace in traces:
        assert 1 <= trace.count(TRAIN) <= active
        assert trace.nests()
        assert trace.lies_within(TRAIN, [name for name in trace.ranges[trace.loop] if "#" in name])


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
    assert trace.count(TRAIN) == 2
    assert trace.nests()
    if end == "break":
        (after,) = trace.ranges[trace.loop]["after"]
        assert all(last <= after[0] for _, last in trace.ranges[trace.loop][TRAIN])
    else:
        assert len(list(iterator)) > 0  # goes on without the profiler


def test_the_profiler_starts_in_the_middle_of_an_epoch(ds, tmp_path):
    iterator = iter(loader_of(ds))
    next(iterator)
    with gz.profile(**CPU) as profiler:
        next(iterator)
    trace = Trace(profiler, tmp_path / "trace.json")
    assert (trace.count(WAIT), trace.count(TRAIN)) == (1, 1)


def test_workers_forked_while_a_profiler_runs(ds, tmp_path):
    expected = list(loader_of(ds))
    with gz.profile(**CPU) as profiler:
        batches = list(loader_of(ds, workers=1))
    trace = Trace(profiler, tmp_path / "trace.json")
    assert all_same(batches, expected)
    assert trace.count(WAIT) == len(expected) + 1


def test_without_a_profiler_no_range_is_made(ds, monkeypatch):
    def refuse(name):
        raise AssertionError(name)

    monkeypatch.setattr(profiler_module, "record_function", refuse)
    assert len(list(loader_of(ds))) > 0
    with pytest.raises(AssertionError, match="wait for batch"), gz.profile(**CPU):
        next(iter(loader_of(ds)))


@pytest.mark.skipif(not Path("/proc/thread-self/comm").exists(), reason="Linux shows the names")
def test_threads_have_names_that_the_system_shows(ds):
    iterator = iter(loader_of(ds, prefetch=gz.Prefetch("willneed", lookahead=2)))
    next(iterator)
    names = {path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")}
    assert "gz-batch_0" in names


def test_the_code_of_the_page_runs(dataset, tmp_path):
    page = Path(__file__).resolve().parents[1] / "docs" / "profiling.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    script = tmp_path / "script.py"
    # the folder has few seeds
    script.write_text(code.replace("batch_size=64", "batch_size=10"))
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert WAIT in done.stdout
    assert TRAIN in (tmp_path / "trace.json").read_text()
