"""`ReportFiles`: the files that a report is written to when a run has ended."""

from __future__ import annotations

import os
import warnings

from graphzero.report.recording import Recording
from graphzero.report.recording_file import write_recording
from graphzero.store.outputs import Output, check_outputs, writing

__all__ = ["ReportFiles", "write_page"]


class ReportFiles:
    """A recording as JSON, as a page, or both.

    Parameters
    ----------
    json, html : Output or None
    """

    def __init__(self, json: Output | None, html: Output | None) -> None:
        writers = ((json, write_recording), (html, write_page))
        self._writers = [(output, write) for output, write in writers if output is not None]

    def check(self) -> None:
        """Checks before the run that they can be written; see `check_outputs`."""
        check_outputs([output for output, _ in self._writers])

    def write(self, recording: Recording, *, error: BaseException | None = None) -> None:
        """Writes all of them, also if one fails.

        Parameters
        ----------
        recording : Recording
        error : BaseException, optional
            What has ended the run. It is worth more than a report: failures are warnings then, as
            all but the last one are always.

        Raises
        ------
        OSError
            If a file cannot be written.
        """
        failures: list[Exception] = []
        for output, write in self._writers:
            try:
                with writing(output):
                    write(output.target, recording)  # of a link, the file that it leads to
            except Exception as failure:
                failures.append(failure)
        last = failures.pop() if failures and error is None else None
        for each in failures:
            warnings.warn(_text(each), stacklevel=3)  # the line of the with statement
        if last is not None:
            raise last


def _text(failure: Exception) -> str:
    if isinstance(failure, OSError) and failure.filename is not None:
        return f"{os.fsdecode(failure.filename)}: {failure.strerror}"
    return f"the report was not written: {type(failure).__name__}: {failure}"


def write_page(path: str | os.PathLike[str], recording: Recording) -> None:
    """Writes the page of a recording."""
    from graphzero.report.page.page import write_page as write  # matplotlib takes long

    write(recording, path)
