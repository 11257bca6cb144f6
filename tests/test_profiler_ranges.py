"""`gz.profile`: the ranges of graphzero's threads in traces of PyTorch's profiler."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import weakref
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest
from ready_loaders import all_same, loader_of

import graphzero as gz

torch = pytest.importorskip("torch")

from torch.profiler import ProfilerActivity, record_function, schedule  # noqa: E402

from graphzero.loader import profiler_ranges  # noqa: E402
from graphzero.loader.timed import timed  # noqa: E402
from graphzero.sampling import profiled as low  # noqa: E402

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


@pytest.fixture(autouse=True)
def nothing_stays_attached():
    yield
    assert low.attached() is None


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

    def names(self, *, background):
        threads = [tid for tid in self.ranges if (tid != self.loop) == background]
        return {name for tid in threads for name in self.ranges[tid] if "graphzero" in name}

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


@pytest.mark.parametrize("strategy", ["willneed", "pread"])
def test_a_trace_shows_each_stage_on_its_thread(ds, tmp_path, strategy):
    expected = list(loader_of(ds))
    loader = loader_of(ds, prefetch=gz.Prefetch(strategy))
    batches = []
    with gz.profile(**CPU) as profiler:
        for batch in loader:
            with record_function("own"):
                batches.append(batch)
            profiler.step()
    trace = Trace(profiler, tmp_path / "trace.json")
    assert all_same(batches, expected)
    stages = {f"graphzero: {name}" for name in ("sample", "fetch", "disk wait", "gather")}
    assert trace.names(background=True) >= stages
    assert trace.names(background=False) >= {WAIT, TRAIN}
    assert not trace.names(background=True) & {WAIT, TRAIN}
    threads = {tid for tid, names in trace.ranges.items() if stages & set(names)}
    assert len(threads - {trace.loop}) >= 2
    for name in ("sample", "fetch", "place"):
        assert trace.count(f"graphzero: {name}") == len(expected)
    reads = 2 if strategy == "pread" else 1  # past the page cache, and requested pages
    assert trace.count("graphzero: disk wait") == reads * len(expected)
    assert trace.count("graphzero: gather") == 2 * len(expected)  # features and labels
    assert trace.count(WAIT) == len(expected) + 1  # the last one finds the end
    assert trace.count(TRAIN) == len(expected)
    assert trace.nests()
    assert trace.lies_within("graphzero: disk wait", ["graphzero: fetch"])
    assert trace.lies_within("graphzero: gather", ["graphzero: fetch", "graphzero: place"])
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
        assert len(list(timed(loader))) == count
    trace = Trace(profiler, tmp_path / "trace.json")
    assert (trace.count(WAIT), trace.count(TRAIN)) == (count + 1, count)
    assert trace.nests()


def test_a_profiler_of_torch_shows_what_the_loop_waits_for(ds, tmp_path):
    with torch.profiler.profile(**CPU) as profiler:
        count = len(list(loader_of(ds)))
    trace = Trace(profiler, tmp_path / "trace.json")
    assert trace.names(background=False) == {WAIT}
    assert trace.names(background=True) == set()
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
    assert trace.names(background=True) == set()
    assert trace.count(WAIT) == len(expected) + 1


def test_without_a_profiler_no_range_is_made(ds, monkeypatch):
    def refuse(name):
        raise AssertionError(name)

    monkeypatch.setattr(profiler_ranges, "record_function", refuse)
    assert len(list(loader_of(ds))) > 0
    with pytest.raises(AssertionError, match="wait for batch"), gz.profile(**CPU):
        next(iter(loader_of(ds)))


class Recorded:
    """In place of torch's `record_function`: which were closed, and during which session."""

    session = None
    closed: list = []  # noqa: RUF012

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.begun = Recorded.session

    def __exit__(self, *_):
        Recorded.closed.append((self.name, self.begun, Recorded.session))


