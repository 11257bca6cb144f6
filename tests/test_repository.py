"""What the files around the code promise each other."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEST_COMMAND = "python3 -m venv .venv && .venv/bin/pip install tox && .venv/bin/tox"


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert TEST_COMMAND in (ROOT / "README.md").read_text()
    assert TEST_COMMAND in (ROOT / ".ci" / "run").read_text().splitlines()
    assert ".venv/bin/tox -e extended" in (ROOT / ".ci" / "run").read_text().splitlines()
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_every_part_of_the_core_is_included_and_described() -> None:
    core = (ROOT / "graphzero" / "_core.pyx").read_text()
    included = re.findall(r'^include "core/(\w+)\.pxi"$', core, re.M)
    parts = sorted(path.stem for path in (ROOT / "graphzero" / "core").glob("*.pxi"))
    assert sorted(included) == parts
    section = (ROOT / "ARCHITECTURE.md").read_text().split("\n## Cython")[1].split("\n## ")[0]
    assert re.findall(r"^\| (\w+) \|", section, re.M)[1:] == included


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


def test_files_that_run_elsewhere_exist() -> None:
    import conftest

    for name in f"{conftest.EXTENDED} {conftest.CORE}".split():
        assert (ROOT / "tests" / f"test_{name}.py").is_file(), name
