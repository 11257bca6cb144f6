"""Builds the C tests with the sources of ``src/``, and runs them.

With ``--quick``: with the first compiler and what there is of OpenMP and io_uring.
Without options: with every compiler found (``$CC`` or cc, gcc, clang), with neither OpenMP nor
io_uring and with what there is of both, every warning an error, and once more under valgrind where
there is one.
With ``--sanitize``: with the first compiler, under AddressSanitizer (leaks included) and UBSan.
With ``--threads``: with the first compiler, under ThreadSanitizer.
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
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WARNINGS = "-std=c11 -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Werror"
SANITIZE = "-O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"
SANITIZE_THREADS = "-O1 -fsanitize=thread -fno-omit-frame-pointer"
OPENMP = "-fopenmp"
NO_URING = "-DGZ_NO_URING=1"
VALGRIND = "valgrind --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite"
# allocator_may_return_null: running out of memory is a case that is tested
SETTINGS = {
    "ASAN_OPTIONS": "detect_leaks=1:detect_stack_use_after_return=1:allocator_may_return_null=1",
    "TSAN_OPTIONS": "allocator_may_return_null=1",
}
LIMIT_S = 600


def compilers() -> list[str]:
    """All installed C compilers, ``$CC`` first, each program once."""
    found: dict[str, str] = {}
    for command in (os.environ.get("CC", "cc"), "gcc", "clang"):
        path = shutil.which(shlex.split(command)[0])
        if path is not None:
            found.setdefault(os.path.realpath(path), command)
    if not found:
        raise SystemExit("no C compiler found: install one, or name it in CC")
    return list(found.values())


def has_openmp(compiler: str) -> bool:
    """Whether a program that pauses OpenMP's threads builds and runs."""
    text = "#include <omp.h>\nint main(void) { return omp_pause_resource_all(2); }\n"
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder, "probe.c"), Path(folder, "probe")
        source.write_text(text)
        command = [*shlex.split(compiler), "-fopenmp", str(source), "-o", str(program)]
        return all(
            subprocess.run(step, capture_output=True, check=False).returncode == 0
            for step in (command, [str(program)])
        )


def variants(*, quick: bool, sanitize: bool, threads: bool) -> list[tuple[str, str]]:
    """The compiler with its options of each build, and what to run it under."""
    first = compilers()[0]
    if threads:  # which cannot see into the runtime of OpenMP, nor what the kernel writes
        return [(f"{first} {SANITIZE_THREADS} {NO_URING}", "")]
    found = []
    for compiler in [first] if quick or sanitize else compilers():
        usual = OPENMP if has_openmp(compiler) else ""
        for variant in [usual] if quick else [NO_URING, usual]:
            found.append((f"{compiler} {SANITIZE if sanitize else '-O2'} {variant}", ""))
    if not (quick or sanitize) and shutil.which("valgrind"):
        # valgrind 3.19 keeps signals back from io_uring_enter, and does not know MADV_DONTFORK
        found.append((f"{first} -O1 {NO_URING}", VALGRIND))
    return found


def passes(build: str, before: str) -> bool:
    """Builds and runs the tests; the output comes in one piece."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "tests")
        sources = [*sorted(ROOT.glob("src/*.c")), *sorted(ROOT.glob("tests/c/*.c"))]
        command = [*shlex.split(f"{build} {WARNINGS} -g"), f"-I{ROOT / 'include'}"]
        command += [*map(str, sources), "-o", str(program), "-lpthread", "-lm"]
        output = f"-- {build} {before}\n"
        for step in (command, [*shlex.split(before), str(program)]):
            done = subprocess.run(
                step,
                env={**os.environ, **SETTINGS},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=LIMIT_S,
                check=False,
            )
            output += done.stdout
            if done.returncode != 0:
                output += f"{shlex.join(step[:4])} ... ended with {done.returncode}\n"
                break
    print(output, end="", flush=True)
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--quick", action="store_true", help="one build of the usual kind")
    group.add_argument("--sanitize", action="store_true", help="under ASan, LSan and UBSan")
    group.add_argument("--threads", action="store_true", help="under ThreadSanitizer")
    found = variants(**vars(parser.parse_args()))
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # what takes longest, the last, begins first
        running = [pool.submit(passes, *variant) for variant in reversed(found)]
    return 0 if all(each.result() for each in running) else 1


if __name__ == "__main__":
    sys.exit(main())