@pytest.fixture
def sessions(monkeypatch):
    """Begins and ends sessions without torch, whose memory an error here would overwrite."""
    monkeypatch.setattr(profiler_ranges, "record_function", Recorded)
    monkeypatch.setattr(Recorded, "closed", [])

    def begin(number):
        Recorded.session = number
        session = profiler_ranges._Session()
        low.attach(session)
        return session

    def end(session):
        low.detach(session)
        session.stop()
        Recorded.session = None

    yield begin, end
    profiler_ranges._Session.unfinished.clear()


def elsewhere(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_no_range_is_closed_in_a_later_session(sessions):
    begin, end = sessions
    mine, others = low.profiled("mine"), low.profiled("others")
    first = begin(1)
    mine.__enter__()
    elsewhere(others.__enter__)
    end(first)
    assert Recorded.closed == [("mine", 1, 1)]
    second = begin(2)
    mine.__exit__(None, None, None)
    elsewhere(lambda: others.__exit__(None, None, None))
    with low.profiled("new"):
        pass
    assert Recorded.closed == [("mine", 1, 1), ("new", 2, 2)]
    end(second)
    assert [each.name for each in profiler_ranges._Session.unfinished] == ["others"]


def test_nobody_else_keeps_what_closes_when_it_is_freed(sessions):
    begin, end = sessions
    first = begin(1)
    opened = []
    elsewhere(lambda: opened.append(first.begin("others")))
    end(first)
    (function,) = profiler_ranges._Session.unfinished
    freed = weakref.ref(function)
    del function
    profiler_ranges._Session.drop_unfinished()
    assert freed() is None
    assert opened


def test_a_session_does_not_end_while_a_range_is_being_closed(sessions, monkeypatch):
    begin, end = sessions
    session = begin(1)
    entered, go_on = threading.Event(), threading.Event()

    def close_slowly(self, *_):
        entered.set()
        assert go_on.wait(20)
        Recorded.closed.append((self.name, self.begun, Recorded.session))

    monkeypatch.setattr(Recorded, "__exit__", close_slowly)

    def work():
        with low.profiled("slow"):
            pass

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(20)
    ender = threading.Thread(target=end, args=(session,))
    ender.start()
    ender.join(0.1)
    assert ender.is_alive()
    go_on.set()
    thread.join()
    ender.join()
    assert Recorded.closed == [("slow", 1, 1)]


def test_a_session_that_is_ending_closes_its_ranges_itself(sessions):
    begin, end = sessions
    session = begin(1)
    opened = session.begin("late")
    session._is_running = False  # as `stop` does, in another thread, before it closes ranges
    session.end(opened)
    assert Recorded.closed == []
    end(session)
    assert Recorded.closed == [("late", 1, 1)]


@pytest.mark.filterwarnings("ignore")  # of a fork beside threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_records_nothing(sessions):
    begin, end = sessions
    session = begin(1)
    child = os.fork()
    if child == 0:
        os._exit(0 if low.attached() is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    end(session)


def test_a_range_that_another_thread_drops_is_not_closed_there(sessions):
    begin, end = sessions
    session = begin(1)
    ranges = profiler_ranges.LoopRanges(training=True)
    with ranges:
        pass
    elsewhere(ranges.close)
    assert Recorded.closed == [(WAIT, 1, 1)]
    end(session)


def test_an_older_torch_is_named(monkeypatch):
    def refuse(**options):
        raise TypeError(options)

    monkeypatch.setattr(torch._C._profiler, "_ExperimentalConfig", refuse)
    with pytest.warns(UserWarning, match=r"needs torch 2\.6"):
        gz.profile(**CPU)


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
    assert "graphzero: sample" in done.stdout
    for name in set(re.findall(r"^\| `(graphzero: .*?)`", page.read_text(), re.MULTILINE)):
        assert name in (tmp_path / "trace.json").read_text() or name == "graphzero: read ahead"
