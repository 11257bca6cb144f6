"""Every byte of files of builds and of mini-batches of loaders, as recorded on one day."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

KINDS = {
    "recorded_builds": ("plain", "merging", "ids", "typed", "reordered"),
    "recorded_loaders": (
        *("draws", "plain", "typed", "links", "loaders", "workers", "ranks", "packs"),
    ),
    "recorded_sources": ("text", "arrow", "arrays", "memory", "ids", "ogb", "pyg"),
}
NEEDED = {
    "recorded_loaders": ("torch",),
    "recorded_sources": ("torch", "torch_geometric", "pandas", "polars", "scipy", "safetensors"),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        # "draws" runs the compiled core hard: AddressSanitizer watches it as well
        pytest.param(name, kind, marks=pytest.mark.core if kind == "draws" else ())
        for name, kinds in KINDS.items()
        for kind in kinds
    ],
)
def test_bytes_are_as_recorded(tmp_path, name, kind):
    for package in NEEDED.get(name, ()):
        pytest.importorskip(package)
    module = importlib.import_module(name)
    assert set(KINDS[name]) == set(module.RECORDERS)
    recorded = json.loads(Path(module.RECORD).read_text())
    found, wanted = module.record(kind, tmp_path), recorded[kind]
    torch = sys.modules.get("torch")
    if kind == "pyg" and tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13):
        for files in (*found.values(), *wanted.values()):
            files.pop("extras.gd", None)  # torch.save wrote other bytes then
    assert found == wanted


def test_no_strategy_changes_a_batch():
    recorded = json.loads(Path(__file__).with_name("recorded_loaders.json").read_text())["draws"]
    for prefix in ("rows", "float16 to None", "float16 to float32"):
        assert len({text for name, text in recorded.items() if name.startswith(prefix)}) == 1
