"""``graphzero report``: runs a command, and does not come between."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cli_program import only_line, run, subprocess_of

from graphzero.report.recording import read_recording

pytestmark = pytest.mark.no_asan  # starts processes

# Says when it has begun, and how often it was interrupted.
PATIENT = """
import signal, sys, time
counts = {signal.SIGINT: 0, signal.SIGTERM: 0}
def count(number, frame):
    counts[number] += 1
for number in counts:
    signal.signal(number, count)
print("begun", flush=True)
end = time.time() + float(sys.argv[1])
while time.time() < end and not any(counts.values()):
    time.sleep(0.01)
time.sleep(0.3)
print("int", counts[signal.SIGINT], "term", counts[signal.SIGTERM], flush=True)
sys.exit(7)
"""


@pytest.fixture
def patient(tmp_path):
    path = tmp_path / "patient.py"
    path.write_text(PATIENT)
    return [sys.executable, str(path)]


def _start(*words, cwd, **options):
    command = [sys.executable, "-m", "graphzero", "report", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen(command, cwd=cwd, **pipes)


def test_a_command_keeps_its_input_output_and_exit_code(tmp_path):
    code = "import sys; print(sys.stdin.read(), sys.argv[1:]); sys.exit(3)"
    words = ["--html", "x", "--", "--help"]  # of the command
    process = _start("--", sys.executable, "-c", code, *words, cwd=tmp_path, stdin=subprocess.PIPE)
    out, err = process.communicate("hello")
    assert (process.returncode, out) == (3, f"hello {words}\n")
    assert list(tmp_path.iterdir()) == []
    assert "graphzero prepared no mini-batch" in err
    assert "no mini-batch was seen: ready-made loaders" in err
    assert "memory      at most" in err


PROGRAM = """
import os, sys, time, numpy as np, graphzero as gz
edges = np.random.default_rng(0).integers(0, 1000, (5000, 2))
ds = gz.build("data", edges, np.ones((1000, 8), np.float32), num_nodes=1000)
loader = gz.NeighborLoader(ds, [5], batch_size=10, num_workers=int(sys.argv[1]))
for i, batch in enumerate(loader):
    time.sleep(0.03)
    if i == int(sys.argv[2]):
        os.kill(os.getpid(), 9)
"""


def _record(folder, *words):
    """What a training has written, and what is recorded of it."""
    (folder / "train.py").write_text(PROGRAM)
    outputs = ("--json", folder / "r.json", "--interval", "0.1")
    command = [sys.executable, "train.py", *map(str, words)]
    done = subprocess_of("report", *outputs, "--", *command, cwd=folder)
    recording = read_recording(folder / "r.json")
    assert {Path(file.path).name for file in recording.files} >= {"graph.gl", "features.gd"}
    assert recording.command == (*recording.command[:1], *command[1:])
    return done, recording


def test_a_training_is_recorded(tmp_path):
    done, recording = _record(tmp_path, 0, -1)
    assert done.returncode == 0, done.stderr
    assert recording.readings[-1].batches.batches == 100
    assert "100 prepared" in done.stderr
    again = subprocess_of("report", "r.json", "--html", "page.html", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout.strip() == done.stderr[done.stderr.index("run  ") :].strip()
    assert "<html" in (tmp_path / "page.html").read_text()


def test_a_program_may_have_the_name_of_a_recording(tmp_path, capfd):
    program = tmp_path / "program.json"
    program.write_text("#!/bin/sh\nexit 3\n")
    program.chmod(0o755)
    assert run("report", program) == 3
    program.chmod(0o644)
    assert run("report", program) == 1
    assert "program.json" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--", "/nowhere/at-all"], 127, "graphzero: /nowhere/at-all: there is no such program"),
        (["--", "/"], 126, "graphzero: /: Permission denied"),
        (["--json", "/nowhere/x", "--", "true"], 1, "--json cannot be written"),
        (["--dataset", "/nowhere", "--", "true"], 1, "/nowhere"),
        (["/nowhere/missing.json"], 1, "missing.json"),
        ([], 2, "give a command"),
        (["--"], 2, "give a command"),
        (["some.json", "other"], 2, "a recording is shown alone"),
        (["--interval", "0", "--", "true"], 1, "interval must be a positive number"),
    ],
)
def test_what_cannot_be_run_is_said(words, code, message, capfd):
    try:
        found = run("report", *words)
    except SystemExit as usage:
        found = usage.code
    assert found == code
    error = capfd.readouterr().err
    assert message in (error if code == 2 else only_line(error))


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "on a terminal"])
def test_signals_reach_the_command_once(patient, tmp_path, name):
    options, ours = {}, None
    if name == "on a terminal":
        ours, terminal = pty.openpty()
        # becomes its terminal
        becomes = {"preexec_fn": lambda: os.close(os.open(os.ttyname(0), os.O_RDWR))}
        options = {"stdin": terminal, **becomes}
    words = ["--json", "r.json", "--", *patient, 30]
    process = _start(*words, cwd=tmp_path, start_new_session=True, **options)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    if ours is None:
        process.send_signal(getattr(signal, name))
    else:
        os.close(terminal)
        os.write(ours, b"\x03")
    out, err = process.communicate(timeout=30)
    if ours is not None:
        os.close(ours)
    counts = "int 0 term 1\n" if name == "SIGTERM" else "int 1 term 0\n"
    assert (process.returncode, out) == (7, counts)
    assert "verdict" in err
    assert json.loads((tmp_path / "r.json").read_text())["version"] == 3


def test_the_summary_is_printed_although_the_disk_is_full(small_disk, tmp_path):
    fill = f"open({str(small_disk / 'filler')!r}, 'wb', 0).write(bytes(1 << 23))"
    outputs = ["--json", small_disk / "r.json", "--html", tmp_path / "r.html"]
    done = subprocess_of("report", *outputs, "--", sys.executable, "-c", fill, cwd=tmp_path)
    assert done.returncode == 1
    assert "verdict" in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"graphzero: {small_disk / 'r.json'}: No space")
    assert "verdict" in (tmp_path / "r.html").read_text()


def test_the_exit_code_is_kept_if_nobody_reads_the_summary(tmp_path):
    read, write = os.pipe()
    process = _start("--", "sh", "-c", "sleep 0.3; exit 7", cwd=tmp_path, stderr=write)
    os.close(write)
    os.close(read)
    process.communicate(timeout=30)
    assert process.returncode == 7


@pytest.mark.parametrize("workers", [0, 2])
def test_what_was_recorded_of_a_killed_command_stands(tmp_path, workers):
    done, recording = _record(tmp_path, workers, 60)
    assert done.returncode == 128 + signal.SIGKILL, done.stderr
    assert "killed      by SIGKILL" in done.stderr
    assert "verdict     Bound by" in done.stderr
    assert recording.exit_code == 137
    last = recording.readings[-1].batches
    assert 20 <= last.steps == last.batches <= 61  # all but the last half second
    assert max(process.rss or 0 for r in recording.readings for process in r.processes) > 10**7
