"""Every byte of the mini-batches of all kinds of loaders, as it was recorded on one day."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("torch")

import recorded_loaders

RECORDED = json.loads(recorded_loaders.RECORD.read_text())


@pytest.mark.parametrize("kind", recorded_loaders.RECORDERS)
def test_mini_batches_are_as_recorded(tmp_path, kind):
    assert recorded_loaders.record(kind, tmp_path) == RECORDED[kind]
