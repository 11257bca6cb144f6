"""The site: built without a warning, no dead link, nothing fetched from elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")
ROOT = Path(__file__).resolve().parents[1]
pytestmark = [pytest.mark.extended, pytest.mark.no_asan]


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
