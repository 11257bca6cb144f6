"""Builds the C tests with the sources of ``src/``, and runs them.

With ``--quick``: with the first compiler and what there is of OpenMP and io_uring.
Without options: with every compiler found (``$CC`` or cc, gcc, clang), with neither OpenMP nor
io_uring and with what there is of both, every warning an error, and once more under valgrind where
there is one.
With ``--sanitize``: with the first compiler, under AddressSanitizer (leaks included) and UBSan.
With ``--threads``: the programs with their own threads (``tsan_*.c``), with the first compiler,
under ThreadSanitizer.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WARNINGS = "-std=c11 -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Werror"
SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
# allocator_may_return_null: running out of memory is a case that is tested
ASAN = "detect_leaks=1:detect_stack_use_after_return=1:allocator_may_return_null=1"
SANITIZE_THREADS = "-fsanitize=thread -fno-omit-frame-pointer"
OPENMP = "-fopenmp -DGZ_HAVE_OMP_PAUSE=1"
NO_URING = "-DGZ_NO_URING=1"
VALGRIND = "valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite"
LIMIT_S = 600


def compilers() -> list[list[str]]:
    """All installed C compilers, ``$CC`` first, each program once."""
    candidates = [shlex.split(os.environ.get("CC", "cc")), ["gcc"], ["clang"]]
    found: dict[str, list[str]] = {}
    for command in candidates:
        path = shutil.which(command[0])
        if path is not None:
            found.setdefault(os.path.realpath(path), command)
    if not found:
        raise SystemExit("no C compiler found: install one, or name it in CC")
    return list(found.values())


def has_openmp(compiler: list[str], folder: Path) -> bool:
    """Whether a program that pauses OpenMP's threads builds and runs."""
    source, program = folder / "probe.c", folder / "probe"
    source.write_text("#include <omp.h>\nint main(void) { return omp_pause_resource_all(2); }\n")
    command = [*compiler, "-fopenmp", str(source), "-o", str(program)]
    return all(
        subprocess.run(step, capture_output=True, check=False).returncode == 0
        for step in (command, [str(program)])
    )


@dataclass(frozen=True)
class Program:
    """One build of the tests, and how to run it."""

    title: str
    compiler: list[str]
    options: str
    tests: list[Path]
    before: list[str] = field(default_factory=list)  # such as valgrind
    arguments: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)

    def passes(self, folder: Path) -> bool:
        """Builds and runs it; the output comes in one piece."""
        folder.mkdir()
        program = folder / "tests"
        sources = [*sorted(ROOT.glob("src/*.c")), *self.tests]
        build = [
            *self.compiler,
            *shlex.split(f"{WARNINGS} {self.options}"),
            *("-g", f"-I{ROOT / 'include'}", f"-I{ROOT / 'tests' / 'c'}"),
            *map(str, sources),
            *("-o", str(program), "-lpthread", "-lm"),
        ]
        run = [*self.before, str(program), *self.arguments]
        output = f"-- {self.title}\n"
        for command in (build, run):
            done = subprocess.run(
                command,
                env={**os.environ, **self.environment},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=LIMIT_S,
                check=False,
            )
            output += done.stdout
            if done.returncode != 0:
                output += f"{shlex.join(command[:4])} ... ended with {done.returncode}\n"
                break
        print(output, end="", flush=True)
        return done.returncode == 0


def programs_with_threads(folder: Path) -> list[Program]:
    """All programs with their own threads, under ThreadSanitizer."""
    return [
        Program(
            f"{test.name} under ThreadSanitizer",
            compilers()[0],
            f"-O1 {SANITIZE_THREADS}",
            [test],
            arguments=[str(folder / f"rows_of_{test.stem}.bin")],
        )
        for test in sorted(ROOT.glob("tests/c/tsan_*.c"))
    ]


def programs(folder: Path, *, sanitize: bool, quick: bool) -> list[Program]:
    """The unit tests in all variants, or with `quick` in the usual one."""
    tests = [p for p in sorted(ROOT.glob("tests/c/*.c")) if not p.name.startswith("tsan_")]
    found: list[Program] = []
    for compiler in compilers()[: 1 if sanitize or quick else None]:
        usual = OPENMP if has_openmp(compiler, folder) else ""
        for variant in [usual] if quick else [NO_URING, usual]:
            title = f"{shlex.join(compiler)} {variant}"
            if sanitize:
                options, environment = f"-O1 {SANITIZE} {variant}", {"ASAN_OPTIONS": ASAN}
                title += " sanitized"
            else:
                options, environment = f"-O2 {variant}", {}
            found.append(Program(title, compiler, options, tests, environment=environment))
    if not (sanitize or quick) and shutil.which("valgrind"):
        # valgrind 3.19 keeps signals back from io_uring_enter, and does not know MADV_DONTFORK
        before = shlex.split(VALGRIND)
        found.append(Program("valgrind", compilers()[0], f"-O1 {NO_URING}", tests, before))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--quick", action="store_true", help="one build of the usual kind")
    group.add_argument("--sanitize", action="store_true", help="under ASan, LSan and UBSan")
    group.add_argument("--threads", action="store_true", help="under ThreadSanitizer")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.threads:
            found = programs_with_threads(folder)
        else:
            found = programs(folder, sanitize=options.sanitize, quick=options.quick)
        # What takes longest, the last, begins first.
        folders = [folder / str(i) for i in range(len(found))]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            passed = list(pool.map(Program.passes, reversed(found), folders))
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
