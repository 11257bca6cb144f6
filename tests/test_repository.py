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


PATH_IN_PAGE = re.compile(r"`([\w<>./-]+\.(?:py|pyx|pxi|pyi|pxd|c|h|md|json|toml))`")
CHANGES = ["strategy", "kind of sampling", "source of edges", "field of the batch", "section"]


def _traces(page: str) -> dict[str, list[str]]:
    """The files outside tests and pages that each trace touches, by the trace's heading."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^##+ ", page, flags=re.M)[1:]:
        heading, _, text = part.partition("\n")
        steps = re.findall(r"^\d+\. .*", text, re.M)
        files = {path for step in steps for path in PATH_IN_PAGE.findall(step.split(":")[0])}
        assert len(files) == len(steps), f"{heading}: not one file for each step"
        found[heading] = sorted(
            path
            for path in files
            if not path.startswith(("tests/", "docs/")) and path != "README.md"
        )
    return found


def _paths_that_lead_nowhere(page: str) -> list[str]:
    """Paths of a page without a file; of a new file, in angle brackets, only the folder exists."""
    paths = [ROOT / path for path in PATH_IN_PAGE.findall(page)]
    needed = [path.parent if "<" in path.name else path for path in paths]
    return [str(path.relative_to(ROOT)) for path in needed if not path.exists()]


def test_the_five_changes_touch_at_most_four_files_that_exist() -> None:
    page = (ROOT / "docs" / "changing.md").read_text()
    headings = re.findall(r"^## (.*)$", page, re.M)
    assert len(headings) == len(CHANGES)
    assert all(change in heading for change, heading in zip(CHANGES, headings, strict=True))
    traces = {heading: files for heading, files in _traces(page).items() if files}
    assert len(traces) == 7  # two changes have two traces each
    assert max(map(len, traces.values())) == 4
    assert _paths_that_lead_nowhere(page) == []


def test_a_trace_of_five_files_and_a_path_that_is_gone_are_found() -> None:
    steps = [f"{i}. `src/<new{i}>.c`: a line." for i in range(1, 6)]
    page = "# Top\n## One\n" + "\n".join(steps) + "\n## Two\n1. `src/csr.c`: a line.\n"
    assert {heading: len(files) for heading, files in _traces(page).items()} == {"One": 5, "Two": 1}
    assert _paths_that_lead_nowhere(page) == []
    assert _paths_that_lead_nowhere("`src/gone.c` `gone/<new>.h` `src/csr.c`") == [
        "src/gone.c",
        "gone",
    ]
    with pytest.raises(AssertionError, match="One: not one file"):
        _traces("## One\n1. `src/csr.c` and `src/rng.c`: two files.\n")
