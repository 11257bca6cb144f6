"""Files of Arrow's IPC format, Feather among them, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from graphzero.ingest.sources.arrow_table import ArrowTable

__all__ = ["open_ipc"]

_FILE, _FEATHER_1 = b"ARROW1", b"FEA1"
_END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


def _options(indices: Sequence[int] | None) -> pa.ipc.IpcReadOptions:
    # pyarrow's own threads would decompress whole batches ahead.
    included = None if indices is None else sorted(set(indices))
    return pa.ipc.IpcReadOptions(included_fields=included, use_threads=False)


def _check_end(path: Path) -> None:
    """A stream that was cut short between two batches looks complete to pyarrow."""
    with open(path, "rb") as file:
        file.seek(-len(_END_OF_STREAM), 2)
        if file.read() != _END_OF_STREAM:
            raise ValueError(
                f"{path} is not a complete Arrow IPC stream: it has no end-of-stream marker. It "
                f"was cut short, or its writer was not closed: write it again"
            )


def open_ipc(path: Path) -> ArrowTable:
    """The records of an Arrow IPC file or stream, mapped, batch by batch.

    Raises
    ------
    ValueError
        If it is neither, or is not complete.
    OSError
        If it cannot be read.
    """
    with open(path, "rb") as file:
        magic = file.read(len(_FILE))
    if magic.startswith(_FEATHER_1):
        raise ValueError(
            f"{path} is a Feather file of version 1: write it again with "
            f"pyarrow.feather.write_feather, which writes version 2"
        )
    is_file = magic == _FILE
    kind = "file" if is_file else "stream"

    def opened(indices: Sequence[int] | None) -> pa.ipc.RecordBatchReader:
        open_kind = pa.ipc.open_file if is_file else pa.ipc.open_stream
        return open_kind(pa.memory_map(str(path)), options=_options(indices))

    def read(indices: Sequence[int], max_records: int) -> Iterator[pa.RecordBatch]:
        source = opened(indices)
        batches = map(source.get_batch, range(source.num_record_batches)) if is_file else source
        names = [schema.names[index] for index in indices]
        for name in names:
            if schema.names.count(name) > 1:
                raise ValueError(f"{path} has more than one column {name!r}: rename one of them")
        yield from map(lambda batch: batch.select(names), batches)  # keeps no batch itself

    try:
        schema = opened(None).schema
        if not is_file:
            _check_end(path)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is not a complete Arrow IPC {kind}: {error}") from None
    return ArrowTable(str(path), schema, read, None)
