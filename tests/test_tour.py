"""The tour of the code names what exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


NAMED = re.compile(r"`([\w.]+)` in `([\w/.]+\.(?:py|c))`")


def _path_of(named: str) -> Path:
    """A path of the tour: below the package, or that of a C source."""
    return ROOT / named if named.startswith("src/") else ROOT / "graphzero" / named


def _defines(path: Path, name: str) -> bool:
    """Whether a file defines a function, a class, a method or a table of this name."""
    text = path.read_text()
    line = r"^\w[^;\n]*\b{}\b" if path.suffix == ".c" else r"^(?: *(?:def|class) )?{}\b(?!\.)"
    return all(re.search(line.format(part), text, re.M) for part in name.split("."))


def test_the_tour_is_short_and_names_what_exists() -> None:
    page = (ROOT / "docs" / "tour.md").read_text()
    assert len(page.split()) <= 600
    named = NAMED.findall(page)
    assert len(named) > 20
    assert len(set(named)) == len(named)
    assert [name for name in named if not _defines(_path_of(name[1]), name[0])] == []
    paths = re.findall(r"`((?:[\w]+/)*[\w]+\.(?:py|c))`", page)
    missing = [path for path in paths if not _path_of(path).exists()]
    assert [path for path in missing if not (ROOT / path).exists()] == []
