"""The site: built without a warning, no dead link, nothing fetched from elsewhere, on a phone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from browsers import in_a_browser, open_browser

import graphzero as gz

pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")
ROOT = Path(__file__).resolve().parents[1]
pytestmark = [pytest.mark.extended, pytest.mark.no_asan]
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, path):
        super().__init__()
        self.links, self.loaded, self.anchors = [], [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        """Notes one."""
        found = dict(attrs)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        elif tag == "link" and found.get("rel") != "canonical":
            self.loaded.append(found["href"])
        elif "src" in found:
            self.loaded.append(found["src"])


def test_no_link_is_dead_and_nothing_comes_from_elsewhere(site):
    pages = {path: Page(path) for path in site.rglob("*.html")}
    names = {path.stem for path in pages}
    assert {path.stem for path in (ROOT / "docs").glob("*.md")} | {"index", "changes"} <= names
    for path, page in pages.items():
        inside = [link for link in page.links if ":" not in link.partition("#")[0]]
        assert len(inside) > 20, path
        for link in inside + page.loaded:
            target, _, anchor = link.partition("#")
            if path.name == "404.html":
                target = target.lstrip("/")
            whole = (path.parent / target).resolve() if target else path
            assert whole.is_relative_to(site), (path.name, link)
            assert whole.exists(), (path.name, link)
            assert not anchor or anchor in pages[whole].anchors, (path.name, link)


def test_the_reference_has_every_public_name(site):
    anchors = Page(site / "reference.html").anchors
    names = {f"graphzero.{name}" for name in gz.__all__ if name != "BFLOAT16"}
    assert names | {"graphzero.graph.dataset.open_dataset"} <= anchors


@pytest.fixture
def address(site):
    """Of the site on a server of this machine."""
    handler = partial(SilentHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class SilentHandler(SimpleHTTPRequestHandler):
    """Says nothing of what it serves."""

    def log_message(self, *_):
        """Of a request."""


@in_a_browser
def test_pages_are_read_on_a_phone_by_day_and_by_night(site, address):
    with open_browser() as browser:
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
        for path in sorted(set(site.glob("*.html")) - {site / "404.html"}):
            browser.get(f"{address}/{path.name}")
            fits = "return document.documentElement.scrollWidth <= window.innerWidth"
            assert browser.execute_script(fits), path.name
        bright = {}
        for scheme in ("light", "dark"):
            media = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": media})
            browser.execute_script("localStorage.clear()")  # the choice of an earlier visit
            browser.get(f"{address}/index.html")
            color = "return getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g)"
            bright[scheme] = sum(map(int, browser.execute_script(color)[:3]))
        assert bright["light"] > 600 > 200 > bright["dark"]
        browser.get(f"{address}/index.html?q=node2vec")
        found = "return document.querySelectorAll('.md-search-result__item').length"
        end = time.monotonic() + 60
        while browser.execute_script(found) < 2:
            assert time.monotonic() < end, "the search finds nothing"
            time.sleep(0.1)
