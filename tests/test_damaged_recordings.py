"""Recordings of which one value was changed: refused with its place, or shown as any other."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import recordings
from cli_program import only_line, run

from graphzero.errors import FormatError
from graphzero.report.page import page_text
from graphzero.report.recording import Environment, from_json
from graphzero.report.summary import summarize, to_json

pytestmark = pytest.mark.no_asan  # pure Python

OTHERS = (None, "text", -1, -0.5, 1e300, 10**400, float("nan"), float("inf"), True, [], [None], {})
Place = tuple[str | int, ...]


def _small() -> dict[str, Any]:
    """A recording with a value in every field, as JSON."""
    long = recordings.out_of_core()
    readings = tuple(
        replace(each, group=replace(each.group, shared=7))
        for each in (long.readings[0], long.readings[-1])
        if each.group is not None
    )
    files = tuple(replace(each, residency=(0.5, 1.0)) for each in long.files[:1])
    whole = replace(
        long,
        readings=readings,
        files=files,
        epochs={0: long.epochs[0]},
        environment=replace(long.environment, versions={"python": "3.11"}),
        unknown={"pss": "a reason"},
        exit_code=0,
    )
    content: dict[str, Any] = json.loads(to_json(whole))
    return content


def _places(value: object, at: Place = ()) -> Iterator[Place]:
    """Every value of some JSON, and the first and last of each list."""
    yield at
    if isinstance(value, dict):
        for key, each in value.items():
            yield from _places(each, (*at, key))
    elif isinstance(value, list):
        for i in {0, len(value) - 1} if value else ():
            yield from _places(value[i], (*at, i))


def _changed(content: dict[str, Any], place: Place, value: object) -> str:
    content = copy.deepcopy(content)
    inner: Any = content
    for key in ("recording", *place)[:-1]:
        inner = inner[key]
    inner[("recording", *place)[-1]] = value
    return json.dumps(content)


def _name(place: Place) -> str:
    """The innermost name in it, which messages have."""
    return next(key for key in reversed(place) if isinstance(key, str))


def _read(text: str) -> tuple[str, str]:
    """Why it is refused, or its summary."""
    try:
        recording = from_json(text)
    except FormatError as error:
        return str(error), ""
    return "", str(summarize(recording))


CONTENT = _small()
PLACES = list(_places(CONTENT["recording"]))


def test_the_recording_has_a_value_everywhere() -> None:
    assert len(PLACES) > 120
    assert [place for place in PLACES if _at(place) is None] == []


def _at(place: Place) -> Any:
    inner: Any = CONTENT["recording"]
    for key in place:
        inner = inner[key]
    return inner


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: str(value)[:9])
def test_any_other_value_is_refused_with_its_place_or_shown(value: object) -> None:
    shown = refused = 0
    for place in PLACES:
        message, text = _read(_changed(CONTENT, place, value))
        if text:
            shown += 1
            assert text.startswith("run ")
            assert "nan" not in text.split()
        else:
            refused += 1
            assert message.startswith("is a recording that is not complete: ")
            assert not place or _name(place) in message
            assert len(message) < 300
    assert refused > 60
    assert refused + shown == len(PLACES)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        ((), None, "it is null, not an object"),
        (("seconds",), None, "seconds is null, not a number"),
        (("options",), None, "options is null, not an object"),
        (("options", "plan"), 3, "options['plan'] is 3, not a text"),
        (("own_cpu_seconds",), "2", "own_cpu_seconds is '2', not a number"),
        (("unknown",), [], "unknown is a list, not an object"),
        (("command",), "python", "command is 'python', not a list"),
        (("readings", 1, "processes", 0, "rss"), 0.5, "readings[1].processes[0].rss is 0.5, not a"),
        (("readings", 1, "batches", "nodes"), -4, "readings[1].batches.nodes is out of range: -4"),
        (("readings", 0, "group", "new"), 1, "readings[0].group.'new' is no field of it"),
        (("epochs", "-1"), {}, "epochs has '-1' in place of a whole number"),
        (("environment", "rotational"), 1, "environment.rotational is 1, not true or false"),
    ],
)
def test_the_message_says_what_is_wrong(place: Place, value: object, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        from_json(_changed(CONTENT, place, value))
    assert str(caught.value).startswith(f"is a recording that is not complete: {message}")


@pytest.mark.parametrize("name", sorted(CONTENT["recording"]))
def test_what_is_missing_is_said_unless_it_is_unknown_then(name: str) -> None:
    content = copy.deepcopy(CONTENT)
    del content["recording"][name]
    if name in ("options", "own_cpu_seconds", "unknown", "exit_code"):
        assert getattr(from_json(json.dumps(content)), name) in ({}, 0.0, None)
    else:
        with pytest.raises(FormatError, match=f"{name} is missing"):
            from_json(json.dumps(content))


def test_figures_that_an_earlier_version_did_not_have_are_unknown() -> None:
    content = copy.deepcopy(CONTENT)
    del content["recording"]["readings"][1]["group"]["shared"]
    content["recording"]["environment"] = {}
    found = from_json(json.dumps(content))
    assert found.readings[1].group is not None
    assert found.readings[1].group.shared is None
    assert found.environment == Environment()


def test_the_page_of_the_oddest_values_is_made() -> None:
    content = copy.deepcopy(CONTENT)
    whole = content["recording"]
    whole["files"][0] |= {"size": 0, "page_cache": 0, "residency": []}
    whole["readings"][0] |= {"seconds": 2**63, "processes": [], "page_cache": {}}
    whole["command"] = []
    whole["seconds"] = 0
    assert "</html>" in page_text(from_json(json.dumps(content)))


def test_the_command_names_the_file(tmp_path, capfd) -> None:
    path = tmp_path / "r.json"
    path.write_text(_changed(CONTENT, ("seconds",), None))
    assert run("report", path) == 1
    line = only_line(capfd.readouterr().err)
    assert line.startswith(f"graphzero: {path} is a recording that is not complete: seconds is")
    path.write_text("[" * 100_000)
    assert run("report", path) == 1
    assert f"graphzero: {path} is not JSON" in only_line(capfd.readouterr().err)
