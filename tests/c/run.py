"""Builds the C tests with the sources of ``src/``, and runs them.

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


def build(compiler: list[str], options: str, folder: Path, tests: list[Path]) -> Path:
    """One program out of all sources and these tests."""
    program = folder / "tests"
    sources = [*sorted(ROOT.glob("src/*.c")), *tests]
    command = [
        *compiler,
        *shlex.split(f"{WARNINGS} {options}"),
        *("-g", f"-I{ROOT / 'include'}", f"-I{ROOT / 'tests' / 'c'}"),
        *map(str, sources),
        *("-o", str(program), "-lpthread", "-lm"),
    ]
    if subprocess.run(command, check=False).returncode != 0:
        raise SystemExit(f"the C tests do not build: {shlex.join([*compiler, options])}")
    return program


def run(title: str, command: list[str], **environment: str) -> bool:
    print(f"-- {title}", flush=True)
    env = {**os.environ, **environment}
    return subprocess.run(command, env=env, timeout=LIMIT_S, check=False).returncode == 0


def run_threads(folder: Path) -> bool:
    """All programs with their own threads, under ThreadSanitizer."""
    passed = []
    for test in sorted(ROOT.glob("tests/c/tsan_*.c")):
        program = build(compilers()[0], f"-O1 {SANITIZE_THREADS}", folder, [test])
        command = [str(program), str(folder / "rows.bin")]
        passed.append(run(f"{test.name} under ThreadSanitizer", command))
    return bool(passed) and all(passed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--sanitize", action="store_true", help="under ASan, LSan and UBSan")
    group.add_argument("--threads", action="store_true", help="under ThreadSanitizer")
    options = parser.parse_args()
    sanitize = options.sanitize
    tests = [p for p in sorted(ROOT.glob("tests/c/*.c")) if not p.name.startswith("tsan_")]
    passed = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.threads:
            return 0 if run_threads(folder) else 1
        for compiler in compilers()[: 1 if sanitize else None]:
            for variant in (NO_URING, OPENMP if has_openmp(compiler, folder) else ""):
                title = f"{shlex.join(compiler)} {variant}"
                if sanitize:
                    program = build(compiler, f"-O1 {SANITIZE} {variant}", folder, tests)
                    passed.append(run(f"{title} sanitized", [str(program)], ASAN_OPTIONS=ASAN))
                else:
                    program = build(compiler, f"-O2 {variant}", folder, tests)
                    passed.append(run(title, [str(program)]))
        if not sanitize and shutil.which("valgrind"):
            # valgrind 3.19 keeps signals back from io_uring_enter, and does not know MADV_DONTFORK
            program = build(compilers()[0], f"-O1 {NO_URING}", folder, tests)
            passed.append(run("valgrind", [*shlex.split(VALGRIND), str(program)]))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
