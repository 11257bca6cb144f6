"""Runs a command with the sanitizers' run-time libraries loaded before anything else.

``python tests/sanitized.py pytest ...``, for an extension that was built with
``-fsanitize=address,undefined``: the interpreter itself was not, and must have them preloaded.
So must ``fork_when_quiet.c``, which says why.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

# libstdc++: without it the sanitizer's __cxa_throw finds nothing to call when torch throws.
LIBRARIES = ("libasan.so", "libubsan.so", "libstdc++.so.6")
SETTINGS = {
    # Python never frees what lives as long as it does: leaks are looked for in the C tests.
    "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    # Python's own allocator would hide what is written beyond the end of its objects.
    "PYTHONMALLOC": "malloc",
}


COMPILER = shlex.split(os.environ.get("CC", "gcc"))
FORK_WHEN_QUIET = Path(__file__).with_name("fork_when_quiet.c")


def library(name: str) -> str:
    """Full path of a library of the C compiler."""
    command = [*COMPILER, f"-print-file-name={name}"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(path).is_absolute():
        raise SystemExit(f"the compiler has no {name}: install its sanitizer libraries")
    return str(Path(path).resolve())


def fork_when_quiet() -> str:
    """Full path of the compiled library, which is kept in the virtual environment."""
    target = Path(sys.prefix) / "fork_when_quiet.so"
    options = ["-shared", "-fPIC", "-O1", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([*COMPILER, *options, str(FORK_WHEN_QUIET), "-o", str(target)], check=True)
    return str(target)


def main() -> None:
    """Replaces this process by the command."""
    preloaded = [*map(library, LIBRARIES), fork_when_quiet()]
    environment = {**os.environ, **SETTINGS, "LD_PRELOAD": " ".join(preloaded)}
    os.execvpe(sys.argv[1], sys.argv[1:], environment)


if __name__ == "__main__":
    main()
