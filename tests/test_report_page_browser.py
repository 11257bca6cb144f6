"""The page of a recording in a real browser: drawn, and without errors."""

from __future__ import annotations

import shutil

import pytest
import recordings

from graphzero.report.page import write_page

pytest.importorskip("matplotlib")
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
pytestmark = [
    pytest.mark.no_asan,  # another program does the work
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.skipif(DRIVER is None, reason="chromedriver (chromium-driver) is not installed"),
]


def test_pages_are_drawn_without_errors(tmp_path, monkeypatch):
    monkeypatch.setenv("SE_OFFLINE", "true")  # selenium looks for no other driver
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for name in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{name}")
    # what the page's policy refuses, such as any request, is an error in this log
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.chrome.service.Service(str(DRIVER))
    with webdriver.Chrome(options=options, service=service) as browser:
        for name, make in recordings.RECORDINGS.items():
            path = tmp_path / f"{name}.html"
            write_page(path, make())
            browser.get(path.as_uri())
            assert browser.get_log("browser") == []
            sizes = browser.execute_script(
                "return [...document.querySelectorAll('figure > img')].map("
                "img => [img.getBoundingClientRect().width, img.naturalHeight])"
            )
            assert all(width > 300 and height > 50 for width, height in sizes)
            assert len(sizes) + len(browser.find_elements("css selector", "figure > p")) == 4
            wide = "return document.documentElement.scrollWidth <= window.innerWidth"
            assert browser.execute_script(wide), name
