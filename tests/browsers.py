"""A real browser for tests, where there is one."""

from __future__ import annotations

import os
import shutil
from unittest import mock

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
in_a_browser = pytest.mark.skipif(
    CHROMIUM is None or DRIVER is None,
    reason="chromium or chromedriver (chromium-driver) is not installed",
)


def open_browser():
    """A Chromium without a window, to be closed by ``with``; it logs what pages complain about."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for name in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{name}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.chrome.service.Service(str(DRIVER))
    with mock.patch.dict(os.environ, {"SE_OFFLINE": "true"}):  # it looks for no other driver
        return webdriver.Chrome(options=options, service=service)
