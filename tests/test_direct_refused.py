"""Processes that may not use io_uring, or only in part: what they are told, and the right rows."""

from __future__ import annotations

import errno
import subprocess
import sys

import pytest
from rows_files import RowsFile

from graphzero import _core

REFUSAL = _core.uring_refusal()
needs_uring = pytest.mark.skipif(REFUSAL is not None, reason=str(REFUSAL))
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="is about a Linux kernel")


FORBIDDEN = """
import ctypes, os, struct, sys
import numpy as np
from graphzero import _core

path, code, call = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
SETUP = 425
mapping = _core.Mapping(path)
before = _core.DirectReader(mapping, 0, 512, 64) if _core.HAVE_URING and call == SETUP else None

# BPF: load the number of the system call; return an error for this one, else allow.
ALLOW, ERRNO = 0x7FFF0000, 0x00050000 | code
program = b"".join(struct.pack("HBBI", *one) for one in [
    (0x20, 0, 0, 0), (0x15, 0, 1, call), (0x06, 0, 0, ERRNO), (0x06, 0, 0, ALLOW)])
filter_ = ctypes.create_string_buffer(program)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
libc = ctypes.CDLL(None, use_errno=True)
one = Program(4, ctypes.addressof(filter_))
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(one), 0, 0):
    print("no seccomp")
    sys.exit(77)

print(_core.uring_refusal())
try:
    _core.DirectReader(mapping, 0, 512, 64)
except OSError as error:
    print(error.errno, error.filename == path)
out = np.empty(64 * 512, np.uint8)
want = np.frombuffer(mapping, np.uint8)[: 64 * 512]
for reader in (before, _core.DirectReader(mapping, 0, 512, 64, engine="pread")):
    if reader is not None:
        out[:] = 0
        reader.fetch(np.arange(64)).place(out)
        assert (out == want).all()
print("read")
"""


@needs_linux
@pytest.mark.parametrize("call", [425, 426], ids=["io_uring_setup", "io_uring_enter"])
@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOSYS])
def test_io_uring_forbidden_is_said_and_threads_read(tmp_path, code, call):
    path = tmp_path / "rows.bin"
    RowsFile(path, 64, 512)
    command = [sys.executable, "-c", FORBIDDEN, str(path), str(code), str(call)]
    # elsewhere than in the source tree, whose uncompiled package would be imported
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=tmp_path)
    if done.returncode == 77 or REFUSAL is not None:
        pytest.skip("cannot forbid what is forbidden already, or has no seccomp")
    assert done.returncode == 0, done.stderr
    reason, raised, read = done.stdout.splitlines()
    assert (
        "forbidden by seccomp" if code == errno.EPERM else "this kernel has no io_uring"
    ) in reason
    assert raised == f"{code} True"
    assert read == "read"


LIMITED = """
import os, resource, sys
import numpy as np
from graphzero import _core

path, limit = sys.argv[1], int(sys.argv[2])
mapping = _core.Mapping(path)
resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
if os.geteuid() == 0:  # whom no limit holds
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
out = np.empty(64 * 512, np.uint8)
try:
    reader = _core.DirectReader(mapping, 0, 512, 64, depth=128)
except OSError as error:
    print(error.errno, _core.uring_refusal())
else:
    reader.fetch(np.arange(64)).place(out)
    print((out == np.frombuffer(mapping, np.uint8)[: 64 * 512]).all())
"""


@needs_uring
@pytest.mark.parametrize("limit", [0, 131_072])
def test_a_limit_of_locked_memory_slows_or_is_said(tmp_path, limit):
    """The kernel may refuse to register 8 MiB of buffers, or, since 6.14, the ring itself."""
    path = tmp_path / "rows.bin"
    RowsFile(path, 64, 512)
    command = [sys.executable, "-c", LIMITED, str(path), str(limit)]
    # elsewhere than in the source tree, whose uncompiled package would be imported
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    if limit == 0 and done.stdout != "True\n":
        assert done.stdout.startswith(
            f"{errno.ENOMEM} io_uring cannot lock enough memory (see ulimit -l)"
        )
    else:
        assert done.stdout == "True\n"


@pytest.mark.skipif(REFUSAL is None, reason="io_uring can be used here")
def test_io_uring_refused_is_an_error(tmp_path):
    with pytest.raises(OSError, match="io_uring") as caught:
        RowsFile(tmp_path / "rows.bin", 64, 512).reader("uring")
    assert caught.value.errno
