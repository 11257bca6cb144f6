"""Arrays of tasks on edges, as ``.npy`` files in the folder ``links`` of a dataset."""

from __future__ import annotations

import errno
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from graphzero.ingest.sources.array_opening import open_array
from graphzero.ingest.sources.streamed_array import AnyArray, pieces_of
from graphzero.store.atomic import sync_folder

__all__ = ["FOLDER", "discard", "publish_seeds", "stage_seeds"]

FOLDER = "links"
_MARK = ".graphzero"  # in a folder that this has written, and may replace
_PIECE = 1 << 16


def stage_seeds(folder: Path, seeds: Mapping[str, Any]) -> Path | None:
    """Writes the arrays beside the dataset, not yet under their final name.

    Parameters
    ----------
    folder : pathlib.Path
        Of the dataset.
    seeds : mapping
        By split and name, perhaps with an edge type between.

    Returns
    -------
    pathlib.Path or None
        None if there are none.

    Raises
    ------
    ValueError
        If an array is damaged.
    OSError
        If the disk is full, or there is a folder of this name that is not from an import.
    """
    final = folder / FOLDER
    if not seeds:
        return None
    if final.exists() and not (final / _MARK).exists():
        raise FileExistsError(errno.EEXIST, "this is not from an import: move it away", str(final))
    _sweep(folder)
    staged = _staged(folder, os.getpid())
    try:
        _write_all(staged, seeds)
        (staged / _MARK).touch()
    except BaseException:
        discard(staged)
        raise
    return staged


def publish_seeds(folder: Path, staged: Path | None) -> None:
    """Puts the arrays in the place of those of an earlier import, which go in any case."""
    final, old = folder / FOLDER, folder / f".{FOLDER}.{os.getpid()}.old"
    if (final / _MARK).exists():
        os.rename(final, old)
    if staged is not None:
        os.rename(staged, final)
        sync_folder(folder)
    discard(old)


def discard(staged: Path | None) -> None:
    """Removes arrays that are not to be published."""
    if staged is not None:
        shutil.rmtree(staged, ignore_errors=True)


def _staged(folder: Path, pid: int) -> Path:
    return folder / f".{FOLDER}.{pid}.new"


def _sweep(folder: Path) -> None:
    """Removes what imports have left that were killed."""
    for path in folder.glob(f".{FOLDER}.*"):
        pid = path.name.split(".")[2]
        if pid.isdecimal() and (int(pid) == os.getpid() or not _is_running(int(pid))):
            discard(path)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _write_all(folder: Path, values: Mapping[Any, Any]) -> None:
    folder.mkdir(parents=True)
    for name, value in values.items():
        part = "__".join(name) if isinstance(name, tuple) else name
        if not part or os.sep in part or part.startswith("."):
            raise ValueError(f"{part!r} cannot be the name of a file")
        if isinstance(value, Mapping):
            _write_all(folder / part, value)
        else:
            _write(folder / f"{part}.npy", value)


def _write(path: Path, value: Any) -> None:
    with open(path, "xb") as file:
        if isinstance(value, list):
            _write_texts(file, value)
        else:
            _write_numbers(file, open_array(value, path.stem))
        file.flush()
        os.fsync(file.fileno())


def _write_numbers(file: BinaryIO, array: AnyArray) -> None:
    _write_header(file, array.dtype, array.shape)
    for piece in pieces_of(array, max(1, _PIECE // max(1, math.prod(array.shape[1:])))):
        file.write(np.ascontiguousarray(piece).data)


def _write_texts(file: BinaryIO, texts: list[str]) -> None:
    longest = max(map(len, texts), default=1)
    dtype = np.dtype(f"<U{max(1, longest)}")
    _write_header(file, dtype, (len(texts),))
    for piece in _pieces(texts, dtype):
        file.write(piece.tobytes())


def _pieces(texts: list[str], dtype: np.dtype[Any]) -> Iterator[npt.NDArray[Any]]:
    for begin in range(0, len(texts), _PIECE):
        yield np.array(texts[begin : begin + _PIECE], dtype)


def _write_header(file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    descr = np.lib.format.dtype_to_descr(dtype)
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
