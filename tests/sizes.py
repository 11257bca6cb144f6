"""The sizes that the house is to keep: ``python -m tests.sizes`` prints them beside their limits.

Lines are code lines as pygount counts them: without comments, docstrings and blank lines. Recorded
data does not count.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

MODULES_OF_A_CSV = 21
MODULES_OF_A_BATCH = 23


@dataclass(frozen=True)
class Size:
    """One figure, and the most that it may be."""

    what: str
    value: int
    most: int

    @property
    def holds(self) -> bool:
        return self.value <= self.most


def code_lines(paths: Iterator[Path]) -> int:
    """Code lines of some files."""
    from pygount import SourceAnalysis

    return sum(SourceAnalysis.from_file(str(path), "graphzero").code_count for path in paths)


def _python(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def _compiled() -> list[Path]:
    core = [p for p in (ROOT / "graphzero").rglob("*") if p.suffix in (".pyx", ".pxi", ".pxd")]
    return sorted([*core, *(ROOT / "src").glob("*.c"), *(ROOT / "include").rglob("*.h")])


def _tests() -> list[Path]:
    return sorted(p for p in (ROOT / "tests").rglob("*") if p.suffix in (".py", ".c", ".h"))


def _pages() -> list[Path]:
    named = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")]
    return [*named, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def sizes() -> list[Size]:
    """Every figure of the table."""
    python = _python("graphzero")
    words = sum(len(page.read_text().split()) for page in _pages())
    return [
        Size("Python in graphzero/", code_lines(iter(python)), 20_700),
        Size("files of graphzero/", len(python), 129),
        Size("Cython and C", code_lines(iter(_compiled())), 7_105),
        Size("tests/", code_lines(iter(_tests())), 24_600),
        Size("benchmarks/", code_lines(iter(_python("benchmarks"))), 3_470),
        Size("files of benchmarks/", len(_python("benchmarks")), 19),
        Size("words of README, ARCHITECTURE, CHANGELOG, CONTRIBUTING and docs/", words, 34_300),
    ]


def modules_entered(work: Callable[[], Any]) -> set[str]:
    """Modules of graphzero in which a function is called in this thread while `work` runs.

    It runs twice, so that what imports call does not count.
    """
    work()
    entered: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        name = str(frame.f_globals.get("__name__", ""))
        if event == "call" and name.startswith("graphzero.") and frame.f_code.co_name != "<module>":
            entered.add(name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return entered


def build_from_csv(folder: Path) -> set[str]:
    """Modules that a CSV enters on its way to ``graph.gl``."""
    import graphzero as gz

    folder.mkdir(exist_ok=True)
    csv = folder / "edges.csv"
    csv.write_text("src,dst\n" + "".join(f"{i},{(i * 7) % 50}\n" for i in range(50)))
    return modules_entered(lambda: gz.build(folder / "built", edges=csv).close())


def first_batch(folder: Path) -> set[str]:
    """Modules that seeds enter on their way to the first mini-batch of the open form."""
    import numpy as np

    import graphzero as gz

    folder.mkdir(exist_ok=True)
    edges = np.arange(100).reshape(50, 2) % 60
    gz.build(folder / "data", edges=edges, features=np.ones((60, 2), np.float32)).close()

    def work() -> None:
        # without lookahead everything happens in this thread
        prefetch = gz.Prefetch(lookahead=0)
        batches = gz.NeighborDataset(ds, [1, 2, 3], [2, 2], prefetch=prefetch)
        gz.Collate(ds)(next(iter(batches)))

    with gz.open(folder / "data") as ds:
        return modules_entered(work)


def ways(folder: Path) -> list[Size]:
    """How many modules a newcomer enters."""
    csv, batch = len(build_from_csv(folder / "csv")), len(first_batch(folder / "seeds"))
    return [
        Size("modules entered by a CSV", csv, MODULES_OF_A_CSV),
        Size("modules entered by seeds", batch, MODULES_OF_A_BATCH),
    ]


def main() -> int:
    """Prints the table."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        found = [*sizes(), *ways(Path(name))]
    for size in found:
        mark = "" if size.holds else "  <- too large"
        print(f"{size.what:<66}{size.value:>8,}{size.most:>8,}{mark}")
    return 0 if all(size.holds for size in found) else 1


if __name__ == "__main__":
    sys.exit(main())
