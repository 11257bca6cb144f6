"""Packs: `pack` writes the rows of mini-batches ahead of time, `PackedDataset` trains on them."""

from __future__ import annotations

import errno
import os
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from graphzero.errors import FormatError
from graphzero.graph.dataset import Dataset
from graphzero.graph.features import EdgeRows, FeatureStore
from graphzero.graph.user_input import IdArray
from graphzero.io.prefetch import Prefetch
from graphzero.io.row_io import RowKey, RowSource, managed_bytes, row_sources
from graphzero.loader.epochs import differences
from graphzero.loader.iteration import plan_iteration
from graphzero.loader.neighbor_dataset import NeighborDataset
from graphzero.packs.pack_file import (
    OFFSETS,
    OPTIONS,
    Pack,
    PackInfo,
    clear_leftovers,
    clear_old_parts,
    digest_of_graph,
    digest_of_rows,
    file_key,
    open_pack,
    open_parts,
    pack_header,
    part_name,
    source_name,
)
from graphzero.sampling.order import Share
from graphzero.store.atomic import require_disk_space
from graphzero.store.format import FileWriter
from graphzero.store.outputs import Output, check_outputs, files_of_dataset
from graphzero.units import as_count

if TYPE_CHECKING:
    from graphzero.graph.user_input import SamplingOptions, Unpack

_DEFAULT_RESIDENT = 0.2
_PREFIX_STEP_BYTES = 4 << 20  # of resident rows, copied in one step


