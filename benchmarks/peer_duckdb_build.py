"""Session of DuckDB, inside its environment, that sorts a CSV edge list into a Parquet file."""

from __future__ import annotations

from typing import Any

import duckdb


class Session:
    """Converts one file a call."""

    def __init__(self, stopwatch: Any) -> None:
        self.stopwatch = stopwatch

    def convert(self, edges: str, out: str, threads: int) -> dict[str, Any]:
        """`COPY (SELECT ... ORDER BY src, dst) TO ...`."""
        with duckdb.connect() as connection:
            connection.execute(f"SET threads = {int(threads)}")
            with self.stopwatch:
                connection.execute(
                    f"COPY (SELECT src, dst FROM read_csv('{edges}') ORDER BY src, dst) "
                    f"TO '{out}' (FORMAT parquet)"
                )
            found = connection.execute(f"SELECT count(*) FROM read_parquet('{out}')").fetchone()
        return {"num_edges": int(found[0]), "version": duckdb.__version__}
