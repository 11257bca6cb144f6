"""Features larger than memory: a limit that the kernel keeps, and nobody is killed under it."""

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
from graphzero.report.limited_memory import NoMemoryGroup, limited_group

pytestmark = [
    pytest.mark.extended,
    pytest.mark.no_asan,  # its own memory is many times that of the program
]

NODES, DIM, SEEDS = 524_288, 128, 6400
MB = 1 << 20
ALLOWANCE = NODES * DIM * 4 // 4  # a quarter of the features, 64 MiB
PROGRAM = Path(__file__).with_name("limited_program.py")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two datasets in hot order, and a pack of the first."""
    found = {}
    for name in ("first", "second"):
        rng = np.random.default_rng(len(found))
        folder = tmp_path_factory.mktemp("limited") / name
        edges = files.random_edges(NODES, 3_000_000)
        well_connected = np.flatnonzero(np.bincount(edges[:, 1], minlength=NODES) >= 4)
        train = rng.permutation(well_connected)[:SEEDS]
        features = rng.standard_normal((NODES, DIM), dtype=np.float32)
        with gz.build(folder, edges, features, splits={"train": train}) as ds:
            if not found:
                options: dict[str, Any] = {"epochs": 1, "batch_size": 256, "resident": 0.4}
                found["pack"] = str(gz.pack(ds, folder / "p.gd", train, [10, 5], **options))
        found[name] = str(folder)
    return found


def run(scenario: dict[str, Any], prefix: Sequence[str] = ()) -> dict[str, Any]:
    """What the program says of itself; it begins with nothing of its folders in the page cache."""
    for folder in scenario["folders"]:
        for path in Path(folder).iterdir():
            files.drop_from_cache(path)
    command = [*prefix, sys.executable, str(PROGRAM), json.dumps(scenario)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.returncode}: {done.stderr}"
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def run_in_group(limit: int, scenario: dict[str, Any]) -> dict[str, Any]:
    """The same under a limit of the kernel, where nobody may be killed."""
    try:
        with limited_group(limit) as group:
            found = run(scenario, group.prefix)
            assert group.kills() == 0
    except NoMemoryGroup as error:
        pytest.skip(str(error))
    return found


def shuffled(folder: str, **prefetch: Any) -> dict[str, Any]:
    return {"folders": [folder], "shuffle": True, "threads": 2, "prefetch": prefetch}


@pytest.fixture(scope="module")
def unlimited(inputs: dict[str, str]) -> dict[str, Any]:
    """What there is to expect, read by page faults and without a limit."""
    return run(shuffled(inputs["first"], strategy="none", lookahead=0))


@pytest.mark.parametrize(
    ("strategy", "memory_limit", "group"),
    [("auto", None, None), ("auto", None, 1), ("uring", 48 * MB, None), ("pread", None, 1)],
)
def test_a_quarter_of_the_features_is_enough(inputs, unlimited, strategy, memory_limit, group):
    options = {"strategy": strategy, "memory_limit": memory_limit, "group": group}
    options["resident"] = None if strategy == "auto" else 1.0
    # its own memory, before it opens anything, and the allowance
    found = run_in_group(unlimited["own"] + ALLOWANCE, shuffled(inputs["first"], **options))
    assert found["batches"] == unlimited["batches"]
    assert found["left"] <= ALLOWANCE + MB
    # a later epoch, which knows the memory better, may have groups in place of rows
    to_the_end = group is not None or memory_limit is not None
    limit = found["left"] if memory_limit is None else memory_limit
    check_kept(found, limit, by_kernel=memory_limit is None, to_the_end=to_the_end)


def check_kept(found: dict[str, Any], limit: int, *, by_kernel: bool, to_the_end: bool) -> None:
    """Rows are kept within the limit, and to the end."""
    most = max(found["kept"])
    assert most >= 8 * MB, found["io"]
    # What batches have given back is there for the next ones, and does not drive rows out.
    assert not to_the_end or found["kept"][-1] > 0.6 * most, found["io"]
    if by_kernel:  # it takes rows back at a peak of other memory
        assert found["growth"] < limit, found["io"]
        assert found["together"] < limit, found["io"]
    else:
        assert found["growth"] + most < limit, found["io"]


@pytest.mark.parametrize("strategy", ["auto", "pread"])
def test_a_limit_that_is_given_holds_without_a_group(inputs, unlimited, strategy):
    limit = 48 * MB
    options = {"strategy": strategy, "resident": 1.0, "memory_limit": limit}
    found = run(shuffled(inputs["first"], **options))
    assert found["batches"] == unlimited["batches"]
    assert found["left"] > 3 * limit
    check_kept(found, limit, by_kernel=False, to_the_end=True)


LARGE = {"fanouts": [15, 10], "batch_size": 512, "epochs": 3}
DIRECT, CACHED = {"strategy": "pread", "resident": 1.0}, {"strategy": "willneed", "resident": 0.5}
SCENARIOS: dict[str, tuple[int, dict[str, Any]]] = {  # with the allowance in megabytes
    "two workers": (420, {"workers": 2, **LARGE}),
    "persistent workers": (420, {"workers": 2, "persistent": True, **LARGE}),
    "an allocation after the loop": (200, {"after": 120 * MB}),
    "an allocation for every batch": (200, {"inside": 120 * MB, "epochs": 3}),
    "an allocation that stays": (200, {"hold": 125 * MB, "epochs": 3}),
    "training and validation": (260, {"folders": ["first", "first"], "inside": 40 * MB}),
    "both with workers": (560, {"folders": ["first", "first"], "workers": 2, **LARGE}),
    "two datasets": (260, {"folders": ["first", "second"], "inside": 40 * MB}),
    "a pack and its features": (260, {"pack": "pack", "inside": 40 * MB}),
    "two ranks": (900, {"workers": 2, "ranks": 2, "inside": 40 * MB, **LARGE}),
    "resident rows": (200, {"inside": 80 * MB, "prefetch": DIRECT}),
    "the page cache": (200, {"inside": 80 * MB, "prefetch": CACHED}),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_nobody_is_killed_for_what_is_kept(inputs, unlimited, name):
    """The allowance has memory for batches in flight and allocations, and not for the rows."""
    allowance, scenario = SCENARIOS[name]
    named = {"folders": ["first"], **scenario}
    named["folders"] = [inputs[folder] for folder in named["folders"]]
    if "pack" in named:
        named["pack"] = inputs[named["pack"]]
    found = run_in_group(unlimited["own"] + allowance * MB, named)
    assert found["left"] <= (allowance + 16) * MB
