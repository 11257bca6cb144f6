"""The page of a recording in a real browser: drawn, without errors, and without any request."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import recordings

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

pytest.importorskip("matplotlib")
pytest.importorskip("selenium", reason="selenium is not installed")

from graphzero.report.page import write_page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.no_asan,  # another program does the work
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.skipif(DRIVER is None, reason="chromedriver (chromium-driver) is not installed"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Chrome]:
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
    yield driver
    driver.quit()


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


@pytest.mark.parametrize("name", recordings.RECORDINGS)
def test_a_page_is_drawn_without_errors_and_asks_for_nothing(
    browser: Chrome, tmp_path: Path, name: str
) -> None:
    path = tmp_path / "page.html"
    write_page(path, recordings.RECORDINGS[name]())
    browser.get("about:blank")
    browser.get_log("performance")
    browser.get_log("browser")
    browser.get(path.as_uri())
    asked = {each for each in _requests(browser) if not each.startswith("data:")}
    assert asked <= {path.as_uri()}
    assert browser.get_log("browser") == []
    sizes = browser.execute_script(
        "return [...document.querySelectorAll('figure > img')].map("
        "img => [img.getBoundingClientRect().width, img.naturalHeight])"
    )
    assert all(width > 300 and height > 50 for width, height in sizes)
    assert len(sizes) + len(browser.find_elements("css selector", "figure > p")) == 4
    wide = "return document.documentElement.scrollWidth <= window.innerWidth"
    assert browser.execute_script(wide)
