"""Runs a command over a build of graphzero that AddressSanitizer and UBSan watch.

``python tests/sanitized.py FOLDER pytest ...`` builds into the folder. The interpreter itself is
not sanitized, so the libraries are loaded before anything else. So is ``fork_when_quiet.c``, which
says why.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

# libstdc++: without it the sanitizer's __cxa_throw finds nothing to call when torch throws.
OPTIONS = "-fsanitize=address,undefined"
COMPILE = f"{OPTIONS} -fno-sanitize-recover=undefined -fno-omit-frame-pointer -O1"
LIBRARIES = ("libasan.so", "libubsan.so", "libstdc++.so.6")
SETTINGS = {
    # Python never frees what lives as long as it does: leaks are looked for in the C tests.
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    # Python's own allocator would hide what is written beyond the end of its objects.
    "PYTHONMALLOC": "malloc",
}


ROOT = Path(__file__).resolve().parents[1]
COMPILER = shlex.split(os.environ.get("CC", "gcc"))
FORK_WHEN_QUIET = Path(__file__).with_name("fork_when_quiet.c")


def library(name: str) -> str:
    """Full path of a library of the C compiler."""
    command = [*COMPILER, f"-print-file-name={name}"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(path).is_absolute():
        raise SystemExit(f"the compiler has no {name}: install its sanitizer libraries")
    return str(Path(path).resolve())


def fork_when_quiet(folder: Path) -> str:
    """Full path of the compiled library."""
    target = folder / "fork_when_quiet.so"
    options = ["-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*COMPILER, *options, str(FORK_WHEN_QUIET), "-o", str(target)], check=True)
    return str(target)


def build(folder: Path) -> Path:
    """The folder of a package that was built with the sanitizers."""
    command = [sys.executable, "setup.py", "-q", "build"]
    command += ["--build-base", str(folder / "build"), "--build-lib", str(folder / "lib")]
    flags = {"GRAPHZERO_CFLAGS": COMPILE, "GRAPHZERO_LDFLAGS": OPTIONS}
    subprocess.run(command, cwd=ROOT, env={**os.environ, **flags}, check=True)
    return folder / "lib"


def main() -> None:
    """Replaces this process by the command."""
    folder = Path(sys.argv[1]).resolve()
    package = build(folder)
    preloaded = [*map(library, LIBRARIES), fork_when_quiet(folder)]
    paths = [str(package), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        **SETTINGS,
        "LD_PRELOAD": " ".join(preloaded),
        "PYTHONPATH": os.pathsep.join(paths),
    }
    os.execvpe(sys.argv[2], sys.argv[2:], environment)


if __name__ == "__main__":
    main()
