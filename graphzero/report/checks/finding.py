"""`Finding`: one fault of a file."""

from __future__ import annotations

import os
from dataclasses import dataclass

from graphzero.store.format import Header

__all__ = ["Finding", "finding_of_error"]


@dataclass(frozen=True)
class Finding:
    """A fault of a file, found by `verify`.

    Attributes
    ----------
    path : str
    section : str or None
        The faulty section; None for the header page, a whole file or the manifest.
    offset : int
        The first faulty byte of the file. Where only a checksum tells that a section is faulty,
        the first byte of the section.
    message : str
        What is wrong, and what to do.
    """

    path: str
    section: str | None
    offset: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message} (byte {self.offset})"


def finding_of_error(path: str, error: Exception, header: Header | None = None) -> Finding:
    """What a reader refuses, as a finding: of the section that the message names, if it does.

    Parameters
    ----------
    path : str
    error : Exception
        Its message may begin with the path.
    header : Header, optional
        Of the file.
    """
    message = str(error)
    for name in (path, os.path.abspath(path)):
        message = message.removeprefix(f"{name}: ").removeprefix(f"{name} ")
    for section in header.sections if header is not None else ():
        if f"'{section.name}'" in message:
            return Finding(path, section.name, section.offset, message)
    return Finding(path, None, 0, message)
