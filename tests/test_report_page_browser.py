"""The page of a recording in a real browser: drawn, and without errors."""

from __future__ import annotations

import pytest
import recordings
from browsers import in_a_browser, open_browser

from graphzero.report.page import write_page

pytest.importorskip("matplotlib")
pytestmark = [pytest.mark.no_asan, in_a_browser]  # another program does the work


def test_pages_are_drawn_without_errors(tmp_path):
    # what the page's policy refuses, such as any request, is an error in the browser's log
    with open_browser() as browser:
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
