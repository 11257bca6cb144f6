"""A file of random rows, and how tests read it past the page cache."""

from __future__ import annotations

import numpy as np

from graphzero import _core


class RowsFile:
    """A file of random rows, its mapping, and the rows as they must come."""

    def __init__(self, path, num_rows, row_bytes, origin=0):
        rng = np.random.default_rng(row_bytes)
        self.path, self.origin, self.row_bytes, self.num_rows = path, origin, row_bytes, num_rows
        self.rows = rng.integers(0, 256, (num_rows, row_bytes), dtype=np.uint8)
        path.write_bytes(bytes(origin) + self.rows.tobytes())
        self.mapping = _core.Mapping(path)

    def reader(self, engine="pread", **options):
        return _core.DirectReader(
            self.mapping, self.origin, self.row_bytes, self.num_rows, engine=engine, **options
        )


def first_rows(reader, count):
    """The page map with which the first rows are in memory, and no other that begins a page."""
    end = reader.origin + count * reader.row_bytes
    return np.ones(-(-end // 4096) - reader.origin // 4096 if count else 0, np.uint8)


def place(fetched, out, threads=1, from_dtype=0):
    fills = _core.Fills(1)
    fills.add_fetched(0, fetched, out, from_dtype)
    fills.run(_core.Team(threads), _core.Stop())


def gather(reader, rows, page_map=None, gap=0):
    rows = np.asarray(rows, dtype=np.int64)
    out = np.full(len(rows) * reader.row_bytes, 0xEE, dtype=np.uint8)
    fetched = reader.fetch(rows, page_map, gap)
    place(fetched, out)
    return out.reshape(len(rows), reader.row_bytes), fetched.counts
