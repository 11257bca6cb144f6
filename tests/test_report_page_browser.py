"""The page of a recording in a real browser: drawn, without errors, and without any request."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import recordings

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytest.importorskip("matplotlib")
pytest.importorskip("selenium", reason="selenium is not installed")

from graphzero.report.page.page import write_page
from graphzero.report.recording_file import read_recording

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
WIDTHS = {"wide": 1100, "narrow": 390}
# Marks that each chart must show: parts of their ids, and how many there are.
MARKS = {
    "out_of_core": {
        "memory": {"series-": 6},
        "residency": {"strip-": 4, "parts-": 4},
        "throughput": {"series-": 3},
        "epochs": {"series-": 18},
    },
    "in_memory": {
        "memory": {"series-anonymous": 1, "series-file": 1, "series-page-cache": 1},
        "residency": {"strip-": 2, "parts-": 2},
        "throughput": {"series-device": 1},
        "epochs": {"series-sampling": 1, "series-training": 1},
    },
    "typed": {
        "memory": {"series-anonymous": 1, "series-page-cache": 1, "series-memory-group": 1},
        "residency": {"strip-": 11, "parts-": 11, "unknown-": 1},
        "throughput": {"series-processes": 1, "series-disk-rate": 1},
        "epochs": {"series-": 72},
    },
    "only_rss": {"memory": {"series-resident": 1}},
    "without_figures": {},
    "empty": {},
    "one_reading": {"residency": {"strip-": 2}},
    "hostile": {"memory": {"series-anonymous": 1}, "residency": {"strip-": 4}},
}

pytestmark = [
    pytest.mark.no_asan,  # another program does the work
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.skipif(DRIVER is None, reason="chromedriver (chromium-driver) is not installed"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pages and downloads are."""
    return tmp_path_factory.mktemp("pages")


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[Chrome]:
    """One session for all tests, which can reach no host."""
    os.environ["SE_OFFLINE"] = "true"  # selenium looks for no other driver
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in (
        *("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"),
        *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)}
    )
    yield driver
    driver.quit()


def _show(browser: Chrome, path: Path, form: str) -> None:
    """Loads a page in a window of one of the widths, with empty logs."""
    metrics = {"width": WIDTHS[form], "height": 900, "deviceScaleFactor": 1}
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {**metrics, "mobile": form == "narrow"}
    )
    browser.get("about:blank")
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(path.as_uri())


