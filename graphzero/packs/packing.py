"""`pack`: samples epochs ahead of time and writes the rows of their batches contiguously."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from mmap import PAGESIZE
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from graphzero.graph.dataset import Dataset
from graphzero.graph.ids import IdArray, as_count
from graphzero.io.prefetch import Prefetch
from graphzero.io.row_sources import RowKey, RowSource, managed_bytes
from graphzero.loader.neighbor_dataset import NeighborDataset
from graphzero.loader.planning import plan_iteration
from graphzero.packs.pack_file import OFFSETS, OPTIONS, PackInfo, files_of
from graphzero.sampling.order import Share
from graphzero.sampling.subgraph import Subgraph
from graphzero.store.atomic import is_staging_name
from graphzero.store.disk_space import require_disk_space
from graphzero.store.filewriter import FileWriter
from graphzero.store.format import FLAG_VECTOR, MAGIC, Header, layout
from graphzero.store.outputs import Output, check_outputs, files_of_dataset

if TYPE_CHECKING:
    from graphzero.graph.sampling_options import SamplingOptions, Unpack

__all__ = ["PackCost", "Packing", "Reads", "count_reads", "pack"]

_SAMPLED = 8  # batches, from which the cost is estimated
_DEFAULT_RESIDENT = 0.2
_READ_BYTES = 1 << 16  # the longest read past the page cache
_PREFIX_STEP_BYTES = 4 << 20  # of resident rows, copied in one step


@dataclass(frozen=True)
class Reads:
    """The disk reads for the rows of one batch.

    Attributes
    ----------
    pages, reads : float
        Distinct pages, and the runs of neighbouring pages that are read at once.
    """

    pages: float
    reads: float

    @property
    def num_bytes(self) -> float:
        """Size of the pages."""
        return self.pages * PAGESIZE


def count_reads(rows: IdArray, row_bytes: int) -> Reads:
    """Reads of ascending, distinct rows of a file whose first row begins on a page."""
    if rows.shape[0] == 0:
        return Reads(0, 0)
    first = rows * row_bytes // PAGESIZE
    last = (rows * row_bytes + row_bytes - 1) // PAGESIZE
    before = np.concatenate([[-2], last[:-1]])
    pages = last - np.maximum(first, before + 1) + 1
    runs = np.add.reduceat(pages, np.flatnonzero(first > before + 1))
    return Reads(int(pages.sum()), int((-(-runs * PAGESIZE // _READ_BYTES)).sum()))


@dataclass(frozen=True)
class PackCost:
    """The disk space that a pack takes, and the reads that it saves, estimated from some batches.

    Attributes
    ----------
    batches, rows : int
        Batches to be packed, and rows of the file.
    resident_bytes : int
        Bytes of the first rows of the features, which are not repeated in the batches.
    file_bytes : int
        Size of the pack.
    unpacked, packed : Reads
        Reads of a full batch, on average, with these rows resident.
    """

    batches: int
    rows: int
    resident_bytes: int
    file_bytes: int
    unpacked: Reads
    packed: Reads


class _RowsBeyond(NeighborDataset):
    """Mini-batches with only those rows of "x" that are not among the first of the file."""

    def __init__(self, first_row: int, *args: Any, **options: Any) -> None:
        # whichever rank packs, it packs the mini-batches of all ranks
        super().__init__(*args, gather=("x",), distributed=False, **options)
        self._first_row = first_row

    def row_sources(self, epoch: int) -> dict[RowKey, RowSource]:
        """The features, of which only the rows beyond the first ones are read."""
        features = super().row_sources(epoch)["x"]

        def rows_of(batch: int, subgraph: Subgraph) -> IdArray:
            rows = features.rows_of(batch, subgraph)
            return rows[rows >= self._first_row]

        numbering = (features.numbering, self._first_row)
        return {"x": replace(features, rows_of=rows_of, numbering=numbering, prefix_bytes=0)}


class Packing:
    """Epochs of a `NeighborDataset` to be packed: estimates the cost, and does the work.

    Parameters
    ----------
    dataset, seeds, fanouts
        As `NeighborDataset` takes them.
    epochs, first_epoch, resident
        As `pack` takes them.
    **options
        Of `NeighborDataset`.

    Attributes
    ----------
    resident_rows : int
    """

    def __init__(
        self,
        dataset: Dataset,
        seeds: Any = None,
        fanouts: Sequence[int] = (15, 10, 5),
        *,
        epochs: int,
        first_epoch: int = 0,
        resident: int | str | float | None = None,
        **options: Any,
    ) -> None:
        dataset.require_untyped("packs are made")
        features = dataset.features
        if features is None or features.row_bytes == 0:
            raise ValueError("the dataset has no features to pack")
        self._features = features
        self.epochs = as_count(epochs, "epochs")
        self.first_epoch = as_count(first_epoch, "first_epoch", 0)
        if "x" not in (options.get("gather") or ("x",)):
            raise ValueError("gather leaves out 'x', and a pack has features only: leave it out")
        prefetch = options.get("prefetch") or Prefetch()
        if resident is not None:
            prefetch = replace(prefetch, resident=resident)
        wanted = prefetch.resident_bytes(features.num_nodes * features.row_bytes)
        options["prefetch"] = replace(prefetch, resident=1.0)
        self._batches = NeighborDataset(dataset, seeds, fanouts, **options)
        self._options = {**options, "input_time": self._batches.input_time}
        self._batches_per_epoch = self._batches.num_batches
        if self._batches_per_epoch == 0:
            raise ValueError("there are no batches to pack: give more seeds, or a smaller batch")
        resident_bytes = self._default_resident() if wanted is None else wanted
        self.resident_rows = min(resident_bytes // features.row_bytes, features.num_nodes)

    def _default_resident(self) -> int:
        """As many bytes as the plan finds; if everything fits in memory, a fraction of it."""
        total = self._features.num_nodes * self._features.row_bytes
        every = range(self._batches_per_epoch)
        room = plan_iteration(self._batches, Share(), self.first_epoch, every).resident
        sources = self._batches.row_sources(self.first_epoch)
        room = room * total // managed_bytes(sources)  # the features' share of resident rows
        return room if room < total else int(_DEFAULT_RESIDENT * total)

    def _rows_beyond(self, batch: int) -> IdArray:
        """Rows of a batch of the first epoch that are not resident, ascending."""
        batches, epoch = self._batches, self.first_epoch
        sampled = batches.sample(batches.positions(epoch, batch), epoch=epoch, batch=batch)
        rows = batches.row_sources(epoch)["x"].rows_of(batch, sampled.subgraph)
        return np.sort(rows[rows >= self.resident_rows])

    @cached_property
    def cost(self) -> PackCost:
        """Estimated from a few sampled batches of the first epoch."""
        row_bytes, total = self._features.row_bytes, self._batches_per_epoch
        full = self._batches.num_seeds // self._batches.batch_size
        chosen = np.unique(np.linspace(0, max(full, 1) - 1, _SAMPLED).astype(int)).tolist()
        found = [self._rows_beyond(batch) for batch in chosen]
        mean = sum(map(len, found)) / len(found)
        of_epoch = mean * total
        if total > full > 0:  # a short last one
            of_epoch = mean * full + len(self._rows_beyond(full))
        num_rows = self.resident_rows + round(of_epoch * self.epochs)
        unpacked = [count_reads(np.unique(rows), row_bytes) for rows in found]
        packed = [count_reads(np.arange(len(rows)), row_bytes) for rows in found]
        return PackCost(
            total * self.epochs,
            num_rows,
            self.resident_rows * row_bytes,
            self._layout(num_rows).file_bytes,
            _mean(unpacked),
            _mean(packed),
        )

    @cached_property
    def _info(self) -> PackInfo:
        batches = self._batches
        return PackInfo(
            batches.options,
            files_of(batches.dataset),
            self.first_epoch,
            self.epochs,
            self.resident_rows,
        )

    def _layout(self, num_rows: int) -> Header:
        features = self._features
        sections: list[tuple[str, Any, int]] = [
            (OPTIONS, np.uint8, len(self._info.encode())),
            (OFFSETS, np.uint64, self._batches_per_epoch * self.epochs + 1),
            ("rows", features.dtype, num_rows * features.feature_dim),
        ]
        flags = FLAG_VECTOR if len(features.shape) == 1 else 0
        return layout(
            "features", sections, num_nodes=num_rows, width=features.feature_dim, flags=flags
        )

    def check_space(self, out: str | os.PathLike[str]) -> None:
        """Raises an error unless the disk has room for the pack.

        Raises
        ------
        OSError
            With ``errno.ENOSPC`` and the folder.
        """
        require_disk_space(
            Path(out).absolute().parent,
            self.cost.file_bytes,
            "the pack needs about",
            ": pack fewer epochs, or keep more rows resident",
        )

    def write(
        self, out: str | os.PathLike[str], *, overwrite: bool = False, progress: bool = False
    ) -> Path:
        """Writes the pack; see `pack`."""
        path = Output("the pack", out).target  # the file itself, where `out` is a link
        _check_target(path, self._batches.dataset, overwrite=overwrite)
        self.check_space(path)
        _clear_leftovers(path)
        total = self.epochs * self._batches_per_epoch
        with tqdm(
            total=total, desc="packing", unit=" batches", file=sys.stderr, disable=not progress
        ) as bar:
            self._write(path, bar.update)
        return Path(out).absolute()

    def _write(self, path: Path, advance: Callable[[int], object]) -> None:
        features = self._features
        num_rows, offsets = self.resident_rows, [self.resident_rows]
        with FileWriter(path, self._layout(self.cost.rows)) as writer:
            writer.append(OPTIONS, np.frombuffer(self._info.encode(), np.uint8))
            step = max(1, _PREFIX_STEP_BYTES // features.row_bytes)
            for begin in range(0, num_rows, step):
                end = min(begin + step, num_rows)
                features.request_rows(begin, end)
                writer.append("rows", features.gather_stored(np.arange(begin, end), None, 1))
            for rows in self._rows_of_batches():
                num_rows += rows.shape[0]
                offsets.append(num_rows)
                if num_rows > writer.header.num_nodes:
                    writer.resize(num_rows)
                writer.append("rows", rows)
                advance(1)
                del rows  # its memory is wanted for the next ones
            writer.resize(num_rows)
            writer.append(OFFSETS, offsets)

    def _rows_of_batches(self) -> Iterator[Any]:
        """The rows of all epochs in the order of the file, read ahead in the background."""
        plain = self._batches
        batches = _RowsBeyond(
            self.resident_rows, plain.dataset, plain.seeds, plain.sampler.fanouts, **self._options
        )
        for epoch in range(self.first_epoch, self.first_epoch + self.epochs):
            batches.set_epoch(epoch)
            with closing(iter(batches)) as iterator:
                for sampled in iterator:
                    yield sampled.rows["x"]
                    del sampled  # its memory is wanted for the next one


def _mean(found: list[Reads]) -> Reads:
    count = len(found)
    return Reads(sum(each.pages for each in found) / count, sum(e.reads for e in found) / count)


def _check_target(path: Path, dataset: Dataset, *, overwrite: bool) -> None:
    """Refuses a target that must not be replaced, before any work."""
    check_outputs([Output("the pack", path)], files_of_dataset(dataset.paths))
    if path.exists() and not overwrite:
        reason = "the file exists: give overwrite=True (--overwrite) to replace it"
        raise FileExistsError(errno.EEXIST, reason, str(path))


def _clear_leftovers(path: Path) -> None:
    """Removes unfinished files of a killed packing of the same file: they have no header."""
    for name in os.listdir(path.parent):
        if is_staging_name(name) and name.startswith(f".{path.name}."):
            staged = path.parent / name
            with open(staged, "rb") as file:
                unfinished = file.read(8) not in MAGIC.values()
            if unfinished:
                staged.unlink()


def pack(
    dataset: Dataset,
    out: str | os.PathLike[str],
    seeds: Any = None,
    fanouts: Sequence[int] = (15, 10, 5),
    *,
    epochs: int,
    first_epoch: int = 0,
    batch_size: int = 1024,
    shuffle: bool = False,
    drop_last: bool = False,
    input_time: Any = None,
    seed: int = 0,
    resident: int | str | float | None = None,
    prefetch: Prefetch | None = None,
    num_threads: int | None = None,
    overwrite: bool = False,
    progress: bool = False,
    **options: Unpack[SamplingOptions],
) -> Path:
    """Writes the feature rows of the batches of some epochs, for `PackedDataset` to read.

    The pack has, for each batch of a `NeighborDataset` with the same arguments, the rows that are
    not resident, in the order of the batch. The file appears whole or not at all.

    Parameters
    ----------
    dataset : Dataset
    out : path-like
        The pack, a ``.gd`` file.
    seeds, fanouts, batch_size, shuffle, drop_last, input_time, seed, **options
        As `NeighborDataset` takes them.
    epochs, first_epoch : int
        How many epochs, and the first of them.
    resident : int, str or float, optional
        The first rows of the features that will be resident in training. They are packed once and
        not for each batch. As in `Prefetch.resident`: a fraction of at most 1, or bytes (or
        ``"2GB"``). Default: what memory allows (see `Prefetch.memory_limit`); of features that fit
        in memory, a fifth.
    prefetch : Prefetch
        How rows are read to be packed.
    num_threads : int, optional
        Threads that sample. Default: all processors.
    overwrite : bool
        Whether a file of that name may be replaced.
    progress : bool
        Show a progress bar on stderr.

    Returns
    -------
    pathlib.Path
        The path of the pack: what `PackedDataset` takes.

    Raises
    ------
    FileExistsError
        If there is a file of that name, unless `overwrite`.
    OSError
        With errno and path; ``ENOSPC`` before the work, if the estimated size does not fit.
    IndexError, ValueError
        As `NeighborDataset`; if there are no features or no batches.
    """
    packing = Packing(
        dataset,
        seeds,
        fanouts,
        epochs=epochs,
        first_epoch=first_epoch,
        resident=resident,
        batch_size=batch_size,
        shuffle=shuffle,
        drop_last=drop_last,
        input_time=input_time,
        seed=seed,
        prefetch=prefetch,
        num_threads=num_threads,
        **options,
    )
    return packing.write(out, overwrite=overwrite, progress=progress)
