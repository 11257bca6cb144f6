"""The OpenMP runtime of the compiled core, where the system has none."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
from pathlib import Path

_NAME = "libgomp.so.1"


def load_for(error: ImportError) -> None:
    """Loads what the import of the core lacked, or says what to do about it.

    Wheels bring no OpenMP of their own: a second one in a process has threads of its own, and they
    wait for each other's processors. The system's serves torch as well; where the system has none,
    torch's serves the core.

    Raises
    ------
    ImportError
        If the core itself is missing, or there is no OpenMP of the name that it asks for.
    """
    if _NAME not in str(error):
        raise ImportError(
            "graphzero's compiled core is missing. If you are in the source folder, its graphzero/ "
            "shadows the installed package: run from another folder, or compile it here with "
            "'pip install -e .'"
        ) from error
    torch = importlib.util.find_spec("torch")  # imports nothing
    for folder in [] if torch is None else torch.submodule_search_locations or []:
        with contextlib.suppress(OSError):
            ctypes.CDLL(str(Path(folder, "lib", _NAME)), ctypes.RTLD_GLOBAL)
            return
    raise ImportError(
        f"graphzero needs {_NAME}, which neither this system nor its torch has: install libgomp1 "
        "(Debian, Ubuntu) or libgomp (Fedora, RHEL), or a torch that brings it (2.13 does)"
    ) from error
