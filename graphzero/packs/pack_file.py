"""The pack file: rows of mini-batches, one batch after the other."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.errors import FormatError
from graphzero.graph.dataset import Dataset
from graphzero.graph.features import FeatureStore
from graphzero.graph.ids import IdArray, as_count
from graphzero.graph.sampling_options import Sampling, as_fanouts, as_seed
from graphzero.sampling.order import num_batches

__all__ = ["OFFSETS", "OPTIONS", "Pack", "PackInfo", "files_of", "open_pack"]

OPTIONS, OFFSETS = "pack_options", "batch_offsets"
VERSION = 1
_SAMPLING = tuple(each.name for each in fields(Sampling))
_NEEDED = {"num_seeds", "batch_size", "fanouts", "shuffle", "drop_last", "seed", *_SAMPLING}


@dataclass(frozen=True)
class PackInfo:
    """What is in a pack.

    Attributes
    ----------
    options : mapping
        Everything that its batches are a function of, except the files.
    files : mapping
        Of "graph" and "features": a digest of sizes and checksums.
    first_epoch, epochs : int
        The epochs whose batches are packed.
    resident_rows : int
        The first rows, which are the first rows of the features; batches follow them.
    """

    options: Mapping[str, Any]
    files: Mapping[str, str]
    first_epoch: int
    epochs: int
    resident_rows: int

    @property
    def sampling(self) -> Sampling:
        """How neighbours are drawn."""
        return Sampling(**{name: self.options[name] for name in _SAMPLING})

    @property
    def batches_per_epoch(self) -> int:
        """Batches of one epoch, over all ranks."""
        named = self.options
        return num_batches(named["num_seeds"], named["batch_size"], named["drop_last"])

    def encode(self) -> bytes:
        """The content of the section 'pack_options'."""
        return json.dumps({"version": VERSION, **asdict(self)}).encode()

    @staticmethod
    def decode(data: bytes) -> PackInfo:
        """The inverse of `encode`.

        Raises
        ------
        ValueError
            If the bytes were not made by `encode`.
        """
        try:
            found = json.loads(data)
            version = found.pop("version")
            if version != VERSION:
                raise ValueError(f"version {version!r}, this graphzero reads version {VERSION}")
            info = PackInfo(**found)
            missing = _NEEDED - info.options.keys()
            if missing or info.files.keys() != {"graph", "features"}:
                raise ValueError(f"does not name {sorted(missing) or 'graph and features'}")
            as_count(info.options["num_seeds"], "num_seeds", 0)
            as_count(info.options["batch_size"], "batch_size")
            as_seed(info.options["seed"])
            as_fanouts(info.options["fanouts"])
            as_count(info.first_epoch, "first_epoch", 0)
            as_count(info.epochs, "epochs")
            as_count(info.resident_rows, "resident_rows", 0)
            _ = info.sampling
        except (AttributeError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise ValueError(f"not the options of a pack ({error})") from None
        return info


@dataclass(frozen=True)
class Pack:
    """An opened pack.

    Attributes
    ----------
    store : FeatureStore
        Resident rows, then those of each batch in turn.
    info : PackInfo
    offsets : (batches + 1,) int64
        The row where each batch begins, and the end of the last.
    """

    store: FeatureStore
    info: PackInfo
    offsets: IdArray

    @property
    def resident_bytes(self) -> int:
        """Size of the first rows, which will be resident."""
        return self.info.resident_rows * self.store.row_bytes

    def rows_of(self, epoch: int, batch: int, rows: IdArray) -> IdArray:
        """Where the rows of a batch are.

        Parameters
        ----------
        epoch, batch : int
            One of the packed epochs, and one of its batches.
        rows : (n,) int64
            Rows of the features' file.

        Returns
        -------
        (n,) int64
            Rows of the pack.

        Raises
        ------
        FormatError
            If another number of rows was packed.
        """
        at = (epoch - self.info.first_epoch) * self.info.batches_per_epoch + batch
        begin, end = self.offsets[at : at + 2].tolist()
        packed = np.flatnonzero(rows >= self.info.resident_rows)
        if packed.shape[0] != end - begin:
            raise FormatError(
                f"{self.store.path} holds {end - begin:,} rows of batch {batch} of epoch {epoch}, "
                f"which has {packed.shape[0]:,}: pack again"
            )
        found = rows.copy()
        found[packed] = np.arange(begin, end)
        return found


def _digest(of: tuple[Any, ...]) -> str:
    return hashlib.sha256(json.dumps(of).encode()).hexdigest()[:16]


def files_of(dataset: Dataset) -> dict[str, str]:
    """Fingerprints of a dataset's graph and features, see `PackInfo.files`.

    They are made from the headers. The header of a ``.npy`` file has no checksum.
    """
    features = dataset.features
    return {
        "graph": _digest(dataset.graph.identity),
        "features": _digest(() if features is None else features.identity),
    }


def _section(store: FeatureStore, name: str, dtype: str) -> npt.NDArray[Any]:
    """A section of a pack besides its rows, checked."""
    found = store.read_section(name)
    if found is None:
        raise FormatError(f"{store.path} is not a pack: it lacks the section '{name}'")
    if found.dtype.str != dtype:
        raise FormatError(f"{store.path}: section '{name}' is corrupt: pack again")
    return found


def open_pack(path: str | os.PathLike[str]) -> Pack:
    """Opens a pack file; its rows are mapped, not read.

    Raises
    ------
    FormatError
        If it is truncated, foreign, corrupt, of an unknown version, or not a pack.
    OSError
        If it cannot be opened.
    """
    store = FeatureStore(path)
    try:
        try:
            info = PackInfo.decode(_section(store, OPTIONS, "|u1").tobytes())
        except FormatError:
            raise
        except ValueError as error:
            raise FormatError(f"{path}: section '{OPTIONS}': {error}") from None
        offsets = _section(store, OFFSETS, "<u8").astype(np.int64)
        if (
            offsets.shape[0] != info.epochs * info.batches_per_epoch + 1
            or offsets[0] != info.resident_rows
            or offsets[-1] != store.num_nodes
            or (offsets[1:] < offsets[:-1]).any()
        ):
            raise FormatError(f"{path}: section '{OFFSETS}' does not fit its batches: pack again")
        return Pack(store, info, offsets)
    except BaseException:
        store.close()
        raise
