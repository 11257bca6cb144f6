"""Every byte of the files that builds write from every kind of source, as recorded on one day."""

from __future__ import annotations

import json

import pytest

for package in ("torch", "torch_geometric", "pandas", "polars", "scipy", "safetensors"):
    pytest.importorskip(package)

import recorded_sources  # noqa: E402

RECORDED = json.loads(recorded_sources.RECORD.read_text())


@pytest.mark.parametrize("kind", recorded_sources.RECORDERS)
def test_files_are_as_recorded(tmp_path, kind):
    assert recorded_sources.record(kind, tmp_path) == RECORDED[kind]
