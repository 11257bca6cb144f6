"""The house: which room may import which, that no imports make a circle, and how large it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import sizes

ROOT = sizes.ROOT
PACKAGE = ROOT / "graphzero"

# From bottom to top: each room may import itself and those before it, but for the exceptions below.
ROOMS = (
    "errors",
    "units",
    "openmp",
    "_core",
    "store",
    "ingest",
    "compat02",
    "graph",
    "sampling",
    "io",
    "loader",
    "packs",
    "api",
    "pyg",
    "report",
    "training",
    "ray",
    "commands",
    "cli",
    "__main__",
    "__init__",
)
LEAVES = {"errors", "units", "_core"}
NARROW = {"ingest": {"errors", "units", "_core", "store"}}
# What a mini-batch imports on its way up imports no room itself, so that no circle comes of it.
NARROW_MODULES: dict[str, set[str]] = {"pyg.data": LEAVES}
# (importing module, imported one): the way up that mini-batches have to PyG's types, `to_pyg`.
REGISTERED = {("loader.mini_batch", "pyg.data")}
ONLY_IN = {
    "torch": {"loader", "pyg", "training", "ray", "ingest.sources.torch_file"},
    "pyarrow": {"ingest"},
    "torch_geometric": {"pyg"},
    "lightning": {"pyg"},
    "pytorch_lightning": {"pyg"},
    "matplotlib": {"report.page"},
    "ray": {"ray"},
}

Imports = Mapping[str, set[str]]


def _module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)


def _imports(path: Path) -> set[str]:
    """All that a file imports, inside functions and for type checkers as well."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} has a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            # `__init__` names the modules that it imports at first use
            names |= {node.value} if re.fullmatch(r"graphzero(\.\w+)+", node.value) else set()
    return names


def _modules() -> dict[str, set[str]]:
    return {_module_name(path): _imports(path) for path in sorted(PACKAGE.rglob("*.py"))}


def _own_imports(modules: Imports) -> dict[str, set[str]]:
    """Of these, the modules of the package, as `_modules` names them."""
    known = {*modules, "_core"}
    found: dict[str, set[str]] = {}
    for name, imported in modules.items():
        found[name] = set()
        for full in imported:
            if not full.startswith("graphzero."):
                continue
            parts = full.split(".")[1:]
            prefixes = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
            target = next((prefix for prefix in prefixes if prefix in known), None)
            if target is not None:
                found[name].add(target)
    return found


def _room(module: str) -> str:
    return module.split(".")[0]


def _forbidden(own: Imports) -> list[str]:
    """Imports between rooms that are not allowed."""
    level = {room: i for i, room in enumerate(ROOMS)}
    found = []
    for name, imported in own.items():
        for target in sorted(imported):
            here, there = _room(name), _room(target)
            narrow = NARROW_MODULES.get(name, NARROW.get(here, set(ROOMS)))
            allowed = level[there] < level[here] and there in narrow
            if here != there and not allowed and (name, target) not in REGISTERED:
                found.append(f"{name} imports {target}")
    return found


def _circle(edges: Imports) -> list[str] | None:
    try:
        tuple(TopologicalSorter(edges).static_order())
    except CycleError as error:
        return list(error.args[1])
    return None


def _between_rooms(own: Imports) -> dict[str, set[str]]:
    rooms: dict[str, set[str]] = {}
    for name, imported in own.items():
        targets = {_room(t) for t in imported if (name, t) not in REGISTERED}
        rooms.setdefault(_room(name), set()).update(targets - {_room(name)})
    return rooms


def test_every_module_stands_in_a_room() -> None:
    assert {_room(name) for name in _modules()} | {"_core"} == set(ROOMS)


def test_rooms_import_only_from_those_before_them() -> None:
    assert _forbidden(_own_imports(_modules())) == []


def test_no_imports_make_a_circle() -> None:
    own = _own_imports(_modules())
    assert _circle(own) is None
    assert _circle(_between_rooms(own)) is None


def _within(module: str) -> set[str]:
    """A module, and the packages in which it is."""
    parts = module.split(".")
    return {".".join(parts[:length]) for length in range(1, len(parts) + 1)}


def test_optional_packages_are_imported_where_they_belong() -> None:
    for name, imported in _modules().items():
        roots = {full.split(".")[0] for full in imported}
        for package, rooms in ONLY_IN.items():
            assert package not in roots or _within(name) & rooms, f"{name} imports {package}"


@pytest.mark.extended
def test_no_size_grows_beyond_its_limit() -> None:
    pytest.importorskip("pygount")
    table = sizes.sizes()
    assert min(size.value for size in table) > 1000
    assert [f"{size.what}: {size.value} > {size.most}" for size in table if not size.holds] == []
