"""The page of a recording as text: what it says, that it is whole, and asks for nothing."""

from __future__ import annotations

import base64
import dataclasses
import functools
import hashlib
import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import recordings

pytest.importorskip("matplotlib")

import matplotlib

from graphzero.report.page import series
from graphzero.report.page.html import plain
from graphzero.report.page.page import page_text, write_page
from graphzero.report.page.residency_chart import parts_of
from graphzero.report.recording import ENDED, ProcessReading, Reading, Recording
from graphzero.report.recording_file import from_json

pytestmark = pytest.mark.no_asan  # pure Python

NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
LEADS_ELSEWHERE = {"src", "href", "xlink:href", "action", "data", "poster", "srcset", "formaction"}
FIGURES = ("memory", "residency", "throughput", "epochs")


class Parsed(HTMLParser):
    """The elements of a page, with their attributes, and the text in each kind of element."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.texts.append((self._open[-1] if self._open else "", data))

    def of(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def text_in(self, *tags: str) -> str:
        return " ".join(text for tag, text in self.texts if tag in tags)


def written(recording: Recording, folder: Path) -> str:
    write_page(recording, folder / "page.html")
    return (folder / "page.html").read_text("utf-8")


def figure(page: str, name: str) -> str:
    (found,) = re.findall(rf'<figure id="{name}".*?</figure>', page, re.S)
    return found


def data_of(page: str) -> Recording:
    (found,) = re.findall(r'<script type="application/json" id="recording">(.*?)</script>', page)
    return from_json(found)


@functools.cache
def page_of(name: str) -> tuple[Recording, str]:
    """One of the recordings and its page; made once, as drawing takes a while."""
    recording = recordings.RECORDINGS[name]()
    return recording, page_text(recording)


@pytest.fixture(params=recordings.RECORDINGS)
def each(request: pytest.FixtureRequest) -> tuple[Recording, str]:
    """Each recording and its page."""
    return page_of(request.param)


def _asked_for(page: str) -> set[str]:
    """What a page would load, or where it leads."""
    parsed = Parsed(page)
    found = {
        value
        for _, attributes in parsed.elements
        for name, value in attributes.items()
        if name in LEADS_ELSEWHERE
    }
    styles = [*re.findall(r"<style>(.*?)</style>", page, re.S)]
    styles += [a[name] for _, a in parsed.elements for name in ("style", "clip-path") if name in a]
    for style in styles:
        found |= set(re.findall(r"url\(\s*['\"]?([^)'\"]*)", style))
        found |= set(re.findall(r"@import[^;]*", style))
    declared = {v for _, a in parsed.elements for n, v in a.items() if n.startswith("xmlns")}
    return found | (declared - NAMESPACES)


def test_a_page_asks_for_nothing_and_its_policy_says_so(each: tuple[Recording, str]) -> None:
    page = each[1]
    assert all(target.startswith("#") for target in _asked_for(page))
    script = re.findall(r"<script>(.*?)</script>", page, re.S)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    (policy,) = (m["content"] for m in Parsed(page).of("meta") if "http-equiv" in m)
    assert policy == (
        f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
        "base-uri 'none'; form-action 'none'"
    )
    before = page[: page.index("Content-Security-Policy")]
    assert "<style" not in before
    assert "<script" not in before


@pytest.mark.parametrize(
    "part",
    [
        '<img src="https://example.org/x.png">',
        '<svg><use xlink:href="//example.org/x.svg"/></svg>',
        "<style>@import 'x.css';</style>",
        '<p style="background: url(http://example.org/x)">',
        '<link rel="stylesheet" href="page.css">',
    ],
)
def test_what_leads_elsewhere_would_be_found(part: str) -> None:
    assert not all(target.startswith("#") for target in _asked_for(part))


def test_ids_are_unique_and_what_refers_to_them_finds_them(each: tuple[Recording, str]) -> None:
    parsed = Parsed(each[1])
    ids = [attributes["id"] for _, attributes in parsed.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    referred = {target.removeprefix("#") for target in _asked_for(each[1])}
    assert referred <= set(ids)


def test_the_page_holds_the_whole_recording(each: tuple[Recording, str]) -> None:
    assert data_of(each[1]) == each[0]
    data = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', each[1], re.S)
    assert len(data) == 2
    assert not set("".join(data)) & set("<>&")  # not even a comment or an element can begin


def test_every_chart_is_drawn_or_says_why_not(each: tuple[Recording, str]) -> None:
    for name in FIGURES:
        part = figure(each[1], name)
        assert (part.count("<svg") == 2) != ("unknown (" in Parsed(part).text_in("p")), name


def test_texts_are_escaped() -> None:
    page = page_of("hostile")[1]
    harmless = page_of("out_of_core")[1]
    parsed = Parsed(page)
    kinds = {tag for tag, _ in parsed.elements}
    assert kinds <= {tag for tag, _ in Parsed(harmless).elements}
    assert len(parsed.of("script")) == 3
    assert not any(name.startswith("on") for _, a in parsed.elements for name in a)
    shown = plain(recordings.HOSTILE)
    assert shown.isprintable()
    assert shown in parsed.text_in("h1").replace("'\"'\"'", "'")
    for tag in ("td", "p", "figcaption", "code"):
        assert shown in parsed.text_in(tag), tag


def test_the_same_recording_gives_the_same_bytes_whatever_the_style(tmp_path: Path) -> None:
    recording, first = page_of("typed")
    with matplotlib.rc_context():
        matplotlib.rcParams.update(
            {"font.size": 20, "axes.facecolor": "red", "svg.fonttype": "path", "lines.linewidth": 9}
        )
        before = dict(matplotlib.rcParams)
        second = written(recording, tmp_path)
        assert dict(matplotlib.rcParams) == before
    assert first == second


def test_charts_are_vectors_with_text_in_the_font_of_the_page() -> None:
    page = page_of("out_of_core")[1]
    assert not Parsed(page).of("image")
    assert not re.search(r' d="[^"]*\.\d{3}', page)  # digits that nobody sees
    assert "DejaVu Sans" not in "".join(figure(page, name) for name in FIGURES)
    for name, words in {
        "memory": ["anonymous", "mapped files", "page cache", "limit of the group", "GB"],
        "residency": ["features.gd", "14 GB, 17% in memory"],
        "throughput": ["the disk's own rate", "MB/s"],
        "epochs": ["sampling", "waiting for the disk", "gathering rows", "stall", "training"],
    }.items():
        shown = Parsed(figure(page, name)).text_in("text")
        assert all(word in shown for word in words), name
    assert len(re.sub(r"<script.*?</script>", "", page, flags=re.S)) < 400_000


def test_the_top_has_the_verdict_and_the_key_figures() -> None:
    parsed = Parsed(page_of("out_of_core")[1])
    assert "python train.py --data data/products --epochs 3" in parsed.text_in("h1")
    assert "2026-03-02 08:15:30 UTC" in parsed.text_in("p")
    assert "Bound by the disk" in parsed.text_in("p")
    assert "graphzero tune DIR" in parsed.text_in("code")
    names = [text for tag, text in parsed.texts if tag == "dt"]
    assert names == [
        "peak anonymous memory",
        "peak page cache",
        "read amplification",
        "mini-batches a second",
        "stall",
        "major faults",
        "refaults",
    ]


def test_everything_that_a_reader_needs_is_in_the_tables() -> None:
    recording, page = page_of("out_of_core")
    cells = Parsed(page).text_in("td")
    environment = recording.environment
    for value in (
        *(environment.cpu, environment.system, environment.disk, environment.file_system),
        *(environment.mount_options, "620 MB/s", "solid state", "131 kB", "16 GB", "4.0 GB"),
        *(file.path.rpartition("/")[2] for file in recording.files),
        *recording.options.items(),
        *environment.versions.items(),
        *("2 s (median of 600)", "0.24% of a core", "worker 3 (4004)"),
    ):
        for text in value if isinstance(value, tuple) else (value,):
            assert str(text) in cells, text


def test_what_is_unknown_is_said_with_its_reason() -> None:
    page = page_of("without_figures")[1]
    for name in ("memory", "residency", "throughput"):
        assert "unknown (this system does not tell it)" in figure(page, name)
    assert "unknown (no mini-batches were seen)" in figure(page, "epochs")
    values = [text for tag, text in Parsed(page).texts if tag == "dd"]
    assert sum("unknown (" in text for text in values) == 7
    assert not re.search(r"\b0(\.0)? (bytes|kB|MB)\b", Parsed(page).text_in("dd", "td", "text"))

    page = page_of("typed")[1]
    assert "unknown (the file belongs to another user)" in figure(page, "residency")
    caption = Parsed(figure(page, "memory")).text_in("figcaption")
    assert "It lacks 1 of 12 files: unknown (the file belongs to another user)" in caption
    assert "The memory group has no limit." in caption
    assert "unknown (the dataset is on an overlay of several devices)" in figure(page, "throughput")

    page = page_of("only_rss")[1]
    assert "its parts are unknown" in figure(page, "memory")
    assert "unknown (psutil tells only the sum)" in Parsed(page).text_in("dd")

    page = page_of("one_reading")[1]
    assert "(too short for a timeline). At its end: anonymous 300 MB" in figure(page, "memory")


def test_a_limit_far_above_is_told_and_not_drawn(tmp_path: Path) -> None:
    recording, page = page_of("out_of_core")
    assert "memory-wide-series-limit" in page
    readings = tuple(
        dataclasses.replace(r, group=dataclasses.replace(r.group, limit=64 * recordings.GB))
        for r in recording.readings
        if r.group is not None
    )
    page = written(dataclasses.replace(recording, readings=readings), tmp_path)
    assert "memory-wide-series-limit" not in page
    assert "The limit of the memory group, 64 GB, is far above." in page


def test_the_hot_prefix_is_seen_in_the_strip_of_its_file() -> None:
    part = figure(page_of("out_of_core")[1], "residency")
    wide = part[part.index("<svg") : part.index("</svg>")]
    strip = re.search(r'id="residency-wide-strip-0">\s*<path d="M ([\d.]+) \S+\s+L ([\d.]+) ', wide)
    marks = re.search(r'id="residency-wide-parts-0">(.*?)</g>', wide, re.S)
    assert strip is not None
    assert marks is not None
    first = re.search(r'<path d="M ([\d.]+) \S+\s+L ([\d.]+) .*?fill: (#\w+)', marks[1], re.S)
    assert first is not None
    begin, end, left, right = (float(x) for x in (*first.group(1, 2), *strip.group(1, 2)))
    assert first[3] == "#00304d"
    assert begin == pytest.approx(left, abs=0.1)
    assert (end - begin) / (right - left) == pytest.approx(74 / 512, abs=0.005)


def test_small_files_stand_in_the_table_only_where_there_are_too_many(tmp_path: Path) -> None:
    recording = recordings.typed()
    files = tuple(
        dataclasses.replace(recording.files[0], path=f"data/mag/{n}.gd", size=10**6 + n)
        for n in range(40)
    )
    page = written(dataclasses.replace(recording, files=files), tmp_path)
    part = figure(page, "residency")
    assert "16 smaller files (16 MB) are in the table" in part
    assert Parsed(part[: part.index("</svg>")]).text_in("text").count(".gd") == 24
    assert all(f"<td>{n}.gd</td>" in page for n in range(40))


def test_names_of_files_are_no_formulas(tmp_path: Path) -> None:
    names = ("$\\frac$.gd", "a$b_1$c.gd", "\u6f22\u5b57.gd", "<b>&amp;.gd")
    recording = recordings.in_memory()
    files = tuple(
        dataclasses.replace(
            recording.files[0], path=f"data/{name}", residency=None if n else (1.0,)
        )
        for n, name in enumerate(names)
    )
    recording = dataclasses.replace(recording, files=files, unknown={"residency": "$\\sqrt$"})
    part = figure(written(recording, tmp_path), "residency")
    shown = [text for tag, text in Parsed(part).texts if tag == "text"]
    for name in names:
        assert shown.count(name) == 2
    assert shown.count("unknown ($\\sqrt$)") == 2 * 3


@pytest.mark.parametrize("count", [1, 7, 128, 256, 300])
def test_parts_are_means_of_those_that_they_hold(count: int) -> None:
    shares = [1.0] * 40 + [0.0] * 100 + [0.25] * 160
    parts = parts_of(shares, count)
    assert len(parts) == min(count, 300)
    assert sum(parts) / len(parts) == pytest.approx(sum(shares) / len(shares))
    assert all(0 <= part <= 1 for part in parts)


def _reading(at: float, *processes: ProcessReading) -> Reading:
    return Reading(at, processes)


def test_memory_is_counted_as_exactly_as_it_is_told() -> None:
    full = {"anonymous": 6, "file": 3, "shared": 1, "rss": 10}
    shares = {"pss_anonymous": 6, "pss_file": 1, "pss_shared": 0, "pss": 7}
    ended = ProcessReading(ENDED, "ended")
    complete = [ProcessReading(pid, "p", **full, **shares) for pid in (1, 2)]
    quick = [ProcessReading(pid, "p", **full) for pid in (1, 2)]
    sums = [ProcessReading(pid, "p", rss=10) for pid in (1, 2)]

    def parts(*readings: Reading) -> series.MemoryParts | None:
        return series.memory_parts(Recording((), "", 9.0, readings=readings))

    some = [*(_reading(at, *complete, ended) for at in (0, 2, 3, 4)), _reading(5, *quick)]
    assert parts(*some) == series.MemoryParts(
        (0, 2, 3, 4), {"anonymous": (12,) * 4, "file": (2,) * 4, "shared": (0,) * 4}, shares=True
    )
    found = parts(_reading(0, *complete), _reading(1, *quick), _reading(2, *quick))
    assert found is not None
    assert (found.seconds, found.shares, found.most) == ((0, 1, 2), False, 20)
    found = parts(_reading(0, complete[0]), _reading(1, quick[0]), _reading(2, quick[0], ended))
    assert found is not None
    assert (found.seconds, found.shares, found.alone) == ((0, 1, 2), False, True)
    found = parts(_reading(0, *sums), _reading(1, *quick), _reading(2))
    assert found == series.MemoryParts((0, 1), {"resident": (20, 20)}, shares=False)
    assert parts(_reading(0), _reading(1, ended)) is None


def test_thinning_keeps_peaks_and_ends() -> None:
    weights = [1.0] * 10_000
    weights[7_003] = 5.0
    chosen = series.thinned(weights, 100)
    assert len(chosen) == 100
    assert chosen == sorted(set(chosen))
    assert {0, 7_003, 9_999} <= set(chosen)
    assert series.thinned(weights[:50], 100) == list(range(50))


def test_rates_give_all_bytes_and_never_fall_below_zero() -> None:
    seconds = tuple(0.5 * i for i in range(1001))
    counter = series.Series(seconds, tuple(float(i * i) for i in range(1001)))
    for most in (1, 7, 300, 5000):
        rates = series.rates(counter, most)
        lengths = [b - a for a, b in zip(rates.edges, rates.edges[1:], strict=False)]
        read = sum(r * length for r, length in zip(rates.values, lengths, strict=True))
        assert len(rates.values) <= most
        assert read == pytest.approx(1_000_000)
    fallen = series.rates(series.Series((0.0, 1.0, 1.0, 2.0), (5.0, 9.0, 9.0, 4.0)), 10)
    assert fallen == series.Rates((0.0, 1.0, 2.0), (4.0, 0.0))
    assert series.rates(series.Series((0.0,), (5.0,)), 10) == series.Rates()


def test_a_folder_that_is_missing_is_an_error_and_a_page_is_replaced(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        write_page(recordings.empty(), tmp_path / "nowhere" / "page.html")
    assert written(recordings.in_memory(), tmp_path) != written(recordings.empty(), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_values_for_the_pointer_are_json() -> None:
    page = page_of("out_of_core")[1]
    (text,) = re.findall(r'<script type="application/json" id="charts">(.*?)</script>', page)
    charts = json.loads(html.unescape(text))
    assert charts.keys() == {"memory", "throughput"}
    for chart in charts.values():
        assert all(len(column) == len(chart["moments"]) for column in chart["columns"].values())
        assert 100 < len(chart["moments"]) <= 300
