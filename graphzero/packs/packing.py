"""`pack`: samples epochs ahead of time and writes the rows of their batches contiguously."""

from __future__ import annotations

import errno
import os
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm import tqdm

from graphzero.graph.dataset import Dataset
from graphzero.graph.edge_rows import EdgeRows
from graphzero.graph.ids import IdArray, as_count
from graphzero.io.prefetch import Prefetch
from graphzero.io.row_sources import RowKey, RowSource, managed_bytes
from graphzero.loader.neighbor_dataset import NeighborDataset
from graphzero.loader.planning import plan_iteration
from graphzero.packs.pack_cost import PackCost, Reads, count_reads, mean_of, sum_of
from graphzero.packs.pack_file import (
    PackInfo,
    digest_of_graph,
    digest_of_rows,
    file_key,
    source_name,
)
from graphzero.packs.pack_parts import clear_leftovers, clear_old_parts, part_name
from graphzero.packs.pack_rows import PackedRows, RowsWriter
from graphzero.sampling.order import Share
from graphzero.store.disk_space import require_disk_space
from graphzero.store.filewriter import FileWriter
from graphzero.store.outputs import Output, check_outputs, files_of_dataset

if TYPE_CHECKING:
    from graphzero.graph.sampling_options import SamplingOptions, Unpack

__all__ = ["PackCost", "Packing", "Reads", "count_reads", "pack"]

_SAMPLED = 8  # batches, from which the cost is estimated
_DEFAULT_RESIDENT = 0.2


