"""Who may keep how much: claims of this process and of others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphzero.io import process_files
from graphzero.io.budget import Budget, Claim, Lease, divide

pytestmark = pytest.mark.no_asan  # Python alone
MB = 1 << 20


@pytest.fixture(autouse=True)
def leases(tmp_path, monkeypatch):
    """An own folder of leases."""
    monkeypatch.setattr(process_files.tempfile, "gettempdir", lambda: str(tmp_path))
    return tmp_path / f"graphzero-leases-{os.getuid()}"


@given(st.integers(0, 1000), st.dictionaries(st.text(max_size=2), st.integers(0, 500), max_size=6))
def test_room_is_divided_fairly(room, wishes):
    shares = divide(room, wishes)
    assert shares.keys() == wishes.keys()
    assert all(0 <= shares[name] <= wishes[name] for name in wishes)
    assert sum(shares.values()) <= room
    if sum(wishes.values()) <= room:
        assert shares == wishes
    else:
        assert sum(shares.values()) > room - len(wishes)
        cut = [shares[name] for name in wishes if shares[name] < wishes[name]]
        assert max(shares.values()) <= max(cut) + len(wishes)


def lease(owner, family=1, group="g", in_flight=0, **wishes):
    return closing(Lease(owner, Claim(group, family, wishes, in_flight)))


def test_two_datasets_of_a_process_share(leases):
    owner = Budget()
    with lease(owner, a=800) as first:
        assert first.share("a", 1000) == 800
        with lease(owner, b=700) as second:
            assert first.share("a", 1000) == 500
            assert second.share("b", 1000) == 500
            assert second.share("b", 2000) == 700
        assert first.share("a", 1000) == 800
    assert not leases.exists()


def test_the_same_file_counts_once():
    owner = Budget()
    with lease(owner, a=800) as first, lease(owner, a=900) as second:
        assert first.share("a", 1000) == second.share("a", 1000) == 900


def test_an_iterations_own_files_are_left_to_its_plan():
    owner = Budget()
    with lease(owner, a=800, topology=400) as first:
        assert first.share("a", 1000) == 800
        with lease(owner, b=800, topology=400):
            assert first.share("a", 1000) == 500


def test_other_groups_do_not_matter():
    owner = Budget()
    with lease(owner, a=800) as first, lease(owner, group="other", b=800):
        assert first.share("a", 1000) == 800


def test_batches_of_others_are_left_room_until_they_are_there():
    owner = Budget()
    with lease(owner, family=1, in_flight=300, a=2000) as own:
        with lease(owner, family=1, in_flight=300, a=2000):
            assert own.share("a", 1000) == 1000  # the same DataLoader's: its plan counts them
        with lease(owner, family=2, in_flight=300, a=2000) as other:
            assert own.share("a", 1000) == 700
            other.settle()
            assert own.share("a", 1000) == 1000
            assert other.share("a", 1000) == 700


OTHER = """
import os, sys, tempfile, time
tempfile.tempdir = sys.argv[1]
from graphzero.io.budget import Budget, Claim, Lease
lease = Lease(Budget(), Claim("g", 2, {"b": 800}, 100))
print("leased", flush=True)
if sys.argv[2] == "close":
    sys.stdin.readline()
    lease.close()
    print("closed", flush=True)
time.sleep(600)
"""


@pytest.fixture
def other(tmp_path):
    """A function that starts another process with a claim of 800 bytes for b."""
    with ExitStack() as stack:

        def start(how):
            process = subprocess.Popen(
                [sys.executable, "-c", OTHER, str(tmp_path), how],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd="/",
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            assert process.stdout.readline() == "leased\n"
            return process

        yield start


def test_processes_share_until_one_gives_back(other, leases):
    with lease(Budget(), a=800) as own:
        process = other("close")
        assert own.share("a", 1000) == 450  # less its batches
        print("now", file=process.stdin, flush=True)
        assert process.stdout.readline() == "closed\n"
        assert own.share("a", 1000) == 800
        assert len(list(leases.iterdir())) == 1


def test_what_a_killed_process_had_is_free(other, leases):
    with lease(Budget(), a=800) as own:
        process = other("stay")
        assert own.share("a", 1000) == 450
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert own.share("a", 1000) == 800
        assert len(list(leases.iterdir())) == 1


def test_a_forked_child_neither_has_nor_ends_the_claims_of_its_parent(leases):
    owner = Budget()
    with lease(owner, a=800) as own:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                owner.forget()
                fresh = Lease(owner, Claim("g", 2, {"b": 800}))
                own.close()  # as the collector may do
                status = 0 if fresh.share("b", 1000) == 500 else 2
            finally:
                os._exit(status)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert own.share("a", 1000) == 800  # the child is gone
        assert len(list(leases.iterdir())) == 1


def test_without_a_folder_a_process_knows_its_own(leases):
    leases.write_text("a file, not a folder")
    owner = Budget()
    with lease(owner, a=800) as own, lease(owner, b=800):
        assert own.share("a", 1000) == 500


def test_claims_that_cannot_be_read_do_not_count(leases, other):
    with lease(Budget(), a=800) as own:
        other("stay")
        (theirs,) = [p for p in leases.iterdir() if not p.name.startswith(f"{os.getpid()}-")]
        theirs.write_text('{"group": 3')
        time.sleep(0.01)
        assert own.share("a", 1000) == 800
        assert theirs.exists()
