"""The files of a pack: rows of mini-batches, one batch after the other, one file an attribute.

The first file names the others, which stand beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphzero.errors import FormatError
from graphzero.graph.features import FeatureStore
from graphzero.graph.user_input import IdArray, Sampling, as_seed
from graphzero.io.row_io import RowKey
from graphzero.sampling.order import num_batches
from graphzero.sampling.sampler import TypedSubgraph
from graphzero.units import as_count

OPTIONS, OFFSETS = "pack_options", "batch_offsets"
# What the checks of options of a file may raise.
_NOT_READ = (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError)
_SAMPLING = tuple(field.name for field in fields(Sampling))
# What counts batches and rows, and the least that it may be.
_COUNTS = {"num_seeds": 0, "batch_size": 1, "first_epoch": 0, "epochs": 1, "resident_rows": 0}


@dataclass(frozen=True)
class PackInfo:
    """What is in a pack.

    Attributes
    ----------
    options : mapping
        Everything that its batches are a function of, except the files.
    files : mapping
        Of "graph", and of the row file by its `file_key`: a digest of sizes and checksums.
    first_epoch, epochs : int
        The epochs whose batches are packed.
    resident_rows : int
        The first rows, which are the first rows of the row file; batches follow them.
    source : RowKey
        Of which attribute the rows are.
    parts : tuple of (RowKey, str)
        In the first file of a pack: the other attributes, and the names of the files beside it.
    token : str
        The same in all files of a pack; empty if there is only this one.
    """

    options: Mapping[str, Any]
    files: Mapping[str, str]
    first_epoch: int
    epochs: int
    resident_rows: int
    source: RowKey = "x"
    parts: tuple[tuple[RowKey, str], ...] = ()
    token: str = ""

    @property
    def arguments(self) -> dict[str, Any]:
        """Those of a `NeighborDataset` with these batches, besides seeds and their times."""
        names = (*_SAMPLING, "fanouts", "batch_size", "shuffle", "drop_last", "seed")
        return {name: self.options[name] for name in names}

    @property
    def batches_per_epoch(self) -> int:
        """Batches of one epoch, over all ranks."""
        named = self.options
        return num_batches(named["num_seeds"], named["batch_size"], named["drop_last"])

    def encode(self) -> bytes:
        """The content of the section 'pack_options'."""
        content = {"version": 2, **asdict(self)}
        if (self.source, self.parts, self.token) == ("x", (), ""):
            content["version"] = 1  # as it was before packs had several files
            del content["source"], content["parts"], content["token"]
        return json.dumps(content).encode()

    @staticmethod
    def decode(data: bytes, path: str | os.PathLike[str] = "") -> PackInfo:
        """The inverse of `encode`.

        Raises
        ------
        FormatError
            If the bytes were not made by `encode`; with the path of their file.
        """
        try:
            content = json.loads(data)
            if (version := content.pop("version")) not in (1, 2):  # 1 is "x" alone, in one file
                raise ValueError(f"version {version!r}, this graphzero reads versions 1 and 2")
            for name in content.keys() & {"source", "parts"}:
                content[name] = _as_key(content[name])
            info = PackInfo(**content)
            for name, least in _COUNTS.items():
                as_count({**info.options, **vars(info)}[name], name, least)
            as_seed(info.options["seed"])
            Sampling(**{name: info.options[name] for name in _SAMPLING})
            # The dataset that reads the pack checks the values of the others.
            _ = info.arguments, info.batches_per_epoch, info.files.items()
            for key, name in ((info.source, ""), *info.parts):
                file_key(key)
                if os.path.basename(name) != name or "\0" in name:
                    raise ValueError(f"{name!r:.80} is no file beside it")
        except _NOT_READ as error:
            reason = f"section '{OPTIONS}' has not the options of a pack ({error}): pack again"
            raise FormatError(f"{path}: {reason}") from None
        return info


def _as_key(value: Any) -> Any:
    """Tuples, where JSON has lists."""
    return tuple(map(_as_key, value)) if isinstance(value, list) else value


def source_name(source: RowKey) -> str:
    """As one word: "x", "paper.x" or "author__writes__paper.edge_attr"."""
    if isinstance(source, str):
        return source
    kind, name = source
    return f"{kind if isinstance(kind, str) else '__'.join(kind)}.{name}"


def file_key(source: RowKey) -> str:
    """What the digest of a row file is called in `PackInfo.files`."""
    return "features" if source == "x" else source_name(source)


class Pack:
    """An opened file of a pack; its rows are mapped, not read.

    Attributes
    ----------
    store : FeatureStore
        Resident rows, then those of each batch in turn.
    info : PackInfo
    offsets : (batches + 1,) int64
        The row where each batch begins, and the end of the last.

    Raises
    ------
    FormatError
        If it is truncated, foreign, corrupt, of an unknown version, or not a pack.
    OSError
        If it cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.store = FeatureStore(path)
        self.info = info = PackInfo.decode(self._section(OPTIONS, np.uint8).tobytes(), path)
        self.offsets = offsets = self._section(OFFSETS, np.uint64).astype(np.int64)
        if (
            offsets.shape[0] != info.epochs * info.batches_per_epoch + 1
            or offsets[0] != info.resident_rows
            or offsets[-1] != self.store.num_nodes
            or (offsets[1:] < offsets[:-1]).any()
        ):
            raise FormatError(f"{path}: section '{OFFSETS}' does not fit its batches: pack again")

    def _section(self, name: str, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
        section = self.store.read_section(name)
        if section is None or section.dtype != dtype:
            wanted = f"section '{name}' of {np.dtype(dtype)}"
            raise FormatError(f"{self.store.path} is not a pack: it lacks the {wanted}")
        return section

    @property
    def files(self) -> list[Path]:
        """Every file of the pack, from this one, which is the first of them."""
        folder = Path(os.path.realpath(self.store.path)).parent
        return [Path(self.store.path), *(folder / name for _, name in self.info.parts)]

    def rows_of(
        self,
        epoch: int,
        rows_of: Callable[[int, TypedSubgraph], IdArray],
        batch: int,
        subgraph: TypedSubgraph,
    ) -> IdArray:
        """Where the rows of a batch are.

        Parameters
        ----------
        epoch : int
            One of the packed epochs.
        rows_of : callable
            From a batch and its subgraph to (n,) int64: rows of the file that was packed.
        batch : int
        subgraph : TypedSubgraph

        Returns
        -------
        (n,) int64
            Rows of the pack.

        Raises
        ------
        FormatError
            If another number of rows was packed.
        """
        position = (epoch - self.info.first_epoch) * self.info.batches_per_epoch + batch
        begin, end = self.offsets[position : position + 2].tolist()
        rows = rows_of(batch, subgraph).copy()
        packed = np.flatnonzero(rows >= self.info.resident_rows)
        if packed.shape[0] != end - begin:
            raise FormatError(
                f"{self.store.path} holds {end - begin:,} rows of batch {batch} of epoch {epoch}, "
                f"which has {packed.shape[0]:,}: pack again"
            )
        rows[packed] = np.arange(begin, end)
        return rows


def open_parts(path: str | os.PathLike[str]) -> dict[RowKey, Pack]:
    """Opens all files of a pack, by what they have rows of; the first among them.

    Raises
    ------
    OSError, FormatError
        As `Pack`, for each file; if one is of another pack.
    """
    main = Pack(path)
    packs: dict[RowKey, Pack] = {main.info.source: main}
    for (source, _), file in zip(main.info.parts, main.files[1:], strict=True):
        packs[source] = part = Pack(file)
        expected = replace(
            main.info,
            source=source,
            parts=(),
            files=part.info.files,
            resident_rows=part.info.resident_rows,
        )
        if part.info != expected:
            raise FormatError(f"{file} is of another pack than {path}: pack again")
    return packs
