"""`DeviceRows`: the hottest rows of the features, kept on a device, and conversions there."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphzero.graph.features import FeatureStore
from graphzero.graph.user_input import IdArray, Values
from graphzero.io.row_io import RowKey, RowSource
from graphzero.loader.host_blocks import RowPlaces
from graphzero.loader.mini_batch import AnyBatch, TypedMiniBatch, as_tensor
from graphzero.sampling.sampler import PaddedHops
from graphzero.store.free_memory import available_memory
from graphzero.units import available_processors, format_bytes

_STEP_BYTES = 64 << 20  # that are copied to the device together
_MOST_OF_FREE = 0.9  # of a device's free memory: a model needs some of it
_NARROW = 4  # bytes of a number; narrower ones are converted on the device

# Rows that are on devices, as long as any loader has them, by file, device and number.
_RESIDENT: weakref.WeakValueDictionary[tuple[tuple[int, ...], torch.device, int], Tensor] = (
    weakref.WeakValueDictionary()
)


@dataclass(frozen=True)
class DeviceRows:
    """What of the rows is done on a device.

    Attributes
    ----------
    resident : dict of RowKey to (n, ...) Tensor
        The first rows of attributes, in the order of the files.
    converted : dict of RowKey to torch.dtype
        Attributes that are sent as they are stored, and converted there.
    """

    resident: Mapping[RowKey, Tensor]
    converted: Mapping[RowKey, torch.dtype]

    def sources(self, sources: Mapping[RowKey, RowSource]) -> dict[RowKey, RowSource]:
        """Where the rows are found that are sent."""
        changed = dict(sources)
        for key in self.converted:
            changed[key] = replace(changed[key], is_converted=False)
        for key, rows in self.resident.items():
            source = changed[key]
            changed[key] = replace(
                source,
                rows_of=partial(_rows_beyond, source.rows_of, len(rows)),
                numbering=(source.numbering, len(rows)),
                kind=None,  # the device puts them where hops are filled up
                first_row=len(rows),
            )
        return changed

    def splits(
        self, sources: Mapping[RowKey, RowSource], number: int, subgraph: Any
    ) -> dict[RowKey, RowPlaces]:
        """Which rows of a mini-batch are sent."""
        return {
            key: _split(
                sources[key].rows_of(number, subgraph),
                len(rows),
                sources[key].padded_hops(subgraph),
            )
            for key, rows in self.resident.items()
        }

    def finish(self, batch: AnyBatch, splits: Mapping[RowKey, Mapping[str, Tensor]]) -> AnyBatch:
        """A mini-batch on the device, with all of its rows there, as they are asked for."""
        for key, split in splits.items():
            holder, name = _holder(batch, key)
            holder[name] = _joined(self.resident[key], holder[name], split, holder.num_nodes)
        for key, dtype in self.converted.items():
            holder, name = _holder(batch, key)
            holder[name] = holder[name].to(dtype)
        return batch


NO_DEVICE_ROWS = DeviceRows({}, {})


def _holder(batch: AnyBatch, key: RowKey) -> tuple[Any, str]:
    """What has an attribute of a mini-batch, and its name there."""
    if isinstance(batch, TypedMiniBatch):
        assert isinstance(key, tuple)
        return batch[key[0]], key[1]
    assert isinstance(key, str)
    return batch, key


def _joined(
    resident: Tensor, missing: Tensor, split: Mapping[str, Tensor], num_nodes: int
) -> Tensor:
    is_padded = num_nodes > len(split["missing_at"]) + len(split["resident_at"])
    make = resident.new_zeros if is_padded else resident.new_empty
    rows = make((num_nodes, *resident.shape[1:]))
    rows.index_copy_(0, split["missing_at"].long(), missing)
    wanted = resident.index_select(0, split["resident_ids"])
    rows.index_copy_(0, split["resident_at"].long(), wanted)
    return rows


def _rows_beyond(rows_of: Any, resident: int, number: int, subgraph: Any) -> IdArray:
    rows: IdArray = rows_of(number, subgraph)
    return rows[rows >= resident]


def _split(rows: IdArray, resident: int, hops: PaddedHops | None) -> RowPlaces:
    is_resident = rows < resident
    resident_at, missing_at = np.flatnonzero(is_resident), np.flatnonzero(~is_resident)
    places = np.arange(len(rows)) if hops is None else hops.places
    return RowPlaces(
        missing_at=_as_narrow(places[missing_at]),
        resident_at=_as_narrow(places[resident_at]),
        resident_ids=_as_narrow(rows[resident_at]),
    )


def _as_narrow(numbers: IdArray) -> Values:
    """In 32 bits, where they fit: half as much to send."""
    fits = numbers.size == 0 or numbers.max() < 1 << 31
    return numbers.astype(np.int32) if fits else numbers


def device_rows(
    sources: Mapping[RowKey, RowSource],
    device: torch.device,
    device_cache: int | float | None,
    feature_dtype: np.dtype[np.float32] | None,
    expected_rows: Mapping[RowKey, int],
) -> DeviceRows:
    """What a loader keeps on its device; copies it there, unless another loader has it there.

    Parameters
    ----------
    sources : mapping
        Where rows are found, by the names of attributes.
    device : torch.device
    device_cache : int or float, optional
        Bytes, or a fraction of the features.
    feature_dtype : dtype, optional
        To which features are converted.
    expected_rows : mapping of RowKey to int
        How many rows of each a mini-batch has: those of a typed graph divide the bytes by it.

    Raises
    ------
    ValueError
        If the features are in no order whose first rows are used most; if the device does not have
        the memory.
    """
    features = {key: source for key, source in sources.items() if source.is_converted}
    resident: dict[RowKey, Tensor] = {}
    if device_cache is not None:
        total = sum(source.num_bytes for source in features.values())
        is_fraction = isinstance(device_cache, float)
        wanted = int(total * device_cache) if is_fraction else min(total, int(device_cache))
        _check_order(features)
        counts = _divided(features, wanted, expected_rows)
        _check_free(device, wanted, features, counts)
        resident = {
            key: _resident_rows(features[key].store, device, count)
            for key, count in counts.items()
            if count > 0
        }
    converted = {
        key: torch.float32
        for key, source in features.items()
        if feature_dtype is not None and source.store.dtype.itemsize < _NARROW
    }
    return DeviceRows(resident, converted)


def _check_order(features: Mapping[RowKey, RowSource]) -> None:
    for key, source in features.items():
        if not source.store.is_hot:
            raise ValueError(
                f"device_cache keeps the first rows, and those of {key!r} are in the order of the "
                f"input, in which they are no better than others: gz.reorder(path, order='hot'), "
                f"or 'graphzero reorder DIR --order hot', puts those first that batches use most"
            )


def _divided(
    features: Mapping[RowKey, RowSource], wanted: int, expected_rows: Mapping[RowKey, int]
) -> dict[RowKey, int]:
    """Rows of each attribute, in proportion to the bytes of its rows in a mini-batch."""
    weights = {
        key: max(1, expected_rows.get(key, 1) * source.store.row_bytes)
        for key, source in features.items()
    }
    counts, unused, total = {}, wanted, sum(weights.values())
    # first those that fit whole: the others divide what these leave
    for key in sorted(features, key=lambda key: features[key].num_bytes / weights[key]):
        row_bytes = max(1, features[key].store.row_bytes)
        share = unused * weights[key] // total // row_bytes
        counts[key] = min(features[key].store.num_nodes, share)
        unused -= counts[key] * row_bytes
        total -= weights[key]
    return counts


def _check_free(
    device: torch.device,
    wanted: int,
    features: Mapping[RowKey, RowSource],
    counts: Mapping[RowKey, int],
) -> None:
    new = sum(
        count * features[key].store.row_bytes
        for key, count in counts.items()
        if _resident_key(features[key].store, device, count) not in _RESIDENT
    )
    if device.type == "cpu":
        free = available_memory()
    elif hasattr(module := torch.get_device_module(device), "mem_get_info"):
        free = int(module.mem_get_info(device)[0])
    else:
        return
    if new > _MOST_OF_FREE * free:
        raise ValueError(
            f"device_cache of {format_bytes(wanted)} does not fit on {device}, which has "
            f"{format_bytes(free)} free, and a model needs some of it: give a smaller one"
        )


def _resident_key(
    store: FeatureStore, device: torch.device, count: int
) -> tuple[tuple[int, ...], torch.device, int]:
    status = os.stat(store.mapping.held_at)
    return (status.st_dev, status.st_ino, status.st_mtime_ns, store.origin), device, count


def _resident_rows(store: FeatureStore, device: torch.device, count: int) -> Tensor:
    key = _resident_key(store, device, count)
    rows = _RESIDENT.get(key)
    if rows is not None:
        return rows
    step = max(1, _STEP_BYTES // max(1, store.row_bytes))
    parts = (np.arange(begin, min(begin + step, count)) for begin in range(0, count, step))
    for ids in parts:
        part = as_tensor(store.gather_stored(ids, None, available_processors()))
        if rows is None:
            rows = torch.empty((count, *part.shape[1:]), dtype=part.dtype, device=device)
        rows[int(ids[0]) : int(ids[0]) + len(ids)] = part
    assert rows is not None
    return _RESIDENT.setdefault(key, rows)
