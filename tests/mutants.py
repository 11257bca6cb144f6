"""Which small faults in the code the tests do not notice: ``python tests/mutants.py``.

A mutant is a copy of the tree in which one operator, comparison, condition or constant of one file
is another one. Mutants of `TARGETS` are drawn, the same ones for the same files, each with the
tests that are to notice it; those that survive are listed. One of C takes seconds to build.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TIMEOUT_S = 300
SAMPLER = ["tests/test_sampler.py", "tests/test_weighted.py"]
TARGETS = {  # a file, and the tests that are to notice what is wrong in it
    "graphzero/sampling/order.py": ["tests/test_rng.py", "tests/test_ranks.py"],
    "graphzero/io/plan.py": ["tests/test_plan.py"],
    "graphzero/report/verdict.py": ["tests/test_verdict.py"],
    "graphzero/ingest/folder.py": ["tests/test_build_crash.py"],
    "src/sampling.c": SAMPLER,
    "src/weighted.c": SAMPLER,
    "src/negatives.c": ["tests/test_chosen_negatives.py", "tests/test_links.py"],
    "src/gather.c": ["tests/test_features.py", "tests/test_narrow_rows.py"],
    "src/reads.c": ["tests/test_direct.py"],
    "src/sort_keys.c": ["tests/test_edge_keys.py"],
}
CHANGES = {
    **{"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "+": "-", "-": "+"},
    **{"*": "+", "//": "*", "%": "+", "&&": "||", "||": "&&", "<<": ">>", ">>": "<<", "&": "|"},
    **{"and": "or", "or": "and", "not": "", "True": "False", "False": "True", "min": "max"},
    **{"max": "min", "0": "1", "1": "2", "2": "3", "+=": "-=", "-=": "+=", "true": "false"},
}
TOKEN = re.compile(r"[A-Za-z_]\w*|\d+|[-+*/%&|<>=!]+")
NO_CODE = {  # comments, texts and what the preprocessor reads
    ".py": re.compile(
        r'("""|\'\'\').*?\1|f?"(\\.|[^"\\\n])*"|#[^\n]*|^(from|import) [^\n]*', re.S | re.M
    ),
    ".c": re.compile(r'/\*.*?\*/|"(\\.|[^"\\\n])*"|^#[^\n]*|//[^\n]*', re.S | re.M),
}


@dataclass(frozen=True)
class Mutant:
    """One change: of a line of a file, counted from 0."""

    path: str
    line: int
    text: str
    changed: str


def mutants_of(path: str) -> Iterator[Mutant]:
    """All mutants of a file."""
    text = (ROOT / path).read_text()
    code = NO_CODE[Path(path).suffix].sub(lambda m: re.sub(r"[^\n]", "\0", m[0]), text)
    for i, (line, visible) in enumerate(zip(text.split("\n"), code.split("\n"), strict=True)):
        for token in TOKEN.finditer(visible):
            is_binary = f" {token[0]} " == line[token.start() - 1 : token.end() + 1]
            if token[0] in CHANGES and (token[0].isalnum() or is_binary):
                changed = line[: token.start()] + CHANGES[token[0]] + line[token.end() :]
                yield Mutant(path, i, line, changed)


class Tree:
    """A copy of the tree, with a compiled core of its own."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "tree"
        listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True)
        for name in listed.split("\0"):
            if name and (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.root / name)
        command = [sys.executable, "setup.py", "-v", "build_ext", "--inplace", "--force"]
        done = subprocess.run(command, cwd=self.root, capture_output=True, text=True, check=True)
        self._commands = [
            shlex.split(line)
            for line in done.stdout.splitlines()
            if re.match(r"\S*(gcc|cc|clang) ", line)
        ]

    def build(self, path: str) -> bool:
        """Compiles one source, and links; whether that succeeds."""
        for step in (c for c in self._commands if path in c or "-shared" in c):
            if subprocess.run(step, cwd=self.root, capture_output=True, check=False).returncode:
                return False
            made = self.root / step[step.index("-o") + 1]
            if made.suffix == ".so":
                shutil.copy2(made, self.root / "graphzero" / made.name)
        return True

    def survives(self, mutant: Mutant) -> bool | None:
        """Whether the tests pass with a mutant; None if it cannot be made."""
        path = self.root / mutant.path
        original = path.read_text()
        lines = original.split("\n")
        lines[mutant.line] = mutant.changed
        path.write_text("\n".join(lines))
        try:
            if path.suffix == ".c" and not self.build(mutant.path):
                return None
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
            command += TARGETS[mutant.path]
            done = subprocess.run(
                command,
                cwd=self.root,
                env={**os.environ, "PYTHONPATH": str(self.root)},
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            return done.returncode == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            path.write_text(original)
            if path.suffix == ".c":
                self.build(mutant.path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=20, help="mutants of each file")
    parser.add_argument("--only", default="", help="the files whose path has this text")
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder))
        for path in (path for path in TARGETS if options.only in path):
            every = list(mutants_of(path))
            for mutant in random.Random(0).sample(every, min(options.count, len(every))):
                found.append(tree.survives(mutant))
                if found[-1]:
                    line, text, changed = mutant.line + 1, mutant.text, mutant.changed
                    print(f"{path}:{line} survives\n  - {text.strip()}\n  + {changed.strip()}")
    print(f"{found.count(False)} of {len(found)} killed, {found.count(None)} cannot be made")


if __name__ == "__main__":
    main()
