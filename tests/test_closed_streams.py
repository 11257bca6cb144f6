"""The program without input, output or error, as a shell closes them by ``>&-``."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from cli_program import build_data, write_inputs

pytestmark = pytest.mark.no_asan  # starts processes


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("closed")
    build_data(write_inputs(path / "in"), path / "data")
    return path


def shell(line, cwd):
    """A line of a shell, where ``$GZ`` is the program."""
    return subprocess.run(
        ["sh", "-c", line],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=cwd,
        env={**os.environ, "GZ": f"{sys.executable} -m graphzero"},
    )


@pytest.mark.parametrize(
    "words",
    ["info data >&-", "verify data --json >&-", "--version >&-", "info data <&- >&- 2>&-"],
)
def test_the_exit_code_is_that_of_the_command(folder, words):
    done = shell(f"$GZ {words}", folder)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_would_be_printed_goes_nowhere_else(tmp_path):
    done = shell("$GZ report -- echo from the command 2>&-", tmp_path)
    assert (done.returncode, done.stdout) == (0, "from the command\n")


def test_a_command_that_is_recorded_starts_without_the_same_streams(tmp_path):
    (tmp_path / "program.py").write_text("import sys; sys.exit(3 if sys.stdout is None else 4)")
    done = shell(f"$GZ report --json r.json -- {sys.executable} program.py >&-", tmp_path)
    assert done.returncode == 3
    assert "verdict" in done.stderr
    assert "Error" not in done.stderr
    assert json.loads((tmp_path / "r.json").read_text())["version"]
