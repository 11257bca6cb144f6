"""The files of an inference: the rows of a layer, and how far an interrupted one has come."""

from __future__ import annotations

import json
import os
import shutil
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from graphzero.errors import FormatError
from graphzero.graph.nodes_and_edges import NodeStore
from graphzero.loader.states import differences
from graphzero.store.atomic import folder_lock, write_at, write_atomically
from graphzero.store.format import BFLOAT16, FLAG_VECTOR, Header, as_dtype, encode_header, layout

_RECORD_EVERY = 5.0  # seconds
_RECORD = "progress.json"


class Folder:
    """The folder of an unfinished inference, with what is done."""

    def __init__(self, path: Path, options: dict[str, object]) -> None:
        self.path, self.options = path, options
        self.done: dict[str, bool] = {}  # files, and whether they have rows
        self.state: RowsState | None = None  # of the file that is being written

    def load(self) -> None:
        """Continues what was saved; raises FormatError where it is damaged."""
        record = self.path / _RECORD
        with suppress(ValueError, TypeError, RecursionError):
            crc, content = json.loads(record.read_bytes())
            if crc == zlib.crc32(json.dumps(content).encode()):
                self.state = RowsState(**content["state"]) if content["state"] else None
                self.options, self.done = content["options"], content["done"]
                return
        raise FormatError(f"{record} is damaged, or of another version: resume=False begins anew")

    def save(self) -> None:
        """Writes down what is done."""
        state = None if self.state is None else asdict(self.state)
        content = {"options": self.options, "done": self.done, "state": state}
        crc = zlib.crc32(json.dumps(content).encode())
        write_atomically(self.path / _RECORD, json.dumps([crc, content]).encode())

    def file(self, name: str, nodes: NodeStore, dtype: str) -> RowsFile:
        """A file of rows of some nodes, as far as it is written."""
        if self.state is None or self.state.name != name:
            self.state = RowsState(name)
        return RowsFile(self, self.path / name, nodes, self.state, dtype)


@dataclass
class RowsState:
    """How far a file of rows is written."""

    name: str
    rows: int = 0
    crc: int = 0
    shape: list[int] | None = None  # of a row, once there is one


class RowsFile:
    """A ``.gd`` file that is written from its first row to its last, and can be continued."""

    def __init__(
        self, folder: Folder, path: Path, nodes: NodeStore, state: RowsState, dtype: str
    ) -> None:
        self._folder, self._nodes, self._state = folder, nodes, state
        self._dtype = as_dtype(dtype)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._saved = time.monotonic()
        self._rank = _rank_of(nodes)
        self._header: Header | None = None
        if state.shape is not None:
            self._header = self._lay_out(state.shape)

    @property
    def rows(self) -> int:
        """Rows that are there."""
        return self._state.rows

    def _lay_out(self, shape: Sequence[int]) -> Header:
        count, width = self._nodes.num_nodes, int(np.prod(shape))
        arrays: list[tuple[str, npt.DTypeLike, int]] = [("rows", self._dtype, count * width)]
        if self._rank is not None:
            arrays.append(("node_rank", self._rank.dtype, count))
        flags = 0 if shape else FLAG_VECTOR
        header = layout("features", arrays, num_nodes=count, width=width, flags=flags)
        os.posix_fallocate(self._fd, 0, header.file_bytes)
        return header

    def append(self, rows: npt.NDArray[np.float32]) -> None:
        """Adds the next rows."""
        shape, state = list(rows.shape[1:]), self._state
        if self._header is None:
            state.shape = shape
            self._header = self._lay_out(shape)
        if shape != state.shape:
            raise ValueError(f"a layer returned rows of shape {state.shape}, now {shape}")
        stored = self._as_stored(np.ascontiguousarray(rows).reshape(-1))
        data = stored.view(np.uint8).data
        offset = self._header.sections[0].offset + (
            state.rows * self._dtype.itemsize * self._header.width
        )
        write_at(self._fd, data, offset)
        state.crc = zlib.crc32(data, state.crc)
        state.rows += len(rows)
        if time.monotonic() - self._saved > _RECORD_EVERY:
            os.fdatasync(self._fd)
            self._folder.save()
            self._saved = time.monotonic()

    def _as_stored(self, numbers: npt.NDArray[np.float32]) -> npt.NDArray[np.generic]:
        """Numbers in the dtype of the file; to the nearest, ties to even."""
        if self._dtype != BFLOAT16:
            return numbers.astype(self._dtype, copy=False)
        return torch.from_numpy(numbers).bfloat16().view(torch.int16).numpy()

    def finish(self) -> None:
        """Writes the rest of the file."""
        assert self._header is not None
        sections = [replace(self._header.sections[0], crc=self._state.crc)]
        if self._rank is not None:
            section, data = self._header.sections[1], self._rank.view(np.uint8).data
            write_at(self._fd, data, section.offset)
            sections.append(replace(section, crc=zlib.crc32(data)))
        header = replace(self._header, sections=tuple(sections))
        write_at(self._fd, memoryview(encode_header(header)), 0)
        os.fsync(self._fd)

    def __enter__(self) -> RowsFile:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _rank_of(nodes: NodeStore) -> npt.NDArray[np.generic] | None:
    """The table by which files in the stored order of some nodes are read by the user's ids."""
    if nodes._order is None:
        return None
    rank: npt.NDArray[np.generic] = nodes._order._view("node_rank")
    return rank


@contextmanager
def working_folder(
    target: Path, options: dict[str, object], resume: bool | None
) -> Iterator[Folder]:
    """The folder beside the result, which stays if the inference is interrupted.

    Raises
    ------
    ValueError
        If there is an interrupted inference, and nobody has said whether to continue it; or it was
        another one.
    FormatError
        If the record of an interrupted inference, which is to be continued, is damaged.
    OSError
        If another process works there.
    """
    path = target.with_name(target.name + ".unfinished")
    path.mkdir(exist_ok=True)
    with ExitStack() as stack:
        try:
            stack.enter_context(folder_lock(path))
        except BlockingIOError as error:
            reason = "another process computes this result: wait until it ends"
            raise BlockingIOError(error.errno, reason, os.fspath(target)) from None
        folder = Folder(path, options)
        record = path / _RECORD
        if record.exists() and resume is None:
            raise ValueError(
                f"{path} has an inference that was interrupted: resume=True continues it, if the "
                f"model and the functions are the same, and resume=False begins anew"
            )
        if record.exists() and resume:
            folder.load()
            if differing := differences(folder.options, options):
                raise ValueError(
                    f"{path} has an inference that was another one: {', '.join(differing)}; "
                    f"resume=False begins anew"
                )
        else:
            for file in path.iterdir():
                file.unlink()
        try:
            yield folder
        except BaseException:
            if not record.exists():  # nothing to continue
                shutil.rmtree(path)
            raise
        shutil.rmtree(path)
