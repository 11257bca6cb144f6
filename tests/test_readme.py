"""The code of the README, docs/typed.md and links.md, run as printed; links and pictures."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import files
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def python_blocks(page):
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.filterwarnings("ignore")
def test_the_python_of_the_readme_runs_as_printed(tmp_path):
    rng = np.random.default_rng(0)
    edges = files.random_edges(100, 800)
    lines = "".join(f"{source},{target}\n" for source, target in edges.tolist())
    (tmp_path / "edges.csv").write_text("src,dst\n" + lines)
    np.save(tmp_path / "features.npy", rng.standard_normal((100, 6)).astype(np.float32))
    np.save(tmp_path / "labels.npy", rng.integers(0, 3, 100))
    for name in ("train", "val", "test"):
        np.save(tmp_path / f"{name}_idx.npy", rng.permutation(100)[:30])
    (block,) = python_blocks(README)
    script = tmp_path / "script.py"
    script.write_text(f"{block}\nprint('loss', float(loss))")
    command = [sys.executable, str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert "loss" in done.stdout


@pytest.mark.no_asan  # minutes of training: what it uses is sanitized by the tests of its own
@pytest.mark.filterwarnings("ignore")
def test_the_code_of_the_page_of_typed_graphs_runs(tmp_path, monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    monkeypatch.chdir(tmp_path)
    blocks, names = python_blocks(ROOT / "docs" / "typed.md"), {}
    assert len(blocks) == 8
    for number, block in enumerate(blocks):
        exec(compile(block, f"block {number} of typed.md", "exec"), names)
        if "loss =" in block:
            assert torch.isfinite(names.pop("loss"))
    assert "['paper', 'author']" in capsys.readouterr().out
    assert len(names["loader"].dataset) == len(names["weighted"].dataset) == 400
    assert len(names["links"].dataset) == 2500
    drawn = next(iter(names["timed"]))["paper", "cites", "paper"]
    assert drawn.num_edges > 0  # the page's check of years is one of edges


@pytest.mark.no_asan
@pytest.mark.filterwarnings("ignore")
def test_the_code_of_the_page_of_links_runs(tmp_path, monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    rng, groups = np.random.default_rng(0), 6  # whose nodes are linked to each other only
    source = rng.integers(0, 600, 20_000)
    target = rng.integers(0, 100, source.size) * groups + source % groups
    pairs = "".join(f"{one},{other}\n" for one, other in zip(source, target, strict=True))
    (tmp_path / "edges.csv").write_text("src,dst\n" + pairs)
    np.save(tmp_path / "features.npy", np.eye(groups, dtype=np.float32)[np.arange(600) % groups])
    torch.manual_seed(0)
    names: dict[str, object] = {}
    for number, block in enumerate(python_blocks(ROOT / "docs" / "links.md")):
        exec(compile(block, f"block {number} of links.md", "exec"), names)
    shown = capsys.readouterr().out
    assert float(re.search(r"right about ([\d.]+)", shown)[1]) > 0.7
    assert float(re.search(r"MRR ([\d.]+)", shown)[1]) > 0.018


def prose_of(page):
    """The text outside code blocks."""
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def anchors_of(page):
    """Of the headings, as GitHub makes them."""
    anchors = []
    for heading in re.findall(r"^#+ (.*)$", prose_of(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        same = anchors.count(anchor)
        anchors.append(f"{anchor}-{same}" if same else anchor)
    return anchors


def broken_links(page):
    """Relative links and pictures of a page that lead nowhere."""
    broken = []
    text = re.sub(r"`[^`\n]*`", "", prose_of(page))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_the_pages_lead_somewhere(page):
    assert broken_links(page) == []


def test_the_readme_is_short_and_leads_to_every_page():
    text = README.read_text()
    assert len(text.splitlines()) <= 120
    text += (ROOT / "CONTRIBUTING.md").read_text()
    for page in ROOT.glob("docs/*.md"):
        assert f"docs/{page.name}" in text


def test_pictures_show_what_the_tables_of_the_benchmarks_say(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys, "path", [*sys.path])  # which the script adds to
    draw = runpy.run_path(str(ROOT / ".ci" / "pictures.py"))["draw_measured"]
    draw(tmp_path)
    drawn = sorted(tmp_path.glob("*.svg"))
    assert len(drawn) == 5
    for picture in drawn:
        texts = [re.findall(r"<text[^>]*>([^<]*)", each.read_text()) for each in
                 (picture, ROOT / "docs" / "pictures" / picture.name)]  # fmt: skip
        assert texts[0] == texts[1] != []  # else: python .ci/pictures.py


def test_commands_of_the_readme_fit_on_a_phone():
    commands = re.findall(r"```bash\n(.*?)```", README.read_text(), re.DOTALL)
    assert commands[0].endswith("graphzero demo\n")
    assert commands[-1].endswith("tox\n")
    assert max(map(len, commands[0].splitlines())) <= 48  # characters on 400 pixels
