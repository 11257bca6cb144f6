"""What a release is made of: wheels, and the OpenMP that they lack."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import graphzero
from graphzero import _core

ROOT = Path(__file__).resolve().parents[1]

# The core is refused once, as where the system has no OpenMP.
WITHOUT_OPENMP = """
import importlib.util, sys
refusals = [{message!r}]
class Refuses:
    def find_spec(self, name, path=None, target=None):
        if name == "graphzero._core" and refusals:
            raise ImportError(refusals.pop())
sys.meta_path.insert(0, Refuses())
if {hides_torch}:
    find = importlib.util.find_spec
    importlib.util.find_spec = lambda name, *a: None if name == "torch" else find(name, *a)
import graphzero
maps = open("/proc/self/maps").read()
print([line.split()[-1] for line in maps.splitlines() if "torch/lib/libgomp.so.1" in line] != [])
print("torch" in sys.modules)
"""


def imported(message, folder, hides_torch=False):
    script = WITHOUT_OPENMP.format(message=message, hides_torch=hides_torch)
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=folder
    )


MISSING = "libgomp.so.1: cannot open shared object file: No such file or directory"


@pytest.mark.no_asan  # whose runtime is loaded first
@pytest.mark.skipif(sys.platform != "linux", reason="maps of a process")
def test_without_openmp_of_the_system_torch_gives_its_own(tmp_path):
    torch = pytest.importorskip("torch")
    if not Path(torch.__file__).with_name("lib").joinpath("libgomp.so.1").exists():
        pytest.skip("this torch brings none")
    done = imported(MISSING, tmp_path)
    assert done.stdout.split() == ["True", "False"], done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="versions of symbols")
def test_the_core_asks_for_no_later_openmp_than_older_torches_bring():
    """Up to 2.6 theirs is of gcc 9 and OpenMP 4.5, and serves the core where torch comes first."""
    asked = set(re.findall(rb"G?OMP_(\d\.\d)\0", Path(graphzero._core.__file__).read_bytes()))
    assert b"1.0" in asked
    assert max(asked) <= b"4.5"


@pytest.mark.parametrize(
    ("message", "remedy"),
    [(MISSING, "install libgomp1"), ("No module named 'graphzero._core'", "pip install -e")],
)
def test_a_core_that_cannot_be_loaded_says_what_to_do(message, remedy, tmp_path):
    done = imported(message, tmp_path, hides_torch=True)
    assert done.returncode == 1
    assert remedy in done.stderr.splitlines()[-1]


@pytest.mark.extended
@pytest.mark.no_asan  # another build than the one with sanitizers
@pytest.mark.skipif(sys.platform != "linux", reason="manylinux")
@pytest.mark.skipif(sys.version_info < (3, 11), reason="buffers in the stable ABI")
def test_the_wheel_of_the_stable_abi_makes_the_same_batches(tmp_path):
    pytest.importorskip("auditwheel")
    python = "{}.{}".format(*sys.version_info)
    command = [sys.executable, ROOT / ".ci" / "wheels.py", tmp_path / "dist", "--python", python]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run(command, check=True, env={**os.environ, "PATH": path})
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert re.search(r"-cp311-abi3-manylinux_2_\d+_", wheel.name)
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    command = [sys.executable, "-c", "from graphzero import _core; print(_core.__file__)"]
    found = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert found.stdout.strip().endswith("installed/graphzero/_core.abi3.so"), found
    assert not _core.__file__.endswith("abi3.so")
    # -P: the uncompiled graphzero/ of the source must not be imported
    command = [sys.executable, "-P", "-m", "pytest", "-q", "tests/test_recorded.py"]
    command += ["-k", "recorded_loaders"]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    assert " passed" in done.stdout
