"""Packs: `pack` writes the rows of mini-batches ahead of time, `PackedDataset` trains on them."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm
from typing_extensions import Unpack

from graphzero.errors import FormatError
from graphzero.graph.dataset import Dataset
from graphzero.graph.features import EdgeRows, FeatureStore
from graphzero.graph.user_input import IdArray
from graphzero.io.prefetch import Prefetch
from graphzero.io.row_io import RowKey, RowSource, managed_bytes, row_sources
from graphzero.loader.arguments import DatasetOptions
from graphzero.loader.epochs import differences
from graphzero.loader.iteration import plan_iteration
from graphzero.loader.neighbor_dataset import NeighborDataset
from graphzero.packs.pack_file import (
    OFFSETS,
    OPTIONS,
    PackInfo,
    file_key,
    open_pack,
    open_parts,
    source_name,
)
from graphzero.sampling.order import Share
from graphzero.store.atomic import is_staging_name
from graphzero.store.format import FLAG_VECTOR, MAGIC, FileWriter, layout
from graphzero.store.outputs import Output, check_outputs, files_of_dataset
from graphzero.units import as_count

_DEFAULT_RESIDENT = 0.2
_TOKEN = "[0-9a-f]{8}"
_MOST_SOURCE = 60  # characters of the name of an attribute in the name of a file
_PREFIX_STEP_BYTES = 4 << 20  # of resident rows, copied in one step


class _Packing(NeighborDataset):
    """Mini-batches of all ranks; once `packed` is known, with only the rows that are packed."""

    packed: dict[RowKey, RowSource] | None = None

    def row_sources(self, epoch: int) -> dict[RowKey, RowSource]:
        """All attributes, or the packed ones."""
        return super().row_sources(epoch) if self.packed is None else self.packed


def _beyond(source: RowSource, first: int) -> RowSource:
    """A source without the first rows."""

    def rows_of(batch: int, subgraph: Any) -> IdArray:
        rows = source.rows_of(batch, subgraph)
        return rows[rows >= first]

    return replace(source, rows_of=rows_of, numbering=(source.numbering, first), prefix_bytes=0)


# Names and fingerprints


def _digest(of: tuple[Any, ...]) -> str:
    return hashlib.sha256(json.dumps(of).encode()).hexdigest()[:16]


def digest_of_graph(dataset: Dataset) -> str:
    """Fingerprint of what is sampled: of a typed graph, all edge types and orders of nodes.

    It is made from the headers.
    """
    if not dataset.is_typed:
        return _digest(dataset.graph.identity)
    graphs = tuple(("__".join(t), edges.graph.identity) for t, edges in dataset.edges.items())
    orders = tuple((name, nodes.order_identity) for name, nodes in dataset.nodes.items())
    return _digest((graphs, orders))


def digest_of_rows(store: FeatureStore | None) -> str:
    """Fingerprint of a row file, from its header. That of a ``.npy`` file has no checksum."""
    return _digest(() if store is None else store.identity)


def part_name(main: Path, token: str, number: int, source: str) -> str:
    """Name of a file beside the first: "train.pack.1f3a9c2b-01-paper.x.gd"."""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", source)[:_MOST_SOURCE]
    return f"{main.name.removesuffix('.gd')}.{token}-{number:02d}-{plain}.gd"


def clear(main: Path, kept: Collection[str] | None = None) -> None:
    """Removes what a killed packing of the same file left unfinished: it has no header, and nobody
    holds its lock.

    With `kept`, the names of the files that a new pack has beside it, also those of earlier ones.
    """
    stem = re.escape(main.name.removesuffix(".gd"))
    is_part = re.compile(rf"{stem}\.{_TOKEN}-\d\d+-.*\.gd").fullmatch
    for name in os.listdir(main.parent):
        path = main.parent / name
        if is_staging_name(name):
            final = ".".join(name[1:].split(".")[:-2])  # .NAME.random.suffix
            if final == main.name or is_part(final):
                with suppress(OSError), open(path, "rb") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if file.read(8) not in MAGIC.values():
                        path.unlink()
        elif kept is not None and is_part(name) and name not in kept:
            path.unlink(missing_ok=True)


# Writing


def _packed_sources(batches: NeighborDataset, epoch: int) -> dict[RowKey, RowSource]:
    """The row files that the strategy of the plan reads, features first.

    Other rows come through the page cache; weights and times that drive sampling are in the files
    of the graph, beside the lists that are sampled.
    """
    found = {
        key: source
        for key, source in batches.row_sources(epoch).items()
        if source.is_managed and source.num_bytes > 0 and not isinstance(source.store, EdgeRows)
    }
    if not found:
        raise ValueError(
            "the dataset has no features to pack, nor other attributes of nodes with at least "
            "64 bytes a row, or of edges"
        )
    if batches.num_batches == 0:
        raise ValueError("there are no batches to pack: give more seeds, or a smaller batch")
    return dict(sorted(found.items(), key=lambda item: item[0] != "x"))


def _resident_rows(
    batches: NeighborDataset, sources: Mapping[RowKey, RowSource], epoch: int, prefetch: Prefetch
) -> dict[RowKey, int]:
    """How many first rows of each file are packed once; by default as many as the plan finds.

    If everything fits in memory, these are a fraction of it.
    """
    total = managed_bytes(sources)
    size = prefetch.resident_bytes(total)
    if size is None:
        every = managed_bytes(batches.row_sources(epoch))
        plan = plan_iteration(batches, Share(), epoch, range(batches.num_batches))
        size = plan.resident * total // every  # the share of packed attributes
        size = size if size < total else int(_DEFAULT_RESIDENT * total)
    return {
        key: min(size, total) * source.num_bytes // total // source.store.row_bytes
        for key, source in sources.items()
    }


class _RowsWriter(FileWriter):
    """One file of a pack, while it is written: resident rows, then those of the mini-batches.

    `num_rows` is an estimate: as if all batches were as large as the first.
    """

    def __init__(
        self, path: Path, info: PackInfo, store: FeatureStore, num_rows: int, num_batches: int
    ) -> None:
        options = np.frombuffer(info.encode(), np.uint8)
        sections: list[tuple[str, Any, int]] = [
            (OPTIONS, np.uint8, len(options)),
            (OFFSETS, np.uint64, num_batches + 1),
        ]
        if len(store.shape) > 2:
            sections.append(("row_shape", np.int64, len(store.shape) - 1))
        sections.append(("rows", store.dtype, num_rows * store.feature_dim))
        flags = FLAG_VECTOR if len(store.shape) == 1 else 0
        facts = {"num_nodes": num_rows, "width": store.feature_dim, "flags": flags}
        super().__init__(path, layout("features", sections, **facts))
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

    def append_batch(self, rows: Any) -> None:
        """The rows of the next mini-batch."""
        self._offsets.append(self._offsets[-1] + len(rows))
        if self._offsets[-1] > self.header.num_nodes:
            self.resize(self._offsets[-1])
        self.append("rows", rows)

    def seal(self) -> None:
        """After the last batch."""
        self.resize(self._offsets[-1])
        self.append(OFFSETS, self._offsets)
        super().seal()


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
        beside it: of ``train.gd`` these are ``train.1f3a9c2b-01-edge_attr.gd`` and so on.
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
        With errno and path; ``ENOSPC`` before the work, if the estimated size does not fit.
    IndexError, ValueError
        As `NeighborDataset`; if there are no rows to pack, or no batches.
    """
    epochs, first_epoch = as_count(epochs, "epochs"), as_count(first_epoch, "first_epoch", 0)
    prefetch = options.pop("prefetch", None) or Prefetch()
    if resident is not None:
        prefetch = replace(prefetch, resident=resident)
    alone: Any = {"distributed": False, "rank": None, "world_size": None, "feature_dtype": None}
    whole: Any = {"input_time": input_time, "prefetch": replace(prefetch, resident=1.0), **alone}
    batches = _Packing(dataset, seeds, fanouts, **whole, **options)
    sources = _packed_sources(batches, first_epoch)
    resident_rows = _resident_rows(batches, sources, first_epoch, prefetch)
    batches.packed = {key: _beyond(source, resident_rows[key]) for key, source in sources.items()}
    path = Output("the pack", out).target  # the file itself, where `out` is a link
    check_outputs([Output("the pack", path)], files_of_dataset(dataset.paths))
    if path.exists() and not overwrite:
        reason = "the file exists: give overwrite=True (--overwrite) to replace it"
        raise FileExistsError(errno.EEXIST, reason, str(path))
    token = secrets.token_hex(4) if len(sources) > 1 else ""
    names = [part_name(path, token, i, source_name(key)) for i, key in enumerate(sources)]
    parts, graph = tuple(zip(sources, names, strict=True))[1:], digest_of_graph(dataset)
    num_batches = epochs * batches.num_batches
    first = batches.sample(batches.positions(first_epoch, 0), epoch=first_epoch, batch=0).by_type
    clear(path)
    bar = tqdm(total=num_batches, desc="packing", unit=" batches", disable=not progress)
    try:
        with bar, ExitStack() as stack:  # the first file is the last to get its name
            writers: dict[RowKey, _RowsWriter] = {}  # of which the first alone names the others
            for (key, source), name in zip(batches.packed.items(), names, strict=True):
                files = {"graph": graph, file_key(key): digest_of_rows(source.store)}
                what = (batches.options, files, first_epoch, epochs, resident_rows[key], key)
                info = PackInfo(*what, parts if not writers else (), token)
                count = resident_rows[key] + num_batches * len(source.rows_of(0, first))
                file = path.with_name(name) if writers else path
                writers[key] = _RowsWriter(file, info, source.store, count, num_batches)
                stack.enter_context(writers[key])
            for epoch in range(first_epoch, first_epoch + epochs):
                batches.set_epoch(epoch)
                with closing(iter(batches)) as iterator:
                    for sampled in iterator:
                        for key, writer in writers.items():
                            writer.append_batch(sampled.rows[key])
                        bar.update(1)
                        del sampled  # its memory is wanted for the next one
    except BaseException:
        for name in names[1:]:
            path.with_name(name).unlink(missing_ok=True)
        raise
    clear(path, names[1:])
    return Path(out).absolute()


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
        self._packs = open_parts(open_pack(pack))
        self._pack = next(iter(self._packs.values()))
        info = self._pack.info
        self._check_files(dataset)
        if options.get("prefetch") is None:  # what was tuned is for the dataset's rows
            options["prefetch"] = Prefetch()
        of_pack = ("batch_size", "shuffle", "drop_last", "seed")
        given: Any = {name: info.options[name] for name in of_pack} | asdict(info.sampling)
        super().__init__(
            dataset, seeds, info.options["fanouts"], input_time=input_time, **given, **options
        )
        self._refuse(differences({**info.options, **self._packed_epochs()}, self.options))

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

    def _packed_epochs(self) -> dict[str, Any]:
        return {"packed_epochs": [self._pack.info.first_epoch, self._pack.info.epochs]}

    def seed_options(self) -> dict[str, Any]:
        """Those of a `NeighborDataset`, and the epochs that were packed."""
        return {**super().seed_options(), **self._packed_epochs()}

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
                prefix_bytes=pack.resident_bytes,
                is_managed=True,
            )
        return sources

    def sampled_epoch(self, epoch: int) -> int:
        """The packed epoch that an epoch trains on."""
        first, count = self._pack.info.first_epoch, self._pack.info.epochs
        return first + (epoch - first) % count
