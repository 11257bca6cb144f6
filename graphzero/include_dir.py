"""Location of the C headers."""

from __future__ import annotations

from pathlib import Path

__all__ = ["get_include"]


def get_include() -> str:
    """Folder to pass to a C compiler (``-I``) for ``#include "graphzero/format.h"``.

    Returns
    -------
    str
        The headers installed with the package, or those of the source tree if the package is used
        from there.
    """
    package = Path(__file__).resolve().parent
    installed = package / "include"
    return str(installed if installed.is_dir() else package.parent / "include")