class _RowsBeyond(NeighborDataset):
    """Mini-batches with only those rows that are not among the first of their file."""

    def __init__(self, packed: Sequence[PackedRows], *args: Any, **options: Any) -> None:
        # whichever rank packs, it packs the mini-batches of all ranks
        super().__init__(*args, **{**options, "distributed": False})
        self._packed = tuple(packed)

    def row_sources(self, epoch: int) -> dict[RowKey, RowSource]:
        """The packed attributes, of which only the rows beyond the first ones are read."""
        del epoch
        return {
            one.key: replace(
                one.source,
                rows_of=one.beyond,
                numbering=(one.source.numbering, one.resident_rows),
                prefix_bytes=0,
            )
            for one in self._packed
        }


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
    packed : tuple of PackedRows
        What is packed; the first is that of the file with the pack's name.
    """

    def __init__(
        self,
        dataset: Dataset,
        seeds: Any = None,
        fanouts: Any = (15, 10, 5),
        *,
        epochs: int,
        first_epoch: int = 0,
        resident: int | str | float | None = None,
        **options: Any,
    ) -> None:
        self.epochs = as_count(epochs, "epochs")
        self.first_epoch = as_count(first_epoch, "first_epoch", 0)
        prefetch = options.get("prefetch") or Prefetch()
        if resident is not None:
            prefetch = replace(prefetch, resident=resident)
        options["prefetch"] = replace(prefetch, resident=1.0)
        self._batches = NeighborDataset(dataset, seeds, fanouts, **options)
        self._options = {**options, "input_time": self._batches.input_time}
        if len(self._batches.options["fanouts"]) < len(self._batches.sampler.fanouts):
            raise ValueError(
                "two edge types have one name in a pack, source__relation__target: build the "
                "dataset with other names of types"
            )
        sources = _managed(self._batches.row_sources(self.first_epoch))
        if not sources:
            raise ValueError(
                "the dataset has no features to pack, nor other attributes of nodes with at least "
                "64 bytes a row, or of edges"
            )
        self._batches_per_epoch = self._batches.num_batches
        if self._batches_per_epoch == 0:
            raise ValueError("there are no batches to pack: give more seeds, or a smaller batch")
        total = managed_bytes(sources)
        wanted = prefetch.resident_bytes(total)
        resident_bytes = self._default_resident(total) if wanted is None else min(wanted, total)
        self.packed = tuple(
            PackedRows(
                key, source, resident_bytes * source.num_bytes // total // source.store.row_bytes
            )
            for key, source in sources.items()
        )

    @property
    def resident_rows(self) -> int:
        """First rows of all files, which are packed once."""
        return sum(one.resident_rows for one in self.packed)

    def _default_resident(self, total: int) -> int:
        """As many bytes as the plan finds; if everything fits in memory, a fraction of it."""
        every = range(self._batches_per_epoch)
        room = plan_iteration(self._batches, Share(), self.first_epoch, every).resident
        sources = self._batches.row_sources(self.first_epoch)
        room = room * total // managed_bytes(sources)  # their share of resident rows
        return room if room < total else int(_DEFAULT_RESIDENT * total)

    def _rows_beyond(self, batch: int) -> list[IdArray]:
        """Of each packed attribute: rows of a batch that are not resident, ascending."""
        batches, epoch = self._batches, self.first_epoch
        sampled = batches.sample(batches.positions(epoch, batch), epoch=epoch, batch=batch)
        return [np.sort(one.beyond(batch, sampled.subgraph)) for one in self.packed]

    @cached_property
    def _estimate(self) -> tuple[list[int], Reads, Reads]:
        """Rows of each file, and reads of a full batch unpacked and packed, from some batches."""
        total = self._batches_per_epoch
        full = self._batches.num_seeds // self._batches.batch_size
        chosen = np.unique(np.linspace(0, max(full, 1) - 1, _SAMPLED).astype(int)).tolist()
        found = [self._rows_beyond(batch) for batch in chosen]
        last = self._rows_beyond(full) if total > full > 0 else None  # a short one
        num_rows = []
        for i, one in enumerate(self.packed):
            mean = sum(len(rows[i]) for rows in found) / len(found)
            of_epoch = mean * total if last is None else mean * full + len(last[i])
            num_rows.append(one.resident_rows + round(of_epoch * self.epochs))
        sizes = [one.store.row_bytes for one in self.packed]
        unpacked = [
            sum_of([count_reads(np.unique(r), b) for r, b in zip(rows, sizes, strict=True)])
            for rows in found
        ]
        packed = [
            sum_of([count_reads(np.arange(len(r)), b) for r, b in zip(rows, sizes, strict=True)])
            for rows in found
        ]
        return num_rows, mean_of(unpacked), mean_of(packed)

    @property
    def _num_rows(self) -> list[int]:
        """Estimated rows of each file."""
        return self._estimate[0]

    @cached_property
    def cost(self) -> PackCost:
        """Estimated from a few sampled batches of the first epoch."""
        num_rows, unpacked, packed = self._estimate
        batches = self._batches_per_epoch * self.epochs
        infos = self._infos(Path("pack.gd"), "0" * 8)
        files = zip(self.packed, num_rows, infos, strict=True)
        return PackCost(
            batches,
            sum(num_rows),
            sum(one.resident_rows * one.store.row_bytes for one in self.packed),
            sum(one.layout(count, batches, info).file_bytes for one, count, info in files),
            unpacked,
            packed,
        )

    def _infos(self, main: Path, token: str) -> list[PackInfo]:
        """The content of the options of each file."""
        batches, several = self._batches, len(self.packed) > 1
        graph = digest_of_graph(batches.dataset)
        infos = [
            PackInfo(
                batches.options,
                {"graph": graph, file_key(one.key): digest_of_rows(one.store)},
                self.first_epoch,
                self.epochs,
                one.resident_rows,
                source=one.key,
                token=token if several else "",
            )
            for one in self.packed
        ]
        names = [
            (one.key, part_name(main, token, number, source_name(one.key)))
            for number, one in enumerate(self.packed)
        ]
        return [replace(infos[0], parts=tuple(names[1:])), *infos[1:]]

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
        clear_leftovers(path)
        total = self.epochs * self._batches_per_epoch
        with tqdm(
            total=total, desc="packing", unit=" batches", file=sys.stderr, disable=not progress
        ) as bar:
            self._write(path, bar.update)
        return Path(out).absolute()

    def _write(self, path: Path, advance: Callable[[int], object]) -> None:
        infos = self._infos(path, secrets.token_hex(4))
        names = [name for _, name in infos[0].parts]
        batches = self.epochs * self._batches_per_epoch
        try:
            with ExitStack() as stack:  # the first file is the last to get its name
                writers: dict[RowKey, RowsWriter] = {}
                files = zip(self.packed, infos, self._num_rows, [path.name, *names], strict=True)
                for one, info, count, name in files:
                    header = one.layout(count, batches, info)
                    file = stack.enter_context(FileWriter(path.with_name(name), header))
                    writers[one.key] = RowsWriter(one, file, info)
                for rows in self._rows_of_batches():
                    for key, writer in writers.items():
                        writer.append(rows[key])
                    advance(1)
                    del rows  # their memory is wanted for the next ones
                for writer in writers.values():
                    writer.end()
        except BaseException:
            for name in names:
                path.with_name(name).unlink(missing_ok=True)
            raise
        clear_old_parts(path, names)

    def _rows_of_batches(self) -> Iterator[Any]:
        """The rows of all epochs in the order of the files, read ahead in the background."""
        plain = self._batches
        kind, fanouts = plain.input_type, plain.sampler.fanouts
        seeds = plain.seeds if kind is None else (kind, plain.seeds)
        batches = _RowsBeyond(self.packed, plain.dataset, seeds, fanouts, **self._options)
        for epoch in range(self.first_epoch, self.first_epoch + self.epochs):
            batches.set_epoch(epoch)
            with closing(iter(batches)) as iterator:
                for sampled in iterator:
                    yield sampled.rows
                    del sampled  # its memory is wanted for the next one


def _managed(sources: Mapping[RowKey, RowSource]) -> dict[RowKey, RowSource]:
    """The row files that the strategy of the plan reads, features first.

    Other rows come through the page cache; weights and times that drive sampling are in the files
    of the graph, beside the lists that are sampled.
    """
    found = {
        key: source
        for key, source in sources.items()
        if source.is_managed and source.num_bytes > 0 and not isinstance(source.store, EdgeRows)
    }
    return dict(sorted(found.items(), key=lambda item: item[0] != "x"))


def _check_target(path: Path, dataset: Dataset, *, overwrite: bool) -> None:
    """Refuses a target that must not be replaced, before any work."""
    check_outputs([Output("the pack", path)], files_of_dataset(dataset.paths))
    if path.exists() and not overwrite:
        reason = "the file exists: give overwrite=True (--overwrite) to replace it"
        raise FileExistsError(errno.EEXIST, reason, str(path))


def pack(
    dataset: Dataset,
    out: str | os.PathLike[str],
    seeds: Any = None,
    fanouts: Sequence[int] | Mapping[Any, Sequence[int]] = (15, 10, 5),
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
    gather: Sequence[str] | None = None,
    num_threads: int | None = None,
    overwrite: bool = False,
    progress: bool = False,
    **options: Unpack[SamplingOptions],
) -> Path:
    """Writes the rows of the batches of some epochs, for `PackedDataset` to read.

    The pack has, for each batch of a `NeighborDataset` with the same arguments, the rows that are
    not resident, in the order of the batch: of features, of other attributes of nodes with at least
    64 bytes a row, and of attributes of edges, for every node type and edge type. Other rows come
    from the dataset: smaller ones of nodes, and weights and times that drive sampling, which are in
    the files of the graph. The pack appears whole or not at all.

    Parameters
    ----------
    dataset : Dataset
    out : path-like
        The pack, a ``.gd`` file. If several attributes are packed, each but the first has a file
        beside it: of ``train.gd`` these are ``train.1f3a9c2b-01-edge_attr.gd`` and so on.
    seeds, fanouts, batch_size, shuffle, drop_last, input_time, seed, **options
        As `NeighborDataset` takes them.
    epochs, first_epoch : int
        How many epochs, and the first of them.
    resident : int, str or float, optional
        The first rows of each file that will be resident in training. They are packed once and
        not for each batch. As in `Prefetch.resident`: a fraction of at most 1, or bytes (or
        ``"2GB"``), which the files divide in proportion to their sizes. Default: what memory allows
        (see `Prefetch.memory_limit`); of rows that fit in memory, a fifth.
    prefetch : Prefetch
        How rows are read to be packed.
    gather : sequence of str, optional
        Names of the attributes to pack, of those above. Default: all of them.
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
        As `NeighborDataset`; if there are no rows to pack, or no batches.
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
        gather=gather,
        num_threads=num_threads,
        **options,
    )
    return packing.write(out, overwrite=overwrite, progress=progress)
