"""Threads of the kernel, which look like processes and have no memory of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cli_program import only_line, run

import graphzero as gz
from graphzero.report import observed
from graphzero.report.readings.process_files import is_kernel_thread

pytestmark = pytest.mark.no_asan  # pure Python

# The flags are the ninth field; the name may have blanks and parentheses.
STAT = "2 (a) b (c) S 0 0 0 0 -1 {flags} 0 0 0 0 0 6 0 0 20 0 1 0 24 0 0"


@pytest.mark.parametrize(("flags", "expected"), [(2129984, True), (4194304, False)])
def test_the_kernel_marks_its_threads(tmp_path: Path, flags: int, expected: bool) -> None:
    (tmp_path / "2").mkdir()
    (tmp_path / "2" / "stat").write_text(STAT.format(flags=flags))
    assert is_kernel_thread(2, tmp_path) is expected
    assert not is_kernel_thread(3, tmp_path)


def test_one_is_not_watched(monkeypatch) -> None:
    monkeypatch.setattr(observed, "is_kernel_thread", lambda pid: pid == os.getpid())
    with pytest.raises(ValueError, match=f"process {os.getpid()} is a thread of the kernel"):
        gz.Monitor(pid=os.getpid()).__enter__()


@pytest.mark.skipif(not is_kernel_thread(2), reason="process 2 is none, as in a container")
def test_the_command_refuses_it_at_once(capfd) -> None:
    assert run("report", "--pid", 2) == 1
    expected = "graphzero: process 2 is a thread of the kernel, which has no memory of its own"
    assert only_line(capfd.readouterr().err).startswith(expected)
