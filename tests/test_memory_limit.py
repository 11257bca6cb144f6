"""Features larger than memory: under a limit that the kernel keeps, and under one that is given."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import files
import numpy as np
import pytest

import graphzero as gz
from graphzero.report.tuning.limited_memory import NoMemoryGroup, memory_group

pytestmark = [
    pytest.mark.slow,
    pytest.mark.no_asan,  # its own memory is many times that of the program
]

NODES, DIM, EDGES, SEEDS = 393_216, 128, 2_000_000, 6400
FEATURES = NODES * DIM * 4  # 192 MiB
ALLOWANCE = 64 << 20
LEAST_KEPT = 8 << 20
LOADER = Path(__file__).with_name("limited_loader.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset in hot order."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("limited") / "data"
    edges = files.random_edges(NODES, EDGES)
    well_connected = np.flatnonzero(np.bincount(edges[:, 0], minlength=NODES) >= 4)
    gz.build(
        folder,
        edges=edges,
        features=rng.standard_normal((NODES, DIM), dtype=np.float32),
        splits={"train": rng.permutation(well_connected)[:SEEDS]},
        directed=True,
        order="hot",
    ).close()
    return folder


def run(folder: Path, prefix: Sequence[str] = (), **prefetch: Any) -> dict[str, Any]:
    """What the loader's process says of itself; it begins with nothing in the page cache."""
    for path in folder.iterdir():
        files.drop_from_cache(path)
    done = subprocess.run(
        [*prefix, sys.executable, str(LOADER), str(folder), json.dumps(prefetch)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def unlimited(folder: Path) -> dict[str, Any]:
    """What there is to expect, read by page faults and without a limit."""
    return run(folder, strategy="none", lookahead=0)


def run_in_group(folder: Path, own: int, **prefetch: Any) -> dict[str, Any]:
    """Under a limit of the loader's own memory, before it opens anything, and the allowance."""
    try:
        with memory_group(own + ALLOWANCE) as group:
            found = run(folder, group.prefix, **prefetch)
            assert group.kills() == 0
    except NoMemoryGroup as error:
        pytest.skip(str(error))
    return found


@pytest.mark.parametrize("memory_limit", [None, 48 << 20])
@pytest.mark.parametrize("strategy", ["auto", "uring", "pread"])
def test_a_group_of_a_third_of_the_features_is_enough(
    folder: Path, unlimited: dict[str, Any], strategy: str, memory_limit: int | None
) -> None:
    asked = {} if strategy == "auto" else {"resident": 1.0}
    found = run_in_group(
        folder, unlimited["own"], strategy=strategy, memory_limit=memory_limit, **asked
    )
    assert found["batches"] == unlimited["batches"]
    assert found["left"] <= ALLOWANCE + (1 << 20)
    assert FEATURES >= 3 * ALLOWANCE
    limit = found["left"] if memory_limit is None else memory_limit
    most = max(found["kept"])
    assert most >= LEAST_KEPT, found["io"]
    # What batches have given back is there for the next ones, and does not drive rows out.
    assert found["kept"][-1] > 0.6 * most, found["io"]
    if memory_limit is None:  # the kernel takes rows back at a peak of other memory
        assert found["growth"] < limit, found["io"]
        assert found["together"] < limit, found["io"]
    else:
        assert found["growth"] + most < limit, found["io"]


@pytest.mark.parametrize("strategy", ["auto", "uring", "pread"])
def test_a_limit_that_is_given_holds_without_a_group(
    folder: Path, unlimited: dict[str, Any], strategy: str
) -> None:
    limit = 48 << 20
    found = run(folder, strategy=strategy, resident=1.0, memory_limit=limit)
    assert found["batches"] == unlimited["batches"]
    assert found["left"] > 3 * limit
    most = max(found["kept"])
    assert most >= LEAST_KEPT, found["io"]
    # What batches have given back is there for the next ones, and does not drive rows out.
    assert found["kept"][-1] > 0.6 * most, found["io"]
    assert found["growth"] + most < limit, found["io"]
