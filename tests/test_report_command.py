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
def patient(tmp_path: Path) -> list[str]:
    path = tmp_path / "patient.py"
    path.write_text(PATIENT)
    return [sys.executable, str(path)]


def _start(*words, cwd: Path, **options) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "graphzero", "report", *map(str, words)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options}
    return subprocess.Popen(command, cwd=cwd, **pipes)


def test_a_command_keeps_its_input_output_and_exit_code(tmp_path: Path) -> None:
    code = "import sys; print(sys.stdin.read(), sys.argv[1:]); sys.exit(3)"
    words = ["--html", "x", "--", "--help"]  # of the command
    process = _start("--", sys.executable, "-c", code, *words, cwd=tmp_path, stdin=subprocess.PIPE)
    out, err = process.communicate("hello")
    assert (process.returncode, out) == (3, f"hello {words}\n")
    assert list(tmp_path.iterdir()) == []
    assert "graphzero prepared no mini-batch" in err
    assert "no mini-batch was seen: ready-made loaders" in err
    assert "memory      at most" in err


def test_a_training_is_recorded(tmp_path: Path) -> None:
    program = (
        "import time, numpy as np, graphzero as gz\n"
        "edges = np.random.default_rng(0).integers(0, 1000, (5000, 2))\n"
        "rows = np.ones((1000, 8), np.float32)\n"
        "ds = gz.build('data', edges, rows, num_nodes=1000)\n"
        "for _ in range(2):\n"
        "    for batch in gz.NeighborLoader(ds, [5], batch_size=100): time.sleep(0.04)\n"
    )
    (tmp_path / "train.py").write_text(program)
    page, recorded = tmp_path / "page.html", tmp_path / "run.json"
    outputs = ("--json", recorded, "--interval", "0.05")
    done = subprocess_of("report", *outputs, "--", sys.executable, "train.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    recording = read_recording(recorded)
    assert recording.readings[-1].batches.batches == 20
    assert {Path(file.path).name for file in recording.files} >= {"graph.gl", "features.gd"}
    assert recording.command[-1] == "train.py"
    assert "20 prepared" in done.stderr
    again = subprocess_of("report", recorded, "--html", page, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert again.stdout.strip() == done.stderr[done.stderr.index("run  ") :].strip()
    assert "<html" in page.read_text()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--", "/nowhere/at-all"], 127, "graphzero: /nowhere/at-all: there is no such program"),
        (["--", "/"], 126, "graphzero: /: Permission denied"),
        (["--json", "/nowhere/x", "--", "true"], 1, "--json cannot be written"),
        (["--dataset", "/nowhere", "--", "true"], 1, "/nowhere"),
        (["/nowhere/missing.json"], 1, "missing.json"),
    ],
)
def test_what_cannot_be_run_is_one_clear_line(words, code, message, capfd) -> None:
    assert run("report", *words) == code
    assert message in only_line(capfd.readouterr().err)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give a command"),
        (["--"], "give a command"),
        (["some.json", "other"], "a recording is shown alone"),
        (["--interval", "0", "--", "true"], "'0' is not a positive number"),
    ],
)
def test_wrong_usage_is_said(words, message, capfd) -> None:
    with pytest.raises(SystemExit) as done:
        run("report", *words)
    assert done.value.code == 2
    assert message in capfd.readouterr().err


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_signals_are_passed_on(patient, tmp_path: Path, name: str) -> None:
    number = getattr(signal, name)
    process = _start("--json", "r.json", "--", *patient, 30, cwd=tmp_path, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    counts = {"SIGINT": "int 1 term 0\n", "SIGTERM": "int 0 term 1\n"}
    assert (process.returncode, out) == (7, counts[name])
    assert "verdict" in err
    assert json.loads((tmp_path / "r.json").read_text())["version"] == 3


def test_ctrl_c_on_a_terminal_reaches_the_command_once(patient, tmp_path: Path) -> None:
    ours, terminal = pty.openpty()
    process = _start(
        *("--", *patient, 30),
        cwd=tmp_path,
        start_new_session=True,
        stdin=terminal,
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),  # becomes its terminal
    )
    os.close(terminal)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    os.write(ours, b"\x03")
    out, err = process.communicate(timeout=30)
    os.close(ours)
    assert (process.returncode, out) == (7, "int 1 term 0\n")
    assert "verdict" in err


def test_the_summary_is_printed_although_the_disk_is_full(small_disk: Path, tmp_path: Path) -> None:
    fill = f"open({str(small_disk / 'filler')!r}, 'wb', 0).write(bytes(1 << 23))"
    outputs = ["--json", small_disk / "r.json", "--html", tmp_path / "r.html"]
    done = subprocess_of("report", *outputs, "--", sys.executable, "-c", fill, cwd=tmp_path)
    assert done.returncode == 1
    assert "verdict" in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"graphzero: {small_disk / 'r.json'}: No space")
    assert "verdict" in (tmp_path / "r.html").read_text()


def test_the_exit_code_is_kept_if_nobody_reads_the_summary(tmp_path: Path) -> None:
    read, write = os.pipe()
    process = _start("--", "sh", "-c", "sleep 0.3; exit 7", cwd=tmp_path, stderr=write)
    os.close(write)
    os.close(read)
    process.communicate(timeout=30)
    assert process.returncode == 7


@pytest.mark.parametrize("workers", [0, 2])
def test_what_was_recorded_of_a_killed_command_stands(tmp_path: Path, workers: int) -> None:
    program = (
        "import os, sys, time, numpy as np, graphzero as gz\n"
        "edges = np.random.default_rng(0).integers(0, 1000, (5000, 2))\n"
        "ds = gz.build('data', edges, np.ones((1000, 8), np.float32), num_nodes=1000)\n"
        f"loader = gz.NeighborLoader(ds, [5], batch_size=10, num_workers={workers})\n"
        "for i, batch in enumerate(loader):\n"
        "    time.sleep(0.05)\n"
        "    if i == 40: os.kill(os.getpid(), 9)\n"
    )
    (tmp_path / "train.py").write_text(program)
    outputs = ("--json", tmp_path / "r.json", "--interval", "0.2")
    done = subprocess_of("report", *outputs, "--", sys.executable, "train.py", cwd=tmp_path)
    assert done.returncode == 128 + signal.SIGKILL, done.stderr
    assert "killed      by SIGKILL" in done.stderr
    assert "verdict     Bound by" in done.stderr
    recording = read_recording(tmp_path / "r.json")
    assert recording.exit_code == 137
    assert 20 <= recording.readings[-1].batches.steps <= 41  # all but the last half second
    assert recording.readings[-1].batches.batches == recording.readings[-1].batches.steps
    assert max(process.rss or 0 for r in recording.readings for process in r.processes) > 10**7
    assert {Path(file.path).name for file in recording.files} >= {"graph.gl", "features.gd"}