def _requests(browser: Chrome) -> dict[str, str]:
    """All addresses that were asked for since the page was loaded, and what blocked the request."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    addresses: dict[str, str] = {}
    found: dict[str, str] = {}
    for event in events:
        values = event["params"]
        if event["method"] == "Network.requestWillBeSent":
            addresses[values["requestId"]] = values["request"]["url"]
            found[values["request"]["url"]] = ""
        elif event["method"] == "Network.loadingFailed":
            found[addresses[values["requestId"]]] = values.get("blockedReason", "")
    return found


def _written(name: str, folder: Path) -> Path:
    path = folder / f"{name}.html"
    if not path.exists():
        write_page(recordings.RECORDINGS[name](), path)
    return path


BOXES = """
const found = {};
for (const svg of document.querySelectorAll("figure > svg")) {
  const frame = svg.getBoundingClientRect();
  if (frame.width === 0) continue;
  const shown = found[svg.parentElement.id] = {frame: frame.toJSON(), marks: {}, texts: []};
  const prefix = svg.parentElement.id + "-" + svg.classList[0] + "-";
  for (const mark of svg.querySelectorAll("[id]")) {
    const box = mark.getBoundingClientRect();
    shown.marks[mark.id.replace(prefix, "")] = box.toJSON();
  }
  for (const text of svg.querySelectorAll("text")) {
    shown.texts.push({text: text.textContent, ...text.getBoundingClientRect().toJSON()});
  }
}
return found;
"""


def _check_marks(charts: dict[str, Any], name: str) -> None:
    drawn = {chart: found["marks"] for chart, found in charts.items()}
    assert drawn.keys() >= MARKS[name].keys()
    for chart, expected in MARKS[name].items():
        for kind, count in expected.items():
            boxes = [box for mark, box in drawn[chart].items() if mark.startswith(kind)]
            assert len(boxes) == count, (name, chart, kind)
            # a level line and a bar of nothing have one side only
            assert all(box["width"] + box["height"] > 0 for box in boxes), (name, chart, kind)
            assert any(box["width"] * box["height"] > 0 for box in boxes) or count == 1


def _check_texts(charts: dict[str, Any], name: str) -> None:
    """Every text lies within its chart, large enough to be read."""
    for chart, found in charts.items():
        frame = found["frame"]
        for text in found["texts"]:
            assert text["left"] >= frame["left"] - 1, (name, chart, text)
            assert text["right"] <= frame["right"] + 1, (name, chart, text)
            assert text["height"] >= 9, (name, chart, text)


@pytest.mark.parametrize("form", WIDTHS)
def test_pages_are_drawn_without_errors_and_without_requests(
    browser: Chrome, folder: Path, form: str
) -> None:
    for name in recordings.RECORDINGS:
        path = _written(name, folder)
        _show(browser, path, form)
        charts = browser.execute_script(BOXES)
        _check_marks(charts, name)
        _check_texts(charts, name)
        size = "return [document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        width, available = browser.execute_script(size)
        assert width <= available, f"{name} is {width} pixels wide in a window of {available}"
        assert browser.get_log("browser") == [], name
        assert _requests(browser) == {path.as_uri(): ""}, name


def test_the_policy_stops_what_would_ask_a_host(browser: Chrome, folder: Path) -> None:
    text = _written("empty", folder).read_text("utf-8")
    path = folder / "asks.html"
    inserted = (
        '<img src="http://127.0.0.1:9/x.png"><script>document.title = "changed"</script>'
        '<img src="x" onerror="document.title = 1"></main>'
    )
    path.write_text(text.replace("</main>", inserted), "utf-8")
    _show(browser, path, "wide")
    messages = [entry["message"] for entry in browser.get_log("browser")]
    assert sum("Content Security Policy" in message for message in messages) >= 3, messages
    assert browser.title == "graphzero: true"
    blocked = {address: why for address, why in _requests(browser).items() if why}
    assert blocked == {"http://127.0.0.1:9/x.png": "csp", (folder / "x").as_uri(): "csp"}

    without = re.sub(r"<meta http-equiv[^>]*>", "", path.read_text("utf-8"))
    path.write_text(without, "utf-8")
    _show(browser, path, "wide")
    assert browser.get_log("browser") != []
    assert _requests(browser)["http://127.0.0.1:9/x.png"] == ""
    assert browser.title in ("changed", "1")


def test_the_pointer_shows_values(browser: Chrome, folder: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By

    _show(browser, _written("out_of_core", folder), "wide")
    tip = browser.find_element(By.ID, "tip")
    assert not tip.is_displayed()
    chart = browser.find_element(By.CSS_SELECTOR, "#memory svg.wide")
    ActionChains(browser).move_to_element(chart).perform()
    assert tip.is_displayed()
    lines = tip.text.splitlines()
    assert lines[0].endswith(" s")
    assert [line.partition(":")[0] for line in lines[1:]] == [
        *("anonymous", "mapped files", "shared", "page cache", "memory group")
    ]
    assert all(line.endswith(" GB") for line in lines[1:])
    heading = browser.find_element(By.TAG_NAME, "h1")
    ActionChains(browser).move_to_element(heading).perform()
    assert not tip.is_displayed()


def _downloaded(path: Path) -> bytes:
    end = time.monotonic() + 60
    while not path.exists() or path.stat().st_size == 0:
        assert time.monotonic() < end, f"{path.name} was not saved"
        time.sleep(0.05)
    return path.read_bytes()


def test_data_and_charts_can_be_saved(browser: Chrome, folder: Path) -> None:
    from selenium.webdriver.common.by import By

    _show(browser, _written("in_memory", folder), "wide")
    browser.find_element(By.ID, "save-data").click()
    _downloaded(folder / "recording.json")
    assert read_recording(folder / "recording.json") == recordings.in_memory()
    browser.find_element(By.CSS_SELECTOR, "#epochs button").click()
    chart = _downloaded(folder / "epochs.svg")
    assert chart.startswith(b"<svg")
    assert b"epochs-wide-series-training-0" in chart
    assert browser.get_log("browser") == []
