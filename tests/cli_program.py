"""The command line as tests run it: in this process, or as a program; and the files it works on."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

from graphzero.cli import main


def write_inputs(folder):
    """A user's files: twenty nodes on a ring, a label and a feature row each."""
    folder.mkdir()
    lines = [f"{i},{(i + 1) % 20},{i / 10}" for i in range(20)]
    (folder / "edges.csv").write_text("from,to,weight\n" + "\n".join(lines) + "\n")
    rng = np.random.default_rng(0)
    np.save(folder / "x.npy", rng.standard_normal((20, 4)).astype(np.float32))
    np.save(folder / "y.npy", np.arange(20) % 2)
    np.save(folder / "train.npy", np.arange(12))
    np.save(folder / "val.npy", np.arange(12, 20))
    return folder


def build_data(inputs, folder):
    """The dataset folder built from them."""
    splits = [f"--split={name}={inputs / name}.npy" for name in ("train", "val")]
    parts = ["--features", str(inputs / "x.npy"), "--labels", str(inputs / "y.npy"), *splits]
    assert run("build", folder, "--edges", inputs / "edges.csv", *parts, "--undirected") == 0
    return folder


def run(*words):
    """Exit code of a command line in this process."""
    return main([str(word) for word in words])


def subprocess_of(*words, cwd, env=None):
    """Not in the repository's root, whose uncompiled package would be run."""
    command = [sys.executable, "-m", "graphzero", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=cwd, env=env
    )


def only_line(text):
    """The line of a text that has one."""
    (line,) = text.splitlines()
    return line