@dataclass(frozen=True)
class PackedRows:
    """An attribute whose rows are packed: the first `resident_rows` once, others for each batch."""

    key: RowKey
    source: RowSource
    resident_rows: int

    @property
    def store(self) -> FeatureStore:
        """The file of the rows."""
        return self.source.store

    def beyond(self, batch: int, subgraph: Any) -> IdArray:
        """The rows of a mini-batch that are not resident."""
        rows = self.source.rows_of(batch, subgraph)
        return rows[rows >= self.resident_rows]


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
    """Epochs of a `NeighborDataset` to be packed; the arguments are those of `pack`.

    Attributes
    ----------
    packed : tuple of PackedRows
        What is packed; the first is that of the file with the pack's name.
    num_batches : int
        Batches of all packed epochs.
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
        self._batches = batches = NeighborDataset(dataset, seeds, fanouts, **options)
        self._options = {**options, "input_time": batches.input_time}
        if len(batches.options["fanouts"]) < len(batches.sampler.fanouts):
            raise ValueError(
                "two edge types have one name in a pack, source__relation__target: build the "
                "dataset with other names of types"
            )
        sources = _managed(batches.row_sources(self.first_epoch))
        if not sources:
            raise ValueError(
                "the dataset has no features to pack, nor other attributes of nodes with at least "
                "64 bytes a row, or of edges"
            )
        if batches.num_batches == 0:
            raise ValueError("there are no batches to pack: give more seeds, or a smaller batch")
        self.num_batches = batches.num_batches * self.epochs
        total = managed_bytes(sources)
        wanted = prefetch.resident_bytes(total)
        resident_bytes = self._default_resident(total) if wanted is None else min(wanted, total)
        self.packed = tuple(
            PackedRows(
                key, source, resident_bytes * source.num_bytes // total // source.store.row_bytes
            )
            for key, source in sources.items()
        )

    def _default_resident(self, total: int) -> int:
        """As many bytes as the plan finds; if everything fits in memory, a fraction of it."""
        batches, every = self._batches, range(self._batches.num_batches)
        available = plan_iteration(batches, Share(), self.first_epoch, every).resident
        sources = batches.row_sources(self.first_epoch)
        available = available * total // managed_bytes(sources)  # the share of packed attributes
        return available if available < total else int(_DEFAULT_RESIDENT * total)

    @property
    def resident_bytes(self) -> int:
        """Bytes of the first rows of each attribute, which are not repeated in the batches."""
        return sum(one.resident_rows * one.store.row_bytes for one in self.packed)

    @cached_property
    def _num_rows(self) -> list[int]:
        """Rows of each file, if all mini-batches are as large as the first."""
        batches, epoch = self._batches, self.first_epoch
        sampled = batches.sample(batches.positions(epoch, 0), epoch=epoch, batch=0).by_type
        return [
            one.resident_rows + self.num_batches * len(one.beyond(0, sampled))
            for one in self.packed
        ]

    @property
    def file_bytes(self) -> int:
        """Estimated size of all files."""
        infos = self._infos(Path("pack.gd"), "0" * 8)
        return sum(
            pack_header(one.store, rows, self.num_batches, info).file_bytes
            for one, rows, info in zip(self.packed, self._num_rows, infos, strict=True)
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
        """Raises an OSError with ``errno.ENOSPC`` unless the disk has enough space for the pack."""
        require_disk_space(
            Path(out).absolute().parent,
            self.file_bytes,
            "the pack needs about",
            ": pack fewer epochs, or keep more rows resident",
        )

    def write(
        self, out: str | os.PathLike[str], *, overwrite: bool = False, progress: bool = False
    ) -> Path:
        """Writes the pack; see `pack`."""
        path = Output("the pack", out).target  # the file itself, where `out` is a link
        check_outputs([Output("the pack", path)], files_of_dataset(self._batches.dataset.paths))
        if path.exists() and not overwrite:
            reason = "the file exists: give overwrite=True (--overwrite) to replace it"
            raise FileExistsError(errno.EEXIST, reason, str(path))
        self.check_space(path)
        clear_leftovers(path)
        infos = self._infos(path, secrets.token_hex(4))
        names = [name for _, name in infos[0].parts]
        bar = tqdm(
            total=self.num_batches,
            desc="packing",
            unit=" batches",
            file=sys.stderr,
            disable=not progress,
        )
        try:
            with bar, ExitStack() as stack:  # the first file is the last to get its name
                writers: dict[RowKey, _RowsWriter] = {}
                files = zip(self.packed, infos, self._num_rows, [path.name, *names], strict=True)
                for one, info, count, name in files:
                    header = pack_header(one.store, count, self.num_batches, info)
                    file = stack.enter_context(FileWriter(path.with_name(name), header))
                    writers[one.key] = _RowsWriter(one, file, info)
                for rows in self._rows_of_batches():
                    for key, writer in writers.items():
                        writer.append(rows[key])
                    bar.update(1)
                    del rows  # their memory is wanted for the next ones
                for writer in writers.values():
                    writer.end()
        except BaseException:
            for name in names:
                path.with_name(name).unlink(missing_ok=True)
            raise
        clear_old_parts(path, names)
        return Path(out).absolute()

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


class _RowsWriter:
    """One file of a pack, while it is written."""

    def __init__(self, of: PackedRows, file: FileWriter, info: PackInfo) -> None:
        self._file = file
        self._offsets = [of.resident_rows]
        store = of.store
        file.append(OPTIONS, np.frombuffer(info.encode(), np.uint8))
        if len(store.shape) > 2:
            file.append("row_shape", store.shape[1:])
        step = max(1, _PREFIX_STEP_BYTES // store.row_bytes)
        for begin in range(0, of.resident_rows, step):
            end = min(begin + step, of.resident_rows)
            store.request_rows(begin, end)
            file.append("rows", store.gather_stored(np.arange(begin, end), None, 1))

    def append(self, rows: npt.NDArray[Any]) -> None:
        """The rows of the next batch."""
        self._offsets.append(self._offsets[-1] + rows.shape[0])
        if self._offsets[-1] > self._file.header.num_nodes:
            self._file.resize(self._offsets[-1])
        self._file.append("rows", rows)

    def end(self) -> None:
        """After the last batch."""
        self._file.resize(self._offsets[-1])
        self._file.append(OFFSETS, self._offsets)


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


class PackedDataset(NeighborDataset):
    """The mini-batches of a `NeighborDataset`, byte for byte, with rows from a pack.

    `graphzero.pack` writes the pack: for each batch of some epochs, the rows that are not resident,
    one after the other, so that a batch is read in one run of each file of the pack (batch-wise
    packing, Liu et al.: "DiskGNN: Bridging I/O Efficiency and Model Accuracy for Out-of-Core GNN
    Training", SIGMOD 2025). Subgraphs are sampled as in a `NeighborDataset`, and are those that
    were packed. Attributes that the pack does not have come from the dataset.

    It is used and resumed like a `NeighborDataset`. If the epochs first, ..., first + E - 1 were
    packed, epoch e trains on first + (e - first) % E: later epochs repeat the packed ones. A state
    is resumed only with the same packed epochs.

    Parameters
    ----------
    dataset : Dataset
        From which it was packed.
    pack : path-like
        What `graphzero.pack` returned: the path of a pack. It determines fanouts, batch size,
        shuffling, seed and how neighbours are drawn.
    seeds : (num_seeds,) integers, or (num_nodes,) bool, optional
        The seeds from which it was packed. Default: all nodes. Of a typed graph a pair of a node
        type and these, as in `NeighborDataset`.
    input_time : (num_seeds,) integers, optional
        Their times, if it was packed with times.
    prefetch : Prefetch
        How pages are read ahead. By default all rows are resident that the pack has only once;
        `resident` as a fraction is a fraction of these. If memory allows less, the others are
        read from the beginning of the pack.
    gather : sequence of str, optional
        Names of the attributes that mini-batches have, as in `NeighborDataset`.
    feature_dtype, num_threads, distributed, rank, world_size, even : optional
        As in `NeighborDataset`.

    Raises
    ------
    FormatError
        If the pack is truncated, foreign or corrupt.
    ValueError
        If the dataset, the seeds or their times are not those that it was packed from; the message
        names the difference.
    """

    def __init__(
        self,
        dataset: Dataset,
        pack: str | os.PathLike[str],
        seeds: Any = None,
        *,
        input_time: Any = None,
        prefetch: Prefetch | None = None,
        gather: Sequence[str] | None = None,
        feature_dtype: npt.DTypeLike | None = None,
        num_threads: int | None = None,
        distributed: bool | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        even: bool = True,
    ) -> None:
        self._pack = open_pack(pack)
        try:
            self._packs = open_parts(self._pack)
        except BaseException:
            self._pack.store.close()
            raise
        info = self._pack.info
        self._check_files(dataset)
        sampling: Any = asdict(info.sampling)
        super().__init__(
            dataset,
            seeds,
            info.options["fanouts"],
            batch_size=info.options["batch_size"],
            shuffle=info.options["shuffle"],
            drop_last=info.options["drop_last"],
            input_time=input_time,
            seed=info.options["seed"],
            # what was tuned is for the dataset's rows, and not for those of a pack
            prefetch=prefetch if prefetch is not None else Prefetch(),
            gather=gather,
            feature_dtype=feature_dtype,
            num_threads=num_threads,
            distributed=distributed,
            rank=rank,
            world_size=world_size,
            even=even,
            **sampling,
        )
        packed = {"packed_epochs": [info.first_epoch, info.epochs]}
        self._refuse(differences({**info.options, **packed}, self.options))

    def _check_files(self, dataset: Dataset) -> None:
        """Each file of the pack must have been made from the dataset's graph and row files."""
        graph, sources = digest_of_graph(dataset), row_sources(dataset)
        for key, pack in self._packs.items():
            rows = sources[key].store if key in sources else None
            now = {"graph": graph, file_key(key): digest_of_rows(rows)}
            self._refuse(differences(pack.info.files, now))
            store = pack.store
            if rows is None or (rows.dtype, rows.shape[1:]) != (store.dtype, store.shape[1:]):
                raise FormatError(f"{store.path} has other rows than the dataset: pack again")

    def _refuse(self, differing: list[str]) -> None:
        if differing:
            raise ValueError(
                f"{self._pack.store.path} was packed with other inputs: {', '.join(differing)}: "
                f"give the dataset, seeds and times that it was packed from, or pack again"
            )

    @property
    def packed_epochs(self) -> range:
        """The epochs that were packed."""
        first = self._pack.info.first_epoch
        return range(first, first + self._pack.info.epochs)

    def seed_options(self) -> dict[str, Any]:
        """Those of a `NeighborDataset`, and the epochs that were packed."""
        info = self._pack.info
        return {**super().seed_options(), "packed_epochs": [info.first_epoch, info.epochs]}

    def row_sources(self, epoch: int) -> dict[RowKey, RowSource]:
        """Packed attributes in the pack, others in the dataset."""
        return {
            key: self._packed_source(source, self._packs[key], epoch)
            if key in self._packs
            else source
            for key, source in super().row_sources(epoch).items()
        }

    def _packed_source(self, source: RowSource, pack: Pack, epoch: int) -> RowSource:
        def rows_of(batch: int, subgraph: Any) -> IdArray:
            return pack.rows_of(epoch, batch, source.rows_of(batch, subgraph))

        return replace(
            source,
            store=pack.store,
            rows_of=rows_of,
            numbering=(pack.store.path, epoch),
            prefix_bytes=pack.resident_bytes,
            is_managed=True,
        )

    def sampled_epoch(self, epoch: int) -> int:
        """The packed epoch that an epoch trains on."""
        first, count = self._pack.info.first_epoch, self._pack.info.epochs
        return first + (epoch - first) % count
