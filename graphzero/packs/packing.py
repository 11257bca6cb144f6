"""Packs: `pack` writes the rows of mini-batches ahead of time, `PackedDataset` trains on them."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm.auto import tqdm
from typing_extensions import Unpack

from graphzero.errors import FormatError
from graphzero.graph.dataset import Dataset
from graphzero.graph.features import EdgeRows, FeatureStore
from graphzero.graph.user_input import IdArray
from graphzero.io.prefetch import Prefetch
from graphzero.io.row_io import RowKey, RowSource, managed_bytes, row_sources
from graphzero.loader.arguments import DatasetOptions
from graphzero.loader.neighbor_dataset import NeighborDataset
from graphzero.loader.preparation import plan_iteration
from graphzero.loader.states import differences
from graphzero.packs.pack_file import OFFSETS, OPTIONS, PackInfo, file_key, open_parts
from graphzero.sampling.order import Share
from graphzero.sampling.sampler import TypedSubgraph
from graphzero.store.format import FLAG_VECTOR, MAGIC, FileWriter, layout
from graphzero.store.outputs import Output, check_outputs, files_of_dataset
from graphzero.units import as_count

_PREFIX_STEP_BYTES = 4 << 20  # of resident rows, copied in one step


class _Packing(NeighborDataset):
    """Mini-batches of all ranks, with the attributes that are packed: of those in `first`, the rows
    from these on.
    """

    first: Mapping[RowKey, int] = {}

    def row_sources(self, epoch: int) -> dict[RowKey, RowSource]:
        """The row files that the strategy of the plan reads.

        Other rows come through the page cache; weights and times that drive sampling are in the
        files of the graph, beside the lists that are sampled.
        """
        return {
            key: _beyond(source, self.first[key]) if key in self.first else source
            for key, source in super().row_sources(epoch).items()
            if source.is_managed and source.num_bytes > 0 and not isinstance(source.store, EdgeRows)
        }


def _beyond(source: RowSource, first: int) -> RowSource:
    """A source without the first rows."""

    def rows_of(batch: int, subgraph: TypedSubgraph) -> IdArray:
        rows = source.rows_of(batch, subgraph)
        return rows[rows >= first]

    return replace(source, rows_of=rows_of, numbering=(source.numbering, first), prefix_bytes=0)


# Names and fingerprints


def _short_digest(identity: tuple[object, ...]) -> str:
    return hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]


def digest_of_graph(dataset: Dataset) -> str:
    """Fingerprint of what is sampled: of a typed graph, all edge types and orders of nodes.

    It is made from the headers.
    """
    if not dataset.is_typed:
        return _short_digest(dataset.graph.identity)
    graphs = tuple(("__".join(t), edges.graph.identity) for t, edges in dataset.edges.items())
    orders = tuple((name, nodes.order_identity) for name, nodes in dataset.nodes.items())
    return _short_digest((graphs, orders))


def digest_of_rows(store: FeatureStore | None) -> str:
    """Fingerprint of a row file, from its header. That of a ``.npy`` file has no checksum."""
    return _short_digest(() if store is None else store.identity)


def clear(main: Path, kept: Collection[str]) -> None:
    """Removes files of other packings of the same name: those beside it that are not `kept`, and
    what a killed one left unfinished, which has no header, and whose lock nobody holds.
    """
    part = rf"{re.escape(main.name.removesuffix('.gd'))}\.[0-9a-f]{{8}}-\d\d.*\.gd"
    staged = rf"\.({re.escape(main.name)}|{part})\.[0-9a-f]+\.gz-staged"
    for path in main.parent.iterdir():
        if re.fullmatch(staged, path.name):
            with suppress(OSError), open(path, "rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if file.read(8) not in MAGIC.values():
                    path.unlink()
        elif re.fullmatch(part, path.name) and path.name not in kept:
            path.unlink(missing_ok=True)


# Writing


def _resident_rows(
    batches: _Packing, sources: Mapping[RowKey, RowSource], epoch: int, prefetch: Prefetch
) -> dict[RowKey, int]:
    """How many first rows of each file are packed once; by default as many as the plan finds.

    If everything fits in memory, these are a fifth of it.
    """
    total = managed_bytes(sources)
    size = prefetch.resident_bytes(total)
    if size is None:
        size = plan_iteration(
            batches, Share(), epoch, range(batches.num_batches), batches.row_sources(epoch)
        ).resident
        size = size if size < total else total // 5
    return {
        key: min(size, total) * source.num_bytes // total // source.store.row_bytes
        for key, source in sources.items()
    }


class _RowsWriter(FileWriter):
    """One file of a pack, while it is written: resident rows, then those of the mini-batches."""

    def __init__(self, path: Path, info: PackInfo, store: FeatureStore, num_batches: int) -> None:
        options = np.frombuffer(info.encode(), np.uint8)
        sections: list[tuple[str, npt.DTypeLike, int]] = [
            (OPTIONS, np.uint8, len(options)),
            (OFFSETS, np.uint64, num_batches + 1),
        ]
        if len(store.shape) > 2:
            sections.append(("row_shape", np.int64, len(store.shape) - 1))
        sections.append(("rows", store.dtype, info.resident_rows * store.feature_dim))
        header = layout(
            "features",
            sections,
            num_nodes=info.resident_rows,
            width=store.feature_dim,
            flags=FLAG_VECTOR if len(store.shape) == 1 else 0,
        )
        super().__init__(path, header)
        with suppress(OSError):  # some file systems of networks have no locks
            fcntl.flock(self.fd, fcntl.LOCK_EX)
        self._offsets = [info.resident_rows]
        self.append(OPTIONS, options)
        if len(store.shape) > 2:
            self.append("row_shape", store.shape[1:])
        step = max(1, _PREFIX_STEP_BYTES // store.row_bytes)
        for begin in range(0, info.resident_rows, step):
            end = min(begin + step, info.resident_rows)
            store.request_rows(begin, end)
            self.append("rows", store.gather_stored(np.arange(begin, end), None, 1))

    def append_batch(self, rows: npt.NDArray[np.generic]) -> None:
        """The rows of the next mini-batch."""
        self._offsets.append(self._offsets[-1] + len(rows))
        self.resize(self._offsets[-1])
        self.append("rows", rows)

    def seal(self) -> None:
        """After the last batch."""
        self.append(OFFSETS, self._offsets)
        super().seal()


def _write_epoch(
    batches: _Packing,
    epoch: int,
    writers: Mapping[RowKey, _RowsWriter],
    advance: Callable[[], object],
) -> None:
    """Writes the rows of the mini-batches of an epoch."""
    batches.set_epoch(epoch)
    with closing(iter(batches)) as iterator:
        for sampled in iterator:
            for key, writer in writers.items():
                writer.append_batch(sampled.rows[key])
            advance()
            del sampled  # its memory is wanted for the next one


def pack(
    dataset: Dataset,
    out: str | os.PathLike[str],
    seeds: Any = None,
    fanouts: Sequence[int] | Mapping[Any, Sequence[int]] = (15, 10, 5),
    *,
    epochs: int,
    first_epoch: int = 0,
    input_time: Any = None,
    resident: int | str | float | None = None,
    overwrite: bool = False,
    progress: bool = False,
    **options: Unpack[DatasetOptions],
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
        beside it: of ``train.gd`` these are ``train.1f3a9c2b-01.gd`` and so on.
    seeds, fanouts, input_time
        As `NeighborDataset` takes them.
    epochs, first_epoch : int
        How many epochs, and the first of them.
    resident : int, str or float, optional
        The first rows of each file that will be resident in training. They are packed once and
        not for each batch. As in `Prefetch.resident`: a fraction of at most 1, or bytes (or
        ``"2GB"``), which the files divide in proportion to their sizes. Default: what memory allows
        (see `Prefetch.memory_limit`); of rows that fit in memory, a fifth.
    overwrite : bool
        Whether a file of that name may be replaced.
    progress : bool
        Show a progress bar on stderr.
    **options
        Those of `NeighborDataset`: batch_size, shuffle, drop_last, seed, num_threads, prefetch (how
        rows are read to be packed), and how neighbours are drawn; `gather` names the attributes to
        pack, of those above (default: all of them). The batches of all ranks are packed, as they
        are stored: `rank`, `world_size`, `distributed` and `feature_dtype` are options of the
        `PackedDataset`.

    Returns
    -------
    pathlib.Path
        The path of the pack: what `PackedDataset` takes.

    Raises
    ------
    FileExistsError
        If there is a file of that name, unless `overwrite`.
    OSError
        With errno and path; ``ENOSPC`` on a full disk.
    IndexError, ValueError
        As `NeighborDataset`; if there are no rows to pack, or no batches.
    """
    epochs, first_epoch = as_count(epochs, "epochs"), as_count(first_epoch, "first_epoch", 0)
    prefetch = options.pop("prefetch", None) or Prefetch()
    if resident is not None:
        prefetch = replace(prefetch, resident=resident)
    if options.get("pad") is not None:
        raise ValueError("a pack has real rows alone: give pad to PackedDataset, not to pack")
    batches = _Packing(
        dataset,
        seeds,
        fanouts,
        input_time=input_time,
        prefetch=replace(prefetch, resident=1.0),
        distributed=False,
        rank=None,
        world_size=None,
        feature_dtype=None,
        **options,  # type: ignore[misc]  # an option that stands above is an error
    )
    sources = batches.row_sources(first_epoch)
    if not sources or batches.num_batches == 0:
        raise ValueError(
            "there is nothing to pack: it takes features, other attributes of nodes with at least "
            "64 bytes a row, or attributes of edges, and seeds for at least one batch"
        )
    batches.first = first = _resident_rows(batches, sources, first_epoch, prefetch)
    path = Output("the pack", out).target  # the file itself, where `out` is a link
    check_outputs([Output("the pack", path)], files_of_dataset(dataset.paths))
    if path.exists() and not overwrite:
        reason = "the file exists: give overwrite=True (--overwrite) to replace it"
        raise FileExistsError(errno.EEXIST, reason, str(path))
    token = secrets.token_hex(4) if len(sources) > 1 else ""
    beside = [f"{path.name.removesuffix('.gd')}.{token}-{i:02d}.gd" for i in range(1, len(sources))]
    parts, graph = tuple(zip([*sources][1:], beside, strict=True)), digest_of_graph(dataset)
    num_batches = epochs * batches.num_batches
    clear(path, os.listdir(path.parent))
    bar = tqdm(total=num_batches, desc="packing", unit=" batches", disable=not progress)
    try:
        with bar, ExitStack() as stack:  # the first file is the last to get its name
            writers: dict[RowKey, _RowsWriter] = {}  # of which the first alone names the others
            for (key, source), name in zip(sources.items(), (path.name, *beside), strict=True):
                files = {"graph": graph, file_key(key): digest_of_rows(source.store)}
                info = PackInfo(
                    options=batches.options,
                    files=files,
                    first_epoch=first_epoch,
                    epochs=epochs,
                    resident_rows=first[key],
                    source=key,
                    parts=parts if not writers else (),
                    token=token,
                )
                writers[key] = _RowsWriter(path.with_name(name), info, source.store, num_batches)
                stack.enter_context(writers[key])
            for epoch in range(first_epoch, first_epoch + epochs):
                _write_epoch(batches, epoch, writers, bar.update)
    except BaseException:
        for name in beside:
            path.with_name(name).unlink(missing_ok=True)
        raise
    clear(path, beside)
    return Path(out).absolute()


