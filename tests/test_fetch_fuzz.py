"""Fetching and opening thousands of mutated datasets: see `fuzz_fetch`.

GRAPHZERO_FUZZ_CASES is another number of cases.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

import fuzz_fetch
import numpy as np
import pytest

import graphzero as gz

pytest.importorskip("aiohttp")
pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.no_asan,  # what is tested is Python
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc"),
]


@pytest.mark.parametrize("count", [40, pytest.param(2000, marks=pytest.mark.extended)])
def test_no_store_changes_other_files_or_takes_memory_or_time(tmp_path: Path, count: int) -> None:
    edges, rows = np.arange(400).reshape(2, 200) % 90, np.ones((90, 20), np.float32)
    labels, splits = np.arange(90) % 3, {"train": np.arange(9)}
    gz.build(tmp_path / "data", edges, rows, labels, splits, edge_ids=True).close()
    with fuzz_fetch.FuzzServer(tmp_path / "data", seed=0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}"
            cases = int(os.environ.get("GRAPHZERO_FUZZ_CASES", count))
            faults = fuzz_fetch.run(url, tmp_path / "cases", cases)
            assert not faults, "\n".join(faults)
        finally:
            server.shutdown()
            thread.join()
