"""The README's own code, run as it is printed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import files
import numpy as np
import pytest

README = Path(__file__).resolve().parents[1] / "README.md"

# What the page leaves to the reader: a model, guarded as scripts with workers should be.
MODEL = """
import torch

class Mean(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 3)

    def forward(self, x, edge_index):
        gathered = torch.zeros_like(x).index_add_(0, edge_index[1], x[edge_index[0]])
        return self.linear(x + gathered)

model = Mean()
"""


def python_blocks():
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


@pytest.mark.filterwarnings("ignore")
def test_the_python_of_the_readme_runs_as_printed(tmp_path):
    rng = np.random.default_rng(0)
    edges = files.random_edges(100, 800)
    lines = "".join(f"{source},{target}\n" for source, target in edges.tolist())
    (tmp_path / "edges.csv").write_text("src,dst\n" + lines)
    np.save(tmp_path / "features.npy", rng.standard_normal((100, 6)).astype(np.float32))
    np.save(tmp_path / "labels.npy", rng.integers(0, 3, 100))
    for name in ("train", "val", "test"):
        np.save(tmp_path / f"{name}_idx.npy", rng.permutation(100)[:30])
    blocks = python_blocks()
    assert len(blocks) == 2
    script = tmp_path / "script.py"
    script.write_text("\n".join([blocks[0], MODEL, blocks[1], "print('loss', float(loss))"]))
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "loss" in done.stdout