def _require_same_inputs(
    path: str | os.PathLike[str], before: Mapping[str, object], now: Mapping[str, object]
) -> None:
    if differing := differences(before, now):
        raise ValueError(
            f"{os.fspath(path)} was packed with other inputs: {', '.join(differing)}: "
            f"give the dataset, seeds and times that it was packed from, or pack again"
        )


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
    **options
        gather, feature_dtype, num_threads, distributed, rank, world_size and even, as in
        `NeighborDataset`.

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
        **options: Unpack[DatasetOptions],
    ) -> None:
        self._packs = open_parts(pack)
        self._info = info = next(iter(self._packs.values())).info
        graph, sources = digest_of_graph(dataset), row_sources(dataset)
        for key, part in self._packs.items():
            rows, packed = sources[key].store if key in sources else None, part.store
            now = {"graph": graph, file_key(key): digest_of_rows(rows)}
            _require_same_inputs(pack, part.info.files, now)
            if rows is None or (rows.dtype, rows.shape[1:]) != (packed.dtype, packed.shape[1:]):
                raise FormatError(f"{packed.path} has other rows than the dataset: pack again")
        super().__init__(dataset, seeds, input_time=input_time, **info.arguments, **options)
        before = {**info.options, "packed_epochs": self.options["packed_epochs"]}
        _require_same_inputs(pack, before, self.options)

    def seed_options(self) -> dict[str, Any]:
        """Those of a `NeighborDataset`, and the epochs that were packed."""
        packed = [self._info.first_epoch, self._info.epochs]
        return {**super().seed_options(), "packed_epochs": packed}

    def row_sources(self, epoch: int) -> dict[RowKey, RowSource]:
        """Packed attributes in the pack, others in the dataset."""
        sources = super().row_sources(epoch)
        for key in self._packs.keys() & sources.keys():
            pack, rows_of = self._packs[key], sources[key].rows_of
            sources[key] = replace(
                sources[key],
                store=pack.store,
                rows_of=partial(pack.rows_of, epoch, rows_of),
                numbering=(pack.store.path, epoch),
                prefix_bytes=pack.info.resident_rows * pack.store.row_bytes,
                is_managed=True,
            )
        return sources

    def sampled_epoch(self, epoch: int) -> int:
        """The packed epoch that an epoch trains on."""
        first, count = self._info.first_epoch, self._info.epochs
        return first + (epoch - first) % count
