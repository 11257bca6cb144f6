"""The heat map and the page of a tuning."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

import graphzero as gz
from graphzero.report.tuning.grid import LOOKAHEADS, describe, grid
from graphzero.report.tuning.halving import Search
from graphzero.report.tuning.heat_map import heat_map, heat_map_lines, heat_map_svg, seconds_text
from graphzero.report.tuning.page import conditions, tuning_page
from graphzero.report.tuning.trial import TrialResult, Workload
from graphzero.report.tuning.tuner import Record, Tuned

pytestmark = pytest.mark.no_asan  # pure Python

BEST = gz.Prefetch("uring", lookahead=1, resident=1.0)
KILLED = gz.Prefetch("none", lookahead=2)


@pytest.fixture
def tuned(tmp_path: Path) -> Tuned:
    """Of a grid in which one setting was killed, and "auto" with lookahead 4 was not measured."""
    settings = grid(1000, 100, {"pread": "for a reason"})
    records = []
    for number, setting in enumerate(settings):
        if setting == gz.Prefetch("auto", lookahead=4):
            continue
        seconds = (0.1 + 0.05 * number,) * 4
        result = TrialResult(setting, seconds)
        if setting == KILLED:
            result = TrialResult(setting, reason="killed: it needs more memory than 1 MB")
        records.append(Record(0, result))
    records += [Record(1, TrialResult(BEST, (0.0123,) * 4))]
    return Tuned(
        Workload(str(tmp_path / "<data>")),
        1 << 20,
        "cgroup version 2",
        None,
        900_000,
        5_000_000,
        "digest",
        tuple(settings),
        tuple(records),
        Search(BEST, {BEST: 1.0, settings[0]: 1.25}, [gz.Prefetch("auto", lookahead=4)]),
        {"pread": "for a reason"},
    )


def test_the_grid_is_of_a_sensible_size() -> None:
    settings = grid(10**9, 3 * 10**8)
    assert 24 <= len(settings) <= 40
    assert len(set(settings)) == len(settings)
    assert settings[0] == gz.Prefetch("auto", lookahead=0)
    for name in ("auto", "uring", "pread", "willneed", "none"):
        assert {one.lookahead for one in settings if one.strategy == name} == set(LOOKAHEADS)
    assert {one.resident for one in settings if one.strategy == "uring"} == {0.0, 0.15, 1.0}
    assert all(one.memory_limit is None for one in settings)
    without = grid(10**9, 10**10, {"uring": "forbidden"})
    assert {one.strategy for one in without} == {"auto", "pread", "willneed", "none"}
    assert {one.resident for one in without} == {None, 0.0, 1.0}


def test_settings_are_written_as_the_command_line_takes_them() -> None:
    from graphzero.commands.options import as_prefetch

    for setting in grid(10**9, 3 * 10**8):
        assert as_prefetch(describe(setting)) == setting


def test_cells_have_the_fastest_setting_and_reasons(tuned: Tuned) -> None:
    cells = heat_map(tuned)
    assert ("auto", 4) not in cells
    assert cells["uring", 1].setting == BEST
    assert cells["uring", 1].seconds == pytest.approx(0.0123)
    assert cells["uring", 1].details == "resident=1.0"
    assert (cells["none", 2].seconds, cells["none", 2].reason) == (
        None,
        "killed: it needs more memory than 1 MB",
    )
    uring = [one for one in tuned.settings if (one.strategy, one.lookahead) == ("uring", 4)]
    assert cells["uring", 4].seconds == min(tuned.seconds(one) or 9 for one in uring)


def test_the_text_has_every_cell(tuned: Tuned) -> None:
    lines = list(heat_map_lines(tuned))
    assert [line.split()[0] for line in lines] == ["lookahead", "auto", "uring", "willneed", "none"]
    assert lines[0].split()[1:] == ["0", "1", "2", "4"]
    assert lines[1].split()[-1] == "-"
    assert "12.3 ms *" in lines[2]
    assert sum("*" in line for line in lines) == 1
    assert "killed" in lines[4]
    assert len({len(line) for line in lines}) == 1


def test_the_chart_prints_its_values(tuned: Tuned) -> None:
    svg = heat_map_svg(tuned, "a title")
    ElementTree.fromstring(svg)
    # text is drawn as outlines; its source is in comments
    printed = re.findall(r"<!-- (.*?) -->", svg)
    for text in ("12.3 ms", "killed", "not measured", "resident=1.0", "a title", "willneed"):
        assert text in printed
    assert heat_map_svg(tuned, "a title") == svg


def test_the_page_is_complete_and_loads_nothing(tuned: Tuned) -> None:
    page = tuning_page(tuned)
    opened: list[str] = []

    class Check(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            opened.append(tag)
            for name, value in attrs:
                if name in ("src", "href", "xlink:href", "action"):
                    assert value is not None
                    assert value.startswith(("#", "data:")), (tag, name, value)

    Check().feed(page)
    assert {"svg", "table", "dl"} <= set(opened)
    assert "script" not in opened
    assert "&lt;data&gt;" in page
    assert "<data>" not in page
    for text in (describe(BEST), "1.25", "without pread", "cgroup version 2"):
        assert text in page


def test_trials_that_began_warm_are_told(tuned: Tuned) -> None:
    def text(*shares: float | None) -> str:
        results = [TrialResult(BEST, (0.1,) * 2, in_memory=share) for share in shares]
        records = tuple(Record(0, result) for result in results)
        return dict(conditions(replace(tuned, records=records)))["trials"]

    assert text(0.0, 0.01).endswith("begins without any page of the dataset in memory")
    assert "but 1 began with pages of it" in text(0.0, 0.5)
    assert "as far as the system tells" in text(0.0, None)


def test_seconds_have_three_digits() -> None:
    assert [seconds_text(s) for s in (0.0001234, 0.01234, 0.1, 0.9996, 1.0, 12.345, 123.4)] == [
        *("0.123 ms", "12.3 ms", "100 ms", "1.00 s", "1.00 s", "12.3 s", "123 s"),
    ]
