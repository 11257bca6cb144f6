"""Every byte of files and mini-batches, as it was recorded before the code was last laid out."""

from __future__ import annotations

import json

import pytest
import recorded_batches

pytest.importorskip("torch")

RECORDED = json.loads(recorded_batches.RECORD.read_text())


@pytest.mark.parametrize(
    "order",
    [
        order if order == "input" else pytest.param(order, marks=pytest.mark.extended)
        for order in recorded_batches.ORDERS
    ],
)
def test_batches_of_every_kind_and_strategy_are_as_recorded(tmp_path, order):
    assert recorded_batches.record_order(tmp_path / order, order) == RECORDED[order]


def test_narrow_rows_are_as_recorded(tmp_path):
    assert recorded_batches.record_narrow(tmp_path / "data") == RECORDED["float16"]


def test_reordered_files_are_as_recorded(tmp_path):
    assert recorded_batches.record_reordered(tmp_path / "data") == RECORDED["reordered"]


def test_no_strategy_changes_a_batch():
    for order in recorded_batches.ORDERS:
        of_strategies = (
            found for name, found in RECORDED[order].items() if name.startswith("strategy")
        )
        assert len({digest for found in of_strategies for digest in found.values()}) == 1
