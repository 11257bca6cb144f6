"""`PackedDataset`: the batches of a `NeighborDataset`, with rows that were packed ahead of time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy.typing as npt

from graphzero.errors import FormatError
from graphzero.graph.dataset import Dataset
from graphzero.graph.ids import IdArray
from graphzero.io.prefetch import Prefetch
from graphzero.io.row_sources import RowKey, RowSource, row_sources
from graphzero.loader.neighbor_dataset import NeighborDataset
from graphzero.loader.resume import differences
from graphzero.packs.pack_file import (
    Pack,
    digest_of_graph,
    digest_of_rows,
    file_key,
    open_pack,
)
from graphzero.packs.pack_parts import open_parts
from graphzero.sampling.any_subgraph import AnySubgraph

__all__ = ["PackedDataset"]


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

    def packed_epoch(self, epoch: int) -> int:
        """The packed epoch that an epoch trains on."""
        first, count = self._pack.info.first_epoch, self._pack.info.epochs
        return first + (epoch - first) % count

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
        def rows_of(batch: int, subgraph: AnySubgraph) -> IdArray:
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
        return self.packed_epoch(epoch)
