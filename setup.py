"""Builds ``graphzero._core``: the Cython files over the C sources of ``src/``.

Environment
-----------
GRAPHZERO_NATIVE=1
    Compile for this machine's processor (``-march=native``). Off by default, so that a wheel runs
    on any processor of its architecture.
GRAPHZERO_NO_OPENMP=1
    Build the serial version even where the compiler has OpenMP.
GRAPHZERO_NO_URING=1
    Build without io_uring, which is built in wherever the headers of the Linux kernel have it.
GRAPHZERO_ABI3=1
    One extension for Python 3.11 and all later ones, as wheels have it: through the stable ABI.
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

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

if sys.platform == "win32":
    raise SystemExit("graphzero does not build on Windows: it needs mmap and madvise (use WSL 2).")

# The oldest Python whose stable ABI has buffers.
ABI3 = os.environ.get("GRAPHZERO_ABI3") == "1" and sys.version_info >= (3, 11)
ABI3_MACROS = [("Py_LIMITED_API", "0x030B0000"), ("CYTHON_LIMITED_API", "1")] if ABI3 else []

OPENMP_PROBE = """
#include <omp.h>
int main(void) {
    int threads = 0;
    #pragma omp parallel num_threads(2) reduction(+ : threads)
    threads += 1;
    return threads >= 1 ? 0 : 1;
}
"""
# What a compiler may want to hear: gcc and Linux clang, then Apple's clang with Homebrew's libomp.
OPENMP_FLAGS = [
    (["-fopenmp"], ["-fopenmp"]),
    (["-Xpreprocessor", "-fopenmp"], ["-lomp"]),
]


def compiler():
    """Name the C compiler that setuptools will use, as a list of words."""
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def compiles_and_runs(source, compile_args, link_args):
    """Tell whether a program builds with these options and exits with 0."""
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
    """Compiler options and linker options of the OpenMP build; empty for a serial one."""
    if os.environ.get("GRAPHZERO_NO_OPENMP") == "1":
        return [], []
    for compile_args, link_args in OPENMP_FLAGS:
        if compiles_and_runs(OPENMP_PROBE, compile_args, link_args):
            return compile_args, link_args
    print("graphzero: no working OpenMP found, building the serial version", file=sys.stderr)
    return [], []


class BuildExtension(build_ext):
    """``build_ext`` that probes the compiler, and builds anew when the options have changed."""

    def build_extension(self, ext):
        openmp_compile, openmp_link = openmp_options()
        no_uring = os.environ.get("GRAPHZERO_NO_URING") == "1"
        native = ["-march=native"] if os.environ.get("GRAPHZERO_NATIVE") == "1" else []
        extra_compile = shlex.split(os.environ.get("GRAPHZERO_CFLAGS", ""))
        extra_link = shlex.split(os.environ.get("GRAPHZERO_LDFLAGS", ""))
        ext.extra_compile_args = [
            *("-std=c11", "-O3", "-g1", "-fvisibility=hidden"),
            *openmp_compile,
            *native,
            *extra_compile,
        ]
        ext.extra_link_args = [*openmp_link, *extra_link]
        no_uring_macros = [("GZ_NO_URING", "1")] * no_uring
        ext.define_macros = [*no_uring_macros, *ABI3_MACROS]
        self._record_options(ext)
        super().build_extension(ext)

    def _record_options(self, ext):
        """Make the extension depend on its options: a left-over build must not be taken for it."""
        options = repr((compiler(), ext.extra_compile_args, ext.extra_link_args, ext.define_macros))
        stamp = Path(self.build_temp) / "options.txt"
        stamp.parent.mkdir(parents=True, exist_ok=True)
        if not stamp.exists() or stamp.read_text() != options:
            stamp.write_text(options)
        ext.depends = [*ext.depends, str(stamp)]


setup(
    # The headers live at the top level and are installed as graphzero/include/graphzero/*.h.
    packages=[*find_packages(include=["graphzero", "graphzero.*"]), "graphzero.include"],
    package_dir={"graphzero.include": "include"},
    package_data={
        "graphzero": ["py.typed", "*.pyi", "*.pxd"],
        "graphzero.include": ["graphzero/*.h"],
    },
    include_package_data=False,
    ext_modules=[
        Extension(
            "graphzero._core",
            sources=["graphzero/_core.pyx", *sorted(map(str, Path("src").glob("*.c")))],
            depends=[
                "graphzero/_core.pxd",
                "graphzero/_disk.pxd",
                "graphzero/_ingest.pxd",
                *sorted(map(str, Path("graphzero/core").glob("*.pxi"))),
                *sorted(map(str, Path("include").glob("*/*.h"))),
            ],
            include_dirs=["include"],
            libraries=["pthread", "m"],
            py_limited_api=ABI3,
        )
    ],
    cmdclass={"build_ext": BuildExtension},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if ABI3 else {},
)
