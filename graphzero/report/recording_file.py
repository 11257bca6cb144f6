"""Recordings as JSON: one object, with a version."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from graphzero.errors import FormatError
from graphzero.report.plain_values import from_plain
from graphzero.report.recording import Recording
from graphzero.report.summarize import summarize
from graphzero.store.atomic import write_atomically

__all__ = ["VERSION", "from_json", "read_recording", "to_json", "write_recording"]

VERSION = 1
_FORMAT = "graphzero.Recording"
# All recordings have them. Without them, one would pass for that of a run without mini-batches.
_REQUIRED = frozenset(
    {f"Recording.{name}" for name in ("environment", "readings", "files", "epochs")}
    | {f"Reading.{name}" for name in ("processes", "system", "group", "batches")}
    | {"FileReading.residency"}
)


def to_json(recording: Recording) -> str:
    """A recording, and the figures of its summary, as JSON.

    The keys are the names of the fields of `Recording` and `Summary`. Bytes and counts are
    integers, times are seconds; what is unknown is null.
    """
    content = {
        "format": _FORMAT,
        "version": VERSION,
        "summary": asdict(summarize(recording)),
        "recording": asdict(recording),
    }
    return json.dumps(content, allow_nan=False)


def from_json(text: str) -> Recording:
    """The recording that `to_json` has written; its summary is computed anew.

    Raises
    ------
    FormatError
        If it is none, of a version that is not known, or a field of it is missing or wrong.
    """
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"is not JSON: {error}") from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise FormatError(f"is no recording: it lacks 'format': {_FORMAT!r}")
    version = content.get("version")
    if version != VERSION:
        raise FormatError(
            f"is a recording of version {version!r}, and this graphzero reads version {VERSION}: "
            f"use the graphzero that wrote it, or record again"
        )
    try:
        return from_plain(Recording, content.get("recording"), _REQUIRED)
    except ValueError as error:
        raise FormatError(f"is a recording that is not complete: {error}") from None


def write_recording(path: str | os.PathLike[str], recording: Recording) -> None:
    """Writes `to_json` to a file, in one step."""
    write_atomically(path, to_json(recording).encode())


def read_recording(path: str | os.PathLike[str]) -> Recording:
    """Reads a file of `write_recording`.

    Raises
    ------
    FormatError
        As `from_json`, with the path.
    """
    try:
        return from_json(Path(path).read_bytes().decode())
    except (FormatError, UnicodeDecodeError) as error:
        raise FormatError(f"{os.fspath(path)} {_reason(error)}") from None


def _reason(error: ValueError) -> str:
    return str(error) if isinstance(error, FormatError) else "is not JSON: it is no text"
