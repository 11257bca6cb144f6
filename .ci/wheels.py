"""Builds the source distribution, and from it the wheels of Linux: `tox -e wheels`.

One wheel is for CPython 3.11 and all later ones, through the stable ABI; 3.10 has one of its own.
auditwheel gives each the manylinux tag of the oldest C library that it runs on, and refuses what
would not run elsewhere. OpenMP is left out: at run time it is the system's or torch's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.10", "3.11")
EXCLUDED = "libgomp.so.1"


def interpreter(version: str) -> str | None:
    """Of a version: this one, one on the path, or one of pyenv."""
    if version == "{}.{}".format(*sys.version_info):
        return sys.executable
    found = shutil.which(f"python{version}")
    versions = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    for each in [found, *map(str, versions)]:
        # a shim of pyenv is there, and fails, without its version
        if each and subprocess.run([each, "-c", ""], capture_output=True).returncode == 0:
            return each
    return None


def build(python: str, source: Path, out: Path) -> None:
    """A wheel for one interpreter, from the source distribution, repaired into a folder."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder, "venv")
        subprocess.run([python, "-m", "venv", environment], check=True)
        command = [environment / "bin" / "pip", "wheel", "-q", "--no-deps", "-w", folder, source]
        subprocess.run(command, check=True, env={**os.environ, "GRAPHZERO_ABI3": "1"})
        (wheel,) = Path(folder).glob("*.whl")
        command = [sys.executable, "-m", "auditwheel", "repair", "--strip", "--exclude", EXCLUDED]
        subprocess.run([*command, "-w", out, wheel], check=True)


def check(wheel: Path) -> None:
    """Refuses a wheel for one machine only, with libraries, or without what a package has."""
    names = zipfile.ZipFile(wheel).namelist()
    extensions = [name for name in names if name.endswith(".so") or ".so." in name]
    if len(extensions) != 1 or "manylinux" not in wheel.name:
        raise SystemExit(f"{wheel.name}: expected one extension and a manylinux tag: {extensions}")
    for part in ("graphzero/py.typed", "graphzero/include/graphzero/format.h"):
        if part not in names:
            raise SystemExit(f"{wheel.name}: has no {part}")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB")


def main() -> int:
    """Builds into a folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="folder, such as dist")
    parser.add_argument("--python", action="append", help="such as 3.11; default: all")
    options = parser.parse_args()
    out, missing = options.out.resolve(), []
    out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "build", "--sdist", "-o", out, ROOT]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    source = max(out.glob("graphzero-*.tar.gz"), key=lambda path: path.stat().st_mtime)
    for version in options.python or PYTHONS:
        python = interpreter(version)
        if python is None:
            missing.append(version)
        else:
            build(python, source, out)
    for wheel in sorted(out.glob("graphzero-*.whl")):
        check(wheel)
    if missing:
        print(f"no wheel for {', '.join(missing)}: not installed here", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
