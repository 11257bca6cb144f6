"""Ends a forked child by SIGKILL before the n-th system call that it makes, counted by ptrace."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

import pytest

_TRACEME, _CONT, _SYSCALL, _SETOPTIONS = 0, 7, 24, 0x4200
_SYSGOOD, _EXITKILL = 1, 0x100000
_AT_CALL = signal.SIGTRAP | 0x80

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request: int, child: int, data: int = 0) -> None:
    if _libc.ptrace(request, child, None, data) == -1:
        raise OSError(ctypes.get_errno(), "ptrace")


def begin_counting() -> None:
    """Says, in the child, that system calls count from here."""
    os.kill(os.getpid(), signal.SIGSTOP)


def killed_at(call: int, work: Callable[[], object]) -> bool:
    """Runs `work`, which calls `begin_counting` once, in a child; whether it was killed.

    Parameters
    ----------
    call : int
        The child is killed before this system call of its first thread, from 1.
    work : callable
        Where it makes fewer calls, it must succeed.
    """
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _ptrace(_TRACEME, 0)
            work()
            status = 0
        finally:
            sys.stderr.flush()
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status):
        pytest.skip("ptrace is not allowed here")
    assert os.WSTOPSIG(status) == signal.SIGSTOP
    _ptrace(_SETOPTIONS, child, _SYSGOOD | _EXITKILL)
    stops = 0  # two a call: before and after it
    passed_on = 0
    while True:
        _ptrace(_SYSCALL, child, passed_on)
        _, status = os.waitpid(child, 0)
        if not os.WIFSTOPPED(status):
            assert os.waitstatus_to_exitcode(status) == 0
            return False
        passed_on = 0
        if os.WSTOPSIG(status) != _AT_CALL:
            passed_on = os.WSTOPSIG(status)
            continue
        stops += 1
        if stops == 2 * call - 1:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True
