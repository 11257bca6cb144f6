"""The notebooks of examples/, cell by cell in one program each, as they are printed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
# What must hold at the end of each.
HOLDS = {
    "larger_than_memory": "np.mean(losses) < 2 and 'of rows' in batch.stats.io",
    "pyg_in_ten_minutes": "accuracy > 0.7",
    "recommend_from_parquet": "hits > 0.2 and len(recommend('customer-00007')) == 5",
}
NEEDED = {"pyg_in_ten_minutes": "torch_geometric"}
pytestmark = [pytest.mark.extended, pytest.mark.no_asan]


def test_every_notebook_is_known_and_has_no_output():
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == sorted(HOLDS)
    for path in FOLDER.glob("*.ipynb"):
        book = json.loads(path.read_text())
        assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
        cells = book["cells"]
        assert len({cell["id"] for cell in cells}) == len(cells)
        assert all(cell["cell_type"] == "markdown" or cell["outputs"] == [] for cell in cells)


@pytest.mark.parametrize("name", HOLDS)
def test_notebooks_run(name, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip(NEEDED.get(name, "numpy"))
    cells = json.loads((FOLDER / f"{name}.ipynb").read_text())["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    (tmp_path / "book.py").write_text("\n\n".join([*code, f"assert {HOLDS[name]}"]))
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "book.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
