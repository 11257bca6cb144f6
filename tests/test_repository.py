"""What the files around the code promise each other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

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


def test_every_part_of_the_core_is_included_and_described() -> None:
    core = (ROOT / "graphzero" / "_core.pyx").read_text()
    included = re.findall(r'^include "core/(\w+)\.pxi"$', core, re.M)
    parts = sorted(path.stem for path in (ROOT / "graphzero" / "core").glob("*.pxi"))
    assert sorted(included) == parts
    section = (ROOT / "ARCHITECTURE.md").read_text().split("\n## Cython")[1].split("\n## ")[0]
    assert re.findall(r"^\| (\w+) \|", section, re.M)[1:] == included


def test_the_format_has_one_page_size_and_version() -> None:
    header = (ROOT / "include" / "graphzero" / "format.h").read_text()
    twin = (ROOT / "graphzero" / "format.py").read_text()
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


# Each row may import from itself and from the rows before it; ARCHITECTURE.md shows the same.
LEVELS = [
    {"errors", "atomic", "include_dir", "units", "pipeline", "metrics"},
    {"_core", "format"},
    {"filewriter", "time_check"},
    {"ids", "views", "mapped", "manifest", "residency", "kept"},
    {"sampling"},
    {"legacy"},
    {"graph", "features"},
    {"sampler", "dataset", "prefetch", "order", "resume", "packfile"},
    {
        "readahead",
        "world",
        "memory",
        "labelled",
        "limits",
        "io_plan",
        "resident",
        "topology_io",
        "presample",
        "misses",
    },
    {"batch", "interop", "row_io", "loader_memory"},
    {"seed_dataset"},
    {"loader"},
    {"links", "packed", "packing"},
    {"model", "evaluate", "demo"},
    {"train", "ingest", "api"},
    {"commands"},
    {"cli", "__main__"},
]
INGEST_MAY_IMPORT = {"atomic", "errors", "filewriter", "format", "manifest", "units", "ingest"}
ONLY_IN = {
    "torch": {"world", "batch", "seed_dataset", "loader", "model", "evaluate", "train"},
    "pyarrow": {"ingest"},
    "torch_geometric": {"interop"},
}


def _imports(path: Path) -> set[str]:
    """Modules that a file imports when it is imported; those inside functions wait."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _modules() -> dict[str, set[str]]:
    """What each module, or folder of modules, imports."""
    package = ROOT / "graphzero"
    found: dict[str, set[str]] = {}
    for path in package.rglob("*.py"):
        name = path.relative_to(package).parts[0].removesuffix(".py")
        if name != "__init__":
            found.setdefault(name, set()).update(_imports(path))
    return found


def test_modules_import_downwards_only() -> None:
    level_of = {name: i for i, names in enumerate(LEVELS) for name in names}
    modules = _modules()
    assert set(modules) | {"_core"} == set(level_of)
    for name, imported in modules.items():
        own = {part.split(".")[1] for part in imported if part.startswith("graphzero.")}
        for module in own - {name}:
            assert level_of[module] <= level_of[name], f"{name} imports {module}"
        if name == "ingest":
            assert own <= INGEST_MAY_IMPORT


def test_optional_packages_are_imported_where_they_belong() -> None:
    for name, imported in _modules().items():
        roots = {part.split(".")[0] for part in imported}
        for package, allowed in ONLY_IN.items():
            assert package not in roots or name in allowed, f"{name} imports {package}"
