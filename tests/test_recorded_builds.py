"""Every byte of the files that builds write, as it was recorded on one day."""

from __future__ import annotations

import json

import pytest
import recorded_builds

RECORDED = json.loads(recorded_builds.RECORD.read_text())


@pytest.mark.parametrize("kind", recorded_builds.RECORDERS)
def test_files_are_as_recorded(tmp_path, kind):
    assert recorded_builds.RECORDERS[kind](tmp_path) == RECORDED[kind]
