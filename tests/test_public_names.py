"""What autocompletion offers, and what keeps working beside it."""

from __future__ import annotations

import builtins
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import graphzero as gz

OF_02 = {"DataType", "convert_csv_to_gd", "convert_csv_to_gl"}


def test_a_star_import_hides_no_builtin_and_has_no_name_of_02(tmp_path: Path) -> None:
    assert {*gz.__all__, "open", "__version__"} <= set(dir(gz))
    assert not set(dir(gz)) & {"annotations", "importlib", "Any", "Path"}
    code = "from graphzero import *; print(*[name for name in dir() if name[:2] != '__'])"
    command = [sys.executable, "-c", code]
    # elsewhere than in the source tree, whose uncompiled package would be imported
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    imported = set(done.stdout.split())
    assert imported == set(gz.__all__)
    assert {"build", "Graph", "NeighborDataset"} <= imported
    assert not imported & (OF_02 | set(dir(builtins)))


BUILD = (
    "path edges features=None labels=None splits=None * nodes=None edge_splits=None "
    "weight_attrs=None time_attrs=None num_nodes=None ids='dense' directed=None "
    "neighbors='in' order='hot' presample=None src=None dst=None weight=None timestamp=None "
    "header='auto' delimiter='auto' edge_ids=False coalesce=False "
    "drop_self_loops=False reverse=False feature_dtype=None edge_attrs=None "
    "id_column=None memory_limit='2GB' progress=False"
)
REORDER = "path order='hot' * neighbors=None presample=None memory_limit='2GB' progress=False"


@pytest.mark.parametrize(("name", "expected"), [("build", BUILD), ("reorder", REORDER)])
def test_signatures_are_stable(name: str, expected: str) -> None:
    function = getattr(gz, name)
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in found:
            found.append("*")
        has_default = parameter.default is not inspect.Parameter.empty
        found.append(f"{parameter.name}={parameter.default!r}" if has_default else parameter.name)
    assert found == expected.split()
    assert (function.__module__, function.__qualname__) == ("graphzero.api", name)
    names = inspect.signature(function).parameters
    assert all(
        re.search(rf"^(.*, )?{name}(, .*)? : ", inspect.getdoc(function), re.M) for name in names
    )


def test_the_reference_has_public_names_only():
    text = (Path(__file__).parents[1] / "docs" / "reference.md").read_text()
    objects = re.findall(r"^::: graphzero\.([\w.]+)$((?:\n .*)*)", text, re.MULTILINE)
    assert {name for name, _ in objects} - {"graph.dataset.open_dataset"} == {*gz.__all__} - {
        "BFLOAT16"
    }
    for name, options in objects:
        for members in re.findall(r" members: \[(.*)\]", options):
            for member in members.split(", "):
                assert inspect.getdoc(getattr(getattr(gz, name), member)), (name, member)


def test_without_ray_only_its_module_is_missing(tmp_path: Path) -> None:
    script = (
        "import sys; sys.modules['ray'] = None; import graphzero; from graphzero import *\n"
        "try: import graphzero.ray\n"
        "except ImportError as error: print(error)"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == "graphzero.ray needs Ray: pip install 'graphzero[ray]'\n", done.stderr
