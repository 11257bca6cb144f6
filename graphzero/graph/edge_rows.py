"""`EdgeRows`: a section of a graph file, such as its weights, as rows of the stored edges."""

from __future__ import annotations

import os
from typing import Any

from graphzero import _core
from graphzero.errors import FormatError
from graphzero.graph.features import FeatureStore, Layout
from graphzero.store.format import DTYPES
from graphzero.store.views import header_identity

__all__ = ["EdgeRows"]


class EdgeRows(FeatureStore):
    """One number for each stored edge, mapped from a section of a ``.gl`` file.

    Parameters
    ----------
    path : path-like
    section : str
        "weights" or "times".

    Raises
    ------
    FormatError
        If the file has no such section.
    """

    def __init__(self, path: str | os.PathLike[str], section: str) -> None:
        self.section = section
        super().__init__(path)

    def _find_rows(self) -> Layout:
        header = _core.CSR(self._mapping).header
        for name, code, offset, count, _, _ in header["sections"]:
            if name == self.section:
                return Layout((count,), DTYPES[code], offset, identity=header_identity(header))
        raise FormatError(f"{self.path} has no section {self.section!r}: build it again")

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.path, self.section, self.identity)


def _reopen(path: str, section: str, expected: tuple[Any, ...]) -> EdgeRows:
    opened = EdgeRows(path, section)
    if opened.identity != expected:
        opened.close()
        raise FormatError(
            f"{path} was replaced by another file while it was in use: open the dataset again"
        )
    return opened
