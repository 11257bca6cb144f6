"""The code of docs/typed.md, run as it is printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

PAGE = Path(__file__).resolve().parents[1] / "docs" / "typed.md"

# Minutes of training in scripts: what they use is sanitized by the tests of its own.
pytestmark = pytest.mark.no_asan


@pytest.mark.filterwarnings("ignore")
def test_the_code_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 8
    names = {}
    for number, block in enumerate(blocks):
        exec(compile(block, f"block {number} of {PAGE.name}", "exec"), names)
        if "loss =" in block:
            assert torch.isfinite(names.pop("loss"))
    printed = capsys.readouterr().out
    assert "['paper', 'author']" in printed
    assert len(names["loader"].dataset) == len(names["weighted"].dataset) == 400
    assert len(names["links"].dataset) == 2500
    drawn = next(iter(names["timed"]))["paper", "cites", "paper"]
    assert drawn.num_edges > 0  # the page's check of years is one of edges
