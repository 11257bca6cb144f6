"""The scripts of examples/pyg as they run on PyG: with the lines that graphzero changes put back.

A comment ``# PyG: LINE`` stands before each of these lines, and says what the line was.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "pyg"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "graphs")
MARK = "# PyG: "


def changed_lines(name: str) -> list[tuple[str, str]]:
    """Pairs of the line on PyG and the line on graphzero."""
    lines = (FOLDER / f"{name}.py").read_text().splitlines()
    found = []
    for before, line in pairwise(lines):
        if before.strip().startswith(MARK):
            found.append((before.strip().removeprefix(MARK), line.strip()))
    return found


def on_pyg(name: str) -> str:
    """The text of a script with PyG's lines."""
    result: list[str] = []
    replaced = False
    for line in (FOLDER / f"{name}.py").read_text().splitlines():
        if line.strip().startswith(MARK):
            result.append(line.replace(MARK, "", 1))
            replaced = True
        elif replaced or line.startswith("from graphzero.pyg import"):
            replaced = False  # the line after the comment; ruff cuts imports with "as" in two
        else:
            result.append(line)
    text = "\n".join(result) + "\n"
    code = text.split('"""', 2)[2]
    assert "graphzero.pyg" not in code
    assert "from_data" not in code
    return text
