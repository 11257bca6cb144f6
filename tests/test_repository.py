"""What the files around the code promise each other."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEST_COMMAND = "python3 -m venv .venv && .venv/bin/pip install tox && .venv/bin/tox"


def test_ci_runs_the_test_command_of_the_readme() -> None:
    assert TEST_COMMAND in (ROOT / "README.md").read_text()
    assert TEST_COMMAND in (ROOT / ".ci" / "run").read_text().splitlines()
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_every_c_source_has_its_header_and_its_tests() -> None:
    sources = {path.stem for path in (ROOT / "src").glob("*.c")}
    headers = {path.stem for path in (ROOT / "include" / "graphzero").glob("*.h")}
    tests = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "c").glob("test_*.c")}
    assert sources
    assert sources <= headers
    assert sources <= tests


def test_every_c_test_is_run() -> None:
    for path in (ROOT / "tests" / "c").glob("test_*.c"):
        text = path.read_text()
        defined = set(re.findall(r"^static void (\w+)\(void\)\n{", text, re.M))
        run = set(re.findall(r"RUN\((\w+)\)", text))
        helpers = {name for name in defined if len(re.findall(rf"\b{name}\(", text)) > 1}
        assert run == defined - helpers, path.name
        assert f"{path.stem}();" in (ROOT / "tests" / "c" / "main.c").read_text()


def _c_includes() -> dict[str, set[str]]:
    """What each C file includes of the others; a source and its header are one node."""
    found: dict[str, set[str]] = {}
    for path in [*(ROOT / "src").glob("*.c"), *(ROOT / "include" / "graphzero").glob("*.h")]:
        included = re.findall(r'^#include "graphzero/(\w+)\.h"$', path.read_text(), re.M)
        found.setdefault(path.stem, set()).update(set(included) - {path.stem})
    return found


def test_no_c_includes_make_a_circle() -> None:
    includes = _c_includes()
    assert len(includes) > 20
    assert any(includes.values())
    tuple(TopologicalSorter(includes).static_order())  # raises CycleError, which names the circle


def test_a_circle_of_a_source_and_a_header_is_found() -> None:
    includes = _c_includes()
    includes["batch_state"].add("batch")
    with pytest.raises(CycleError):
        tuple(TopologicalSorter(includes).static_order())


def test_every_part_of_the_core_is_included_and_described() -> None:
    core = (ROOT / "graphzero" / "_core.pyx").read_text()
    included = re.findall(r'^include "core/(\w+)\.pxi"$', core, re.M)
    parts = sorted(path.stem for path in (ROOT / "graphzero" / "core").glob("*.pxi"))
    assert sorted(included) == parts
    section = (ROOT / "ARCHITECTURE.md").read_text().split("\n## Cython")[1].split("\n## ")[0]
    assert re.findall(r"^\| (\w+) \|", section, re.M)[1:] == included


def test_the_format_has_one_page_size_and_version() -> None:
    header = (ROOT / "include" / "graphzero" / "format.h").read_text()
    twin = (ROOT / "graphzero" / "store" / "format.py").read_text()
    for c_name, name in [
        ("GZ_FORMAT_VERSION", "VERSION"),
        ("GZ_PAGE_BYTES", "PAGE_BYTES"),
        ("GZ_MAX_SECTIONS", "MAX_SECTIONS"),
        ("GZ_NAME_BYTES", "NAME_BYTES"),
    ]:
        c_value = re.search(rf"#define {c_name} (\d+)u", header)
        value = re.search(rf"^{name} = (\d+)$", twin, re.M)
        assert c_value is not None
        assert value is not None
        assert c_value[1] == value[1]
