"""Builds ``graphzero._core``: the Cython file over the C sources of ``src/``.

Environment
-----------
GRAPHZERO_NATIVE=1
    Compile for this machine's processor (``-march=native``). Off by default, so that a wheel runs
    on any processor of its architecture.
GRAPHZERO_NO_OPENMP=1
    Build the serial version even where the compiler has OpenMP.
GRAPHZERO_CFLAGS, GRAPHZERO_LDFLAGS
    Appended to the compiler's and the linker's options (the sanitizer builds use them).
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Extension, setup

if sys.platform == "win32":
    raise SystemExit("graphzero does not build on Windows: it needs mmap and madvise (use WSL 2).")

OPENMP_PROBE = """
#include <omp.h>
#include <stdio.h>
int main(void) {
    int threads = 0;
    #pragma omp parallel num_threads(2) reduction(+ : threads)
    threads += 1;
    return threads >= 1 ? 0 : 1;
}
"""
PAUSE_PROBE = """
#include <omp.h>
int main(void) { return omp_pause_resource_all(omp_pause_hard) == 0 ? 0 : 1; }
"""
# What a compiler may want to hear: gcc and Linux clang, then Apple's clang with Homebrew's libomp.
OPENMP_FLAGS = [
    (["-fopenmp"], ["-fopenmp"]),
    (["-Xpreprocessor", "-fopenmp"], ["-lomp"]),
]


def compiler():
    """The C compiler that setuptools will use, as a list of words."""
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def compiles_and_runs(source, compile_args, link_args):
    """Whether a program builds with these options and exits with 0."""
    folder = Path(tempfile.mkdtemp())
    try:
        (folder / "probe.c").write_text(source)
        command = [*compiler(), "probe.c", "-o", "probe", *compile_args, *link_args]
        for step in (command, ["./probe"]):
            done = subprocess.run(step, cwd=folder, capture_output=True, timeout=60, check=False)
            if done.returncode != 0:
                return False
        return True
    except (OSError, subprocess.TimeoutExpired):
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def openmp_options():
    """Compiler options, linker options and macros of the OpenMP build; empty for a serial one."""
    if os.environ.get("GRAPHZERO_NO_OPENMP") == "1":
        return [], [], []
    for compile_args, link_args in OPENMP_FLAGS:
        if compiles_and_runs(OPENMP_PROBE, compile_args, link_args):
            can_pause = compiles_and_runs(PAUSE_PROBE, compile_args, link_args)
            return compile_args, link_args, [("GZ_HAVE_OMP_PAUSE", "1")] if can_pause else []
    print("graphzero: no working OpenMP found, building the serial version", file=sys.stderr)
    return [], [], []


def extension():
    compile_args, link_args, macros = openmp_options()
    compile_args = ["-std=c11", "-O3", "-g1", "-fvisibility=hidden", *compile_args]
    if os.environ.get("GRAPHZERO_NATIVE") == "1":
        compile_args.append("-march=native")
    compile_args += shlex.split(os.environ.get("GRAPHZERO_CFLAGS", ""))
    link_args += shlex.split(os.environ.get("GRAPHZERO_LDFLAGS", ""))
    return Extension(
        "graphzero._core",
        sources=["graphzero/_core.pyx", *sorted(str(path) for path in Path("src").glob("*.c"))],
        depends=sorted(str(path) for path in Path("include/graphzero").glob("*.h")),
        include_dirs=["include"],
        define_macros=macros,
        extra_compile_args=compile_args,
        extra_link_args=link_args,
        libraries=["pthread", "m"],
    )


setup(ext_modules=[extension()])
