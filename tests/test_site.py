"""The site: built without a warning, which a dead link would be."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import graphzero as gz

pytest.importorskip("mkdocs")
pytest.importorskip("mkdocstrings")
ROOT = Path(__file__).resolve().parents[1]
pytestmark = [pytest.mark.extended, pytest.mark.no_asan]


def test_the_site_has_every_page_and_no_dead_link(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1", "GITHUB_REPOSITORY": "us/graphzero"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr  # of which dead links are one
    names = {path.stem for path in tmp_path.rglob("*.html")}
    assert {path.stem for path in (ROOT / "docs").glob("*.md")} | {"index", "changes"} <= names
    pages = {name: (tmp_path / f"{name}.html").read_text() for name in ("index", "reference")}
    header = re.findall("<header.*?</header>", pages["index"], re.DOTALL)[0]
    assert f"graphzero {gz.__version__}" in header
    assert "https://github.com/us/graphzero" in header
    assert "api.github.com" not in pages["index"]
    assert 'data-md-component="source"' not in pages["index"]  # it would ask that for stars
    assert not re.findall(r">[\w-]+\.md</a>", pages["index"])  # titles, and no names of files
