"""Nobody is killed for what graphzero keeps, whatever else the process allocates."""

from __future__ import annotations

import json
import subprocess
import sys
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

NODES, DIM, EDGES, SEEDS = 524_288, 128, 3_000_000, 6400  # 256 MiB of features
MB = 1 << 20
PROGRAM = Path(__file__).with_name("limited_training.py")
OWN = """
import sys
sys.path.append(sys.argv[1])
import torch, graphzero
from benchmarks.meter import PeakAnonymous
with PeakAnonymous() as peak: pass
print(peak.peak)
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two datasets in hot order, and a pack of the first."""
    found = {}
    for name in ("first", "second"):
        rng = np.random.default_rng(len(found))
        folder = tmp_path_factory.mktemp("beside") / name
        edges = files.random_edges(NODES, EDGES)
        well_connected = np.flatnonzero(np.bincount(edges[:, 1], minlength=NODES) >= 4)
        train = rng.permutation(well_connected)[:SEEDS]
        features = rng.standard_normal((NODES, DIM), dtype=np.float32)
        with gz.build(
            folder,
            edges=edges,
            features=features,
            splits={"train": train},
            directed=True,
            order="hot",
        ) as ds:
            if not found:
                options: dict[str, Any] = {"epochs": 1, "batch_size": 256, "resident": 0.4}
                found["pack"] = str(gz.pack(ds, folder / "p.gd", train, [10, 5], **options))
        found[name] = str(folder)
    return found


@pytest.fixture(scope="module")
def own() -> int:
    """Memory of a process that has imported what it needs."""
    root = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", OWN, root], capture_output=True, text=True, check=True, cwd="/"
    )
    return int(done.stdout)


SECOND, PACK = {"folders": ["first", "second"]}, {"pack": "pack"}
LARGE = {"fanouts": [15, 10], "batch_size": 512, "epochs": 3}


@pytest.mark.parametrize(
    ("allowance", "scenario"),
    [
        pytest.param(420, {"workers": 2, **LARGE}, id="two workers"),
        pytest.param(420, {"workers": 2, "persistent": True, **LARGE}, id="persistent workers"),
        pytest.param(200, {"after": 120 * MB}, id="an allocation after the loop"),
        pytest.param(200, {"inside": 120 * MB, "epochs": 3}, id="an allocation for every batch"),
        pytest.param(200, {"hold": 125 * MB, "epochs": 3}, id="an allocation that stays"),
        pytest.param(260, {**SECOND, "inside": 40 * MB}, id="two datasets"),
        pytest.param(260, {**PACK, "inside": 40 * MB}, id="a pack and its features"),
        pytest.param(900, {"workers": 2, "ranks": 2, "inside": 40 * MB, **LARGE}, id="two ranks"),
        pytest.param(
            200,
            {"inside": 80 * MB, "prefetch": {"strategy": "pread", "resident": 1.0}},
            id="rows that were asked to be resident",
        ),
        pytest.param(
            200,
            {"inside": 80 * MB, "prefetch": {"strategy": "willneed", "resident": 0.5}},
            id="rows through the page cache",
        ),
    ],
)
def test_nobody_is_killed(
    inputs: dict[str, str], own: int, allowance: int, scenario: dict[str, Any]
) -> None:
    """The allowance has room for batches in flight and allocations, and not for the rows."""
    named = {"folders": ["first"], **scenario}
    named["folders"] = [inputs[name] for name in named["folders"]]
    if "pack" in named:
        named["pack"] = inputs[named["pack"]]
    for folder in named["folders"]:
        for path in Path(folder).iterdir():
            files.drop_from_cache(path)
    try:
        with memory_group(own + allowance * MB) as group:
            done = subprocess.run(
                [*group.prefix, sys.executable, str(PROGRAM), json.dumps(named)],
                capture_output=True,
                text=True,
                check=False,
            )
            kills = group.kills()
    except NoMemoryGroup as error:
        pytest.skip(str(error))
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    assert kills == 0
    assert json.loads(done.stdout)["left"] <= (allowance + 16) * MB
