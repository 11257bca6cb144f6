"""Every byte of files of builds and of mini-batches of loaders, as recorded on one day."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

KINDS = {
    "recorded_builds": ("plain", "merging", "ids", "typed", "reordered"),
    "recorded_loaders": ("plain", "typed", "links", "loaders", "workers", "ranks", "packs"),
    "recorded_sources": ("text", "arrow", "arrays", "memory", "ids", "ogb", "pyg"),
}
NEEDED = {
    "recorded_loaders": ("torch",),
    "recorded_sources": ("torch", "torch_geometric", "pandas", "polars", "scipy", "safetensors"),
}


@pytest.mark.parametrize(("name", "kind"), [(n, kind) for n in KINDS for kind in KINDS[n]])
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
