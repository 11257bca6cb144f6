"""Which small faults in the code the tests notice: ``python tests/mutants.py RECORD``.

A mutant is a copy of the tree in which one operator, comparison, condition or constant of one file
is another one. Without RECORD, or with one that does not exist, mutants of `TARGETS` are drawn,
each with the tests that are to notice it, and those that the tests kill are written there, by the
text of their lines. With a record, the same mutants are made again: those that survive are listed,
and those whose line does not exist any more. A mutant of C takes a compiler and seconds to build.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
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
    """One change: of the line with this text, the `number`-th one of the file that has it."""

    path: str
    line: str
    number: int
    changed: str

    def apply(self, root: Path) -> str | None:
        """The text of the file with the change; None if there is no such line."""
        lines = (root / self.path).read_text().split("\n")
        found = [i for i, line in enumerate(lines) if line == self.line]
        if len(found) <= self.number:
            return None
        lines[found[self.number]] = self.changed
        return "\n".join(lines)


def mutants_of(path: str) -> Iterator[Mutant]:
    """All mutants of a file."""
    text = (ROOT / path).read_text()
    code = NO_CODE[Path(path).suffix].sub(lambda m: re.sub(r"[^\n]", "\0", m[0]), text)
    lines = text.split("\n")
    for i, (line, visible) in enumerate(zip(lines, code.split("\n"), strict=True)):
        for token in TOKEN.finditer(visible):
            is_binary = f" {token[0]} " == line[token.start() - 1 : token.end() + 1]
            if token[0] in CHANGES and (token[0].isalnum() or is_binary):
                changed = line[: token.start()] + CHANGES[token[0]] + line[token.end() :]
                yield Mutant(path, line, lines[:i].count(line), changed)


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
        original, text = path.read_text(), mutant.apply(self.root)
        if text is None:
            return None
        path.write_text(text)
        try:
            if path.suffix == ".c" and not self.build(mutant.path):
                return None
            tests = [name for name in TARGETS[mutant.path] if (self.root / name).exists()]
            command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("record", type=Path, help="JSON file of mutants that were killed")
    parser.add_argument("--count", type=int, default=20, help="mutants of each file")
    parser.add_argument("--only", help="the files whose path has this text")
    options = parser.parse_args()
    is_new = not options.record.exists()
    chosen: list[Mutant] = []
    if is_new:
        for path in (path for path in TARGETS if (ROOT / path).exists()):
            every = list(mutants_of(path))
            chosen += random.Random(0).sample(every, min(options.count, len(every)))
    else:
        chosen = [Mutant(**one) for one in json.loads(options.record.read_text())]
    chosen = [mutant for mutant in chosen if (options.only or "") in mutant.path]
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder))
        found = {mutant: tree.survives(mutant) for mutant in chosen}
    for mutant, survives in found.items():
        if survives is not False:
            state = "survives" if survives else "gone"
            print(
                f"{mutant.path}: {state}\n  - {mutant.line.strip()}\n  + {mutant.changed.strip()}"
            )
    killed = [asdict(mutant) for mutant, survives in found.items() if survives is False]
    print(f"{len(killed)} of {len(found)} killed, {list(found.values()).count(None)} gone")
    if is_new:
        options.record.write_text(json.dumps(killed, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
