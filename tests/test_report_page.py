"""The page of a recording as text: what it says, that it is whole, and asks for nothing."""

from __future__ import annotations

import base64
import functools
import re
import sys
from html.parser import HTMLParser

import pytest
import recordings

import graphzero as gz
from graphzero import units
from graphzero.report.page import POLICY, page_text, write_page

matplotlib = pytest.importorskip("matplotlib")
pytestmark = pytest.mark.no_asan  # pure Python

NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
LEADS_ELSEWHERE = {"src", "href", "xlink:href", "action", "data", "poster", "srcset", "formaction"}
FIGURES = ("memory", "residency", "throughput", "epochs")


class Parsed(HTMLParser):
    """The elements of a page, with their attributes, and the text in each kind of element."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self._texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data):
        self._texts.append((self.elements[-1][0] if self.elements else "", data))

    def text_in(self, *tags):
        return " ".join(text for tag, text in self._texts if tag in tags)


def figure(page, name):
    """A part of the page, with the drawing of its image."""
    (found,) = re.findall(rf'<figure id="{name}".*?</figure>', page, re.S)
    images = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', found)
    return Parsed(found + "".join(base64.b64decode(image).decode() for image in images))


@functools.cache
def page_of(name):
    """One of the recordings and its page; made once, as drawing takes a while."""
    recording = recordings.RECORDINGS[name]()
    return recording, page_text(recording)


def _asked_for(page):
    """What a page would load, or where it leads."""
    elements = Parsed(page).elements
    attributes = [(name, value) for _, each in elements for name, value in each.items()]
    styles = [value for name, value in attributes if name in ("style", "clip-path")]
    found = {value for name, value in attributes if name in LEADS_ELSEWHERE}
    for style in (*styles, *re.findall(r"<style>(.*?)</style>", page, re.S)):
        found |= set(re.findall(r"url\(\s*['\"]?([^)'\"]*)", style))
        found |= set(re.findall(r"@import[^;]*", style))
    return found | ({v for name, v in attributes if name.startswith("xmlns")} - NAMESPACES)


@pytest.mark.parametrize("name", recordings.RECORDINGS)
def test_a_page_asks_for_nothing_and_every_chart_is_drawn_or_says_why_not(name):
    page = page_of(name)[1]
    assert all(target.startswith("data:image/svg+xml;") for target in _asked_for(page))
    elements = Parsed(page).elements
    assert "script" not in {tag for tag, _ in elements}
    (policy,) = (a["content"] for tag, a in elements if tag == "meta" and "http-equiv" in a)
    assert policy == POLICY
    assert "default-src 'none'" in policy
    assert "<style" not in page[: page.index("Content-Security-Policy")]
    for chart in FIGURES:
        part = figure(page, chart)
        drawn = sum(tag == "svg" for tag, _ in part.elements)
        assert drawn == (0 if "unknown (" in part.text_in("p") else 1), chart


def test_texts_are_escaped():
    page = page_of("hostile")[1]
    parsed = Parsed(page)
    kinds = {tag for tag, _ in parsed.elements}
    assert kinds <= {tag for tag, _ in Parsed(page_of("out_of_core")[1]).elements}
    assert not any(name.startswith("on") for _, a in parsed.elements for name in a)
    shown = units.printable(recordings.HOSTILE)
    assert shown.isprintable()
    assert shown in parsed.text_in("h1").replace("'\"'\"'", "'")


def test_the_same_recording_gives_the_same_bytes_whatever_a_user_has_set(tmp_path):
    recording, first = page_of("out_of_core")
    with matplotlib.rc_context():
        matplotlib.rcParams.update({"font.size": 20, "axes.facecolor": "red"})
        before = dict(matplotlib.rcParams)
        write_page(tmp_path / "page.html", recording)
        assert dict(matplotlib.rcParams) == before
    assert (tmp_path / "page.html").read_text("utf-8") == first


def test_the_page_has_the_verdict_all_tables_and_charts_with_words():
    recording, page = page_of("out_of_core")
    parsed = Parsed(page)
    assert "python train.py --data data/products --epochs 3" in parsed.text_in("h1")
    for words in ("Bound by the disk", "graphzero tune DIR"):
        assert words in parsed.text_in("p")
    known = ("cpu", "system", "disk", "file_system", "torch")
    shown = [*(recording.environment[name] for name in known), *recording.options.values()]
    for value in ("16 GB", "4.0 GB", "major page faults", *shown):
        assert str(value) in parsed.text_in("td"), value
    for name, words in {
        "memory": ["anonymous", "mapped files", "page cache", "limit of the group", "GB"],
        "residency": ["features.gd, 14 GB, 17%"],
        "throughput": ["device, by anyone", "MB/s"],
        "epochs": ["sampling", "waiting for the disk", "gathering", "stall", "training"],
    }.items():
        assert all(word in figure(page, name).text_in("text") for word in words), name
    assert len(page) < 400_000


def test_what_is_unknown_is_said():
    for name in FIGURES:
        assert "unknown (" in figure(page_of("empty")[1], name).text_in("p")
    page = page_of("typed")[1]
    assert "1 further files are not shown" in figure(page, "residency").text_in("figcaption")
    assert "its parts are unknown" in page_of("only_rss")[1]


def test_without_matplotlib_the_error_says_how_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    path, how = tmp_path / "page.html", r"pip install graphzero\[report\]"
    with pytest.raises(ImportError, match=how):
        write_page(path, recordings.empty())
    with pytest.raises(ImportError, match=how), gz.Monitor(html=path):
        pytest.fail("the block was entered")
    with gz.Monitor(json=tmp_path / "run.json"):
        pass  # nothing else needs it
