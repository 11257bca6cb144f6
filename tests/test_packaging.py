"""What a wheel, a source distribution and an installed package contain."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import pytest

import graphzero
from graphzero import _core

ROOT = Path(__file__).resolve().parents[1]
HEADERS = sorted(path.name for path in (ROOT / "include" / "graphzero").glob("*.h"))
PACKAGE = Path(graphzero.__file__).parent
OF_PYTHON = {"typing", "enum", "datetime"}


@pytest.mark.skipif("TOX_ENV_NAME" not in os.environ, reason="may be used in place outside tox")
def test_the_installed_package_is_tested() -> None:
    assert PACKAGE.is_relative_to(sysconfig.get_path("platlib"))
    assert not PACKAGE.is_relative_to(ROOT / "graphzero")


def test_headers_and_types_are_shipped() -> None:
    folder = Path(graphzero.get_include()) / "graphzero"
    assert sorted(path.name for path in folder.glob("*.h")) == HEADERS != []
    assert (PACKAGE / "py.typed").is_file()
    assert Path(_core.__file__).with_name("_core.pyi").is_file()


def test_headers_compile_on_their_own(tmp_path: Path) -> None:
    compiler = os.environ.get("CC", "cc").split()
    if shutil.which(compiler[0]) is None:
        pytest.skip("no C compiler")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
    for header in HEADERS:
        source = tmp_path / "one.c"
        source.write_text(f'#include "graphzero/{header}"\nint main(void) {{ return 0; }}\n')
        command = [*compiler, *flags, f"-I{graphzero.get_include()}", str(source)]
        assert subprocess.run(command).returncode == 0, header


def _copy_of_the_source(target: Path) -> None:
    left_over = ("*.so", "__pycache__", "*.egg-info", "build", "dist", "_core.c", ".[!c]*")
    shutil.copytree(ROOT, target, ignore=shutil.ignore_patterns(*left_over))


def test_a_source_distribution_has_every_file(tmp_path: Path) -> None:
    pytest.importorskip("Cython")
    source = tmp_path / "source"
    _copy_of_the_source(source)
    files = {str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()}
    command = [sys.executable, "setup.py", "-q", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        packed = {name.partition("/")[2] for name in tar.getnames()}
    assert files <= packed, sorted(files - packed)
    assert {"setup.py", "src/walk.c", "graphzero/core/csr.pxi"} <= packed
    assert {".clang-format", ".ci/run"} <= packed
    assert not any(name.endswith((".so", "_core.c")) for name in packed)


PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")  # as the README says
NEWER = {"Self", "Never", "Unpack", "LiteralString", "NotRequired", "Required", "assert_never"}
NEWER |= {"assert_type", "override", "TypeVarTuple", "dataclass_transform", "StrEnum", "UTC"}


def test_the_source_is_of_the_oldest_python() -> None:
    for path in sorted((ROOT / "graphzero").rglob("*.py")):
        tree = ast.parse(path.read_text(), feature_version=(3, 10))
        imports = [each for each in ast.walk(tree) if isinstance(each, ast.ImportFrom)]
        names = {n.name for each in imports for n in each.names if each.module in OF_PYTHON}
        assert not names & NEWER, path


@pytest.mark.parametrize("python", PYTHONS)
def test_every_python_has_one_version_of_each_constraint(python: str) -> None:
    requirements = pytest.importorskip("packaging.requirements")
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [requirements.Requirement(line) for line in lines if not line.startswith("#")]
    known = {"python_version": python}
    chosen = [pin.name for pin in pins if pin.marker is None or pin.marker.evaluate(known)]
    assert sorted(chosen) == sorted({pin.name for pin in pins})


@pytest.mark.extended
@pytest.mark.no_asan  # builds an extension without the sanitizers
def test_a_serial_build_has_no_warnings_and_the_same_results(tmp_path: Path) -> None:
    pytest.importorskip("Cython")
    source = tmp_path / "source"
    _copy_of_the_source(source)
    environment = {**os.environ, "GRAPHZERO_NO_OPENMP": "1", "GRAPHZERO_NO_URING": "1"}
    environment["GRAPHZERO_CFLAGS"] = "-O1 -Wall -Wextra -Werror -Wno-unused-parameter"
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    subprocess.run(command, cwd=source, env=environment, check=True, capture_output=True)
    built = next(source.glob("graphzero/_core*.so"))
    assert b"GOMP_parallel" not in built.read_bytes()
    assert b"built without io_uring" in built.read_bytes()
    assert b"GOMP_parallel" in Path(_core.__file__).read_bytes()
    command = [sys.executable, "-m", "pytest", "-q", "tests/test_weighted.py"]
    command += ["-k", "any_weights or do_not_change"]  # naive twins
    subprocess.run(command, cwd=source, check=True, capture_output=True)


def test_the_oldest_versions_are_those_that_are_tested() -> None:
    requirements = pytest.importorskip("packaging.requirements")
    tomllib = pytest.importorskip("tomllib")  # of Python 3.11
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [*project["optional-dependencies"]["report"]]
    lines = (ROOT / ".ci" / "oldest.txt").read_text().splitlines()
    tested = {line.partition("==")[0]: line.partition("==")[2] for line in lines}
    for line in [*project["dependencies"], *extras]:
        needed = requirements.Requirement(line)
        least = requirements.Requirement(f"{needed.name}=={tested[needed.name]}").specifier
        (bound,) = needed.specifier
        assert bound.operator == ">=", line
        assert least.contains(bound.version), (line, tested[needed.name])
