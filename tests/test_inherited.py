"""What processes get from children that they have waited for, and that it counts once."""

from __future__ import annotations

import os
import time

import numpy as np
import others
import pytest

from graphzero.report.readings.inherited import Counted, Inherited
from graphzero.report.readings.processes import ProcessTree

pytestmark = pytest.mark.no_asan  # pure Python; starts processes


@pytest.mark.parametrize(
    ("readings", "expected"),
    [
        ([{1: (0, 10), 2: (1, 50)}, {1: (0, 60)}], {1: 10}),
        ([{1: (0, 10), 2: (1, 50)}, {1: (0, 67)}], {1: 17}),  # 7 bytes since the last reading
        ([{1: (0, 10), 2: (1, 50)}, {1: (0, 12)}, {1: (0, 63)}], {1: 13}),  # it waited late
        ([{1: (0, 10), 2: (1, 50)}, {1: (0, 12)}], {1: 12}),
        ([{1: (0, 0), 2: (1, 5), 3: (1, 7)}, {1: (0, 12)}], {1: 0}),
        ([{1: (0, 0), 2: (1, 5), 3: (2, 7)}, {1: (0, 0), 2: (1, 12)}, {1: (0, 12)}], {1: 0}),
        ([{1: (0, 0), 2: (1, 5)}, *[{1: (0, 0)}] * 10, {1: (0, 20)}], {1: 20}),  # it never waits
        ([{1: (0, 90), 2: (1, 5)}, {1: (0, 3)}], {1: 3}),  # another process with this number
    ],
)
def test_what_a_process_has_read_itself(readings, expected):
    reads = Inherited()
    for reading in readings:
        reads.update({pid: Counted(*each) for pid, each in reading.items()})
    assert {pid: reads.beyond(pid) for pid in readings[-1]} == expected


def alone(own, collected=0, parent=0):
    return Counted(parent, collected, own)


BELOW = {"parent": 1}


@pytest.mark.parametrize(
    ("readings", "unseen"),
    [
        ([{1: alone(5, 90)}, {1: alone(8, 90)}], 0),  # of children before the first reading
        ([{1: alone(5, 90)}, {1: alone(8, 97)}], 7),  # a child that was never seen
        ([{1: alone(5), 2: alone(3, **BELOW)}, {1: alone(8, 4)}], 1),  # until it ended
        ([{1: alone(5), 2: alone(3, **BELOW)}, {1: alone(8)}, {1: alone(9, 4)}], 1),
        ([{1: alone(5), 2: alone(3, **BELOW)}, {1: alone(8)}], 0),  # nobody has waited for it
        # a child of the child that was never seen, and then both end
        ([{1: alone(5)}, {1: alone(5), 2: alone(3, 6, **BELOW)}, {1: alone(5, 11)}], 8),
        # one that was seen, and that its parent waits for before both have ended
        ([{1: alone(5)}, {1: alone(5), 2: alone(3, 0, 1), 3: alone(4, 0, 2)}, {1: alone(5, 9)}], 2),
        ([{1: alone(0)}, {1: alone(0), 2: alone(3, **BELOW)}, {1: alone(0), 2: alone(1, 0, 1)}], 0),
    ],
)
def test_what_children_have_counted_unseen(readings, unseen):
    inherited = Inherited()
    for reading in readings:
        inherited.update(reading, reading)
    assert inherited.unseen == unseen


def test_a_zombie_may_be_waited_for_at_any_time():
    inherited = Inherited()
    inherited.update({1: alone(0), 2: alone(3, **BELOW)}, (1, 2))
    for _ in range(30):
        inherited.update({1: alone(0)}, (1, 2))
    inherited.update({1: alone(0, 4)}, (1,))
    assert inherited.unseen == 1


def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        np.arange(1000).sum()


def child_that(does):
    child = os.fork()
    if child == 0:
        try:
            does()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="no /proc here")
def test_work_of_children_that_were_never_seen_counts():
    """As DataLoader workers that end with each pass: their parent has waited for them."""
    child_that(lambda: work(0.1))  # before the recording
    tree = ProcessTree()
    tree.read()
    before = tree.counters.cpu_seconds, seconds_of_all()
    child_that(lambda: (child_that(lambda: work(0.15)), work(0.15)))
    with others.child_of_this(lambda: work(0.1)):
        tree.read()
    tree.read()
    found, expected = tree.counters.cpu_seconds - before[0], seconds_of_all() - before[1]
    assert expected > 0.3
    assert found == pytest.approx(expected, abs=0.1)


def seconds_of_all():
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system
